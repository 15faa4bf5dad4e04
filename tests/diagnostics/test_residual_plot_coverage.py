"""Do tests of a residual plot keep their level, and its intervals theirs? Every release is of a table of its own."""

import numpy as np
import pytest
from scipy import stats

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import residual_plot
from spark_jobs.diagnostics.residual_plot import copies, lack_of_fit
from spark_jobs.diagnostics.residual_plot.columns import quantiles, spreads
from spark_jobs.diagnostics.residual_plot.lack_of_fit import TESTS, lack_of_fit_tests
from spark_jobs.diagnostics.residual_plot.summary import LEVELS, pools_of
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ResidualCounts

FALSE_ALARM = 1e-4

pytestmark = [pytest.mark.slow, pytest.mark.verify]


@pytest.fixture(autouse=True)
def fewer_copies(monkeypatch):
    monkeypatch.setattr(copies, "COPIES", 300)


def credible(hits, count, least, most):
    """Whether a binomial count speaks against a chance between the two; wrong with at most ``FALSE_ALARM``."""
    too_few = stats.binom.cdf(hits, count, least) < FALSE_ALARM / 2
    too_many = stats.binom.sf(hits - 1, count, most) < FALSE_ALARM / 2
    return not (too_few or too_many)


def normal(random, rows):
    return random.uniform(0, 50, rows), random.normal(size=rows)


def skewed(random, rows):
    return random.gamma(2.0, 10.0, rows), random.exponential(size=rows) - 1


def fanned(random, rows):
    x = random.uniform(0, 50, rows)
    return x, random.normal(0, 1 + x / 25)


def rejections(draw, tables, *, rows, **options):
    """How often each test rejects at 5%, and how often anything is found."""
    random, found = np.random.default_rng(5), []
    for seed in range(tables):
        statistic = ResidualCounts.from_arrays(*draw(random, rows))
        measurement = residual_plot.measure(statistic, noise=SeededNoise(seed), **{"epsilon": 1, **options})
        result = lack_of_fit_tests(measurement, SeededNoise(seed + 1))
        found.append([*(result.p_values[name] <= 0.05 for name in TESTS), bool(result.findings(0.05))])
    return np.sum(found, axis=0)


@pytest.mark.parametrize("draw", [normal, skewed])
@pytest.mark.parametrize(
    "options",
    [{"rows": 1000}, {"rows": 6000, "epsilon": "0.3"}, {"rows": 2000, "neighbours": Neighbours.REPLACE_ONE}],
    ids=str,
)
def test_models_that_hold_are_rejected_as_often_as_stated(draw, options):
    tables = 150
    *by_test, found = rejections(draw, tables, **options)
    for hits in by_test:
        assert credible(hits, tables, 0.02, 0.08)
    assert credible(found, tables, 0.0, 0.06)


def test_a_fan_alone_is_no_curvature():
    tables = 150
    line, curvature, variance, *_ = rejections(fanned, tables, rows=3000)
    assert credible(line, tables, 0.01, 0.1)
    assert credible(curvature, tables, 0.01, 0.1)
    assert variance == tables


def test_a_test_that_forgets_the_noise_is_found_out(monkeypatch):
    def without_noise(measurement, means, noise, *, sampled, effect=1.0):
        return noise.poissons(means, copies=300).astype(float)

    monkeypatch.setattr(lack_of_fit, "noisy_copies", without_noise)
    monkeypatch.setattr(lack_of_fit, "cell_variance", lambda measurement: 0.0)
    tables = 60
    hits = rejections(normal, tables, rows=600, epsilon="0.4")
    assert not credible(max(hits[:3]), tables, 0.0, 0.08)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"neighbours": Neighbours.REPLACE_ONE},
        pytest.param({"method": "hb", "bins": 8}, marks=pytest.mark.soak),
    ],
    ids=str,
)
def test_intervals_hold_what_the_rows_give(options):
    """Means of the rows themselves; spreads and quantiles of the exact counts of the same cells."""
    random, held = np.random.default_rng(6), {"trend": [], "spread": [], "quantiles": []}
    for seed in range(150):  # quantiles of one release are right or wrong together
        fitted, residuals = fanned(random, 3000)
        statistic = ResidualCounts.from_arrays(fitted, residuals)
        measurement = residual_plot.measure(statistic, epsilon=1, confidence=0.9, noise=SeededNoise(seed), **options)
        plot = residual_plot.summarise(measurement, seed=seed)
        exact, edges = measurement.box.counts(statistic).astype(float), measurement.box.residual
        starts, of_column = pools_of(measurement)
        pooled = np.add.reduceat(exact[1:-1], starts, axis=0)
        pools = np.unique(of_column, return_index=True)[1]
        column = np.searchsorted(measurement.box.fitted, fitted) - 1
        inside = np.append(of_column, -1)[np.clip(column, -1, of_column.size)]
        rows = [np.clip(residuals[inside == pool], edges[0], edges[-1]) for pool in range(starts.size)]
        for name, lower, value, upper in (
            ("trend", plot.trend.lower[pools], np.array([one.mean() for one in rows]), plot.trend.upper[pools]),
            ("spread", plot.spread.lower[pools], spreads(pooled, edges), plot.spread.upper[pools]),
            (
                "quantiles",
                plot.qq_residual.lower[8:25],
                quantiles(exact.sum(axis=0), LEVELS, edges)[8:25],
                plot.qq_residual.upper[8:25],
            ),
        ):
            held[name] += ((lower <= value + 1e-9) & (value - 1e-9 <= upper)).tolist()
    for name, inside in held.items():
        assert np.mean(inside) >= 0.84, name
    assert np.mean(held["trend"]) <= 0.97, "a mean is known nearly up to the noise"
