"""What mkdocs leaves to us: the pages of folders in the navigation, and a folder for each version of the site."""

from __future__ import annotations

import json
from configparser import ConfigParser
from pathlib import Path
from typing import Any

REDIRECT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}/index.html">\n'

BOOSTS = {"index.md": 2.0, "tutorial.md": 4.0, "how-to/": 4.0, "explanation/mechanisms/": 0.5, "contributing/": 0.2}
"""How much more a word of these pages counts in a search: whoever looks something up wants to do it first."""

_built = False


def on_startup(*, command: str, dirty: bool) -> None:
    """Note whether the site is built, and not only served to whoever writes it."""
    global _built
    _built = command == "build"


def on_config(config: Any) -> Any:
    """Replace each entry of the navigation that is a folder by its pages, and build into the folder of this version."""
    config["nav"] = _expanded(config["nav"], Path(config["docs_dir"]))
    if _built:
        config["site_dir"] = str(Path(config["site_dir"]) / version(Path(config["docs_dir"]).parent))
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Let searches find what helps somebody to do a thing before audits and benchmarks."""
    boosts = [boost for start, boost in BOOSTS.items() if page.file.src_uri.startswith(start)]
    if boosts:
        page.meta.setdefault("search", {})["boost"] = boosts[0]
    return markdown


def on_post_build(config: Any) -> None:
    """List all versions that lie beside this one, and lead from the folder above to the newest."""
    if _built:
        list_versions(Path(config["site_dir"]).parent)


def version(root: Path) -> str:
    """The version of the package."""
    setup = ConfigParser()
    setup.read(root / "setup.cfg")
    return setup["metadata"]["version"]


def list_versions(site: Path) -> None:
    """Write ``versions.js``, newest first, for docs/javascripts/versions.js, and an ``index.html`` that redirects."""
    found = [folder for folder in site.iterdir() if (folder / "index.html").is_file()]
    newest_first = sorted(found, key=lambda folder: [int(part) for part in folder.name.split(".")], reverse=True)
    versions = [
        {
            "version": folder.name,
            "pages": sorted(page.relative_to(folder).as_posix() for page in folder.rglob("*.html")),
        }
        for folder in newest_first
    ]
    (site / "versions.js").write_text(f"window.documentationVersions = {json.dumps(versions)}\n")
    (site / "index.html").write_text(REDIRECT.format(newest_first[0].name))


def _expanded(entry: Any, docs: Path) -> Any:
    if isinstance(entry, list):
        return [_expanded(part, docs) for part in entry]
    if isinstance(entry, dict):
        return {title: _expanded(part, docs) for title, part in entry.items()}
    if not entry.endswith("/"):
        return entry
    pages = (path.relative_to(docs).as_posix() for path in (docs / entry).glob("*.md"))
    return sorted(pages, key=lambda page: (not page.endswith("/index.md"), page))
