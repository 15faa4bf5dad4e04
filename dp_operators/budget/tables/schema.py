"""The ledger's tables as its queries need them; ``migrations`` creates them.

Every amount is stored as text, with all digits of the decimal: SQLite would store a float, and a rounded sum could lose
a cost. Amounts are added in Python.
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

BASELINE = "0010"
"""The alembic revision of 0.1.0; ledgers of lower ones were made by commits before it."""
REVISION = "0010"
"""The alembic revision that this version of the program uses."""

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
    # canonical JSON of the folders that its releases may be written to
    Column("outputs", Text, nullable=False, server_default="[]"),
    # whether a person may approve the higher cap that they asked for
    Column("requester_approves", Integer, nullable=False, server_default="0"),
)

account_tables = Table(
    "account_tables",
    metadata,
    # primary key: a table belongs to at most one account
    Column("identity", Text, primary_key=True),
    Column("account", Text, ForeignKey("accounts.name"), nullable=False, index=True),
    # canonical JSON of the table's binding; NULL until it is described
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
    # empty for the account itself
    Column("allotment", Text, primary_key=True),
    Column("block", Text, primary_key=True),
    # the sum of reserved, committed and burnt costs
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
    # the mechanism events of the draw, written at the commit; ``events`` are the planned ones
    Column("drawn_events", Text),
    # the headline figures of the release, written at the commit; NULL where none were given
    Column("figures", Text),
    # the number of applications started for it, and which of them may have read a row
    Column("runs", Integer, nullable=False, server_default="0"),
    Column("open_runs", Text, nullable=False, server_default="[]"),
    # the hash of its draw; empty if a restored ledger knows only that there was one
    Column("draw_sha256", Text),
    # who changed it last and why, from which the server writes the log entry
    Column("changed_by", Text, nullable=False, server_default=""),
    Column("change_reason", Text, nullable=False, server_default=""),
    CheckConstraint("state IN ('reserved', 'committed', 'burnt', 'void')", name="charge_state"),
    UniqueConstraint("account", "release_key", "generation", name="charge_generation"),
)

# a second defence of I2: at most one charge of a release key is not void, whatever the program does
Index(
    "charge_alive",
    charges.c.account,
    charges.c.release_key,
    unique=True,
    sqlite_where=text("state <> 'void'"),
    postgresql_where=text("state <> 'void'"),
)

# a separate table, so that a role can see charges without the secrets that open their drafts
run_keys = Table(
    "run_keys",
    metadata,
    Column("charge", Text, ForeignKey("charges.id"), primary_key=True),
    Column("run_key", Text, nullable=False),
)

# the objects of a stream, in one chain of hashes for a charge
stream_steps = Table(
    "stream_steps",
    metadata,
    Column("charge", Text, ForeignKey("charges.id"), primary_key=True),
    Column("first", Integer, primary_key=True, autoincrement=False),
    Column("steps", Integer, nullable=False),
    Column("object_sha256", Text, nullable=False),
    Column("previous_sha256", Text, nullable=False),
    # whether a restored ledger had forgotten it
    Column("restored", Integer, nullable=False, server_default="0"),
    Column("recorded_at", Text, nullable=False),
    Column("recorded_by", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
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

# one row that no role can read: the server seals entries with it, so that a store can prove what a restored ledger lost
seal_secret = Table(
    "seal_secret",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("secret", Text, nullable=False),
    CheckConstraint("id = 1", name="seal_secret_is_one_row"),
)

# one row, for the last entry; every change updates it, so changes happen one after another
audit_head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", Integer, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    # why the ledger is frozen; empty if it is not
    Column("frozen", Text, nullable=False, server_default=""),
    # where the ledger was moved to, or which copy this is of a ledger that is being moved; empty for neither
    Column("moved", Text, nullable=False, server_default=""),
    CheckConstraint("id = 1", name="audit_head_is_one_row"),
)
