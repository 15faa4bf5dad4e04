import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.statistics import ScoreCounts
from tests.suites.statistic import StatisticSuite
from tests.support.score_rows import NASTY_ROWS, counted_one_by_one, from_rows, l1_distance, labels, rows, scores

CELLS = 8
TABLES = rows(CELLS)


@given(TABLES, st.sampled_from([2, CELLS, 1024, 65536]))
def test_from_arrays_counts_as_exact_arithmetic_does(table, cells):
    negatives, positives = counted_one_by_one(table, cells)
    counts = from_rows(table, cells)
    assert counts.negatives.tolist() == negatives
    assert counts.positives.tolist() == positives


def test_nasty_rows_are_counted_by_the_stated_rule():
    counts = from_rows(NASTY_ROWS, CELLS)
    assert (counts.negatives.tolist(), counts.positives.tolist()) == counted_one_by_one(NASTY_ROWS, CELLS)
    assert counts.negatives.sum() == 2 * counts.positives.sum() > 0, "0.0 and -0.0 are both label 0"


class TestStatistic(StatisticSuite):
    kind = ScoreCounts
    count = staticmethod(lambda table: from_rows(table, CELLS))
    rows, row = TABLES, st.tuples(labels(), scores(CELLS))
    cells = staticmethod(lambda counts: dict(enumerate([*counts.negatives, *counts.positives])))
    shown = ScoreCounts.from_keys([0, 3], [123457, 987651], cells=2), "ScoreCounts(cells=2)"
    others = (
        *(ScoreCounts.from_arrays([0, 1], [0.2, score], cells=4) for score in (0.7, 0.8)),
        ScoreCounts.from_arrays([1, 0], [0.2, 0.7], cells=4),
        ScoreCounts.from_arrays([0, 1], [0.2, 0.7], cells=8),
    )
    grids = ScoreCounts.from_arrays([], [], cells=8), ScoreCounts.from_arrays([], [], cells=4), "count both on one grid"
    read_only = ("negatives", "positives")
    empty = ([], [(None, None)], [(2, 0.5), (0, None)])

    @staticmethod
    def packed(counts):
        both = np.concatenate([counts.negatives, counts.positives])
        keys = np.flatnonzero(both)
        return keys, both[keys], {"cells": CELLS}


def test_l1_sensitivities_are_reached():
    base = [(0, 0.1), (1, 0.9)]
    counts = from_rows(base, CELLS)
    assert l1_distance(counts, from_rows(base[:1], CELLS)) == ScoreCounts.l1_sensitivity(Neighbours.ADD_REMOVE)
    flipped = from_rows([(1, 0.1), (1, 0.9)], CELLS)
    assert l1_distance(counts, flipped) == ScoreCounts.l1_sensitivity(Neighbours.REPLACE_ONE)


def test_cells_from_an_edge_up_are_the_rows_that_scikit_learn_counts_there():
    generator = np.random.default_rng(1)
    outcome = generator.integers(0, 2, 4000)
    # half of the scores lie exactly on an edge, where a comparison that is off by one shows
    score = np.where(generator.random(4000) < 0.5, generator.integers(0, 65, 4000) / 64, generator.random(4000))
    counts = ScoreCounts.from_arrays(outcome, score, cells=64)
    for edge in range(64):
        (_, false_positives), (_, true_positives) = confusion_matrix(outcome, score >= edge / 64, labels=[0, 1])
        assert counts.negatives[edge:].sum() == false_positives
        assert counts.positives[edge:].sum() == true_positives


@pytest.mark.parametrize(
    ("given_labels", "given_scores"),
    [
        (np.array([True, False, True]), np.array([0, 1, 7])),
        (np.array([1, 0, 1], dtype=np.uint8), np.array([-3, 1, 2**60])),
        (np.array([1, 0, 1], dtype=np.float32), np.array([0, 1, 2], dtype=np.float16)),
        ([1, False, np.True_, None, "1", pd.NA], [Decimal("-0.5"), 1, 10**400, 1, 1, 1]),
        ([Decimal(1), Fraction(0), 1.0, Decimal("sNaN")], [-(10**400), np.float64("inf"), Decimal("1e500"), 1]),
        (pd.array([1, 0, 1, None], dtype="Int64"), pd.array([0.0, 1.0, 1.5, 0.5], dtype="Float64")),
        (pd.Series([True, False, True]), pd.Series([0.0, 1.0, math.inf])),
        (np.ma.array([1, 0, 1, 1], mask=[0, 0, 0, 1]), np.ma.array([0.1, 0.9, 0.9, 0.1])),
        (np.ma.array([1, 0, 1, 1]), np.ma.array([0.1, 0.9, 0.9, 0.1], mask=[0, 0, 0, 1])),
        ([1, 0, 1, 1, 0j], [0.0, 1.0, 1.0, 0.1j, 0.1]),
        (np.array([1, 0, 1], dtype=np.longdouble), np.array([0, 1, "1e4000"], dtype=np.longdouble)),
    ],
)
def test_every_kind_of_array_is_read(given_labels, given_scores):
    if isinstance(given_labels, list) and 0j in given_labels:
        given_labels, given_scores = np.array(given_labels, dtype=object), np.array(given_scores, dtype=object)
    counts = ScoreCounts.from_arrays(given_labels, given_scores, cells=2)
    assert counts.positives.tolist() == [1, 1]
    assert counts.negatives.tolist() == [0, 1]


def test_one_class_alone_leaves_the_other_empty():
    counts = ScoreCounts.from_arrays([1, 1], [0.2, 0.2], cells=2)
    assert (counts.negatives.tolist(), counts.positives.tolist()) == ([0, 0], [2, 0])


def test_default_grid_is_the_refined_one():
    counts = ScoreCounts.from_arrays([0, 0, 1], [0.0, 0.5, 1.0])
    assert counts.cells == SCORE_CELLS == 76_290
    assert counts.negatives.nonzero()[0].tolist() == [0, 38_145]
    assert counts.positives.nonzero()[0].tolist() == [76_289]


@pytest.mark.parametrize("cells", [2, 4, 65536, 2**20, np.int32(16)])
def test_powers_of_two_are_accepted(cells):
    counts = ScoreCounts.from_arrays([0, 1], [0.0, 1.0], cells=cells)
    assert counts.cells == cells
    assert counts.negatives[0] == counts.positives[-1] == counts.total - 1 == 1


@pytest.mark.parametrize("cells", [0, 1, -2, 3, 1000, 2**21, True, 16.0, "16", None])
def test_other_cells_are_refused_in_one_line(cells):
    for build in (
        lambda: ScoreCounts.from_arrays([], [], cells=cells),
        lambda: ScoreCounts.from_keys([], [], cells=cells),
    ):
        with pytest.raises(InvalidRequest) as refused:
            build()
        assert str(refused.value).startswith("cells: got ") or cells is None
        assert "power of two from 2 to 1048576" in str(refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given_labels", "given_scores"),
    [
        ([0, 1], [0.5]),
        (["0", "1"], [0.5, 0.5]),
        ([0, 1], np.array(["a", "b"])),
        ([[0, 1]], [[0.5, 0.5]]),
        (0, 0.5),
        ([0], np.array(["2026-01-01"], dtype="datetime64[D]")),
        ([0], [1j]),
    ],
)
def test_arrays_that_are_no_two_columns_of_numbers_are_refused(given_labels, given_scores):
    with pytest.raises(InvalidRequest):
        ScoreCounts.from_arrays(given_labels, given_scores)


def test_from_keys_adds_up_a_key_that_comes_twice_and_keeps_large_counts_exact():
    counts = ScoreCounts.from_keys([3, 3, 0], [2**53, 1, 5], cells=2)
    assert counts.positives.tolist() == [0, 2**53 + 1]
    assert counts.negatives.tolist() == [5, 0]


@pytest.mark.parametrize("key", [-1, 4])
def test_keys_of_another_grid_are_an_error_that_does_not_quote_them(key):
    with pytest.raises(ValueError, match="^the keys belong to another grid$"):
        ScoreCounts.from_keys([key], [1], cells=2)


def test_counts_are_copies():
    mine = np.zeros(4, dtype=np.int64)
    counts = ScoreCounts(negatives=mine, positives=mine)
    mine[0] = 7
    assert counts.total == 0


@pytest.mark.parametrize(
    ("negatives", "positives"),
    [([1, 0], [1, 0, 0, 0]), ([0, -1], [0, 0]), ([0.0, 1.0], [0, 0]), ([[0, 0]], [0, 0]), ([0, 0, 0], [0, 0, 0])],
)
def test_fields_that_are_no_counts_are_refused(negatives, positives):
    with pytest.raises(InvalidRequest):
        ScoreCounts(negatives=np.array(negatives), positives=np.array(positives))


def test_counts_are_added_to_counts_alone():
    with pytest.raises(TypeError):
        ScoreCounts.from_arrays([], [], cells=4) + 1


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_random_rows_give_what_numpys_histogram_gives(seed):
    generator = np.random.default_rng(seed)
    outcome, score = generator.integers(0, 2, 500), generator.random(500)
    counts = ScoreCounts.from_arrays(outcome, score, cells=32)
    for label, ours in enumerate((counts.negatives, counts.positives)):
        np.testing.assert_array_equal(ours, np.histogram(score[outcome == label], bins=32, range=(0, 1))[0])
