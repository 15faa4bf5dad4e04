"""The Airflow hook of the privacy ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from dp_operators.get_provider_info import SSL_MODES, TLS_FILES
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from dp_operators.budget import PrivacyLedger


TLS = ("sslmode", *(name for name, *_ in TLS_FILES))
"""The extras of a connection that are parameters of libpq."""


class PrivacyLedgerHook(BaseHook):
    """Opens the privacy ledger of a connection of type ``privacy_ledger``.

    The connection names the ledger's own database, never Airflow's metadata database, in one of three ways: host, port,
    schema, login and password of a PostgreSQL server; the extra ``path``, the absolute path of a SQLite file; or the
    extra ``url``, a SQLAlchemy URL of either kind. For a host, the extras ``sslmode``, ``sslrootcert``, ``sslcert`` and
    ``sslkey`` are those of libpq; a URL has them in its query. The extra ``deployment`` identifies this Airflow
    deployment in release keys, for ledgers that several deployments share.

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

        # logs of tasks are read by more people than may see the connection
        return PrivacyLedger(ledger_url(self._connection()), name=f"connection:{self.privacy_ledger_conn_id}")

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
                "privacy_ledger_conn_id", self.privacy_ledger_conn_id, "must be a connection that exists",
                "create it with type privacy_ledger, e.g. airflow connections add",
            ) from None  # fmt: skip


def ledger_url(connection: Connection) -> str:
    """The URL of the ledger in a connection of type ``privacy_ledger``; its passwords are masked in logs from now on.

    Raises:
        InvalidRequest: another type of connection, not exactly one of host, path and url, or a host without a database.
    """
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    from dp_operators.budget.tables.backends import passwords_in

    what = f"connection {connection.conn_id}"
    _require_type(connection, what)
    extra = connection.extra_dejson
    given = _given(host=connection.host, path=extra.get("path"), url=extra.get("url"))
    if len(given) != 1:
        raise InvalidRequest(
            what, " and ".join(given) or None, "must name the ledger by exactly one of host, path and url",
            "set the PostgreSQL host, or one of the extras path and url",
        )  # fmt: skip
    if "host" not in given and _given(**{name: extra.get(name) for name in TLS}):
        raise InvalidRequest(
            what, ", ".join(name for name in TLS if extra.get(name)), "is for a ledger that is named by its host",
            "put it into the URL's query, or name the host",
        )  # fmt: skip
    if "path" in given:
        if not Path(str(given["path"])).is_absolute():
            raise InvalidRequest(what, given["path"], "must name an absolute path", "give the file's full path")
        url = URL.create("sqlite", database=str(given["path"]))
    elif "host" in given:
        if not connection.schema:
            raise InvalidRequest(what, None, "must name the database in schema", "set it, e.g. privacy_ledger")
        url = URL.create(
            "postgresql+psycopg",
            username=connection.login,
            password=connection.password,
            host=connection.host,
            port=connection.port,
            database=connection.schema,
        )
        url = url.update_query_dict(_tls(extra, what))
    else:
        try:
            url = make_url(str(given["url"]))
        except (ArgumentError, ValueError):
            # no value: the URL may contain a password
            raise InvalidRequest(f"{what} url", None, "must be a database URL", "write it as SQLAlchemy does") from None
    for secret in passwords_in(url):
        mask_secret(secret)
    return url.render_as_string(hide_password=False)


def _tls(extra: Mapping[str, Any], what: str) -> dict[str, str]:
    """The TLS settings among the extras; a misspelt one is refused, because without it nothing might be encrypted."""
    unknown = [name for name in extra if name.startswith("ssl") and name not in TLS]
    if unknown:
        raise InvalidRequest(what, unknown[0], f"must be one of {', '.join(TLS)}", "correct the extra's name")
    tls = {name: str(value) for name, value in _given(**{name: extra.get(name) for name in TLS}).items()}
    mode = tls.get("sslmode", "prefer")
    if mode not in SSL_MODES:
        raise InvalidRequest(
            what, f"sslmode {mode}", f"must be one of {', '.join(SSL_MODES)}",
            "use verify-full, which checks the server's certificate and name",
        )  # fmt: skip
    for name in TLS[1:]:
        if not Path(tls.get(name, "/")).is_absolute() and (name, tls[name]) != ("sslrootcert", "system"):
            raise InvalidRequest(
                what, f"{name} {tls[name]}", "must be an absolute path",
                "give the full path of a file that workers, triggerer and API server can read",
            )  # fmt: skip
    return tls


def _require_type(connection: Connection, what: str) -> None:
    if connection.conn_type != PrivacyLedgerHook.conn_type:
        raise InvalidRequest(
            what, connection.conn_type, f"must be of type {PrivacyLedgerHook.conn_type}",
            "give the ledger a database and a connection of its own",
        )  # fmt: skip


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
