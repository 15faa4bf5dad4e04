"""What an account's tables are and where its releases may go, registered lists of keys, and what a charge's runs did."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("accounts", sa.Column("outputs", sa.Text, nullable=False, server_default="[]"))
    op.add_column("account_tables", sa.Column("binding", sa.Text))
    op.add_column("charges", sa.Column("runs", sa.Integer, nullable=False, server_default="0"))
    op.add_column("charges", sa.Column("open_runs", sa.Text, nullable=False, server_default="[]"))
    op.add_column("charges", sa.Column("draw_sha256", sa.Text))
    # earlier versions did not say when an application was started, or which draw was whose
    op.execute("UPDATE charges SET runs = 1, open_runs = '[1]'")
    op.create_table(
        "key_lists",
        sa.Column("account", sa.Text, sa.ForeignKey("accounts.name"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("keys", sa.Text, nullable=False),
        sa.Column("registered_at", sa.Text, nullable=False),
        sa.Column("registered_by", sa.Text, nullable=False),
    )
    op.create_table(
        "run_keys",
        sa.Column("charge", sa.Text, sa.ForeignKey("charges.id"), primary_key=True),
        sa.Column("run_key", sa.Text, nullable=False),
    )
