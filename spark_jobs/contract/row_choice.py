"""Splits a table's request in two if its bound on the rows of a unit has to be chosen: the choice, then the table.

The choice is a release of its own, with its own charge, key, draw and manifest; the table is a second release whose
request contains the chosen bound as a number. What holds for every release therefore holds for both: a choice is drawn
once, its hash is in the ledger before it is opened, and an attempt that dies between the two finds the committed choice
and does not draw again. By adaptive composition the two together cost their sum, which is the request's budget.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TypeVar, cast

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.contract.options.row_bound import MAX_CHOICE_SHARE, SMALLEST_CHOICE_SHARE, ReleasedBound
from spark_jobs.contract.options.rows_per_unit import RowsPerUnitOptions
from spark_jobs.contract.privacy import Budget, Neighbours, exact_difference, share_of
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.table_request import TableRequest

LARGEST_ABOVE = 10**12


def chooses_rows(request: TableRequest) -> bool:
    """Whether a request is for a table whose bound has yet to be chosen."""
    return isinstance(request, ReleaseRequest) and request.chooses_rows


def choice_key(key: object) -> str:
    """The release key of the choice, from the release key of its table."""
    return f"{key}/max_rows"


def choice_of(request: ReleaseRequest) -> ReleaseRequest:
    """The request that chooses the bound, on the same rows and at the choice's share of epsilon.

    The bound is chosen so that about a target number of units have more rows (``mechanisms.row_choice``). The target is
    the number at which one more row in the bound adds as much noise, over all cells, as it saves rows. This is the
    number of cells divided by the table's epsilon, times the factor by which sums beside a count increase the count's
    noise; if neighbours differ by a replaced row, it is twice as large.
    """
    options = _options(request)
    epsilon, rest = _shares(request)
    numbers = 1 + len(options.statistic.terms)
    noise = math.sqrt((numbers + 1) * (numbers + 2) / 6) * (1 if request.neighbours is Neighbours.ADD_REMOVE else 2)
    above = min(round(options.statistic.cells * noise / float(rest.epsilon)), LARGEST_ABOVE)
    choice = RowsPerUnitOptions(largest=request.rows_of_unit, units_above=above, by=options.by)
    return request.changed(
        diagnostics=(choice,), budget=epsilon, label=None, model=None, title=None, population_share=None
    )


def with_rows(request: ReleaseRequest, rows: ReleasedBound | int) -> ReleaseRequest:
    """The request for the table with a chosen bound, at the epsilon that the choice leaves."""
    bound = {"max_rows": rows, "max_rows_limit": None, "max_rows_share": None}
    options = _options(request).model_copy(update=bound)
    _, rest = _shares(request)
    return request.changed(diagnostics=(options,), budget=rest)


AnyRequest = TypeVar("AnyRequest", bound=TableRequest)


def steps_of(request: AnyRequest) -> tuple[AnyRequest, ...]:
    """The requests released for one request: the choice and the table at the largest bound, or the request itself."""
    if isinstance(request, ReleaseRequest) and request.chooses_rows:
        return cast("tuple[AnyRequest, ...]", (choice_of(request), with_rows(request, request.rows_of_unit)))
    return (request,)


def require_bound(request: TableRequest) -> None:
    """Refuse a table whose bound has yet to be chosen, for callers that cannot release the choice before it.

    Raises:
        InvalidRequest: the bound has yet to be chosen.
    """
    if chooses_rows(request):
        raise InvalidRequest(
            "diagnostics.max_rows", "auto", "must be chosen by a charged release of its own",
            "run the request by the operator or by dp-budget run, or give a number of rows",
        )  # fmt: skip


def share_for(cells: int) -> Decimal:
    """The default share of epsilon for a choice, rounded to hundredths; it falls with the number of cells.

    At a share s of epsilon a choice overlooks about ``2 / (s epsilon)`` units, each of which loses up to M rows, where
    M is the largest possible bound. The noise of the table's cells adds up to ``cells M / ((1 - s) epsilon)``. The
    default s minimises the sum of both errors.
    """
    part = math.sqrt(2) / (math.sqrt(2) + math.sqrt(cells))
    return min(max(Decimal(round(100 * part)) / 100, SMALLEST_CHOICE_SHARE), MAX_CHOICE_SHARE)


def _options(request: ReleaseRequest) -> AggregatesOptions:
    (options,) = request.diagnostics
    if not isinstance(options, AggregatesOptions):
        raise TypeError(f"no choice of rows for {options.kind}")
    return options


def _shares(request: ReleaseRequest) -> tuple[Budget, Budget]:
    """What the choice may cost, and the table."""
    budget, options = request.budget, _options(request)
    part = share_for(options.statistic.cells) if options.max_rows_share is None else options.max_rows_share
    epsilon = share_of(budget.epsilon, part)
    rest = budget.model_copy(update={"epsilon": exact_difference(budget.epsilon, epsilon)})
    return Budget(epsilon=epsilon), rest
