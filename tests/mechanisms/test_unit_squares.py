"""Noisy sums of units' squares, and the design effects that follow."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import numpy as np
import pytest

from spark_jobs.contract.privacy import UNIT_STEPS
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.unit_squares import design_effect, noisy_squares, stddev_of
from spark_jobs.statistics.unit_squares import OfCells, unit_squares, whole_weights


def test_a_unit_changes_each_sum_by_at_most_one_under_both_relations() -> None:
    weights = whole_weights([OfCells.of_all(np.array(one)) for one in ([0.3, -1.0, 0.7], [1.0, 0.0, -0.2])], [1.0, 1.0])
    rest = unit_squares([7, 7, 8], [0, 2, 1], weights, max_rows=3)
    units = [cells for rows in range(4) for cells in product(range(-1, 3), repeat=rows)]
    changes = []
    for cells in units:
        whole = unit_squares([7, 7, 8, *[9] * len(cells)], [0, 2, 1, *cells], weights, max_rows=3)
        changes.append(whole - rest)
    added = np.array(changes)
    assert added.min() == 0
    assert added.max() == UNIT_STEPS, "the bound is attained"
    assert np.ptp(added, axis=0).max() <= UNIT_STEPS, "so a unit that is replaced changes no sum by more"


@pytest.mark.parametrize("figures", [1, 3])
def test_the_noise_has_the_stated_spread(figures: int) -> None:
    noise = SeededNoise(3)
    exact = np.zeros(figures, dtype=np.int64)
    drawn = np.array([noisy_squares(exact, epsilon=Decimal("0.5"), noise=noise) for _ in range(4000)]) / UNIT_STEPS
    stated = stddev_of(figures, Decimal("0.5"))
    assert drawn.std(axis=0) == pytest.approx([stated] * figures, rel=0.08)
    assert abs(drawn.std(axis=0) / (stated / 2) - 1).min() > 0.5, "half of it would be seen"


@pytest.mark.parametrize(("alike", "expected"), [(True, 4.0), (False, 1.0)])
def test_the_design_effect_of_a_share_is_that_of_the_units(alike: bool, expected: float) -> None:
    rng = np.random.default_rng(5)
    units, rows = 20_000, 4
    labels = np.repeat(rng.random(units) < 0.3, rows) if alike else rng.random(units * rows) < 0.3
    share = labels.mean()
    weights = whole_weights([OfCells.of_all(np.array([-share, 1 - share]))], [1 - share])
    unit = np.repeat(np.arange(units), rows)
    sums = unit_squares(unit, labels.astype(int), weights, max_rows=rows)
    found = design_effect(
        sums[0] / UNIT_STEPS,
        stddev=0.0,
        largest=1 - share,
        rows_square=labels.size * share * (1 - share),
        max_rows=rows,
    )
    deviations = np.bincount(unit, labels - share)
    own = (deviations**2).sum() / (labels.size * share * (1 - share))
    assert found.value == pytest.approx(max(own, 1.0), rel=1e-4)
    assert found.value == pytest.approx(expected, rel=0.05)


def test_what_noise_hides_is_said_to_be_an_upper_limit() -> None:
    hidden = design_effect(1.0, stddev=100.0, largest=1.0, rows_square=10.0, max_rows=3)
    known = design_effect(100.0, stddev=1.0, largest=1.0, rows_square=700.0, max_rows=3)
    assert (hidden.value, hidden.at_most) == (3.0, True)
    assert 1 < known.value < 3
    assert not known.at_most
