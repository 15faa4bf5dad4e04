"""The ledger's tables: how they come to be, and which ones the program refuses."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import column, create_engine, table

from dp_operators.budget import BudgetExceeded, ChargeConflict, PrivacyLedger, migrate
from dp_operators.budget.audit import GENESIS, canonical, entry_hash
from dp_operators.budget.grants import grants
from dp_operators.budget.schema import REVISION, VERSION_TABLE, metadata
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import commit, execute, in_processes, killed_at, upgrade_to

CALLS = {
    "accounts": lambda ledger: ledger.accounts(),
    "open_account": lambda ledger: ledger.open_account("visits", epsilon=1),
    "reserve": lambda ledger: ledger.reserve("visits", release="r", epsilon=1),
    "commit": lambda ledger: ledger.commit("c"),
    "verify": lambda ledger: ledger.verify(),
    "head": lambda ledger: ledger.head(),
}


def test_migrate_makes_the_schema_that_the_program_reads(empty_ledger_url: str) -> None:
    PrivacyLedger(empty_ledger_url).migrate()
    engine = create_engine(empty_ledger_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == REVISION
    engine.dispose()


def test_program_knows_the_last_revision() -> None:
    scripts = ScriptDirectory(str(Path(migrate.__file__).parent / "migrations"))
    assert scripts.get_current_head() == REVISION
    # revisions are compared as text, so they must sort as they follow each other
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True)


def test_a_ledger_in_no_folder_is_refused_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as refused:
        PrivacyLedger(f"sqlite:///{tmp_path}/not there/ledger.db").migrate()
    assert str(refused.value).endswith(f"must lie in a folder that exists; make it: mkdir -p '{tmp_path}/not there'")


def test_migrate_again_changes_nothing(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon="1")
    charge = ledger.reserve("visits", release="r", epsilon="0.5")
    ledger.migrate()
    assert ledger.history("visits") == (charge,)
    assert ledger.verify()


def test_migrations_at_once_make_one_ledger(empty_ledger_url: str) -> None:
    done = in_processes(lambda _: PrivacyLedger(empty_ledger_url).migrate(), 4)
    assert done == [None] * 4
    ledger = PrivacyLedger(empty_ledger_url)
    assert ledger.verify()
    ledger.close()


def test_killed_migration_is_taken_back_and_can_be_repeated(empty_ledger_url: str) -> None:
    ledger = PrivacyLedger(empty_ledger_url)
    killed_at("ledger_before_commit", ledger.migrate)
    with pytest.raises(InvalidRequest, match="has no privacy ledger"):
        ledger.accounts()
    ledger.migrate()
    assert ledger.accounts() == ()
    ledger.close()


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_database_without_a_ledger_is_refused(empty_ledger_url: str, call) -> None:
    ledger = PrivacyLedger(empty_ledger_url)
    with pytest.raises(InvalidRequest) as refused:
        call(ledger)
    assert str(refused.value) == f"ledger: got {ledger.name!r}; has no privacy ledger; run `dp-budget migrate`"
    ledger.close()


def test_asking_for_a_ledger_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="has no privacy ledger"):
        PrivacyLedger(f"sqlite:///{tmp_path}/misspelt.db").accounts()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("call", [*CALLS.values(), PrivacyLedger.migrate], ids=[*CALLS, "migrate"])
def test_newer_ledger_is_refused(ledger_url: str, call) -> None:
    execute(ledger_url, f"UPDATE {VERSION_TABLE} SET version_num = '9001'")
    ledger = PrivacyLedger(ledger_url)
    try:
        with pytest.raises(InvalidRequest, match=f"schema 9001 at .*; is newer than this program.* schema {REVISION}"):
            call(ledger)
    finally:
        execute(ledger_url, f"UPDATE {VERSION_TABLE} SET version_num = '{REVISION}'")
        ledger.close()


def test_older_ledger_is_refused_until_it_is_migrated(ledger_url: str) -> None:
    execute(ledger_url, f"UPDATE {VERSION_TABLE} SET version_num = '0000'")
    ledger = PrivacyLedger(ledger_url)
    try:
        with pytest.raises(InvalidRequest, match=f"must be at schema {REVISION}; run `dp-budget migrate`"):
            ledger.accounts()
    finally:
        execute(ledger_url, f"UPDATE {VERSION_TABLE} SET version_num = '{REVISION}'")
        ledger.close()


@pytest.mark.parametrize("call", [*CALLS.values(), PrivacyLedger.migrate], ids=[*CALLS, "migrate"])
def test_metadata_database_of_airflow_is_refused(empty_ledger_url: str, call) -> None:
    execute(empty_ledger_url, "CREATE TABLE dag_run (id INTEGER)")
    ledger = PrivacyLedger(empty_ledger_url)
    with pytest.raises(InvalidRequest, match="must not be in Airflow's metadata database; give the ledger"):
        call(ledger)
    ledger.close()
    execute(empty_ledger_url, "DROP TABLE dag_run")
    with pytest.raises(InvalidRequest, match="has no privacy ledger"):
        ledger.accounts()
    ledger.close()


FIRST, SECOND, THIRD = "0001", "0002", "0003"


def insert_rows(url: str, rows: list[tuple[str, dict[str, object]]], last: dict[str, object]) -> None:
    """Write rows as an earlier version did, and move the head to the last entry."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for table_name, row in rows:
            connection.execute(table(table_name, *map(column, row)).insert(), row)
        head = {name: last[name] for name in ("seq", "previous", "hash")}
        connection.execute(table("audit_head", *map(column, head)).update().values(head))
    engine.dispose()


@pytest.fixture
def first_ledger(empty_ledger_url: str) -> str:
    """A ledger of the first schema with everything in it, written row by row as that version did."""
    upgrade_to(FIRST, empty_ledger_url)
    log: list[dict[str, object]] = []

    def logged(action: str, details: dict[str, object], *, charge: str = "", reason: str = "") -> None:
        fields: dict[str, object] = {"seq": len(log) + 1, "at": f"2026-01-0{len(log) + 1}T00:00:00.000000+00:00"}
        fields |= {"actor": "admin", "action": action, "account": "visits", "charge": charge, "reason": reason}
        fields |= {"details": canonical(details), "previous": log[-1]["hash"] if log else GENESIS}
        log.append({**fields, "hash": entry_hash(fields)})

    cap = {"epsilon": "1", "delta": "0", "rho": None}
    terms = {"composition": "pure", **cap, "neighbours": "add_remove", "unit_column": None, "unit_max_rows": 1}
    logged("opened", {**terms, "tables": ["file:///lake/visits"]})
    made = {"delta": "0", "rho": None, "blocks": ["all"], "events": [], "request_sha256": "ab", "generation": 1}
    for name, epsilon in ("a", "0.25"), ("b", "0.5"), ("c", "0.125"):
        logged("reserved", {"release_key": name, "epsilon": epsilon, **made}, charge=f"id-{name}")
    logged("committed", {"manifest_sha256": "cd"}, charge="id-a")
    logged("void", {"manifest_sha256": None}, charge="id-b", reason="given up")
    at = {entry["charge"]: entry["at"] for entry in log[4:]}
    charges = [
        {"id": f"id-{name}", "account": "visits", "release_key": name, "generation": 1, "entry": entry, "state": state}
        | {"epsilon": epsilon, "delta": "0", "blocks": '["all"]', "events": "[]", "request_sha256": "ab"}
        | {"manifest_sha256": "cd" if name == "a" else None, "actor": "admin", "reserved_at": log[entry - 1]["at"]}
        | {"renewed_at": log[entry - 1]["at"], "settled_at": at.get(f"id-{name}")}
        for name, entry, state, epsilon in (
            ("a", 2, "committed", "0.25"),
            ("b", 3, "void", "0.5"),
            ("c", 4, "reserved", "0.125"),
        )
    ]
    opened = {"name": "visits", **terms, "opened_at": log[0]["at"], "opened_by": "admin"}
    rows = [("accounts", opened), ("account_tables", {"identity": "file:///lake/visits", "account": "visits"})]
    rows += [("block_totals", {"account": "visits", "block": "all", "epsilon": "0.375", "delta": "0"})]
    rows += [("charges", charge) for charge in charges] + [("audit_log", entry) for entry in log]
    insert_rows(empty_ledger_url, rows, log[-1])
    return empty_ledger_url


@pytest.fixture
def second_ledger(first_ledger: str) -> str:
    """The same ledger as the second schema went on with it: an allotment, and a charge to it with its blocks."""
    upgrade_to(SECOND, first_ledger)
    [(seq, previous)] = execute(first_ledger, "SELECT seq, hash FROM audit_head")
    at, log = "2026-02-01T00:00:00.000000+00:00", []
    cap = {"epsilon": "0.5", "delta": "0", "rho": None}
    cost = {"epsilon": "0.25", "delta": "0", "rho": None}
    made = {"release_key": "d", "generation": 1, **cost, "blocks": ["all"], "events": [{"mechanism": "pure"}]}
    made |= {"request_sha256": "ab", "allotment": "team"}
    for action, details, charge in (
        ("allotted", {"name": "team", **cap, "slack": "0"}, ""),
        ("reserved", made, "id-d"),
        ("committed", {"manifest_sha256": "ef"}, "id-d"),
    ):
        fields: dict[str, object] = {"seq": seq + 1, "at": at, "actor": "admin", "action": action, "account": "visits"}
        fields |= {"charge": charge, "reason": "", "details": canonical(details), "previous": previous}
        log.append({**fields, "hash": entry_hash(fields)})
        seq, previous = seq + 1, log[-1]["hash"]
    settled = {"state": "committed", "manifest_sha256": "ef", "actor": "admin", "reserved_at": at, "renewed_at": at}
    row = {"id": "id-d", "account": "visits", "entry": log[1]["seq"], "settled_at": at, **made, **settled}
    row |= {name: canonical(made[name]) for name in ("blocks", "events")}
    execute(first_ledger, "UPDATE block_totals SET epsilon = '0.625'")
    rows = [("allotments", {"account": "visits", "name": "team", **cap, "slack": "0"}), ("charges", row)]
    rows += [("block_totals", {"account": "visits", "allotment": "team", "block": "all", **cost})]
    insert_rows(first_ledger, rows + [("audit_log", entry) for entry in log], log[-1])
    return first_ledger


@pytest.fixture
def third_ledger(second_ledger: str) -> str:
    """The same ledger as the third schema went on with it: a reservation, settled with the word of its draw."""
    upgrade_to(THIRD, second_ledger)
    [(seq, previous)] = execute(second_ledger, "SELECT seq, hash FROM audit_head")
    told = [{"mechanism": "pure", "epsilon": "0.125"}]
    fields: dict[str, object] = {"seq": seq + 1, "at": "2026-03-01T00:00:00.000000+00:00", "actor": "admin"}
    fields |= {"action": "burnt", "account": "visits", "charge": "id-c", "reason": "", "previous": previous}
    fields |= {"details": canonical({"manifest_sha256": None, "events": told})}
    entry = {**fields, "hash": entry_hash(fields)}
    execute(
        second_ledger,
        f"UPDATE charges SET state = 'burnt', settled_at = '{fields['at']}', drawn_events = '{canonical(told)}'"
        " WHERE id = 'id-c'".replace(":", "\\:"),
    )
    insert_rows(second_ledger, [("audit_log", entry)], entry)
    return second_ledger


def test_ledger_of_the_third_schema_is_migrated_with_all_it_holds(third_ledger: str) -> None:
    ledger = PrivacyLedger(third_ledger)
    with pytest.raises(
        InvalidRequest, match=f"schema {THIRD} at .*; must be at schema {REVISION}; run `dp-budget migr"
    ):
        ledger.accounts()
    ledger.migrate()
    assert ledger.verification().findings == ()
    states = [charge.state.value for charge in ledger.history("visits")]
    assert states == ["committed", "void", "burnt", "committed"]
    assert ledger.charge("id-c").drawn_events == ({"mechanism": "pure", "epsilon": "0.125"},)
    assert not ledger.account("visits").public_sizes
    # and it goes on: what was spent still counts, and what is given back comes back
    assert str(ledger.remaining("visits", allotment="team").epsilon) == "0.25"
    with pytest.raises(BudgetExceeded):
        ledger.reserve("visits", release="e", epsilon="0.376")
    ledger.void(ledger.reserve("visits", release="e", epsilon="0.25", allotment="team").id)
    ledger.reserve("visits", release="e", epsilon="0.25", allotment="team")
    assert str(ledger.remaining("visits").epsilon) == "0.125"
    assert ledger.remaining("visits", allotment="team").epsilon == 0
    assert ledger.verification().findings == ()
    ledger.close()


OLD_GRANTS = [
    "GRANT SELECT ON accounts, block_totals TO {role}",
    "GRANT INSERT ON block_totals TO {role}",
    "GRANT UPDATE (epsilon, delta, rho) ON block_totals TO {role}",
]


@pytest.mark.postgres
def test_roles_of_earlier_schemas_write_totals_no_longer(postgres_url: str, request: pytest.FixtureRequest) -> None:
    """Their grants are taken back, but for what whoever opens an account needs to begin its total."""
    upgrade_to(THIRD, postgres_url)
    roles = {name: f"{name} {secrets.token_hex(4)}" for name in ("charger", "admin")}

    def drop() -> None:
        for role in roles.values():
            execute(postgres_url, f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"')

    for role in roles.values():
        granted = [statement.format(role=f'"{role}"') for statement in OLD_GRANTS]
        execute(postgres_url, f'CREATE ROLE "{role}"', *granted)
    request.addfinalizer(drop)
    execute(postgres_url, f'GRANT INSERT ON accounts TO "{roles["admin"]}"')

    def may(name: str, what: str) -> list[tuple[object, ...]]:
        asked = "has_any_column_privilege" if what == "UPDATE" else "has_table_privilege"
        return execute(postgres_url, f"SELECT {asked}('{roles[name]}', 'block_totals', '{what}')")

    held = {(name, what): may(name, what) for name in roles for what in ("SELECT", "INSERT", "UPDATE")}
    assert set(map(tuple, held.values())) == {((True,),)}
    PrivacyLedger(postgres_url).migrate()
    left = {(name, what) for name, what in held if may(name, what) == [(True,)]}
    assert left == {("charger", "SELECT"), ("admin", "SELECT"), ("admin", "INSERT")}


@pytest.mark.postgres
def test_roles_that_may_charge_may_record_figures_after_the_upgrade(
    postgres_url: str, request: pytest.FixtureRequest
) -> None:
    """Without new grants: a worker goes on charging."""
    upgrade_to("0008", postgres_url)
    role = f"charger {secrets.token_hex(4)}"
    request.addfinalizer(lambda: execute(postgres_url, f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"'))
    earlier = [statement.replace(" figures,", "") for statement in grants(role, "charge")]
    execute(postgres_url, f'CREATE ROLE "{role}" LOGIN', *(one.replace(":", "\\:") for one in earlier))
    PrivacyLedger(postgres_url).migrate()

    def may(column: str) -> object:
        [(answer,)] = execute(postgres_url, f"SELECT has_column_privilege('{role}', 'charges', '{column}', 'UPDATE')")
        return answer

    assert (may("figures"), may("drawn_events"), may("epsilon")) == (True, True, False)


def test_ledger_of_the_second_schema_is_migrated_with_all_it_holds(second_ledger: str) -> None:
    ledger = PrivacyLedger(second_ledger)
    with pytest.raises(
        InvalidRequest, match=f"schema {SECOND} at .*; must be at schema {REVISION}; run `dp-budget migr"
    ):
        ledger.accounts()
    ledger.migrate()
    assert ledger.verification().findings == ()
    assert [charge.state.value for charge in ledger.history("visits")] == ["committed", "void", "reserved", "committed"]
    last = ledger.history("visits")[-1]
    assert (last.allotment, last.events, last.drawn_events) == ("team", ({"mechanism": "pure"},), None)
    assert str(ledger.remaining("visits", allotment="team").epsilon) == "0.25"
    # and it goes on
    commit(ledger, "id-c", "cd", events=[{"mechanism": "pure", "epsilon": "0.125"}])
    assert ledger.charge("id-c").drawn_events == ({"mechanism": "pure", "epsilon": "0.125"},)
    assert ledger.verification().findings == ()
    ledger.close()


def test_ledger_of_the_first_schema_is_migrated_with_all_it_holds(first_ledger: str) -> None:
    ledger = PrivacyLedger(first_ledger)
    with pytest.raises(
        InvalidRequest, match=f"schema {FIRST} at .*; must be at schema {REVISION}; run `dp-budget migr"
    ):
        ledger.accounts()
    ledger.migrate()
    assert ledger.verification().findings == ()
    assert [charge.state.value for charge in ledger.history("visits")] == ["committed", "void", "reserved"]
    assert str(ledger.remaining("visits").epsilon) == "0.625"
    account = ledger.account("visits")
    assert (account.blocks, account.unit_stays, account.slack) == (None, True, 0)
    # and it goes on
    with pytest.raises(ChargeConflict, match="an application was started"):
        ledger.void("id-c")
    ledger.burn("id-c")
    ledger.allot("visits", "team", epsilon="0.5")
    again = ledger.reserve("visits", release="b", epsilon="0.5", request_sha256="ab", allotment="team")
    assert again.generation == 2
    assert (ledger.charge("id-c").open_runs, len(ledger.run_key("id-c"))) == ((1,), 32)
    assert ledger.verification().findings == ()
    ledger.close()


def test_killed_migration_leaves_the_first_schema_as_it_was(first_ledger: str) -> None:
    ledger = PrivacyLedger(first_ledger)
    killed_at("ledger_before_commit", ledger.migrate)
    assert execute(first_ledger, f"SELECT version_num FROM {VERSION_TABLE}") == [(FIRST,)]
    assert execute(first_ledger, "SELECT epsilon FROM block_totals") == [("0.375",)]
    ledger.migrate()
    assert ledger.verification().findings == ()
    ledger.close()


def test_migrated_schema_is_the_one_that_is_made_at_once(third_ledger: str) -> None:
    """Of a ledger that has been through every version's schema."""
    PrivacyLedger(third_ledger).migrate()
    engine = create_engine(third_ledger.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    engine.dispose()
