from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from spark_jobs.contract import InvalidRequest
from spark_jobs.diagnostics import binormal_roc as module
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.diagnostics.test_score_figures import SETS, on_grid
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
    assert found.tpr[1:-1] == pytest.approx(norm.cdf(np.sqrt(2) * norm.ppf(kept) + norm.ppf(inner)), abs=1e-4)


def test_a_curve_that_is_binormal_is_found() -> None:
    found = module.release(ScoreCounts.from_arrays(LABELS, SCORES), epsilon=1, noise=SeededNoise(2))
    truth = norm.cdf(1.1 + norm.ppf(found.fpr))
    assert np.abs(found.tpr - truth).max() < 0.015
    assert found.separation == pytest.approx(1.1, abs=0.05)


@pytest.mark.slow
@pytest.mark.verify
def test_bands_hold_the_curve_of_the_exact_area_at_their_level() -> None:
    labels, scores = SETS["even"]
    statistic, noise = ScoreCounts.from_arrays(labels, scores), SeededNoise(6)
    exact = module.release(statistic, epsilon=10**9, noise=SeededNoise(1)).tpr
    made = [module.release(statistic, epsilon=1, noise=noise) for _ in range(200)]
    held = [((one.tpr_lower <= exact + 1e-9) & (exact <= one.tpr_upper + 1e-9)).all() for one in made]
    assert np.mean(held) >= 0.82


@pytest.mark.parametrize("table", [([], []), ([1], [0.3]), ([0] * 50, [0.7] * 50)], ids=["none", "one", "negatives"])
@pytest.mark.parametrize("epsilon", ["0.01", "1"])
def test_degenerate_tables_get_a_curve_of_the_same_shape(table: Any, epsilon: str) -> None:
    found = module.release(ScoreCounts.from_arrays(*table), epsilon=epsilon, points=33)
    assert json.dumps(found.to_dict(), allow_nan=False)
    assert found.tpr.size == 33
    if is_undefined("binormal_roc", found):
        return
    assert (np.diff(found.tpr) >= 0).all()
    assert ((found.tpr_lower <= found.tpr) & (found.tpr <= found.tpr_upper)).all()
    assert (found.tpr[0], found.tpr[-1]) == (0, 1)


def test_cost_is_that_of_the_area_and_a_draw_survives_storage() -> None:
    drawn = module.measure(ScoreCounts.from_arrays(*SETS["ties"]), epsilon="0.7", noise=SecureNoise())
    assert sum(spending.epsilon for spending in drawn.spendings) == Decimal("0.7")
    stored = module.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(drawn.to_dict())))
    assert module.summarise(stored, seed=3).to_dict() == module.summarise(drawn, seed=3).to_dict()


@pytest.mark.parametrize("options", [{"points": 1}, {"method": "gauss"}, {"method": "laplace"}, {"confidence": 1}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        module.measure(ScoreCounts.from_arrays([], []), epsilon=1, **options)
