"""The ledger's tables, as its queries see them; ``migrations`` makes them.

Every amount is a decimal written out in full, in text: SQLite would keep it as a float, and a sum that a database
rounds is a lost cost. Amounts are added in Python.
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

REVISION = "0005"
"""The alembic revision that this version of the program works with."""

VERSION_TABLE = "ledger_version"

metadata = MetaData()

accounts = Table(
    "accounts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("composition", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("rho", Text),
    Column("neighbours", Text, nullable=False),
    Column("unit_column", Text),
    Column("unit_max_rows", Integer, nullable=False),
    Column("opened_at", Text, nullable=False),
    Column("opened_by", Text, nullable=False),
    # canonical JSON of the block expression
    Column("blocks", Text),
    Column("unit_stays", Integer, nullable=False, server_default="1"),
    Column("slack", Text, nullable=False, server_default="0"),
    Column("public_sizes", Integer, nullable=False, server_default="0"),
    # canonical JSON of the folders that its releases may go to
    Column("outputs", Text, nullable=False, server_default="[]"),
)

account_tables = Table(
    "account_tables",
    metadata,
    # the key says it: a table belongs to at most one account
    Column("identity", Text, primary_key=True),
    Column("account", Text, ForeignKey("accounts.name"), nullable=False, index=True),
    # canonical JSON of what the table is; NULL where nobody has said so yet
    Column("binding", Text),
)

key_lists = Table(
    "key_lists",
    metadata,
    Column("account", Text, ForeignKey("accounts.name"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("sha256", Text, nullable=False),
    # canonical JSON
    Column("keys", Text, nullable=False),
    Column("registered_at", Text, nullable=False),
    Column("registered_by", Text, nullable=False),
)

block_totals = Table(
    "block_totals",
    metadata,
    Column("account", Text, ForeignKey("accounts.name"), primary_key=True),
    # empty for what the account itself has spent
    Column("allotment", Text, primary_key=True),
    Column("block", Text, primary_key=True),
    # reserved, committed and burnt together
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("rho", Text),
)

allotments = Table(
    "allotments",
    metadata,
    Column("account", Text, ForeignKey("accounts.name"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("rho", Text),
    Column("slack", Text, nullable=False),
)

charges = Table(
    "charges",
    metadata,
    Column("id", Text, primary_key=True),
    Column("account", Text, ForeignKey("accounts.name"), nullable=False),
    Column("release_key", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("entry", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("rho", Text),
    Column("blocks", Text, nullable=False),
    Column("events", Text, nullable=False),
    Column("request_sha256", Text, nullable=False),
    Column("manifest_sha256", Text),
    Column("actor", Text, nullable=False),
    Column("reserved_at", Text, nullable=False),
    Column("renewed_at", Text, nullable=False),
    Column("settled_at", Text),
    Column("allotment", Text, nullable=False, server_default=""),
    # what the draw says that its mechanisms spent, told at the commit; ``events`` is what was planned
    Column("drawn_events", Text),
    # how many times an application was started for it, and the numbers of those that may have read a row
    Column("runs", Integer, nullable=False, server_default="0"),
    Column("open_runs", Text, nullable=False, server_default="[]"),
    # the hash of its one draw; empty where a restored ledger knows only that there was one
    Column("draw_sha256", Text),
    # who changed it last and why, for the server to enter into the log
    Column("changed_by", Text, nullable=False, server_default=""),
    Column("change_reason", Text, nullable=False, server_default=""),
    CheckConstraint("state IN ('reserved', 'committed', 'burnt', 'void')", name="charge_state"),
    UniqueConstraint("account", "release_key", "generation", name="charge_generation"),
)

# a second line of defence for I2: one charge of a release key lives, whatever the program does
Index(
    "charge_alive",
    charges.c.account,
    charges.c.release_key,
    unique=True,
    sqlite_where=text("state <> 'void'"),
    postgresql_where=text("state <> 'void'"),
)

# a table of its own, so that who may see charges need not see what opens their drafts
run_keys = Table(
    "run_keys",
    metadata,
    Column("charge", Text, ForeignKey("charges.id"), primary_key=True),
    Column("run_key", Text, nullable=False),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("account", Text, nullable=False, index=True),
    Column("charge", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

# one row, nobody's to read: a server seals entries with it, so that a store can show what a restored ledger forgot
seal_secret = Table(
    "seal_secret",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("secret", Text, nullable=False),
    CheckConstraint("id = 1", name="seal_secret_is_one_row"),
)

# one row, the last entry's; every change moves it, so that changes happen one after the other
audit_head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", Integer, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    # why nothing may be written for now; empty where all may
    Column("frozen", Text, nullable=False, server_default=""),
    CheckConstraint("id = 1", name="audit_head_is_one_row"),
)
