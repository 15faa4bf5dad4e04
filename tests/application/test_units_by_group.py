"""Tests of equal groups where units have several rows: what is measured for them, and how often they alarm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spark_jobs.application.draft import results_of
from spark_jobs.application.run import measure
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.diagnostics.by_group.influences import influences
from spark_jobs.diagnostics.diagnostic import Diagnostic, diagnostic
from spark_jobs.diagnostics.sampling import Sampling
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.unit_squares import DesignEffect
from spark_jobs.score_grid import cells_of
from spark_jobs.statistics import GroupedScoreCounts
from spark_jobs.statistics.unit_squares import unit_squares, whole_weights
from tests.application.test_unit_variance import asked
from tests.support.audit import LONG

KEYS = ("a", "b", "c")
CONFUSION = {"kind": "confusion_matrix", "thresholds": [0.5]}
BY_GROUP = {"kind": "by_group", "group_by": "region", "groups": list(KEYS), "kinds": [CONFUSION, "calibration"]}


class Table:
    """Units of three equal groups, in one group each, whose rows are alike or have nothing in common."""

    def __init__(self, seed: int, *, units: int, rows: int, alike: bool) -> None:
        rng = np.random.default_rng(seed)
        self.unit, self.rows = np.repeat(np.arange(units), rows), rows
        of = units if alike else units * rows
        labels, deviates = (rng.random(of) < 0.3).astype(int), rng.normal(size=of)
        self.labels, deviates = (np.repeat(one, rows) if alike else one for one in (labels, deviates))
        self.scores = 1 / (1 + np.exp(-(1.2 * self.labels + deviates - 0.6)))
        self.group = self.unit % 3
        keys = np.array(KEYS, dtype=object)[self.group]
        self.counts = GroupedScoreCounts.from_arrays(self.labels, self.scores, keys, keys=KEYS)

    def squares(self, _: Any, weights: Any) -> Any:
        cells = (2 * self.group + self.labels) * SCORE_CELLS + cells_of(self.scores, SCORE_CELLS)
        return unit_squares(self.unit, cells, weights, max_rows=self.rows)


def comparisons(wanted: Any, table: Table, seed: int) -> Any:
    (statistic,) = wanted.statistics
    counts = {statistic: table.counts}
    draw = measure(wanted, counts, charge_id=None, noise=SeededNoise(seed), squares=table.squares)
    return results_of(wanted, draw)[0]["by_group"].comparisons


def test_every_figure_that_is_paid_for_has_an_influence_and_is_compared() -> None:
    wanted = asked(BY_GROUP)
    kind: Diagnostic[Any, Any, Any, Any] = diagnostic("by_group")
    table = Table(1, units=1000, rows=3, alike=False)
    draw = kind.measure(table.counts, epsilon=1, noise=SeededNoise(1), kinds=BY_GROUP["kinds"])
    paid = [name for _, name in wanted.unit_figures]
    assert paid == ["positive_rate", "mean_residual"] + [
        f"{rate}[0]" for rate in ("recall", "false_positive_rate", "precision", "predicted_positive_rate")
    ]
    assert set(paid) <= influences(draw).keys()
    compared = {comparison.figure for comparison in comparisons(wanted, table, 1)}
    assert {name.removesuffix("[0]") for name in paid} == compared


@pytest.mark.parametrize("alike", [False, True])
def test_squares_of_units_are_those_of_deviations_from_the_means_of_groups(alike: bool) -> None:
    table = Table(2, units=6000, rows=3, alike=alike)
    draw = diagnostic("by_group").measure(table.counts, epsilon=1e6, noise=SeededNoise(1), kinds=BY_GROUP["kinds"])
    reached = table.scores >= 0.5
    for name, values, among in (
        ("positive_rate", table.labels, np.ones_like(reached)),
        ("recall[0]", reached, table.labels == 1),
        ("precision[0]", table.labels, reached),
    ):
        off = np.zeros(table.unit.size)
        for group in range(3):
            inside = among & (table.group == group)
            off[inside] = values[inside] - values[inside].mean()
        one = influences(draw)[name]
        weights = whole_weights([one.of_cells], [one.largest])
        cells = (2 * table.group + table.labels) * SCORE_CELLS + cells_of(table.scores, SCORE_CELLS)
        assert weights.at(cells)[0] / 2**20 * one.largest == pytest.approx(off, abs=2e-3), name
        assert one.rows_square == pytest.approx((off**2).sum(), rel=2e-3), name


def test_what_was_measured_within_groups_is_of_no_interval_but_of_the_test() -> None:
    """Groups that differ vary more together than each does by itself."""
    table = Table(3, units=3000, rows=3, alike=False)
    kind: Diagnostic[Any, Any, Any, Any] = diagnostic("by_group")
    draw = kind.measure(table.counts, epsilon=5, noise=SeededNoise(1), kinds=[CONFUSION])
    least = dict.fromkeys(influences(draw), DesignEffect(value=1.0, at_most=False))
    one, other = (
        kind.summarise(draw, seed=1, sampling=Sampling(max_rows=3, effects=effects)).comparisons
        for effects in (least, {})
    )
    for measured, largest in zip(one, other, strict=True):
        assert (measured.values, measured.overall) == (largest.values, largest.overall)
        assert measured.p_value < largest.p_value


@pytest.mark.verify
@pytest.mark.parametrize("alike", [False, True])
def test_equal_groups_alarm_as_seldom_as_stated_and_hardly_less(alike: bool) -> None:
    """With the largest possible design effect, no table of rows that have nothing in common has a p-value below 0.3."""
    releases = 1000 if LONG else 60
    wanted = asked({**BY_GROUP, "kinds": [CONFUSION]}, epsilon="5")
    p_values = np.array(
        [
            [
                comparison.p_value
                for comparison in comparisons(wanted, Table(seed, units=1500, rows=3, alike=alike), seed)
            ]
            for seed in range(releases)
        ]
    )
    assert (p_values < 0.05).mean() < 0.05 + 2.6 * (0.0475 / releases) ** 0.5
    assert (p_values < 0.5).mean() > 0.3
