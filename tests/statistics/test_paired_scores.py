"""Counts of two scores together: their grid, their rules, and Spark's equal ones."""

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import PAIR_CELLS, SCORE_CELLS
from spark_jobs.contract.options import PairedScoreCells
from spark_jobs.contract.options.base import MAX_KEYS
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.score_grid import pair_cuts
from spark_jobs.statistics import PairedScoreCounts, ScoreCounts

PAIR_CUTS = pair_cuts(SCORE_CELLS)

ODD = [0.0, -1.0, 7.0, np.inf, -np.inf, 1.0, 0.5, 0.499999, 2.0**-16, 2.0**-10, 63 / 65536, 64 / 65536, 0.96875, None]


def test_the_driver_can_hold_them_and_a_task_count_them():
    assert PairedScoreCells(described="{}").max_keys == 2 * PAIR_CELLS**2 < MAX_KEYS / 2


def test_each_score_alone_has_the_counts_of_its_cells():
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 500)
    first, second = random.random(500), random.random(500) ** 8
    counts = PairedScoreCounts.from_arrays(labels, first, second)
    for found, scores in ((counts.first, first), (counts.second, second)):
        whole = ScoreCounts.from_arrays(labels, scores)
        for mine, theirs in ((found.positives, whole.positives), (found.negatives, whole.negatives)):
            np.testing.assert_array_equal(
                np.add.reduceat(mine, PAIR_CUTS[:-1]), np.add.reduceat(theirs, PAIR_CUTS[:-1])
            )
            assert mine[PAIR_CUTS[:-1]].sum() == mine.sum()


def test_a_row_that_lacks_one_of_the_three_is_dropped():
    counts = PairedScoreCounts.from_arrays([0, 1, None, 2, 1], [0.1, None, 0.3, 0.4, 2.0], [0.1, 0.2, 0.3, 0.4, -1.0])
    assert counts.counts.tolist() == [1, 1]
    assert counts.first.positives[-1:].tolist() == [1]
    assert counts.second.positives[0] == 1
    assert repr(counts) == "PairedScoreCounts()"
    assert counts.l1_sensitivity(Neighbours.REPLACE_ONE) == 2


def test_differences_are_those_of_each_rows_cells():
    counts = PairedScoreCounts.from_arrays([0, 1], [0.0, 1.0], [1.0, 0.0])
    cells = np.arange(2 * PAIR_CELLS, dtype=float).reshape(2, PAIR_CELLS)
    assert counts.differences(cells, cells / 2).tolist() == [
        0 - (PAIR_CELLS - 1) / 2,
        2 * PAIR_CELLS - 1 - PAIR_CELLS / 2,
    ]


def test_what_is_no_column_of_numbers_is_refused():
    with pytest.raises(InvalidRequest, match="second: must have as many values as labels"):
        PairedScoreCounts.from_arrays([0, 1], [0.1, 0.2], [0.1])
    with pytest.raises(ValueError, match="^the keys belong to another grid$"):
        PairedScoreCounts(keys=np.array([2 * PAIR_CELLS**2]), counts=np.array([1]))
    with pytest.raises(ValueError, match="one length"):
        PairedScoreCounts(keys=np.array([2]), counts=np.array([1, 1]))


@pytest.mark.spark
def test_spark_counts_the_same(spark):
    random = np.random.default_rng(2)
    scores = [*random.random(300).tolist(), *(random.random(200) ** 12).tolist(), *ODD]
    rows = [
        (int(label), one, other)
        for label, one, other in zip(random.integers(0, 2, len(scores)), scores, scores[::-1], strict=True)
    ]
    frame = spark.createDataFrame(rows, "label int, first double, second double")
    found, wanted = PairedScoreCounts.from_dataframe(frame), PairedScoreCounts.from_arrays(*zip(*rows, strict=True))
    order = np.argsort(found.keys)
    np.testing.assert_array_equal(found.keys[order], wanted.keys)
    np.testing.assert_array_equal(found.counts[order], wanted.counts)
