"""Fixtures that every test may ask for."""

pytest_plugins = [
    "tests.support.airflow",
    "tests.support.spark",
]
