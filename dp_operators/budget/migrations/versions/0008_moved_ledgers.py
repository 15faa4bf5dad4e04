"""A ledger that was moved keeps where it went, and accepts nothing any more; see ``dp_operators.budget.transfer``."""

import sqlalchemy as sa
from alembic import op

from dp_operators.budget.migrations.guards_of_0008 import APPEND_UNMOVED

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit_head", sa.Column("moved", sa.Text, nullable=False, server_default=""))
    # earlier versions only froze it
    op.execute("UPDATE audit_head SET moved = substr(frozen, 10) WHERE frozen LIKE 'moved to %'")
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
        connection.exec_driver_sql(APPEND_UNMOVED.replace("{schema}", schema))
