"""What ``dp-budget run --dry-run`` prints: the cost of a release, and the expected widths of its intervals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dp_operators.budget import ChargeState
from spark_jobs.contract.budget_split import BudgetPart, split_budget
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.options.values import OfValues
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.row_choice import steps_of
from spark_jobs.contract.written import Written, written_fields

if TYPE_CHECKING:
    from dp_operators.releasing import Forecast

_PAID = {
    ChargeState.COMMITTED: "the release exists, or only has to be published, for",
    ChargeState.RESERVED: "it would continue with its charge of",
}

_DECIDED = frozenset({
    "path", "name", "output", "unit", "neighbours", "max_rows", "bounds", "x_bounds", "y_bounds", "outcome_bounds",
    "features", "groups", "step", "scale", "negative", "rest", "thresholds",
    "by", "measures",
})  # fmt: skip
"""The fields of a request, and the options, that an account may decide."""

_NAMING = ("kind", "of", "column")
"""The fields by which an entry of a list is named."""

Rows = Annotated[
    int | None, typer.Option(help="With --dry-run: the rows that you expect; forecasts the widths of all intervals.")
]
PositiveRate = Annotated[float | None, typer.Option(help="With --rows: the share of positives that you expect.")]
Auc = Annotated[float | None, typer.Option(help="With --rows: the AUC that you expect; 0.8 by default.")]
RSquared = Annotated[float | None, typer.Option(help="With --rows: the R-squared that you expect; 0.5 by default.")]
Values = Annotated[
    list[str] | None,
    typer.Option(help="With --rows: where you expect the middle 90% of a column, as NAME=LOW:HIGH; may be repeated."),
]
Flagged = Annotated[
    list[str] | None,
    typer.Option(
        help="With --rows: which share of the rows you expect to have a score of at least a threshold, as "
        "THRESHOLD=SHARE; may be repeated."
    ),
]
Recalls = Annotated[
    list[str] | None,
    typer.Option(
        help="With --flagged: which share of the positives you expect to have a score of at least each of these "
        "thresholds, as THRESHOLD=SHARE; may be repeated."
    ),
]


def expected_table(
    *,
    dry_run: bool,
    rows: int | None,
    positive_rate: float | None,
    auc: float | None,
    flagged: Sequence[str] | None,
    recalls: Sequence[str] | None,
    r_squared: float | None,
    values: Sequence[str] | None,
) -> ExpectedTable | None:
    """What the options say is expected of the table; None without ``--rows``.

    Raises:
        InvalidRequest: an option is not of its form, or has no use without ``--dry-run`` and ``--rows``.
    """
    given = {
        "positive_rate": positive_rate, "auc": auc, "flagged": flagged or None, "recalls": recalls or None,
        "r_squared": r_squared, "values": values or None,
    }  # fmt: skip
    stated: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if rows is None or not dry_run:
        for name in ([] if rows is None else ["rows"]) + list(stated):
            raise InvalidRequest(
                name, None, "may be given only with --dry-run and --rows", "add them for a forecast, or leave it out"
            )
        return None
    if values:
        stated["values"] = {name: ends.split(":") for name, ends in _pairs("values", "NAME=LOW:HIGH", values)}
    for field, shares in (("flagged", flagged), ("recalls", recalls)):
        if shares:
            stated[field] = dict(_pairs(field, "THRESHOLD=SHARE", shares))
    return ExpectedTable.parse({"rows": rows, **stated})


def _pairs(field: str, form: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The two sides of each ``left=right``."""
    for text in texts:
        left, equals, right = text.rpartition("=")
        if not equals:
            raise InvalidRequest(
                field, text, f"must have the form {form}",
                "write it like amount=10:60" if field == "values" else "write it like 0.5=0.08",
            )  # fmt: skip
        yield left, right


def forecast_lines(price: Forecast[ReleaseRequest], table: ExpectedTable | None) -> Iterator[str]:
    """Lines on what a request would cost, or that it is paid for; and on widths, if ``table`` says what to expect."""
    from dp_operators.releasing import expected_widths

    charged, completed = price.charged, price.charged.request
    shown = steps_of(completed)[-1]
    widths = [] if table is None else _widths(expected_widths(shown, table))
    if price.charge is not None:
        yield f"would charge nothing to {charged.account}: {_PAID[price.charge.state]} {price.cost.amount}"
    for block, budget in price.left.items():
        where = charged.account if block == "all" else f"block {block} of {charged.account}"
        yield f"would charge {price.cost.amount} to {where}, which has {budget.counted_as(price.cost)} left"
    if price.engine:
        yield price.engine
    parts = split_budget(shown) if price.left else ()
    bought = (*_choice_first(price), *map(_bought, parts if len(parts) > 1 else ()))
    yield from (*_filled_in(charged.written, completed), *bought, *_coarse_steps(completed), *widths)


def _choice_first(price: Forecast[ReleaseRequest]) -> Iterator[str]:
    """What the choice of a bound on rows costs, and the table then; nothing if there is no choice to be made."""
    request = price.charged.request
    if not request.chooses_rows:
        return
    choice, table = steps_of(request)
    paid = price.cost == table.budget
    yield (
        f"  epsilon {plain(choice.budget.epsilon)} for the choice of max_rows, 1 to {request.rows_of_unit}, "
        f"in a release of its own{', which has its charge already' if paid else ''}"
    )
    yield f"  epsilon {plain(table.budget.epsilon)} for the table; widths below are those at the largest max_rows"


def _coarse_steps(request: ReleaseRequest) -> Iterator[str]:
    """One line for each column that has more values than cells."""
    for options in request.diagnostics:
        if isinstance(options, OfValues) and options.narrowest is not None:
            yield (
                f"{options.kind}: {options.column} has more values than cells: no interval is narrower than "
                f"{options.narrowest:g}"
            )


def _filled_in(request: ReleaseRequest | Written[ReleaseRequest], completed: ReleaseRequest) -> Iterator[str]:
    """One line for each field that the account has filled in."""
    written, whole = written_fields(request), completed.to_dict()
    for name in ("table", "output", "unit", "neighbours", "label", "model", "diagnostics"):
        for path, value in _added(written.get(name), whole[name], name):
            yield f"  from the account: {path} {json.dumps(value, ensure_ascii=False)}"


def _added(written: Any, whole: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The parts of a completed field that are not in the written one and that accounts decide, with their paths."""
    if isinstance(written, Mapping) and isinstance(whole, Mapping):
        for name, value in whole.items():
            yield from _added(written.get(name), value, f"{path}.{name}")
    elif isinstance(written, (list, tuple)) and isinstance(whole, list) and len(written) == len(whole):
        for one, other in zip(written, whole, strict=True):
            name = (
                next((other[name] for name in _NAMING if other.get(name)), None) if isinstance(other, Mapping) else None
            )
            if name is not None:
                yield from _added({} if isinstance(one, str) else one, other, f"{path}.{name}")
    elif path.rpartition(".")[2] in _DECIDED and written != whole and whole not in (None, False, "linear"):
        yield path, whole


def _bought(part: BudgetPart) -> str:
    read = f"one measurement, from which {len(part.kinds)} are read: " if part.shared else ""
    if part.of_units:
        return f"  epsilon {plain(part.granted.epsilon)} for how much {', '.join(part.kinds)} vary between units"
    rest = "the rest of " if part.rest else ""
    return f"  epsilon {plain(part.granted.epsilon)} for {read}{rest}{', '.join(part.kinds)}"


def _widths(expected: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["expected widths of intervals, simulated from what you stated; no table was read:"]
    for of_kind in expected:
        if of_kind["undefined"]:
            lines.append(f"  {of_kind['kind']}: undefined in {of_kind['undefined']:.0%} of the simulated releases")
        lines += [f"  {of_kind['kind']}: {name}: {width:.2g}" for name, width in of_kind["widths"].items()]
    return lines
