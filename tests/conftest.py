"""Fixtures that every test may ask for."""

import os
import sys

import xdist.remote
from hypothesis import HealthCheck, settings

# a busy machine is slow, not wrong: nothing here is a timed test
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# a worker of pytest-xdist has a main module without a file, which PySpark takes for its own doctests, and exits
if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = xdist.remote.__file__

# what runs on Spark stays on it, whatever else is installed; tests of the choice of an engine take this away
os.environ.setdefault("DP_DIAGNOSTICS_MASTER", "local[*]")

pytest_plugins = [
    "tests.support.run_folder",  # first: the others make their folders in it
    "tests.support.tiers",
    "tests.support.airflow",
    "tests.support.postgres",
    "tests.support.databases",
    "tests.support.ledgers",
    "tests.support.spark",
    "tests.support.shared_java",
]
