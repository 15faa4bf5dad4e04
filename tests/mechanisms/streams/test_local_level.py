from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stream_hierarchy_law import drawn_stream as drawn_stream_of_states
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.streams.level_filter import LocalLevelState, filtered_counts
from spark_jobs.mechanisms.streams.local_level import (
    LocalLevelShape,
    filter_hierarchy,
    filter_steps,
    filter_streams,
    release_filtered_steps,
)
from spark_jobs.mechanisms.streams.predictions import MEMORIES, MEMORY, forgetting_sums

ADDED = Neighbours.ADD_REMOVE


def shape_of(epsilon, **options):
    return LocalLevelShape(epsilon=epsilon, neighbours=ADDED, **options)


def mean_of(noisy, memory):
    """A mean of noisy counts: plain up to the memory, exponential from there on."""
    mean = 0.0
    for number, count in enumerate(noisy, start=1):
        mean += (count - mean) / min(number, memory)
    return mean


def predicted(noisy, *, v):
    """The prediction of each count after the first, from scratch, by the mean that has erred least so far."""
    predictions = []
    for step in range(1, len(noisy)):
        errors = {}
        for memory in MEMORIES:
            squares = [(noisy[t] - mean_of(noisy[:t], memory)) ** 2 for t in range(1, step + 1)]
            errors[memory] = mean_of(squares, MEMORY)
        predictions.append(mean_of(noisy[:step], min(errors, key=errors.get)))
    return np.array(predictions)


@pytest.mark.parametrize("kind", ["flat", "jumps", "wanders"])
def test_a_count_is_predicted_by_the_mean_that_has_erred_least(kind):
    random = np.random.default_rng(4)
    rates = {"flat": np.full(60, 40.0), "jumps": np.repeat([10.0, 900.0, 200.0], 20), "wanders": None}[kind]
    exact = np.cumsum(random.normal(0, 60, 60)) + 500 if rates is None else rates
    noisy = np.rint(exact + random.laplace(0, 10, 60)).astype(np.int64)
    v = 200.0
    _, found = filtered_counts(LocalLevelState(), noisy[:, None], variance=v)
    centres, gains = found.centres[1:, 0], found.gains[1:, 0]
    own = np.delete(noisy, 0)
    np.testing.assert_allclose((centres - gains * own) / (1 - gains), predicted(noisy.astype(float), v=v))
    assert found.centres[0, 0] == noisy[0]
    assert ((gains > 0) & (gains < 1)).all()


def test_an_exponential_mean_is_the_best_prediction_of_the_model_that_belongs_to_its_memory():
    for memory in MEMORIES[1:]:
        ahead = 1.0  # the error variance of a prediction, in units of the noise's
        for _ in range(100 * memory):
            gain = ahead / (ahead + 1)
            ahead = (1 - gain) * ahead + 1 / (memory * (memory - 1))
        assert gain == pytest.approx(1 / memory)
        assert ahead == pytest.approx(1 / (memory - 1))


@pytest.mark.parametrize("memory", [1, 4, 30])
@pytest.mark.parametrize("streams", [1, 60])
def test_sums_forget_alike_however_a_stream_is_divided(memory, streams):
    values, none = np.random.default_rng(5).normal(size=(40, streams)), np.zeros(streams)
    whole = forgetting_sums(values, none, memory=memory, number=0)
    weights = np.minimum(np.arange(1, 41), memory)
    np.testing.assert_allclose(whole[:, 0] / weights, [mean_of(values[:number, 0], memory) for number in range(1, 41)])
    for place in (1, 3, 4, 5, 39):
        before = forgetting_sums(values[:place], none, memory=memory, number=0)
        after = forgetting_sums(values[place:], before[-1], memory=memory, number=place)
        assert np.concatenate([before, after]).tolist() == whole.tolist()


@given(st.integers(0, 10**6))
def test_where_predictions_are_useless_most_of_the_weight_that_is_saved_would_cost_more(seed):
    """The gain beyond that of the smallest mean square error makes the mean absolute error smaller."""
    random = np.random.default_rng(seed)
    p = 10 ** random.uniform(0.5, 1.5)  # the larger p is, the less the two gains differ
    wrong, noise = random.normal(0, np.sqrt(p), 20_000), random.laplace(0, np.sqrt(0.5), 20_000)
    gains = {name: of / (of + 1) for name, of in {"squares": p, "absolute": p * (1 + p / (p + 1))}.items()}
    errors = {name: np.abs((1 - gain) * wrong + gain * noise).mean() for name, gain in gains.items()}
    assert errors["absolute"] < errors["squares"]


def test_without_noise_estimates_are_the_counts():
    counts = np.random.default_rng(1).integers(0, 10**6, 500)
    for season in (0, 24):
        _, steps = release_filtered_steps(
            LocalLevelState(), counts, shape=shape_of(1e9, season=season), noise=SeededNoise(1)
        )
        np.testing.assert_allclose(steps.estimates, counts, atol=1e-3)
        assert np.abs(steps.upper - steps.lower).max() < 1e-2


def test_a_flat_stream_is_averaged():
    _, steps = release_filtered_steps(
        LocalLevelState(), np.full(4000, 300), shape=shape_of("0.1"), noise=SeededNoise(1)
    )
    assert np.abs(steps.estimates[MEMORY:] - 300).mean() < 0.4 * np.abs(steps.noisy[MEMORY:] - 300).mean()


def test_a_season_is_learnt():
    counts = 300 + np.rint(250 * np.sin(2 * np.pi * np.arange(24 * 200) / 24)).astype(int)
    errors = {}
    for season in (0, 24):
        shape = shape_of("0.01", season=season)
        _, steps = release_filtered_steps(LocalLevelState(), counts, shape=shape, noise=SeededNoise(2))
        errors[season] = np.abs(steps.estimates - counts)[24 * 20 :].mean()
    assert errors[24] < 0.5 * errors[0]


@pytest.mark.parametrize("season", [0, 5])
def test_streams_side_by_side_are_the_same_as_each_alone(season):
    noisy = np.random.default_rng(3).integers(-50, 400, (40, 3)) * [1, 10, 0]
    shape = shape_of("0.1", season=season)
    before, _ = filter_streams(LocalLevelState.start(3), noisy[:7], shape=shape)
    after, steps = filter_streams(before, noisy[7:], shape=shape)
    for place, column in enumerate(noisy.T):
        state, _ = filter_steps(LocalLevelState(), column[:7], shape=shape)
        state, alone = filter_steps(state, column[7:], shape=shape)
        assert after.step == state.step == 40
        for name in ("levels", "squares", "places", "season_squares"):
            assert getattr(after, name)[..., [place]].tolist() == getattr(state, name).tolist()
        for name in ("noisy", "estimates", "lower", "upper"):
            assert getattr(steps, name)[:, place].tolist() == getattr(alone, name).tolist()
    assert steps.first == 7


def test_streams_without_a_column_of_the_state_are_refused():
    with pytest.raises(ValueError, match="a column for each stream"):
        filter_streams(LocalLevelState(), np.zeros((2, 3), dtype=np.int64), shape=shape_of(1))


@pytest.mark.parametrize("season", [0, 5])
def test_a_state_can_be_continued_twice(season):
    shape = shape_of("0.1", season=season)
    state, _ = filter_steps(LocalLevelState(), np.arange(7), shape=shape)
    one, other = (filter_steps(state, np.array([9, 4, 3]), shape=shape)[1].estimates.tolist() for _ in range(2))
    assert one == other


def test_noise_is_for_one_row_or_for_two():
    added, replaced = shape_of(2), LocalLevelShape(epsilon=2, neighbours=Neighbours.REPLACE_ONE)
    assert replaced.variance > 3 * added.variance
    assert [spending.epsilon for spending in added.spendings] == [2]


@pytest.mark.parametrize("epsilon", ["0.3", "1", "1.5", "2", "2.5", "3", "9"])
def test_bands_know_that_noise_is_whole(epsilon):
    """Where counts jump, estimates are the noisy counts, whose noise takes few values at a large epsilon."""
    counts, shape = np.random.default_rng(2).integers(0, 10**6, 20_000), shape_of(epsilon)
    _, steps = release_filtered_steps(LocalLevelState(), counts, shape=shape, noise=SeededNoise(3))
    noise = np.abs(steps.noisy - counts)
    (reach,) = shape.reaches()
    assert (noise > reach).mean() <= 0.1
    assert reach == 0 or (noise > reach - 1).mean() > 0.1
    assert ((steps.lower <= counts) & (counts <= steps.upper)).mean() > 0.89


@pytest.mark.parametrize(("states", "epsilon"), [(4, "0.5"), (4, "2"), (2, "3"), (8, "4"), (16, "5")])
def test_bands_of_groups_know_that_sums_of_noise_are_whole(states, epsilon):
    counts, shape = np.random.default_rng(1).integers(0, 1000, (4000, states)), shape_of(epsilon)
    one_group = Hierarchy(order=np.arange(states), children=(np.array([states]),))
    noisy = SeededNoise(2).laplace(counts.ravel(), epsilon=epsilon, l1_sensitivity=1).reshape(counts.shape)
    _, steps = filter_hierarchy(LocalLevelState.start(states + 1), noisy, shape=shape, hierarchy=one_group)
    exact = one_group.all_sums(counts)
    assert ((steps.lower <= exact) & (exact <= steps.upper)).mean(axis=0)[0] > 0.89
    reach, _ = shape.reaches(np.array([states, 1]))
    noise = np.abs((noisy - counts).sum(axis=1))
    assert (noise > reach).mean() < 0.11
    assert (noise > reach - 1).mean() > 0.09


def test_a_season_that_says_nothing_costs_nothing():
    errors = {0: [], 24: []}
    for seed in range(60):
        counts = np.random.default_rng(seed).poisson(20, 96)
        for season, of in errors.items():
            shape = shape_of("1", season=season)
            _, steps = release_filtered_steps(LocalLevelState(), counts, shape=shape, noise=SeededNoise(seed))
            of.append(np.abs(steps.estimates - counts)[24:])
    plain, seasonal = (np.mean(of, axis=0) for of in errors.values())
    assert seasonal[0] == plain[0], "the first step of the second round"
    assert seasonal.mean() < 1.02 * plain.mean()


def test_bands_have_width_and_hold_their_estimates():
    for counts in (np.zeros(300, dtype=int), np.full(300, 2**40), np.tile([0, 10**9], 150)):
        _, steps = release_filtered_steps(LocalLevelState(), counts, shape=shape_of(1), noise=SeededNoise(3))
        assert (steps.lower >= 0).all()
        assert (steps.upper > steps.lower).all()
        assert ((steps.lower <= steps.estimates) & (steps.estimates <= steps.upper)).all()


# the law of streams: a rate, and what it does over time; counts are Poisson about it, or nearly all different
STEPS, DAY = 6000, 24


def drawn_stream(random):
    """A stream from the law: a flat, daily, jumping, wandering, bursting or lawless rate of 0.01 to 1,000 a step."""
    size, t = 10 ** random.uniform(-2, 3), np.arange(STEPS)
    kind = random.choice(["flat", "daily", "jumps", "wanders", "bursts", "lawless"])
    if kind == "daily":
        rate = size * (1 + random.uniform(0.3, 1) * np.sin(2 * np.pi * t / DAY + random.uniform(0, 6)))
    elif kind == "jumps":
        length = int(10 ** random.uniform(1.5, 3.3))
        rate = np.repeat(random.gamma(1, size, -(-STEPS // length)), length)[:STEPS]
    elif kind == "wanders":
        rate = size * np.exp(np.cumsum(random.normal(0, 10 ** random.uniform(-3, -1), STEPS)))
        rate = np.minimum(rate, 10.0**6)
    elif kind == "bursts":
        rate = np.where(random.random(STEPS) < 10 ** random.uniform(-3, -1), 20 * size, 0.05 * size)
    elif kind == "lawless":
        return kind, random.integers(0, 2 + int(20 * size), STEPS)
    else:
        rate = np.full(STEPS, size)
    return kind, random.poisson(rate)


@pytest.mark.verify
@pytest.mark.parametrize("epsilon", ["1", "0.1", "0.01"])
@pytest.mark.parametrize(("season", "streams"), [(0, 60), (DAY, 30), pytest.param(DAY, 60, marks=pytest.mark.soak)])
def test_on_streams_of_the_law_it_is_never_much_above_plain_noise_and_its_bands_hold(epsilon, season, streams):
    random, ratios, held = np.random.default_rng(7), [], []
    for seed in range(streams):
        _, counts = drawn_stream(random)
        shape = shape_of(epsilon, season=season)
        _, steps = release_filtered_steps(LocalLevelState(), counts, shape=shape, noise=SeededNoise(seed))
        plain = np.abs(np.maximum(steps.noisy, 0) - counts).mean()
        ratios.append(np.abs(steps.estimates - counts).mean() / plain)
        held.append(((steps.lower <= counts) & (counts <= steps.upper)).mean())
    assert max(ratios) < 1.05
    assert np.mean(ratios) < {"1": 0.83, "0.1": 0.55, "0.01": 0.34}[epsilon]
    assert min(held) > 0.84  # of counts that are uniform and independent, whose errors have no tails
    assert np.mean(held) > 0.9


SITE = Hierarchy(order=np.arange(7), children=(np.array([3, 1, 3]), np.array([3])))


@given(st.integers(0, 10**6), st.sampled_from([0, 4]))
def test_estimates_of_a_hierarchy_are_never_farther_from_the_counts_than_those_of_the_filter(seed, season):
    """A projection: this holds at every step for any counts and any noise, and so do sums."""
    random = np.random.default_rng(seed)
    exact = random.poisson(random.choice([0.1, 3, 200], 7), (12, 7))
    noisy = exact + random.integers(-60, 60, exact.shape)
    shape, nodes = shape_of("0.05", season=season), LocalLevelState.start(11)
    _, steps = filter_hierarchy(nodes, noisy, shape=shape, hierarchy=SITE)
    terms = np.array([7, 3, 1, 3, *[1] * 7])
    _, found = filtered_counts(nodes, steps.noisy, variance=shape.variance, season=season, terms=terms)
    counts = SITE.all_sums(exact)
    np.testing.assert_array_equal(steps.noisy, SITE.all_sums(noisy))
    assert (
        np.square(steps.estimates - counts).sum(axis=1) <= np.square(found.centres - counts).sum(axis=1) + 1e-6
    ).all()
    np.testing.assert_allclose(SITE.all_sums(steps.estimates[:, 4:]), steps.estimates)
    assert ((steps.lower >= 0) & (steps.lower <= steps.estimates) & (steps.estimates <= steps.upper)).all()


@pytest.mark.parametrize(
    ("states", "hierarchy"),
    [(1, SITE), (8, SITE), (16, Hierarchy.grid((4, 4), branching=2))],
)
def test_noisy_counts_that_are_not_in_the_order_of_the_states_are_refused(states, hierarchy):
    nodes = LocalLevelState.start(hierarchy.cells_below.size)
    with pytest.raises(ValueError, match=r"noisy: got shape \(3, .*; must have a column for each state"):
        filter_hierarchy(nodes, np.zeros((3, states), dtype=np.int64), shape=shape_of("1"), hierarchy=hierarchy)


def test_a_sum_of_counts_is_filtered_with_the_noise_of_all_of_them():
    noisy = np.random.default_rng(2).integers(-50, 400, (300, 1))
    (alone, one), (_, four) = (
        filtered_counts(LocalLevelState.start(1), counts, variance=250.0, season=6, terms=terms)
        for counts, terms in ((noisy, 1), (2 * noisy, 4))
    )
    assert alone.step == 300
    np.testing.assert_allclose(four.centres, 2 * one.centres)
    np.testing.assert_allclose(four.variances, 4 * one.variances)
    np.testing.assert_array_equal(four.gains, one.gains)


@pytest.mark.verify
@pytest.mark.parametrize("epsilon", ["1", "0.1", "0.01"])
def test_the_bands_of_groups_hold(epsilon):
    """On streams of the benchmark's law: of 0.92 to 0.98 of counts on average over groups and the top."""
    shares = []
    for seed in range(12):
        counts, hierarchy = drawn_stream_of_states(np.random.default_rng(seed))
        noisy = SeededNoise(seed).laplace(counts.ravel(), epsilon=epsilon, l1_sensitivity=1).reshape(counts.shape)
        groups = hierarchy.children[0].size + 1
        state = LocalLevelState.start(groups + counts.shape[1])
        _, steps = filter_hierarchy(state, noisy, shape=shape_of(epsilon), hierarchy=hierarchy)
        exact = hierarchy.all_sums(counts)
        held = (steps.lower <= exact) & (exact <= steps.upper)
        shares += held[:, :groups].mean(axis=0).tolist()
    assert 0.88 <= np.mean(shares) <= 0.985  # counts near 0 are always in their bands
    assert np.quantile(shares, 0.05) >= 0.84
