"""Blocks that appear when they are charged, compositions beside pure, allotments, and a ledger that can be frozen."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("accounts", sa.Column("blocks", sa.Text))
    op.add_column("accounts", sa.Column("unit_stays", sa.Integer, nullable=False, server_default="1"))
    op.add_column("accounts", sa.Column("slack", sa.Text, nullable=False, server_default="0"))
    op.add_column("charges", sa.Column("allotment", sa.Text, nullable=False, server_default=""))
    op.add_column("audit_head", sa.Column("frozen", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "allotments",
        sa.Column("account", sa.Text, sa.ForeignKey("accounts.name"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("epsilon", sa.Text, nullable=False),
        sa.Column("delta", sa.Text, nullable=False),
        sa.Column("rho", sa.Text),
        sa.Column("slack", sa.Text, nullable=False),
    )
    # SQLite cannot change a primary key: the table is made anew
    op.execute("CREATE TABLE totals_of_0001 AS SELECT account, block, epsilon, delta, rho FROM block_totals")
    op.drop_table("block_totals")
    op.create_table(
        "block_totals",
        sa.Column("account", sa.Text, sa.ForeignKey("accounts.name"), primary_key=True),
        sa.Column("allotment", sa.Text, primary_key=True),
        sa.Column("block", sa.Text, primary_key=True),
        sa.Column("epsilon", sa.Text, nullable=False),
        sa.Column("delta", sa.Text, nullable=False),
        sa.Column("rho", sa.Text),
    )
    op.execute(
        "INSERT INTO block_totals (account, allotment, block, epsilon, delta, rho)"
        " SELECT account, '', block, epsilon, delta, rho FROM totals_of_0001"
    )
    op.drop_table("totals_of_0001")
