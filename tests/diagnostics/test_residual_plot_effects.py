"""Effect sizes of a residual plot: what they are without noise, and what their intervals cover."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.contract.figure import Figure
from spark_jobs.diagnostics import residual_plot
from spark_jobs.diagnostics.residual_plot.effects import EFFECTS, effect_sizes
from spark_jobs.diagnostics.residual_plot.offsets import in_units, sums_of_offsets
from spark_jobs.diagnostics.residual_plot.summary import pools_of
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ResidualCounts

UNIT = 0.01


def rows_of(random, rows, *, bow=0.0, slope=0.0, wider=0.0):
    fitted = random.uniform(10, 50, rows)
    along = (fitted - 30) / 20
    spread = 2 * np.exp(wider * along)
    return fitted, slope * (fitted - 30) + bow * (along**2 - 1 / 3) + spread * random.standard_normal(rows)


def released(fitted, residuals, epsilon, seed=1):
    counts = ResidualCounts.from_arrays(fitted, residuals, unit=UNIT)
    return residual_plot.release(counts, epsilon=epsilon, coverage=0.999, noise=SeededNoise(seed))


@pytest.mark.slow
def test_without_noise_they_are_those_of_the_rows():
    fitted, residuals = rows_of(np.random.default_rng(2), 60_000, bow=3.0, slope=0.05, wider=0.5)
    plot = released(fitted, residuals, 1e6)
    assert plot.shift.value == pytest.approx(residuals.mean(), abs=0.03)
    assert plot.slope.value == pytest.approx(np.polyfit(fitted, residuals, 1)[0], abs=0.003)
    low, high = np.quantile(fitted, [0.05, 0.95])
    assert plot.bow.value == pytest.approx(np.polyfit(fitted, residuals, 2)[0] * (high - low) ** 2 / 4, abs=0.15)
    order = np.argsort(fitted)
    flat = (residuals - np.polyval(np.polyfit(fitted, residuals, 2), fitted))[order]
    bottom, top = flat[: flat.size // 5], flat[-flat.size // 5 :]
    assert plot.spread_ratio.value == pytest.approx(top.std() / bottom.std(), rel=0.05)
    for name in EFFECTS:
        low, high = plot.published()[f"{name}_interval"]
        assert low <= getattr(plot, name).value <= high


def test_a_hidden_table_has_no_effects_and_a_narrow_one_no_slope():
    nothing = released([1.0, 2.0], [0.1, 0.2], 0.01)
    assert [getattr(nothing, name) for name in EFFECTS] == [Figure(value=None)] * 4
    sizes = effect_sizes(np.ones((1, 6)), np.array([3.0]), np.array([6.0]), np.linspace(-1, 1, 5))
    assert np.isnan(sizes).tolist() == [False, True, True, True]


@pytest.mark.verify
@pytest.mark.parametrize("shape", [{}, {"bow": 3.0, "wider": 0.5}, {"slope": 0.1, "wider": -0.4}])
def test_intervals_cover_what_the_population_gives_on_the_same_box(shape):
    random, covered = np.random.default_rng(5), []
    population = ResidualCounts.from_arrays(*rows_of(random, 2_000_000, **shape), unit=UNIT)
    for seed in range(40):
        counts = ResidualCounts.from_arrays(*rows_of(random, 4000, **shape), unit=UNIT)
        draw = residual_plot.measure(counts, epsilon=1, noise=SeededNoise(seed), confidence=0.95)
        plot, starts = residual_plot.summarise(draw, seed=seed), pools_of(draw)[0]
        own = np.maximum(draw.cells[1:-1].sum(axis=1), 1e-9)
        middles = (draw.box.fitted[1:] + draw.box.fitted[:-1]) / 2
        at = np.add.reduceat(own * middles, starts) / np.add.reduceat(own, starts)
        pooled, cells = (
            np.add.reduceat(table[1:-1], starts, axis=0) for table in (draw.cells, draw.box.counts(population) / 500)
        )
        offsets = np.add.reduceat(in_units(sums_of_offsets(population, draw.box) / 500, draw.box), starts)
        true = effect_sizes(cells, at, pooled.sum(axis=-1), draw.box.residual, offsets) * [UNIT, 1, UNIT, 1]
        true[3] = np.exp(true[3])
        for value, name in zip(true, EFFECTS, strict=True):
            low, high = plot.published()[f"{name}_interval"]
            covered.append(low <= value <= high)
    # 160 intervals of 95%, in fours of one release: 0.95 with a standard error of at most 0.035
    assert np.mean(covered) > 0.86
