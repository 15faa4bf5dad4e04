"""Coverage of the intervals of Brier score, log loss, calibration slope and map, on tables drawn at random.

A table has 2,000 to 80,000 rows, and 1 to 50% positives (both even in the logarithm). Log-odds of the true
probabilities have a base shape with a width of 0.5, 1.2 or 2.5 (weak, middling and strong signal), and are moved to the
share of positives. Log-odds of the scores are these, stretched (log-normal, 0.4), moved (normal, 0.7) and, in half of
the tables, bent by a square, so that the true map is no straight line. The budget is 0.5, 1, 2 or 4. The base shape:

    normal: normal.
    skewed: gamma with shape 0.7 to 4, to the right or to the left.
    heavy: Student's t with 2.5 to 5 degrees of freedom.
    humps: two normal humps, 1.5 to 4 apart, the lower with 20 to 80% of the rows.
    discrete: normal; log-odds of scores are rounded to steps of 0.1 to 0.8 widths.
    ties: normal; 10 to 50% of the rows have one common score.

``python -m benchmarks.recalibration`` shows, for each figure, the share of intervals that hold with its 99%
Clopper-Pearson interval, for the same rows and for the population, and the lowest share over the shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from benchmarks.harness import Report, arguments, publish
from benchmarks.rare_classes import credible
from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics import recalibration
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import middles_of
from spark_jobs.statistics import ScoreCounts

SHAPES = ("normal", "skewed", "heavy", "humps", "discrete", "ties")
WIDTHS = (0.5, 1.2, 2.5)
EPSILONS = ("0.5", "1", "2", "4")
FIGURES = ("brier", "log_loss", "slope", "intercept")
CLIP = 0.001
_POPULATION = 400_000


@dataclass(frozen=True, kw_only=True)
class MiscalibratedTable:
    """A table of the law.

    Attributes:
        shape: its base shape.
        counts: the rows.
        population: many more rows of the same law.
        epsilon: the budget of its release.
    """

    shape: str
    counts: ScoreCounts
    population: ScoreCounts
    epsilon: str


def drawn_table(random: np.random.Generator, *, positives: int | None = None) -> MiscalibratedTable:
    """A table of the law, or of the part of it with this expected number of positives."""
    fewest, largest = 2_000, 80_000
    if positives is not None:
        fewest, largest = max(fewest, 2 * positives), min(largest, 100 * positives)
    rows = int(np.exp(random.uniform(*np.log([fewest, largest]))))
    rate = float(np.exp(random.uniform(*np.log([0.01, 0.5])))) if positives is None else positives / rows
    shape, width, epsilon = str(random.choice(SHAPES)), float(random.choice(WIDTHS)), str(random.choice(EPSILONS))
    latent, observed = _shape(random, shape, width)
    stretched, moved, bent = np.exp(random.normal(0, 0.4)), random.normal(0, 0.7), random.normal(0, 0.15)
    bent *= random.choice([0, 1])
    reference = width * latent(_POPULATION)
    centre = float(brentq(lambda at: float(expit(reference + at).mean()) - rate, -60, 60))

    def counted(apart: FloatArray) -> ScoreCounts:
        labels = random.random(apart.size) < expit(apart + centre)
        scores = stretched * apart + bent * width * np.clip(apart / width, -3, 3) ** 2
        return ScoreCounts.from_arrays(labels, expit(observed(scores) + centre + moved))

    return MiscalibratedTable(
        shape=shape, counts=counted(width * latent(rows)), population=counted(reference), epsilon=epsilon
    )


def _shape(
    random: np.random.Generator, shape: str, width: float
) -> tuple[Callable[[int], FloatArray], Callable[[FloatArray], FloatArray]]:
    """Sampler of the log-odds in widths, and what is observed of the scores' log-odds."""
    gamma, side, degrees = random.uniform(0.7, 4), random.choice([-1, 1]), random.uniform(2.5, 5)
    gap, lower, step, tied = (random.uniform(*ends) for ends in ((1.5, 4), (0.2, 0.8), (0.1, 0.8), (0.1, 0.5)))
    latent: dict[str, Callable[[int], FloatArray]] = {
        "skewed": lambda count: side * (random.gamma(gamma, size=count) - gamma) / np.sqrt(gamma),
        "heavy": lambda count: random.standard_t(degrees, size=count) / 1.5,
        "humps": lambda count: (
            (gap * ((random.random(count) > lower) - 0.5) + random.normal(0, 0.6, count)) / np.hypot(gap / 2, 0.6)
        ),
    }
    observed: dict[str, Callable[[FloatArray], FloatArray]] = {
        "discrete": lambda odds: np.round(odds / (step * width)) * step * width,
        "ties": lambda odds: np.where(random.random(odds.size) < tied, 0.0, odds),
    }
    return latent.get(shape, lambda count: random.normal(size=count)), observed.get(shape, lambda odds: odds)


def exact_figures(counts: ScoreCounts, clip: float = CLIP) -> dict[str, float]:
    """The figures of the rows, whose scores are the middles of their cells."""
    used = (counts.positives + counts.negatives) > 0
    scores = middles_of(counts.cells)[used]
    positives, negatives = (rows[used].astype(np.float64) for rows in (counts.positives, counts.negatives))
    rows = positives + negatives
    clipped = np.clip(scores, clip, 1 - clip)
    columns, fit = np.stack([np.ones(scores.size), logit(clipped)]), np.array([0.0, 1.0])
    for _ in range(200):
        share = expit(fit @ columns)
        spread = (columns * (rows * share * (1 - share))) @ columns.T + 1e-9 * np.eye(2)
        step = np.linalg.solve(spread, columns @ (positives - rows * share))
        fit = np.clip(fit + step / max(1.0, np.abs(step).max()), [-60, -20], [60, 20])
    brier = (positives * (1 - scores) ** 2 + negatives * scores**2).sum() / rows.sum()
    loss = -(positives * np.log(clipped) + negatives * np.log1p(-clipped)).sum() / rows.sum()
    return {"brier": float(brier), "log_loss": float(loss), "intercept": float(fit[0]), "slope": float(fit[1])}


def coverage_of(seed: int) -> dict[str, float] | None:
    """Whether the intervals hold for one table, and the share of the map's points; None if it is undefined."""
    table = drawn_table(np.random.default_rng(seed))
    result = recalibration.release(table.counts, epsilon=table.epsilon, noise=SeededNoise(seed), clip=CLIP)
    if result.status != "ok":
        return None
    covered: dict[str, float] = {"shape": float(SHAPES.index(table.shape))}
    for end, counts in (("", table.counts), ("_population", table.population)):
        exact = exact_figures(counts)
        for name in FIGURES:
            low, high = result.published()[f"{name}{end}_interval"]
            covered[name + end] = float(low <= exact[name] <= high)
        mapped = expit(exact["intercept"] + exact["slope"] * logit(result.score))
        low, high = (result.published()[f"recalibrated{end}_{side}"] for side in ("lower", "upper"))
        covered[f"map{end}"] = float(((low - 1e-9 <= mapped) & (mapped <= high + 1e-9)).mean())
    return covered


def main(argv: list[str] | None = None) -> int:
    """Print the coverage of every figure."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=600, help="tables of the law (default: 600)")
    given = parser.parse_args(argv)
    tables = 3 if given.quick else given.tables
    covered = [one for seed in range(tables) if (one := coverage_of(seed)) is not None]
    shapes = np.array([one["shape"] for one in covered])
    rows, figures = [], {}
    for name in (*FIGURES, "map"):
        row = [name]
        for end in ("", "_population"):
            values = np.array([one[name + end] for one in covered])
            figures[name + end] = values.tolist()
            low, high = credible(values)
            lowest, shape = min((values[shapes == at].mean(), SHAPES[int(at)]) for at in np.unique(shapes))
            row += [f"{values.mean():.3f} ({low:.3f}-{high:.3f})", f"{lowest:.2f}, {shape}"]
        rows.append(row)
    report = Report(
        name=f"recalibration: coverage of 90% intervals, {len(covered)} of {tables} tables that are defined",
        columns=("figure", "same rows", "lowest of a shape", "population", "lowest of a shape"),
        rows=rows,
        targets=[],
        figures=figures,
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
