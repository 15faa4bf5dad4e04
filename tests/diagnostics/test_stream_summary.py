"""Figures that are read off a released stream."""

import numpy as np
import pytest

from spark_jobs.diagnostics.count_stream.summary import (
    StreamHistory,
    banded_sums,
    certain_changes,
    joined,
    readings,
    with_total,
)
from spark_jobs.mechanisms.noise import SeededNoise, laplace_scale

EPSILON = "0.2"


def history_of(counts, seed=1, measured=None):
    noisy = SeededNoise(seed).laplace(counts, epsilon=EPSILON, l1_sensitivity=1)
    return StreamHistory(
        names=tuple(f"n{i}" for i in range(counts.shape[1])),
        noisy=noisy,
        estimates=np.maximum(noisy, 0).astype(float),
        lower=None,
        upper=None,
        measured=np.ones(counts.shape, dtype=bool) if measured is None else measured,
        scales=np.full(counts.shape, laplace_scale(EPSILON, 1)),
        terms=np.ones(counts.shape[1], dtype=np.int64),
    )


def test_where_nothing_changes_a_change_is_rarely_listed():
    listed = [
        bool(certain_changes(history_of(np.full((96, 2), 50), seed), width=8, confidence=0.9, comparisons=22))
        for seed in range(150)
    ]
    # 10% at most, and four standard errors
    assert sum(listed) <= 15 + 4 * np.sqrt(150 * 0.09)


def test_a_change_is_listed_where_it_is_and_its_band_contains_it():
    counts = np.full((96, 2), 50)
    counts[48:, 1] = 200
    (change,) = certain_changes(history_of(counts), width=8, confidence=0.9, comparisons=22)
    assert (change.name, change.at) == (1, 48)
    assert 0 < change.lower <= 8 * 150 <= change.upper


def test_readings_say_what_rises_falls_is_silent_or_was_not_measured():
    counts = np.full((50, 5), 50)
    counts[-10:, 0], counts[-10:, 1], counts[:, 2] = 150, 0, 0
    measured = np.ones(counts.shape, dtype=bool)
    measured[-3, 4] = False
    seen = readings(history_of(counts, measured=measured), width=10, confidence=0.9)
    assert [one.status for one in seen] == ["rise", "fall", "silent", "steady", "not measured"]
    assert np.isnan(seen[4].total)
    assert seen[0].total_lower <= 1500 <= seen[0].total_upper
    early = readings(history_of(counts[:5]), width=10, confidence=0.9)
    assert {one.status for one in early} == {"not measured"}


def test_a_total_has_the_noise_of_all_its_counts():
    random = np.random.default_rng(3)
    counts = random.poisson(30, (20_000, 6))
    total = with_total(history_of(counts), name="all", confidence=0.9)
    assert (total.names[0], total.terms.tolist()) == ("all", [6, 1, 1, 1, 1, 1, 1])
    sums = banded_sums(total, width=2, confidence=0.9, every=2)
    exact = counts.sum(axis=1).reshape(-1, 2).sum(axis=1)
    held = ((sums.lower[:, 0] <= exact) & (exact <= sums.upper[:, 0])).mean()
    assert held == pytest.approx(0.905, abs=0.015)


def test_the_histories_of_runs_join_to_the_whole():
    whole = history_of(np.random.default_rng(5).poisson(9, (30, 2)))
    parts = [
        StreamHistory(**{
            name: value[part] if name in ("noisy", "estimates", "measured", "scales") else value
            for name, value in vars(whole).items()
        })
        for part in (slice(0, 7), slice(7, 30))
    ]  # fmt: skip
    again = joined(parts)
    assert all(np.array_equal(getattr(again, name), getattr(whole, name)) for name in ("noisy", "estimates", "scales"))
