"""The papers' figures about classifiers, redrawn beside ours: ``python -m benchmarks.classifier_figures [--quick]``.

Four pictures, from seeded noise:

* the area between the released and the exact ROC curve (Chen 2018, figures 4.8 to 4.11): our default, PriROC,
  PriROC-fix and SmoothS, the binormal curve through the published private AUC;
* the error of the AUC by class size (Boyd, Lantz and Page 2015, figure 5), against its sampling error;
* the distance between the distributions of the shape of binned residuals under two models (Chen 2018, figure 4.14);
* the type-I error of the Hosmer-Lemeshow test, and the relative error of its statistic beside algorithm 2 of
  Barczewski, Mawass and Ramon (figures 6 and 10, which print no values: the algorithm is run here).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks import calibration
from benchmarks._pictures import IMAGES, Styles, finish, line, panels, points
from benchmarks._scored_tables import binormal_quantiles, counts, real_tables
from benchmarks.auc_accuracy import published_cauchy
from benchmarks.binned_residuals import separation as shapes_apart
from benchmarks.harness import arguments, progress, scratch_folder
from benchmarks.roc_accuracy import Exact
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import auc
from spark_jobs.diagnostics.binormal_roc import separation
from spark_jobs.diagnostics.roc_curve import measure
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.publishing import figures
from spark_jobs.publishing.theme import light
from spark_jobs.statistics import ScoreCounts

EPSILONS = ("0.01", "0.1", "1")
SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
Curve = tuple[FloatArray, FloatArray]
CURVE_STYLES: Styles = {
    "our default": ("curve", "o", "-"),
    "PriROC (medians, DAWA)": ("spent", "s", "--"),
    "PriROC-fix (fixed cells, DAWA)": ("before", "^", "-."),
    "SmoothS (binormal, published AUC)": ("chance", "D", ":"),
}
AREA_STYLES: Styles = {
    "our default": ("curve", "o", "-"),
    "published, Laplace, delta 1e-6": ("before", "^", "-."),
    "published, Cauchy": ("spent", "s", "--"),
    "sampling error": ("chance", "", ":"),
}
SHAPES_AT = (500, 1000, 2000, 3000, 5000)
SHAPE_STYLES: Styles = {
    "auto": ("curve", "o", "-"),
    "auto, against an exact plot": ("before", "^", "-."),
    "fixed bins": ("caution", "v", "--"),
    "no noise": ("chance", "", "-"),
}
PAPER_SHAPES = {500: 0.554, 1000: 0.69, 1500: 0.81, 2000: 0.9, 2500: 0.94, 3000: 0.972, 3500: 0.982}
"""Table 4.5: of plots without noise."""
LEVEL_STYLES = {
    "ours": ("curve", "o"),
    "chi-squared, no noise known": ("spent", "s"),
    "algorithm 2": ("before", "^"),
}


def curves() -> dict[str, Callable[[ScoreCounts, str, SeededNoise], Curve]]:
    """Name -> the function that releases a curve of a table at an epsilon."""

    def counted(**options: object) -> Callable[[ScoreCounts, str, SeededNoise], Curve]:
        def make(statistic: ScoreCounts, epsilon: str, noise: SeededNoise) -> Curve:
            curve = trace(measure(statistic, epsilon=epsilon, noise=noise, **options))
            return curve.fpr, curve.tpr

        return make

    def smooth(statistic: ScoreCounts, epsilon: str, noise: SeededNoise) -> Curve:
        fpr = np.linspace(0, 1, 257)
        area = published_cauchy(statistic, noise, float(epsilon))
        return fpr, np.asarray(ndtr(separation(area) + ndtri(fpr)), dtype=np.float64)

    dawa = {"thresholds": 16, "histogram": "dawa"}
    return dict(
        zip(
            CURVE_STYLES,
            (
                counted(),
                counted(method="recursive_medians", delta="1e-9", **dawa),
                counted(method="fixed_cells", **dawa),
                smooth,
            ),
            strict=True,
        )
    )


def draw_curves(path: Path, *, releases: int) -> None:
    """Mean area between the curves, with 95% intervals, a panel for each table."""
    tables = real_tables()
    figure, shown = panels(len(tables))
    for axes, (name, scored) in zip(shown, tables.items(), strict=True):
        progress(f"curves of {name}")
        exact = Exact.of(counts(scored))
        for label, make in curves().items():
            noise = SeededNoise(7)
            heights = np.array(
                [
                    [exact.distance(*make(exact.statistic, epsilon, noise)) for _ in range(releases)]
                    for epsilon in EPSILONS
                ]
            )
            line(axes, CURVE_STYLES[label], label, np.array(EPSILONS, dtype=float), heights)
        axes.set_title(f"{name}, AUC {exact.auc:.2f}", fontsize=10, color=light("ink"))
        axes.set_xlabel("epsilon", fontsize=9)
    shown[0].set_ylabel("area between released and exact curve", fontsize=9)
    finish(figure, shown[:1], path)


def draw_areas(path: Path, *, releases: int) -> None:
    """Mean absolute error of the AUC at epsilon 1 by the number of rows of each class."""
    figure, (axes,) = panels(1)
    results: dict[str, list[FloatArray]] = {name: [] for name in AREA_STYLES}
    for size in SIZES:
        progress(f"areas of {size} rows per class")
        statistic, noise = counts(binormal_quantiles(0.8, 2 * size)), SeededNoise(3)
        exact = Exact.of(statistic).auc
        releases_of: dict[str, Callable[[], float]] = {
            "our default": lambda statistic=statistic, noise=noise: (
                auc.release(statistic, epsilon=1, interval=False, noise=noise).value
            ),
            "published, Laplace, delta 1e-6": lambda statistic=statistic, noise=noise: (
                auc.release(
                    statistic,
                    epsilon=1,
                    delta="1e-6",
                    method="laplace",
                    neighbours=Neighbours.REPLACE_ONE,
                    interval=False,
                    noise=noise,
                ).value
            ),
            "published, Cauchy": lambda statistic=statistic, noise=noise: published_cauchy(statistic, noise),
        }
        for name, make in releases_of.items():
            results[name].append(np.abs(np.array([make() for _ in range(releases)]) - exact))
        # Hanley and McNeil 1982: the standard deviation of the area of a sample, as a mean absolute error
        spread = exact * (1 - exact) + (size - 1) * (exact / (2 - exact) + 2 * exact**2 / (1 + exact) - 2 * exact**2)
        results["sampling error"].append(np.full(2, np.sqrt(2 / np.pi * spread) / size))
    for name, errors in results.items():
        line(axes, AREA_STYLES[name], name, np.array(SIZES, dtype=float), errors)
    axes.set_xlabel("rows of each class", fontsize=9)
    axes.set_ylabel("mean absolute error of the AUC, epsilon 1", fontsize=9)
    finish(figure, [axes], path)


def draw_shapes(path: Path, *, tables: int, signals: tuple[int, ...] = SHAPES_AT) -> None:
    """How far apart two models are in the shape of their binned residuals, by n·epsilon."""
    figure, (axes,) = panels(1, scales=("linear",))
    distances = {}
    for signal in signals:
        progress(f"binned residuals at n·epsilon = {signal}")
        distances[signal], _ = shapes_apart(signal, tables=tables)
    for name, style in SHAPE_STYLES.items():
        points(axes, style, f"ours, {name}", signals, [distances[signal][name] for signal in signals])
    points(axes, ("chance", "D", ":"), "paper, no noise", [*PAPER_SHAPES], [*PAPER_SHAPES.values()])
    points(axes, ("spent", "s", ""), "paper, private, but for its sums", [20_000], [0.9])
    points(axes, ("alarm", "x", ""), "aimed at", [3000], [0.9])
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("n·epsilon", fontsize=9)
    axes.set_ylabel("distance between the laws of the shape", fontsize=9)
    finish(figure, [axes], path)


def draw_levels(path: Path, *, releases: int) -> None:
    """How often the test rejects true scores, and the error of its statistic (quartiles shaded), by epsilon."""
    figure, (left, right) = panels(2, scales=("linear", "log"))
    at = np.array(calibration.EPSILONS, dtype=float)
    for number, (name, scores) in enumerate(calibration.tables().items()):
        progress(f"calibration of {name}")
        levels = [calibration.level(name, scores, epsilon, releases=releases)[2] for epsilon in calibration.EPSILONS]
        for label, key in (("ours", "p"), ("chi-squared, no noise known", "chi-squared p")):
            rejected = [(np.array(one[key]) < 0.05).astype(np.float64) for one in levels]
            line(left, _of_table(label, number), f"{label}: {name}", at, rejected)
        for label, key in (("ours", "relative error"), ("algorithm 2", "as published")):
            style = _of_table(label, number)
            low, middle, high = np.array([np.quantile(one[key], [0.25, 0.5, 0.75]) for one in levels]).T
            points(right, style, f"{label}: {name}", list(at), list(middle))
            right.fill_between(at, low, high, color=light(style[0]), alpha=0.15, linewidth=0)
    left.axhspan(0.03, 0.07, color=light("chance"), alpha=0.25, linewidth=0, label="aimed at")
    left.set_ylim(0, 1)
    left.set_ylabel("rejected at 5%, true scores", fontsize=9)
    right.set_ylabel("relative error of the statistic", fontsize=9)
    for axes in (left, right):
        axes.set_xlabel("epsilon", fontsize=9)
    finish(figure, [left, right], path)


def _of_table(label: str, number: int) -> tuple[str, str, str]:
    """One colour and marker for a method, dashes for the table."""
    return *LEVEL_STYLES[label], ("-", "--")[number]


PICTURES: dict[str, Callable[[Path, int], None]] = {
    "auc-error": lambda path, releases: draw_areas(path, releases=10 * releases),
    "roc-error": lambda path, releases: draw_curves(path, releases=releases),
    "binned-residuals-figure": lambda path, releases: draw_shapes(path, tables=2 * releases),
    "hosmer-lemeshow-figure": lambda path, releases: draw_levels(path, releases=5 * releases),
}


def main(argv: list[str] | None = None) -> int:
    """Draw all pictures or one: into the documentation's folder, or for ``--quick`` into one that is thrown away."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--picture", choices=PICTURES, help="draw this one alone")
    parser.add_argument("--releases", type=int, default=60, help="of each method, table and epsilon")
    given = parser.parse_args(argv)
    with scratch_folder() as scratch, figures.fixed_settings():
        folder, releases = (Path(scratch), 3) if given.quick else (IMAGES, given.releases)
        for name in [given.picture] if given.picture else PICTURES:
            PICTURES[name](folder / f"{name}.svg", releases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
