"""The addresses of the plugin's pages, for links from outside the plugin."""

from __future__ import annotations

from urllib.parse import quote, urlencode, urlsplit

PREFIX = "/privacy-ledger"


def page_address(*parts: str, **query: str) -> str:
    """The path and query of a page of the plugin, below the base path of the API server."""
    path = "/".join(quote(part, safe="") for part in parts)
    return f"{airflow_address(PREFIX.strip('/'))}/{path}{'?' if query else ''}{urlencode(query)}"


def airflow_address(path: str) -> str:
    """The path of a page of Airflow, below the base path of the API server."""
    from airflow.providers.common.compat.sdk import conf

    base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    return f"{base}/{path}"
