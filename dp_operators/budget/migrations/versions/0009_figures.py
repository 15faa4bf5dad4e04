"""A committed charge has the headline figures of its release; see ``guards_of_0009``."""

import sqlalchemy as sa
from alembic import op

from dp_operators.budget.migrations.guards_of_0009 import CHARGERS, FUNCTIONS

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("charges", sa.Column("figures", sa.Text))
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    for function in FUNCTIONS:
        connection.exec_driver_sql(function.replace("{schema}", schema))
    for (role,) in connection.exec_driver_sql(CHARGERS).all():
        connection.exec_driver_sql(f"GRANT UPDATE (figures) ON charges TO {role}")
