"""What is refused before a charge: all that a request, and what its account says of the table, decide by themselves.

A dry run, the operator, the command line and the application call the same function, the last one before it reads a
row. What it passes is not refused any more: not by the mechanisms, for each part of the budget is at least what its
diagnostics can be released with; and not by the driver's memory, for the counts of a request have a most.
"""

from __future__ import annotations

from spark_jobs.contract.budget_split import split_budget
from spark_jobs.contract.column_checks import check_columns
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.base import MAX_KEYS
from spark_jobs.contract.request import ReleaseRequest


def preflight(request: ReleaseRequest) -> None:
    """Refuse a request that could be charged and then not be released.

    Args:
        request: what is to be released; its table's columns are looked at where they are known, as they are once the
            account's terms are filled in.

    Raises:
        InvalidRequest: a part of the budget is too small for what it pays for, the counts would be too many, or the
            table has not the columns that are read, or has them of other types.
    """
    require_budget(request)
    require_size(request)
    if request.table.columns is not None:
        check_columns(request, {column.name: column.type for column in request.table.columns})


def require_budget(request: ReleaseRequest) -> None:
    """Refuse a budget of which some part is too small for a diagnostic that it pays for, in any order of them.

    Raises:
        InvalidRequest: it is, naming the least of the diagnostic.
    """
    for part in split_budget(request):
        for options in part.diagnostics:
            options.check_share(part.epsilon_per_row, part.delta_per_row)


def require_size(request: ReleaseRequest) -> None:
    """Refuse statistics with more counts and sums than a driver is sure to hold, whatever the number of rows.

    Raises:
        InvalidRequest: they have.
    """
    sizes = {statistic: statistic.max_keys for statistic in request.statistics}
    total = sum(sizes.values())
    if total <= MAX_KEYS:
        return
    largest = max(sizes, key=lambda statistic: sizes[statistic])
    raise InvalidRequest(
        "diagnostics", value=f"{total:,} counts", requirement=f"must be made of at most {MAX_KEYS:,} counts",
        remedy=largest.remedy_for_size,
    )  # fmt: skip
