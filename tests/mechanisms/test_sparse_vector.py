from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.meter import BudgetMeter, BudgetOverspent
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.sparse_vector import above_threshold, first_crossing, merge_cells, optimal_split, to_steps
from tests.support.sparse_vector_loss import RecordingNoise, geometric_mass, tail, worst_loss

EPSILON = 0.8


def general_pairs(length: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Neighbours whose queries each move by at most 1, in any directions, around levels that matter."""
    levels = list(itertools.product((-6, 1), repeat=length))
    moves = list(itertools.product((-1, 1), repeat=length))
    return [(level, tuple(np.add(level, move))) for level in levels for move in moves]


def monotone_pairs(length: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    levels = list(itertools.product((-6, 1), repeat=length))
    moves = list(itertools.product((0, 1), repeat=length))
    return [(level, tuple(np.add(level, move))) for level in levels for move in moves]


def nested_pairs(length: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Running sums of cells when one row is added to one cell."""
    cells = list(itertools.product((0, 1, 5), repeat=length))
    return [
        (np.cumsum(cell), np.cumsum(np.add(cell, np.eye(length, dtype=int)[at])))
        for cell in cells
        for at in range(length)
    ]


def scales_used(**options: Any) -> tuple[float, float]:
    recorder = RecordingNoise()
    above_threshold(np.zeros(3, np.int64), epsilon=EPSILON, noise=recorder, **options)
    return recorder.scales[0], recorder.scales[1]


@pytest.mark.parametrize("cutoff", [1, 2])
def test_loss_of_any_output_stays_within_epsilon(cutoff: int) -> None:
    threshold_scale, query_scale = scales_used(cutoff=cutoff)
    loss = worst_loss(general_pairs(3), threshold_scale, query_scale, cutoff)
    assert 0.4 * EPSILON < loss <= EPSILON


@pytest.mark.slow
@pytest.mark.parametrize("cutoff", [1, 2])
def test_monotone_queries_may_use_half_the_noise_and_others_may_not(cutoff: int) -> None:
    threshold_scale, query_scale = scales_used(cutoff=cutoff, monotone=True)
    assert worst_loss(monotone_pairs(3), threshold_scale, query_scale, cutoff) <= EPSILON
    assert worst_loss(general_pairs(4), threshold_scale, query_scale, cutoff) > EPSILON


@pytest.mark.parametrize("fault", ["threshold noise halved", "query noise halved", "cut-off ignored"])
def test_the_exact_loss_tells_a_wrong_constant(fault: str) -> None:
    threshold_scale, query_scale = scales_used(cutoff=1, monotone=True)
    if fault == "threshold noise halved":
        loss = worst_loss(monotone_pairs(4), threshold_scale / 2, query_scale, 1)
    elif fault == "query noise halved":
        loss = worst_loss(monotone_pairs(3), threshold_scale, query_scale / 2, 1)
    else:
        swapped = ((0,) * 4 + (1,) * 4, (1,) * 4 + (0,) * 4)
        loss = worst_loss([swapped], *scales_used(cutoff=1), None)
    assert loss > EPSILON


def crossing_scales(neighbours: Neighbours) -> tuple[float, float]:
    recorder = RecordingNoise()
    first_crossing([1, 2], threshold=5, epsilon=EPSILON, neighbours=neighbours, noise=recorder)
    return recorder.scales[0], recorder.scales[1]


def test_nested_counts_cost_the_larger_of_the_two_noises_when_a_row_is_added() -> None:
    loss = worst_loss(nested_pairs(4), *crossing_scales(Neighbours.ADD_REMOVE), 1)
    assert 0.9 * EPSILON < loss <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize("threshold", [5.000000000000001, 94.99999999999999, 0.95 * 1_000_003])
def test_noise_moves_a_threshold_by_whole_steps_however_large_it_is(threshold: float) -> None:
    # a sum of floats rounds 5.000000000000001 + 1000 to 1005: one step of the noise would move it by nothing, or by two
    for moved in (0, 3, 1000, 2**30, 2**52):
        reached = math.ceil(threshold) + moved
        for cells, found in (([reached - 1, 1], 1), ([reached - 1, 0], None)):
            crossed = first_crossing(
                cells, threshold=threshold, epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=Shifted(moved)
            )
            assert crossed == found


class Shifted(SeededNoise):
    """Moves what is drawn first, which is the threshold, and nothing else."""

    def __init__(self, by: int) -> None:
        super().__init__(0)
        self.by = [by]

    def laplace(self, values: Any, *, epsilon: Any, l1_sensitivity: int) -> Any:
        return values + (self.by.pop() if self.by else 0)


def replaced_pairs(length: int) -> list[tuple[Any, Any]]:
    """Running sums of cells when one row moves from one cell to another."""
    pairs = []
    for cell in itertools.product((0, 1, 5), repeat=length):
        for source, target in itertools.permutations(range(length), 2):
            if cell[source]:
                changed = np.array(cell)
                changed[source] -= 1
                changed[target] += 1
                pairs.append((np.cumsum(cell), np.cumsum(changed)))
    return pairs


@pytest.mark.slow
def test_nested_counts_cost_the_sum_when_a_row_is_replaced() -> None:
    pairs = replaced_pairs(4)
    assert 0.7 * EPSILON < worst_loss(pairs, *crossing_scales(Neighbours.REPLACE_ONE), 1) <= EPSILON
    # the cheaper noise of the other relation would not do
    assert worst_loss(pairs, *crossing_scales(Neighbours.ADD_REMOVE), 1) > EPSILON


def test_published_bounds_of_residuals_use_noise_that_nested_counts_do_not_need() -> None:
    # Chen et al. 2017, algorithm 1: scales 2 / epsilon and 4 / epsilon, at most three quarters of what is claimed
    loss = worst_loss(replaced_pairs(4), 2 / EPSILON, 4 / EPSILON, 1)
    assert 0.4 * EPSILON < loss <= 0.75 * EPSILON
    assert crossing_scales(Neighbours.REPLACE_ONE) == pytest.approx((2 / EPSILON, 2 / EPSILON), rel=1e-9)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_count_less_a_part_of_all_moves_by_less_than_both_together(part: float) -> None:
    # every table of up to 5 rows is two counts: rows that are counted, rows that are not
    tables = [(counted, other) for counted in range(6) for other in range(6 - counted)]
    moves = [
        abs((a - part * (a + b)) - (c - part * (c + d)))
        for (a, b), (c, d) in itertools.product(tables, tables)
        if abs(a - c) + abs(b - d) == 1
    ]
    assert max(moves) == pytest.approx(max(part, 1 - part))
    assert max(moves) < 1 + part


def count_pairs(neighbours: Neighbours) -> list[tuple[Any, Any]]:
    """Counts of rows in three overlapping sets, on tables of up to 3 rows that differ by one row."""
    kinds = list(itertools.product((0, 1), repeat=3))
    tables = [np.zeros(3, int), *(np.array(kind) * copies for kind in kinds for copies in (1, 3))]
    if neighbours is Neighbours.ADD_REMOVE:
        return [(table, table + row) for table in tables for row in kinds]
    return [(table + one, table + other) for table in tables for one, other in itertools.permutations(kinds, 2)]


@pytest.mark.sampled("neighbours")
@pytest.mark.slow
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cutoff", [1, 2])
def test_counts_keep_epsilon_with_the_noise_of_their_relation(neighbours: Neighbours, cutoff: int) -> None:
    pairs = [(np.subtract(a, 1), np.subtract(b, 1)) for a, b in count_pairs(neighbours)]
    monotone = neighbours is Neighbours.ADD_REMOVE
    assert worst_loss(pairs, *scales_used(cutoff=cutoff, monotone=monotone), cutoff) <= EPSILON
    assert all((b >= a).all() or (a >= b).all() for a, b in pairs) == monotone


def test_the_shortcut_for_nested_counts_does_not_hold_for_other_queries() -> None:
    assert worst_loss(general_pairs(3), *crossing_scales(Neighbours.ADD_REMOVE), 1) > 1.5 * EPSILON


def merge_probabilities(
    cells: tuple[int, ...], threshold: int, scales: tuple[float, float]
) -> dict[tuple[int, ...], float]:
    """Exact law of ``merge_cells``, by recursion over the first group's end."""
    if not cells:
        return {(): 1.0}
    support, mass = geometric_mass(scales[0])
    found: dict[tuple[int, ...], float] = {}
    still = mass.copy()
    for end, count in enumerate(np.cumsum(cells), start=1):
        passing = tail(scales[1], support + threshold - count)
        here = float((still * passing).sum())
        still = still * (1 - passing)
        for rest, chance in merge_probabilities(cells[end:], threshold, scales).items():
            ends = (end, *(end + other for other in rest))
            found[ends] = found.get(ends, 0.0) + here * chance
    found[()] = found.get((), 0.0) + float(still.sum())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_merging_costs_no_more_than_one_chain(neighbours: Neighbours) -> None:
    scales = crossing_scales(neighbours)
    size, threshold, worst = 4, 2, 0.0
    for cells in itertools.product((0, 1, 3), repeat=size):
        for change in range(size):
            for source in range(size) if neighbours is Neighbours.REPLACE_ONE else (None,):
                other = list(cells)
                other[change] += 1
                if source is not None:
                    if source == change or not cells[source]:
                        continue
                    other[source] -= 1
                one = merge_probabilities(cells, threshold, scales)
                two = merge_probabilities(tuple(other), threshold, scales)
                worst = max(worst, *(abs(np.log(one[ends] / two[ends])) for ends in one))
        if worst > EPSILON * 1.01:
            break
    assert 0.7 * EPSILON < worst <= EPSILON * (1 + 1e-9)


def test_merged_groups_cover_all_cells_and_reach_the_threshold_without_noise() -> None:
    cells = np.array([5, 5, 0, 10, 1, 1])
    ends = merge_cells(cells, threshold=10, epsilon=1e9, neighbours=Neighbours.ADD_REMOVE, noise=SecureNoise())
    assert ends == (2, 6)
    assert merge_cells([1, 1], threshold=1e6, epsilon=1e9, neighbours=Neighbours.ADD_REMOVE, noise=SecureNoise()) == (
        2,
    )


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.floats(-50, 200), st.integers(0, 2**32))
def test_merged_ends_are_strictly_increasing_and_complete(cells: list[int], threshold: float, seed: int) -> None:
    ends = merge_cells(
        cells, threshold=threshold, epsilon=0.5, neighbours=Neighbours.REPLACE_ONE, noise=SeededNoise(seed)
    )
    assert ends[-1] == len(cells)
    assert all(a < b for a, b in itertools.pairwise((0, *ends)))


def test_without_noise_the_first_passing_queries_are_found() -> None:
    answers = above_threshold(
        [1, 9, 2, 7, 8],
        thresholds=[5, 5, 1, 9, 1],
        epsilon=1e9,
        noise=SecureNoise(),
        cutoff=2,
        numeric_share=0.5,
        numeric_sensitivity=1,
    )
    assert answers.above.tolist() == [1, 2]
    assert answers.values is not None
    assert answers.values.tolist() == [9, 2]
    assert answers.answered == 3


def test_a_search_that_never_passes_ends_at_its_public_length() -> None:
    answers = above_threshold(np.full(50, -(10**6)), epsilon=1, noise=SecureNoise())
    assert (answers.above.size, answers.answered, answers.values) == (0, 50, None)
    assert (
        first_crossing([0] * 5, threshold=10**6, epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=SecureNoise())
        is None
    )


def test_all_parts_together_cost_epsilon_and_the_meter_sees_it() -> None:
    meter = BudgetMeter("1")
    above_threshold([1], epsilon="0.7", noise=SeededNoise(1), numeric_share=0.3, numeric_sensitivity=1, meter=meter)
    assert meter.spent.epsilon == Decimal("0.7")
    with pytest.raises(BudgetOverspent):
        above_threshold([1], epsilon="0.7", noise=SeededNoise(1), meter=meter)


def test_numeric_answers_have_noise_of_their_own() -> None:
    recorder = RecordingNoise()
    above_threshold([10**9, 10**9], epsilon=1, noise=recorder, cutoff=2, numeric_share=0.5, numeric_sensitivity=1)
    assert recorder.scales[2] == pytest.approx(2 / 0.5)


def test_values_have_the_noise_of_the_queries_and_not_of_differences() -> None:
    # queries and thresholds that move together, by 7: their difference moves by 1 at most, the values do not
    recorder = RecordingNoise()
    above_threshold(
        [10**9], thresholds=[5], epsilon=1, noise=recorder, sensitivity=1, numeric_share=0.5, numeric_sensitivity=7
    )
    assert recorder.scales[2] == pytest.approx(7 / 0.5)
    with pytest.raises(ValueError, match="numeric_sensitivity"):
        above_threshold([1], epsilon=1, noise=recorder, numeric_share=0.5)


def test_differences_beyond_int64_saturate() -> None:
    far = above_threshold(
        [2**62, -(2**62) - 1], thresholds=[-(2**62) - 5, 2**62], epsilon=1, noise=SecureNoise(), cutoff=2
    )
    assert far.above.tolist() == [0]


@pytest.mark.parametrize(("cutoff", "monotone"), [(1, False), (1, True), (5, False), (20, True)])
def test_the_split_is_exact_and_least_in_variance(cutoff: int, monotone: bool) -> None:
    first, second = optimal_split("0.3", cutoff=cutoff, monotone=monotone)
    assert first + second == Decimal("0.3")
    factor = cutoff if monotone else 2 * cutoff

    def variance(part: float) -> float:
        return (1 / part) ** 2 + (factor / (0.3 - part)) ** 2

    assert variance(float(first)) <= min(variance(float(first) * nudge) for nudge in (0.98, 1.02))


@given(st.floats(-1e3, 1e3), st.floats(0, 5), st.floats(0.01, 5))
def test_steps_bound_how_far_neighbours_can_part(value: float, change: float, step: float) -> None:
    sensitivity = max(change, 1e-6)
    steps, units = to_steps([value, value + change], sensitivity=sensitivity, step=step)
    assert abs(int(steps[1]) - int(steps[0])) <= units


@pytest.mark.parametrize(
    "options",
    [{"cutoff": 0}, {"sensitivity": 0}, {"numeric_share": 1.0}, {"cutoff": float("inf")}, {"sensitivity": 1.5}],
)
def test_what_would_not_be_private_cannot_be_asked_for(options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, OverflowError)):
        above_threshold([1, 2], epsilon=1, noise=SeededNoise(1), **options)
    with pytest.raises((ValueError, ArithmeticError)):
        above_threshold([1, 2], epsilon="inf", noise=SeededNoise(1))
    with pytest.raises(TypeError):
        above_threshold([0.5], epsilon=1, noise=SeededNoise(1))
