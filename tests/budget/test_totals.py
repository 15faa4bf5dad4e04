"""On a server the totals are the server's own: roles that may charge write charges, and nothing else moves a total."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_operators.budget import BudgetExceeded, LedgerUnavailable, PrivacyLedger
from dp_operators.budget.composition import added, fits, limits_of, zero_cost
from dp_operators.budget.tables import database
from dp_operators.budget.tables.grants import PARTS, grants
from dp_operators.budget.transactions import charges as charge_changes
from spark_jobs.contract.privacy import Budget
from tests.support.ledgers import CAPS, COSTS, commit, execute
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.postgres
DAY = "2026-11-21"
ALL = '["all"]'
CHARGE = {
    "account": "visits",
    "release_key": "forged",
    "generation": 1,
    "entry": 99,
    "state": "reserved",
    "epsilon": "0.25",
    "delta": "0",
    "rho": None,
    "blocks": json.dumps([DAY]),
    "events": "[]",
    "request_sha256": "",
    "actor": "",
    "reserved_at": "",
    "renewed_at": "",
    "allotment": "team",
}
_numbers = count()


def write_charge(connection: psycopg.Connection, **changes: Any) -> None:
    """A charge with SQL of one's own, beside the ledger."""
    row = {**CHARGE, "id": f"forged-{next(_numbers)}", **changes}
    values = ", ".join(f"%({name})s" for name in row)
    connection.execute(f"INSERT INTO charges ({', '.join(row)}) VALUES ({values})", row)


@pytest.fixture
def charging(as_role: Callable[..., str], owner: PrivacyLedger) -> Iterator[psycopg.Connection]:
    """A connection of a role that may charge all accounts."""
    owner.open_account("rho", composition="zcdp", rho="0.5", delta="1e-6")
    owner.open_account("both", composition="approximate", epsilon="1", delta="1e-5")
    commit(owner, owner.reserve("visits", release="paid", epsilon="0.5", blocks=DAY, allotment="team").id, "ab")
    owner.reserve("visits", release="open", epsilon="0.125", blocks=DAY)
    with psycopg.connect(as_role("charge"), autocommit=True) as connection:
        yield connection


FORGERIES = [
    "UPDATE block_totals SET epsilon = '0'",
    "UPDATE block_totals SET rho = '0'",
    "INSERT INTO block_totals VALUES ('visits', '', '2026-11-22', '-1', '0', NULL)",
    "SELECT FROM block_totals FOR UPDATE",
    "UPDATE charges SET state = 'void' WHERE release_key = 'paid'",
    "UPDATE charges SET state = 'reserved' WHERE release_key = 'paid'",
    "UPDATE charges SET manifest_sha256 = 'cd' WHERE release_key = 'paid'",
    "UPDATE accounts SET epsilon = '100'",
    "UPDATE accounts SET public_sizes = 1",
    "ALTER TABLE charges DISABLE TRIGGER ALL",
    "DROP TRIGGER charge_moves_totals ON charges",
    "SET session_replication_role = replica",
    "CREATE TEMP TABLE mine (LIKE charges); CREATE TRIGGER mine AFTER INSERT ON mine FOR EACH ROW"
    " EXECUTE FUNCTION move_totals()",
]


@pytest.mark.parametrize("statement", FORGERIES)
def test_no_charger_writes_a_total(charging: psycopg.Connection, owner: PrivacyLedger, statement: str) -> None:
    before = owner.blocks("visits"), owner.blocks("visits", allotment="team")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied|must be owner"):
        charging.execute(statement)
    assert (owner.blocks("visits"), owner.blocks("visits", allotment="team")) == before
    assert owner.verification().findings == ()


EARLIER_STATEMENTS = {
    "reserves": "UPDATE block_totals SET epsilon = (epsilon::numeric + 0.25)::text",
    "gives back": "WITH settled AS (UPDATE charges SET state = 'void' WHERE release_key = 'open' RETURNING id)"
    " UPDATE block_totals SET epsilon = (epsilon::numeric - 0.125)::text FROM settled WHERE allotment = ''",
}


@pytest.mark.parametrize("statement", EARLIER_STATEMENTS.values(), ids=list(EARLIER_STATEMENTS))
def test_process_of_an_earlier_version_that_still_runs_moves_no_total_twice(
    charging: psycopg.Connection, owner: PrivacyLedger, postgres_url: str, statement: str
) -> None:
    with (
        psycopg.connect(postgres_url) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="totals are moved by charges alone"),
    ):
        connection.execute(statement)
    assert owner.verification().findings == ()
    assert [charge.state.value for charge in owner.history("visits")] == ["committed", "reserved"]


NO_COSTS: list[dict[str, Any]] = [
    {"epsilon": "NaN"},
    {"epsilon": "Infinity"},
    {"epsilon": "0x1"},
    {"epsilon": " 0.25"},
    {"epsilon": "0." + "0" * 80 + "1"},
    {"blocks": '["a block of my own"]'},
    {"blocks": '["2026-02-30"]'},
    {"blocks": json.dumps([DAY, DAY])},
    {"blocks": '["all"]'},
    {"blocks": '["2026-11-20..2026-11-22", "2026-11-21"]'},
    {"blocks": '["2026-11-20..2026-11-22", "2026-11-22..2026-11-23"]'},
    {"blocks": '["2026-11-22..2026-11-20"]'},
    {"blocks": '["2026-11-22..2026-11-22"]'},
    {"blocks": '["2026-11-20..2026-11-31"]'},
    {"blocks": '["2026-11-20..2026-11-21..2026-11-22"]'},
    {"blocks": '["2026-10..2026-11"]'},
    {"blocks": '["1900-01-01..9998-12-31"]'},
    {"blocks": '["9999-12-30..9999-12-31"]'},
    {"blocks": '["2026-11-20..2026-11-22", 1]'},
    {"blocks": '["2026-11-21", 1]'},
    {"events": '{"a": 1}'},
    {"events": "[" * 40 + "]" * 40},
    {"events": "[" + "1" * 500 + "]"},
    {"runs": 2, "open_runs": "[1,2]"},
    {"runs": 1, "open_runs": "[]"},
    {"draw_sha256": "a" * 64},
    {"settled_at": "now"},
    {"release_key": ""},
    {"release_key": "two\nlines"},
    {"actor": "x" * 501},
    {"id": "../another"},
    {"account": "others", "allotment": "", "blocks": '["a block of my own"]'},
    {"epsilon": "-0.25"},
    {"epsilon": "0"},
    {"delta": "-0.25"},
    {"delta": "0.1"},
    {"rho": "0"},
    {"blocks": "[]"},
    {"state": "committed"},
    {"state": "void"},
    {"account": "rho", "allotment": "", "blocks": ALL, "epsilon": "1", "rho": "0"},
    {"account": "rho", "allotment": "", "blocks": ALL, "epsilon": "1", "rho": "0.1"},
    {"account": "rho", "allotment": "", "blocks": ALL, "epsilon": "1"},
    {"account": "rho", "allotment": "", "blocks": ALL, "epsilon": "0", "rho": "0"},
    {"account": "rho", "allotment": "", "blocks": ALL, "epsilon": "0", "rho": "-0.1"},
    {"account": "rho", "allotment": "", "blocks": ALL, "epsilon": "-1", "rho": "0.5"},
    {"account": "both", "allotment": "", "blocks": ALL, "epsilon": "0.5", "rho": "0"},
    {"account": "both", "allotment": "", "blocks": ALL, "epsilon": "0.5"},
    {"account": "both", "allotment": "", "blocks": ALL, "epsilon": "0.5", "delta": "-1e-6", "rho": "0.125"},
]
NO_ROOM: list[dict[str, Any]] = [
    {"epsilon": "0.6"},
    {"epsilon": "0.4", "allotment": ""},
    {"epsilon": "0.1", "allotment": "nobody's"},
    {"epsilon": "0.6", "allotment": "", "blocks": json.dumps(["2026-11-22", DAY])},
    {"account": "others", "allotment": "", "epsilon": "0.9", "blocks": '["all"]'},
    {"account": "rho", "allotment": "", "blocks": ALL, "epsilon": "2", "rho": "2"},
    {"account": "both", "allotment": "", "blocks": ALL, "epsilon": "2", "rho": "2"},
    {"account": "both", "allotment": "", "blocks": ALL, "epsilon": "0.1", "delta": "0.000006", "rho": "0.005"},
]


@pytest.mark.parametrize("row", NO_COSTS, ids=str)
def test_charge_that_costs_nothing_of_its_account_is_refused(
    charging: psycopg.Connection, owner: PrivacyLedger, row: dict[str, Any]
) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table charges"):
        write_charge(charging, **row)
    assert owner.verification().findings == ()


@pytest.mark.parametrize("row", NO_ROOM, ids=str)
def test_charge_beyond_a_cap_is_refused_by_the_server_itself(
    charging: psycopg.Connection, owner: PrivacyLedger, row: dict[str, Any]
) -> None:
    # a table of the same name, in a place of the charger's own
    charging.execute("CREATE TEMP TABLE accounts (LIKE accounts)")
    charging.execute("INSERT INTO pg_temp.accounts SELECT * FROM public.accounts")
    charging.execute("UPDATE pg_temp.accounts SET epsilon = '100', delta = '0.5', rho = '100'")
    with pytest.raises(psycopg.Error, match="the charge does not fit"):
        write_charge(charging, **row)
    assert owner.verification().findings == ()


def test_charge_written_with_sql_of_ones_own_pays_its_cost_and_no_more(
    charging: psycopg.Connection, owner: PrivacyLedger
) -> None:
    def left(day: str) -> list[Decimal]:
        return [owner.remaining("visits", day, allotment=purse).epsilon for purse in (None, "team")]

    tenth, both = Decimal("0.1"), json.dumps([DAY, "2026-11-22"])
    owner.raise_cap("visits", epsilon="1", allotment="team", actor="a", reason="b")
    before = {day: left(day) for day in (DAY, "2026-11-22")}
    write_charge(charging, epsilon="0.10", blocks=both)
    assert {day: left(day) for day in before} == {day: [each - tenth for each in told] for day, told in before.items()}
    [forged] = [entry for entry in owner.log("visits") if json.loads(entry.details).get("release_key") == "forged"]
    assert (forged.action, json.loads(forged.details)["epsilon"]) == ("reserved", "0.1")
    assert owner.verification().findings == ()
    charging.execute("UPDATE charges SET state = 'void' WHERE release_key = 'forged'")
    assert {day: left(day) for day in before} == before
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="a settled charge stays as it is"):
        charging.execute("UPDATE charges SET state = 'burnt' WHERE release_key = 'forged'")
    assert owner.verification().findings == ()


THAWS = [
    "UPDATE audit_head SET frozen = ''",
    "UPDATE audit_head SET frozen = 'another reason'",
    "UPDATE audit_head SET frozen = '', seq = (SELECT max(seq) FROM audit_log WHERE action = 'thawed')",
]


@pytest.mark.parametrize("statement", THAWS)
@pytest.mark.parametrize("part", [{"may": "charge"}, {"may": "administer", "account": "visits"}], ids=str)
def test_only_who_may_administer_it_all_thaws_a_ledger(
    as_role: Callable[..., str], owner: PrivacyLedger, part: dict[str, str], statement: str
) -> None:
    owner.freeze(reason="it was restored")
    owner.thaw(actor="owner", reason="once")
    owner.freeze(reason="it was restored again")
    refused = pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table audit_head")
    with psycopg.connect(as_role(**part), autocommit=True) as connection, refused:
        connection.execute(statement)
    assert owner.frozen() == "it was restored again"
    assert owner.verification().findings == ()


charges = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12)


@pytest.mark.parametrize("kind", list(CAPS))
def test_server_and_program_agree_on_what_fits(
    owner: PrivacyLedger, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The program's own check left out, so that the server decides alone."""
    monkeypatch.setattr(charge_changes, "fits", lambda limits, spent: True)
    monkeypatch.setattr(database, "BACKOFF", ())

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(charges)
    def play(steps: list[tuple[int, bool]]) -> None:
        name = f"account {next(_numbers)}"
        account = owner.open_account(name, **CAPS[kind])  # type: ignore[arg-type]
        half = {what: "0.25" if what == "rho" else "0.5" for what in ("epsilon", "rho") if what in CAPS[kind]}
        team = owner.allot(name, "team", **half, delta=CAPS[kind].get("delta") if kind != "zcdp" else None)
        spent: dict[str, Budget] = {"": zero_cost(account.composition), "team": zero_cost(account.composition)}
        for number, (cost, allotted) in enumerate(steps):
            amounts = COSTS[kind][cost % len(COSTS[kind])]
            try:
                charge = owner.reserve(name, release=f"r{number}", allotment="team" if allotted else None, **amounts)
            except LedgerUnavailable:
                charge = None
            cost_of = charge_changes.cost_in(account.composition, **{"epsilon": None, **amounts})
            purses = {"": account, **({"team": team} if allotted else {})}
            after = {purse: added(spent[purse], cost_of) for purse in purses}
            limits = {purse: limits_of(account.composition, cap.cap, cap.slack) for purse, cap in purses.items()}
            assert (charge is not None) == all(fits(limits[purse], after[purse]) for purse in purses)
            if charge is not None:
                spent.update(after)

    play()
    monkeypatch.undo()
    assert owner.verification().findings == ()
    with pytest.raises(BudgetExceeded):
        owner.reserve("others", release="more", epsilon="0.9")


def test_owner_of_the_ledger_need_not_be_a_superuser(
    postgres_server: PostgresServer, request: pytest.FixtureRequest
) -> None:
    """As it is in production: a login of its own makes the tables, and others do their part in them."""
    roles = {part: f"{part} {secrets.token_hex(4)}" for part in ("owner", "charge", "administer")}
    for role in roles.values():
        postgres_server.execute(f'CREATE ROLE "{role}" LOGIN')
    url = postgres_server.create_database()
    database = url.split("?")[0].split("/")[-1]
    request.addfinalizer(lambda: [postgres_server.execute(f'DROP ROLE "{role}"') for role in roles.values()])
    request.addfinalizer(lambda: postgres_server.execute(f"DROP DATABASE {database} WITH (FORCE)"))
    postgres_server.execute(f'ALTER DATABASE {database} OWNER TO "{roles["owner"]}"')
    ledgers = {
        part: PrivacyLedger(url.replace("postgres@", f"{role.replace(' ', '%20')}@")) for part, role in roles.items()
    }
    ledgers["owner"].migrate()
    execute(ledgers["owner"].name, *(each for part in PARTS[1:] for each in grants(roles[part], part)))
    ledgers["administer"].open_account("visits", epsilon="1", blocks="day(at)")
    for part, ledger in ledgers.items():
        charge = ledger.reserve("visits", release=part, epsilon="0.25", blocks=DAY)
        commit(ledger, charge.id, "ab")
        ledger.void(ledger.reserve("visits", release=f"{part} again", epsilon="0.25", blocks=DAY).id)
    with pytest.raises(BudgetExceeded):
        ledgers["charge"].reserve("visits", release="more", epsilon="0.26", blocks=DAY)
    ledgers["administer"].freeze(reason="it was restored")
    ledgers["administer"].thaw(actor="a", reason="b")
    ledgers["owner"].freeze(reason="it was restored")
    ledgers["owner"].thaw(actor="a", reason="b")
    assert str(ledgers["owner"].remaining("visits", DAY).epsilon) == "0.25"
    assert ledgers["charge"].verification().findings == ()
    for ledger in ledgers.values():
        ledger.close()
