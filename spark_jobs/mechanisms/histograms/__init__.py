"""Histograms of disjoint cells in one and two dimensions, by several methods with the same interface.

To add a method, write ``name(counts, *, meter, neighbours, noise, facts) -> estimates`` in a module of its own (the
protocol is ``interface.Method``) and add it to ``METHODS`` of
``papers.histograms.methods``.
"""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
