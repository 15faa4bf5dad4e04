from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import roc_curve as roc
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.suites.diagnostic import DiagnosticSuite
from tests.support.curve_forms import check_form
from tests.support.noises import worst_loss
from tests.support.score_rows import NASTY_ROWS, column
from tests.support.scored_rows import GRID, exact_curve, ten_data_sets

DATA_SETS = ten_data_sets()
METHODS = ["auto", "tree", "equi_depth", "fixed_cells"]
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
EVERY_DATA_SET = pytest.mark.parametrize("name", DATA_SETS)


def counts_of(name, cells=GRID):
    labels, scores = DATA_SETS[name]
    return ScoreCounts.from_arrays(labels, scores, cells=cells)


def nothing(cells=GRID):
    return ScoreCounts.from_arrays([], [], cells=cells)


class TestForm(DiagnosticSuite):
    package = roc
    tables = {name: partial(counts_of, name) for name in DATA_SETS}
    empty = staticmethod(nothing)
    nasty = staticmethod(lambda: ScoreCounts.from_arrays(column(NASTY_ROWS, 0), column(NASTY_ROWS, 1)))
    settings = [
        {"epsilon": epsilon, "method": method}
        for method, epsilon in (
            ("auto", "0.05"),
            ("auto", "1"),
            ("tree", "0.2"),
            ("equi_depth", "1"),
            ("fixed_cells", "1"),
        )
    ]

    def check_form(self, result, options):
        check_form(result)


@pytest.mark.slow
@given(
    cells=st.integers(1, 8).map(lambda power: 2**power),
    rows=st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), max_size=40),
    epsilon=st.sampled_from(["0.001", "0.5", "7", "1000000"]),
    method=st.sampled_from(METHODS),
    neighbours=st.sampled_from(list(Neighbours)),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
@settings(deadline=None, max_examples=60)
@pytest.mark.verify
def test_no_small_table_breaks_a_release(cells, rows, epsilon, method, neighbours, seed, data):
    thresholds = data.draw(st.none() | st.integers(2, cells))
    statistic = ScoreCounts.from_arrays([row[0] for row in rows], [row[1] for row in rows], cells=cells)
    options = {"epsilon": epsilon, "method": method, "neighbours": neighbours, "thresholds": thresholds}
    measurement = roc.measure(statistic, noise=SeededNoise(seed), **options)
    assert measurement.epsilon == Decimal(epsilon)
    curve = roc.summarise(measurement, seed=seed)
    check_form(curve)
    if thresholds is not None:
        assert curve.fpr.size == thresholds + 1


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.halved
@EVERY_DATA_SET
@pytest.mark.parametrize("method", ["auto", "tree"])
def test_without_noise_the_curve_is_that_of_scikit_learn(name, method):
    labels, scores = DATA_SETS[name]
    curve = roc.release(counts_of(name), epsilon=1e9, method=method, noise=SeededNoise(1))
    check_form(curve)
    assert curve.fpr.size == GRID + 1
    if np.unique(labels).size < 2:
        assert curve.status == "undefined"
        assert (curve.auc.value, curve.auc.interval) == (None, None)
        return
    fpr, tpr = exact_curve(labels, scores)
    np.testing.assert_allclose(curve.fpr, fpr, atol=1e-6)
    np.testing.assert_allclose(curve.tpr.value, tpr, atol=1e-6)
    snapped = np.minimum(np.floor(scores * GRID), GRID - 1) / GRID
    assert curve.auc.value == pytest.approx(roc_auc_score(labels, snapped), abs=1e-6)
    their_fpr, their_tpr, their_thresholds = roc_curve(labels, snapped, drop_intermediate=False)
    at = np.concatenate([[0], GRID - np.round(their_thresholds[1:] * GRID).astype(int)])
    np.testing.assert_allclose(curve.fpr[at], their_fpr, atol=1e-6)
    np.testing.assert_allclose(curve.tpr.value[at], their_tpr, atol=1e-6)
    # on a vertical stretch the band holds every value that the curve takes at that rate
    steep = np.concatenate([[True], np.diff(fpr) == 0]) | np.concatenate([np.diff(fpr) == 0, [True]])
    np.testing.assert_allclose(curve.tpr.lower[~steep], tpr[~steep], atol=1e-6)
    np.testing.assert_allclose(curve.tpr.upper[~steep], tpr[~steep], atol=1e-6)
    assert curve.auc.interval == pytest.approx((curve.auc.value, curve.auc.value), abs=1e-6)


@pytest.mark.parametrize("method", ["equi_depth", "fixed_cells"])
def test_without_noise_few_cells_lie_on_the_curve_of_scikit_learn(method):
    labels, scores = DATA_SETS["ordinary"]
    curve = roc.release(counts_of("ordinary"), epsilon=1e9, method=method, thresholds=20, noise=SeededNoise(1))
    fpr, tpr = exact_curve(labels, scores)
    at = np.concatenate([[0], GRID - np.round(curve.thresholds[1:] * GRID).astype(int)])
    np.testing.assert_allclose(curve.fpr, fpr[at], atol=1e-6)
    np.testing.assert_allclose(curve.tpr.value, tpr[at], atol=1e-6)


def test_secure_noise_too_is_exact_at_a_huge_epsilon():
    labels, scores = DATA_SETS["many ties"]
    curve = roc.release(ScoreCounts.from_arrays(labels, scores, cells=256), epsilon=1e9)
    assert curve.guarantee == "differentially private"
    assert curve.auc.value == pytest.approx(roc_auc_score(labels, np.minimum(np.floor(scores * 256), 255)), abs=1e-6)


def one_row(label, cell, cells):
    rows = np.zeros((2, cells), dtype=np.int64)
    rows[label, cell] = 1
    return rows


def neighbours_of(table, relation):
    """Every table that differs from ``table`` (counts of two labels) by one row of the relation."""
    cells = table.shape[1]
    rows = [one_row(label, cell, cells) for label in (0, 1) for cell in range(cells)]
    if relation is Neighbours.ADD_REMOVE:
        return [table + row for row in rows]
    present = [row for row in rows if (table - row >= 0).all()]
    return [table - old + new for old in present for new in rows]


def measured_with(options):
    def mechanism(table, noise):
        roc.measure(ScoreCounts(negatives=table[0], positives=table[1]), noise=noise, **options)

    return mechanism


@pytest.mark.slow
@EVERY_METHOD
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("epsilon", ["1", "30"])
def test_brute_force_finds_no_loss_above_epsilon(method, relation, epsilon):
    table = np.array([[5, 0, 9, 1, 0, 0, 40, 2], [0, 3, 0, 300, 1, 0, 2, 8]])
    mechanism = measured_with({"epsilon": epsilon, "neighbours": relation, "method": method, "thresholds": 6})
    losses = [worst_loss(mechanism, table, other) for other in neighbours_of(table, relation)]
    assert max(losses) <= Fraction(epsilon)
    assert max(losses) >= Fraction(epsilon) * Fraction(99, 100)  # what is paid for is used


@given(
    rows=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 255), st.integers(1, 400)), max_size=12),
    change=st.tuples(st.integers(0, 1), st.integers(0, 255)),
    relation=st.sampled_from(list(Neighbours)),
    method=st.sampled_from(METHODS),
    epsilon=st.sampled_from(["0.1", "1", "25", "5000"]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=80)
def test_no_table_and_no_path_of_answers_costs_more_than_epsilon(rows, change, relation, method, epsilon, seed):
    table = np.zeros((2, 256), dtype=np.int64)
    for label, cell, count in rows:
        table[label, cell] += count
    other = table + one_row(*change, 256)
    if relation is Neighbours.REPLACE_ONE:
        table = table + one_row(1 - change[0], 255 - change[1], 256)
    mechanism = measured_with({"epsilon": epsilon, "neighbours": relation, "method": method})
    for first, second in ((table, other), (other, table)):
        assert worst_loss(mechanism, first, second, source=SeededNoise(seed)) <= Fraction(epsilon)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"method": "magic"}, "method"),
        ({"thresholds": 1}, "thresholds"),
        ({"thresholds": 65}, "thresholds"),
        ({"thresholds": 1.5}, "thresholds"),
        ({"confidence": 1.0}, "confidence"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"delta": -1}, "delta"),
    ],
)
def test_what_cannot_be_served_is_refused_before_any_noise(options, field):
    with pytest.raises(InvalidRequest, match=field):
        roc.release(nothing(64), **{"epsilon": 1, "noise": SeededNoise(1), **options})


def test_the_number_of_points_grows_with_epsilon_and_with_nothing_else():
    def points(epsilon, statistic):
        return roc.measure(statistic, epsilon=epsilon, noise=SeededNoise(1)).thresholds

    assert points("0.01", nothing()) == points(1, counts_of("ordinary")) == 256
    assert points(10, nothing()) == points(10, counts_of("rare positives")) == 4096
    assert points(1e9, nothing()) == GRID


def test_a_smaller_epsilon_makes_a_wider_band():
    widths = []
    for epsilon in ("0.1", "1", "10"):
        curve = roc.release(counts_of("ordinary"), epsilon=epsilon, noise=SeededNoise(8))
        widths.append(curve.auc.interval[1] - curve.auc.interval[0])
    assert widths[0] > 2 * widths[1] > 4 * widths[2] > 0


def test_the_rarer_class_decides_how_many_cells_there_are_where_noise_is_small():
    random, cells = np.random.default_rng(6), {}
    for positives in (1_000, 20_000, 100_000):
        labels = np.arange(200_000) < positives
        statistic = ScoreCounts.from_arrays(labels, random.beta(2 + labels, 3), cells=GRID)
        curves = [roc.release(statistic, epsilon=4, thresholds=20, noise=SeededNoise(seed)) for seed in range(2)]
        assert all(curve.fpr.size == 21 for curve in curves)  # points are the request's, cells are not
        cells[positives] = roc.measure(statistic, epsilon=4, noise=SeededNoise(1)).cuts.size - 1
    assert 60 < cells[1_000] < cells[20_000] < cells[100_000] == GRID


def test_where_the_first_histogram_shows_few_rows_a_second_one_costs_more():
    random, first = np.random.default_rng(7), {}
    for rows in (300, 20_000):
        labels = np.arange(rows) % 3 == 0
        draw = roc.measure(ScoreCounts.from_arrays(labels, random.beta(2 + labels, 3)), epsilon=1, noise=SeededNoise(1))
        all_rows = [one for one in draw.located if one.counts.ndim == 1]
        labels_of_looks = ("where the scores lie", "where the scores lie, once more")
        looks = [spending for spending in draw.spendings if spending.label in labels_of_looks]
        assert [one.scale for one in all_rows] == pytest.approx([float(1 / look.epsilon) for look in looks])
        first[rows] = [float(look.epsilon) for look in looks]
    assert first == {300: [0.03, 0.15], 20_000: [0.03]}


def test_few_cells_are_nearer_than_the_whole_grid_for_a_rare_class_of_a_large_table():
    random, labels = np.random.default_rng(8), np.arange(70_000) < 3_000
    statistic = ScoreCounts.from_arrays(labels, random.beta(2 + labels, 3))
    exact_fpr, exact_tpr = (
        np.append(0, np.cumsum(rows[::-1])) / rows.sum() for rows in (statistic.negatives, statistic.positives)
    )

    def off(method, seed):
        curve = trace(roc.measure(statistic, epsilon=4, method=method, noise=SeededNoise(seed)))
        return np.abs(np.interp(curve.fpr, exact_fpr, exact_tpr) - curve.tpr).mean()

    errors = {method: np.mean([off(method, seed) for seed in range(8)]) for method in ("auto", "tree")}
    assert errors["auto"] < 0.7 * errors["tree"]


def test_unresolved_scores_are_owned_up_to():
    # 60 rows on one score cannot be told from 60 rows near it: the interval must say so
    curve = roc.release(
        ScoreCounts.from_arrays([0, 1] * 30, [0.3] * 60), epsilon=1, noise=SeededNoise(12), thresholds=4
    )
    assert curve.auc.interval[1] - curve.auc.interval[0] > 0.3
