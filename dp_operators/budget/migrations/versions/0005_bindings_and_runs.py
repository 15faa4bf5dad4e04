"""What an account's tables are and where its releases may go, registered lists of keys, and what a charge's runs did.

On PostgreSQL the server writes the audit log from here on; see ``guards_of_0005``.
"""

import secrets

import sqlalchemy as sa
from alembic import op

from dp_operators.budget.migrations.guards_of_0005 import FUNCTIONS, NOBODYS, TRIGGERS, WRITERS

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
    op.add_column("charges", sa.Column("changed_by", sa.Text, nullable=False, server_default=""))
    op.add_column("charges", sa.Column("change_reason", sa.Text, nullable=False, server_default=""))
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
    op.create_table(
        "seal_secret",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.CheckConstraint("id = 1", name="seal_secret_is_one_row"),
    )
    connection = op.get_bind()
    sealing = sa.table("seal_secret", sa.column("id"), sa.column("secret"))
    connection.execute(sealing.insert(), {"id": 1, "secret": secrets.token_hex(32)})
    keys = sa.table("run_keys", sa.column("charge"), sa.column("run_key"))
    for (charge,) in connection.exec_driver_sql("SELECT id FROM charges").all():
        connection.execute(keys.insert(), {"charge": charge, "run_key": secrets.token_hex(32)})
    if connection.dialect.name == "postgresql":
        _guard(connection)


def _guard(connection: sa.Connection) -> None:
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    for function in FUNCTIONS:
        connection.exec_driver_sql(function.replace("{schema}", schema))
    for statement in (NOBODYS, *TRIGGERS):
        connection.exec_driver_sql(statement)
    for role, opens in connection.exec_driver_sql(WRITERS).all():
        connection.exec_driver_sql(f"REVOKE UPDATE ON audit_head FROM {role}")
        connection.exec_driver_sql(f"REVOKE UPDATE{'' if opens else ', INSERT'} ON audit_log FROM {role}")
