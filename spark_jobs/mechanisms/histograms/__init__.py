"""Histograms of disjoint cells in one and two dimensions, by several methods with the same interface.

To add a method, write ``name(counts, *, meter, neighbours, noise, facts) -> estimates`` in a module of its own (the
protocol is ``interface.Method``) and add it to ``release.METHODS``.
"""

from spark_jobs.mechanisms.histograms.interface import Histogram, PublicFacts
from spark_jobs.mechanisms.histograms.release import METHODS, default_method, release_histogram

__all__ = ["METHODS", "Histogram", "PublicFacts", "default_method", "release_histogram"]
