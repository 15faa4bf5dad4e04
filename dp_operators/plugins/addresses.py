"""The addresses of the plugin's pages, as links from elsewhere need them."""

from __future__ import annotations

from urllib.parse import quote, urlencode, urlsplit

PREFIX = "/privacy-ledger"


def page_address(*parts: str, **query: str) -> str:
    """The path of a page below the API server's own, with its query."""
    path = "/".join(quote(part, safe="") for part in parts)
    return f"{airflow_address(PREFIX.strip('/'))}/{path}{'?' if query else ''}{urlencode(query)}"


def airflow_address(path: str) -> str:
    """A path below the API server's own."""
    from airflow.providers.common.compat.sdk import conf

    base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    return f"{base}/{path}"
