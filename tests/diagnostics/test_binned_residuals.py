import json
from functools import partial

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import binned_residuals as binned
from spark_jobs.diagnostics._score_groups import pools
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.suites.diagnostic import DiagnosticSuite
from tests.support.grouped_rows import exact_pools, of_pools, snapped
from tests.support.score_rows import NASTY_ROWS, column
from tests.support.scored_rows import GRID, ten_data_sets
from tests.support.undefined import is_undefined

DATA_SETS = ten_data_sets()
METHODS = ["auto", "recursive_medians", "fixed_bins"]
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
EVERY_DATA_SET = pytest.mark.parametrize("name", DATA_SETS)


@pytest.fixture
def few_copies(monkeypatch):
    """Quick simulations, where their figures are not looked at."""
    monkeypatch.setattr(pools, "COPIES", 100)


def counts_of(name, cells=GRID):
    return ScoreCounts.from_arrays(*DATA_SETS[name], cells=cells)


def nothing(cells=GRID):
    return ScoreCounts.from_arrays([], [], cells=cells)


def check_form(found, bins):
    """What holds for every release, whatever the rows were."""
    for name in (
        *("lower", "upper", "pool", "predicted", "residual", "residual_lower", "residual_upper"),
        *("zone_lower", "zone_upper", "rows"),
    ):
        array = getattr(found, name)
        assert array.shape == (bins,)
        assert np.isfinite(array).all() or found.status == "undefined"
    assert found.lower[0] == 0
    assert found.upper[-1] == 1
    assert np.array_equal(found.lower[1:], found.upper[:-1])
    assert (found.lower < found.upper).all()
    assert found.pool[0] == 0
    assert set(np.diff(found.pool)) <= {0, 1}
    assert (found.rows >= 0).all()
    if is_undefined("binned_residuals", found):
        return
    assert (of_pools(found, found.predicted) >= 0).all()
    assert (found.predicted <= 1).all()
    assert (found.residual_lower <= found.residual).all()
    assert (found.residual <= found.residual_upper).all()
    assert (found.zone_lower <= found.zone_upper).all()
    assert ((found.residual >= -found.predicted - 1e-9) & (found.residual <= 1 - found.predicted + 1e-9)).all()
    for p in (found.p_value, found.trend_p_value, found.scatter_p_value):
        assert 0 < p <= 1
    assert found.status == "ok"
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.usefixtures("few_copies")
class TestForm(DiagnosticSuite):
    release = staticmethod(binned.release)
    tables = {name: partial(counts_of, name, 4096) for name in DATA_SETS}
    empty = staticmethod(lambda: nothing(4096))
    nasty = staticmethod(lambda: ScoreCounts.from_arrays(column(NASTY_ROWS, 0), column(NASTY_ROWS, 1), cells=4096))
    settings = [{"epsilon": epsilon, "method": method, "bins": 16} for epsilon in ("0.01", "1") for method in METHODS]

    def check_form(self, result, options):
        check_form(result, options["bins"])

    def test_an_empty_table_is_undefined_or_has_rows_of_the_noise(self, options):
        reference = self.release(self.empty(), noise=SeededNoise(6), **options)
        assert reference.status == "undefined" or reference.rows.max() > 0


@pytest.mark.slow
@EVERY_METHOD
@EVERY_DATA_SET
@pytest.mark.usefixtures("few_copies")
def test_without_noise_residuals_are_those_of_the_rows(name, method):
    labels, scores = DATA_SETS[name]
    grid = 4096 if method == "recursive_medians" else GRID
    found = binned.release(counts_of(name, grid), epsilon=1e9, method=method, noise=SeededNoise(1))
    check_form(found, 16 if method == "recursive_medians" else 20)
    exact = exact_pools(found, labels, scores, grid)
    assert [pool.rows for pool in exact] == of_pools(found, found.rows).tolist()
    filled = [pool.rows > 0 for pool in exact]
    assert all(filled)
    residuals = of_pools(found, found.residual)
    assert residuals == pytest.approx([pool.residual for pool in exact], abs=1e-8)
    assert of_pools(found, found.predicted) == pytest.approx([pool.predicted for pool in exact], abs=1e-8)
    assert of_pools(found, found.residual_upper - found.residual_lower) == pytest.approx(0, abs=1e-8)
    assert found.positives == labels.sum()


@pytest.mark.parametrize("name", ["ordinary", "nearly perfect", "rare positives", "worse than chance"])
def test_the_trend_test_is_the_score_test_of_a_wrong_log_odds_where_there_is_no_noise(name):
    """Against statsmodels: adding 1, l, l^2 to the model as an offset; grouped in many bins, they nearly agree."""
    labels, scores = DATA_SETS[name]
    score = (snapped(scores) + 0.5) / GRID
    odds = np.log(score / (1 - score))
    design = np.column_stack([np.ones_like(odds), odds, odds**2])
    model = sm.GLM(labels, design, family=sm.families.Binomial(), offset=odds)
    _, reference, _ = model.score_test(np.zeros(3), k_constraints=3)
    found = binned.release(counts_of(name), epsilon=1e9, bins=64, noise=SeededNoise(1))
    assert found.trend_p_value == pytest.approx(np.squeeze(reference), abs=0.05)


@given(
    cells=st.integers(1, 8).map(lambda power: 2**power),
    rows=st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), max_size=40),
    epsilon=st.sampled_from(["0.001", "0.5", "7", "1000000"]),
    method=st.sampled_from(METHODS),
    neighbours=st.sampled_from(list(Neighbours)),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=25)
def test_no_small_table_breaks_a_release(cells, rows, epsilon, method, neighbours, seed):
    statistic = ScoreCounts.from_arrays([row[0] for row in rows], [row[1] for row in rows], cells=cells)
    measurement = binned.measure(
        statistic, epsilon=epsilon, method=method, neighbours=neighbours, noise=SeededNoise(seed)
    )
    check_form(binned.summarise(measurement, seed=seed), measurement.bins.size - 1)


def test_the_same_draw_and_seed_make_the_same_release():
    measurement = binned.measure(counts_of("ordinary"), epsilon=1, noise=SecureNoise())
    again = binned.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(measurement.to_dict())))
    assert binned.summarise(measurement, seed=7).to_dict() == binned.summarise(again, seed=7).to_dict()


def test_a_wrong_model_is_found_out_and_a_right_one_is_not():
    random = np.random.default_rng(5)
    x = random.uniform(-1, 1, 4000)
    right = 1 / (1 + np.exp(-2 * x))
    labels = (random.random(4000) < right).astype(int)
    bent = 1 / (1 + np.exp(-(2 * x + x**2 - 0.34)))
    good, bad = (
        binned.release(ScoreCounts.from_arrays(labels, scores), epsilon=1, noise=SeededNoise(3))
        for scores in (right, bent)
    )
    assert good.p_value > 0.05
    assert bad.p_value < 0.01
    outside = (bad.residual < bad.zone_lower) | (bad.residual > bad.zone_upper)
    assert outside.any()


def test_noise_makes_the_intervals_wide_and_the_bins_few():
    statistic = counts_of("ordinary")
    found = [binned.release(statistic, epsilon=epsilon, noise=SeededNoise(2)) for epsilon in ("0.1", "1", "10")]
    widths = [(each.residual_upper - each.residual_lower).mean() for each in found]
    assert widths[0] > 2 * widths[1] > 4 * widths[2]
    assert found[0].pool.max() < found[1].pool.max() < found[2].pool.max()


@pytest.mark.parametrize(
    "options",
    [
        {"method": "deciles"},
        {"bins": 1},
        {"bins": 257},
        {"confidence": 1},
        {"epsilon": 0},
        {"epsilon": "nan"},
        {"delta": -1},
        {"bins": 12, "method": "recursive_medians"},
    ],
    ids=str,
)
def test_options_out_of_bounds_are_refused(options):
    with pytest.raises(InvalidRequest):
        binned.release(nothing(), **{"epsilon": 1, "noise": SeededNoise(1), **options})
