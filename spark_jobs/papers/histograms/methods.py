"""The histogram methods of papers, by the names that requests give them."""

from __future__ import annotations

from types import MappingProxyType

from spark_jobs.mechanisms.histograms.interface import Entry
from spark_jobs.papers.histograms.adaptive_grid import adaptive_grid
from spark_jobs.papers.histograms.ahp import ahp
from spark_jobs.papers.histograms.dawa import dawa
from spark_jobs.papers.histograms.greedy import greedy_h
from spark_jobs.papers.histograms.hierarchical import hb
from spark_jobs.papers.histograms.mwem import mwem

METHODS = MappingProxyType(
    {
        "adaptive_grid": Entry(release=adaptive_grid, summary="blocks, each cut as finely as its noisy count allows"),
        "ahp": Entry(release=ahp, summary="clusters of cells of nearly equal noisy counts, with one total each"),
        "dawa": Entry(release=dawa, summary="private buckets of nearly equal counts, a hierarchy over them"),
        "greedy_h": Entry(release=greedy_h, summary="a hierarchy whose levels share the budget unequally"),
        "hb": Entry(release=hb, summary="a hierarchy of the best branching, its levels at equal shares"),
        "mwem": Entry(release=mwem, summary="a distribution, corrected in its worst prefix counts"),
    }
)
"""By name, as ``mechanisms.histograms`` loads them."""
