"""Scores whose scale has a step: rows of one value are tied, and figures say so."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import average_precision_score, roc_auc_score

from spark_jobs.application.count_statistics import _steps_of_scores
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.score_scale import ScoreScale
from spark_jobs.diagnostics import auc, average_precision, ranking_figures, roc_curve
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import cuts_of_values, values_inside
from spark_jobs.statistics import ScoreCounts

EXACT = {"roc_curve": roc_auc_score, "auc": roc_auc_score, "average_precision": average_precision_score}
KINDS = {"roc_curve": roc_curve, "auc": auc, "average_precision": average_precision}


def rows(seed: int, *, decimals: int, positives: int = 300) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([seed, decimals])
    labels = (np.arange(positives * int(random.integers(3, 9))) < positives).astype(float)
    return labels, np.round(expit(random.normal(-1, 1, labels.size) + 1.5 * labels), decimals)


def counted(labels: np.ndarray, scores: np.ndarray, decimals: int) -> ScoreCounts:
    scale = ScoreScale(kind="linear", lower=0, upper=1, step=10.0**-decimals)
    return ScoreCounts.from_arrays(labels, scores, scale=scale)


def figure(kind: str, statistic: ScoreCounts, *, epsilon: float, seed: int) -> tuple[float, tuple[float, float], str]:
    result = KINDS[kind].release(statistic, epsilon=epsilon, noise=SeededNoise(seed))
    of = result.auc if kind == "roc_curve" else result.figure
    return of.value, of.interval, result.status


@pytest.mark.sampled("kind")  # with fewer decimals a case takes a quarter of a minute
@pytest.mark.parametrize("decimals", [2, 1, 0])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_without_noise_figures_are_scikit_learns(kind: str, decimals: int) -> None:
    labels, scores = rows(1, decimals=decimals)
    value, (low, high), status = figure(kind, counted(labels, scores, decimals), epsilon=1e9, seed=1)
    exact = EXACT[kind](labels, scores)
    assert (value, status) == (pytest.approx(exact, abs=1e-6), "ok")
    assert low - 1e-6 <= exact <= high + 1e-6
    assert high - low < 1e-3


def test_the_area_of_yes_and_no_is_coarse_unless_the_step_is_declared() -> None:
    labels, scores = rows(2, decimals=0)
    _, (low, high), status = figure("roc_curve", ScoreCounts.from_arrays(labels, scores), epsilon=1, seed=2)
    assert status == "coarse"
    assert high - low > 0.2
    for kind in ("roc_curve", "auc"):
        _, (low, high), status = figure(kind, counted(labels, scores, 0), epsilon=1, seed=2)
        assert status == "ok"
        assert high - low < 0.06


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("decimals", [0, 1, 2])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_intervals_hold(kind: str, decimals: int) -> None:
    holds = 0
    for seed in range(40):
        labels, scores = rows(seed, decimals=decimals)
        statistic = counted(labels, scores, decimals)
        _, (low, high), _ = figure(kind, statistic, epsilon=[0.5, 1, 2][seed % 3], seed=seed)
        holds += low - 1e-6 <= EXACT[kind](labels, scores) <= high + 1e-6
    assert holds >= 31  # of 40 at 0.9, fewer in 1% of runs


def test_a_cell_for_each_of_few_values() -> None:
    cuts = cuts_of_values(10, SCORE_CELLS)
    assert cuts.size == 12
    assert (values_inside(cuts, 10, SCORE_CELLS) == 1).all()
    assert values_inside(np.array([0, SCORE_CELLS // 2, SCORE_CELLS]), 100, SCORE_CELLS).sum() == 101
    ranked = ranking_figures.release(counted(*rows(3, decimals=1), 1), epsilon=1, noise=SeededNoise(3))
    assert ranked.status == "ok"


SCALES = [
    ({"kind": "linear", "lower": 0, "upper": 1, "step": 0.01}, 100),
    ({"kind": "linear", "lower": 300, "upper": 850, "step": 1}, 550),
    ({"kind": "linear", "lower": 300, "upper": 850}, None),
    (None, None),
]


@pytest.mark.parametrize(("scale", "steps"), SCALES, ids=["decimals", "points", "without a step", "none"])
def test_a_request_says_the_steps(scale: dict[str, object] | None, steps: int | None) -> None:
    request = ReleaseRequest.parse(
        {
            "table": {"path": "/lake/loans", "snapshot": {"path_version": "v1"}},
            "label": "paid",
            "model": {"kind": "columns", "score": "score", "basis": "public", "scale": scale},
            "diagnostics": [{"kind": "auc"}],
            "budget": {"epsilon": "1"},
        }
    )
    assert _steps_of_scores(request) == steps


def test_sums_keep_the_steps_that_both_have() -> None:
    both = [counted(*rows(seed, decimals=1), 1) for seed in (4, 5)]
    assert (both[0] + both[1]).steps == 10
    assert (both[0] + ScoreCounts.from_arrays([0, 1], [0.1, 0.2])).steps is None
