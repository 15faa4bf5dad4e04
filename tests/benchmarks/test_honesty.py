"""The benchmark of intervals runs, and tells intervals that hold from those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import honesty
from benchmarks.honesty import KINDS, Shown, coverage, coverage_report


def shown(scale, count=400):
    """Normal errors with intervals of 90%, scaled."""
    errors = np.random.default_rng(1).normal(size=count)
    return [Shown(value=error, low=error - 1.645 * scale, high=error + 1.645 * scale, exact=0.0) for error in errors]


@pytest.mark.parametrize(("scale", "met"), [(0.6, False), (1.0, True), (1.6, False)])
def test_intervals_too_narrow_or_too_wide_miss_the_target(scale, met):
    row, target = coverage("kind", "cell", shown(scale))
    assert target.met is met
    assert float(row[-1]) == pytest.approx(scale, rel=0.1)


def test_what_is_undefined_is_stated_and_not_counted():
    row, target = coverage("kind", "cell", [*shown(1.0, 300), *[None] * 100])
    assert row[4] == "25%"
    assert target.met
    assert coverage("kind", "cell", [None] * 9)[0][2:] == ["", "0.000-1.000", "100%", "any"]


def test_an_interval_of_width_0_holds_its_own_value_alone():
    assert Shown(value=1.0, low=1.0, high=1.0, exact=1.0).holds
    assert not Shown(value=1.0, low=1.0, high=1.0, exact=2.0).holds
    assert Shown(value=1.0, low=1.0, high=1.0, exact=2.0).factor > 1e6


@pytest.mark.verify
@pytest.mark.slow
def test_every_kind_of_table_is_released_and_reported(monkeypatch):
    monkeypatch.setattr(honesty, "KINDS", {kind: (run, cells[1:2], unit) for kind, (run, cells, unit) in KINDS.items()})
    report = coverage_report(tuple(KINDS), 2, 1)
    assert len({row[0] for row in report.rows}) == len(report.rows) == 14
    assert not report.targets  # so few releases judge nothing
    assert {row[1].split()[0] for row in report.rows} == {"300", "1,000"}
