"""Checks before a charge: everything that the request and the account's terms for its table decide without the data.

A dry run, the operator, the command line and the application (before it reads a row) call the same function. A request
that passes is not rejected later: each part of the budget suffices for the mechanisms of its diagnostics, and the
counts are few enough for the driver's memory.
"""

from __future__ import annotations

from spark_jobs.contract.binding import VERSIONED_FORMATS
from spark_jobs.contract.budget_split import BudgetPart, split_budget
from spark_jobs.contract.column_checks import check_columns
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import BlockBy
from spark_jobs.contract.federation import BY_KEYS
from spark_jobs.contract.options.base import MAX_KEYS
from spark_jobs.contract.options.streams import MIN_EPSILON
from spark_jobs.contract.privacy import exact_decimal, half_square, plain
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.row_choice import require_bound
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.table_request import TableRequest

MAX_STATE = 2**24
"""The most numbers that the state of a stream may have; it is written anew with every run."""


def preflight(request: TableRequest) -> None:
    """Reject a request that could be charged but not released.

    Args:
        request: the request; its table's columns are checked if they are known, as they are once the account's terms
            are filled in.

    Raises:
        InvalidRequest: a bound on rows has yet to be chosen (check the requests of ``row_choice.steps_of`` instead); a
            part of the budget is too small for the diagnostics that it pays for; there would be too many counts; the
            table lacks columns that are read, has them with other types, or has no numbered versions; or the silos of a
            federation have agreed on something else.
    """
    if isinstance(request, ReleaseRequest):
        require_bound(request)
        require_agreed(request)
        require_budget(request)
        require_size(request)
    if isinstance(request, StreamRequest):
        require_stream(request)
    require_numbered(request)
    if request.table.columns is not None:
        check_columns(request, {column.name: column.type for column in request.table.columns})


def require_numbered(request: TableRequest) -> None:
    """Reject a version number for a table whose format has no versions: all of its files would be read at once.

    Raises:
        InvalidRequest: the table is a folder of files in a format without versions.
    """
    table = request.table
    if table.snapshot.table_version is not None and table.form not in VERSIONED_FORMATS:
        raise InvalidRequest(
            "table.snapshot.table_version", table.snapshot.table_version,
            f"must be left out for a {table.form} table, which has no numbered versions",
            "pin it by path_version or partition, or state the format",
        )  # fmt: skip


def require_agreed(request: ReleaseRequest) -> None:
    """Reject a request with a federation whose silos have not agreed on it.

    Raises:
        InvalidRequest: its shared part or its epsilon differs from what was agreed, not every server adds the whole
            noise, or a diagnostic that compares by keys does not have exactly two servers.
    """
    agreement = None if request.federation is None else request.federation.agreement
    if agreement is None:
        return
    if agreement.request_sha256 != request.shared_sha256:
        raise InvalidRequest(
            "federation.agreement.request_sha256", agreement.request_sha256,
            f"must be {request.shared_sha256}, the hash of those fields of this request that all silos share",
            "request what was agreed on, or make a new agreement for this request",
        )  # fmt: skip
    if agreement.epsilon != request.budget.epsilon:
        raise InvalidRequest(
            "budget.epsilon", plain(request.budget.epsilon),
            f"must be what the silos have agreed on, {plain(agreement.epsilon)}",
            "request that epsilon, or agree on another",
        )  # fmt: skip
    if agreement.colluding != len(agreement.servers) - 1:
        raise InvalidRequest(
            "federation.agreement.colluding", agreement.colluding,
            f"must be {len(agreement.servers) - 1}, one less than the number of servers, for a request",
            "make a new agreement, so that each server adds the whole noise",
        )  # fmt: skip
    by_keys = [options.kind for options in request.diagnostics if options.kind in BY_KEYS]
    if by_keys and len(agreement.servers) != 2:
        raise InvalidRequest(
            "federation.agreement.servers", len(agreement.servers), f"must be two for {by_keys[0]}",
            "make a new agreement with two servers",
        )  # fmt: skip


def require_budget(request: ReleaseRequest) -> None:
    """Reject a budget with a part that is too small for a diagnostic that it pays for.

    Raises:
        InvalidRequest: a part is too small; the message gives the smallest that the diagnostic needs.
    """
    for part in split_budget(request):
        exact_decimal(part.epsilon_per_row, what="budget.epsilon")
        if part.granted.rho is not None:
            require_rho(part)
            continue
        for options in () if part.of_units else part.diagnostics:
            options.check_share(part.epsilon_per_row, part.delta_per_row)


def require_rho(part: BudgetPart) -> None:
    """Reject a part of rho that is too small for its mechanisms.

    Raises:
        InvalidRequest: it is.
    """
    epsilon = max(options.min_epsilon for options in part.diagnostics)
    if part.epsilon_per_row < epsilon:
        smallest = half_square(epsilon * part.max_rows)
        raise InvalidRequest(
            "budget.rho", f"{part.granted.rho:.3g} for {part.kinds[0]}", f"must be at least {smallest:.3g}",
            "give more rho, or lower unit.max_rows",
        )  # fmt: skip


def require_stream(request: StreamRequest) -> None:
    """Reject a stream whose noise would exceed every count, or whose state would be too large.

    Raises:
        InvalidRequest: a part of its epsilon is too small, its state is too large, its blocks leave a step out, or it
            is to be followed and its table does not allow that.
    """
    if request.epsilon_per_row * request.method.min_share(len(request.levels)) < MIN_EPSILON:
        raise InvalidRequest(
            "budget.epsilon", plain(request.budget.epsilon),
            f"must be large enough that every part of the mechanism gets an epsilon of {MIN_EPSILON} for each row",
            "give more epsilon, or lower unit.max_rows",
        )  # fmt: skip
    numbers = len(request.names) * request.method.state_size
    if numbers > MAX_STATE:
        raise InvalidRequest(
            "states", f"{numbers:,} numbers of state", f"must need at most {MAX_STATE:,} numbers of state",
            "name fewer states, a shorter season or smaller groups",
        )  # fmt: skip
    if request.follow is not None:
        _require_followable(request)
    elif request.unit.column is not None and request.places is None and request.declared_rows is None:
        raise InvalidRequest(
            "capacity", None, f"is required for a stream whose unit is {request.unit.column}, because the stream keeps "
            "the number of used rows of each unit, unless the account's administrator has declared the number of units",
            "give a capacity, which doubles the cost under add_remove, or have the number of units declared: "
            "`dp-budget bind --units`",
        )  # fmt: skip
    expression = request.block_expression
    if expression is not None and expression.by is not BlockBy.VALUE and expression.column == request.time:
        expression.require_covered(request.blocks, request.first_instant, request.last_instant)


def _require_followable(request: StreamRequest) -> None:
    snapshot = request.table.snapshot
    if request.table.form != "parquet" or snapshot.path_version is None:
        raise InvalidRequest(
            "table", f"{request.table.form}, {snapshot.describe()}",
            "must be a folder of parquet files, named by path_version, for a stream that is followed",
            "write the rows there as they arrive, or leave out follow",
        )  # fmt: skip
    if request.unit.column is not None and request.declared_rows is None:
        raise InvalidRequest(
            "unit.column", request.unit.column,
            f"must be declared by the account's administrator to have at most {request.unit.max_rows} rows per unit in "
            "the table: a stream that is followed cannot read earlier rows again to enforce this",
            "have it declared with `dp-budget bind --rows-per-unit`, or leave out follow",
        )  # fmt: skip
    open_steps = request.steps_within_reach(request.closes(0)) if request.steps > 1 else 1
    if open_steps * len(request.leaf_names) > MAX_STATE:
        raise InvalidRequest(
            "follow.delay", f"{open_steps:,} open steps of {len(request.leaf_names):,} states",
            f"must keep at most {MAX_STATE:,} counts open", "shorten the delay, or make the steps longer",
        )  # fmt: skip


def require_size(request: ReleaseRequest) -> None:
    """Reject statistics with more counts and sums than the driver is sure to hold in memory, whatever the rows.

    Raises:
        InvalidRequest: the statistics have too many counts and sums.
    """
    sizes = {statistic: statistic.max_keys for statistic in request.statistics}
    total = sum(sizes.values())
    if total <= MAX_KEYS:
        return
    largest = max(sizes, key=lambda statistic: sizes[statistic])
    raise InvalidRequest(
        "diagnostics", f"{total:,} counts", f"must need at most {MAX_KEYS:,} counts", largest.remedy_for_size
    )
