"""Do 90% bands hold the exact fractions nine times out of ten? Every release here is of a table of its own."""

import numpy as np
import pytest
from scipy import stats

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import ecdf
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ValueCounts
from tests.support.valued_rows import counted, fractions

pytestmark = [pytest.mark.slow, pytest.mark.verify]

FALSE_ALARM = 1e-4
LEAST, MOST = 0.86, 0.95
"""Between these is the coverage on every kind of table."""
KINDS = {
    "normal": lambda random: random.normal(0.5, 0.15, 3000),
    "uniform": lambda random: random.random(20_000),
    "skewed": lambda random: np.exp(random.normal(-4, 1, 3000)),
    "tied": lambda random: random.integers(0, 6, 1000) / 6,
    "few": lambda random: random.normal(0.5, 0.15, 300),
}
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


@pytest.fixture(scope="module", params=[(kind, relation) for kind in KINDS for relation in Neighbours], ids=str)
def releases(request):
    """Releases with the exact fractions of their tables."""
    kind, relation = request.param
    random = np.random.default_rng(404)
    found = []
    for _ in range(60):
        statistic = counted(KINDS[kind](random), cells=512)
        noise = SeededNoise(int(random.integers(2**62)))
        released = ecdf.release(statistic, epsilon=1, neighbours=relation, noise=noise, quantiles=LEVELS)
        found.append((released, fractions(statistic)))
    return found


def too_rarely(hits, count):
    return stats.binom.cdf(hits, count, LEAST) < FALSE_ALARM


def test_bands_for_the_whole_function_hold_at_their_level(releases):
    hits = sum(
        bool(((one.function.everywhere.lower <= exact + 1e-9) & (exact <= one.function.everywhere.upper + 1e-9)).all())
        for one, exact in releases
    )
    assert not too_rarely(hits, len(releases))


def test_bands_of_each_fraction_hold_at_their_level(releases):
    parts = np.array(
        [
            ((one.function.lower <= exact + 1e-9) & (exact <= one.function.upper + 1e-9)).mean()
            for one, exact in releases
        ]
    )
    error = stats.norm.isf(FALSE_ALARM) * parts.std() / np.sqrt(parts.size)
    assert parts.mean() >= LEAST - error


def test_intervals_of_quantiles_hold_at_their_level(releases):
    parts = np.array([
        np.mean([
            quantile.figure.lower <= one.values[np.searchsorted(exact, quantile.level - 1e-9)] <= quantile.figure.upper
            for quantile in one.quantiles
        ])
        for one, exact in releases
    ])  # fmt: skip
    error = stats.norm.isf(FALSE_ALARM) * parts.std() / np.sqrt(parts.size)
    assert parts.mean() >= LEAST - error


@pytest.mark.parametrize("signal", [500, pytest.param(2000, marks=pytest.mark.soak)])
def test_intervals_of_quantiles_hold_beyond_bounds_that_were_found(signal):
    """With the cells at the ends as they are, 0 to 17% of the intervals of the outer quantiles held at 500."""
    random, held = np.random.default_rng(7), []
    wide = {"lower": -(2.0**44), "upper": 2.0**44, "scale": "log", "unit": 2.0**-20, "cells": 2**18}
    for _ in range(25):
        for values in (random.normal(100, 20, signal), random.lognormal(3, 1.5, signal), random.standard_t(2, signal)):
            statistic, noise = ValueCounts.from_arrays(values, **wide), SeededNoise(int(random.integers(2**62)))
            one = ecdf.release(statistic, epsilon=1, find_bounds="linear", noise=noise, quantiles=LEVELS)
            places = statistic.grid.edges[np.searchsorted(fractions(statistic), np.array(LEVELS) - 1e-12)]
            inside = (places >= one.bounds[0]) & (places < one.bounds[1])
            cells = np.searchsorted(one.values, places, side="right") - 1
            exact = np.where(inside, one.values[cells], places)
            held.append(
                [end.figure.lower <= at <= end.figure.upper for end, at in zip(one.quantiles, exact, strict=True)]
            )
    parts = np.array(held).mean(axis=1)
    error = stats.norm.isf(FALSE_ALARM) * parts.std() / np.sqrt(parts.size)
    assert parts.mean() >= LEAST - error
    assert np.array(held).mean(axis=0).min() > 0.75


def test_bands_of_each_fraction_are_not_too_wide(releases):
    parts = np.array(
        [
            ((one.function.lower <= exact + 1e-9) & (exact <= one.function.upper + 1e-9)).mean()
            for one, exact in releases
        ]
    )
    error = stats.norm.isf(FALSE_ALARM) * parts.std() / np.sqrt(parts.size)
    assert parts.mean() <= MOST + error


def test_bands_of_half_the_width_are_found_out(releases):
    hits = 0
    for one, exact in releases:
        low, high = (one.function.everywhere.lower + one.cdf) / 2, (one.function.everywhere.upper + one.cdf) / 2
        hits += bool(((low <= exact + 1e-9) & (exact <= high + 1e-9)).all())
    assert stats.binom.cdf(hits, len(releases), LEAST) < 0.05
