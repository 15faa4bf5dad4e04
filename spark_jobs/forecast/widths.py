"""How wide the intervals of a release would be, from what the caller states about the table alone.

A forecast rehearses the release: it makes up rows that agree with the statement, draws the noise of every diagnostic
from a seed, as the request's budget allows, and summarises the draws. No row is read and nothing is charged, so a
forecast contains nothing of any table, and needs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spark_jobs.application.draft import results_of
from spark_jobs.application.run import measure
from spark_jobs.application.unit_passes import UnitSquares, cells_of_rows
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.figure import Span
from spark_jobs.contract.figures import UNDEFINED, status_of
from spark_jobs.contract.options import DIAGNOSTICS, PairedScoreCells, Statistic
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.privacy import UNIT_STEPS
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.profile import ColumnProfile
from spark_jobs.forecast.typical_rows import typical_statistic
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics.unit_squares import OfCells

REHEARSALS = 3
_ENDS = Span("lower", "upper", None)
_OF_COLUMN = ("shares", "missing", "mean", "quantiles")
"""The figures of a column of a profile whose widths are said."""


@dataclass(frozen=True, kw_only=True)
class ExpectedWidths:
    """The expected widths of the intervals of one diagnostic.

    Attributes:
        kind: the kind of diagnostic.
        undefined: the share of the rehearsals in which the result was undefined, because the noise hid too much.
        widths: the median width of each interval in the result, by the interval's field or by the fields of both its
            ends, such as ``lower to upper``; for a band, the width at a typical place. Empty if no rehearsal has
            intervals.
    """

    kind: str
    undefined: float
    widths: Mapping[str, float]


def expected_widths(
    request: ReleaseRequest, table: ExpectedTable, *, rehearsals: int = REHEARSALS
) -> tuple[ExpectedWidths, ...]:
    """The expected width of the intervals of each diagnostic of ``request``.

    On typical tables, the width of a release is within a factor of 1.5 of this. No table is read and nothing is
    charged: the result depends on the arguments alone.

    Args:
        request: what would be released.
        table: what the caller states about the rows; not taken from the table.
        rehearsals: how many releases of made-up rows are simulated; the widths are their medians.

    Raises:
        InvalidRequest: the request would be rejected before the charge, or ``table`` lacks what the request needs.

    Example:
        >>> request = ReleaseRequest.parse(
        ...     {
        ...         "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        ...         "label": "visited",
        ...         "model": {"kind": "columns", "score": "score", "basis": "public"},
        ...         "diagnostics": ["auc"],
        ...         "budget": {"epsilon": "1"},
        ...     }
        ... )
        >>> (auc,) = expected_widths(request, ExpectedTable(rows=45_000, positive_rate=0.06))
        >>> 0.001 < auc.widths["interval"] < auc.widths["population_interval"] < 0.04
        True
    """
    preflight(request)
    table.check(request)
    released = [_rehearsed(request, table, seed) for seed in range(rehearsals)]
    return tuple(
        _expected(options.kind, [results[options.kind] for results in released]) for options in request.diagnostics
    )


def _rehearsed(request: ReleaseRequest, table: ExpectedTable, seed: int) -> dict[str, dict[str, Any]]:
    """The results of a release of made-up rows, in their JSON form, by kind."""
    noise = SeededNoise(seed)
    counts = {statistic: typical_statistic(statistic, table, noise) for statistic in request.statistics}
    squares = typical_squares(counts, max_rows=request.unit.max_rows)
    draw = measure(request, counts, charge_id=None, noise=noise, squares=squares)
    results, _ = results_of(request, replace(draw, seed=seed))
    return {kind: result.to_dict() for kind, result in results.items()}


def _expected(kind: str, results: list[dict[str, Any]]) -> ExpectedWidths:
    defined = [widths_of(kind, result) for result in results if status_of(result) != UNDEFINED]
    names = dict.fromkeys(name for widths in defined for name in widths)
    return ExpectedWidths(
        kind=kind,
        undefined=1 - len(defined) / len(results),
        widths={name: float(np.median([widths[name] for widths in defined if name in widths])) for name in names},
    )


def widths_of(kind: str, result: dict[str, Any]) -> dict[str, float]:
    """The width of each interval in the JSON form of a released result, named as in ``ExpectedWidths``."""
    widths = {interval.name: _width(interval, result) for interval in DIAGNOSTICS[kind].result.intervals()}
    # each measure of a table has widths of its own
    widths |= {f"{one['name']} of {one['of']}": _width(_ENDS, one) for one in result.get("measures", ())}
    for one in result["columns"] if kind == "profile" else ():  # so has each column of a profile
        spans = ColumnProfile.specs().items()
        widths |= {
            f"{name} of {one['column']}": _width(Span(*span.names["interval"], None), one) for name, span in spans
        }
    return {name: width for name, width in widths.items() if width is not None}


def _width(interval: Span, result: dict[str, Any]) -> float | None:
    """The width of an interval, or of a band at a typical place; None if the result does not have it."""
    low, high = (_numbers(result, name) for name in (interval.low, interval.high))
    if interval.low == interval.high:
        low, high = low[~np.isnan(low)].reshape(-1, 2).T  # of an undefined figure there is one null, not two
    widths = (high - low).ravel()
    if np.isnan(widths).all():
        return None
    if interval.along is None:
        return float(np.nanmedian(widths))
    along = _numbers(result, interval.along)
    return float(np.trapezoid(widths, along) / (along[-1] - along[0]))


def _numbers(result: Any, name: str) -> FloatArray:
    """The numbers of a field, by its dotted name, of one object or of a list of them; NaN for null."""
    first, _, rest = name.partition(".")
    if isinstance(result, list):
        return np.concatenate([np.zeros(0), *(_numbers(entry, name).ravel() for entry in result)])
    value = None if result is None else result[first]
    return _numbers(value, rest) if rest else np.array(value, dtype=np.float64)


def typical_squares(counts: Mapping[Statistic, Any], *, max_rows: int) -> UnitSquares:
    """A function that sums squares over made-up units of ``max_rows`` rows with an intraclass correlation of 1/2."""

    def squares(statistic: Statistic, weights: OfCells) -> Int64Array:
        if isinstance(statistic, PairedScoreCells):
            keys, rows = counts[statistic].keys, counts[statistic].counts
            of_rows = weights.at(np.stack(cells_of_rows(statistic, keys))).sum(axis=1) / UNIT_STEPS
        else:  # by group, if there are some, and label
            every = np.stack([counts[statistic].negatives, counts[statistic].positives], axis=-2).reshape(-1)
            rows, of_rows = np.add.reduceat(every, weights.starts), weights.values / UNIT_STEPS
        effect = (1 + max_rows) / 2
        steps: Int64Array = np.rint((of_rows**2 * rows).sum(axis=1) * effect / max_rows**2 * UNIT_STEPS).astype(
            np.int64
        )
        return steps

    return squares
