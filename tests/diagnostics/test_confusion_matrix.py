from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from spark_jobs.contract import InvalidRequest, Neighbours
from spark_jobs.contract.results.score_figures import COUNTS, RATES
from spark_jobs.diagnostics import confusion_matrix as module
from spark_jobs.diagnostics._populations import privacy_share
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.diagnostics.test_score_figures import SETS, counted, nasty, on_grid
from tests.suites.diagnostic import DiagnosticSuite

THRESHOLDS = (0.0, 0.25, 0.5, 0.500001, 0.9)


def by_scikit_learn(labels: Any, scores: Any, threshold: float) -> dict[str, float]:
    guessed, none = on_grid(scores) >= threshold, np.nan
    options = {"zero_division": none}
    return {
        "accuracy": metrics.accuracy_score(labels, guessed),
        "precision": metrics.precision_score(labels, guessed, **options),
        "recall": metrics.recall_score(labels, guessed, **options),
        "specificity": metrics.recall_score(labels, guessed, pos_label=0, **options),
        "f1": metrics.f1_score(labels, guessed, **options),
    }


@pytest.mark.parametrize("name", SETS)
def test_without_noise_rates_are_scikit_learns(name: str) -> None:
    labels, scores = (np.asarray(column).astype(float) for column in SETS[name])
    statistic = ScoreCounts.from_arrays(labels, scores)
    found = module.release(statistic, epsilon=10**9, thresholds=THRESHOLDS, noise=SeededNoise(1))
    for i, threshold in enumerate(found.thresholds):
        assert THRESHOLDS[i] - 1 / 65536 < threshold <= THRESHOLDS[i] == found.requested[i]
        for rate, expected in by_scikit_learn(labels, scores, threshold).items():
            assert getattr(found, rate).value[i] == pytest.approx(expected, abs=1e-9, nan_ok=True), (rate, threshold)
        (tn, fp), (fn, tp) = metrics.confusion_matrix(labels, on_grid(scores) >= threshold, labels=[0, 1])
        assert [getattr(found, count)[i] for count in COUNTS] == [tp, fp, fn, tn]


@pytest.mark.verify
@pytest.mark.parametrize("thresholds", [(0.5,), (0.2, 0.4, 0.6, 0.8)])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_intervals_cover_at_their_level(thresholds: tuple[float, ...], neighbours: Neighbours) -> None:
    """100 releases: each rate's coverage at each threshold is within four standard errors of 90 %, or above."""
    labels, scores = SETS["even"]
    statistic, noise = ScoreCounts.from_arrays(labels, scores), SeededNoise(4)
    options = {"thresholds": thresholds, "neighbours": neighbours, "noise": noise}
    made = [module.release(statistic, epsilon="0.3", **options) for _ in range(100)]
    for i, threshold in enumerate(made[0].thresholds):
        for rate, exact in by_scikit_learn(labels, scores, threshold).items():
            covered = np.mean([getattr(one, rate).lower[i] <= exact <= getattr(one, rate).upper[i] for one in made])
            assert covered >= 0.9 - 4 * np.sqrt(0.09 / 100)


class TestForm(DiagnosticSuite):
    package = module
    tables = {name: partial(counted, name) for name in ("ties", "one", "negatives")}
    empty = staticmethod(partial(counted, "none"))
    nasty = staticmethod(nasty)
    settings = [{"epsilon": epsilon, "thresholds": THRESHOLDS} for epsilon in ("0.01", "0.7", "1000000000")]

    def check_form(self, result: Any, options: Any) -> None:
        super().check_form(result, options)
        assert all(len(value) == len(THRESHOLDS) for value in result.to_dict().values() if isinstance(value, list))


def test_what_privacy_costs_is_what_an_interval_would_be_narrower_without_noise() -> None:
    def share(noise: tuple[float, float], population: tuple[float, float]) -> float:
        return float(privacy_share(np.array(noise), np.array(population)))

    assert share((0.4, 0.7), (0.3, 0.8)) == pytest.approx(0.2)  # 3, 4 and 5 tenths
    assert share((0.5, 0.5), (0.3, 0.8)) == 0.0
    assert share((0.3, 0.8), (0.3, 0.8)) == 1.0
    assert share((0.2, 0.9), (0.3, 0.8)) == 1.0
    assert share((0.5, 0.5), (0.5, 0.5)) == 0.0
    assert np.isnan(share((np.nan,) * 2, (np.nan,) * 2))
    statistic = ScoreCounts.from_arrays(*SETS["even"])
    much, little = (module.release(statistic, epsilon=epsilon, noise=SeededNoise(1)) for epsilon in ("0.1", "100"))
    for rate in RATES:
        assert getattr(much, rate).privacy_share[0] > 2 * getattr(little, rate).privacy_share[0]
    assert little.to_dict()["recall_privacy_share"] == little.recall.privacy_share.tolist()


def test_one_threshold_is_four_cells_with_the_smallest_noise() -> None:
    measurement = module.measure(ScoreCounts.from_arrays(*SETS["even"]), epsilon=1)
    assert measurement.negatives.scale == pytest.approx(1.0)
    assert [level.size for level in measurement.positives.nodes] == [2]


@pytest.mark.parametrize("thresholds", [(), (0.5, 0.5), (0.6, 0.5), (-0.1,), (1.1,), tuple(np.linspace(0, 1, 101))])
def test_bad_thresholds_are_refused(thresholds: tuple[float, ...]) -> None:
    with pytest.raises(InvalidRequest, match="thresholds"):
        module.measure(ScoreCounts.from_arrays([], []), epsilon=1, thresholds=thresholds)
