import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, linprog, minimize

from spark_jobs.mechanisms.smoothing import smooth_1norm, smooth_2norm

BOTH = pytest.mark.parametrize("smooth", [smooth_1norm, smooth_2norm])
VALUES = st.lists(st.integers(-30, 30), min_size=1, max_size=12)
RANGES = st.tuples(st.integers(-20, 20), st.one_of(st.none(), st.integers(0, 30))).map(
    lambda pair: (pair[0], None if pair[1] is None else pair[0] + pair[1])
)


def least_1norm(values, lower, total):
    """The least 1-norm by linear programming: variables are the sequence, then the absolute differences."""
    size = len(values)
    one, rises = np.eye(size), np.eye(size)[:-1] - np.eye(size)[1:]
    rows = np.block([[one, -one], [-one, -one], [rises, np.zeros((size - 1, size))]])
    bounds = [(lower, total)] * size + [(0, None)] * size
    limits = np.concatenate([values, np.negative(values), np.zeros(size - 1)])
    return linprog(np.repeat([0.0, 1.0], size), A_ub=rows, b_ub=limits, bounds=bounds).fun


def nearest_2norm(values, lower, total):
    """The nearest sequence by a general solver of quadratic programmes."""
    values = np.asarray(values, dtype=float)
    rises = LinearConstraint(np.diff(np.eye(values.size), axis=0), 0, np.inf) if values.size > 1 else ()
    start = np.full(values.size, float(lower))
    found = minimize(
        lambda x: ((x - values) ** 2).sum(),
        start,
        jac=lambda x: 2 * (x - values),
        bounds=[(lower, total)] * values.size,
        constraints=rises,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x


@BOTH
@given(values=VALUES, limits=RANGES)
@settings(deadline=None)
def test_sequences_rise_within_their_range_and_stay_where_they_do_already(smooth, values, limits):
    lower, total = limits
    fitted = smooth(np.array(values), lower=lower, total=total)
    assert fitted.shape == (len(values),)
    assert (np.diff(fitted) >= 0).all()
    assert fitted[0] >= lower
    assert fitted[-1] <= (math.inf if total is None else total)
    np.testing.assert_allclose(smooth(fitted, lower=lower, total=total), fitted, atol=1e-12)


@given(values=VALUES, limits=RANGES)
@settings(deadline=None, max_examples=60)
def test_linear_programming_finds_nothing_nearer_in_the_1norm(values, limits):
    lower, total = limits
    fitted = smooth_1norm(np.array(values), lower=lower, total=total)
    assert np.abs(fitted - values).sum() == pytest.approx(least_1norm(values, lower, total), abs=1e-7)


@given(values=VALUES)
def test_the_1norm_keeps_whole_counts_whole(values):
    assert set(smooth_1norm(np.array(values), lower=-100)) <= set(values)


@given(values=st.lists(st.integers(-30, 30), min_size=1, max_size=8), limits=RANGES)
@settings(deadline=None, max_examples=60)
def test_a_general_solver_finds_nothing_nearer_in_the_2norm(values, limits):
    lower, total = limits
    fitted, other = smooth_2norm(np.array(values), lower=lower, total=total), nearest_2norm(values, lower, total)
    assert np.linalg.norm(fitted - values) <= np.linalg.norm(other - values) + 1e-6
    # the nearest point is unique, and the distance grows at least with its square
    np.testing.assert_allclose(fitted, other, atol=1e-3)


@given(
    truth=st.lists(st.integers(0, 20), min_size=1, max_size=30),
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(0.1, 100),
)
@settings(deadline=None)
def test_no_error_grows_in_the_2norm_and_none_more_than_doubles_in_the_1norm(truth, seed, scale):
    exact = np.cumsum(truth)
    noise = scale * np.random.default_rng(seed).standard_cauchy(exact.size)
    fitted = smooth_2norm(exact + noise, total=exact[-1])
    for order in (1, 2, np.inf):
        assert np.linalg.norm(fitted - exact, order) <= np.linalg.norm(noise, order) * (1 + 1e-9) + 1e-9
    robust = smooth_1norm(exact + noise, total=exact[-1])
    assert np.abs(robust - exact).sum() <= 2 * np.abs(noise).sum() * (1 + 1e-9)


@BOTH
def test_an_empty_line_stays_empty(smooth):
    assert smooth(np.array([])).shape == (0,)


@BOTH
@pytest.mark.parametrize(
    ("values", "limits"),
    [(np.zeros((2, 2)), {}), (np.array([1.0, np.nan]), {}), (np.zeros(2), {"lower": 3, "total": 2})],
    ids=["shape", "not a number", "empty range"],
)
def test_what_cannot_be_smoothed_is_refused(smooth, values, limits):
    with pytest.raises(ValueError, match="must be"):
        smooth(values, **limits)
