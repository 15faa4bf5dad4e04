"""Fixtures that every test may ask for."""

from hypothesis import HealthCheck, settings

# a busy machine is slow, not wrong: nothing here is a timed test
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

pytest_plugins = [
    "tests.support.airflow",
    "tests.support.postgres",
    "tests.support.ledgers",
    "tests.support.spark",
]
