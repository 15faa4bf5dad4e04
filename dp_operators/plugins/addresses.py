"""The addresses of the plugin's pages, as links from elsewhere need them."""

from __future__ import annotations

from urllib.parse import quote, urlencode, urlsplit

PREFIX = "/privacy-ledger"


def page_address(*parts: str, **query: str) -> str:
    """The path of a page below the API server's own, with its query."""
    from airflow.sdk.configuration import conf

    base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    path = "/".join(quote(part, safe="") for part in parts)
    return f"{base}{PREFIX}/{path}{'?' if query else ''}{urlencode(query)}"
