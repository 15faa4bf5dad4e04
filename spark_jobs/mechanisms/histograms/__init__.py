"""Histograms of disjoint cells in one and two dimensions, by several methods with the same interface.

To add a method, write ``name(counts, *, meter, neighbours, noise, facts) -> estimates`` in a module of its own (the
protocol is ``interface.Method``) and add it to ``release.METHODS``.
"""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy as Hierarchy
    from spark_jobs.mechanisms.histograms.interface import Histogram as Histogram
    from spark_jobs.mechanisms.histograms.interface import Method as Method
    from spark_jobs.mechanisms.histograms.interface import PublicFacts as PublicFacts
    from spark_jobs.mechanisms.histograms.release import METHODS as METHODS
    from spark_jobs.mechanisms.histograms.release import release_histogram as release_histogram
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "hierarchy": "Hierarchy",
            "interface": "Histogram Method PublicFacts",
            "release": "METHODS release_histogram",
        },
    )
