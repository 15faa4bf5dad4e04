"""The release of a histogram by any of the methods: selection by name, payment through a meter, a frozen result."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, exact_decimal
from spark_jobs.mechanisms.histograms import flat
from spark_jobs.mechanisms.histograms.adaptive_grid import adaptive_grid
from spark_jobs.mechanisms.histograms.ahp import ahp
from spark_jobs.mechanisms.histograms.dawa import dawa
from spark_jobs.mechanisms.histograms.greedy import greedy_h
from spark_jobs.mechanisms.histograms.hierarchical import hb
from spark_jobs.mechanisms.histograms.interface import Entry, Histogram, PublicFacts, checked_counts
from spark_jobs.mechanisms.histograms.mwem import mwem
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed

METHODS = MappingProxyType(
    {
        "adaptive_grid": Entry(release=adaptive_grid, summary="blocks, each cut as finely as its noisy count allows"),
        "ahp": Entry(release=ahp, summary="clusters of cells of nearly equal noisy counts, with one total each"),
        "dawa": Entry(release=dawa, summary="private buckets of nearly equal counts, a hierarchy over them"),
        "geometric": Entry(release=flat.geometric, summary="integer noise in every cell"),
        "greedy_h": Entry(release=greedy_h, summary="a hierarchy whose levels share the budget unequally"),
        "hb": Entry(release=hb, summary="a hierarchy of the best branching, its levels at equal shares"),
        "laplace": Entry(release=flat.laplace, summary="Laplace noise in every cell"),
        "mwem": Entry(release=mwem, summary="a distribution, corrected in its worst prefix counts"),
        "uniform": Entry(release=flat.uniform, summary="a noisy total, spread evenly"),
    }
)
"""All methods, by name."""
_FEW_CELLS = 64
_WEAK_ON_A_LINE, _STRONG_ON_A_LINE, _STRONG_ON_A_GRID = 0.1, 16.0, 32.0


def release_histogram(
    counts: NDArray[Any],
    *,
    epsilon: Cost,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise,
    method: str = "auto",
    public_total: bool = False,
    expected_rows: int | None = None,
) -> Histogram:
    """Release the counts of disjoint cells, at a cost of at most ``epsilon``.

    Formal guarantee: ``epsilon``-DP under ``neighbours``, by the proof in the docstring of the method. ``"auto"``
    selects by ``default_method``, from public facts only.

    Args:
        counts: integers, shape (cells,) or (rows, columns); a row of the table lies in at most one cell.
        epsilon: the budget; floats are read as Python prints them.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        method: a name of ``METHODS``, or ``"auto"``.
        public_total: whether the sum of the counts is public; only under ``REPLACE_ONE``, and only if every row of the
            table is counted.
        expected_rows: a public guess of that sum, which affects only accuracy.

    Raises:
        InvalidRequest: the method is unknown or does not support this number of dimensions, the budget is not above 0,
            or the total cannot be public.
        TypeError, ValueError: the counts are not integers in one or two dimensions.
    """
    counts = checked_counts(counts)
    if public_total and neighbours is not Neighbours.REPLACE_ONE:
        raise InvalidRequest(
            "public_total",
            value=public_total,
            requirement="is allowed only under replace_one",
            remedy="leave it out, or use replace_one",
        )
    if expected_rows is not None and expected_rows < 1:
        raise InvalidRequest(
            "expected_rows",
            value=expected_rows,
            requirement="must be at least 1",
            remedy="leave it out if it is unknown",
        )
    meter = BudgetMeter(epsilon)
    name = method
    if method == "auto":
        name = default_method(counts.shape, epsilon=epsilon, neighbours=neighbours, expected_rows=expected_rows)
    entry = _entry(name, counts.ndim)
    facts = PublicFacts(total=int(counts.sum()) if public_total else None, expected_rows=expected_rows)
    cells = entry.release(counts, meter=meter, neighbours=neighbours, noise=noise, facts=facts)
    return Histogram(
        cells=cells,
        method=name,
        epsilon=meter.spent.epsilon,
        spendings=meter.spendings,
        neighbours=neighbours,
        guarantee=noise.guarantee,
    )


def default_method(
    shape: tuple[int, ...],
    *,
    epsilon: Cost,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    expected_rows: int | None = None,
) -> str:
    """The method that ``"auto"`` selects, from public facts only.

    Up to 64 cells a consistent hierarchy (``hb``, often a flat one) is hard to beat. Beyond, the choice depends on the
    signal per cell: expected rows times epsilon over cells, with epsilon halved under ``REPLACE_ONE``. On a line the
    method is ``adaptive_grid`` for a signal below 0.1, ``hb`` from 16, and ``dawa`` between them or if the signal is
    unknown; on a grid it is ``hb`` from 32, and ``adaptive_grid`` below or if the signal is unknown. The bounds are
    from docs/contributing/benchmarks.

    Args:
        shape: of the histogram.
        epsilon: the budget.
        neighbours: the neighbouring relation.
        expected_rows: a public guess of the number of rows.

    Raises:
        InvalidRequest: epsilon is not a number.
    """
    cells = math.prod(shape)
    if cells <= _FEW_CELLS:
        return "hb"
    if expected_rows is None:
        return "dawa" if len(shape) == 1 else "adaptive_grid"
    signal = expected_rows * float(exact_decimal(epsilon, what="epsilon")) / (cells * rows_changed(neighbours))
    if len(shape) == 1:
        return "adaptive_grid" if signal < _WEAK_ON_A_LINE else "dawa" if signal < _STRONG_ON_A_LINE else "hb"
    return "adaptive_grid" if signal < _STRONG_ON_A_GRID else "hb"


def _entry(name: str, dimensions: int) -> Entry:
    entry = METHODS.get(name)
    fitting = ", ".join(sorted(key for key, value in METHODS.items() if dimensions in value.dimensions))
    if entry is None or dimensions not in entry.dimensions:
        raise InvalidRequest(
            "method",
            value=name,
            requirement=f"must be auto or one of: {fitting}",
            remedy=f"choose one that takes {dimensions} dimension{'s' if dimensions > 1 else ''}",
        )
    return entry
