"""The plugin that adds a privacy budget page to Airflow. Every Airflow process imports it, so it imports little."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from dp_operators.plugins.addresses import PREFIX, page_address


class PrivacyLedgerPlugin(AirflowPlugin):
    """Adds the page *Privacy budget*, which shows accounts, their remaining budget and their charges, read-only."""

    name = "privacy_ledger"

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The page's routes; only the API server reads this property."""
        from dp_operators.plugins.app import make_app

        return [{"app": make_app(), "url_prefix": PREFIX, "name": "Privacy budget"}]

    @property
    def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The page's entry in Airflow's navigation."""
        return [{"name": "Privacy budget", "href": page_address(), "url_route": "privacy-budget", "category": "browse"}]
