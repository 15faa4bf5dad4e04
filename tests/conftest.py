"""Fixtures that every test may ask for."""

pytest_plugins = [
    "tests.support.airflow",
    "tests.support.postgres",
    "tests.support.ledgers",
    "tests.support.spark",
]
