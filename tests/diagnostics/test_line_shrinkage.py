"""Lines from noisy sums that borrow from one another: what is known of the right answer."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.linear_regression import robust_intervals
from spark_jobs.diagnostics.linear_regression.intervals import Simulated, half_widths_of_sums
from spark_jobs.diagnostics.linear_regression.robust_intervals import critical_values, robust_half_widths
from spark_jobs.diagnostics.linear_regression.shrinkage import HEIGHTS, SCALES, SLOPES, _common, shrunk_lines
from spark_jobs.mechanisms.regression.moments import NoisyMoments

PLACES = np.array([-0.5, 0.5])
SUMS = ("rows", "x", "y", "xx", "xy")


def exact_moments(height, slope, *, rows=80.0, mean=0.1, spread=0.2, epsilon=1e6, public=False):
    """Exact sums of groups whose least squares lines have these heights over 0 and slopes; shape (groups,)."""
    height, slope, rows, mean, spread = np.broadcast_arrays(height, slope, rows, mean, spread)
    squares = spread + mean**2
    return NoisyMoments(
        rows=rows.astype(float),
        x=rows * mean,
        y=rows * (height + slope * mean),
        xx=rows * squares,
        xy=rows * (height * mean + slope * squares),
        cost=epsilon,
        gaussian=True,
        neighbours=Neighbours.REPLACE_ONE if public else Neighbours.ADD_REMOVE,
        steps=2048,
    )


def noised(exact, rho, seed):
    """The same with the noise that it would have at this rho."""
    moments, random = replace(exact, cost=rho), np.random.default_rng(seed)
    stddevs = np.sqrt(np.diag(moments.covariance))
    drawn = {
        name: getattr(exact, name) + stddev * random.normal(size=exact.rows.size)
        for name, stddev in zip(SUMS, stddevs, strict=True)
    }
    return replace(moments, **drawn)


def error(lines, exact):
    return float(((lines.at(PLACES) - exact) ** 2).mean())


def heights(moments):
    return np.stack([2 * (moments.lines().centre + moments.lines().slope * (p / 2)) - 1 for p in PLACES], axis=1)


def varied(groups, *, slopes, levels=0.1, seed=1):
    random = np.random.default_rng(seed)
    return random.normal(-0.2, levels, groups), random.normal(0.6, slopes, groups)


@pytest.mark.parametrize("public", [True, False])
def test_where_there_is_no_noise_lines_are_their_own(public):
    height, slope = varied(40, slopes=0.5)
    for spread in (0.3, 1e-3):
        moments = exact_moments(height, slope, spread=spread, epsilon=1e12, public=public)
        np.testing.assert_allclose(shrunk_lines(moments).at(PLACES), heights(moments), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("public", [True, False])
def test_groups_that_are_alike_help_one_another(public):
    """A hundred lines that hardly differ are told nearly as well as one of all their rows; by itself none is told."""
    exact = exact_moments(*varied(100, slopes=0.01, levels=0.01), rows=60.0, public=public)
    moments = noised(exact, 0.02, seed=4)
    alone = [shrunk_lines(_only(moments, group)).at(PLACES)[0] for group in range(100)]
    together = error(shrunk_lines(moments), heights(exact))
    assert together < 0.15 * float(((np.array(alone) - heights(exact)) ** 2).mean())
    assert together < 0.1 * float(np.median(((heights(moments) - heights(exact)) ** 2).mean(axis=1)))


def test_errors_are_close_to_those_of_the_best_estimate_there_is():
    """Of groups that vary normally about a line: the posterior mean of one who knows that line and that variation."""
    groups, spreads, found, best = 400, np.diag([0.1**2, 0.3**2]), [], []
    for seed, rho in enumerate((0.02, 0.2, 2.0)):
        height, slope = varied(groups, slopes=0.3, seed=seed)
        exact = exact_moments(height, slope, rows=60.0, mean=0.0, spread=0.25, public=True)
        moments = noised(exact, rho, seed=seed)
        design, noise = 60.0 * np.diag([1.0, 0.25]), moments.covariance[1, 1]
        # as if the sums of a and a a had no noise, so that this is better than any estimate
        gain = spreads @ design @ np.linalg.inv(design @ spreads @ design + noise * np.eye(2))
        about = np.array([-0.2, 0.6])
        shown = np.stack([moments.y, moments.xy], axis=-1) - design @ about
        lines = about + shown @ gain.T
        best.append(float((((lines - np.stack([height, slope], -1)) @ [[1, 1], [-0.5, 0.5]]) ** 2).mean()))
        found.append(error(shrunk_lines(moments), heights(exact)))
        assert found[-1] < 0.9 * float(((heights(moments) - heights(exact)) ** 2).mean())
    assert (np.array(found) < 1.3 * np.array(best)).all()
    assert found[-1] < found[0]


def test_a_group_that_is_known_well_keeps_its_own_line():
    height, slope = varied(60, slopes=0.02)
    slope[0], rows = -0.8, np.full(60, 40.0)
    rows[0] = 20_000
    exact = exact_moments(height, slope, rows=rows)
    found = shrunk_lines(noised(exact, 0.05, seed=3))
    assert found.slope[0] == pytest.approx(-0.8, abs=0.05)
    assert np.sqrt(((found.slope[1:] - 0.6) ** 2).mean()) < 0.3


@pytest.mark.slow
@pytest.mark.verify
def test_a_group_alone_is_drawn_to_the_middle_of_the_box_by_the_noise():
    exact = exact_moments(np.array([0.5]), np.array([1.0]), rows=500.0, spread=0.02)
    sizes = []
    for rho in (1e-9, 1e-3, 0.1, 1e9):
        found = [shrunk_lines(noised(exact, rho, seed)) for seed in range(100)]
        sizes.append((np.abs(np.mean([each.slope[0] for each in found])), np.mean([each.height[0] for each in found])))
    slopes, levels = np.array(sizes).T
    assert (np.diff(slopes) > 0).all()
    assert slopes[0] < 0.1
    assert slopes[-1] == pytest.approx(1, abs=1e-3)
    assert abs(levels[0]) < 0.2
    assert levels[-1] == pytest.approx(0.5 + found[0].place[0], abs=1e-3)
    assert HEIGHTS == SLOPES == 1 / 3


@pytest.mark.parametrize("groups", [1, 2, 17])
def test_the_order_of_groups_does_not_matter(groups):
    moments = noised(exact_moments(*varied(groups, slopes=0.2)), 0.1, seed=6)
    order = np.random.default_rng(2).permutation(groups)
    found, turned = shrunk_lines(moments), shrunk_lines(_only(moments, order))
    np.testing.assert_allclose(turned.at(PLACES), found.at(PLACES)[order], rtol=1e-12)


@pytest.mark.slow
@given(
    sums=st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 5), min_size=1, max_size=6),
    cost=st.sampled_from(["1e-9", "0.1", "1e12"]),
    gaussian=st.booleans(),
    neighbours=st.sampled_from(list(Neighbours)),
)
@example(
    sums=[*[(0.0,) * 5] * 3, (0.0, 1.0, 14361.0, 0.0, 0.0), (57.0, 0.0, 0.0, 0.0, 0.0)],
    cost="1e12",
    gaussian=False,
    neighbours=Neighbours.ADD_REMOVE,
)
@settings(deadline=None, max_examples=80)
def test_no_sums_break_it(sums, cost, gaussian, neighbours):
    arrays = dict(zip(SUMS, np.array(sums).T, strict=True))
    found = shrunk_lines(NoisyMoments(cost=cost, gaussian=gaussian, neighbours=neighbours, steps=2048, **arrays))
    assert np.isfinite(found.at(PLACES)).all()


def _only(moments, which):
    return replace(moments, **{name: np.atleast_1d(getattr(moments, name)[which]) for name in SUMS})


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_critical_values_are_those_of_the_worst_law(confidence):
    """Two-point laws with the second moment are missed at most as often as stated, and some exactly so often."""
    shares, values = robust_intervals._SHARES, critical_values(confidence)
    for i in (1, 20, 40, 55):
        moment = shares[i] / (1 - shares[i])
        half = values[i] * np.sqrt(1 + moment)
        missed = []
        for weight in np.linspace(0.02, 1, 99):
            bias = np.sqrt(moment / weight)
            beyond = stats.norm.sf(half - bias) + stats.norm.sf(half + bias)
            missed.append(weight * beyond + (1 - weight) * 2 * stats.norm.sf(half))
        assert max(missed) == pytest.approx(1 - confidence, abs=2e-3)
    assert (np.diff(values) >= -1e-9).all()
    assert values[0] == pytest.approx(stats.norm.isf((1 - confidence) / 2))


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_critical_values_of_laws_with_one_peak_are_those_of_the_worst_of_them(confidence):
    """Mixtures of 0 and a uniform law, by a fine sum; laws with two peaks are missed more often."""
    shares, values = robust_intervals._SHARES, critical_values(confidence, one_peak=True)
    assert (values <= critical_values(confidence) + 1e-9).all()
    assert values[-1] == pytest.approx(2 / 3 / np.sqrt(1 - confidence), rel=0.01)  # Vysochanskij and Petunin
    for i in (1, 20, 40, 55):
        moment = shares[i] / (1 - shares[i])
        half = values[i] * np.sqrt(1 + moment)
        missed, two_peaks = [], []
        for weight in np.linspace(0.02, 1, 99):
            end = np.sqrt(3 * moment / weight)
            bias = end * (np.arange(4000) + 0.5) / 4000
            beyond = (stats.norm.sf(half - bias) + stats.norm.sf(half + bias)).mean()
            missed.append(weight * beyond + (1 - weight) * 2 * stats.norm.sf(half))
            two_peaks.append(weight * stats.norm.sf(half - np.sqrt(moment / weight)))
        assert max(missed) == pytest.approx(1 - confidence, abs=2e-3)
        assert i == 1 or max(two_peaks) > 1 - confidence


def intervals(moments, exact, confidence=0.9):
    """Which intervals of heights hold, those of many groups and those of each by itself, with their half-widths."""
    shrunk, lines = shrunk_lines(moments), heights(moments)
    robust = robust_half_widths(shrunk, PLACES, confidence)
    alone = half_widths_of_sums(moments, PLACES, Simulated.drawn(seed=1, confidence=confidence))
    exact = heights(exact)
    return (
        (np.abs(shrunk.at(PLACES) - robust.heights_above - exact) <= robust.heights, robust.heights),
        (np.abs(lines - alone.heights_above - exact) <= alone.heights, alone.heights),
    )


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.parametrize("law", ["normal", "heavy", "two kinds"])
def test_intervals_of_many_groups_hold_on_average_where_those_of_single_groups_say_nothing(law):
    random, held, ratios = np.random.default_rng(5), [], []
    for seed in range(40):
        apart = {
            "normal": random.normal(size=(2, 130)),
            "heavy": random.standard_t(3, size=(2, 130)) / np.sqrt(3),
            "two kinds": 3 * (random.random((2, 130)) < 0.1),
        }[law]
        exact = exact_moments(-0.2 + 0.1 * apart[0], 0.6 + 0.2 * apart[1], rows=60.0)
        (inside, widths), (_, own) = intervals(noised(exact, 0.5, seed), exact)
        held.append(inside.mean())
        ratios.append(np.median(widths) / np.median(own))
    assert 0.88 <= np.mean(held) <= 0.98
    assert np.mean(ratios) < 0.8


@pytest.mark.slow
@pytest.mark.verify
def test_intervals_of_groups_with_little_spread_of_x_hold_though_their_lines_differ_most():
    """All rows are about one line, so least squares lines differ by chance alone, and noise says least of these."""
    random, held = np.random.default_rng(7), []
    for seed in range(20):
        spread = np.geomspace(0.01, 0.3, 200)
        rows = np.full(200, 40.0)
        height, slope = random.normal(size=(2, 200)) * 0.2 / np.sqrt(rows * [np.ones(200), spread])
        exact = exact_moments(-0.2 + height - 0.1 * slope, 0.6 + slope, rows=rows, spread=spread)
        (inside, _), _ = intervals(noised(exact, 10.0, seed), exact)
        held.append(inside[:50].mean())
    assert np.mean(held) > 0.8


@pytest.mark.parametrize("rho", [0.05, 0.2, 5.0])
def test_intervals_of_groups_by_themselves_hold_at_their_level(rho):
    """However weak the signal is, as long as three quarters of them have ends."""
    exact = exact_moments(*varied(3000, slopes=0.5), spread=0.2)
    moments = noised(exact, rho, seed=3)
    found = half_widths_of_sums(moments, PLACES, Simulated.drawn(seed=1, confidence=0.9))
    ended = np.isfinite(found.slope)
    slopes = np.abs(moments.lines().slope - found.slope_above - exact.lines().slope) <= found.slope
    inside = np.abs(heights(moments) - found.heights_above - heights(exact)) <= found.heights
    assert ended.mean() > 0.7
    assert 0.88 <= slopes[ended].mean() <= 0.94
    assert 0.88 <= inside[ended].mean() <= 0.94


@pytest.mark.parametrize("spread", [0.0, 1e-9, 1e-300])
def test_a_spread_of_x_that_is_nearly_0_gives_an_interval_without_ends(spread):
    moments = replace(exact_moments(np.zeros(3), np.ones(3), mean=0.0, spread=spread), cost=0.1)
    found = half_widths_of_sums(moments, PLACES, Simulated.drawn(seed=1, confidence=0.9))
    assert np.isinf(found.slope).all()
    assert np.isinf(found.heights).all()
    assert not found.slope_above.any()
    assert not found.heights_above.any()


def test_intervals_hold_where_no_group_tells_its_slope_and_slopes_differ():
    """The spread of x is a tenth of its noise in each group; all groups together tell it."""
    random, held = np.random.default_rng(8), []
    for seed in range(5):
        height, slope = random.normal(size=(2, 131)) * [[0.1], [1.1]]
        exact = exact_moments(-0.2 + height, 0.4 + slope, rows=28.0, spread=0.005)
        (inside, _), _ = intervals(noised(exact, 0.8, seed), exact)
        held.append(inside.mean())
    assert np.mean(held) > 0.9


@pytest.mark.parametrize("away", [-2.0, 0.5, 30.0])
def test_what_the_common_spread_of_x_may_be_is_a_normal_law_that_is_cut_off_at_0(away):
    expected, multiples = _common(np.full(4, 0.2 * away), np.full(4, 0.16))
    law = stats.truncnorm(-away, np.inf, loc=0.2 * away, scale=0.2)
    assert expected == pytest.approx(law.mean())
    np.testing.assert_allclose(multiples * expected, law.ppf((np.arange(SCALES) + 0.5) / SCALES), rtol=1e-6)


def test_ends_are_those_of_the_mixture_over_what_the_spread_of_x_may_be():
    means, stddevs = np.random.default_rng(1).normal(size=(5, SCALES)), np.geomspace(0.01, 10, 5)
    for level in (0.05, 0.9):
        ends = robust_intervals._quantiles(means, stddevs, level)
        below = stats.norm.cdf(ends[:, None], means, stddevs[:, None]).mean(axis=1)
        np.testing.assert_allclose(below, level, atol=1e-4)


def test_intervals_hold_where_x_fills_a_corner_and_fail_with_a_spread_of_x_that_is_taken_as_known():
    """All slopes are steep and nearly the same, so that the error of the spread of x is an error of all of them."""
    random, held, of_known = np.random.default_rng(9), [], []
    for seed in range(20):
        height, slope = random.normal(size=(2, 131)) * 0.05
        exact = exact_moments(3.0 + height, 4.0 + slope, rows=200.0, mean=-0.8, spread=0.01)
        shrunk = shrunk_lines(noised(exact, 0.3, seed))
        known = replace(shrunk, scales=np.ones_like(shrunk.scales))
        for lines, shares in ((shrunk, held), (known, of_known)):
            half = robust_half_widths(lines, PLACES, 0.9)
            shares.append((np.abs(lines.slope - half.slope_above - slope - 4.0) <= half.slope).mean())
    assert np.mean(held) > 0.85
    assert np.mean(of_known) < 0.8


@pytest.mark.slow
@pytest.mark.verify
def test_intervals_that_forget_the_bias_of_shrinkage_are_found_out():
    random, held = np.random.default_rng(6), []
    for seed in range(40):
        apart = 3 * (random.random((2, 130)) < 0.1)
        exact = exact_moments(-0.2 + 0.1 * apart[0], 0.6 + 0.2 * apart[1], rows=60.0)
        moments = noised(exact, 0.5, seed)
        shrunk = shrunk_lines(moments)
        noise = shrunk.covariances @ shrunk.information @ shrunk.covariances
        inside = np.abs(shrunk.at(shrunk.place[:1])[:, 0] - (exact.y / exact.rows)) <= 1.645 * np.sqrt(noise[:, 0, 0])
        held.append(inside.mean())
    assert np.mean(held) < 0.88
