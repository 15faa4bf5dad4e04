"""The release of a histogram by any of the methods: selection by name, payment through a meter, a frozen result."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms import flat
from spark_jobs.mechanisms.histograms.interface import Entry, Histogram, PublicFacts, checked_counts
from spark_jobs.mechanisms.histograms.shrunken_tree import shrunken_tree
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Cost, Noise

_OWN = MappingProxyType(
    {
        "geometric": Entry(release=flat.geometric, summary="integer noise in every cell"),
        "laplace": Entry(release=flat.laplace, summary="Laplace noise in every cell"),
        "shrunken_tree": Entry(release=shrunken_tree, summary="a tree whose differences between halves are shrunk"),
        "uniform": Entry(release=flat.uniform, summary="a noisy total, spread evenly"),
    }
)
_PAPERS = "spark_jobs.papers.histograms.methods"
"""Has ``METHODS`` that are loaded for a request that names one of them."""
AUTO = "shrunken_tree"
"""The method that ``"auto"`` is."""


@cache
def methods() -> Mapping[str, Entry]:
    """All methods, by name."""
    return MappingProxyType(dict(sorted({**_OWN, **import_module(_PAPERS).METHODS}.items())))


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
        method: a name of ``methods()``, or ``"auto"``, which is ``AUTO`` for every shape, size and budget.
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
    entry = _OWN.get(name) or methods().get(name)
    if entry is None or dimensions not in entry.dimensions:
        fitting = ", ".join(key for key, value in methods().items() if dimensions in value.dimensions)
        raise InvalidRequest(
            "method", name, f"must be auto or one of: {fitting}",
            f"choose one that takes {dimensions} dimension{'s' if dimensions > 1 else ''}",
        )  # fmt: skip
    return entry
