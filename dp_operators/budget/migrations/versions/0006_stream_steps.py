"""The steps of streams: a chain of hashes for each charge that pays for a stream; see ``guards_of_0006``."""

import sqlalchemy as sa
from alembic import op

from dp_operators.budget.migrations.guards_of_0006 import FUNCTIONS, ON_SQLITE, TRIGGERS

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stream_steps",
        sa.Column("charge", sa.Text, sa.ForeignKey("charges.id"), primary_key=True),
        sa.Column("first", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("object_sha256", sa.Text, nullable=False),
        sa.Column("previous_sha256", sa.Text, nullable=False),
        sa.Column("restored", sa.Integer, nullable=False, server_default="0"),
        sa.Column("recorded_at", sa.Text, nullable=False),
        sa.Column("recorded_by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False, server_default=""),
    )
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        for statement in ON_SQLITE:
            connection.exec_driver_sql(statement)
        return
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    for function in FUNCTIONS:
        connection.exec_driver_sql(function.replace("{schema}", schema))
    for statement in TRIGGERS:
        connection.exec_driver_sql(statement)
