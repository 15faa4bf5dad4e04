"""On a server the log is the server's: who may charge cannot stop it, spoil it, or leave anything out of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dp_operators.budget import Charge, ChargeState, LedgerFrozen, NotAllowed, PrivacyLedger
from dp_operators.budget.tables.audit import entry_hash
from tests.support.ledgers import DRAW, execute, tamper

pytestmark = pytest.mark.postgres
DAY = "2026-11-21"
REFUSED = psycopg.errors.InsufficientPrivilege
OTHER = "e" * 64


@pytest.fixture
def reserved(owner: PrivacyLedger) -> Charge:
    return owner.reserve("visits", release="mine", epsilon="0.125", blocks=DAY)


@pytest.fixture
def charging(as_role: Callable[..., str], reserved: Charge) -> Iterator[psycopg.Connection]:
    """A connection of the least role that charges: one account's."""
    with psycopg.connect(as_role("charge", account="visits"), autocommit=True) as connection:
        yield connection


STOPS_OR_SPOILS = [
    "UPDATE audit_head SET seq = 1000000",
    "UPDATE audit_head SET hash = 'x'",
    "UPDATE audit_head SET frozen = 'stopped'",
    "SELECT FROM audit_head FOR UPDATE",
    "SELECT hold_ledger()",
    "INSERT INTO audit_log (at, actor, action, account, charge, reason, details)"
    " VALUES ('', '', 'reserved', 'visits', 'x', '', '{}')",
    "INSERT INTO audit_log (at, actor, action, account, charge, reason, details)"
    " VALUES ('', '', 'frozen', '', '', 'stopped', '{}')",
    f"SELECT freeze_forgotten(7, '{OTHER}', '{OTHER}', '', 'stopped')",
    f"SELECT freeze_forgotten(1, '{OTHER}', NULL, '', 'stopped')",
    "SELECT freeze_forgotten(1, (SELECT hash FROM audit_log WHERE seq = 1), '', '', 'stopped')",
    "SELECT seal_of(7, repeat('e', 64))",
    "SELECT secret FROM seal_secret",
    "CREATE TEMP TABLE mine (LIKE audit_log); CREATE TRIGGER mine BEFORE INSERT ON mine FOR EACH ROW"
    " EXECUTE FUNCTION append_entry()",
    "INSERT INTO run_keys VALUES ('x', 'x')",
    "UPDATE run_keys SET run_key = 'x'",
    "DELETE FROM run_keys",
    "UPDATE charges SET blocks = '[]'",
]


@pytest.mark.parametrize("statement", STOPS_OR_SPOILS)
def test_charger_neither_stops_the_ledger_nor_spoils_its_log(
    charging: psycopg.Connection, owner: PrivacyLedger, statement: str
) -> None:
    head = owner.head()
    with pytest.raises(REFUSED):
        charging.execute(statement)
    assert (owner.head(), owner.frozen()) == (head, "")
    owner.reserve("others", release="goes on", epsilon="0.125")
    assert owner.verification().findings == ()


STARTED: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "a run was started": lambda ledger, charge: ledger.start_run(charge),
    "its draw is known": lambda ledger, charge: ledger.record_draw(charge, DRAW),
}
FORGERIES = [
    "state = 'void'",
    "state = 'void', open_runs = '[]'",
    "state = 'void', draw_sha256 = NULL",
    "open_runs = '[7]'",
    "runs = 0",
    "runs = runs + 2",
    "draw_sha256 = ''",
    f"draw_sha256 = '{OTHER}', manifest_sha256 = 'x'",
    "manifest_sha256 = 'x'",
    "settled_at = 'x'",
    "state = 'committed', draw_sha256 = NULL",
    f"state = 'committed', draw_sha256 = '{OTHER}'",
    f"state = 'burnt', draw_sha256 = '{OTHER}'",
    "state = 'burnt', drawn_events = '{}'",
    "state = 'burnt', figures = '[]'",
    "figures = '[]'",
]


@pytest.mark.sampled("forgery", "start")
@pytest.mark.parametrize("start", STARTED)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_charger_gives_nothing_back_that_may_have_been_drawn(
    charging: psycopg.Connection, owner: PrivacyLedger, reserved: Charge, start: str, forgery: str
) -> None:
    STARTED[start](owner, reserved.id)
    if "draw" in start:
        owner.start_run(reserved.id)
    before, head = owner.charge(reserved.id), owner.head()
    with pytest.raises(REFUSED, match="permission denied for table charges"):
        charging.execute(f"UPDATE charges SET {forgery} WHERE id = '{reserved.id}'")
    assert (owner.charge(reserved.id), owner.head()) == (before, head)
    assert owner.verification().findings == ()


def test_what_a_charger_writes_with_sql_of_its_own_is_in_the_log(
    charging: psycopg.Connection, owner: PrivacyLedger, reserved: Charge
) -> None:
    for change in (
        "runs = runs + 1, open_runs = 'mine', changed_by = 'Zoë'",
        "renewed_at = 'tomorrow'",
        "open_runs = '[]'",
        f"draw_sha256 = '{DRAW}', change_reason = '\U0001f600 \\ \"'",
        "state = 'burnt', settled_at = 'x', drawn_events = '[ {\"mechanism\": \"pure\"} ]'",
    ):
        charging.execute(f"UPDATE charges SET {change} WHERE id = '{reserved.id}'")
    told = [(entry.action, entry.actor, entry.reason) for entry in owner.log("visits") if entry.charge == reserved.id]
    assert told == [
        ("reserved", "", ""),
        ("run started", "Zoë", ""),
        ("run ended", "Zoë", ""),
        ("draw recorded", "Zoë", '\U0001f600 \\ "'),
        ("burnt", "Zoë", '\U0001f600 \\ "'),
    ]
    charge = owner.charge(reserved.id)
    assert (charge.state, charge.open_runs, charge.drawn_events) == (ChargeState.BURNT, (), ({"mechanism": "pure"},))
    assert str(charge.settled_at) > charge.reserved_at
    assert owner.verification().findings == ()


FUNCTIONS_OF_ONES_OWN = [
    "CREATE SCHEMA evil",
    "CREATE FUNCTION evil.to_json(value text) RETURNS json LANGUAGE sql AS $$ SELECT '\"evil\"'::json $$",
    "CREATE FUNCTION evil.encode(value bytea, form text) RETURNS text LANGUAGE sql AS $$ SELECT 'evil' $$",
    "SET search_path = evil, pg_catalog, public",
]


def test_functions_of_a_chargers_own_do_not_falsify_the_log(
    charging: psycopg.Connection, owner: PrivacyLedger, postgres_url: str, reserved: Charge
) -> None:
    """A server keeps the plans of a function for a whole session, also those made with the caller's search path."""

    def call_with_own_functions() -> None:
        for _ in range(7):  # a server plans anew five times before it keeps a plan
            assert charging.execute("SELECT public.json_text('abc')").fetchone() == ('"evil"',)

    execute(postgres_url, f'GRANT CREATE ON DATABASE "{charging.info.dbname}" TO "{charging.info.user}"')
    for statement in FUNCTIONS_OF_ONES_OWN:
        charging.execute(statement)
    call_with_own_functions()
    run = "runs = runs + 1, open_runs = 'mine', changed_by = 'Eve'"
    for change in (run, f"draw_sha256 = '{DRAW}'"):
        charging.execute(f"UPDATE public.charges SET {change} WHERE id = '{reserved.id}'")
        call_with_own_functions()
    told = [entry for entry in owner.log("visits") if entry.charge == reserved.id]
    assert [entry.action for entry in told] == ["reserved", "run started", "draw recorded"]
    assert [entry.hash for entry in told] == [entry_hash(asdict(entry)) for entry in told]
    assert owner.verification().findings == ()


def test_freeze_binds_sql_of_ones_own(charging: psycopg.Connection, owner: PrivacyLedger, reserved: Charge) -> None:
    other = owner.reserve("visits", release="started", epsilon="0.125", blocks=DAY)
    owner.record_draw(other.id, DRAW)
    owner.freeze(reason="it was restored")
    before = owner.history("visits")
    for change in (
        "runs = runs + 1",
        f"draw_sha256 = '{OTHER}'",
        "state = 'burnt'",
        "state = 'void'",
    ):
        with pytest.raises(psycopg.Error, match="the ledger is frozen: it was restored"):
            charging.execute(f"UPDATE charges SET {change} WHERE id = '{reserved.id}'")
    with pytest.raises(psycopg.Error, match="the ledger is frozen"):
        charging.execute(f"UPDATE charges SET state = 'committed' WHERE id = '{other.id}'")
    row = {"id": "new", "account": "visits", "release_key": "new", "generation": 1, "entry": 1, "state": "reserved"}
    row |= {"epsilon": "0.125", "delta": "0", "blocks": json.dumps([DAY]), "events": "[]", "request_sha256": "ab"}
    row |= {"actor": "", "reserved_at": "", "renewed_at": ""}
    reserve = f"INSERT INTO charges ({', '.join(row)}) VALUES ({', '.join(f'%({name})s' for name in row)})"
    with pytest.raises(psycopg.Error, match="the ledger is frozen"):
        charging.execute(reserve, row)
    assert owner.history("visits") == before
    assert owner.verification().findings == ()


def test_secrets_of_runs_are_for_those_who_may_charge_the_account(
    as_role: Callable[..., str], owner: PrivacyLedger, reserved: Charge
) -> None:
    key = owner.run_key(reserved.id)
    chargers = [{"may": "charge"}, {"may": "charge", "account": "visits"}]
    for part in chargers:
        mine = PrivacyLedger(as_role(**part))
        assert mine.run_key(reserved.id) == mine.start_run(reserved.id).key == key
        mine.close()
    with psycopg.connect(as_role("view"), autocommit=True) as connection, pytest.raises(REFUSED):
        connection.execute("SELECT run_key FROM run_keys")
    for part in ({"may": "charge", "account": "others"}, {"may": "charge", "account": "visits", "allotment": "team"}):
        with psycopg.connect(as_role(**part), autocommit=True) as connection:
            assert connection.execute("SELECT run_key FROM run_keys WHERE charge = %s", [reserved.id]).fetchall() == []


def test_charger_freezes_a_ledger_by_what_the_server_itself_once_sealed(
    as_role: Callable[..., str], owner: PrivacyLedger, postgres_url: str
) -> None:
    mine = PrivacyLedger(as_role("charge", account="visits"))
    lost = mine.reserve("visits", release="lost", epsilon="0.125", blocks=DAY)
    entry = mine.entry(lost.entry)
    assert entry is not None
    seal = mine.seal(entry)
    told = {"actor": "worker", "reason": "the store remembers more"}
    with pytest.raises(NotAllowed, match="no entry was forgotten"):
        mine.freeze_forgotten(entry.seq, entry.hash, seal, **told)
    head = execute(postgres_url, "SELECT seq, previous, hash FROM audit_log ORDER BY seq DESC OFFSET 1 LIMIT 1")[0]
    tamper(
        postgres_url,
        f"DELETE FROM run_keys WHERE charge = '{lost.id}'",
        f"DELETE FROM charges WHERE id = '{lost.id}'",
        "DELETE FROM block_totals WHERE account = 'visits' AND block <> 'all'",
        f"DELETE FROM audit_log WHERE seq = {entry.seq}",
        f"UPDATE audit_head SET seq = {head[0]}, previous = '{head[1]}', hash = '{head[2]}'",
    )
    assert owner.verification().findings == ()
    for forged in ((entry.seq + 1, entry.hash, seal), (entry.seq, OTHER, seal), (entry.seq, entry.hash, OTHER)):
        with pytest.raises(NotAllowed, match="no entry was forgotten"):
            mine.freeze_forgotten(*forged, **told)
    assert owner.frozen() == ""
    mine.freeze_forgotten(entry.seq, entry.hash, seal, **told)
    mine.freeze_forgotten(entry.seq, entry.hash, seal, **told)
    assert owner.frozen() == "the store remembers more"
    with pytest.raises(LedgerFrozen):
        mine.reserve("visits", release="next", epsilon="0.125", blocks=DAY)
    assert owner.verification().findings == ()
    mine.close()


texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts, texts, texts)
@example("\x7f\x80\u2028é\U0001f600", '\\"/\b\f\n\r\t\x01', "")
def test_server_hashes_an_entry_as_the_documentation_says(
    owner: PrivacyLedger, postgres_url: str, actor: str, reason: str, text: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO audit_log (at, actor, action, account, charge, reason, details)"
            " VALUES ('', %s, 'x', 'visits', '', %s, %s)",
            [actor, reason, json.dumps({"text": text}, ensure_ascii=False)],
        )
    entry = owner.log()[-1]
    assert (entry.seq, entry.hash) == (owner.head().seq, owner.head().hash)
    assert entry.hash == entry_hash(asdict(entry))
