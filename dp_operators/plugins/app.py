"""The routes of the page *Privacy budget*; Airflow authenticates the user, and ``access`` decides what they may see."""

from __future__ import annotations

from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, Form, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from dp_operators.plugins import api, costs, pages, releases, verification
from dp_operators.plugins.access import API, HEADERS, Ledger, Readable, answer_errors, page, readable_ledgers
from dp_operators.plugins.filters import NewCap, Wanted
from dp_operators.plugins.runs import run_address


def make_app() -> FastAPI:
    """The routes, below the plugin's prefix."""
    app = FastAPI(title="Privacy budget", docs_url=None, redoc_url=None, openapi_url=None)
    answer_errors(app)
    app.include_router(api.router, prefix=API)

    @app.get("/", response_class=HTMLResponse)
    def ledgers(user: GetUserDep) -> HTMLResponse:
        """The ledgers that the user may see."""
        return page(lambda nonce: pages.ledgers(readable_ledgers(user), nonce=nonce))

    @app.get("/{connection_id}/", response_class=HTMLResponse)
    def accounts(connection_id: Readable, ledger: Ledger) -> HTMLResponse:
        """The accounts of a ledger."""
        return page(lambda nonce: pages.accounts(connection_id, ledger, nonce=nonce))

    @app.get("/{connection_id}/account", response_class=HTMLResponse)
    def account(connection_id: Readable, ledger: Ledger, name: str, wanted: Wanted, cap: NewCap) -> HTMLResponse:
        """One account with its blocks and its charges, and what a higher cap would change if one is asked for."""
        decision = ledger.cap_decision(name, **cap) if cap else None
        return page(lambda nonce: pages.account(connection_id, ledger, name, wanted, decision, nonce=nonce))

    @app.get("/{connection_id}/charges.csv")
    def charges_csv(ledger: Ledger, name: str, wanted: Wanted) -> Response:
        """All charges of an account that match the filters, as a file that is read while it is sent."""
        lines = pages.charges_csv(pages.charges_of(ledger, name, wanted), ledger.account(name))
        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="charges.csv"'}
        return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)

    _add_releases(app)
    _add_costs(app)
    return app


def _add_releases(app: FastAPI) -> None:
    @app.get("/{connection_id}/release", response_class=HTMLResponse)
    def release(connection_id: Readable, ledger: Ledger, user: GetUserDep, account: str, key: str) -> HTMLResponse:
        """A charge, and what was published for it."""
        run = run_address(key, user)
        return page(lambda nonce: releases.release_page(connection_id, ledger, account, key, run=run, nonce=nonce))

    @app.get("/{connection_id}/file")
    def file(ledger: Ledger, account: str, key: str, name: str) -> Response:
        """One file of a published release."""
        served = releases.release_file(ledger, account, key, name)
        return Response(served.content, media_type=served.media_type, headers={**HEADERS, **served.headers})

    @app.get("/{connection_id}/verify", response_class=HTMLResponse)
    def verify(connection_id: Readable, ledger: Ledger, account: str, uri: str) -> HTMLResponse:
        """Whether a release's files are what the ledger paid for."""
        return page(lambda nonce: verification.verification(connection_id, ledger, account, uri, nonce=nonce))


def _add_costs(app: FastAPI) -> None:
    @app.get("/{connection_id}/cost", response_class=HTMLResponse)
    def cost_form(connection_id: Readable) -> HTMLResponse:
        """The form that asks what a request would cost."""
        return page(lambda nonce: costs.cost_page(connection_id, None, "", nonce=nonce))

    @app.post("/{connection_id}/cost", response_class=HTMLResponse)
    def cost(
        connection_id: Readable,
        ledger: Ledger,
        request: Annotated[str, Form(max_length=costs.MAX_LENGTH)],
        rows: Annotated[str, Form(max_length=50)] = "",
        positive_rate: Annotated[str, Form(max_length=50)] = "",
        auc: Annotated[str, Form(max_length=50)] = "",
        r_squared: Annotated[str, Form(max_length=50)] = "",
    ) -> HTMLResponse:
        """What a request would cost and buy; nothing is charged and no table is read."""
        expected = {"rows": rows, "positive_rate": positive_rate, "auc": auc, "r_squared": r_squared}
        return page(lambda nonce: costs.cost_page(connection_id, ledger, request, expected, nonce=nonce))
