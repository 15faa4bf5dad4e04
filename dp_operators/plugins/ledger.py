"""A page about the privacy budget among Airflow's own. Every Airflow process imports this module, so it is light."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/privacy-ledger"


class PrivacyLedgerPlugin(AirflowPlugin):
    """The page *Privacy budget*: accounts, what they may still spend, and what was charged. It changes nothing."""

    name = "privacy_ledger"

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The page's routes, made where they are asked for: in the API server."""
        from dp_operators.plugins.app import make_app

        return [{"app": make_app(), "url_prefix": PREFIX, "name": "Privacy budget"}]

    @property
    def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The entry in the navigation."""
        from airflow.configuration import conf

        base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
        return [
            {"name": "Privacy budget", "href": f"{base}{PREFIX}/", "url_route": "privacy-budget", "category": "browse"}
        ]
