"""Private linear and logistic fits, against statsmodels and the published solution on the same rows."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from dp_operators.release_check import broken_rules
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.results.fits import PrivateFit
from spark_jobs.contract.tables import LinearModel, LogisticModel
from spark_jobs.diagnostics import linear_fit, logistic_fit
from spark_jobs.diagnostics.logistic_fit import passes
from spark_jobs.diagnostics.logistic_fit.surrogate import stretched
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics.cross_products import (
    LATTICE,
    Bounded,
    CrossProductCells,
    CrossProducts,
    Levels,
)
from spark_jobs.statistics.labelled_rows import LabelledRowCells, LabelledRows
from tests.support.undefined import is_undefined

AGE, PAY = Bounded(name="age", lower=18, upper=80), Bounded(name="pay", lower=-1000, upper=9000)
REGION = Levels(column="region", levels=("north", "south", "west"))
OUTCOME = Bounded(name="hours", lower=0, upper=60)
LINEAR = CrossProductCells(features=(AGE, PAY), categorical=(REGION,), outcome=OUTCOME)
LOGISTIC = LabelledRowCells(features=(AGE, PAY), categorical=(REGION,))
MODULES = {"linear_fit": linear_fit, "logistic_fit": logistic_fit}


def rows(count: int = 5000, seed: int = 5) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    age, pay = random.normal(45, 18, count), random.lognormal(7.5, 0.7, count)
    region = random.choice(["north", "south", "west"], count, p=[0.5, 0.3, 0.2])
    hours = 20 + 0.3 * age + 0.001 * pay - 4 * (region == "west") + random.normal(0, 6, count)
    label = (random.random(count) < expit((hours - 38) / 5)).astype(int)
    return {"age": age, "pay": pay, "region": region, "hours": hours, "label": label}


def rounded(values: np.ndarray, bounds: Bounded) -> np.ndarray:
    """What the statistic counts: clipped, and moved to its lattice."""
    steps = np.floor((np.clip(values, bounds.lower, bounds.upper) - bounds.middle) / bounds.half * LATTICE + 0.5)
    return bounds.middle + bounds.half * steps / LATTICE


def within(values: np.ndarray, bounds: Bounded) -> np.ndarray:
    return np.clip(values, bounds.lower, bounds.upper)


def design_of(data: dict[str, np.ndarray], *, exact: bool = False) -> np.ndarray:
    """Columns as the statistic counts them, or ``exact``: only clipped."""
    read = within if exact else rounded
    numbers = [read(data["age"], AGE), read(data["pay"], PAY)]
    levels = [(data["region"] == level).astype(float) for level in ("south", "west")]
    return sm.add_constant(np.stack([*numbers, *levels], axis=1))


def linear(data: dict[str, np.ndarray]) -> CrossProducts:
    return CrossProducts.from_arrays(data, data["hours"], design=LINEAR)


def logistic(data: dict[str, np.ndarray]) -> LabelledRows:
    return LabelledRows.from_arrays(data, data["label"], design=LOGISTIC)


STATISTICS = {"linear_fit": linear, "logistic_fit": logistic}
EVERY_FIT = pytest.mark.parametrize("name", MODULES)


def fitted(name: str, data: dict[str, np.ndarray], **options: Any) -> PrivateFit:
    return MODULES[name].release(STATISTICS[name](data), **{"epsilon": 10**9, "noise": SeededNoise(1), **options})


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_without_noise_a_linear_fit_is_ordinary_least_squares(neighbours: Neighbours) -> None:
    data = rows()
    found = fitted("linear_fit", data, neighbours=neighbours)
    expected = sm.OLS(rounded(data["hours"], OUTCOME), design_of(data)).fit()
    assert found.terms == ("intercept", "age", "pay", "region = south", "region = west")
    np.testing.assert_allclose(found.coefficients.value, expected.params, rtol=1e-6)
    assert found.r_squared.value == pytest.approx(expected.rsquared, abs=1e-6)
    low, high = found.r_squared.ends("population")
    assert low < expected.rsquared < high < low + 0.2
    assert found.residual_stddev == pytest.approx(math.sqrt(expected.mse_resid), rel=1e-5)
    assert found.rows == pytest.approx(5000, abs=1e-3)
    assert (found.status, found.ridge) == ("ok", 0.0)
    # sampling alone: the classical standard errors, from a thousand copies
    wide = (found.coefficients.population.upper - found.coefficients.population.lower) / 2
    np.testing.assert_allclose(wide, 1.645 * expected.bse, rtol=0.15)
    # rounding alone: a small part of that, and it holds the fit of the rows themselves
    low, high = found.coefficients.ends()
    assert ((high - low) / 2 < 0.1 * wide).all()
    of_rows = sm.OLS(within(data["hours"], OUTCOME), design_of(data, exact=True)).fit().params
    assert ((low < of_rows) & (of_rows < high)).all()


def test_a_slope_that_rounding_moves_by_as_much_as_it_can_is_in_the_interval() -> None:
    design = CrossProductCells(features=(Bounded(name="x", lower=-1, upper=1),), outcome=OUTCOME)
    x = np.repeat([-1.0, 1.0], 500)
    # outcomes between two values of the lattice, which are rounded down on one side and up on the other
    y = OUTCOME.middle + OUTCOME.half * (np.repeat([100.499, 99.501], 500)) / LATTICE
    found = linear_fit.release(
        CrossProducts.from_arrays({"x": x}, y, design=design), epsilon=10**12, noise=SeededNoise(1)
    )
    moved = found.coefficients.value[1] - (y[-1] - y[0]) / 2
    step = OUTCOME.half / LATTICE
    assert moved == pytest.approx(0.499 * step, rel=1e-3)
    assert found.coefficients.upper[1] - found.coefficients.value[1] == pytest.approx(0.5 * step, rel=0.01)
    assert found.coefficients.lower[1] < (y[-1] - y[0]) / 2


@pytest.mark.parametrize("options", [{}, {"radius": 1}, {"radius": 16, "neighbours": "replace_one"}])
def test_at_an_epsilon_of_10_6_a_logistic_fit_is_the_maximum_likelihood_fit(options: dict[str, Any]) -> None:
    data = rows(20_000)
    x = design_of(data)
    scale = np.abs(x).max(axis=0)
    expected = sm.Logit(data["label"], x / scale).fit(disp=0)
    found = fitted("logistic_fit", data, epsilon=10**6, **options)
    assert found.status == "ok"
    np.testing.assert_allclose(found.coefficients.value, expected.params / scale, rtol=1e-3)
    assert found.positives == pytest.approx(data["label"].mean(), abs=1e-4)
    # sampling alone: the classical standard errors, from a thousand copies
    wide = (found.coefficients.population.upper - found.coefficients.population.lower) / 2
    np.testing.assert_allclose(wide, 1.645 * expected.bse / scale, rtol=0.15)


@pytest.mark.parametrize("ages", [3, 10_000])
def test_intervals_for_the_noise_hold_where_only_rounding_is_left(ages: int) -> None:
    """Of few ages and one column of levels, many rows are alike, and are rounded alike."""
    held = []
    design = LabelledRowCells(features=(AGE,), categorical=(REGION,))
    for seed in range(6):
        random = np.random.default_rng(seed)
        age = rounded(18 + 62 * random.integers(0, ages, 4000) / (ages - 1), AGE)
        region = random.choice(["north", "south", "west"], 4000)
        x = np.stack([np.ones(4000), age, region == "south", region == "west"], axis=1).astype(float)
        label = (random.random(4000) < expit(x @ [-3, 0.04, 0.5, -0.5])).astype(int)
        exact = sm.Logit(label, x).fit(disp=0, maxiter=60, tol=1e-14).params
        statistic = LabelledRows.from_arrays({"age": age, "region": region}, label, design=design)
        for epsilon in (10**4, 10**6):
            found = logistic_fit.release(statistic, epsilon=epsilon, noise=SeededNoise(seed))
            assert found.status == "ok"
            held.append(((found.coefficients.lower <= exact) & (exact <= found.coefficients.upper))[1:].mean())
    assert np.mean(held) >= 0.9


def test_rounding_hardly_widens_the_intervals_of_usual_epsilons(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = logistic_fit.measure(logistic(rows(20_000)), epsilon=10, noise=SeededNoise(1))
    assert len(draw.passes) > 1
    wide = logistic_fit.summarise(draw, seed=1)
    monkeypatch.setattr(logistic_fit, "rounding_stddev", lambda rows, layout: 0.0)
    alone = logistic_fit.summarise(draw, seed=1)
    np.testing.assert_allclose(
        wide.coefficients.upper - wide.coefficients.lower,
        alone.coefficients.upper - alone.coefficients.lower,
        rtol=0.03,
    )


@pytest.mark.parametrize("radius", [2.0, 4.0])
def test_where_noise_would_hide_a_step_the_fit_is_the_published_solution(
    radius: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PASS-GLM of degree two: the maximum of a quadratic in place of the log likelihood, solved from its gradient."""
    monkeypatch.setattr(passes, "MIN_SIGNAL", math.inf)
    data = rows()
    found = fitted("logistic_fit", data, radius=radius, intercept="polynomial")
    chebyshev = np.polynomial.Chebyshev.interpolate(
        lambda u: -np.logaddexp(0.0, -u), 2, domain=[-radius, radius]
    ).convert(kind=np.polynomial.Polynomial)
    _, first, second = chebyshev.coef
    x, y = design_of(data), 2.0 * data["label"] - 1.0
    expected = np.linalg.solve(-2.0 * second * x.T @ x, first * x.T @ y)
    np.testing.assert_allclose(found.coefficients.value, expected, rtol=1e-4)
    assert stretched(radius) == pytest.approx(-first / (2 * second))
    assert found.status == "shrunk"
    matched = fitted("logistic_fit", data, radius=radius)
    assert expit(x @ matched.coefficients.value).mean() == pytest.approx(data["label"].mean(), abs=0.01)
    assert matched.coefficients.value[1:].tolist() == found.coefficients.value[1:].tolist()


@pytest.mark.parametrize(("epsilon", "delta"), [("1e-4", 0), (5, 0), (5, "1e-6"), (10**6, 0)])
def test_passes_add_up_to_the_budget_and_end(epsilon: Any, delta: Any) -> None:
    taken: list[int] = []
    data = rows(20_000)
    own = logistic(data)

    def sums_at(position: np.ndarray) -> Any:
        taken.append(1)
        return own.sums_at(position)

    draw = logistic_fit.measure(
        LabelledRows(design=LOGISTIC, sums_at=sums_at),
        epsilon=epsilon,
        delta=delta,
        method="gaussian" if delta else "laplace",
        noise=SeededNoise(1),
    )
    assert len(draw.passes) == len(taken) <= passes.MAX_PASSES
    assert (len(draw.passes) == 1) == (epsilon == "1e-4")
    assert (draw.epsilon, draw.delta) == (Decimal(epsilon), Decimal(delta))
    assert not draw.passes[0].position.any()
    # every pass but the last gets a part, and so has more noise
    last = draw.passes[-1].stddevs(draw.layout)[0]
    assert all(each.stddevs(draw.layout)[0] > last for each in draw.passes[1:-1])


def test_a_logistic_fit_ranks_rows_as_a_plain_one_does() -> None:
    data = rows(20_000)
    x = design_of(data)
    plain = LogisticRegression(C=np.inf, max_iter=1000).fit(x / x.std(axis=0).clip(1e-9), data["label"])
    best = roc_auc_score(data["label"], plain.decision_function(x / x.std(axis=0).clip(1e-9)))
    for epsilon, slack in ((10**9, 0.002), (1, 0.02)):
        found = fitted("logistic_fit", data, epsilon=epsilon)
        assert roc_auc_score(data["label"], x @ found.coefficients.value) > best - slack


def score(model: dict[str, Any], data: dict[str, np.ndarray]) -> np.ndarray:
    """The linear predictor, as scoring computes it."""
    total = np.full(data["age"].size, model["intercept"])
    for name, coefficient in model["coefficients"].items():
        total += coefficient * np.clip(data[name], *model["bounds"][name])
    for name, levels in model["categorical"].items():
        total += np.array([levels.get(level, 0.0) for level in data[name]])
    return total


@EVERY_FIT
def test_the_model_is_one_that_a_request_takes_and_scores_as_it_was_fitted(name: str) -> None:
    data = rows()
    found = fitted(name, data)
    parsed = {"linear_fit": LinearModel, "logistic_fit": LogisticModel}[name].parse(found.model)
    assert parsed.basis == "differentially_private"
    assert found.model["categorical"]["region"]["north"] == 0.0
    np.testing.assert_allclose(score(found.model, data), design_of(data) @ found.coefficients.value, atol=2e-3)
    assert found.spans.tolist() == [1, 62, 10_000, 1, 1]


@pytest.mark.verify
def test_intervals_cover_what_the_rows_give_without_noise() -> None:
    data = rows(4000)
    for name, statistic in STATISTICS.items():
        exact = fitted(name, data).coefficients.value
        made = [
            MODULES[name].release(statistic(data), epsilon=20, noise=SeededNoise(seed), confidence=0.8)
            for seed in range(60)
        ]
        assert all(one.status == "ok" for one in made)
        inside = np.mean([(one.coefficients.lower <= exact) & (exact <= one.coefficients.upper) for one in made])
        # 300 intervals, those of one fit not independent: four standard errors of 60
        assert 0.8 - 4 * math.sqrt(0.16 / 60) <= inside <= 1.0, name


@pytest.mark.verify
def test_population_intervals_of_a_logistic_fit_cover_the_truth() -> None:
    design = LabelledRowCells(features=(Bounded(name="a", lower=0, upper=1), Bounded(name="b", lower=-1, upper=1)))
    held = []
    for seed in range(120):
        random = np.random.default_rng(seed)
        a, b = random.beta(2, 3, 6000), random.uniform(-1, 1, 6000)
        label = random.random(6000) < expit(-3 + 2 * a + b)
        made = logistic_fit.release(
            LabelledRows.from_arrays({"a": a, "b": b}, label, design=design), epsilon=10, noise=SeededNoise(seed)
        )
        assert made.status == "ok"
        held.append(
            (made.coefficients.population.lower <= [-3, 2, 1]) & (made.coefficients.population.upper >= [-3, 2, 1])
        )
    # four standard errors of 120 independent fits
    assert 0.9 - 4 * math.sqrt(0.09 / 120) <= np.mean(held) <= 0.975


@pytest.mark.verify
@EVERY_FIT
def test_less_noise_comes_closer_and_a_drowned_fit_is_pulled_towards_0(name: str) -> None:
    data = rows(20_000)
    exact = fitted(name, data).coefficients.value[1:]
    errors = []
    for epsilon in (0.015, 0.5, 10):
        made = [fitted(name, data, epsilon=epsilon, noise=SeededNoise(seed)) for seed in range(20)]
        errors.append(np.mean([np.abs((one.coefficients.value[1:] - exact) * one.spans[1:]).mean() for one in made]))
        if epsilon == 0.015:
            assert all(one.status == "shrunk" and one.ridge > 0 for one in made)
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


DEGENERATE = {
    "no rows": rows(0),
    "one row": rows(1),
    "a constant feature": {**rows(500), "age": np.full(500, 40.0)},
    "a constant outcome": {**rows(500), "hours": np.full(500, 7.0), "label": np.zeros(500, dtype=int)},
    "everything beyond the bounds": {**rows(500), "age": np.full(500, 1e9), "pay": np.full(500, -np.inf)},
    "nothing known": {**rows(500), "age": np.full(500, np.nan)},
    "one level": {**rows(500), "region": np.full(500, "west")},
    "features that are one": {**rows(500), "pay": (np.clip(rows(500)["age"], 18, 80) - 18) / 62 * 10_000 - 1000},
}


@pytest.mark.slow
@pytest.mark.sampled("name", "case")
@EVERY_FIT
@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize(("epsilon", "delta"), [("1e-6", 0), (1, "1e-9"), (10**9, 0)])
def test_whatever_the_rows_are_the_form_is_the_same(name: str, case: str, epsilon: Any, delta: Any) -> None:
    found = fitted(name, DEGENERATE[case], epsilon=epsilon, delta=delta)
    told = found.to_dict()
    usual = fitted(name, rows(100)).to_dict()
    assert told.keys() == usual.keys()
    assert told["terms"] == usual["terms"]
    if case in ("no rows", "nothing known"):
        assert found.status == "undefined"
    if is_undefined(name, found):
        assert found.model is None
    else:
        assert broken_rules(name, json.loads(json.dumps(told, allow_nan=False))) == []


@EVERY_FIT
def test_features_that_depend_on_each_other_get_the_least_coefficients(name: str) -> None:
    data = DEGENERATE["features that are one"]
    found = fitted(name, data)
    effects = found.coefficients.value[1:3] * found.spans[1:3]
    assert effects[0] == pytest.approx(effects[1], rel=1e-2)


@EVERY_FIT
def test_a_measurement_is_all_that_a_fit_is_made_from(name: str) -> None:
    module = MODULES[name]
    measurement = module.measure(STATISTICS[name](rows()), epsilon="0.7", delta="1e-6", noise=SecureNoise())
    again = module.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(measurement.to_dict())))
    assert module.summarise(again, seed=4).to_dict() == module.summarise(measurement, seed=4).to_dict()
    assert measurement.epsilon == Decimal("0.7")
    assert measurement.guarantee == "differentially private"


@EVERY_FIT
@pytest.mark.parametrize(("method", "delta", "spent"), [("laplace", "1e-6", "0"), ("gaussian", "1e-6", "1e-6")])
def test_delta_is_spent_by_gaussian_noise_alone(name: str, method: str, delta: str, spent: str) -> None:
    found = fitted(name, rows(), epsilon=1, delta=delta, method=method)
    assert (found.method, found.delta, found.epsilon) == (method, Decimal(spent), 1)


@EVERY_FIT
def test_bad_options_are_refused_in_a_line(name: str) -> None:
    other = {"linear_fit": logistic, "logistic_fit": linear}[name]
    with pytest.raises(InvalidRequest, match="statistic"):
        MODULES[name].release(other(rows(10)), epsilon=1)
    for options, line in (
        ({"confidence": 1.5}, "confidence"),
        ({"method": "cauchy"}, "method"),
        ({"method": "gaussian"}, "delta"),
        ({"epsilon": 0}, "epsilon"),
    ):
        with pytest.raises(InvalidRequest, match=line):
            fitted(name, rows(10), **{"epsilon": 1, **options})
    for options in ({"radius": 0}, {"intercept": "none"}):
        with pytest.raises(InvalidRequest, match=next(iter(options))):
            fitted("logistic_fit", rows(10), **options)
