"""The backends that an Airflow connection can name; each uses the hook of the service's own Airflow provider."""
