"""Counts read by their posterior: nearer where noise is large, themselves where it is not, and not biased."""

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import _score_cells
from spark_jobs.diagnostics import roc_curve as roc
from spark_jobs.diagnostics.roc_curve import posterior
from spark_jobs.diagnostics.roc_curve.posterior import expected_counts, noise_precision, trees_of
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.scored_rows import binormal, exact_curve, ten_data_sets

DATA_SETS = ten_data_sets()


def measured(labels, scores, **options):
    return roc.measure(ScoreCounts.from_arrays(labels, scores), **options)


def expected_of(draw):
    trees = trees_of(draw)
    return expected_counts(np.stack([tree.counts() for tree in trees]), noise_precision(trees[0]))


def errors(labels, scores, *, epsilon, releases):
    """Mean absolute errors of the AUC, as released and as counted, of releases that share their draws."""
    fpr, tpr = exact_curve(labels, scores)
    exact, found = np.trapezoid(tpr, fpr), []
    for seed in range(releases):
        made = measured(labels, scores, epsilon=epsilon, noise=SeededNoise(seed))
        found.append([abs(trace(made, raw=plain).auc - exact) for plain in (False, True)])
    return np.mean(found, axis=0)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(("auc", "at_most"), [(0.8, 0.9), (0.95, 0.9), (0.99, 1.2)])
def test_the_posterior_brings_areas_nearer_where_noise_is_large(auc, at_most):
    labels, scores = binormal(auc, 300, np.random.default_rng(3))
    released, counted = errors(labels, scores, epsilon=0.5, releases=100)
    assert released < at_most * counted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["worse than chance", "all scores below 0.001", "many ties", "rare positives"])
def test_what_the_posterior_does_not_foresee_costs_little(name):
    released, counted = errors(*DATA_SETS[name], epsilon=1, releases=12)
    assert released < 1.2 * counted + 0.002


def test_counts_that_say_more_than_the_noise_hides_are_left_as_they_are(monkeypatch):
    monkeypatch.setattr(_score_cells, "cells_for_rarer", lambda signal: 0)  # cells that are few, and full
    random = np.random.default_rng(4)
    labels = random.integers(0, 2, 100_000)
    scores = np.where(
        random.random(labels.size) < 0.5,
        0.1 * random.random(labels.size),
        0.2 + 0.7 * random.random(labels.size) ** (1 + labels),
    )
    measurement = measured(labels, scores, epsilon=1, noise=SeededNoise(1))
    exact = totals(
        np.stack([(statistic := ScoreCounts.from_arrays(labels, scores)).negatives, statistic.positives]),
        measurement.cuts,
    )
    assert trees_of(measurement)
    noise = np.sqrt(measurement.negatives.range_variance(0, 1))
    assert np.abs(expected_of(measurement) - exact).max() < 6 * noise
    released = np.stack([measurement.negatives.counts(), measurement.positives.counts()])
    assert np.abs(expected_of(measurement) - np.maximum(released, 0.0)).max() < 1.5 * noise


@pytest.mark.sampled("name", "epsilon", "neighbours")
@pytest.mark.slow
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("epsilon", ["0.01", "1", "20"])
def test_expected_counts_are_finite_and_there_for_every_cell(name, epsilon, neighbours):
    made = measured(*DATA_SETS[name], epsilon=epsilon, neighbours=neighbours, noise=SeededNoise(2))
    if trees_of(made) is None or not trace(made, raw=True).defined:
        return
    expected = expected_of(made)
    assert expected.shape == (2, made.cuts.size - 1)
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(expected, expected_of(made))
    assert (expected > 0).all()


@pytest.mark.parametrize(
    "options",
    [{"method": "tree"}, {"method": "fixed_cells"}, {"method": "fixed_cells", "histogram": "dawa"}],
)
def test_other_methods_are_read_as_they_are(options):
    made = measured(*DATA_SETS["ordinary"], epsilon=1, noise=SeededNoise(5), **options)
    assert trees_of(made) is None
    assert trace(made).auc == trace(made, raw=True).auc


def some_counts(seed):
    labels, scores = binormal(0.8, 4000, np.random.default_rng(seed))
    trees = trees_of(measured(labels, scores, epsilon=1, noise=SeededNoise(seed)))
    return np.stack([tree.counts() for tree in trees]), noise_precision(trees[0])


def curve_of(counts):
    return np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", [1, 2])
def test_steps_end_when_the_curve_stops_moving(seed, monkeypatch):
    """Solving on, for each roughness and ten times as long, would not move the curve by what anybody could see."""
    counts, precision = some_counts(seed)
    solved, solve = [], np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda matrix, right: solved.append(len(matrix)) or solve(matrix, right))
    short = expected_counts(counts, precision)
    assert solved == sorted(solved, reverse=True), "what has stopped is not solved for again"
    assert sum(solved) < posterior.STEPS * len(posterior.ROUGHNESS)
    monkeypatch.setattr(posterior, "CLOSE", 0.0)
    monkeypatch.setattr(posterior, "STEPS", 400)
    assert np.abs(curve_of(short) - curve_of(expected_counts(counts, precision))).max() < 2e-4


def test_an_estimate_that_has_not_converged_says_so(monkeypatch, caplog):
    counts, precision = some_counts(3)
    expected_counts(counts, precision)
    assert "has not converged" not in caplog.text
    monkeypatch.setattr(posterior, "STEPS", 2)
    expected_counts(counts, precision)
    assert "the estimate of a ROC curve has not converged: it still moves after 2 steps" in caplog.text
