"""Who may see a ledger, and what a refusal looks like: a page for a browser, JSON for the API.

A connection shows what its database login may read in the ledger (``dp_operators.budget.tables.grants``). So a user who
may read only their team's connection in Airflow sees only that team's account.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.connection import Connection
from airflow.utils.session import create_session
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from sqlalchemy import select
from starlette.exceptions import HTTPException as StarletteHTTPException

from dp_operators import configuration
from dp_operators.budget import LedgerUnavailable, NotAllowed, PrivacyLedger
from dp_operators.hooks.ledger import PrivacyLedgerHook, ledger_url
from dp_operators.plugins import pages
from dp_operators.releasing import ReleaseError
from spark_jobs.contract.errors import InvalidRequest

try:
    from airflow.api_fastapi.auth.managers.models.resource_details import TeamDetails
except ImportError:  # the auth managers of Airflow 3.1 know no teams
    TeamDetails = None  # type: ignore[assignment,misc]

NO_SUCH = "there is no such ledger, or you may not read its connection"
API = "/api/v1"

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer."""


def readable(connection_id: str, user: GetUserDep) -> str:
    """The connection's id, for a user who may see its ledger.

    Raises:
        HTTPException: they may not; the answer does not reveal whether the connection exists.
    """
    if not _may_see(connection_id, user):
        raise HTTPException(403, NO_SUCH)
    return connection_id


Readable = Annotated[str, Depends(readable)]


def opened(connection_id: Readable) -> Iterator[PrivacyLedger]:
    """The ledger of a connection that the user may read, closed after the answer.

    Raises:
        HTTPException: there is no such connection, or it is not a ledger's; the answer is the same for both, so that a
            user who may see only the pages does not learn which other connections exist.
        InvalidRequest: the connection names no ledger.
    """
    try:
        connection = Connection.get_connection_from_secrets(connection_id)
    except Exception:  # the error of a secrets backend may hold secrets
        raise HTTPException(404, NO_SUCH) from None
    if connection.conn_type != PrivacyLedgerHook.conn_type:
        raise HTTPException(404, NO_SUCH)
    with closing(PrivacyLedger(ledger_url(connection), patience=5.0)) as ledger:
        yield ledger


Ledger = Annotated[PrivacyLedger, Depends(opened)]


def readable_ledgers(user: Any) -> list[str]:
    """The connections of all ledgers that the user may see."""
    of_ledgers = select(Connection.conn_id).where(Connection.conn_type == PrivacyLedgerHook.conn_type)
    with create_session() as session:
        known = set(session.scalars(of_ledgers))
    # a connection in the environment or in a secrets backend cannot be listed, so the default one is tried by name
    return sorted(name for name in known | {PrivacyLedgerHook.default_conn_name} if _may_see(name, user))


def page(make: Callable[[str], str], *, status: int = 200) -> HTMLResponse:
    """The response of an HTML page that may use only its own style and script."""
    nonce = secrets.token_urlsafe(16)
    rules = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src 'self'; "
        "frame-ancestors 'self'; base-uri 'none'; form-action 'self'"
    )
    return HTMLResponse(make(nonce), status_code=status, headers={**HEADERS, "Content-Security-Policy": rules})


def answer_errors(app: FastAPI) -> None:
    """Have every error of ``app`` answered in one line: as a page, or as JSON below ``API``."""

    def of_http(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, StarletteHTTPException) else 500
        detail = error.detail if isinstance(error, StarletteHTTPException) else ""
        return _refusal(request, status, detail if isinstance(detail, str) else "this cannot be shown")

    def of_parameters(request: Request, error: Exception) -> Response:
        [first, *_] = error.errors() if isinstance(error, RequestValidationError) else [{"loc": (), "msg": ""}]
        return _refusal(request, 422, f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}")

    def of_ledger(request: Request, error: Exception) -> Response:
        status = 503 if isinstance(error, (LedgerUnavailable, ReleaseError)) else 404
        return _refusal(request, 403 if isinstance(error, NotAllowed) else status, pages.line_of(error))

    def of_program(request: Request, _: Exception) -> Response:
        return _refusal(request, 500, "this page has failed; the API server's log says why")

    app.add_exception_handler(StarletteHTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_parameters)
    for kind in (InvalidRequest, LedgerUnavailable, ReleaseError):
        app.add_exception_handler(kind, of_ledger)
    app.add_exception_handler(Exception, of_program)


def _refusal(request: Request, status: int, line: str) -> Response:
    if request.url.path.removeprefix(request.scope.get("root_path", "")).startswith(f"{API}/"):
        return JSONResponse({"detail": line}, status_code=status, headers=HEADERS)
    sign_in = get_auth_manager().get_url_login(next_url=str(request.url)) if status == 401 else ""
    return page(lambda nonce: pages.failure(line, sign_in=sign_in, nonce=nonce), status=status)


def _may_see(connection_id: str, user: Any) -> bool:
    manager, permission = get_auth_manager(), configuration.page_permission()
    team = Connection.get_team_name(connection_id) if conf.getboolean("core", "multi_team", fallback=False) else None
    if permission is not None and (team is None or _is_of_team(team, user)):
        resource = f"{permission}:{connection_id}"
        if manager.is_authorized_custom_view(method="GET", resource_name=resource, user=user):
            return True
    details = ConnectionDetails(conn_id=connection_id, team_name=team)
    return bool(manager.is_authorized_connection(method="GET", details=details, user=user))


def _is_of_team(team: str, user: Any) -> bool:
    """Whether the user belongs to a team; nobody does where Airflow cannot say so."""
    if TeamDetails is None:
        return False
    return bool(get_auth_manager().is_authorized_team(method="GET", details=TeamDetails(name=team), user=user))
