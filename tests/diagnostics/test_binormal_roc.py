from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from spark_jobs.contract import InvalidRequest
from spark_jobs.diagnostics import binormal_roc as module
from spark_jobs.diagnostics.roc_area import RocArea
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.diagnostics.test_score_figures import SETS, counted, nasty, on_grid
from tests.suites.diagnostic import DiagnosticSuite
from tests.support.undefined import is_undefined

RNG = np.random.default_rng(23)
LABELS = np.repeat([0, 1], 20000)
SCORES = norm.cdf(RNG.normal(0, 1, 40000) + 1.1 * LABELS - 0.5)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", ["even", "ties", "separated", "two rows"])
def test_without_noise_it_is_the_curve_of_the_exact_area(name: str) -> None:
    labels, scores = SETS[name]
    found = module.release(ScoreCounts.from_arrays(labels, scores), epsilon=10**9, points=11, noise=SeededNoise(1))
    area = roc_auc_score(labels, on_grid(scores))
    least = 1 / (2 * max(min(np.sum(labels), labels.size - np.sum(labels)), 1))
    kept = np.clip(area, least, 1 - least)
    inner = found.fpr[1:-1]
    assert found.tpr.value[1:-1] == pytest.approx(norm.cdf(np.sqrt(2) * norm.ppf(kept) + norm.ppf(inner)), abs=1e-4)


def test_a_curve_that_is_binormal_is_found() -> None:
    found = module.release(ScoreCounts.from_arrays(LABELS, SCORES), epsilon=1, noise=SeededNoise(2))
    truth = norm.cdf(1.1 + norm.ppf(found.fpr))
    assert np.abs(found.tpr.value - truth).max() < 0.015
    assert found.separation == pytest.approx(1.1, abs=0.05)


@pytest.mark.slow
@pytest.mark.verify
def test_bands_hold_the_curve_of_the_exact_area_at_their_level() -> None:
    labels, scores = SETS["even"]
    statistic, noise = ScoreCounts.from_arrays(labels, scores), SeededNoise(6)
    exact = module.release(statistic, epsilon=10**9, noise=SeededNoise(1)).tpr.value
    made = [module.release(statistic, epsilon=1, noise=noise) for _ in range(200)]
    held = [((one.tpr.lower <= exact + 1e-9) & (exact <= one.tpr.upper + 1e-9)).all() for one in made]
    assert np.mean(held) >= 0.82


@pytest.mark.parametrize("tied", [False, True])
def test_the_band_of_the_population_is_that_of_the_area(tied: bool) -> None:
    found = module.release(ScoreCounts.from_arrays(LABELS[::50], SCORES[::50]), epsilon=1, noise=SeededNoise(3))
    if tied:
        found = found.with_area(RocArea(value=0.8, below=0.01, above=0.02, sampling=0.03).at(0.9))
    ends = [norm.cdf(np.sqrt(2) * norm.ppf(end) + norm.ppf(found.fpr)) for end in found.auc.population]
    assert found.tpr.population.lower == pytest.approx(ends[0], abs=1e-4)
    assert found.tpr.population.upper == pytest.approx(ends[1], abs=1e-4)
    assert (found.tpr.population.upper - found.tpr.population.lower).max() > (found.tpr.upper - found.tpr.lower).max()


class TestForm(DiagnosticSuite):
    package = module
    tables = {name: partial(counted, name) for name in ("ties", "one", "negatives")}
    empty = staticmethod(partial(counted, "none"))
    nasty = staticmethod(nasty)
    settings = [{"epsilon": epsilon, "points": 33} for epsilon in ("0.01", "0.7")]

    def check_form(self, result: Any, options: Any) -> None:
        super().check_form(result, options)
        assert result.tpr.value.size == options["points"]
        if not is_undefined("binormal_roc", result):
            assert (result.tpr.value[0], result.tpr.value[-1]) == (0, 1)


@pytest.mark.parametrize("options", [{"points": 1}, {"method": "gauss"}, {"method": "laplace"}, {"confidence": 1}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        module.measure(ScoreCounts.from_arrays([], []), epsilon=1, **options)
