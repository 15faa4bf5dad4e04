"""Adds every page of the folders that grow to the site's navigation, so that a new page is one new file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

GROWING = {"Mechanisms": "mechanisms", "Benchmarks": "benchmarks"}
BEFORE = "Contributing"


def on_config(config: Any) -> Any:
    """Put a section for each of these folders that has pages before the one named ``BEFORE``; ``index.md`` first."""
    sections = [next(iter(entry)) if isinstance(entry, dict) else entry for entry in config["nav"]]
    place = sections.index(BEFORE)
    for title, folder in reversed(GROWING.items()):
        pages = sorted(
            (path.relative_to(config["docs_dir"]).as_posix() for path in Path(config["docs_dir"], folder).glob("*.md")),
            key=lambda page: (not page.endswith("/index.md"), page),
        )
        if pages:
            config["nav"].insert(place, {title: pages})
    return config
