import json
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, theilslopes

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import linear_regression as lines
from spark_jobs.diagnostics.linear_regression.method_choice import choose
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.zcdp import rho_within
from spark_jobs.statistics import Moments, PointCounts
from tests.support.noises import Still
from tests.support.point_tables import KEYS, counted, rows_of, snapped

RELATIONS = list(Neighbours)
PURE = ("noisy_moments", "noisy_stats", "noisy_intercept", "dp_grad_descent")
ZCDP = ("noisy_moments_zcdp", "noisy_stats_zcdp", "dp_grad_descent_zcdp")
THEIL_SEN = ("dp_exp_theil_sen", "dp_wide_theil_sen", "dp_ss_theil_sen")
LEAST_SQUARES = ("noisy_moments", "noisy_stats", "noisy_moments_zcdp", "noisy_stats_zcdp")
SETTINGS = [
    *(pytest.param(method, Neighbours.ADD_REMOVE, True, id=method) for method in ("auto", *PURE, *ZCDP)),
    *(
        pytest.param(method, Neighbours.REPLACE_ONE, True, id=f"{method}, replace-one, public sizes")
        for method in ("auto", *PURE, *ZCDP, *THEIL_SEN)
    ),
    *(
        pytest.param(method, Neighbours.REPLACE_ONE, False, id=f"{method}, replace-one, private sizes")
        for method in ("auto", *PURE, *ZCDP)
    ),
]
EVERY_SETTING = pytest.mark.parametrize(("method", "neighbours", "public_sizes"), SETTINGS)
OPEN = {"neighbours": Neighbours.REPLACE_ONE, "public_sizes": True}
BOX = {"lower": (-3.0, 100.0), "upper": (7.0, 900.0)}


def cost(method, epsilon=1):
    return {"epsilon": epsilon, "delta": "1e-6" if method in ZCDP else 0}


def check_form(found, groups, places=2):
    """What holds for every release, whatever the rows were."""
    assert type(found).violations(json.loads(json.dumps(found.to_dict(), allow_nan=False))) == []
    (y_low, y_high), published = found.y_bounds, found.published()
    for array in (found.predictions.value, *found.predictions.ends()):
        assert array.shape == (groups, places)
        assert ((array >= y_low - 1e-9 * abs(y_low)) & (array <= y_high * (1 + 1e-9)) | np.isnan(array)).all()
    names = (f"{of}{end}" for of in ("slope", "intercept") for end in ("", "_lower", "_upper"))
    for name in ("rows", *names):
        assert published[name].shape == (groups,)
        assert not np.isinf(published[name]).any()
    undefined = np.array(found.status) == "undefined"
    known = np.array([method in (*LEAST_SQUARES, "noisy_intercept") for method in found.methods])
    assert np.array_equal(~np.isnan(found.slope.lower), known & ~undefined)
    assert not (found.rows < 0).any()
    assert len(found.status) == len(found.methods) == groups


@pytest.mark.slow
@EVERY_SETTING
@pytest.mark.parametrize("epsilon", ["0.05", "1", "100"])
def test_every_release_has_the_form_of_every_other(method, neighbours, public_sizes, epsilon):
    options = {"method": method, "neighbours": neighbours, "public_sizes": public_sizes, **cost(method, epsilon)}
    found = lines.release(counted(**BOX), noise=SeededNoise(5), **options)
    nothing = PointCounts.from_arrays([], [], groups=np.array([], dtype=str), keys=KEYS, **BOX)
    reference = lines.release(nothing, noise=SeededNoise(6), **options)
    for each in (found, reference):
        check_form(each, len(KEYS))
        assert each.keys == KEYS
        assert each.delta == (0 if method not in ZCDP else Decimal("1e-6"))
    assert found.to_dict().keys() == reference.to_dict().keys()
    if not found.public_sizes:
        assert found.methods == reference.methods


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "noisy_stats"])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.verify
def test_ten_thousand_groups_of_one_row_each_are_released_like_any_other(method, neighbours):
    x, y = np.random.default_rng(1).random((2, 10_000))
    points = PointCounts.from_arrays(x, y, groups=np.arange(10_000), keys=range(10_000))
    found = lines.release(points, method=method, epsilon=1, neighbours=neighbours, noise=SecureNoise())
    check_form(found, 10_000)
    assert found.guarantee == "differentially private"


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("method", LEAST_SQUARES)
def test_without_noise_lines_are_those_of_least_squares(method, neighbours):
    keys = ("line", "cloud", "steep", "outside", "two corners")
    points = counted(*keys, **BOX)
    found = lines.release(
        points, method=method, neighbours=neighbours, at=(0, 0.25, 0.75, 1), noise=SeededNoise(1), **cost(method, 1e11)
    )
    assert set(found.status) == {"ok"}
    (x_low, y_low), (x_high, y_high) = BOX["lower"], BOX["upper"]
    for group, key in enumerate(keys):
        model = sm.OLS(
            *(f(v) for f, v in zip((np.asarray, sm.add_constant), snapped(points, group)[::-1], strict=True))
        )
        intercept, slope = model.fit().params
        close = {"rel": 1e-3 if method in ZCDP else 1e-5}
        assert found.slope.value[group] == pytest.approx(slope, **close)
        assert found.intercept.value[group] == pytest.approx(intercept, **close)
        assert found.predictions.value[group] == pytest.approx(
            np.clip(intercept + slope * found.x, y_low, y_high), **close
        )
        # rounding may have moved y by half a step, and x by half a step along the line
        half_a_step = points.grid.off * ((y_high - y_low) + abs(slope) * (x_high - x_low))
        assert ((found.predictions.upper[group] - found.predictions.lower[group]) < 20 * half_a_step).all()
        assert found.rows[group] == pytest.approx(points.usable[group])
        # and of the rows themselves up to the grid
        x, y = (np.clip(values, 0, 1) for values in rows_of(key))
        exact = np.polynomial.polynomial.polyfit(x, y, 1)
        heights = np.clip(exact[0] + exact[1] * np.array([0, 0.25, 0.75, 1]), 0, 1)
        assert (found.predictions.value[group] - y_low) / (y_high - y_low) == pytest.approx(heights, abs=0.02)
    assert found.x == pytest.approx(x_low + (x_high - x_low) * np.array([0, 0.25, 0.75, 1]))


def test_without_noise_the_mean_of_y_is_a_level_line():
    points = counted("line", "cloud", **BOX)
    found = lines.release(points, method="noisy_intercept", epsilon=1e11, noise=SeededNoise(1))
    means = [snapped(points, group)[1].mean() for group in (0, 1)]
    assert found.slope.value.tolist() == [0, 0]
    assert found.predictions.value == pytest.approx(np.stack([means, means], axis=1), rel=1e-7)


@pytest.mark.parametrize("method", THEIL_SEN)
def test_without_noise_theil_sen_takes_the_median_over_all_pairs(method):
    """Against the pairs one by one, and against scipy where the pairs agree, up to the grid."""
    points = counted("line", "steep", **BOX)
    found = lines.release(points, method=method, **OPEN, matchings=10_000, epsilon=1e9, noise=SeededNoise(1))
    (_, y_low), (_, y_high) = BOX["lower"], BOX["upper"]
    x, y = snapped(points, 0)
    pairs = [(i, j) for i, j in combinations(range(x.size), 2) if x[i] != x[j]]
    heights = [
        np.median([y[i] + (y[j] - y[i]) / (x[j] - x[i]) * (place - x[i]) for i, j in pairs]) for place in found.x
    ]
    assert found.predictions.value[0] == pytest.approx(heights, abs=(y_high - y_low) * 0.002)
    for group in (0, 1):
        slope, intercept, *_ = theilslopes(*snapped(points, group)[::-1])
        expected = np.clip(intercept + slope * found.x, y_low, y_high)
        assert found.predictions.value[group] == pytest.approx(expected, abs=(y_high - y_low) * 0.03)


def test_gradients_go_towards_the_line_of_least_squares():
    points = counted("line", "cloud")
    found = lines.release(points, method="dp_grad_descent", epsilon=1e9, noise=SeededNoise(1))
    exact = lines.release(points, method="noisy_moments", epsilon=1e9, noise=SeededNoise(1))
    assert found.predictions.value == pytest.approx(exact.predictions.value, abs=0.03)


@EVERY_SETTING
def test_results_come_in_the_units_of_the_user(method, neighbours, public_sizes):
    """A box that is moved and stretched by powers of two: the same cells, the same noise, the same lines."""
    options = {"method": method, "neighbours": neighbours, "public_sizes": public_sizes, **cost(method, 4)}
    keys = ("line", "cloud", "two corners")
    unit = lines.release(counted(*keys), noise=SeededNoise(3), **options)
    moved = lines.release(counted(*keys, lower=(-8, 16), upper=(-4, 80)), noise=SeededNoise(3), **options)
    assert moved.methods == unit.methods
    for name in ("value", "lower", "upper"):
        found, of_unit = getattr(moved.predictions, name), getattr(unit.predictions, name)
        assert found == pytest.approx(16 + 64 * of_unit, rel=1e-9, nan_ok=True)
        found, of_unit = getattr(moved.slope, name), getattr(unit.slope, name)
        assert found == pytest.approx(16 * of_unit, rel=1e-9, nan_ok=True)
    assert moved.intercept.value == pytest.approx(16 + 64 * unit.intercept.value + 8 * moved.slope.value, rel=1e-9)


def test_a_group_without_a_spread_of_x_fails_by_its_noisy_spread_alone():
    """The reason is not told, and is often none of the data's."""
    groups = 400
    x, y = np.full(groups * 30, 0.7), np.full(groups * 30, 0.25)
    points = PointCounts.from_arrays(x, y, groups=np.repeat(np.arange(groups), 30), keys=range(groups))
    for method in ("noisy_moments", "noisy_stats"):
        found = lines.release(points, method=method, epsilon=20, noise=SeededNoise(2))
        failed = np.array(found.status) == "undefined"
        assert 0.3 < failed.mean() < 0.7
        assert np.array_equal(np.isnan(found.slope.value), failed)
        level = found.predictions.value[:, 0] == found.predictions.value[:, 1]
        assert np.array_equal(level, failed if method == "noisy_stats" else np.zeros(groups, dtype=bool))
        assert np.median(np.abs(found.predictions.value[failed, 1] - 0.25)) < 0.05
        low, high = found.predictions.lower[failed], found.predictions.upper[failed]
        if method == "noisy_stats":
            assert (low == 0).all()
            assert (high == 1).all()
        else:  # the other groups tell
            assert ((low <= 0.25) & (high >= 0.25)).mean() > 0.9


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("confidence", "epsilon"), [(0.9, 1), (0.9, 8), (0.5, 8), (0.99, 8)])
@pytest.mark.parametrize("method", [*LEAST_SQUARES, "noisy_intercept"])
def test_intervals_hold_what_the_method_gives_without_noise(method, confidence, epsilon, neighbours):
    """Of 400 groups with the same rows each; a miss by chance in 1 of 100,000."""
    groups = 400
    random = np.random.default_rng(3)
    x = np.clip(random.normal(0.4, 0.2, 120), 0, 1)
    y = np.clip(0.3 + 0.4 * x + random.normal(0, 0.1, 120), 0, 1)
    points = PointCounts.from_arrays(
        np.tile(x, groups), np.tile(y, groups), groups=np.repeat(np.arange(groups), 120), keys=range(groups)
    )
    options = {"method": method, "neighbours": neighbours, "confidence": confidence}
    exact = lines.release(points, noise=SeededNoise(1), **options, **cost(method, 1e11))
    found = lines.release(points, noise=SeededNoise(4), **options, **cost(method, epsilon))
    least = binom.ppf(1e-5, groups, confidence) / groups
    # groups that are all alike seem to differ a little, and intervals are then those of groups that do
    wide = method.startswith(("noisy_stats", "noisy_moments"))
    most = 1 if wide else binom.ppf(1 - 1e-5, groups, confidence) / groups
    for name, slack in (("predictions", 1e-6), ("slope", 1e-4)):
        low, high, value = (found.published()[f"{name}{end}"] for end in ("_lower", "_upper", ""))
        true = getattr(exact, name).value
        held = (low - slack <= true) & (true <= high + slack)
        defined = np.array(found.status) == "ok"
        if name == "slope":
            held |= ~defined  # what is undefined claims nothing
        if name == "predictions" or method != "noisy_intercept":
            assert held.mean(axis=0).min() >= least
        if name == "predictions" and (epsilon == 8 and "zcdp" not in method):
            assert held.mean(axis=0).min() <= most + 0.03
        assert defined.mean() > 0.5
        assert ((low <= value) & (value <= high))[defined].all()
        assert name == "predictions" or np.isnan(value[~defined]).all()


def test_slopes_are_shrunk_where_noise_drowns_them_and_nowhere_else():
    groups = 300
    random = np.random.default_rng(9)
    x, noise = 0.4 + 0.2 * random.random(60), random.normal(0, 0.05, 60)
    points = PointCounts.from_arrays(
        np.tile(x, groups), np.tile(x + noise, groups), groups=np.repeat(np.arange(groups), 60), keys=range(groups)
    )
    exact = lines.release(points, method="noisy_moments", epsilon=1e11, noise=SeededNoise(1)).predictions.value
    drowned, clear = (
        lines.release(points, method="noisy_moments", epsilon=e, noise=SeededNoise(1)) for e in (16, 2000)
    )
    plain = [
        part.draw.lines().predict([0.25, 0.75])
        for part in lines.measure(points, method="noisy_moments", epsilon=16, noise=SeededNoise(1)).parts
    ]
    error = np.abs(drowned.predictions.value - exact)
    assert (error**2).mean() < 0.8 * (np.abs(plain[0] - exact) ** 2).mean()
    assert np.abs(clear.slope.value).mean() == pytest.approx(np.abs(exact[:, 1] - exact[:, 0]).mean() * 2, rel=0.05)


@pytest.mark.parametrize(
    ("rows", "epsilon", "method"),
    [
        (19, 1, "noisy_intercept"),
        (20, 1, "noisy_moments"),
        (5, 4, "noisy_moments"),
        (20_000, 1, "noisy_moments"),
        (0, 1000, "noisy_intercept"),
    ],
)
def test_auto_chooses_by_public_facts(rows, epsilon, method):
    sizes = np.array([float(rows), 1.0])
    options = {"epsilon": epsilon, "groups": 2, "size_bound": None}
    assert choose("auto", public_rows=sizes, **options).tolist() == [method, "noisy_intercept"]
    assert choose("noisy_stats", public_rows=sizes, **options).tolist() == ["noisy_stats"] * 2
    # a size that is private is not looked at
    private = {**options, "public_rows": None}
    assert choose("auto", **private).tolist() == ["noisy_moments"] * 2
    guess = "noisy_intercept" if rows * epsilon < 20 else "noisy_moments"
    assert choose("auto", **{**private, "size_bound": rows}).tolist() == [guess] * 2
    assert set(choose("auto", **{**private, "groups": 15, "size_bound": rows})) == {guess}
    # sixteen groups have lines to borrow from one another
    assert set(choose("auto", **{**private, "groups": 16, "size_bound": rows})) == {"noisy_moments"}
    many = {**options, "groups": 17, "public_rows": np.append(sizes, np.ones(15))}
    assert set(choose("auto", **many)) == {"noisy_moments"}


def test_sizes_decide_under_auto_where_they_are_public_and_halved_budgets_where_they_are_not():
    points = counted()
    options = {"epsilon": 1, "noise": SeededNoise(1)}
    chosen = dict(zip(KEYS, lines.release(points, **OPEN, **options).methods, strict=True))
    assert {chosen[key] for key in ("line", "missing", "one x", "two corners")} == {"noisy_moments"}
    assert chosen["empty"] == chosen["one row"] == "noisy_intercept"
    for bound, method in ((39, "noisy_intercept"), (40, "noisy_moments")):
        private = lines.release(points, neighbours=Neighbours.REPLACE_ONE, size_bound=bound, **options)
        assert set(private.methods) == {method}
        assert not private.public_sizes


def test_missing_values_keep_public_sizes_and_drop_out_of_private_ones():
    points = counted("missing")
    for sizes, rows in ((OPEN, 300), ({}, points.usable[0]), ({**OPEN, "public_sizes": False}, points.usable[0])):
        found = lines.release(points, method="noisy_moments", epsilon=1e9, **sizes, noise=SeededNoise(1))
        assert found.rows[0] == pytest.approx(rows)
    usable = lines.release(points, method="dp_wide_theil_sen", epsilon=1e9, **OPEN, noise=SeededNoise(1))
    assert usable.rows[0] == 300
    assert usable.predictions.value[0] == pytest.approx([0.25, 0.75], abs=0.01)


def test_moments_are_enough_for_least_squares_and_refused_by_what_needs_points():
    points = counted(**BOX)
    for method in ("noisy_moments", "noisy_stats", "noisy_intercept"):
        found = [
            lines.release(given, method=method, epsilon=1, noise=SeededNoise(1)).to_dict()
            for given in (points, Moments.from_points(points))
        ]
        assert found[0] == found[1]
    assert lines.release(Moments.from_points(points), epsilon=9, **OPEN, noise=SeededNoise(1)).methods
    for method in ("dp_exp_theil_sen", "dp_grad_descent"):
        with pytest.raises(InvalidRequest, match="method: got .*; needs the points, not their sums"):
            lines.release(Moments.from_points(points), method=method, epsilon=1, **OPEN)


@EVERY_SETTING
def test_the_same_draw_and_seed_make_the_same_release(method, neighbours, public_sizes):
    options = {"method": method, "neighbours": neighbours, "public_sizes": public_sizes, **cost(method)}
    measurement = lines.measure(counted(**BOX), noise=SecureNoise(), **options)
    again = lines.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(measurement.to_dict(), allow_nan=False)))
    assert lines.summarise(measurement, seed=7).to_dict() == lines.summarise(again, seed=7).to_dict()
    assert measurement.epsilon == 1
    assert measurement.groups == len(KEYS)


@pytest.mark.parametrize("method", [m for m in ZCDP if m != "dp_grad_descent_zcdp"])
def test_methods_of_zcdp_spend_what_the_conversion_leaves_and_a_quarter_where_a_removal_and_an_addition_count(method):
    rho = Fraction(rho_within(2, "1e-6"))
    for neighbours, public, part in (
        (Neighbours.ADD_REMOVE, True, 1),
        (Neighbours.REPLACE_ONE, True, 1),
        (Neighbours.REPLACE_ONE, False, 4),
    ):
        still = Still()
        lines.measure(
            counted("line"),
            method=method,
            epsilon=2,
            delta="1e-6",
            neighbours=neighbours,
            public_sizes=public,
            noise=still,
        )
        assert sum(Fraction(cost) for cost, _ in still.asked) == pytest.approx(rho / part, rel=1e-25)
        assert sum(Fraction(cost) for cost, _ in still.asked) <= rho / part


@pytest.mark.slow
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.floats(-1, 2), st.floats(-1, 2)), max_size=12),
    cells=st.sampled_from([2, 4, 1024, 2**13]),
    epsilon=st.sampled_from(["0.001", "0.5", "7", "1000000"]),
    setting=st.sampled_from([each.values for each in SETTINGS]),
    seed=st.integers(0, 2**32 - 1),
    at=st.sampled_from([(0.5,), (0.25, 0.75), (1.0, 0.0, 0.5)]),
)
@settings(deadline=None, max_examples=60)
def test_no_small_table_breaks_a_release(rows, cells, epsilon, setting, seed, at):
    method, neighbours, public_sizes = setting
    group, x, y = ([row[i] for row in rows] for i in range(3))
    points = PointCounts.from_arrays(x, y, groups=np.array(group, dtype=int), keys=range(3), cells=cells)
    options = {"method": method, "neighbours": neighbours, "public_sizes": public_sizes, **cost(method, epsilon)}
    check_form(lines.release(points, at=at, noise=SeededNoise(seed), **options), 3, len(at))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"method": "ridge"}, "method: got 'ridge'"),
        ({"at": ()}, "at: got"),
        ({"at": (0.5, 1.5)}, "at.1: got 1.5"),
        ({"at": (float("nan"),)}, "at.0: got"),
        ({"size_bound": 0}, "size_bound: got 0"),
        ({"matchings": 0}, "matchings: got 0"),
        ({"confidence": 1}, "confidence: got 1"),
        ({"epsilon": 0}, "epsilon: got '0'; must be above 0"),
        ({"epsilon": "nan"}, "epsilon: got 'nan'"),
        ({"delta": -1}, "delta: got '-1'"),
        ({"method": "noisy_moments_zcdp"}, "delta: got"),
        *(({"method": m}, f"method: got '{m}'; is private only if sizes are public: with") for m in THEIL_SEN),
        (
            {"method": "dp_exp_theil_sen", "neighbours": Neighbours.REPLACE_ONE, "public_sizes": False},
            "method: got 'dp_exp_theil_sen'; is private only if sizes are public: with",
        ),
    ],
    ids=str,
)
def test_options_out_of_bounds_are_refused_in_a_line(options, line):
    with pytest.raises(InvalidRequest) as refused:
        lines.release(counted("line"), **{"epsilon": 1, "noise": SeededNoise(1), **options})
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_total_of_rows_is_not_lifted_by_empty_groups():
    """Of 2,000 empty groups: sizes of at least 0 add up to thousands of rows, the total stays about 0."""
    nothing, keys = np.zeros(0), [f"{number}" for number in range(2_000)]
    points = PointCounts.from_arrays(nothing, nothing, groups=np.array([], dtype=str), keys=keys, lower=0, upper=1)
    found = lines.release(points, epsilon=1, method="noisy_moments", noise=SeededNoise(5))
    scale = found.rows[found.rows > 0].std()
    assert found.rows.sum() > 500 * scale
    assert abs(found.total_rows) < 8 * np.sqrt(2_000) * scale
    assert (
        lines.release(points, epsilon=1, method="dp_grad_descent", noise=SeededNoise(5)).to_dict()["total_rows"] is None
    )
