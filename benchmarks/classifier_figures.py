"""The papers' figures about classifiers, redrawn beside ours: ``python -m benchmarks.classifier_figures [--quick]``.

Two pictures, from seeded noise on the real tables:

* the area between the released and the exact ROC curve (Chen 2018, figures 4.8 to 4.11): our default, PriROC,
  PriROC-fix and SmoothS, the binormal curve through the published private AUC;
* the error of the AUC by class size (Boyd, Lantz and Page 2015, figure 5), against its sampling error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from benchmarks._scored_tables import binormal_quantiles, counts, real_tables
from benchmarks.auc_accuracy import published_cauchy
from benchmarks.harness import arguments, progress, scratch_folder
from benchmarks.roc_accuracy import Exact
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import auc
from spark_jobs.diagnostics.binormal_roc import separation
from spark_jobs.diagnostics.roc_curve import measure
from spark_jobs.diagnostics.roc_curve.summary import trace
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.publishing import drawing
from spark_jobs.publishing.tokens import light
from spark_jobs.statistics import ScoreCounts

IMAGES = Path(__file__).parents[1] / "docs" / "images"
EPSILONS = ("0.01", "0.1", "1")
SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
Styles = dict[str, tuple[str, str, str]]
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


def curves() -> dict[str, Callable[[ScoreCounts, str, SeededNoise], Curve]]:
    """Name -> what releases a curve of a table at an epsilon."""

    def counted(**options: object) -> Callable[[ScoreCounts, str, SeededNoise], Curve]:
        def make(statistic: ScoreCounts, epsilon: str, noise: SeededNoise) -> Curve:
            made = trace(measure(statistic, epsilon=epsilon, noise=noise, **options))
            return made.fpr, made.tpr

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
    figure, panels = _panels(len(tables))
    for axes, (name, scored) in zip(panels, tables.items(), strict=True):
        progress(f"curves of {name}")
        exact = Exact.of(counts(scored))
        for label, make in curves().items():
            noise = SeededNoise(7)
            found = np.array(
                [
                    [exact.distance(*make(exact.statistic, epsilon, noise)) for _ in range(releases)]
                    for epsilon in EPSILONS
                ]
            )
            _line(axes, CURVE_STYLES[label], label, np.array(EPSILONS, dtype=float), found)
        axes.set_title(f"{name}, AUC {exact.auc:.2f}", fontsize=10, color=light("ink"))
        axes.set_xlabel("epsilon", fontsize=9)
    panels[0].set_ylabel("area between released and exact curve", fontsize=9)
    _finish(figure, panels[0], path)


def draw_areas(path: Path, *, releases: int) -> None:
    """Mean absolute error of the AUC at epsilon 1 by the number of rows of each class."""
    figure, (axes,) = _panels(1)
    found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in AREA_STYLES}
    for size in SIZES:
        progress(f"areas of {size} rows per class")
        statistic, noise = counts(binormal_quantiles(0.8, 2 * size)), SeededNoise(3)
        exact = Exact.of(statistic).auc
        made: dict[str, Callable[[], float]] = {
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
        for name, make in made.items():
            found[name].append(np.abs(np.array([make() for _ in range(releases)]) - exact))
        # Hanley and McNeil 1982: the standard deviation of the area of a sample, as a mean absolute error
        spread = exact * (1 - exact) + (size - 1) * (exact / (2 - exact) + 2 * exact**2 / (1 + exact) - 2 * exact**2)
        found["sampling error"].append(np.full(2, np.sqrt(2 / np.pi * spread) / size))
    for name, errors in found.items():
        _line(axes, AREA_STYLES[name], name, np.array(SIZES, dtype=float), errors)
    axes.set_xlabel("rows of each class", fontsize=9)
    axes.set_ylabel("mean absolute error of the AUC, epsilon 1", fontsize=9)
    _finish(figure, axes, path)


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(3.1 * count if count > 1 else 5.5, 3.9), facecolor="white", layout="constrained")
    panels = list(figure.subplots(1, count, squeeze=False, sharey=count > 1)[0])
    for axes in panels:
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            # a logarithmic axis would write its powers of ten in mathematics, which these pictures leave alone
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.grid(color=light("hairline"), linewidth=0.8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure, panels


def _line(
    axes: Axes,
    style: tuple[str, str, str],
    label: str,
    at: NDArray[np.float64],
    errors: list[NDArray[np.float64]] | NDArray[np.float64],
) -> None:
    colour, marker, dashes = style
    means = np.array([each.mean() for each in errors])
    widths = np.array([1.96 * each.std() / np.sqrt(each.size) for each in errors])
    axes.plot(
        at,
        means,
        color=light(colour),
        marker=marker or None,
        linestyle=dashes,
        label=label,
        linewidth=1.6,
        markersize=4,
    )
    axes.fill_between(
        at, np.maximum(means - widths, means / 10), means + widths, color=light(colour), alpha=0.15, linewidth=0
    )


def _finish(figure: Figure, axes: Axes, path: Path) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(drawing.svg_bytes(figure, title=path.stem, description=path.stem.replace("-", " ")))


def main(argv: list[str] | None = None) -> int:
    """Draw both pictures: into the documentation's folder, or for ``--quick`` into one that is thrown away."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=60, help="of each method, table and epsilon")
    given = parser.parse_args(argv)
    with scratch_folder() as scratch, drawing.fixed_settings():
        folder, releases = (Path(scratch), 3) if given.quick else (IMAGES, given.releases)
        draw_areas(folder / "auc-error.svg", releases=10 * releases)
        draw_curves(folder / "roc-error.svg", releases=releases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
