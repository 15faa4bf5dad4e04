"""OpenLineage facets of releases; they need Airflow's provider for OpenLineage, the extra ``openlineage``."""
