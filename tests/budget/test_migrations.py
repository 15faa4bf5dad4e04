"""The ledger's tables: how they come to be, and which ones the program refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from dp_operators.budget import PrivacyLedger, migrate
from dp_operators.budget.schema import REVISION, VERSION_TABLE, metadata
from spark_jobs.contract import RequestRefused
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
    # revisions are compared as text, so they must sort as they follow each other
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True)


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
    with pytest.raises(RequestRefused, match="holds no privacy ledger"):
        ledger.accounts()
    ledger.migrate()
    assert ledger.accounts() == ()
    ledger.close()


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_database_without_a_ledger_is_refused(empty_ledger_url: str, call) -> None:
    ledger = PrivacyLedger(empty_ledger_url)
    with pytest.raises(RequestRefused) as refused:
        call(ledger)
    assert str(refused.value) == f"ledger: got {ledger.name!r}; holds no privacy ledger; run `dp-budget migrate`"
    ledger.close()


def test_asking_for_a_ledger_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="holds no privacy ledger"):
        PrivacyLedger(f"sqlite:///{tmp_path}/misspelt.db").accounts()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", [*CALLS.values(), PrivacyLedger.migrate], ids=[*CALLS, "migrate"])
def test_newer_ledger_is_refused(ledger_url: str, call) -> None:
    execute(ledger_url, f"UPDATE {VERSION_TABLE} SET version_num = '9001'")
    ledger = PrivacyLedger(ledger_url)
    try:
        with pytest.raises(RequestRefused, match=f"at schema 9001'; is newer than this program.* schema {REVISION}"):
            call(ledger)
    finally:
        execute(ledger_url, f"UPDATE {VERSION_TABLE} SET version_num = '{REVISION}'")
        ledger.close()


def test_older_ledger_is_refused_until_it_is_migrated(ledger_url: str) -> None:
    execute(ledger_url, f"UPDATE {VERSION_TABLE} SET version_num = '0000'")
    ledger = PrivacyLedger(ledger_url)
    try:
        with pytest.raises(RequestRefused, match=f"must be at schema {REVISION}; run `dp-budget migrate`"):
            ledger.accounts()
    finally:
        execute(ledger_url, f"UPDATE {VERSION_TABLE} SET version_num = '{REVISION}'")
        ledger.close()


@pytest.mark.parametrize("call", [*CALLS.values(), PrivacyLedger.migrate], ids=[*CALLS, "migrate"])
def test_metadata_database_of_airflow_is_refused(empty_ledger_url: str, call) -> None:
    execute(empty_ledger_url, "CREATE TABLE dag_run (id INTEGER)")
    ledger = PrivacyLedger(empty_ledger_url)
    with pytest.raises(RequestRefused, match="must not lie in Airflow's metadata database; give the ledger"):
        call(ledger)
    ledger.close()
    execute(empty_ledger_url, "DROP TABLE dag_run")
    with pytest.raises(RequestRefused, match="holds no privacy ledger"):
        ledger.accounts()
    ledger.close()
