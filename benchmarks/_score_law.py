"""The law of scored tables with a rare class, from which a benchmark and a test draw.

A table has 12,000 to 80,000 rows (even in the logarithm) and a stated number of positives. Log-odds of both classes
have one base shape; the positives' are wider by a factor (log-normal, 0.25) and moved so far that scores separate the
classes with a stated AUC in the long run. Log-odds of scores have a log-normal width (0.4) and a centre near the share
of positives, as of a calibrated model (normal, 0.7). The budget is 0.5, 1, 2 or 4. The base shape:

    normal: normal.
    skewed: gamma with shape 0.7 to 4, to the right or to the left.
    heavy: Student's t with 2 to 5 degrees of freedom.
    discrete: normal, rounded to steps of 0.1 to 0.8 standard deviations.
    ties: normal, but 10 to 50% of both classes have one common score.
    humps: two normal humps, 1.5 to 4 apart, the lower with 20 to 80% of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from spark_jobs.arrays import FloatArray
from spark_jobs.statistics import ScoreCounts

SHAPES = ("normal", "skewed", "heavy", "discrete", "ties", "humps")
POSITIVES = (100, 300, 1000, 3000)
SIGNALS = (0.62, 0.80, 0.93)
EPSILONS = ("0.5", "1", "2", "4")
ROWS = (12_000, 80_000)
_REFERENCE, _POPULATION, _HALVINGS, _FURTHEST = 20_000, 200_000, 25, 12.0


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreTable:
    """A table of the law.

    Attributes:
        shape: its base shape.
        counts: the rows.
        epsilon: the budget of its release.
        population_auc: the area in the long run.
    """

    shape: str
    counts: ScoreCounts
    epsilon: str
    population_auc: float


def drawn_table(
    random: np.random.Generator,
    *,
    positives: int,
    auc: float,
    shape: str,
    sizes: tuple[int, int] = ROWS,
    epsilons: tuple[str, ...] = EPSILONS,
) -> ScoreTable:
    """A table of the law with this number of positives, signal and base shape, and its rows and budget within these."""
    rows = int(np.exp(random.uniform(*np.log(sizes))))
    wider, width = np.exp(random.normal(0, [0.25, 0.4]))
    centre = np.log(positives / rows) + random.normal(0, 0.7)
    latent, observed = _shape(random, shape)
    negatives, moved = latent(_REFERENCE), wider * latent(_REFERENCE)
    seeds = random.random(_REFERENCE), random.random(_REFERENCE)
    low, high = -_FURTHEST / 4, _FURTHEST
    for _ in range(_HALVINGS):
        apart = (low + high) / 2
        reached = _area(observed(negatives, seeds[0]), observed(apart + moved, seeds[1]))
        low, high = (apart, high) if reached < auc else (low, apart)
    classes = latent(rows - positives), apart + wider * latent(positives)
    scores = np.concatenate([observed(places, random.random(places.size)) for places in classes])
    epsilon = str(random.choice(epsilons))
    # many more rows than a table has positives, so that the error of this area is small beside the table's
    population = latent(_POPULATION), apart + wider * latent(_POPULATION)
    return ScoreTable(
        shape=shape,
        counts=ScoreCounts.from_arrays(np.arange(rows) >= rows - positives, expit(centre + width * scores)),
        epsilon=epsilon,
        population_auc=_area(*(observed(places, random.random(_POPULATION)) for places in population)),
    )


def _shape(
    random: np.random.Generator, shape: str
) -> tuple[Callable[[int], FloatArray], Callable[[FloatArray, FloatArray], FloatArray]]:
    """Sampler of the latent scores, and what is observed of them, given uniform variates."""
    degrees, gamma, side = random.uniform(2, 5), random.uniform(0.7, 4), random.choice([-1, 1])
    gap, lower, step = random.uniform(1.5, 4), random.uniform(0.2, 0.8), random.uniform(0.1, 0.8)
    tied, at = random.uniform(0.1, 0.5), random.normal(0, 0.7)
    latent: dict[str, Callable[[int], FloatArray]] = {
        "skewed": lambda count: side * (random.gamma(gamma, size=count) - gamma) / np.sqrt(gamma),
        "heavy": lambda count: random.standard_t(degrees, size=count),
        "humps": lambda count: gap * ((random.random(count) > lower) - 0.5) + random.normal(0, 0.6, count),
    }
    observed: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
        "discrete": lambda scores, _: np.round(scores / step) * step,
        "ties": lambda scores, uniform: np.where(uniform < tied, at, scores),
    }
    return latent.get(shape, lambda count: random.normal(size=count)), observed.get(shape, lambda scores, _: scores)


def _area(negatives: FloatArray, positives: FloatArray) -> float:
    ordered, positives = np.sort(negatives), np.sort(positives)  # a sorted search reads memory in order
    sides = (np.searchsorted(ordered, positives, side=side) for side in ("left", "right"))
    return float(sum(below.mean() for below in sides) / (2 * ordered.size))
