"""The page of a release, and its files, served from the store.

A release is found by its key in the ledger, and never by a path: its folder is one of the account's, and its manifest
is, byte for byte, the one that the ledger committed. Only the files that this manifest lists are served, and only if
their sizes and hashes are those of the manifest. Drafts, draws and statistics are in no manifest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dp_operators.budget import Charge, LedgerReader
from dp_operators.plugins.pages import charge_facts, line_of, render
from dp_operators.releasing import ReleaseError
from dp_operators.releasing.committed_releases import CommittedRelease, committed_release
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.headlines import interval_text, number_text
from spark_jobs.contract.release import ReleaseFile
from spark_jobs.contract.store.layout import release_folder

REPORT = "report.html"
_SHOWN = {"image/svg+xml": "image/svg+xml", "image/png": "image/png", "text/html": "text/html; charset=utf-8"}
"""The media types that a browser shows; every other file is downloaded."""
_RULES = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; base-uri 'none'; "
    "sandbox allow-downloads"
)
_PLOT = "image/svg+xml"


@dataclass(frozen=True, kw_only=True)
class ServedFile:
    """One file of a release: its bytes, and the headers that it is sent with."""

    content: bytes
    media_type: str
    headers: dict[str, str]


def release_page(connection: str, ledger: LedgerReader, account: str, key: str, *, run: str, nonce: str) -> str:
    """The page of a release: its charge, and its plots and statement if it is published and can be read.

    Args:
        connection: the ledger's connection.
        ledger: the ledger.
        account: the account that paid.
        key: the release key.
        run: the address of the task instance that made the release; empty if unknown.
        nonce: the nonce of the page's style.

    Raises:
        InvalidRequest: there is no such account or charge.
        LedgerUnavailable: the ledger cannot be reached.
    """
    charge, paying = _charge(ledger, account, key), ledger.account(account)
    published, unread = None, ""
    try:
        published = published_release(ledger, account, key) if charge.manifest_sha256 else None
    except (InvalidRequest, ReleaseError) as error:
        unread = line_of(error)
    return render(
        "release.html.j2",
        connection=connection,
        account=account,
        charge=charge_facts(charge, paying),
        charge_id=charge.id,
        ended=(charge.settled_at or "")[:16].replace("T", " "),
        run=run,
        figures=[_figure(one) for one in charge.figures or () if isinstance(one, dict)],
        published=None if published is None else _facts(published),
        unread=unread,
        nonce=nonce,
    )


def published_release(ledger: LedgerReader, account: str, key: str) -> CommittedRelease:
    """The published release of a key.

    Raises:
        InvalidRequest: there is no such account or charge, or none of the account's folders has its release.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    charge = _charge(ledger, account, key)
    missing = InvalidRequest(
        "release",
        key,
        f"must be published in a folder of account {account}",
        "publish the release in one of the account's folders: other releases are not shown here",
    )
    for output in ledger.account(account).outputs:
        try:
            folder = release_folder(output, charge.release)
            committed = committed_release(folder, ledger, what="release", manifest_sha256=charge.manifest_sha256 or "")
        except InvalidRequest:
            continue
        if committed.release.charge_id == charge.id:
            return committed
    raise missing


def release_file(ledger: LedgerReader, account: str, key: str, name: str) -> ServedFile:
    """A file that the manifest of a published release lists.

    Raises:
        InvalidRequest: there is no such release or file, or the file is not what the manifest says.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    published = published_release(ledger, account, key)
    content = published.file(name)
    [listed] = (file for file in published.release.files if file.name == name)
    shown = _SHOWN.get(listed.media_type)
    plain_name = re.sub(r"[^A-Za-z0-9._-]", "_", name.rpartition("/")[2])
    disposition = "inline" if shown else "attachment"
    return ServedFile(
        content=content,
        media_type=shown or "application/octet-stream",
        headers={"Content-Security-Policy": _RULES, "Content-Disposition": f'{disposition}; filename="{plain_name}"'},
    )


def _charge(ledger: LedgerReader, account: str, key: str) -> Charge:
    charge = ledger.find_charge(ledger.account(account).name, key)
    if charge is None:
        raise InvalidRequest(
            "key", key, f"must be a release that account {account} was charged for", "the account's page lists them"
        )
    return charge


def _facts(published: CommittedRelease) -> dict[str, Any]:
    release = published.release
    return {
        "uri": published.uri,
        "guarantee": release.guarantee,
        "drawn_at": release.drawn_at[:16].replace("T", " "),
        "statement": [line for line in release.statement.splitlines() if line.strip()],
        "statuses": release.statuses,
        "cost": release.cost.amount,
        "plots": [file.name for file in release.files if file.media_type == _PLOT],
        "report": any(file.name == REPORT for file in release.files),
        "files": [_file(file) for file in release.files],
        "rules": release.rules,
        "assumptions": release.assumptions,
    }


def _figure(recorded: Mapping[str, Any]) -> dict[str, str]:
    """A figure that the ledger recorded with the commit, as the page shows it."""
    ends = {of: "-" if recorded.get(of) is None else interval_text(recorded[of]) for of in ("interval", "population")}
    return {
        "name": str(recorded.get("name")), "value": number_text(recorded.get("value")), **ends,
        "status": str(recorded.get("status")),
    }  # fmt: skip


def _file(file: ReleaseFile) -> dict[str, str]:
    size = f"{file.size / 1024:,.0f} kB" if file.size >= 1024 else f"{file.size} bytes"
    return {"name": file.name, "size": size, "sha256": file.sha256}
