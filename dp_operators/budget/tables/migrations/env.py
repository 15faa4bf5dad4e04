"""Alembic's environment: it uses the connection and the transaction of ``migrate``."""

from alembic import context

from dp_operators.budget.tables.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
