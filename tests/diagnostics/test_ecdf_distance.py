import numpy as np
import pytest
from scipy import stats

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import ReferenceDistribution
from spark_jobs.diagnostics import ecdf
from spark_jobs.diagnostics.ecdf.distance import reference_cdf
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ValueCounts
from tests.support.valued_rows import counted, ten_data_sets

EXACT = {"epsilon": 1e9, "noise": SeededNoise(1)}
REFERENCES = {
    "uniform": ((0.0, 1.0), stats.uniform(0, 1)),
    "normal": ((0.5, 0.12), stats.norm(0.5, 0.12)),
    "lognormal": ((-2.0, 0.5), stats.lognorm(s=0.5, scale=np.exp(-2.0))),
    "exponential": ((0.25,), stats.expon(scale=0.25)),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_references_are_scipys_distributions(name):
    parameters, theirs = REFERENCES[name]
    cdf = reference_cdf(ReferenceDistribution(distribution=name, parameters=parameters))
    at = np.linspace(-1, 3, 99)
    np.testing.assert_array_equal(cdf(at), theirs.cdf(at))


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.halved
@pytest.mark.parametrize("data", ten_data_sets())
@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_without_noise_the_distance_is_scipys_up_to_the_grid(data, name):
    values = ten_data_sets()[data]
    inside = values[(values >= 0) & (values < 1)]
    if not inside.size:
        pytest.skip("scipy has no distance of no rows")
    parameters, theirs = REFERENCES[name]
    reference = ReferenceDistribution(distribution=name, parameters=parameters)
    released = ecdf.release(counted(inside, cells=32768), reference=reference, **EXACT)
    expected = stats.kstest(inside, theirs.cdf).statistic
    cell = float(np.diff(theirs.cdf(np.linspace(0, 1, 32769))).max())
    # at edges alone a sharp corner may be missed, by what the reference and one row have in a cell
    largest_atom = np.unique(inside, return_counts=True)[1].max() / inside.size
    assert expected - cell - largest_atom - 1e-9 <= released.distance.value <= expected + cell + 1e-9
    if largest_atom * inside.size == 1 and inside.size > 100:
        assert released.distance.value == pytest.approx(expected, abs=2 * cell + 2 / inside.size)


def test_without_noise_the_p_value_is_scipys():
    values = np.random.default_rng(7).normal(0.51, 0.12, 400)
    found = ecdf.distance_to(ecdf.release(counted(values), **EXACT), stats.norm(0.5, 0.12).cdf)
    theirs = stats.kstest(values, stats.norm(0.5, 0.12).cdf)
    assert found.p_value == pytest.approx(theirs.pvalue, abs=0.1)
    assert found.interval == pytest.approx((found.value, found.value), abs=1e-6)


@pytest.mark.slow
@pytest.mark.verify
def test_without_noise_the_distance_of_two_releases_is_scipys():
    random = np.random.default_rng(11)
    one, other = random.normal(0.5, 0.12, 700), random.normal(0.53, 0.12, 900)
    releases = [ecdf.release(counted(values, cells=32768), **EXACT) for values in (one, other)]
    found = ecdf.distance_between(*releases)
    theirs = stats.ks_2samp(one, other)
    assert found.value == pytest.approx(theirs.statistic, abs=3e-3)
    assert found.p_value < 0.02
    assert theirs.pvalue < 0.02


def test_releases_on_grids_that_share_edges_are_compared_there():
    values = np.random.default_rng(12).random(3000)
    fine = ecdf.release(counted(values, cells=4096), **EXACT)
    coarse = ecdf.release(counted(values, cells=64), **EXACT)
    assert ecdf.distance_between(fine, coarse).value == pytest.approx(0, abs=1e-8)
    elsewhere = ecdf.release(ValueCounts.from_arrays(values, lower=0.01, upper=np.pi, cells=64), **EXACT)
    with pytest.raises(InvalidRequest, match="must share edges of its grid"):
        ecdf.distance_between(fine, elsewhere)


@pytest.fixture(scope="module", params=[30, pytest.param(60, marks=pytest.mark.soak)])
def tests_under_the_hypothesis(request):
    """p-values and whether intervals held, of so many releases of rows that do come from the reference."""
    random = np.random.default_rng(21)
    ones, twos, held = [], [], []
    for _ in range(request.param):
        rows = [random.normal(0.5, 0.15, 800) for _ in range(2)]
        statistics = [counted(values, cells=256) for values in rows]
        releases = [
            ecdf.release(statistic, epsilon=1, noise=SeededNoise(int(random.integers(2**62))))
            for statistic in statistics
        ]
        normal = stats.norm(0.5, 0.15).cdf
        found = ecdf.distance_to(releases[0], normal, seed=int(random.integers(2**31)))
        ones.append(found.p_value)
        twos.append(ecdf.distance_between(*releases, seed=int(random.integers(2**31))).p_value)
        edges = statistics[0].grid.edges[1:-1]
        exact = np.abs(np.cumsum(statistics[0].counts)[:-1] / 800 - normal(edges)).max()
        held.append(found.interval[0] <= exact <= found.interval[1])
    return np.array(ones), np.array(twos), np.array(held)


@pytest.mark.slow
@pytest.mark.verify
def test_p_values_are_uniform_where_the_hypothesis_is_true(tests_under_the_hypothesis):
    for values in tests_under_the_hypothesis[:2]:
        assert stats.kstest(values, "uniform").pvalue > 1e-3
        assert stats.binom.sf((values <= 0.1).sum() - 1, values.size, 0.1) > 1e-3


@pytest.mark.slow
@pytest.mark.verify
def test_intervals_of_distances_hold(tests_under_the_hypothesis):
    held = tests_under_the_hypothesis[2]
    assert stats.binom.cdf(held.sum(), held.size, 0.9) > 1e-3


@pytest.mark.parametrize("smoothing", ["2-norm", "1-norm"])
def test_intervals_of_distances_below_the_noise_hold(smoothing):
    """Nearly all rows lie in the first cell, so that released functions are often equal."""
    random, held, releases = np.random.default_rng(31), [], 40
    one, other = np.full(2000, 0.01), np.append(np.full(1997, 0.01), [0.1, 0.15, 0.2])
    for seed in range(releases):
        a, b = (
            ecdf.release(
                counted(values, cells=16),
                epsilon=1,
                smoothing=smoothing,
                noise=SeededNoise(int(random.integers(2**62))),
            )
            for values in (one, other)
        )
        for found in (ecdf.distance_between(a, b, seed=seed), ecdf.distance_to(b, np.ones_like, seed=seed)):
            held.append(found.interval[0] - 1e-9 <= 3 / 2000 <= found.interval[1] + 1e-9)
            assert found.interval[1] > 0
    assert stats.binom.cdf(sum(held), 2 * releases, 0.9) > 1e-3


def test_intervals_are_not_narrower_at_a_higher_level():
    released = ecdf.release(counted(np.random.default_rng(8).random(800)), epsilon=1, noise=SeededNoise(4))
    intervals = [
        ecdf.distance_to(released, stats.norm(0.5, 0.2).cdf, confidence=at).interval for at in (0.9, 0.99, 0.999)
    ]
    widths = [high - low for low, high in intervals]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_a_test_that_forgets_the_noise_rejects_true_hypotheses():
    random = np.random.default_rng(22)
    naive = []
    for _ in range(40):
        statistic = counted(random.normal(0.5, 0.15, 800), cells=256)
        released = ecdf.release(statistic, epsilon=0.3, noise=SeededNoise(int(random.integers(2**62))))
        expected = np.append(stats.norm(0.5, 0.15).cdf(released.values[1:]), 1.0)
        naive.append(stats.kstwo.sf(np.abs(released.cdf - expected).max(), 800))
    assert np.mean(np.array(naive) < 0.05) > 0.5


@pytest.mark.slow
@pytest.mark.verify
def test_a_wrong_reference_and_a_changed_table_are_found_out():
    random = np.random.default_rng(23)
    old, new = (
        ecdf.release(counted(random.normal(mean, 0.15, 5000), cells=1024), epsilon=1, noise=SeededNoise(int(10 * mean)))
        for mean in (0.5, 0.56)
    )
    assert ecdf.distance_to(old, stats.uniform(0, 1).cdf).p_value < 0.01
    assert ecdf.distance_between(old, new).p_value < 0.01
    low, _ = ecdf.distance_between(old, new).interval
    assert low > 0.05


def test_an_undefined_release_has_no_distance():
    undefined = ecdf.release(counted(np.array([0.5] * 5)), epsilon="0.001", noise=SeededNoise(3))
    defined = ecdf.release(counted(np.full(500, 0.5)), epsilon=1, noise=SeededNoise(3))
    assert (undefined.status, defined.status) == ("undefined", "ok")
    distances = [
        ecdf.distance_to(undefined, stats.uniform(0, 1).cdf),
        ecdf.distance_between(undefined, defined),
        ecdf.distance_between(defined, undefined),
    ]
    for distance in distances:
        assert (distance.value, distance.at, distance.interval, distance.p_value) == (None, None, None, None)


def test_noise_of_the_size_of_the_rows_is_no_difference():
    """The release is just defined: its interval reaches down to 0 and its test rejects nothing."""
    random = np.random.default_rng(5)
    released = ecdf.release(counted(random.uniform(size=60)), epsilon=1, noise=SeededNoise(1))
    assert released.status == "ok"
    distance = ecdf.distance_to(released, stats.uniform(0, 1).cdf)
    assert distance.interval is not None
    assert distance.interval[0] == 0.0
    assert distance.p_value is not None
    assert distance.p_value > 0.05


def test_what_is_no_distribution_function_is_refused():
    released = ecdf.release(counted(np.array([0.5] * 50)), **EXACT)
    for cdf in (np.cos, lambda x: 2 * x, lambda x: 0.5, lambda x: x * np.nan):
        with pytest.raises(InvalidRequest, match="reference: must be a distribution function"):
            ecdf.distance_to(released, cdf)


@pytest.mark.parametrize(
    ("distribution", "parameters"),
    [("normal", (0.0, 0.0)), ("normal", (1.0,)), ("uniform", (2.0, 1.0)), ("exponential", (-1.0,)), ("lognormal", ())],
)
def test_parameters_that_do_not_fit_are_refused(distribution, parameters):
    with pytest.raises(InvalidRequest, match="parameters: got"):
        ReferenceDistribution(distribution=distribution, parameters=parameters)
