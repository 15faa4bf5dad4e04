"""One area under the ROC curve in a release that measured it more than once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from spark_jobs.application.draft import draws, results_of
from spark_jobs.application.run import measure
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.options import ScoreCells
from spark_jobs.diagnostics.binormal_roc import separation
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.diagnostics.roc_area import RocArea, with_one_area
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.application.test_draw import request

RNG = np.random.default_rng(23)
LABELS = RNG.random(3000) < 0.4
STATISTIC = ScoreCounts.from_arrays(LABELS, 1 / (1 + np.exp(-(RNG.normal(0, 1, 3000) + 1.2 * LABELS))))
DIRECT = {"kind": "auc", "method": "polynomial", "confidence": 0.8}


def released(*diagnostics: Any, statistic: ScoreCounts = STATISTIC) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a release states, and what each of its draws says by itself."""
    asked = request(diagnostics=list(diagnostics))
    drawn = measure(asked, {ScoreCells(): statistic}, charge_id="c", noise=SeededNoise(4))
    alone = {
        kind: diagnostic(kind).summarise(one, seed=drawn.seed)
        for kind, one in draws(asked, drawn.measurements, drawn.shared).items()
    }
    return results_of(asked, drawn)[0], alone


def apart(*kinds: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "share": False} for kind in kinds]


def area_of(result: Any) -> RocArea | None:
    return RocArea.of(result.area, result.confidence)


def area_with(value: float, interval: tuple[float, float], population: tuple[float, float]) -> Figure[float]:
    return Figure(value=value, interval=Ends(*interval), population=Ends(*population))


def test_a_curve_of_few_points_states_the_area_of_the_others() -> None:
    stated, alone = released({"kind": "roc_curve", "thresholds": 16}, "auc", "ranking_figures")
    assert alone["roc_curve"].auc.value != alone["auc"].value
    assert (
        stated["roc_curve"].auc.value
        == stated["auc"].value
        == pytest.approx((1 + stated["ranking_figures"].gini.value) / 2)
    )
    best = min((alone["roc_curve"], alone["auc"]), key=lambda one: area_of(one).reach)
    assert stated["auc"].value == area_of(best).value


def test_every_measurement_is_in_the_one_area() -> None:
    stated, alone = released(*apart("roc_curve", "binormal_roc", "ranking_figures"), DIRECT)
    own = [area_of(result) for result in alone.values()]
    assert len({area.value for area in own}) == 4
    expected = RocArea.combined(own)
    assert stated["auc"].value == stated["roc_curve"].auc.value == stated["binormal_roc"].auc.value == expected.value
    assert stated["ranking_figures"].gini.value == pytest.approx(2 * expected.value - 1)
    for kind, result in stated.items():
        area = area_of(result)
        assert area.below + area.above < min(one.below + one.above for one in own), kind
        assert area.sampling == pytest.approx(expected.sampling, rel=1e-3), kind  # read as if both sides were equal
    curve, figure = stated["roc_curve"], stated["auc"]
    assert np.diff(curve.auc.interval)[0] / np.diff(figure.interval)[0] == pytest.approx(ndtri(0.95) / ndtri(0.9))
    assert np.array_equal(curve.tpr.value, alone["roc_curve"].tpr.value)


def test_the_symmetric_curve_follows_the_area() -> None:
    stated, alone = released(*apart("binormal_roc"), DIRECT)
    curve = stated["binormal_roc"]
    assert curve.auc.value != alone["binormal_roc"].auc.value
    assert curve.separation == pytest.approx(separation(curve.auc.value), abs=1e-8)
    assert np.trapezoid(curve.tpr.value, curve.fpr) == pytest.approx(curve.auc.value, abs=0.005)
    inside = (curve.tpr.lower < curve.tpr.value) & (curve.tpr.value < curve.tpr.upper)
    assert inside[1:-1].all()


def test_a_shared_measurement_counts_once() -> None:
    """Three kinds that are read from the same counts weigh as much as one of them."""
    stated, alone = released("calibration", "roc_curve", "ranking_figures", DIRECT)
    expected = RocArea.combined((area_of(alone["roc_curve"]), area_of(alone["auc"])))
    assert stated["roc_curve"].auc.value == stated["auc"].value == expected.value
    assert stated["ranking_figures"].gini.value == pytest.approx(2 * expected.value - 1)


@pytest.mark.parametrize(
    "diagnostics",
    [
        pytest.param(["roc_curve", "ranking_figures", "calibration"], id="one measurement"),
        pytest.param(["roc_curve", "average_precision", {**DIRECT, "interval": False}], id="no interval"),
    ],
)
def test_one_area_that_is_known_stays_as_it_is(diagnostics: list[Any]) -> None:
    stated, alone = released(*diagnostics)
    for kind in ("roc_curve", "auc"):
        if kind in stated:
            assert area_of(stated[kind]) == area_of(alone[kind])


def test_undefined_areas_stay_undefined() -> None:
    nobody = ScoreCounts(negatives=STATISTIC.negatives, positives=0 * STATISTIC.positives)
    stated, _ = released(*apart("roc_curve", "binormal_roc"), DIRECT, statistic=nobody)
    assert [one.status for one in stated.values()] == ["undefined"] * 3
    assert [area_of(one) for one in stated.values()] == [None] * 3
    assert stated["roc_curve"].auc.value is stated["auc"].value is None


def test_an_end_that_was_cut_off_reaches_as_far_as_the_other() -> None:
    area = RocArea.of(area_with(0.97, (0.9, 1.0), (0.88, 1.0)), 0.9)
    assert area.above == area.below == pytest.approx(0.07 / ndtri(0.95))
    assert RocArea.of(area_with(0.5, (0.4, 0.55), (0.3, 0.6)), 0.9).above == pytest.approx(0.05 / ndtri(0.95))


def test_the_interval_of_a_mean_holds_as_often_as_its_level_says() -> None:
    """Of estimates with Laplace and normal noise, in any proportion; the population's as well."""
    random, exact = np.random.default_rng(5), 0.7
    for spreads in ((0.01, 0.01), (0.01, 0.03), (0.04, 0.01)):
        held = []
        for _ in range(2000):
            rows = exact + 0.02 * random.normal()
            estimates = []
            for spread, error in zip(spreads, (random.laplace(0, 1), random.normal()), strict=True):
                reach = spread * (np.log(10) if len(estimates) == 0 else ndtri(0.95))
                value, both = rows + spread * error, np.hypot(reach, 0.02 * ndtri(0.95))
                estimates.append(
                    RocArea.of(area_with(value, (value - reach, value + reach), (value - both, value + both)), 0.9)
                )
            one = RocArea.combined(estimates)
            ends = one.at(0.9)
            held.append(
                [low <= truth <= high for (low, high), truth in ((ends.interval, rows), (ends.population, exact))]
            )
        assert np.all(np.abs(np.mean(held, axis=0) - 0.9) < 0.03), spreads


def test_results_without_an_area_are_left_alone() -> None:
    assert with_one_area({"ecdf": object()}, sharing=()).keys() == {"ecdf"}
