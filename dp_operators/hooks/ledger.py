"""The Airflow hook of the privacy ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from dp_operators.budget import PrivacyLedger


class PrivacyLedgerHook(BaseHook):
    """Opens the privacy ledger of a connection of type ``privacy_ledger``.

    The connection names the ledger's own database, never Airflow's metadata database, in one of three ways: host, port,
    schema, login and password of a PostgreSQL server; the extra ``path``, the absolute path of a SQLite file; or the
    extra ``url``, a SQLAlchemy URL of either kind. The extra ``deployment`` identifies this Airflow deployment in
    release keys, for ledgers that several deployments share.

    Args:
        privacy_ledger_conn_id: the id of the connection.
    """

    conn_name_attr = "privacy_ledger_conn_id"
    default_conn_name = "privacy_ledger_default"
    conn_type = "privacy_ledger"
    hook_name = "Privacy ledger"

    def __init__(self, privacy_ledger_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.privacy_ledger_conn_id = privacy_ledger_conn_id

    def get_ledger(self) -> PrivacyLedger:
        """The ledger; its database is not used before the first call.

        Raises:
            InvalidRequest: no such connection, or one that does not name a ledger.
            LedgerUnavailable: the ledger cannot be reached.
        """
        from dp_operators.budget import PrivacyLedger

        return PrivacyLedger(ledger_url(self._connection()))

    def get_conn(self) -> PrivacyLedger:
        """The same as ``get_ledger``, under the name that all Airflow hooks have."""
        return self.get_ledger()

    @property
    def deployment(self) -> str | None:
        """The name of this Airflow deployment in the connection; None if it has none."""
        name = self._connection().extra_dejson.get("deployment")
        return str(name) if name else None

    def test_connection(self) -> tuple[bool, str]:
        """Whether the ledger answers, and a message for Airflow's connection form."""
        from dp_operators.budget import LedgerUnavailable

        try:
            accounts = len(self.get_ledger().accounts())
        except (InvalidRequest, LedgerUnavailable) as error:
            return False, str(error)
        return True, f"The privacy ledger answers; accounts: {accounts}"

    def _connection(self) -> Connection:
        try:
            return self.get_connection(self.privacy_ledger_conn_id)
        except AirflowNotFoundException:
            raise InvalidRequest(
                "privacy_ledger_conn_id",
                value=self.privacy_ledger_conn_id,
                requirement="must be a connection that exists",
                remedy="create it with type privacy_ledger, e.g. airflow connections add",
            ) from None


def ledger_url(connection: Connection) -> str:
    """The URL of the ledger in a connection of type ``privacy_ledger``; its passwords are masked in logs from now on.

    Raises:
        InvalidRequest: another type of connection, not exactly one of host, path and url, or a host without a database.
    """
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    from dp_operators.budget.backends import passwords_in

    what = f"connection {connection.conn_id}"
    _require_type(connection, what)
    extra = connection.extra_dejson
    given = _given(host=connection.host, path=extra.get("path"), url=extra.get("url"))
    if len(given) != 1:
        raise InvalidRequest(
            what,
            value=" and ".join(given) or None,
            requirement="must name the ledger by exactly one of host, path and url",
            remedy="set the PostgreSQL host, or one of the extras path and url",
        )
    if "path" in given:
        if not Path(str(given["path"])).is_absolute():
            raise InvalidRequest(
                what, value=given["path"], requirement="must name an absolute path", remedy="give the file's full path"
            )
        url = URL.create("sqlite", database=str(given["path"]))
    elif "host" in given:
        if not connection.schema:
            raise InvalidRequest(
                what, requirement="must name the database in schema", remedy="set it, e.g. privacy_ledger"
            )
        url = URL.create(
            "postgresql+psycopg",
            username=connection.login,
            password=connection.password,
            host=connection.host,
            port=connection.port,
            database=connection.schema,
        )
    else:
        try:
            url = make_url(str(given["url"]))
        except (ArgumentError, ValueError):
            # no value: the URL may contain a password
            raise InvalidRequest(
                f"{what} url", requirement="must be a database URL", remedy="write it as SQLAlchemy does"
            ) from None
    for secret in passwords_in(url):
        mask_secret(secret)
    return url.render_as_string(hide_password=False)


def _require_type(connection: Connection, what: str) -> None:
    if connection.conn_type != PrivacyLedgerHook.conn_type:
        raise InvalidRequest(
            what,
            value=connection.conn_type,
            requirement=f"must be of type {PrivacyLedgerHook.conn_type}",
            remedy="give the ledger a database and a connection of its own",
        )


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
