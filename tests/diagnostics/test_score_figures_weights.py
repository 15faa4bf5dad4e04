"""What weights are made of: expected rows, cells that are narrow at the top, changes by one row, copies of counts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, ndtr
from sklearn.metrics import average_precision_score

from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import average_precision
from spark_jobs.diagnostics._score_figures.densities import cell_of, expected_rows, fine_cuts, narrow_at_top, sums
from spark_jobs.diagnostics._score_figures.precision import average_precision_of
from spark_jobs.diagnostics._score_figures.smoothing_prior import (
    CENTRE,
    FAR,
    SPREAD,
    Observation,
    centre_of_prior,
    posterior_of_draw,
)
from spark_jobs.diagnostics._score_figures.ties import different_scores
from spark_jobs.diagnostics._score_figures.weights import choose_weights, draw_copies, influence, precision_given
from spark_jobs.mechanisms.cells import log_odds
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.weighted_sums import LARGEST
from spark_jobs.statistics import ScoreCounts
from tests.support.scored_rows import binormal

GRID = 4096
RANDOM = np.random.default_rng(8)


def figure(rows, cuts):
    above = np.concatenate([np.zeros((2, 1)), np.cumsum(rows[:, ::-1], axis=-1)], axis=-1)
    return float(average_precision_of(above[0], above[1], np.diff(cuts)[::-1] == 1))


@pytest.mark.parametrize("widths", [1, 40], ids=["tied", "wide"])
def test_influence_is_what_a_row_changes(widths):
    cuts = np.arange(61) * widths
    rows = np.stack([200 * np.exp(-(((np.arange(60) - at) / 12.0) ** 2)) for at in (20, 34)]) + 0.5
    changes, exact = influence(rows, cuts), figure(rows, cuts)
    for label in (0, 1):
        for cell in (3, 20, 35, 50, 57):
            more = rows.copy()
            more[label, cell] += 0.01
            seen = (figure(more, cuts) - exact) / 0.01
            assert changes[label, cell] == pytest.approx(seen, rel=0.03, abs=2e-6)


def test_a_look_is_believed_as_far_as_its_noise_does_not_explain_it():
    cuts, look_cuts = np.arange(13), np.array([0, 4, 8, 12])
    start = np.ones((2, 12))
    seen = Observation(cuts=look_cuts, counts=np.array([[4.0, 104.0, -100.0], [5.0, 4.0, 4.0]]), variance=25.0)
    rows = expected_rows(start, cuts, [seen])
    assert sums(rows, cell_of(cuts, look_cuts)) == pytest.approx(np.array([[4, 94, 1], [4, 4, 4]]))
    both = expected_rows(start, cuts, [Observation(cuts=look_cuts, counts=np.array([8.0, 108.0, 8.0]), variance=25.0)])
    assert sums(both, cell_of(cuts, look_cuts)) == pytest.approx(np.array([[4, 49, 4], [4, 49, 4]]))


def test_cells_are_narrow_at_the_top():
    cuts = fine_cuts(GRID)
    middle = (cuts[:-1] + cuts[1:]) / 2 / GRID
    rows = np.stack([1e4 * np.exp(-(((middle - at) / 0.2) ** 2)) * np.diff(cuts) for at in (0.4, 0.5)])
    found = narrow_at_top(rows, cuts, grid=GRID, cells=24, nearest=20.0, part=0.5)
    held = np.add.reduceat(rows.sum(axis=0), np.searchsorted(cuts, found[:-1].clip(0, GRID - 1)))
    assert [found[0], found[-1]] == [0, GRID]
    assert (np.diff(found) > 0).all()
    assert held[-2] < 0.02 * held[:6].mean()
    evenly = narrow_at_top(rows, cuts, grid=GRID, cells=24, nearest=20.0, part=0.0)
    assert found[-2] > evenly[-2]


@pytest.fixture(scope="module")
def drawn():
    labels, scores = binormal(0.8, 9000, np.random.default_rng(2))
    statistic = ScoreCounts.from_arrays(labels, scores)
    return statistic, average_precision.measure(statistic, epsilon=1, method="weighted_counts", noise=SeededNoise(4))


def test_copies_lie_about_the_counts_as_the_posterior_has_them(drawn):
    counts = drawn[1].counts
    copies = draw_copies(counts, seed=3)
    held = sums(copies.drawn, cell_of(copies.cuts, counts.cuts))
    expected = posterior_of_draw(counts).expected()
    noise = np.sqrt(counts.negatives.range_variance(0, 1))
    assert np.abs(held.mean(axis=0).sum(axis=-1) - expected.sum(axis=-1)).max() < 3 * noise
    assert np.abs(np.cumsum(held.mean(axis=0) - expected, axis=-1)).max() < 6 * noise
    assert (copies.drawn >= 0).all()
    assert copies.figures.std() > 0
    again = draw_copies(counts, seed=3)
    np.testing.assert_array_equal(copies.drawn, again.drawn)


def test_a_sum_takes_away_most_of_what_counts_leave_unknown(drawn):
    _, made = drawn
    copies = draw_copies(made.counts, seed=5)
    totals = np.einsum("jck,ck->j", copies.drawn, made.weighted.weights.weights)
    slope = np.polyfit(totals, copies.figures, 1)[0]
    assert (copies.figures - slope * totals).std() < 0.35 * copies.figures.std()


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_weights_are_cut_off_lower_the_more_noise_their_sum_has(drawn, neighbours):
    units = [choose_weights(drawn[1].counts, epsilon=epsilon, seed=1).resolution for epsilon in (0.05, 0.5, 50.0)]
    assert units[0] < units[1] < units[2]
    chosen = choose_weights(drawn[1].counts, epsilon=0.5, seed=1)
    assert np.abs(chosen.weights).max() == LARGEST


def test_a_sum_without_noise_is_believed_and_one_of_noise_alone_is_not(drawn):
    _, made = drawn
    copies, weights = draw_copies(made.counts, seed=6), made.weighted.weights
    totals = np.einsum("jck,ck->j", copies.drawn, weights.weights)
    off = int(totals.mean() + 1.5 * totals.std())
    narrow = precision_given(copies, weights, off, scale=1e-6 * totals.std(), confidence=0.9, effect=1.0)
    wide = precision_given(copies, weights, off, scale=1e3 * totals.std(), confidence=0.9, effect=1.0)
    assert abs(wide.value - copies.figures.mean()) < 0.02 * copies.figures.std()
    assert abs(narrow.value - copies.figures.mean()) > copies.figures.std()
    assert np.diff(wide.interval) > 3 * np.diff(narrow.interval)
    assert narrow.interval[0] <= narrow.value <= narrow.interval[1]


@pytest.mark.parametrize("method", ["auto", "weighted_counts"])
def test_a_table_without_rows_is_released_where_there_is_hardly_any_noise(method):
    nothing = ScoreCounts(negatives=np.zeros(256, dtype=np.int64), positives=np.zeros(256, dtype=np.int64))
    made = average_precision.measure(nothing, epsilon=50_000, method=method, noise=SeededNoise(1))
    assert (made.weighted is None) == (method == "auto")
    found = average_precision.summarise(made, seed=1)
    assert (found.status, found.interval) == ("undefined", None)


def test_counts_that_cannot_tell_a_class_from_noise_are_followed_by_counts_that_can():
    rows = np.full(4096, 5)
    few = ScoreCounts(negatives=rows, positives=np.eye(1, 4096, 4000, dtype=np.int64)[0] * 100)
    drawn = [average_precision.measure(few, epsilon=0.5, noise=SeededNoise(seed)) for seed in range(20)]
    again = [one for one in drawn if sum("counts of both" in spent.label for spent in one.spendings) == 2]
    assert len(again) >= 5
    assert all(one.method == "counts" and sum(spent.epsilon for spent in one.spendings) == one.epsilon for one in again)
    assert all(average_precision.summarise(one, seed=1).status == "ok" for one in again)


def test_a_sum_is_read_by_its_own_partition_whatever_another_machine_would_choose(drawn):
    counts, weights = drawn[1].counts, drawn[1].weighted.weights
    np.testing.assert_array_equal(draw_copies(counts, seed=3).cuts, weights.cuts)
    needed = np.concatenate([counts.cuts, *(look.cuts for look in counts.located)])
    other = np.delete(weights.cuts, np.flatnonzero(~np.isin(weights.cuts, needed))[:1])
    moved = replace(weights, cuts=other, weights=np.delete(weights.weights, 0, axis=1))
    made = replace(drawn[1], weighted=replace(drawn[1].weighted, weights=moved))
    assert draw_copies(counts, seed=3, cuts=other).drawn.shape[-1] == other.size - 1
    assert 0 < average_precision.summarise(made, seed=1).value < 1


@pytest.mark.parametrize(("middle", "moves"), [(-12.0, True), (12.0, True), (-5.0, False), (3.0, False)])
def test_the_prior_goes_to_scores_that_lie_far_from_it_if_they_are_known(middle, moves):
    cuts = fine_cuts(SCORE_CELLS)
    rows = 3_000 * np.diff(ndtr(log_odds(cuts, SCORE_CELLS) - middle))
    counts = np.stack([rows, 0.1 * rows])
    known = Observation(cuts=cuts, counts=counts, variance=1.0)
    centre = centre_of_prior(known, SCORE_CELLS)
    assert centre[0] == pytest.approx(middle if moves else CENTRE[0], abs=0.1)
    assert (centre[1:] == CENTRE[1:]).all()
    assert moves == (abs(middle - CENTRE[0]) > FAR * SPREAD[0])
    of_noise = replace(known, variance=1e6)
    assert (centre_of_prior(of_noise, SCORE_CELLS) == CENTRE).all()
    both = replace(known, counts=known.counts.sum(axis=0))
    assert centre_of_prior(both, SCORE_CELLS) == pytest.approx(centre)


def test_noise_above_tiny_scores_does_not_count_as_rows():
    errors = []
    for seed in range(12):
        labels, tiny = binormal(0.85, 3_000, np.random.default_rng(seed), positive=0.1, shift=-15)
        statistic = ScoreCounts.from_arrays(labels, tiny)
        made = average_precision.release(statistic, epsilon=0.5, method="weighted_counts", noise=SeededNoise(seed))
        assert made.figure.upper > made.figure.lower
        errors.append(abs(made.value - average_precision_score(labels, tiny)))
    # 0.19 under the prior of usual scores, and intervals of width 0
    assert np.mean(errors) < 0.04


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize(("decimals", "positives"), [(0, 100), (2, 3000), (3, 3000)])
def test_average_precision_holds_where_scores_are_rounded(decimals: int, positives: int) -> None:
    """Ties lower scikit-learn's figure; without their number, 0.52 of two decimals and 0.69 of yes and no held."""
    holds, tables = 0, 40
    for seed in range(tables):
        random = np.random.default_rng([11, decimals, seed])
        rows = positives * int(random.integers(3, 12))
        labels = (np.arange(rows) < positives).astype(float)
        scores = np.round(expit(random.normal(-1.0, 1.0, rows) + 1.5 * labels), decimals)
        counts = ScoreCounts.from_arrays(labels, scores)
        result = average_precision.release(counts, epsilon=float(random.choice([1, 2, 4])), noise=SeededNoise(seed))
        low, high = result.interval
        holds += low - 1e-6 <= average_precision_score(labels, scores) <= high + 1e-6
    assert holds >= 31  # of 40 at 0.9, fewer in 1% of runs


def test_neither_the_order_nor_the_class_of_scores_changes_how_many_there_are() -> None:
    counts = np.array([[3, 0, 0, 1], [2, 0, 5, 0]])
    assert different_scores(counts) == different_scores(counts[::-1]) == different_scores(counts[:, ::-1]) == 3


def test_a_figure_that_ties_lower_is_known_less_and_owes_more_of_that_to_privacy() -> None:
    random = np.random.default_rng(9)
    labels = (np.arange(12_000) < 3000).astype(float)
    scores = np.round(expit(random.normal(-1.0, 1.0, labels.size) + 1.5 * labels), 2)
    draw = average_precision.measure(ScoreCounts.from_arrays(labels, scores), epsilon=2, noise=SeededNoise(4))
    with_ties, without = (average_precision.summarise(one, seed=1).figure for one in (draw, replace(draw, values=None)))
    assert with_ties.value < without.value
    assert with_ties.interval[1] - with_ties.interval[0] > without.interval[1] - without.interval[0]
    assert without.privacy_share < with_ties.privacy_share < 1
