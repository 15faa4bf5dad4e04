import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import residual_plot
from spark_jobs.diagnostics.residual_plot import copies
from spark_jobs.diagnostics.residual_plot.box import Bounds, box
from spark_jobs.diagnostics.residual_plot.columns import in_whole_rows, on_the_simplex, quantiles
from spark_jobs.diagnostics.residual_plot.measurement import default_bins
from spark_jobs.diagnostics.residual_plot.summary import MOST_POINTS
from spark_jobs.mechanisms.histograms import METHODS
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ResidualCounts
from tests.support.noises import Recording
from tests.support.residual_rows import ROWS, columns, nasty_pairs


def tables():
    random = np.random.default_rng(4)
    x = random.uniform(0, 50, 4000)
    z = random.normal(size=4000)
    return {
        "ordinary": (x, z),
        "fan": (x, z * x / 10),
        "curved": (x, z + 0.01 * (x - 25) ** 2 - 2),
        "far from 0": (170 + z, random.normal(size=4000)),
        "negative": (-x - 100, z),
        "large": (x * 1e9, z * 1e7),
        "tiny": (x * 1e-9, z * 1e-9),
        "constant fitted": (np.full(500, 3.3), z[:500]),
        "constant residual": (x[:500], np.full(500, 0.25)),
        "all zero": (np.zeros(500), np.zeros(500)),
        "heavy tails": (x, random.standard_cauchy(4000)),
        "one row": (np.array([7.0]), np.array([0.5])),
        "empty": (np.array([]), np.array([])),
        "infinities": (np.array([np.inf, -np.inf, 1.0] * 300), np.array([1.0, np.inf, -np.inf] * 300)),
        "all outside": (np.full(900, 1e300), np.full(900, -1e300)),
        "nulls": (np.full(900, np.nan), np.zeros(900)),
    }


TABLES = tables()
EVERY_TABLE = pytest.mark.parametrize("name", TABLES)
ARRAYS = (
    "trend_fitted",
    "column_rows",
    "trend",
    "trend_lower",
    "trend_upper",
    "spread",
    "spread_lower",
    "spread_upper",
)


@pytest.fixture
def few_copies(monkeypatch):
    """Quick simulations, where their figures are not looked at."""
    monkeypatch.setattr(copies, "COPIES", 200)
    monkeypatch.setattr(copies, "COPIES_OF_METHODS", 20)


def counted(name, unit=1.0):
    return ResidualCounts.from_arrays(*TABLES[name], unit=unit)


def check_form(plot):
    """What holds for every release, whatever the rows were."""
    m = plot.bins
    assert m in {2**i for i in range(1, 9)}
    assert plot.fitted_edges.shape == plot.residual_edges.shape == (m + 1,)
    for edges in (plot.fitted_edges, plot.residual_edges):
        widths = np.diff(edges)
        assert (widths > 0).all()
        np.testing.assert_allclose(widths, widths[0], rtol=1e-9)
    assert (plot.fitted_lower, plot.fitted_upper) == (plot.fitted_edges[0], plot.fitted_edges[-1])
    assert plot.residual_bound == plot.residual_edges[-1] == -plot.residual_edges[0]
    assert plot.counts.shape == (m, m)
    assert plot.counts.dtype == np.int64
    assert (plot.counts >= 0).all()
    assert plot.overflow >= 0
    assert plot.counts.sum() + plot.overflow == round(plot.rows)
    assert plot.points_fitted.shape == plot.points_residual.shape == (min(round(plot.rows), MOST_POINTS),)
    for points, edges in ((plot.points_fitted, plot.fitted_edges), (plot.points_residual, plot.residual_edges)):
        reach = 1.000001 * (edges[1] - edges[0])  # of the frame
        assert (points >= edges[0] - reach).all()
        assert (points <= edges[-1] + reach).all()
    for name in ARRAYS:
        assert getattr(plot, name).shape == (m,)
    for lower, value, upper in (
        (plot.trend_lower, plot.trend, plot.trend_upper),
        (plot.spread_lower, plot.spread, plot.spread_upper),
        (plot.qq_lower, plot.qq_residual, plot.qq_upper),
    ):
        assert (lower <= value).all()
        assert (value <= upper).all()
        assert (np.abs(value) <= plot.residual_bound).all()
    assert plot.qq_theoretical.shape == plot.qq_residual.shape == plot.qq_line.shape == (33,)
    for name in ("qq_lower", "qq_residual", "qq_upper"):
        assert (np.diff(getattr(plot, name)) >= 0).all(), name
    for p in (plot.line_p_value, plot.curvature_p_value, plot.variance_p_value, plot.p_value):
        assert 0 < p <= 1
    assert plot.status in ("ok", "undefined")
    assert set(plot.findings) <= {"line", "curvature", "variance"}
    assert "\n" not in plot.verdict
    json.dumps(plot.to_dict(), allow_nan=False)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("epsilon", ["0.01", "1"])
@pytest.mark.usefixtures("few_copies")
@EVERY_TABLE
def test_every_release_has_the_form_of_every_other(name, epsilon, neighbours):
    plot = residual_plot.release(counted(name), epsilon=epsilon, neighbours=neighbours, noise=SeededNoise(5))
    check_form(plot)
    reference = residual_plot.release(counted("ordinary"), epsilon=1, noise=SeededNoise(6))
    assert plot.to_dict().keys() == reference.to_dict().keys()


@pytest.mark.parametrize("name", ["empty", "nulls", "one row"])
def test_a_table_with_hardly_a_row_says_nothing(name):
    plot = residual_plot.release(counted(name), epsilon=1, noise=SeededNoise(3))
    assert plot.status == "undefined"
    assert plot.verdict == "Too few rows for the noise: nothing can be said of the model."
    assert (plot.p_value, plot.findings) == (1.0, ())
    assert (plot.trend == 0).all()


@pytest.mark.parametrize("bins", [None, 2, 16, 64, 256])
@pytest.mark.usefixtures("few_copies")
@EVERY_TABLE
def test_without_noise_the_counts_are_a_plain_histogram_of_the_rows(name, bins):
    fitted, residual = TABLES[name]
    plot = residual_plot.release(counted(name), epsilon=1e9, bins=bins, noise=SeededNoise(1))
    check_form(plot)
    known = ~(np.isnan(fitted) | np.isnan(residual))
    rows = int(known.sum())
    assert plot.rows == rows
    if plot.residual_bound == 2.0**60:
        return  # sizes beyond 2^60 units count there, which no plain histogram does
    # cells are open towards 0 and closed at their far ends, so that numpy's are those of the mirror image there
    expected = np.zeros((plot.bins, plot.bins), dtype=int)
    for place in zip(
        *(
            _cells(values[known], edges)
            for values, edges in ((fitted, plot.fitted_edges), (residual, plot.residual_edges))
        ),
        strict=True,
    ):
        if None not in place:
            expected[place] += 1
    assert plot.counts.tolist() == expected.tolist()
    assert plot.overflow == rows - expected.sum()


def _cells(values, edges):
    found = []
    for value in values:
        inside = edges[0] <= value <= edges[-1] if edges[0] <= 0 <= edges[-1] else True
        # of a value on an edge: the cell on the side of 0
        place = np.searchsorted(edges, value, side="left" if value > 0 else "right") - 1
        found.append(int(place) if inside and 0 <= place < edges.size - 1 else None)
    return found


def test_without_noise_the_box_holds_what_was_asked_for():
    for name in ("ordinary", "fan", "far from 0", "large"):
        fitted, residual = TABLES[name]
        for coverage in (0.5, 0.95):
            plot = residual_plot.release(counted(name), epsilon=1e9, coverage=coverage, noise=SeededNoise(1))
            assert (np.abs(residual) <= plot.residual_bound).mean() >= coverage
            assert ((fitted >= plot.fitted_lower) & (fitted <= plot.fitted_upper)).mean() >= coverage
            assert plot.residual_bound <= 1.5 * np.quantile(np.abs(residual), coverage)


@pytest.mark.parametrize("name", ["ordinary", "fan", "curved", "heavy tails"])
def test_without_noise_trend_spread_and_quantiles_are_those_of_the_rows(name):
    fitted, residual = TABLES[name]
    plot = residual_plot.release(counted(name), epsilon=1e9, noise=SeededNoise(1))
    within = np.clip(residual, -plot.residual_bound, plot.residual_bound)
    cell = plot.residual_edges[1] - plot.residual_edges[0]
    column = np.searchsorted(plot.fitted_edges, fitted) - 1
    for i in range(0, plot.bins, 7):
        rows = within[column == i]
        if rows.size == 0:  # in a pool with others
            continue
        assert plot.column_rows[i] == rows.size
        assert plot.trend[i] == pytest.approx(rows.mean(), abs=cell)
        low, high = np.quantile(rows, [stats.norm.cdf(-1), stats.norm.cdf(1)])
        assert plot.spread[i] == pytest.approx((high - low) / 2, abs=2 * cell)
    np.testing.assert_allclose(plot.trend_upper - plot.trend_lower, 0, atol=1e-6)
    exact = np.quantile(within, stats.norm.cdf(plot.qq_theoretical))
    np.testing.assert_allclose(plot.qq_residual, exact, atol=cell)


def test_each_fault_is_named_and_a_sound_model_is_left_alone():
    found = {
        name: residual_plot.release(counted(name), epsilon=1, noise=SeededNoise(8))
        for name in ("ordinary", "fan", "curved", "far from 0")
    }
    assert found["ordinary"].findings == found["far from 0"].findings == ()
    assert "no proof" in found["ordinary"].verdict
    assert "at most 5 in 100" in found["ordinary"].verdict
    assert "variance" in found["fan"].findings
    assert "grows with the fitted values (unequal variance)" in found["fan"].verdict
    assert "curvature" in found["curved"].findings
    assert "the mean residual is higher at both ends than in the middle" in found["curved"].verdict.lower()
    fitted, residual = TABLES["ordinary"]
    tilted = ResidualCounts.from_arrays(fitted, residual - 0.05 * fitted)
    plot = residual_plot.release(tilted, epsilon=1, noise=SeededNoise(9))
    assert plot.findings[0] == "line"
    assert "residuals fall along the fitted values" in plot.verdict.lower()


def test_p_values_agree_with_tests_of_the_rows_where_there_is_no_noise():
    """RESET's and Breusch and Pagan's, on the same rows: of the same order, for coarse cells lose a little."""
    for seed in range(6):
        random = np.random.default_rng(seed)
        x = random.uniform(0, 50, 3000)
        residual = random.normal(0, 1 + 0.0012 * x) + 1.1e-4 * (x - 25) ** 2
        plot = residual_plot.release(ResidualCounts.from_arrays(x, residual), epsilon=1e9, noise=SeededNoise(seed))
        t = (x - x.mean()) / x.std()
        design = np.stack([np.ones_like(t), t, t**2], axis=1)
        for p_value, outcome, term in (
            (plot.curvature_p_value, residual, 2),
            (plot.variance_p_value, (residual - residual.mean()) ** 2, 1),
        ):
            coefficients, squares, _, _ = np.linalg.lstsq(design, outcome, rcond=None)
            error = np.sqrt(squares[0] / (x.size - 3) * np.linalg.inv(design.T @ design)[term, term])
            exact = abs(coefficients[term]) / error
            assert stats.norm.isf(p_value / 2) == pytest.approx(exact, abs=1.0)


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.usefixtures("few_copies")
def test_every_histogram_method_makes_a_plot(method):
    statistic = counted("fan")
    measurement = residual_plot.measure(statistic, epsilon=1, method=method, bins=8, noise=SeededNoise(2))
    plot = residual_plot.summarise(measurement, seed=1)
    check_form(plot)
    assert plot.method == measurement.method == method
    assert sum(spending.epsilon for spending in measurement.spendings) == measurement.epsilon == 1


@settings(deadline=None, max_examples=40)
@given(
    rows=ROWS,
    epsilon=st.sampled_from(["1e-9", "0.001", "0.5", "7", "1000000", "1e12"]),
    bins=st.sampled_from([None, 2, 8, 32]),
    coverage=st.sampled_from([0.5, 0.95, 0.999]),
    unit=st.sampled_from([1.0, 2.0**-1000, 2.0**900, 0.3]),
    neighbours=st.sampled_from(list(Neighbours)),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_small_table_breaks_a_release(rows, epsilon, bins, coverage, unit, neighbours, seed):
    statistic = ResidualCounts.from_arrays(*columns(rows), unit=unit)
    measurement = residual_plot.measure(
        statistic, epsilon=epsilon, bins=bins, coverage=coverage, neighbours=neighbours, noise=SeededNoise(seed)
    )
    check_form(residual_plot.summarise(measurement, seed=seed))


def test_nasty_rows_never_raise():
    statistic = ResidualCounts.from_arrays(*columns(nasty_pairs(5)))
    check_form(residual_plot.release(statistic, epsilon=1, noise=SeededNoise(1)))


def test_the_same_draw_and_seed_make_the_same_release():
    measurement = residual_plot.measure(counted("fan"), epsilon=1, noise=SecureNoise())
    again = residual_plot.Measurement.from_dict(json.loads(json.dumps(measurement.to_dict())))
    assert residual_plot.summarise(measurement, seed=7).to_dict() == residual_plot.summarise(again, seed=7).to_dict()
    assert residual_plot.summarise(measurement, seed=7).guarantee == "differentially private"
    other = residual_plot.summarise(measurement, seed=8)
    assert other.counts.tolist() == residual_plot.summarise(measurement, seed=7).counts.tolist()
    assert other.points_fitted.tolist() != residual_plot.summarise(measurement, seed=7).points_fitted.tolist()


def test_seeded_noise_is_stamped():
    assert residual_plot.release(counted("fan"), epsilon=1, noise=SeededNoise(1)).guarantee == "NOT PRIVATE"


def test_units_scale_everything():
    fitted, residual = TABLES["fan"]
    one = residual_plot.release(counted("fan"), epsilon=1, noise=SeededNoise(4))
    statistic = ResidualCounts.from_arrays(fitted * 1024, residual * 1024, unit=1024)
    other = residual_plot.release(statistic, epsilon=1, noise=SeededNoise(4))
    for name in ("fitted_edges", "residual_edges", "trend", "spread_upper", "qq_residual", "points_residual"):
        np.testing.assert_allclose(getattr(other, name), 1024 * getattr(one, name), rtol=1e-9)
    assert other.p_value == one.p_value


def test_the_scatter_has_as_many_points_in_a_cell_as_its_count_says():
    plot = residual_plot.release(counted("ordinary"), epsilon=1, noise=SeededNoise(2))
    cells, _, _ = np.histogram2d(
        plot.points_fitted, plot.points_residual, bins=[plot.fitted_edges, plot.residual_edges]
    )
    assert cells.tolist() == plot.counts.tolist()
    assert plot.points_fitted.size - cells.sum() == plot.overflow > 0
    random = np.random.default_rng(1)
    many = ResidualCounts.from_arrays(random.uniform(0, 50, 40_000), random.normal(size=40_000))
    plot = residual_plot.release(many, epsilon=1, noise=SeededNoise(2))
    assert plot.points_fitted.size == MOST_POINTS < plot.counts.sum()
    cells, _, _ = np.histogram2d(
        plot.points_fitted, plot.points_residual, bins=[plot.fitted_edges, plot.residual_edges]
    )
    in_proportion = plot.counts * (MOST_POINTS / (plot.counts.sum() + plot.overflow))
    np.testing.assert_allclose(cells, in_proportion, atol=1)


def test_rows_beyond_the_box_are_points_on_the_side_where_they_lie():
    """Without noise: as many points beyond each of its sides as rows."""
    fitted, residual = TABLES["heavy tails"]
    plot = residual_plot.release(counted("heavy tails"), epsilon=1e9, noise=SeededNoise(2))
    for points, rows, low, high in (
        (plot.points_fitted, fitted, plot.fitted_lower, plot.fitted_upper),
        (plot.points_residual, residual, -plot.residual_bound, plot.residual_bound),
    ):
        assert (points < low).sum() == (rows < low).sum()
        assert (points > high).sum() == (rows > high).sum()
    assert (plot.points_residual > plot.residual_bound).sum() > 50


def test_rows_outside_are_counted_with_the_cells_and_shown_as_overflow():
    fitted, residual = TABLES["heavy tails"]
    plot = residual_plot.release(counted("heavy tails"), epsilon=20, noise=SeededNoise(2))
    outside = (np.abs(residual) > plot.residual_bound) | (fitted < plot.fitted_lower) | (fitted > plot.fitted_upper)
    assert plot.overflow == pytest.approx(outside.sum(), abs=20)
    assert outside.sum() > 100


@given(st.lists(st.floats(-50, 200), min_size=1, max_size=30).map(np.array), st.integers(0, 1000), st.integers(0, 2000))
def test_the_nearest_counts_are_at_least_0_and_keep_their_total(cells, total, whole):
    near = on_the_simplex(cells, total)
    assert (near >= 0).all()
    assert near.sum() == pytest.approx(total, abs=1e-6)
    # nearest: the gradient is one number wherever a count is above 0, and no smaller where it is 0
    kept = near > 1e-9
    if kept.any():
        pull = (cells - near)[kept]
        assert np.ptp(pull) < 1e-6
        assert (cells[~kept] <= pull.max() + 1e-6).all()
    rows = in_whole_rows(near, whole)
    assert rows.sum() == (whole if near.sum() > 0 else 0)
    if near.sum() > 0:
        assert (np.abs(rows - near * whole / near.sum()) < 1 + 1e-6).all()


@given(st.lists(st.integers(0, 30), min_size=4, max_size=12), st.floats(0.01, 0.99))
def test_quantiles_invert_the_distribution_of_the_cells(cells, level):
    if sum(cells) == 0:
        return
    edges = np.arange(len(cells) - 1, dtype=float)
    found = quantiles(np.array(cells, float), np.array([level]), edges)[0]
    below = np.cumsum(cells)[:-1] / sum(cells)
    assert edges[0] <= found <= edges[-1]
    if below[0] < level < below[-1]:
        assert np.interp(found, edges, below) == pytest.approx(level, abs=1e-9)


@given(
    st.floats(-(2.0**60), 2.0**60),
    st.floats(0, 2.0**60),
    st.floats(2.0**-7, 2.0**60),
    st.sampled_from([2, 8, 64, 256]),
)
def test_a_box_is_made_of_edges_of_cells(lower, width, residual, bins):
    found = box(Bounds(residual=residual, fitted_lower=lower, fitted_upper=min(lower + width, 2.0**60)), bins)
    assert found.bins == bins
    assert found.fitted[0] <= lower
    assert found.fitted[-1] >= min(lower + width, 2.0**60)
    assert found.residual[-1] >= residual
    statistic = ResidualCounts.from_arrays([*found.fitted, *found.fitted], [*found.residual, *-found.residual])
    # an edge's own cell is the one on its side of 0, so each edge is in a cell that ends there
    assert found.counts(statistic).sum() == 2 * (bins + 1)


def test_the_grid_grows_with_what_its_counts_cost_and_never_beyond_its_bounds():
    options = {"coverage": 0.95, "neighbours": Neighbours.ADD_REMOVE}
    found = [default_bins(rows, epsilon=1.0, **options) for rows in (-50, 0, 10, 1000, 5000, 30_000, 10**9)]
    assert found == [4, 4, 4, 8, 16, 32, 64]
    assert default_bins(5000, epsilon=0.2, **options) == default_bins(1000, epsilon=1.0, **options)
    assert default_bins(10_000, epsilon=1.0, coverage=0.95, neighbours=Neighbours.REPLACE_ONE) == 16


def test_searches_end_and_stay_near_the_data():
    """One in a hundred boxes may be twice as wide as the data; none is endless."""
    random = np.random.default_rng(6)
    widths, statistic = [], ResidualCounts.from_arrays(random.uniform(0, 50, 1000), random.normal(size=1000))
    for seed in range(300):
        found = residual_plot.measure(statistic, epsilon=1, noise=SeededNoise(seed)).box
        widths.append((np.ptp(found.fitted) / 50, found.residual[-1] / 1.96))
    assert (np.array(widths) <= 2.0).mean(axis=0).min() >= 0.98
    assert np.median(widths, axis=0) == pytest.approx([1, 1], abs=0.2)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@settings(deadline=None, max_examples=30)
@given(rows=ROWS.filter(bool), row=st.tuples(st.floats(-300, 300), st.floats(-300, 300)), seed=st.integers(0, 99))
def test_one_row_moves_what_is_measured_by_what_is_paid_for(neighbours, rows, row, seed):
    """Given the same answers, a neighbour is asked the same questions, and one row moves them as the proofs say."""
    replaced = neighbours is Neighbours.REPLACE_ONE
    other = [*rows[1:], row] if replaced else [*rows, row]

    def asked(table, noise):
        statistic = ResidualCounts.from_arrays(*columns(table))
        residual_plot.measure(statistic, epsilon=1, neighbours=neighbours, noise=noise)
        return noise

    first = asked(rows, Recording(source=SeededNoise(seed)))
    second = asked(other, Recording(answers=first.given))
    assert len(first.asked) == len(second.asked) == 8
    size, *searches, cells = zip(first.asked, second.asked, strict=True)
    paid = 2 if replaced else 1
    assert np.abs(size[0].values - size[1].values).sum() <= size[0].l1_sensitivity == 1
    assert np.abs(cells[0].values - cells[1].values).sum() <= cells[0].l1_sensitivity == paid
    for (threshold, _), (one, two) in zip(searches[::2], searches[1::2], strict=True):
        assert threshold.values.tolist() == [0]
        assert threshold.l1_sensitivity == one.l1_sensitivity == paid
        moves = two.values - one.values  # of nested counts: up from one set on, and down from another
        assert np.abs(np.diff(moves, prepend=0)).sum() <= paid
    spent = size[0].epsilon + cells[0].epsilon + sum(one.epsilon for _, one in searches[::2])
    assert float(spent) == pytest.approx(1, abs=1e-9)
    assert spent <= 1


@pytest.mark.parametrize(
    "options",
    [
        {"method": "deciles"},
        {"bins": 1},
        {"bins": 12},
        {"bins": 512},
        {"coverage": 1},
        {"coverage": 0.2},
        {"confidence": 1},
        {"epsilon": 0},
        {"epsilon": "nan"},
        {"delta": -1},
    ],
    ids=str,
)
def test_options_out_of_bounds_are_refused_before_any_noise(options):
    noise = Recording()
    with pytest.raises(RequestRefused):
        residual_plot.release(counted("empty"), **{"epsilon": 1, "noise": noise, **options})
    assert noise.asked == []


def test_results_compare_by_what_they_hold():
    plot = residual_plot.release(counted("fan"), epsilon=1, noise=SeededNoise(2))
    assert replace(plot, rows=5.0).to_dict() != plot.to_dict()
