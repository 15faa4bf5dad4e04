"""One sum of public weights: its sensitivity against all neighbours of small tables, its noise, its storage."""

import json

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.weighted_sums import CellWeights, WeightedSum, weighted_sum
from tests.support.neighbouring import neighbouring

RANDOM = np.random.default_rng(5)
CUTS = np.array([0, 2, 3, 6])
TABLES = [RANDOM.integers(0, 3, (2, 6)) for _ in range(6)] + [np.zeros((2, 6), dtype=np.int64)]
MADE = {
    "both signs": CellWeights(cuts=CUTS, weights=np.array([[-7, 2, 0], [3, 5, -1]]), resolution=0.25),
    "one sign": CellWeights(cuts=CUTS, weights=np.array([[4, 5, 6], [7, 8, 9]]), resolution=1.0),
    "negative": CellWeights(cuts=CUTS, weights=np.array([[-4, -5, -6], [-7, -3, -9]]), resolution=1.0),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_sensitivity_is_what_neighbours_differ_by_at_most(name, neighbours):
    weights = MADE[name]
    # a row may be replaced by one that does not count, too
    fewer_or_more = neighbouring(TABLES[0], Neighbours.ADD_REMOVE)
    largest = max(
        abs(weights.total(table) - weights.total(other))
        for table, others in [
            *((table, neighbouring(table, neighbours)) for table in TABLES),
            (TABLES[0], fewer_or_more),
        ]
        for other in others
    )
    assert largest == weights.sensitivity(neighbours)


def test_a_sum_is_over_all_rows():
    rows = [(0, 0), (0, 1), (1, 0), (1, 2), (0, 5), (1, 5)]
    counts = np.zeros((2, 6), dtype=np.int64)
    for label, cell in rows:
        counts[label, cell] += 1
    weights = MADE["both signs"]
    expected = sum(weights.weights[label, np.searchsorted(CUTS, cell, side="right") - 1] for label, cell in rows)
    assert weights.total(counts) == expected


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_noise_is_as_wide_as_it_says(neighbours):
    noise, weights, table = SeededNoise(3), MADE["both signs"], TABLES[0]
    made = [weighted_sum(table, weights, epsilon="0.5", neighbours=neighbours, noise=noise) for _ in range(4000)]
    off = np.array([each.total for each in made]) - weights.total(table)
    assert made[0].scale == pytest.approx(weights.sensitivity(neighbours) / 0.5)
    assert abs(off.mean()) < 5 * made[0].scale * np.sqrt(2 / off.size)
    assert np.abs(off).mean() == pytest.approx(made[0].scale, rel=0.1)


def test_weights_that_are_all_alike_still_get_noise():
    alike = CellWeights(cuts=CUTS, weights=np.zeros((2, 3), dtype=np.int64), resolution=1.0)
    assert [alike.sensitivity(each) for each in Neighbours] == [1, 1]


def test_a_sum_survives_storage():
    made = weighted_sum(
        TABLES[0], MADE["both signs"], epsilon=1, neighbours=Neighbours.REPLACE_ONE, noise=SeededNoise(1)
    )
    fields = codec.encode(made)
    assert codec.encode(codec.decode(WeightedSum, json.loads(json.dumps(fields)))) == fields
