"""The release of a histogram by any of the methods: selection by name, payment through a meter, a frozen result."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms import flat
from spark_jobs.mechanisms.histograms.adaptive_grid import adaptive_grid
from spark_jobs.mechanisms.histograms.ahp import ahp
from spark_jobs.mechanisms.histograms.dawa import dawa
from spark_jobs.mechanisms.histograms.greedy import greedy_h
from spark_jobs.mechanisms.histograms.hierarchical import hb
from spark_jobs.mechanisms.histograms.interface import Entry, Histogram, PublicFacts, checked_counts
from spark_jobs.mechanisms.histograms.mwem import mwem
from spark_jobs.mechanisms.histograms.shrunken_tree import shrunken_tree
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Cost, Noise

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
        "shrunken_tree": Entry(release=shrunken_tree, summary="a tree whose differences between halves are shrunk"),
        "uniform": Entry(release=flat.uniform, summary="a noisy total, spread evenly"),
    }
)
"""All methods, by name."""
AUTO = "shrunken_tree"
"""The method that ``"auto"`` is."""


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

    Formal guarantee: ``epsilon``-DP under ``neighbours``, by the proof in the docstring of the method.

    Args:
        counts: integers, shape (cells,) or (rows, columns); a row of the table lies in at most one cell.
        epsilon: the budget; floats are read as Python prints them.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        method: a name of ``METHODS``, or ``"auto"``, which is ``AUTO`` for every shape, size and budget.
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
            "public_total", public_total, "is allowed only under replace_one", "leave it out, or use replace_one"
        )
    if expected_rows is not None and expected_rows < 1:
        raise InvalidRequest("expected_rows", expected_rows, "must be at least 1", "leave it out if it is unknown")
    meter = BudgetMeter(epsilon)
    total, name = int(counts.sum()) if public_total else None, AUTO if method == "auto" else method
    entry = _entry(name, counts.ndim)
    facts = PublicFacts(total=total, expected_rows=expected_rows if total is None else total)
    cells = entry.release(counts, meter=meter, neighbours=neighbours, noise=noise, facts=facts)
    return Histogram(
        cells=cells,
        method=name,
        epsilon=meter.spent.epsilon,
        spendings=meter.spendings,
        neighbours=neighbours,
        guarantee=noise.guarantee,
    )


def _entry(name: str, dimensions: int) -> Entry:
    entry = METHODS.get(name)
    fitting = ", ".join(sorted(key for key, value in METHODS.items() if dimensions in value.dimensions))
    if entry is None or dimensions not in entry.dimensions:
        raise InvalidRequest(
            "method", name, f"must be auto or one of: {fitting}",
            f"choose one that takes {dimensions} dimension{'s' if dimensions > 1 else ''}",
        )  # fmt: skip
    return entry
