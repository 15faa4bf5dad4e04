"""Counts by group: those of the rows of each group, and of all other rows."""

import numpy as np
import pytest
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.statistics import GroupedScoreCounts, ScoreCounts
from tests.suites.statistic import StatisticSuite
from tests.support.score_rows import labels, scores

CELLS, KEYS = 8, ("a", 7)
GROUPS = st.sampled_from(["a", "7", 7, "b", None])
ROW = st.tuples(labels(), scores(CELLS), GROUPS)


def from_rows(table, cells=CELLS):
    columns = [[row[place] for row in table] for place in range(3)]
    label, score, group = (np.array(column, dtype=object) for column in columns)
    return GroupedScoreCounts.from_arrays(label, score, group, keys=KEYS, cells=cells)


def flat(counts):
    return np.stack([counts.negatives, counts.positives], axis=1).ravel()


class TestStatistic(StatisticSuite):
    kind = GroupedScoreCounts
    count = staticmethod(from_rows)
    rows, row = st.lists(ROW, max_size=20), ROW
    cells = staticmethod(lambda counts: dict(enumerate(flat(counts))))
    shown = from_rows([(1, 0.5, "a"), (0, 0.2, 7)], 2), "GroupedScoreCounts(groups=2, cells=2)"
    others = from_rows([(1, 0.5, "a"), (0, 0.2, "b")], 2), from_rows([(1, 0.5, "a"), (0, 0.2, 7)], 4)
    grids = from_rows([], 8), from_rows([], 4), "the same groups"
    read_only = ("negatives", "positives")
    empty = ([], [(None, None, "a")], [(2, 0.5, "a"), (0, None, 7)])

    @staticmethod
    def packed(counts):
        # the packed form has the cells of the application's grid
        places, label, cell = np.nonzero(np.stack([counts.negatives, counts.positives], axis=1))
        keys = (2 * places + label) * SCORE_CELLS + cell
        return keys, flat(counts)[(2 * places + label) * CELLS + cell], {"keys": KEYS}

    def test_keys_with_counts_make_the_same_object(self):
        counts = from_rows([(1, 0.5, "a"), (0, 0.2, 7), (1, 0.9, "b")], SCORE_CELLS)
        keys = np.flatnonzero(flat(counts))
        assert GroupedScoreCounts.from_keys(keys[::-1], flat(counts)[keys][::-1], KEYS) == counts
        with pytest.raises(ValueError, match="another grid"):
            GroupedScoreCounts.from_keys([6 * SCORE_CELLS], [1], KEYS)


def test_each_group_has_the_counts_of_its_rows_and_the_last_one_those_of_all_others():
    random = np.random.default_rng(3)
    label, score = random.random(500) < 0.4, random.random(500)
    group = random.choice(np.array(["a", 7, "7", "b", None], dtype=object), 500)
    counts = GroupedScoreCounts.from_arrays(label, score, group, keys=KEYS, cells=64)
    seventh = (group == 7) | (group == "7")
    for rows, of_group in zip((group == "a", seventh, ~seventh & (group != "a")), counts.groups, strict=True):
        assert of_group == ScoreCounts.from_arrays(label[rows], score[rows], cells=64)


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(InvalidRequest, match="as many values as labels and scores"):
        GroupedScoreCounts.from_arrays([0, 1], [0.2, 0.3], ["a"], keys=KEYS)
    with pytest.raises(InvalidRequest, match="one row of cells for each group"):
        GroupedScoreCounts(keys=KEYS, negatives=np.zeros((2, 4), np.int64), positives=np.zeros((2, 4), np.int64))
