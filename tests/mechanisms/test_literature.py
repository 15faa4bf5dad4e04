"""What published versions get wrong, beside what is shipped, where no other test shows both."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.tables import LinearModel
from spark_jobs.diagnostics import roc_curve
from spark_jobs.diagnostics._score_groups import binning
from spark_jobs.diagnostics.ecdf import private_bounds
from spark_jobs.mechanisms.group_sums import noisy_groups
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.quantiles import recursive_medians
from spark_jobs.mechanisms.smooth_sensitivity import (
    auc_fraction,
    average_precision_local,
    lower_median,
    pairwise_median_bound,
)
from spark_jobs.mechanisms.sparse_vector import first_crossing
from spark_jobs.statistics import ScoreCounts, ValueCounts
from tests.support.flawed.average_precision import with_harmonic_numbers, with_logarithms
from tests.support.flawed.blocks import blocks_in_parallel
from tests.support.flawed.doubling_search import doubled_until_it_holds_enough
from tests.support.flawed.fitted_model import fitted_scores, scores_of
from tests.support.flawed.four_sums import CHARGED, four_sums
from tests.support.noises import worst_loss
from tests.support.sparse_vector_loss import RecordingNoise, geometric_mass, tail

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
EPSILON = Fraction(1, 2)


def in_parallel(counts, noise):
    blocks_in_parallel(counts, epsilon="0.5", noise=noise)


def histogram_under(neighbours):
    def mechanism(counts, noise):
        release_histogram(counts, epsilon="0.5", neighbours=neighbours, method="geometric", noise=noise)

    return mechanism


def test_blocks_compose_in_parallel_where_a_row_is_added_and_not_where_it_is_replaced():
    table, added, replaced = np.array([3, 5, 0]), np.array([3, 5, 1]), np.array([2, 5, 1])
    assert worst_loss(in_parallel, table, added) == EPSILON
    assert worst_loss(in_parallel, table, replaced) == 2 * EPSILON
    assert worst_loss(histogram_under(REPLACED), table, replaced) == EPSILON


@pytest.mark.parametrize("moves", [1, 2, 7])
def test_being_in_another_block_is_two_steps_each_time(moves):
    # one person in block 1, or in block 2, at so many times: counts of each time are blocks of their own
    here, there = np.tile([1, 0], moves), np.tile([0, 1], moves)
    assert worst_loss(in_parallel, here, there) == 2 * moves * EPSILON
    assert worst_loss(histogram_under(ADDED), here, there) == 2 * moves * EPSILON
    assert worst_loss(histogram_under(REPLACED), here, there) == moves * EPSILON


def test_the_pair_of_counts_reaches_the_loss_of_two_steps():
    scales = RecordingNoise()
    blocks_in_parallel([1, 0], epsilon="0.5", noise=scales)
    support, mass = geometric_mass(scales.scales[0])
    ratios = np.log(mass[1:] / mass[:-1])
    far = support[1:] > 0
    assert ratios[~far] == pytest.approx(0.5, rel=1e-6)
    assert -ratios[far] == pytest.approx(0.5, rel=1e-6)  # so block 1 low and block 2 high: twice that


def test_a_model_of_the_same_rows_moves_every_score_and_a_public_one_moves_one():
    random = np.random.default_rng(5)
    features = np.append(random.uniform(0, 1, 200), 8.0)
    labels = np.append((features[:-1] > random.uniform(0, 1, 200)).astype(float), 0.0)

    def loss(scores_of_rows):
        tables = [
            ScoreCounts.from_arrays(labels[:rows], scores_of_rows(features[:rows], labels[:rows]), cells=64)
            for rows in (201, 200)
        ]
        counts = [np.concatenate([table.negatives, table.positives]) for table in tables]
        return worst_loss(histogram_under(ADDED), *counts)

    assert loss(fitted_scores) > 100 * EPSILON
    assert loss(lambda x, _: scores_of(x, np.array([0.1, 0.8]))) == EPSILON


@pytest.mark.parametrize("basis", [{}, {"basis": "fitted to these rows"}])
def test_a_request_must_say_that_its_model_is_public_or_private(basis):
    with pytest.raises(ValueError, match="basis"):
        LinearModel(kind="linear", coefficients={"x": 1.0}, **basis)
    assert LinearModel(kind="linear", coefficients={"x": 1.0}, basis="public").basis == "public"


def test_the_lower_median_of_pairwise_estimates_moves_no_further_than_its_bound():
    one, other = [35] * 4 + [100] * 2, [35] * 3 + [100] * 3
    bound = min(pairwise_median_bound(z, lower=0, upper=100, changes=1, smoothness=1.0) for z in (one, other))
    assert abs(np.median(one) - np.median(other)) == 32.5 > bound
    cells = [np.bincount(z, minlength=101) for z in (one, other)]
    assert abs(lower_median(cells[0]) - lower_median(cells[1])) <= bound


def stops(shortfall, threshold_scale, query_scale):
    """The chance that a noisy count reaches a noisy threshold ``shortfall`` above it."""
    support, mass = geometric_mass(threshold_scale)
    return float((mass * tail(query_scale, support + shortfall)).sum())


def test_a_published_bound_is_missed_half_the_time_and_ours_is_not(monkeypatch):
    # all rows that are asked for lie within the mark
    scales = RecordingNoise()
    doubled_until_it_holds_enough(np.zeros(1000), threshold=0, epsilon="0.1", noise=scales)
    assert 0.5 < stops(0, *scales.scales[:2]) < 0.53

    asked = []

    def watched(parts, **options):
        asked.append((int(parts.sum()) - options["threshold"], float(options["epsilon"])))
        return first_crossing(parts, **options)

    monkeypatch.setattr(private_bounds, "first_crossing", watched)
    statistic = ValueCounts.from_arrays(np.full(1000, 3.0), lower=-1e6, upper=1e6, cells=2**12, scale="log", unit=1e-3)
    meter = BudgetMeter("1e6")  # so that the noisy number of rows is the number
    private_bounds.between_bounds(statistic, "log", meter=meter, neighbours=ADDED, noise=SeededNoise(1))
    assert len(asked) == 2
    for spare, epsilon in asked:
        assert spare == pytest.approx(1000 * private_bounds.LEFT_OUT + 2 * private_bounds.MARGIN / epsilon)
    # at epsilon 1 for a search, over the noise of the number of rows, which has the same scale
    support, mass = geometric_mass(1.0, 40)
    spares = 2 * round(private_bounds.MARGIN) - support
    assert sum(chance * stops(-spare, 1.0, 1.0) for chance, spare in zip(mass, spares, strict=True)) > 0.97


def doublings_expected(reach, threshold_scale, query_scale):
    """How often an interval that holds all it can is doubled, on average, for threshold noise up to ``reach``."""
    support, mass = geometric_mass(threshold_scale, reach)
    return float((mass / tail(query_scale, support)).sum())


def test_a_search_without_a_bound_takes_forever_on_average_and_ours_ends():
    # equal noise on threshold and counts: the mean grows with the largest noise that is looked at
    means = [doublings_expected(reach, 2.0, 2.0) for reach in (100, 200, 400)]
    assert means[2] - means[1] == pytest.approx(2 * (means[1] - means[0]), rel=0.01)
    assert means[2] > 150
    with pytest.raises(OverflowError):
        doubled_until_it_holds_enough(np.zeros(0), threshold=10**6, epsilon=1, noise=SeededNoise(1))
    found = first_crossing([0] * 60, threshold=10**6, epsilon=1, neighbours=ADDED, noise=SeededNoise(1))
    assert found is None


def test_merged_bins_are_large_enough_in_nine_cases_of_ten(monkeypatch):
    asked = []

    def watched(cells, **options):
        asked.append((options["threshold"], float(options["epsilon"])))
        return (len(cells),)

    monkeypatch.setattr(binning, "merge_cells", watched)
    counts = np.full(64, 100)
    binning.bins_by_medians(counts, 8, meter=BudgetMeter("1e6"), neighbours=ADDED, noise=SeededNoise(1))
    threshold, epsilon = asked[0]
    in_scales = (threshold - counts.sum() / 16) * epsilon
    assert in_scales == pytest.approx(2 * np.log(2 / 0.1))
    scale = 20.0  # fine steps
    small = [stops(round(margin * scale), scale, scale) for margin in (in_scales, 2 * np.log(2 / 0.9))]
    assert small[0] < 0.1 < small[1]  # 0.9 as printed for the chance of a small bin


def test_scores_of_zero_are_above_the_last_threshold():
    labels, scores = np.array([1, 1, 0, 0]), np.array([0.0, 0.7, 0.0, 0.2])
    assert np.count_nonzero((scores > 0) & (labels == 1)) == 1  # of two
    curve = roc_curve.release(ScoreCounts.from_arrays(labels, scores, cells=16), epsilon=1e9, noise=SeededNoise(1))
    assert (curve.thresholds[-1], curve.tpr.value[-1], curve.fpr[-1]) == (0, 1, 1)


def test_ties_counted_against_the_model_bias_the_area_on_a_coarse_grid_and_halves_do_not():
    random = np.random.default_rng(2)
    fine = [random.binomial(1023, share, 4000) for share in (0.497, 0.503)]
    areas, pessimistic = [], []
    for cells in (1024, 32):
        negative, positive = (np.bincount(scores * cells // 1024, minlength=cells) for scores in fine)
        areas.append(float(auc_fraction(negative, positive)))
        pessimistic.append(float(np.cumsum(negative)[:-1] @ positive[1:]) / 4000**2)
    assert pessimistic[1] < areas[0] - 0.15
    assert abs(areas[1] - areas[0]) < (areas[0] - pessimistic[1]) / 5


def test_recursive_medians_yield_their_number_of_thresholds_and_drop_no_ties():
    cells = np.zeros(64, int)
    cells[[20, 21]] = 5000, 1
    for levels in (1, 2, 4):
        found = recursive_medians(cells, levels=levels, epsilon=4, neighbours=ADDED, noise=SeededNoise(1))
        assert found.thresholds.size == 2**levels - 1
        edges = np.concatenate([[0], found.thresholds, [cells.size]])
        assert sum(int(cells[start:end].sum()) for start, end in pairwise(edges)) == 5001
    with pytest.raises(ValueError, match="levels"):
        recursive_medians(cells, levels=0, epsilon=1, neighbours=ADDED, noise=SeededNoise(1))


def test_published_bounds_of_average_precision_are_two_to_six_times_the_exact_one():
    sizes = [2, 3, 4, 5, 10, 100]
    exact = average_precision_local(sizes, neighbours=REPLACED)
    published = np.array([with_logarithms(n) for n in sizes])
    assert published[:5] == pytest.approx([3.46, 2.05, 1.49, 1.18, 0.594], abs=5e-3)
    assert with_harmonic_numbers(10) == pytest.approx(0.574, abs=5e-4)
    assert (published[:4] > 1).all()  # more than any average precision can move
    assert (exact <= 0.6).all()
    assert (published / exact > 2).all()
    assert (published / exact < 6).all()


def test_four_sums_of_a_group_move_by_half_of_what_is_charged():
    rows = list(product((0, 1), (0.0, 0.25, 0.5, 1.0)))
    nothing = np.zeros(4)
    moves = [np.abs(four_sums([label], [score]) - nothing).sum() for label, score in rows]
    assert moves == pytest.approx([2] * len(rows))
    replaced = [
        np.abs(four_sums(*zip(one, strict=True)) - four_sums(*zip(other, strict=True))).sum()
        for one, other in product(rows, rows)
    ]
    assert max(replaced) == pytest.approx(4)
    assert max(replaced) == CHARGED / 2


def test_the_expected_rows_of_both_classes_are_all_rows_and_not_as_printed():
    labels, scores = [1, 0, 0], [0.9, 0.2, 0.1]
    sums = four_sums(labels, scores)
    assert sums[1] + sums[3] == pytest.approx(sums[0] + sums[2])
    printed = four_sums(labels, scores, as_printed=True)
    assert printed[1] + printed[3] == pytest.approx(2.4)  # of three
    counts = ScoreCounts.from_arrays(labels, scores, cells=1024)
    table = np.array([counts.negatives, counts.positives])
    groups = noisy_groups(table, np.array([0, 1024]), epsilon="1e9", neighbours=ADDED, noise=SeededNoise(1))
    positives, negatives, expected = groups.values()[:, 0]
    assert [positives, expected, negatives, positives + negatives - expected] == pytest.approx(sums, abs=3 / 2048)


def test_negative_counts_set_to_zero_add_rows_and_a_public_total_is_kept():
    cells = np.zeros(4096, int)
    cells[7] = 500
    noise = SeededNoise(4)
    clipped = np.maximum(noise.laplace(cells, epsilon=1, l1_sensitivity=1), 0)
    ratio = np.exp(-1.0)
    assert clipped.sum() - 500 == pytest.approx(4096 * ratio / (1 - ratio**2), rel=0.1)
    made = release_histogram(cells, epsilon=1, neighbours=REPLACED, method="hb", public_total=True, noise=noise)
    assert made.cells.sum() == pytest.approx(500)
