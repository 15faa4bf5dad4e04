"""The ledger of 0.1.0. Numbers up to 0009 are of commits before it, whose ledgers are not upgraded."""

import secrets

import sqlalchemy as sa
from alembic import op

from dp_operators.budget.tables.migrations import (
    guards_of_charges, guards_of_log, guards_of_steps, guards_of_totals, writes_of_charges,
)

revision = "0010"
down_revision = None
branch_labels = None
depends_on = None

GENESIS = "0" * 64
FUNCTIONS = (
    guards_of_log.SEAL_ENTRY,
    guards_of_log.FREEZE_FORGOTTEN,
    guards_of_log.JSON_TEXT,
    guards_of_log.APPEND_ENTRY,
    guards_of_log.HOLD_LEDGER,
    guards_of_totals.IS_BLOCK,
    guards_of_totals.BLOCK_LIST,
    guards_of_totals.MOVE_TOTALS,
    guards_of_totals.ONLY_BY_CHARGES,
    guards_of_charges.IS_EVENTS,
    guards_of_charges.RESERVE_CHARGE,
    guards_of_charges.GIVE_KEY,
    guards_of_charges.CHANGE_CHARGE,
    guards_of_steps.RECORD_STEPS,
    guards_of_steps.STEPS_STAY,
    writes_of_charges.RESERVE_AT_ONCE,
    writes_of_charges.CHANGE_AT_ONCE,
)
# whoever may run one as a trigger of a table of their own could move totals by any amount, or write any entry
NOBODYS = (
    "REVOKE ALL ON FUNCTION append_entry(), move_totals(), reserve_charge(), give_run_key(), change_charge(),"
    " hold_ledger(), record_steps(), steps_stay(), seal_of(integer, text), seal_entry(integer, text),"
    " freeze_forgotten(integer, text, text, text, text) FROM PUBLIC"
)
TRIGGERS = (
    "charge_is_reserved BEFORE INSERT ON charges FOR EACH ROW EXECUTE FUNCTION reserve_charge()",
    "charge_is_given_a_key AFTER INSERT ON charges FOR EACH ROW EXECUTE FUNCTION give_run_key()",
    "charge_moves_totals AFTER INSERT ON charges FOR EACH ROW EXECUTE FUNCTION move_totals()",
    "charge_changes BEFORE UPDATE ON charges FOR EACH ROW EXECUTE FUNCTION change_charge()",
    "void_moves_totals AFTER UPDATE OF state ON charges FOR EACH ROW"
    " WHEN (OLD.state = 'reserved' AND NEW.state = 'void') EXECUTE FUNCTION move_totals()",
    "charges_alone_move_totals BEFORE UPDATE ON block_totals FOR EACH ROW"
    " WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION only_by_charges()",
    "entry_is_appended BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION append_entry()",
    "steps_are_recorded BEFORE INSERT ON stream_steps FOR EACH ROW EXECUTE FUNCTION record_steps()",
    "steps_stay BEFORE UPDATE OR DELETE ON stream_steps FOR EACH ROW EXECUTE FUNCTION steps_stay()",
)


def text(name: str, default: str | None = None) -> sa.Column:
    return sa.Column(name, sa.Text, nullable=False, server_default=default)


def number(name: str, default: str | None = None) -> sa.Column:
    return sa.Column(name, sa.Integer, nullable=False, server_default=default)


def maybe(name: str) -> sa.Column:
    return sa.Column(name, sa.Text)


def key(name: str, references: str | None = None) -> sa.Column:
    return sa.Column(name, sa.Text, *([sa.ForeignKey(references)] if references else []), primary_key=True)


def numbered(name: str) -> sa.Column:
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)


def of_account() -> sa.Column:
    return sa.Column("account", sa.Text, sa.ForeignKey("accounts.name"), nullable=False)


def upgrade() -> None:
    """Create all tables, then their guards, which on PostgreSQL are functions and triggers."""
    accounts()
    charges()
    log()
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        for statement in guards_of_steps.ON_SQLITE:
            connection.exec_driver_sql(statement)
        return
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    for function in FUNCTIONS:
        connection.exec_driver_sql(function.replace("{schema}", schema))
    for statement in (NOBODYS, *(f"CREATE TRIGGER {trigger}" for trigger in TRIGGERS)):
        connection.exec_driver_sql(statement)


def accounts() -> None:
    """Accounts, their tables, key lists, allotments and the totals of their blocks."""
    op.create_table(
        "accounts",
        key("name"), text("composition"), text("epsilon"), text("delta"), maybe("rho"), text("neighbours"),
        maybe("unit_column"), number("unit_max_rows"), text("opened_at"), text("opened_by"), maybe("blocks"),
        number("unit_stays", "1"), text("slack", "0"), number("public_sizes", "0"), text("outputs", "[]"),
        number("requester_approves", "0"),
    )
    op.create_table("account_tables", key("identity"), of_account(), maybe("binding"))
    op.create_index("ix_account_tables_account", "account_tables", ["account"])
    op.create_table(
        "key_lists",
        key("account", "accounts.name"), key("name"), text("sha256"), text("keys"), text("registered_at"),
        text("registered_by"),
    )
    op.create_table(
        "allotments",
        key("account", "accounts.name"), key("name"), text("epsilon"), text("delta"), maybe("rho"), text("slack"),
    )
    op.create_table(
        "block_totals",
        key("account", "accounts.name"), key("allotment"), key("block"), text("epsilon"), text("delta"), maybe("rho"),
    )


def charges() -> None:
    """Charges, the keys of their runs, and the steps of their streams."""
    op.create_table(
        "charges",
        key("id"), of_account(), text("release_key"), number("generation"), number("entry"), text("state"),
        text("epsilon"), text("delta"), maybe("rho"), text("blocks"), text("events"), text("request_sha256"),
        maybe("manifest_sha256"), text("actor"), text("reserved_at"), text("renewed_at"), maybe("settled_at"),
        text("allotment", ""), maybe("drawn_events"), number("runs", "0"), text("open_runs", "[]"),
        maybe("draw_sha256"), text("changed_by", ""), text("change_reason", ""), maybe("figures"),
        sa.CheckConstraint("state IN ('reserved', 'committed', 'burnt', 'void')", name="charge_state"),
        sa.UniqueConstraint("account", "release_key", "generation", name="charge_generation"),
    )
    alive = sa.text("state <> 'void'")
    op.create_index(
        "charge_alive", "charges", ["account", "release_key"], unique=True, sqlite_where=alive, postgresql_where=alive
    )
    op.create_table("run_keys", key("charge", "charges.id"), text("run_key"))
    op.create_table(
        "stream_steps",
        key("charge", "charges.id"), numbered("first"), number("steps"), text("object_sha256"),
        text("previous_sha256"), number("restored", "0"), text("recorded_at"), text("recorded_by"), text("reason", ""),
    )


def log() -> None:
    """The audit log, its head, and the secret that seals the chain."""
    op.create_table(
        "audit_log",
        numbered("seq"), text("at"), text("actor"), text("action"), text("account"), text("charge"), text("reason"),
        text("details"), text("previous"), text("hash"),
    )
    op.create_index("ix_audit_log_account", "audit_log", ["account"])
    head = op.create_table(
        "audit_head",
        numbered("id"), number("seq"), text("previous"), text("hash"), text("frozen", ""), text("moved", ""),
        sa.CheckConstraint("id = 1", name="audit_head_is_one_row"),
    )
    op.bulk_insert(head, [{"id": 1, "seq": 0, "previous": GENESIS, "hash": GENESIS}])
    sealing = op.create_table(
        "seal_secret", numbered("id"), text("secret"), sa.CheckConstraint("id = 1", name="seal_secret_is_one_row")
    )
    op.bulk_insert(sealing, [{"id": 1, "secret": secrets.token_hex(32)}])
