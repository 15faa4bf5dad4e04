"""Puts all pages of a folder into the site's navigation where ``mkdocs.yml`` names the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Replace each entry of the navigation that is a folder, such as ``explanation/mechanisms/``, by its pages."""
    config["nav"] = _expanded(config["nav"], Path(config["docs_dir"]))
    return config


def _expanded(entry: Any, docs: Path) -> Any:
    if isinstance(entry, list):
        return [_expanded(part, docs) for part in entry]
    if isinstance(entry, dict):
        return {title: _expanded(part, docs) for title, part in entry.items()}
    if not entry.endswith("/"):
        return entry
    pages = (path.relative_to(docs).as_posix() for path in (docs / entry).glob("*.md"))
    return sorted(pages, key=lambda page: (not page.endswith("/index.md"), page))
