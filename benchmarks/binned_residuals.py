"""How well private binned residuals detect wrong models: ``python -m benchmarks.binned_residuals [--quick]``.

The two models of Chen 2018, section 4.4.3, each fitted with only a linear term: M1, whose log-odds are linear, and M2,
whose log-odds have a square. All noise is seeded (the distributions are those of releases).

* the distance between the two distributions of the plot's shape (slopes on both sides of one half, weighted by rows),
  against an ideal plot as in Table 4.5 and against an exact plot of M1 as in Figure 4.14;
* how often the test of fit rejects at 5%, for true scores, and for both fitted models;
* the coverage of intervals for the exact residuals.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np
from scipy.special import expit
from scipy.stats import ks_2samp

from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics._score_groups.pools import Pools, pools
from spark_jobs.diagnostics._simulation import solved_interval
from spark_jobs.diagnostics.binned_residuals import measure
from spark_jobs.diagnostics.binned_residuals.summary import fit_test
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts

Rows = tuple[Int64Array, FloatArray]
SIGNALS = (1000, 2000, 3000, 5000)
METHODS: dict[str, dict[str, object]] = {
    "auto": {"method": "auto"},
    "recursive medians": {"method": "recursive_medians"},
    "fixed bins": {"method": "fixed_bins", "bins": 10},
    "auto, replace-one": {"method": "auto", "neighbours": Neighbours.REPLACE_ONE},
}
COPIES = 200


def sample(model: str, rows: int, random: np.random.Generator) -> tuple[Int64Array, FloatArray]:
    """Labels of one of the paper's models, and its covariate."""
    x = random.uniform(-1, 1, rows)
    odds = 2 * x if model == "M1" else x**2 + 2 * x - 1
    return (random.random(rows) < expit(odds)).astype(np.int64), x


def fitted(labels: Int64Array, x: FloatArray) -> FloatArray:
    """Scores of the logistic model with a linear term, by Newton's method."""
    design, beta = np.column_stack([np.ones_like(x), x]), np.zeros(2)
    for _ in range(20):
        score = expit(design @ beta)
        beta += np.linalg.solve((design * (score * (1 - score))[:, None]).T @ design, design.T @ (labels - score))
    return expit(design @ beta)


def draw(model: str, rows: int, random: np.random.Generator) -> Rows:
    """A table of the model, scored by the logistic model fitted to it."""
    labels, x = sample(model, rows, random)
    return labels, fitted(labels, x)


def exact_plot(labels: Int64Array, scores: FloatArray) -> FloatArray:
    """Mean score, mean residual and size of ``2^s`` bins of equal size, the largest power of two up to sqrt n."""
    bins = 1 << int(np.log2(np.sqrt(labels.size)))
    parts = np.array_split(np.argsort(scores, kind="stable"), bins)
    return np.array([(scores[part].mean(), (labels - scores)[part].mean(), part.size) for part in parts]).T


def released_plot(rows: Rows, *, seed: int, **options: object) -> Pools:
    """The pools of a release at epsilon 1."""
    measurement = measure(ScoreCounts.from_arrays(*rows), epsilon=1, noise=SeededNoise(seed), **options)
    return pools(measurement, seed=seed + 1, copies=COPIES)


def of(released: Pools) -> FloatArray:
    """Mean score, mean residual and size of each pool."""
    return np.stack([released.released.predicted, released.released.residual, released.released.rows])


def slopes(plot: FloatArray) -> FloatArray:
    """Slopes of the regression lines of the points up to one half and beyond it, weighted by rows."""
    values = []
    for half in (plot[0] <= 0.5, plot[0] > 0.5):
        x, y, weight = plot[:, half]
        away = x - np.average(x, weights=weight) if half.any() else x
        size = (weight * away**2).sum()
        values.append((weight * away * y).sum() / size if size > 1e-12 else 0.0)
    return np.array(values)


def separation(signal: int, *, tables: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The distances between the shape's distributions under M1 and M2, against an ideal and an exact plot; p-values."""
    random = np.random.default_rng(signal)
    shapes: dict[str, dict[str, list[FloatArray]]] = {name: {"M1": [], "M2": []} for name in ("no noise", *METHODS)}
    tests: dict[str, list[float]] = {"true scores": [], "M1": [], "M2": []}
    for _ in range(tables):
        for model in ("M1", "M2"):
            rows = draw(model, signal, random)
            shapes["no noise"][model].append(slopes(exact_plot(*rows)))
            for name, options in METHODS.items():
                plot = released_plot(rows, seed=int(random.integers(2**62)), **options)
                shapes[name][model].append(slopes(of(plot)))
                if name == "auto":
                    tests[model].append(fit_test(plot)[0])
        labels, x = sample("M1", signal, random)
        plot = released_plot((labels, expit(2 * x)), seed=int(random.integers(2**62)))
        tests["true scores"].append(fit_test(plot)[0])
    distances = {
        name: distance(np.abs(np.array(one["M1"])), np.abs(np.array(one["M2"]))) for name, one in shapes.items()
    }
    reference = np.array(shapes["no noise"]["M1"])
    distances["auto, against an exact plot"] = distance(
        *(np.abs(np.array(shapes["auto"][model]) - reference) for model in ("M1", "M2"))
    )
    return distances, tests


def distance(first: FloatArray, second: FloatArray) -> float:
    """Kolmogorov's distance of the shapes: a lower bound of the total variation, which needs no bins to estimate."""
    return float(ks_2samp(first.sum(axis=1), second.sum(axis=1)).statistic)


def coverage(signal: int, *, tables: int) -> tuple[float, int]:
    """The coverage of 90% intervals for the exact residual of their pool, and the number of intervals."""
    random, covered = np.random.default_rng(17), []
    for _ in range(tables):
        labels, scores = draw("M1", signal, random)
        plot = released_plot((labels, scores), seed=int(random.integers(2**62)))
        low, high = solved_interval(plot.released.mean_excess, plot.possible_copies().mean_excess, 0.9)
        inside = np.searchsorted(plot.released.upper[:-1], scores, side="right")
        sizes = np.bincount(inside, minlength=low.size)
        exact = np.bincount(inside, labels - scores, minlength=low.size) / np.maximum(sizes, 1)
        covered.append(((low <= exact + 1e-6) & (exact - 1e-6 <= high))[sizes > 0])
    return float(np.concatenate(covered).mean()), int(np.concatenate(covered).size)


def share(p_values: Iterable[float]) -> str:
    """The share of tests that reject at 5%, with its 95% error."""
    rejected = np.array(list(p_values)) < 0.05
    return f"{rejected.mean():.3f} ± {1.96 * rejected.std() / np.sqrt(rejected.size):.3f}"


def main(argv: list[str] | None = None) -> int:
    """Run all experiments and print their tables."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    tables = 12 if given.quick else 500
    rows, tested, targets, figures = [], [], [], {}
    for signal in SIGNALS[:2] if given.quick else SIGNALS:
        progress(f"n·epsilon = {signal}")
        distances, tests = separation(signal, tables=tables)
        figures[str(signal)] = {"separation": distances, "tests": tests}
        rows.append([f"{signal:,}", *(f"{value:.3f}" for value in distances.values()), f"{tables}"])
        covered, count = coverage(signal, tables=tables // 4)
        tested.append(
            [f"{signal:,}", *(share(tests[name]) for name in tests), f"{covered:.3f} of {count:,}", f"{tables}"]
        )
        if signal == 3000:
            worst = min(distances["auto"], distances["auto, against an exact plot"])
            targets.append(
                Target(
                    what="models distinguished at n·epsilon = 3,000, privately",
                    target="distance at least 0.9 (paper: at 20,000)",
                    outcome=f"{worst:.3f}",
                    met=worst >= 0.9,
                )
            )
    heads = ("n·epsilon", *distances, "tables")
    name = "binned_residuals: distance between the laws of the shape, M1 against M2"
    publish(Report(name=name, columns=heads, rows=rows, targets=targets, figures={}), None)
    heads = ("n·epsilon", "rejected: true scores", "M1, fitted here", "M2", "90% intervals hold", "tables")
    name = "binned_residuals: the test of fit at 5%, and the intervals"
    return publish(Report(name=name, columns=heads, rows=tested, targets=[], figures=figures), given.json)


if __name__ == "__main__":
    sys.exit(main())
