"""The ledger's tables: how they come to be, and which ones the program refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.tables import migrate
from dp_operators.budget.tables.schema import BASELINE, REVISION, VERSION_TABLE, metadata
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import execute, in_processes, killed_at

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
    assert scripts.get_base() == BASELINE
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


def test_released_ledger_is_refused_by_a_later_program_until_it_is_migrated(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = f"{int(REVISION) + 1:04d}"
    monkeypatch.setattr("dp_operators.budget.tables.database.REVISION", later)
    with pytest.raises(InvalidRequest, match=f"schema {REVISION} at .*; must be at schema {later}; run `dp-budget mig"):
        ledger.accounts()


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


@pytest.mark.parametrize("call", [*CALLS.values(), PrivacyLedger.migrate], ids=[*CALLS, "migrate"])
def test_ledger_of_a_commit_before_the_first_release_is_refused_in_one_line(ledger_url: str, call) -> None:
    before = f"{int(BASELINE) - 1:04d}"
    execute(ledger_url, f"UPDATE {VERSION_TABLE} SET version_num = '{before}'")
    ledger = PrivacyLedger(ledger_url)
    try:
        with pytest.raises(InvalidRequest) as refused:
            call(ledger)
        assert execute(ledger_url, f"SELECT version_num FROM {VERSION_TABLE}") == [(before,)]
    finally:
        execute(ledger_url, f"UPDATE {VERSION_TABLE} SET version_num = '{REVISION}'")
        ledger.close()
    assert str(refused.value).startswith(f"ledger: got 'schema {before} at ")
    assert str(refused.value).endswith(
        "; was made before 0.1.0, and such ledgers are not upgraded; "
        "keep it, and open its accounts in a new database, as the page on upgrades says"
    )


Shape = dict[str, Any]


def shape(connection: Connection) -> Shape:
    """Columns, defaults, keys, indexes and conditions of every table, as the database says them."""
    seen = inspect(connection)

    def plain(values: Any) -> list[str]:
        return sorted(str(sorted(value.items(), key=str)) for value in values)

    return {
        table: {
            "columns": plain({**column, "type": str(column["type"])} for column in seen.get_columns(table)),
            "key": seen.get_pk_constraint(table)["constrained_columns"],
            "references": plain(seen.get_foreign_keys(table)),
            "unique": plain(seen.get_unique_constraints(table)),
            "indexes": plain(
                {**index, "dialect_options": {name: str(of) for name, of in index["dialect_options"].items()}}
                for index in seen.get_indexes(table)
            ),
            "conditions": plain(seen.get_check_constraints(table)),
        }
        for table in seen.get_table_names()
    }


def test_baseline_has_the_columns_defaults_keys_and_conditions_of_the_models(empty_ledger_url: str) -> None:
    engine = create_engine(empty_ledger_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        metadata.create_all(connection)
        models = shape(connection)
        metadata.drop_all(connection)
    PrivacyLedger(empty_ledger_url).migrate()
    with engine.connect() as connection:
        made = shape(connection)
    engine.dispose()
    del made[VERSION_TABLE]
    assert set(made) == set(metadata.tables)
    for table, of_models in models.items():
        assert made[table] == of_models


GUARDS = {
    "charges": {
        *("charge_is_reserved", "charge_is_given_a_key", "charge_moves_totals", "charge_changes", "void_moves_totals"),
    },
    "block_totals": {"charges_alone_move_totals"},
    "audit_log": {"entry_is_appended"},
    "stream_steps": {"steps_are_recorded", "steps_stay"},
}


@pytest.mark.postgres
def test_baseline_makes_every_guard_of_the_server(postgres_url: str) -> None:
    PrivacyLedger(postgres_url).migrate()
    found = execute(postgres_url, "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal")
    assert set(found) == {(table, name) for table, names in GUARDS.items() for name in names}
    assert set(execute(postgres_url, "SELECT DISTINCT tgenabled::text FROM pg_trigger")) == {("O",)}
    of_public = """
    SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
        AND (proacl IS NULL OR EXISTS (SELECT FROM aclexplode(proacl) WHERE grantee = 0))
    """
    # the first four read nothing, one only refuses, and the others have the rights of their caller
    public = {
        "is_block",
        "block_list",
        "is_events",
        "json_text",
        "only_by_charges",
        "reserve_at_once",
        "change_at_once",
    }
    assert {name for (name,) in execute(postgres_url, of_public)} == public
    definers = "SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prosecdef"
    assert {name for (name,) in execute(postgres_url, definers)} == {
        *("append_entry", "hold_ledger", "seal_of", "seal_entry", "freeze_forgotten", "move_totals", "reserve_charge"),
        *("give_run_key", "change_charge", "record_steps"),
    }


def test_every_ledger_has_a_secret_of_its_own(empty_ledger_url: str, tmp_path: Path) -> None:
    urls = (empty_ledger_url, f"sqlite:///{tmp_path}/another.db")
    for url in urls:
        PrivacyLedger(url).migrate()
    first, second = (execute(url, "SELECT id, secret FROM seal_secret") for url in urls)
    assert [(number, len(secret)) for number, secret in first] == [(1, 64)]
    assert first != second
