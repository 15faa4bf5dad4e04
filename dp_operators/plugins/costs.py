"""The page with the cost and the expected widths of a request, as ``dp-budget run --dry-run`` prints them.

Whoever asks may be an attacker. The page therefore reads no place that the request names: neither the table, nor an
earlier release or a saved model. It looks only into the output's folder, which must be one of the account's.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from threading import Lock
from typing import Any

from dp_operators.budget import BudgetExceeded, LedgerUnavailable, PrivacyLedger
from dp_operators.plugins.pages import line_of, render
from dp_operators.releasing import (
    ChargedRequest,
    ReleaseError,
    ReleaseFailed,
    expected_widths,
    forecast,
    require_no_key_file,
    with_references,
)
from dp_operators.releasing.preflight import Forecast
from spark_jobs.contract.budget_split import BudgetPart, split_budget
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.privacy import Budget, exact_difference, plain
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.request_documents import json_fields, yaml_fields
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.written import Written, read_written

MAX_LENGTH = 100_000
"""The length of a request's text, in characters."""


EXPECTED = {
    "rows": "Rows",
    "positive_rate": "Share of positives",
    "auc": "AUC",
    "r_squared": "R-squared",
}
"""What may be expected of a table, each with the label of its field."""
PATIENCE = 60.0
"""Seconds after which a forecast is ended."""
_FORECASTS = Lock()


class NoMachine:
    """A runner that runs nothing, because the release would run on another machine, which makes its own checks."""

    def check(self, request: TableRequest) -> None:
        """Check nothing."""


def cost_page(
    connection: str, ledger: PrivacyLedger | None, text: str, expected: Mapping[str, str] | None = None, *, nonce: str
) -> str:
    """The page that prices a request: a form, and the answer to the request that was sent with it.

    Args:
        connection: the ledger's connection.
        ledger: the ledger; None for the empty form.
        text: the request as JSON or YAML.
        expected: what is expected of the table, by the names in ``EXPECTED``, for a forecast of widths; empty texts are
            ignored.
        nonce: the nonce of the page's style.
    """
    answer, refused = None, ""
    stated = {name: value.strip() for name, value in (expected or {}).items() if value.strip()}
    if ledger is not None:
        try:
            answer = _answer(text, stated, ledger)
        except (InvalidRequest, BudgetExceeded, LedgerUnavailable, ReleaseError) as error:
            refused = line_of(error)
    return render(
        "cost.html.j2",
        connection=connection,
        text=text,
        fields=[(name, label, stated.get(name, "")) for name, label in EXPECTED.items()],
        answer=answer,
        refused=refused,
        nonce=nonce,
    )


def _answer(text: str, stated: Mapping[str, str], ledger: PrivacyLedger) -> dict[str, Any]:
    request = _request(text, ledger)
    expected = forecast(ChargedRequest.of(request, ledger), runner=NoMachine())
    completed = expected.charged.request
    return {
        "account": expected.charged.account,
        "cost": _amount(expected.cost),
        "currency": expected.cost.currency,
        "paid": None if expected.charge is None else expected.charge.state.value,
        "blocks": [_block(name, left, expected) for name, left in expected.left.items()],
        "parts": [
            {
                "kinds": f"{_bought(part)}{', '.join(part.kinds)}",
                "cost": _amount(part.granted.charged),
                "shared": part.shared,
            }
            for part in split_budget(completed)
        ],
        "widths": _widths(completed, ExpectedTable.parse(stated)) if stated else [],
    }


def _bought(part: BudgetPart) -> str:
    return "variation between units of " if part.of_units else "the rest of " if part.rest else ""


def _request(text: str, ledger: PrivacyLedger) -> ReleaseRequest | Written[ReleaseRequest]:
    fields = json_fields(text) if text.lstrip().startswith("{") else yaml_fields(text)
    require_no_key_file(fields)
    model = fields.get("model")
    unhashed = isinstance(model, dict) and model.get("kind") == "spark_ml" and not model.get("sha256")
    if unhashed or _names_release(model) or _names_release(fields.get("diagnostics")):
        raise InvalidRequest(
            "request", None,
            "must not name an earlier release, or a saved model without its hash, because this page reads neither",
            "use `dp-budget run --dry-run`",
        )  # fmt: skip
    return read_written(ReleaseRequest, with_references(fields, ledger))


def _names_release(value: object) -> bool:
    if isinstance(value, dict):
        by_its_place = isinstance(value.get("compare_with"), str)
        return by_its_place or "release" in value or "uri" in value or any(map(_names_release, value.values()))
    if isinstance(value, list):
        return any(map(_names_release, value))
    return isinstance(value, str) and "://" in value


def _widths(request: ReleaseRequest, table: ExpectedTable) -> list[dict[str, Any]]:
    """The expected widths of each kind; the simulation takes a processor, so there is one at a time."""
    if not _FORECASTS.acquire(blocking=False):
        raise ReleaseFailed("another forecast is being made; ask again in a minute")
    try:
        widths = expected_widths(request, table, patience=PATIENCE)
    finally:
        _FORECASTS.release()
    return [
        {
            "kind": of_kind["kind"],
            "undefined": f"{of_kind['undefined']:.0%}" if of_kind["undefined"] else "",
            "widths": {name.replace("_", " "): f"{width:.2g}" for name, width in of_kind["widths"].items()},
        }
        for of_kind in widths
    ]


def _block(name: str, left: Budget, expected: Forecast[Any]) -> dict[str, str]:
    has, cost = Decimal(left.counted_as(expected.cost)), Decimal(expected.cost.counted_as(expected.cost))
    return {"name": name, "left": plain(has), "after": plain(max(exact_difference(has, cost), Decimal(0)))}


def _amount(budget: Budget) -> str:
    shown = budget.amount
    return shown if not budget.delta else f"{shown}, delta {plain(budget.delta)}"
