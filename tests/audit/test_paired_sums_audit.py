"""The six sums of a comparison: the loss of every row that can be added or replaced, by enumeration."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest

from spark_jobs.mechanisms import paired_sums as module
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.paired_sums import SENSITIVITY, STEPS, on_lattice, paired_sums, weights
from spark_jobs.mechanisms.regression.sums import BOUND
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault

pytestmark = pytest.mark.audit

EPSILON = Decimal("0.7")
NOTHING = np.zeros(0, dtype=np.int64)


def forget_the_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sensitivity of a row at 0 or at an end, instead of half way."""
    monkeypatch.setattr(module, "SENSITIVITY", 2 * STEPS**2)


class TestPairedSums(ExactAudit):
    mechanisms = ("paired sums",)
    claimed, at_least = EPSILON, 0.999
    faults = {
        **ExactAudit.faults,
        "sensitivity of the ends": Fault(patch=forget_the_half),
    }

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        drawn = paired_sums(
            NOTHING, np.zeros(0), NOTHING, epsilon=EPSILON, neighbours=told or relation, noise=SeededNoise(1)
        )
        assert drawn.totals.shape == (2, 3)
        added = np.abs(weights(np.arange(-STEPS, STEPS + 1))).sum(axis=1)
        # a replaced row may change its class, so that both rows count in full; in one class it changes no more
        changed = added.max() if relation is ADDED else 2 * added.max()
        assert relation is ADDED or changed >= within_a_class()
        return times * less * changed / drawn.scale


def within_a_class() -> int:
    """The largest change of one class's sums by a replaced row."""
    every = weights(np.arange(-STEPS, STEPS + 1, 64))
    return max(int(np.abs(every - one).sum(axis=1).max()) for one in every[::8])


@pytest.mark.parametrize("relation", [ADDED, REPLACED])
def test_a_row_adds_its_weights_to_its_own_class_alone(relation):
    noise = SeededNoise(3)
    kept = []

    class Exact(SeededNoise):
        def laplace(self, values, **options):
            kept.append(values.copy())
            return noise.laplace(values, **options)

    classes, values, counts = np.array([0, 1, 1]), np.array([0.25, -1.0, 0.5]), np.array([3, 2, 0])
    for rows in (counts, counts + np.array([0, 0, 1])):
        paired_sums(classes, values, rows, epsilon=1, neighbours=relation, noise=Exact(1))
    np.testing.assert_array_equal(kept[1][0], kept[0][0])
    np.testing.assert_array_equal(kept[1][1] - kept[0][1], weights(np.array(STEPS // 2)))


class Unnoised(SeededNoise):
    """Noise that is left out, to see what it is added to."""

    def laplace(self, values, **options):
        return values


@pytest.mark.parametrize("value", [-1.0, -0.5, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("rows", [2**34, 2**35, 2**44, 2**62])
def test_one_row_of_very_many_moves_the_sums_no_further(value, rows):
    around = [
        paired_sums(
            np.array([1, 1]), np.array([value, 0.25]), np.array([rows + less, 3]), epsilon=1, neighbours=ADDED,
            noise=Unnoised(1),
        ).totals.astype(object)
        for less in (-1, 0, 1)
    ]  # fmt: skip
    assert max(np.abs(one - other).sum() for one, other in pairwise(around)) <= SENSITIVITY


def test_sums_are_exact_to_the_last_row_and_clipped_beyond_64_bits():
    random = np.random.default_rng(4)
    counts, values = random.integers(0, 2**30, 40), random.uniform(-1, 1, 40)
    counts[0] = 2**32 + 12345
    added = weights(on_lattice(values))
    for times in (1, 2**12):
        drawn = paired_sums(
            np.zeros(40, dtype=np.int64), values, counts * times, epsilon=1, neighbours=ADDED, noise=Unnoised(1)
        )
        exact = [sum(int(n) * times * int(w) for n, w in zip(counts, column, strict=True)) for column in added.T]
        assert drawn.totals[0].tolist() == [min(max(each, -BOUND), BOUND) for each in exact]
