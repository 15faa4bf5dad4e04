"""The papers' figures about residual plots, redrawn beside ours: ``python -m benchmarks.residual_figures [--quick]``.

One picture of Chen 2018, section 4.2.3, measured as by ``benchmarks.residual_plot``: the distance between the laws of
the similarity by n·epsilon (figure 4.3), and the smallest alpha and gamma distinguished from M1 (table 4.1) beside the
paper's, with and without noise, and the targets.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.axes import Axes

from benchmarks._pictures import IMAGES, Styles, finish, panels, points
from benchmarks._residual_models import curved, uneven
from benchmarks.harness import arguments, markdown_table, progress, scratch_folder
from benchmarks.residual_plot import (
    AIMED,
    PAPER,
    SIGNALS,
    figure_4_3,
    smallest_by_plot,
    smallest_by_test,
)
from spark_jobs.diagnostics.residual_plot import copies
from spark_jobs.publishing import figures

NAME = "residual-figure-4-3.svg"
DISTANCES_AT = (100, 200, 500, 1000, 2000, 5000)
WITHOUT_NOISE = {1000: (0.0097, 0.000301), 2000: (0.0067, 0.000215), 5000: (0.0041, 0.000135)}
"""Table 4.1's smallest alpha and gamma in plots of the exact rows."""
PAPER_DISTANCES = {500: 0.9, 1000: 0.95}
"""What figure 4.3's distances reach, by its text."""
OURS: Styles = {
    "variance x": ("curve", "o", "-"),
    "standard deviation x": ("before", "^", "-."),
    "nonlinear": ("caution", "v", "--"),
}
TICKS = {"alpha": (0.002, 0.005, 0.01, 0.02), "gamma": (0.0001, 0.0002, 0.0005, 0.001, 0.002)}
STYLES: Styles = {
    "paper, private": ("spent", "s", "--"),
    "aimed at": ("alarm", "x", ":"),
    "paper, no noise": ("chance", "D", ":"),
    "ours, by plot": ("curve", "o", "-"),
    "ours, by plot, fresh tables": ("before", "^", "-."),
    "ours, by test": ("caution", "v", "-"),
}


def draw_distances(axes: Axes, signals: tuple[int, ...], *, tables: int) -> None:
    """Figure 4.3: ours by departure, and the smallest that the paper reports."""
    figures = figure_4_3(signals, tables=tables).figures
    for name, style in OURS.items():
        points(axes, style, f"figure 4.3: ours, {name}", signals, [figures[str(n)][name] for n in signals])
    points(axes, STYLES["paper, private"], "paper, private", [*PAPER_DISTANCES], [*PAPER_DISTANCES.values()])
    points(axes, STYLES["aimed at"], "aimed at", [500], [0.95])
    axes.set_ylim(0, 1.05)
    axes.set_title("figure 4.3", fontsize=10)
    axes.set_ylabel("distance from the ideal plot's law", fontsize=9)


def smallest(signals: tuple[int, ...], *, tables: int) -> dict[str, list[tuple[float, float]]]:
    """Table 4.1's smallest alpha and gamma by method of detection, one pair for each n·epsilon."""
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in STYLES}
    for n in signals:
        progress(f"table 4.1 at n·epsilon = {n}")
        alpha, _, gamma = AIMED[n]
        points["paper, private"].append(PAPER[n])
        points["aimed at"].append((alpha, gamma))
        points["paper, no noise"].append(WITHOUT_NOISE[n])
        points["ours, by plot"].append(smallest_by_plot(n, tables=tables))
        points["ours, by plot, fresh tables"].append(smallest_by_plot(n, tables=tables, fresh=True))
        of_alpha = smallest_by_test(n, tables=tables, aimed=alpha, test="variance", model=uneven)
        of_gamma = smallest_by_test(n, tables=tables, aimed=gamma, test="either", model=curved)
        points["ours, by test"].append((of_alpha, of_gamma))
    return points


def draw(path: Path, distances_at: tuple[int, ...], signals: tuple[int, ...], *, tables: int) -> None:
    """All three panels."""
    figure, shown = panels(3, scales=("linear", "log", "log"))
    draw_distances(shown[0], distances_at, tables=tables)
    measured = smallest(signals, tables=tables)
    rows = [[name, *(f"{alpha:.4f}, {gamma:.5f}" for alpha, gamma in pairs)] for name, pairs in measured.items()]
    print(markdown_table(("smallest alpha, gamma", *map(str, signals)), rows))
    for name, pairs in measured.items():
        for axes, values in zip(shown[1:], zip(*pairs, strict=True), strict=True):
            points(axes, STYLES[name], name, signals, values)
    for axes, what in zip(shown[1:], ("alpha", "gamma"), strict=True):
        axes.set_title(f"table 4.1, {what}", fontsize=10)
        axes.set_ylabel(f"smallest {what} detected", fontsize=9)
        axes.set_xticks(signals)
        axes.set_yticks(TICKS[what])
    for axes in shown:
        axes.set_xlabel("n·epsilon", fontsize=9)
    finish(figure, shown, path)


def main(argv: list[str] | None = None) -> int:
    """Draw the picture: into the documentation's folder, or for ``--quick`` into one that is thrown away."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=100, help="of each model and departure")
    given = parser.parse_args(argv)
    copies.COPIES = 400  # of p-values, which are compared with 5% here
    with scratch_folder() as scratch, figures.fixed_settings():
        if given.quick:
            draw(Path(scratch) / NAME, (500,), SIGNALS[:1], tables=6)
        else:
            draw(IMAGES / NAME, DISTANCES_AT, SIGNALS, tables=given.tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
