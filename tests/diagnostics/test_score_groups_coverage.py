"""Do tests of fit keep their level, and intervals theirs? Every release here is of a table of its own."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import binned_residuals, calibration
from spark_jobs.diagnostics._score_groups import pools as module
from spark_jobs.diagnostics._score_groups.pools import pools
from spark_jobs.diagnostics.binned_residuals.summary import fit_test
from spark_jobs.diagnostics.calibration.summary import EXPECTED, calibration_test
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.grouped_rows import calibration_error, exact_pools, hosmer_lemeshow, of_pools

FALSE_ALARM = 1e-4
TABLES = {
    "skewed, few positives": (1.0, 9.0, 6000),
    "even": (2.0, 2.0, 3000),
}

pytestmark = [pytest.mark.slow, pytest.mark.verify]


def credible(hits, count, least, most):
    """Whether a binomial count speaks against a chance between the two; wrong with at most ``FALSE_ALARM``."""
    too_few = stats.binom.cdf(hits, count, least) < FALSE_ALARM / 2
    too_many = stats.binom.sf(hits - 1, count, most) < FALSE_ALARM / 2
    return not (too_few or too_many)


def drawn(shape, random, *, bend=1.0):
    first, second, rows = shape
    scores = random.beta(first, second, rows)
    return (random.random(rows) < expit(bend * logit(scores))).astype(int), scores


def population_distance(found, shape, bend):
    """The mean distance of probabilities from scores, in the pools of a result, of the population of ``drawn``."""
    law = stats.beta(*shape[:2])
    cuts = np.append(found.lower[found.pool_starts], 1.0)
    scores = np.concatenate([low + (high - low) * (np.arange(200) + 0.5) / 200 for low, high in pairwise(cuts)])
    excess = ((expit(bend * logit(scores)) - scores) * law.pdf(scores)).reshape(-1, 200).mean(axis=1) * np.diff(cuts)
    return np.abs(excess).sum()


@pytest.mark.halved
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_true_scores_are_rejected_as_often_as_stated(name, epsilon, neighbours):
    random = np.random.default_rng(11)
    rejected, tables = {"fit": 0, "calibration": 0}, 250
    for seed in range(tables):
        statistic = ScoreCounts.from_arrays(*drawn(TABLES[name], random), cells=4096)
        options = {"epsilon": epsilon, "neighbours": neighbours, "noise": SeededNoise(seed)}
        residuals = pools(binned_residuals.measure(statistic, **options), seed=seed + 1, copies=200)
        groups = pools(calibration.measure(statistic, **options), seed=seed + 1, expected=EXPECTED, copies=200)
        rejected["fit"] += fit_test(residuals)[0] <= 0.05
        rejected["calibration"] += calibration_test(groups) <= 0.05
    for hits in rejected.values():
        assert credible(hits, tables, 0.02, 0.07)


def test_a_test_that_forgets_the_noise_is_found_out():
    random, rejected, tables = np.random.default_rng(12), 0, 120
    for seed in range(tables):
        statistic = ScoreCounts.from_arrays(*drawn(TABLES["even"], random), cells=4096)
        found = pools(calibration.measure(statistic, epsilon="0.1", noise=SeededNoise(seed)), seed=seed + 1, copies=2)
        terms = found.released.excess**2 / found.released.variance
        rejected += stats.chi2.sf(terms.sum(), terms.size) < 0.05
    assert not credible(rejected, tables, 0.02, 0.07)


@pytest.mark.halved
@pytest.mark.parametrize("bend", [1.0, 1.3], ids=["true scores", "wrong scores"])
@pytest.mark.parametrize("epsilon", ["0.2", "1"])
def test_intervals_hold_at_their_level(monkeypatch, epsilon, bend):
    monkeypatch.setattr(module, "COPIES", 300)
    random = np.random.default_rng(13)
    shares, residuals, statistics, errors, distances, populations = [], [], [], [], [], []
    for seed in range(100):
        labels, scores = drawn(TABLES["even"], random, bend=bend)
        statistic = ScoreCounts.from_arrays(labels, scores)
        options = {"epsilon": epsilon, "confidence": 0.9, "noise": SeededNoise(seed)}
        found = calibration.release(statistic, **options)
        exact = exact_pools(found, labels, scores)
        low, high = of_pools(found, found.observed.lower), of_pools(found, found.observed.upper)
        shares += [a - 1e-9 <= pool.observed <= b + 1e-9 for a, b, pool in zip(low, high, exact, strict=True)]
        if found.statistic.value is not None:  # where a group may expect less than one row it is undefined
            low, high = found.statistic.interval
            statistics.append(low <= hosmer_lemeshow(exact) <= high)
        errors.append(found.ece.interval[0] <= calibration_error(exact) <= found.ece.interval[1])
        low, high = found.ece.population
        populations.append(low - 1e-6 <= population_distance(found, TABLES["even"], bend) <= high + 1e-6)
        binned = binned_residuals.release(statistic, **options)
        low, high = binned.mean_distance.population
        populations.append(low - 1e-6 <= population_distance(binned, TABLES["even"], bend) <= high + 1e-6)
        exact = exact_pools(binned, labels, scores)
        distances.append(
            binned.mean_distance.interval[0] <= calibration_error(exact) <= binned.mean_distance.interval[1]
        )
        low, high = of_pools(binned, binned.residual.lower), of_pools(binned, binned.residual.upper)
        residuals += [a - 1e-9 <= pool.residual <= b + 1e-9 for a, b, pool in zip(low, high, exact, strict=True)]
    for held in (shares, residuals):
        assert 0.87 <= np.mean(held) <= 0.95
    assert len(statistics) > 50
    for held in (statistics, errors, distances):
        assert credible(sum(held), len(held), 0.85, 0.97)
    # of true scores the distance is 0, which is never below an interval
    assert credible(sum(populations), len(populations), 0.85, 0.97 if bend > 1 else 0.99)


def test_intervals_hold_in_bins_with_almost_no_positives(monkeypatch):
    """Cut at noisy mean scores, as they once were, they held 0.59 to 0.77 of the residuals, and some had width 0."""
    monkeypatch.setattr(module, "COPIES", 300)
    random, held = np.random.default_rng(15), []
    for seed in range(100):
        scores = expit(random.normal(-4, 1, 500))
        labels = (random.random(500) < scores).astype(int)
        binned = binned_residuals.release(
            ScoreCounts.from_arrays(labels, scores), epsilon="1", confidence=0.9, noise=SeededNoise(seed)
        )
        exact = exact_pools(binned, labels, scores)
        low, high = of_pools(binned, binned.residual.lower), of_pools(binned, binned.residual.upper)
        assert (high - low > 1e-3).all()
        held += [a - 1e-9 <= pool.residual <= b + 1e-9 for a, b, pool in zip(low, high, exact, strict=True)]
    assert credible(sum(held), len(held), 0.87, 0.95)


def test_intervals_of_half_the_width_are_found_out(monkeypatch):
    monkeypatch.setattr(module, "COPIES", 300)
    random, held = np.random.default_rng(14), []
    for seed in range(100):
        labels, scores = drawn(TABLES["even"], random)
        found = binned_residuals.release(
            ScoreCounts.from_arrays(labels, scores), epsilon="0.2", confidence=0.9, noise=SeededNoise(seed)
        )
        exact = np.array([pool.residual for pool in exact_pools(found, labels, scores)])
        middle = of_pools(found, found.residual.value)
        low, high = ((of_pools(found, end) + middle) / 2 for end in (found.residual.lower, found.residual.upper))
        held += ((low <= exact) & (exact <= high)).tolist()
    assert np.mean(held) < 0.8
