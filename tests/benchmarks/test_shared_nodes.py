import math

import numpy as np
import pytest

from benchmarks.competitors.shared_nodes import levels_over, shared_node_prefixes, shared_node_weight
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance
from tests.support.flawed.ecdf import ecdf_between_its_extremes, point_by_point
from tests.support.noises import Recording
from tests.support.shared_nodes import (
    differences,
    least_weight,
    least_whole_weight,
    log_probability,
    node_matrix,
)

BOTH = pytest.mark.parametrize("neighbours", list(Neighbours))
ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


@pytest.mark.sampled("levels")
@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("levels", range(8))
def test_whole_nodes_of_the_claimed_weight_cover_every_difference_and_no_fewer(levels, neighbours):
    points = 1 << levels
    worst = max((least_whole_weight(levels, *each) for each in differences(points, neighbours)), default=1)
    assert worst == shared_node_weight(points, neighbours=neighbours)


@BOTH
@pytest.mark.parametrize("points", [2, 3, 4, 5, 8, 11, 16])
def test_linear_programming_finds_no_lighter_cover_of_full_trees(points, neighbours):
    covers = []
    for first, end in differences(points, neighbours):
        index = np.arange(points)
        covers.append(least_weight(((first <= index) & (index < end)).astype(float)))
    claimed = shared_node_weight(points, neighbours=neighbours)
    assert max(covers) <= claimed + 1e-9
    if points == 1 << levels_over(points):
        assert max(covers) == pytest.approx(claimed)


def test_a_replaced_row_of_two_labels_is_covered():
    for levels in range(7):
        points = 1 << levels
        claimed = shared_node_weight(points, neighbours=REPLACED, labels=2)
        suffixes = [least_whole_weight(levels, *each) for each in differences(points, ADDED)]
        intervals = [least_whole_weight(levels, *each) for each in differences(points, REPLACED)]
        assert max(2 * max(suffixes), *intervals, 0) == claimed
        # half of epsilon for each label, as the paper has it, would be this much:
        assert claimed <= 2 * (levels + 1)


def test_the_weights_are_those_of_the_paper_corrected():
    grow = [shared_node_weight(1 << levels, neighbours=REPLACED) for levels in range(9)]
    assert grow == [1, 1, 2, 3, 4, 5, 6, 7, 8]  # theorem 1 has one more
    grow = [shared_node_weight(1 << levels, neighbours=ADDED) for levels in range(9)]
    assert grow == [1, 1, 2, 2, 3, 3, 4, 4, 5]


@pytest.mark.parametrize("points", [1, 2, 3, 7, 8, 12])
@pytest.mark.parametrize(("neighbours", "labels"), [(ADDED, 1), (REPLACED, 1), (REPLACED, 2)])
def test_noise_is_that_of_the_nodes_over_each_point(points, neighbours, labels):
    noise, counts = Recording(), np.arange(points) + 3
    public = neighbours is Neighbours.REPLACE_ONE and labels == 1
    asked = {"epsilon": "0.5", "neighbours": neighbours, "labels": labels, "public_total": public}
    made = shared_node_prefixes(counts, noise=noise, **asked)
    asked = noise.asked[0]
    assert (len(noise.asked), asked.l1_sensitivity) == (
        1,
        shared_node_weight(points, neighbours=neighbours, labels=labels),
    )
    expected = np.cumsum(counts) + node_matrix(points) @ noise.given[0]
    if labels == 1 and neighbours is REPLACED:
        assert made.total == counts.sum()
        expected[-1] = made.total
    np.testing.assert_array_equal(made.prefix_counts, expected)


def test_a_row_replaced_by_one_that_is_not_counted_shows_in_no_exact_total():
    asked = {"epsilon": 1, "noise": SeededNoise(2)}
    made = shared_node_prefixes(np.ones(4, dtype=np.int64), neighbours=REPLACED, **asked)
    assert made.total is None
    assert made.variances()[-1] > 0
    with pytest.raises(ValueError, match="public_total"):
        shared_node_prefixes(np.ones(4, dtype=np.int64), neighbours=ADDED, public_total=True, **asked)


@BOTH
def test_estimates_are_unbiased_with_the_stated_variances(neighbours):
    counts, copies, noise = np.arange(11), 4000, SeededNoise(3)
    asked = {"epsilon": 1, "neighbours": neighbours, "public_total": neighbours is Neighbours.REPLACE_ONE}
    made = [shared_node_prefixes(counts, noise=noise, **asked) for _ in range(copies)]
    errors = np.stack([each.prefix_counts for each in made]) - np.cumsum(counts)
    variances = made[0].variances()
    assert (np.abs(errors.mean(axis=0)) <= 6 * np.sqrt(variances / copies)).all()
    measured = variances > 0
    assert (np.abs((errors**2).mean(axis=0)[measured] / variances[measured] - 1) < 6 * math.sqrt(5 / copies)).all()
    assert variances[0] == pytest.approx(5 * laplace_variance(made[0].scale))
    assert (variances[-1] == 0) == (neighbours is REPLACED)


def test_a_grid_between_the_datas_extremes_tells_neighbours_apart_for_certain():
    table = np.array([1.0, 2.0, 9.0])
    neighbour = np.array([1.0, 2.0, 3.0])
    asked = {"points": 4, "epsilon": 1, "neighbours": REPLACED}
    published = [
        ecdf_between_its_extremes(each, noise=SeededNoise(seed), **asked)[0][-1]
        for seed in range(20)
        for each in (table, neighbour)
    ]
    assert set(published[::2]) == {9.0}  # an event of probability one here, and of none for the neighbour
    assert set(published[1::2]) == {3.0}


def test_points_evaluated_afresh_lose_epsilon_every_time_and_stored_ones_once():
    counts = np.array([5, 0, 0, 0])
    asked = {"epsilon": 1, "neighbours": ADDED}
    answers = point_by_point(counts, 0, times=400, noise=SeededNoise(4), **asked)
    assert abs(answers.mean() - 5) < 2.5  # one answer has a standard deviation of 4.8
    # the log ratio of independent answers adds up; at a far answer each of them is worth a half at weight 2
    once = log_probability([30, 30, 30, 30], 2.0) - log_probability([29, 29, 29, 29], 2.0)
    assert 400 * abs(once) > 100
    made = shared_node_prefixes(counts, noise=SeededNoise(4), **asked)
    assert len({int(made.prefix_counts[0]) for _ in range(400)}) == 1


def test_what_is_no_line_of_counts_is_refused():
    asked = {"neighbours": ADDED, "noise": SeededNoise(1)}
    with pytest.raises(ValueError, match="counts"):
        shared_node_prefixes(np.zeros((2, 2), dtype=np.int64), epsilon=1, **asked)
    with pytest.raises(ValueError, match="points"):
        shared_node_prefixes(np.zeros(0, dtype=np.int64), epsilon=1, **asked)
    with pytest.raises(ValueError, match="labels"):
        shared_node_weight(4, neighbours=ADDED, labels=3)
    with pytest.raises(InvalidRequest, match="scale"):
        shared_node_prefixes(np.zeros(4, dtype=np.int64), epsilon="1e-13", **asked)
