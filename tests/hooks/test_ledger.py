"""The connection to the ledger: three ways to name one, and a clear line for everything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from dp_operators.budget import PrivacyLedger
from dp_operators.hooks.ledger import PrivacyLedgerHook, ledger_url
from spark_jobs.contract.errors import InvalidRequest

Connect = Callable[..., None]
TYPE = "privacy_ledger"


def url(**fields: Any) -> str:
    import json

    from airflow.sdk import Connection

    extra = fields.pop("extra", {})
    return ledger_url(Connection(conn_id="books", **{"conn_type": TYPE, **fields}, extra=json.dumps(extra)))


def test_host_is_a_postgresql_server() -> None:
    named = url(host="db.example", port=5433, schema="ledger", login="me", password="p@ss/word")
    assert named == "postgresql+psycopg://me:p%40ss%2Fword@db.example:5433/ledger"


def test_tls_is_that_of_libpq() -> None:
    tls = {"sslmode": "verify-full", "sslrootcert": "/tls/ca & co.crt", "sslcert": "", "sslkey": None}
    named = make_url(url(host="db.example", schema="ledger", login="me", password="secret", extra=tls))
    assert named.query == {"sslmode": "verify-full", "sslrootcert": "/tls/ca & co.crt"}
    assert named.password == "secret"
    assert url(host="db", schema="x", extra={"sslrootcert": "system"}).endswith("?sslrootcert=system")


def test_path_is_a_sqlite_file() -> None:
    assert url(extra={"path": "/var/lib/dp/ledger.db"}) == "sqlite:////var/lib/dp/ledger.db"


def test_url_is_taken_as_it_is() -> None:
    assert url(extra={"url": "postgresql://me:secret@db/ledger"}) == "postgresql://me:secret@db/ledger"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"conn_type": "postgres", "host": "db", "schema": "x"}, "must be of type privacy_ledger"),
        ({}, "must name the ledger by exactly one of host, path and url"),
        (
            {"host": "db", "schema": "x", "extra": {"path": "/x"}},
            "got 'host and path'; must name the ledger by exactly one of",
        ),
        ({"host": "db"}, "must name the database in schema"),
        ({"extra": {"path": "ledger.db"}}, "got 'ledger.db'; must name an absolute path"),
        (
            {"host": "db", "schema": "x", "extra": {"sslmod": "require"}},
            "got 'sslmod'; must be one of sslmode, sslrootcert",
        ),
        ({"host": "db", "schema": "x", "extra": {"sslmode": "yes"}}, "got 'sslmode yes'; must be one of disable"),
        (
            {"host": "db", "schema": "x", "extra": {"sslkey": "me.key"}},
            "got 'sslkey me.key'; must be an absolute path",
        ),
        (
            {"extra": {"url": "postgresql://db/x", "sslmode": "require"}},
            "got 'sslmode'; is for a ledger that is named by its host",
        ),
        ({"extra": {"url": "not a url with secret"}}, "connection books url: must be a database URL"),
    ],
)
def test_connection_that_names_no_ledger_is_refused_in_one_line(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        url(**fields)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_missing_connection_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidRequest) as refused:
        PrivacyLedgerHook("nowhere").get_ledger()
    assert str(refused.value).startswith("privacy_ledger_conn_id: got 'nowhere'; must be a connection that exists;")


@pytest.mark.parametrize(
    ("secret", "fields"),  # a secret of each one's own: what was masked once stays so in this process
    [
        ("hunter2hunter2", {"host": "db", "schema": "ledger", "login": "me", "password": "hunter2hunter2"}),
        ("orchid7orchid7", {"extra": {"url": "postgresql://me:orchid7orchid7@db/ledger"}}),
        ("walnut9walnut9", {"extra": {"url": "postgresql://me@db/ledger?password=walnut9walnut9"}}),
    ],
)
def test_password_is_masked_and_not_shown(connect: Connect, secret: str, fields: dict[str, Any]) -> None:
    from airflow.sdk.log import redact

    connect("privacy_ledger_default", conn_type=TYPE, **fields)
    ledger = PrivacyLedgerHook().get_ledger()
    assert secret not in repr(ledger)
    assert secret not in redact(f"connecting with {secret}")


def test_ledger_is_the_connections(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", epsilon="3")
    assert PrivacyLedgerHook().get_ledger().account("visits").cap.epsilon == 3
    assert PrivacyLedgerHook().get_conn().account("visits").cap.epsilon == 3


def test_connection_test_succeeds_on_a_ledger(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", epsilon="3")
    assert PrivacyLedgerHook().test_connection() == (True, "The privacy ledger answers; accounts: 1")


def test_connection_test_says_why_not(tmp_path: Path, connect: Connect) -> None:
    connect("privacy_ledger_default", conn_type=TYPE, extra={"path": str(tmp_path / "none.db")})
    works, line = PrivacyLedgerHook().test_connection()
    assert not works
    assert "has no privacy ledger" in line


def test_connection_test_says_that_a_server_is_away(connect: Connect) -> None:
    connect("privacy_ledger_default", conn_type=TYPE, host="127.0.0.1", port=1, schema="ledger", password="hunter2")
    works, line = PrivacyLedgerHook().test_connection()
    assert not works
    assert "cannot be used" in line
    assert "hunter2" not in line


def test_airflows_metadata_database_is_refused(tmp_path: Path, connect: Connect) -> None:
    import sqlite3

    path = tmp_path / "airflow.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE dag_run (id INTEGER)")
    connect("privacy_ledger_default", conn_type=TYPE, extra={"path": str(path)})
    works, line = PrivacyLedgerHook().test_connection()
    assert not works
    assert "metadata database" in line


def test_deployment_is_the_connections(connect: Connect) -> None:
    connect("named", conn_type=TYPE, extra={"path": "/x", "deployment": "prod"})
    connect("unnamed", conn_type=TYPE, extra={"path": "/x"})
    assert PrivacyLedgerHook("named").deployment == "prod"
    assert PrivacyLedgerHook("unnamed").deployment is None
