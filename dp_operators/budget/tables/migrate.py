"""Creates the ledger's tables, or upgrades them to the schema of this version."""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection

from dp_operators.budget.tables.database import Database, require_release, revision_in

_ONE_AT_A_TIME = threading.Lock()  # alembic keeps its state in the process


def migrate(database: Database) -> None:
    """Upgrade the ledger to this version's schema, completely or not at all.

    Raises:
        InvalidRequest: the ledger is newer than this program or was made before 0.1.0, or this is Airflow's metadata
            database.
        LedgerUnavailable: the database cannot be reached, or stays locked.
    """

    def upgrade(connection: Connection) -> None:
        from alembic import command
        from alembic.config import Config

        revision = revision_in(connection)
        if revision is not None:
            require_release(revision, database.name)
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    with _ONE_AT_A_TIME:
        database.migrating(upgrade)
