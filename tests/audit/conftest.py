"""Writes what the audits found as a page, where DP_AUDIT_TABLE names one: the table of ``make audit``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.audit import FALSE_ALARM, RECORDS, Record, samples

HEAD = """\
# Audit results

Written by `make audit`, from {factor} times the samples of the quick audits. Each bound is a lower bound on ε, wrong
with a chance of at most {alarm:g} (see [Audits](audits.md)). Of a mechanism as shipped it must not exceed the claim;
of one with a planted fault it must. A bound far below the claim says that the audit sees little, not that little is
lost.

| Mechanism | Neighbours | Claimed ε | Planted fault | Bound found | Samples |
|---|---|---|---|---|---|
"""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the page if the whole set has run and passed."""
    path = os.environ.get("DP_AUDIT_TABLE")
    if path and RECORDS and session.testsfailed == 0:
        Path(path).write_text(page(RECORDS), encoding="utf-8")


def page(records: list[Record]) -> str:
    """Markdown: one row for each, mechanisms and relations in order, what is shipped before its faults."""
    kept = sorted(
        set(records),
        key=lambda one: (one.mechanism.lower(), one.relation, one.fault or "", one.claimed, one.bound),
    )
    return HEAD.format(alarm=FALSE_ALARM, factor=samples(1)) + "".join(
        f"| {one.mechanism} | {one.relation} | {one.claimed} | {one.fault or 'none'} | {one.bound:.3f} "
        f"| {one.samples:,} |\n"
        for one in kept
    )
