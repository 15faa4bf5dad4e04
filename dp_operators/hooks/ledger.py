"""The Airflow connection to the privacy ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from spark_jobs.contract.errors import RequestRefused

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from sqlalchemy import URL

    from dp_operators.budget import PrivacyLedger

BACKENDS = {"postgresql": "postgresql+psycopg", "sqlite": "sqlite"}
"""Databases a ledger may live in, and how SQLAlchemy reaches each."""


class PrivacyLedgerHook(BaseHook):
    """Opens the privacy ledger behind a connection of type ``privacy_ledger``.

    The connection names a database of the ledger's own, never Airflow's metadata database, in one of three ways:
    host, port, schema, login and password of a PostgreSQL server; the extra ``path``, full path of a SQLite file; or
    the extra ``url``, a SQLAlchemy URL of either kind. The extra ``deployment`` names this Airflow deployment in
    release keys, for ledgers that several deployments share.

    Args:
        privacy_ledger_conn_id: the connection.
    """

    conn_name_attr = "privacy_ledger_conn_id"
    default_conn_name = "privacy_ledger_default"
    conn_type = "privacy_ledger"
    hook_name = "Privacy ledger"

    def __init__(self, privacy_ledger_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.privacy_ledger_conn_id = privacy_ledger_conn_id

    def get_ledger(self) -> PrivacyLedger:
        """The ledger; nothing is read from it yet.

        Raises:
            RequestRefused: no such connection, or one that does not name a ledger.
            LedgerUnavailable: it cannot be reached.
        """
        from dp_operators.budget import PrivacyLedger

        url = ledger_url(self._connection())
        refuse_metadata_database(url)
        return PrivacyLedger(url.render_as_string(hide_password=False))

    def get_conn(self) -> PrivacyLedger:
        """The same as ``get_ledger``, by the name that Airflow's hooks share."""
        return self.get_ledger()

    @property
    def deployment(self) -> str | None:
        """The connection's name for this Airflow deployment, if it gives one."""
        name = self._connection().extra_dejson.get("deployment")
        return str(name) if name else None

    def test_connection(self) -> tuple[bool, str]:
        """Whether the ledger answers, and a line that says so or why not."""
        from dp_operators.budget import LedgerUnavailable

        try:
            accounts = len(self.get_ledger().accounts())
        except (RequestRefused, LedgerUnavailable) as error:
            return False, str(error)
        return True, f"The privacy ledger answers; accounts: {accounts}"

    def _connection(self) -> Connection:
        try:
            return self.get_connection(self.privacy_ledger_conn_id)
        except AirflowNotFoundException:
            raise RequestRefused(
                "privacy_ledger_conn_id",
                given=self.privacy_ledger_conn_id,
                bound="must be a connection that exists",
                remedy="create it with type privacy_ledger, e.g. airflow connections add",
            ) from None


def ledger_url(connection: Connection) -> URL:
    """The URL that a connection of type ``privacy_ledger`` names; its password is masked in logs from here on.

    Raises:
        RequestRefused: another type of connection, or not exactly one of host, path and url, or another database.
    """
    extra = connection.extra_dejson
    what = f"connection {connection.conn_id}"
    if connection.conn_type != PrivacyLedgerHook.conn_type:
        raise RequestRefused(
            what,
            given=connection.conn_type,
            bound=f"must be of type {PrivacyLedgerHook.conn_type}",
            remedy="give the ledger a database and a connection of its own",
        )
    given = [
        name for name, value in [("host", connection.host), *((n, extra.get(n)) for n in ("path", "url"))] if value
    ]
    if len(given) != 1:
        raise RequestRefused(
            what,
            given=", ".join(given) or "none of them",
            bound="must name the ledger by one of host, path and url",
            remedy="set the PostgreSQL host, or one of the extras path and url",
        )
    build = {"host": _server_url, "path": _file_url, "url": _given_url}[given[0]]
    url = build(connection, what)
    if url.password:
        mask_secret(str(url.password))
    return url


def _server_url(connection: Connection, what: str) -> URL:
    from sqlalchemy import URL

    if not connection.schema:
        raise RequestRefused(what, bound="must name a database in schema", remedy="e.g. privacy_ledger")
    return URL.create(
        BACKENDS["postgresql"],
        username=connection.login,
        password=connection.password,
        host=connection.host,
        port=connection.port,
        database=connection.schema,
    )


def _file_url(connection: Connection, what: str) -> URL:
    from sqlalchemy import URL

    path = str(connection.extra_dejson["path"])
    if not Path(path).is_absolute():
        raise RequestRefused(f"{what} path", given=path, bound="must be absolute", remedy="give the file's full path")
    return URL.create(BACKENDS["sqlite"], database=path)


def _given_url(connection: Connection, what: str) -> URL:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    bound, remedy = "must be a SQLAlchemy URL of postgresql or sqlite", "e.g. postgresql://user@host/privacy_ledger"
    try:
        url = make_url(str(connection.extra_dejson["url"]))
    except (ArgumentError, ValueError):
        # the text itself may hold a password
        raise RequestRefused(f"{what} url", bound=bound, remedy=remedy) from None
    backend = url.drivername.partition("+")[0]
    if backend not in BACKENDS:
        raise RequestRefused(f"{what} url", given=backend, bound=bound, remedy=remedy)
    return url.set(drivername=BACKENDS[backend])


def refuse_metadata_database(url: URL) -> None:
    """Refuse a ledger inside Airflow's metadata database, as far as this process knows that one.

    Raises:
        RequestRefused: the two are one database.
    """
    from airflow.sdk.configuration import conf
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        metadata = make_url(conf.get("database", "sql_alchemy_conn", fallback=None) or "")
    except ArgumentError:
        return
    if _place(url) == _place(metadata):
        raise RequestRefused(
            "privacy ledger",
            bound="must not lie in Airflow's metadata database",
            remedy="give the ledger a database of its own",
        )


def _place(url: URL) -> tuple[object, ...]:
    backend = url.drivername.partition("+")[0]
    if backend == "sqlite":
        return backend, str(Path(url.database or "").resolve())
    return backend, (url.host or "localhost").lower(), url.port or 5432, url.database
