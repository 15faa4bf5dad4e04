"""Streams of a hierarchy of states: error of the published counts: ``python -m benchmarks.stream_hierarchies``.

The source's set-up (Chen 2018, section 5.6.4) on a simulated stream with its totals, a binary tree of 128 states, and
on real streams: mean absolute error over all aggregates and steps, of seeded repetitions, with 95% intervals of
Student's t. The table includes publishing 0 everywhere: if a stream is sparse and epsilon small, much of the apparent
gain over plain noise comes from adding no noise. The default method, ``local_level``, has all of epsilon for the
states; beside it is its filter on every count of plain noise. The picture is the source's figure 5.8.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np

from benchmarks._pictures import IMAGES, Styles, finish, line, panels
from benchmarks._stream_tables import MISSING, STEPS, buildings, companies, simulated_states, stations
from benchmarks.harness import (
    Report,
    Target,
    arguments,
    mean_and_half,
    mean_interval,
    progress,
    publish,
    scratch_folder,
)
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.streams.level_filter import LocalLevelState
from spark_jobs.mechanisms.streams.local_level import LocalLevelShape, filter_hierarchy, filter_streams
from spark_jobs.papers.streams.hierarchy import (
    HierarchyShape,
    HierarchyState,
    aggregate,
    draw_hierarchy,
    laplace_hierarchy,
    take_hierarchy,
)
from spark_jobs.publishing.figures import fixed_settings

ADDED = Neighbours.ADD_REMOVE
HS_LM, PUBLISHED, LONG, ADDS_UP = "HS-LM", "HS-PGS", "HS-PGS, longer groups", "HS-PGS, adding up"
PRUNED, OURS = "PHS-PGS, not adding up", "PHS-PGS"
ZERO, FILTERED, LOCAL = "zero everywhere", "HS-LM, filtered", "local_level"
STYLES: Styles = {
    ZERO: ("chance", "D", ""),
    HS_LM: ("chance", "o", ""),
    FILTERED: ("curve", "s", ""),
    LOCAL: ("curve", "D", ""),
    PUBLISHED: ("spent", "x", ""),
    ADDS_UP: ("caution", "^", ""),
    OURS: ("alarm", "v", ""),
}
PAPER = {"0.1": (78.0, 4.0), "0.01": (445.0, 9.0)}
"""HS-LM / PHS-PGS and HS-PGS / PHS-PGS of the source's figure 5.8."""
WITHIN = 0.75


def errors(counts: Int64Array, hierarchy: Hierarchy, epsilon: str, seed: int) -> dict[str, float]:
    """The mean absolute error of each method, in one repetition."""
    exact = aggregate(counts, hierarchy)

    def off(estimates: np.ndarray) -> float:
        return float(np.abs(estimates - exact).mean())

    every = HierarchyShape(
        hierarchy=hierarchy, epsilon=epsilon, neighbours=ADDED, prune_share=0, group_share="0.2", consistent=False
    )
    pruned = HierarchyShape(hierarchy=hierarchy, epsilon=epsilon, neighbours=ADDED)
    shapes = {
        PUBLISHED: every,
        ADDS_UP: replace(every, consistent=True),
        LONG: replace(every, threshold=50.0),
        PRUNED: replace(pruned, consistent=False),
        OURS: pruned,
    }
    plain = laplace_hierarchy(counts, hierarchy=hierarchy, epsilon=epsilon, neighbours=ADDED, noise=SeededNoise(seed))
    results = {ZERO: off(np.zeros_like(exact)), HS_LM: off(plain)}
    results[FILTERED] = off(filtered(plain, Decimal(epsilon) / hierarchy.levels))
    of_states = SeededNoise(seed).laplace(counts, epsilon=epsilon, l1_sensitivity=1)
    results[LOCAL] = off(local_level(of_states, Decimal(epsilon), hierarchy))
    for name, shape in shapes.items():
        drawn = draw_hierarchy(HierarchyState.start(shape), exact, shape=shape, noise=SeededNoise(seed))
        _, steps = take_hierarchy(HierarchyState.start(shape), exact, shape=shape, drawn=drawn)
        results[name] = off(steps.estimates)
    return results


def filtered(noisy: Int64Array, epsilon: Decimal) -> FloatArray:
    """Estimates of the local level filter for every column."""
    shape = LocalLevelShape(epsilon=epsilon, neighbours=ADDED)
    return filter_streams(LocalLevelState.start(noisy.shape[1]), noisy, shape=shape)[1].estimates


def local_level(noisy: Int64Array, epsilon: Decimal, hierarchy: Hierarchy) -> FloatArray:
    """Estimates of all nodes by the default method, from the noisy counts of the states."""
    shape, nodes = LocalLevelShape(epsilon=epsilon, neighbours=ADDED), hierarchy.cells_below.size
    return filter_hierarchy(LocalLevelState.start(nodes), noisy, shape=shape, hierarchy=hierarchy)[1].estimates


def draw(path: Path, runs: dict[str, list[dict[str, float]]]) -> None:
    """Figure 5.8: mean absolute errors of the published counts."""
    figure, (axes,) = panels(1)
    axes.set_xscale("linear")
    for method, style in STYLES.items():
        errors_of = [np.array([run[method] for run in of_stream]) for of_stream in runs.values()]
        line(axes, style, method, np.arange(len(runs), dtype=float), errors_of)
    axes.set_xticks(range(len(runs)), list(runs), rotation=40, ha="right", fontsize=8)
    axes.set_ylabel("mean absolute error of all aggregates", fontsize=9)
    finish(figure, [axes], path)


def tables(limit: int) -> dict[str, tuple[Int64Array, Hierarchy, tuple[str, ...]]]:
    """The streams to measure on: counts, hierarchy, epsilons."""
    streams = {"simulated, 128 states": (simulated_states(limit), Hierarchy.line(128, branching=2), tuple(PAPER))}
    wifi, trips, posts = buildings(), stations(60), companies()
    if wifi is None or trips is None or posts is None:
        progress(MISSING)
    else:
        streams["devices in 4 buildings"] = (wifi[:limit], Hierarchy.line(4, branching=2), ("1", "0.1"))
        streams["trips from 70 stations"] = (trips[0][:limit], trips[1], ("1", "0.1"))
        streams["tweets about 10 companies"] = (posts[:limit], Hierarchy.line(10, branching=10), ("1", "0.1"))
    return streams


def main(argv: list[str] | None = None) -> int:
    """Repeat everything, and print the table."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of each stream (default: {STEPS:,})")
    given = parser.parse_args(argv)
    rows: list[list[str]] = []
    targets: list[Target] = []
    figures: dict[str, list[dict[str, float]]] = {}
    for name, (counts, hierarchy, epsilons) in tables(500 if given.quick else given.steps).items():
        for epsilon in epsilons:
            progress(f"{name}, epsilon {epsilon}")
            seeds = range(2 if given.quick else given.repetitions)
            runs = [errors(counts, hierarchy, epsilon, seed) for seed in seeds]
            figures[f"{name}, {epsilon}"] = runs
            for method in runs[0]:
                rows.append([name, epsilon, method, *_figures(runs, method)])
            if name.startswith("simulated") and epsilon in PAPER:
                targets += _targets(runs, epsilon)
    with scratch_folder() as scratch, fixed_settings():
        draw((scratch if given.quick else IMAGES) / "stream-figure-5-8.svg", figures)
    report = Report(
        name=f"streams of hierarchies: {given.repetitions} repetitions",
        columns=("stream", "epsilon", "method", "mean absolute error", "HS-LM / this", "this / PHS-PGS"),
        rows=rows,
        targets=[] if given.quick else targets,
        figures=figures,
    )
    return publish(report, given.json)


def _figures(runs: list[dict[str, float]], method: str) -> list[str]:
    def text(value: Callable[[dict[str, float]], float]) -> str:
        return mean_interval([value(run) for run in runs])

    return [
        text(lambda run: run[method]),
        text(lambda run: run[HS_LM] / run[method]),
        text(lambda run: run[method] / run[OURS]),
    ]


def _targets(runs: list[dict[str, float]], epsilon: str) -> list[Target]:
    """The source's factors, of which three quarters are to be reached."""
    results = []
    for method, factor in zip((HS_LM, PUBLISHED), PAPER[epsilon], strict=True):
        mean, half = mean_and_half([run[method] / run[OURS] for run in runs])
        results.append(
            Target(
                what=f"{method} / PHS-PGS at epsilon {epsilon}; {factor:g} in the source",
                target=f">= {WITHIN * factor:.3g}",
                outcome=f"{mean:.1f} ± {half:.1f}",
                met=mean - half >= WITHIN * factor,
            )
        )
    return results


if __name__ == "__main__":
    sys.exit(main())
