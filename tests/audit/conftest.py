"""Puts what the audits found into a page, where DP_AUDIT_TABLE names one: the table of ``make audit``.

The rows of the files that ran take the place of those that the page has of them; what other files found stays. A file
that did not run as a whole, or failed, changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.audit import FALSE_ALARM, RECORDS, Record, audit_of

HEAD = """\
# Audit results

Each bound is a lower bound on ε, wrong with a chance of at most {alarm:g}, or, where samples are "exact", the largest
loss computed from the law of the output (see [Audits](audits.md)). Of a mechanism as shipped it must not exceed the
claim; of one with a planted fault it must. A bound far below the claim says that the audit sees little, not that
little is lost.

`make audit` writes this table; so does a run of single files, for the rows of these files:

```bash
DP_AUDIT=long DP_AUDIT_FACTOR=3 DP_AUDIT_TABLE=docs/contributing/audit-results.md \\
    .venv/bin/python -m pytest tests/audit/test_counts_audit.py
```

| Mechanism | Neighbours | Claimed ε | Planted fault | Bound found | Samples | Audit |
|---|---|---|---|---|---|---|
"""
SPOILT: set[str] = set()
"""Audits that did not run as a whole, or failed."""

Row = tuple[str, ...]


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember which files are run in part."""
    SPOILT.update(audit_of(item.nodeid) for item in items)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember which files fail."""
    if report.failed:
        SPOILT.add(audit_of(report.nodeid))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the page, with what this run found."""
    path = os.environ.get("DP_AUDIT_TABLE")
    spoilt = SPOILT | {audit_of(given) for given in session.config.args if "::" in given}
    found = [one for one in RECORDS if one.audit not in spoilt]
    if path and found:
        page_file = Path(path)
        before = page_file.read_text(encoding="utf-8") if page_file.exists() else ""
        page_file.write_text(page(found, before), encoding="utf-8")


def page(found: list[Record], before: str = "") -> str:
    """Markdown: one row for each record, and for each row that ``before`` has of other audits that still exist."""
    ran = {one.audit for one in found}
    there = {audit_of(path.name) for path in Path(__file__).parent.glob("test_*.py")} - ran
    kept = [row for row in rows_of(before) if row[-1] in there]
    lines = ("| " + " | ".join(row) + " |\n" for row in in_order({*kept, *map(as_row, found)}))
    return HEAD.format(alarm=FALSE_ALARM) + "".join(lines)


def as_row(one: Record) -> Row:
    """The cells of a record's row."""
    counted = f"{one.samples:,}" if one.samples else "exact"
    return (one.mechanism, one.relation, one.claimed, one.fault or "none", f"{one.bound:.3f}", counted, one.audit)


def rows_of(text: str) -> list[Row]:
    """The rows of a page's table."""
    lines = (line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| Mechanism |"))
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Mechanisms and relations in order, what is shipped before its faults."""
    return sorted(rows, key=lambda row: (row[0].lower(), row[1], row[3] != "none", *row[2:]))
