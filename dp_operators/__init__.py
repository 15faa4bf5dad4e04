"""The Airflow provider: operators, sensors and hooks over the privacy ledger and the release protocol."""

__version__ = "0.1.0"
