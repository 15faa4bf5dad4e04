"""The release of a histogram by any of the methods: selection by name, payment through a meter, a frozen result."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, exact_decimal
from spark_jobs.mechanisms.histograms import flat
from spark_jobs.mechanisms.histograms.adaptive_grid import adaptive_grid, noisy_total
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
FEW_CELLS = 64
_WEAK_ON_A_LINE, _STRONG_ON_A_LINE, _STRONG_ON_A_GRID = 1.0, 16.0, 32.0


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
    selects by ``default_method``, from public facts; if the number of rows is not known, it first releases a noisy one
    at a hundredth of epsilon (``adaptive_grid.noisy_total``), and the method gets the rest (sequential composition).

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
    total, name = int(counts.sum()) if public_total else None, method
    rows = expected_rows if total is None else total
    if method == "auto":
        if rows is None and counts.size > FEW_CELLS:
            rows = noisy_total(counts, meter=meter, noise=noise)
        name = default_method(counts.shape, epsilon=meter.remaining, neighbours=neighbours, expected_rows=rows or 0)
    entry = _entry(name, counts.ndim)
    facts = PublicFacts(total=total, expected_rows=rows)
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
    expected_rows: int,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> str:
    """The method that ``"auto"`` selects, from public facts only.

    Up to 64 cells a consistent hierarchy (``hb``, often a flat one) is hard to beat. Beyond, the choice depends on the
    signal per cell: expected rows times epsilon over cells, with epsilon halved under ``REPLACE_ONE``. On a line the
    method is ``adaptive_grid`` for a signal below 1, ``hb`` from 16, and ``dawa`` between them; on a grid it is ``hb``
    from 32, and ``adaptive_grid`` below. The bounds are from docs/contributing/benchmarks.

    Args:
        shape: of the histogram.
        epsilon: the budget.
        expected_rows: a public guess of the number of rows, or a released one.
        neighbours: the neighbouring relation.

    Raises:
        InvalidRequest: epsilon is not a number.
    """
    cells = math.prod(shape)
    if cells <= FEW_CELLS:
        return "hb"
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
