from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.competitors.windows import jumps, low_signals, monitor, window_sums
from spark_jobs.papers.streams.smoothing import Smoother, smooth

STREAMS = st.lists(st.tuples(st.integers(-20, 20), st.booleans()), min_size=1, max_size=30)


def as_stream(drawn):
    """Noisy counts, and the first step of each step's group: a new one where it is drawn."""
    noisy = np.array([value for value, _ in drawn])
    new = np.array([True, *(opens for _, opens in drawn[1:])])
    return noisy, np.maximum.accumulate(np.where(new, np.arange(noisy.size), 0))


@given(STREAMS)
def test_smoothers_are_their_definitions(drawn):
    noisy, starts = as_stream(drawn)
    variance = 7.0
    estimates = {each: smooth(noisy, starts, smoother=each, variance=variance) for each in Smoother}
    for at, start in enumerate(starts):
        group = noisy[start : at + 1]
        mean, spread = group.mean(), ((group - group.mean()) ** 2).sum()
        kept = max(0.0, 1 - (group.size - 3) * variance / spread) if group.size >= 4 and spread > 1e-9 else 1.0
        assert estimates[Smoother.MEAN][at] == pytest.approx(mean)
        assert estimates[Smoother.MEDIAN][at] == np.median(group)
        assert estimates[Smoother.JAMES_STEIN][at] == pytest.approx(mean + kept * (noisy[at] - mean))


@given(STREAMS, st.integers(1, 7))
def test_equal_weights_change_nothing(drawn, weight):
    noisy, starts = as_stream(drawn)
    for each in Smoother:
        plain = smooth(noisy, starts, smoother=each, variance=7.0)
        # counts of weight w with variance 7 are counts of variance 7 w of weight 1
        weighted = smooth(
            noisy, starts, smoother=each, variance=7.0 * weight, weights=np.full(noisy.size, weight, dtype=np.int64)
        )
        assert weighted == pytest.approx(plain)


@pytest.mark.slow
@given(STREAMS, st.data())
def test_whole_weights_are_as_many_copies(drawn, data):
    noisy, starts = as_stream(drawn)
    weights = np.array(data.draw(st.lists(st.integers(1, 9), min_size=noisy.size, max_size=noisy.size)))
    medians = smooth(noisy, starts, smoother=Smoother.MEDIAN, variance=1.0, weights=weights)
    means = smooth(noisy, starts, smoother=Smoother.MEAN, variance=1.0, weights=weights)
    shrunk = smooth(noisy, starts, smoother=Smoother.JAMES_STEIN, variance=30.0, weights=weights)
    for at, start in enumerate(starts):
        group, held = noisy[start : at + 1], weights[start : at + 1]
        copies = np.repeat(group, held)
        assert medians[at] == np.median(copies)
        assert means[at] == pytest.approx(copies.mean())
        spread = (held * (group - copies.mean()) ** 2).sum()
        kept = max(0.0, 1 - (group.size - 3) * 30.0 / spread) if group.size >= 4 and spread > 1e-9 else 1.0
        assert shrunk[at] == pytest.approx(copies.mean() + kept * (noisy[at] - copies.mean()))


def printed(group, variance):
    """Chen 2018, equation 5.7."""
    mean = group.mean()
    spread = ((group - mean) ** 2).sum()
    return (1 - (group.size - 2) * variance / spread) * (group[-1] - mean) + group[-1]


def test_james_stein_as_printed_is_worse_than_no_smoothing_and_as_corrected_it_is_better():
    random, epsilon, steps = np.random.default_rng(8), 0.1, 10
    noise = np.rint(random.laplace(0, 1 / epsilon, (4000, steps))).astype(int)
    variance = 2 / epsilon**2
    error = {each: [] for each in ["printed", "none", *Smoother]}
    for group in noise:
        starts = np.zeros(steps, dtype=int)
        error["printed"].append(printed(group, variance))
        error["none"].append(group[-1])
        for each in Smoother:
            error[each].append(smooth(group, starts, smoother=each, variance=variance)[-1])
    squared = {each: float(np.mean(np.square(values))) for each, values in error.items()}
    assert squared["printed"] > 1.3 * squared["none"] > 1.3 * 180
    assert squared[Smoother.JAMES_STEIN] < squared["none"] / 3
    assert squared[Smoother.MEAN] == pytest.approx(20, rel=0.15)
    assert squared[Smoother.MEDIAN] < squared[Smoother.MEAN]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=15))
def test_the_mean_of_a_group_so_far_is_near_that_of_the_whole(counts):
    # Chen 2018, theorem 18, with norms where squares are meant: what holds is within half the deviation over k
    line = np.array(counts)
    spread = np.abs(line - line.mean()).sum()
    for k in range(1, line.size + 1):
        assert abs(line[:k].mean() - line.mean()) <= spread / (2 * k) + 1e-9


@given(STREAMS, st.integers(1, 12))
def test_windows_add_up_medians_of_groups_as_known_at_the_time(drawn, width):
    noisy, starts = as_stream(drawn)
    found = window_sums(noisy, starts, width=width)
    for at in range(noisy.size):
        held = range(max(0, at - width + 1), at + 1)
        expected = sum(np.median([noisy[i] for i in range(at + 1) if starts[i] == starts[j]]) for j in held)
        assert found[at] == pytest.approx(expected)


def test_a_jump_is_over_the_whole_width_and_not_one_step_less():
    estimates = np.array([0.0, 0, 0, 10, 10, 10, 10])
    assert jumps(estimates, width=3).tolist() == [10, 10, 10, 0]
    assert jumps(estimates, width=1).tolist() == [0, 0, 10, 0, 0, 0]
    assert jumps(estimates, width=9).size == 0
    with pytest.raises(ValueError, match="width"):
        jumps(estimates, width=0)
    with pytest.raises(ValueError, match="width"):
        window_sums(np.array([1]), np.array([0]), width=0)


def test_a_low_signal_is_a_small_sum_of_the_last_steps():
    counts = np.array([5, 0, 0, 1, 9, 0])
    assert low_signals(counts, width=3, below=2).tolist() == [False, True, False, False]
    assert low_signals(counts[:2], width=3, below=2).tolist() == []
    with pytest.raises(ValueError, match="width"):
        low_signals(counts, width=0, below=2)


def test_any_event_of_a_window_is_monitored():
    counts = np.array([5.0, 0.0, 0.0, 1.0, 9.0])
    fired = monitor(counts, width=2, summary=lambda windows: np.ptp(windows, axis=-1), fires=lambda range_: range_ > 4)
    assert fired.tolist() == [True, False, False, True]
