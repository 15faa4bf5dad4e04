"""The backends that an Airflow connection names, each behind the hook of the provider that is kept for it."""
