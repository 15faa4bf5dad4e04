"""The routes of the page *Privacy budget*: Airflow authenticates the user and decides which connections they may read.

A connection shows what its database login may read in the ledger (``dp_operators.budget.grants``). So a user who may
read only their team's connection in Airflow sees only that team's account.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.connection import Connection
from airflow.utils.session import create_session
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse
from sqlalchemy import select

from dp_operators.budget import LedgerReader, LedgerUnavailable, NotAllowed, PrivacyLedger
from dp_operators.hooks.ledger import PrivacyLedgerHook, ledger_url
from dp_operators.plugins import pages, verification
from spark_jobs.contract.errors import InvalidRequest

NO_SUCH = "there is no such ledger, or you may not read its connection"


def readable(connection_id: str, user: GetUserDep) -> str:
    """The connection's id, for a user who may read it.

    Raises:
        HTTPException: they may not; the response does not reveal whether the connection exists.
    """
    if not _may_read(connection_id, user):
        raise HTTPException(403, NO_SUCH)
    return connection_id


Readable = Annotated[str, Depends(readable)]


def make_app() -> FastAPI:
    """The routes, below the plugin's prefix."""
    app = FastAPI(title="Privacy budget", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/", response_class=HTMLResponse)
    def ledgers(user: GetUserDep) -> HTMLResponse:
        """The ledgers whose connections the user may read."""
        return _page(lambda nonce: pages.ledgers(_readable_ledgers(user), nonce=nonce))

    @app.get("/{connection_id}/", response_class=HTMLResponse)
    def accounts(connection_id: Readable) -> HTMLResponse:
        """The accounts of a ledger."""
        return _show(connection_id, lambda ledger, nonce: pages.accounts(connection_id, ledger, nonce=nonce))

    @app.get("/{connection_id}/account", response_class=HTMLResponse)
    def account(connection_id: Readable, name: str) -> HTMLResponse:
        """One account with its blocks and its latest charges."""
        return _show(connection_id, lambda ledger, nonce: pages.account(connection_id, ledger, name, nonce=nonce))

    @app.get("/{connection_id}/verify", response_class=HTMLResponse)
    def verify(connection_id: Readable, account: str, uri: str) -> HTMLResponse:
        """Whether a release's files are what the ledger paid for."""
        return _show(
            connection_id,
            lambda ledger, nonce: verification.verification(connection_id, ledger, account, uri, nonce=nonce),
        )

    return app


def _may_read(connection_id: str, user: Any) -> bool:
    team = Connection.get_team_name(connection_id) if conf.getboolean("core", "multi_team") else None
    details = ConnectionDetails(conn_id=connection_id, team_name=team)
    return bool(get_auth_manager().is_authorized_connection(method="GET", details=details, user=user))


def _readable_ledgers(user: Any) -> list[str]:
    of_ledgers = select(Connection.conn_id).where(Connection.conn_type == PrivacyLedgerHook.conn_type)
    with create_session() as session:
        known = set(session.scalars(of_ledgers))
    # a connection in the environment or in a secrets backend cannot be listed, so the default one is tried by name
    return sorted(name for name in known | {PrivacyLedgerHook.default_conn_name} if _may_read(name, user))


def _show(connection_id: str, make: Callable[[LedgerReader, str], str]) -> HTMLResponse:
    """A page about a ledger, or a page with the error message."""
    try:
        with closing(_ledger(connection_id)) as ledger:
            return _page(lambda nonce: make(ledger, nonce))
    except (InvalidRequest, LedgerUnavailable) as error:
        line = str(error)
        status = 503 if isinstance(error, LedgerUnavailable) else 403 if isinstance(error, NotAllowed) else 404
        return _page(lambda nonce: pages.failure(line, nonce=nonce), status=status)


def _ledger(connection_id: str) -> PrivacyLedger:
    try:
        connection = Connection.get_connection_from_secrets(connection_id)
    except Exception:  # the error of a secrets backend may hold secrets
        raise HTTPException(404, NO_SUCH) from None
    return PrivacyLedger(ledger_url(connection), patience=5.0)


def _page(make: Callable[[str], str], *, status: int = 200) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    rules = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
    )
    headers = {
        "Content-Security-Policy": rules,
        "Cache-Control": "no-store",
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
    }
    return HTMLResponse(make(nonce), status_code=status, headers=headers)
