"""The stream figures of Chen 2018, chapter 5, on real streams: ``python -m benchmarks.stream_figures [--quick]``.

The source's WiFi trace is not public. These streams are: devices on a network, bicycle trips of all stations and of the
busiest, taxi rides and tweets. Each is cut to 20,000 steps, about as long as the source's. Figure 5.8, of hierarchies,
is drawn by ``benchmarks.stream_hierarchies``. Methods are those of ``_stream_methods``.

* 5.2: a week of each stream as released.
* 5.3 and 5.4: the scaled error of counts, sum |estimate - count| / sum count; of the smoothers of PeGaSus in 5.4.
* 5.5: the mean absolute error of sums over windows, by their length.
* 5.6: the ROC curve for changes in 12 steps, of which the largest twentieth are to be found.
* 5.7: the ROC curve for low sums over 64 steps, of which the lowest tenth are to be found.

Tables have means over repetitions with 95% intervals of Student's t. Regret: the error of what the documented rule
chooses from public facts, over that of the best method of the row; for windows, of the best with a pure guarantee.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from benchmarks._pictures import IMAGES, Styles, finish, line, panels
from benchmarks._stream_methods import (
    APPROXIMATE,
    BLOCKS,
    COUNTER,
    FILTER,
    FILTERED,
    FORECAST,
    GROUPS,
    LAPLACE,
    MEDIANS,
    PEGASUS,
    PURE,
    SEASON,
    SMOOTHED,
    SUMS,
    ZCDP,
    Drawn,
    count_estimates,
    draw,
    sliding,
    smoother_estimates,
    window_estimates,
)
from benchmarks._stream_tables import Stream, real_streams
from benchmarks.competitors.windows import jumps
from benchmarks.harness import Report, arguments, mean_interval, progress, publish, scratch_folder
from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.papers.streams.smoothing import Smoother
from spark_jobs.publishing import figures
from spark_jobs.publishing.theme import light

EPSILONS, DRAWN = ("1", "0.1", "0.01"), ("0.1", "0.01")
"""Of the tables, and of the figures, as in the source."""
WIDTHS, TABLED = (1, 4, 16, 64, 256, 1024, 4096), (16, 256, 4096)
CHANGE, LOW = 12, 64
STYLES: Styles = {
    LAPLACE: ("chance", "o", ":"),
    **dict(zip(SMOOTHED, (("before", "v", ":"), ("before", "^", ":")), strict=True)),
    FILTER: ("curve", "s", "-"),
    SEASON: ("curve", "D", "--"),
    PEGASUS: ("spent", "x", "-"),
    SUMS: ("curve", "o", "-"),
    FILTERED: ("curve", "s", "--"),
    FORECAST: ("before", "v", "-"),
    MEDIANS: ("spent", "v", ":"),
    GROUPS: ("spent", "x", "-"),
    COUNTER: ("caution", "^", "--"),
    BLOCKS: ("caution", "s", "-"),
    ZCDP: ("alarm", "D", ":"),
    APPROXIMATE: ("alarm", "D", "-"),
    Smoother.MEDIAN: ("spent", "x", "-"),
    Smoother.MEAN: ("before", "s", "--"),
    Smoother.JAMES_STEIN: ("caution", "^", ":"),
}
Runs = dict[str, list[float]]
"""An error, or an area, of each repetition by method."""
Curves = dict[str, list[FloatArray]]
Measured = dict[str, dict[str, dict[str, Runs]]]
Detected = dict[str, dict[str, dict[str, Curves]]]
"""By figure, stream and epsilon."""
FALSE = np.linspace(0, 1, 41)
"""Rates of false alarms at which ROC curves are drawn."""


def errors_of_counts(drawn: Drawn, estimates: Mapping[str, FloatArray]) -> dict[str, float]:
    """The scaled error of each method."""
    total = max(int(drawn.exact.sum()), 1)
    return {name: float(np.abs(values - drawn.exact).sum() / total) for name, values in estimates.items()}


def errors_of_windows(drawn: Drawn, width: int) -> dict[str, float]:
    """The mean absolute error of each method for windows of this length, once two of them have passed."""
    exact = sliding(drawn.exact, width)
    estimates = window_estimates(drawn, width)
    return {name: float(np.abs(values - exact)[2 * width :].mean()) for name, values in estimates.items()}


def detected_changes(drawn: Drawn) -> dict[str, FloatArray]:
    """The share of large changes that each method finds, at each rate of false alarms."""
    exact = jumps(drawn.exact.astype(np.float64), width=CHANGE)
    large = exact >= max(float(np.quantile(exact, 0.95)), 1.0)
    estimates = {LAPLACE: drawn.noisy.astype(np.float64), FILTER: drawn.filtered, PEGASUS: drawn.grouped.estimates}
    return {name: _roc(jumps(values, width=CHANGE), large) for name, values in estimates.items()}


def detected_silence(drawn: Drawn) -> dict[str, FloatArray]:
    """The share of low sums that each method finds, at each rate of false alarms."""
    exact = sliding(drawn.exact, LOW)[LOW:]
    low = exact <= np.quantile(exact, 0.1)
    shown = (SUMS, FILTERED, GROUPS, BLOCKS, ZCDP)
    estimates = window_estimates(drawn, LOW)
    return {name: _roc(-estimates[name][LOW:], low) for name in shown}


def _roc(scores: FloatArray, events: BoolArray) -> FloatArray:
    order = np.argsort(-scores, kind="stable")
    # within equal scores the curve is a straight line
    last = np.append(np.diff(scores[order]) != 0, True)
    hits, alarms = np.cumsum(events[order])[last], np.cumsum(~events[order])[last]
    false, true = np.append(0, alarms / max(alarms[-1], 1)), np.append(0, hits / max(hits[-1], 1))
    return np.interp(FALSE, false, true)


def measure(
    streams: Mapping[str, Stream], repetitions: int
) -> tuple[Measured, dict[str, dict[str, dict[str, Curves]]]]:
    """Everything that is tabled or drawn, by figure, stream and epsilon."""
    errors: Measured = {"5.3": {}, "5.4": {}, **{f"5.5, {width}": {} for width in WIDTHS}}
    curves: Detected = {"5.6": {}, "5.7": {}}
    for name, stream in streams.items():
        for epsilon in EPSILONS:
            progress(f"{name}, epsilon {epsilon}")
            for seed in range(repetitions):
                drawn = draw(stream.counts, epsilon=epsilon, day=stream.day, seed=seed)
                _add(errors["5.3"], name, epsilon, errors_of_counts(drawn, count_estimates(drawn)))
                _add(errors["5.4"], name, epsilon, errors_of_counts(drawn, smoother_estimates(drawn)))
                for width in WIDTHS:
                    if 4 * width <= stream.counts.size:
                        _add(errors[f"5.5, {width}"], name, epsilon, errors_of_windows(drawn, width))
                _add(curves["5.6"], name, epsilon, detected_changes(drawn))
                _add(curves["5.7"], name, epsilon, detected_silence(drawn))
    return errors, curves


def _add(kept: dict[str, Any], name: str, epsilon: str, values: Mapping[str, Any]) -> None:
    for method, value in values.items():
        kept.setdefault(name, {}).setdefault(epsilon, {}).setdefault(method, []).append(value)


def draw_week(path: Path, streams: Mapping[str, Stream]) -> None:
    """Figure 5.2: a week of each stream, exact and released, no count below 0."""
    figure, shown = panels(len(streams), rows=len(DRAWN), scales=("linear",) * len(streams) * len(DRAWN))
    for number, axes in enumerate(shown):
        epsilon, (name, stream) = DRAWN[number // len(streams)], list(streams.items())[number % len(streams)]
        drawn = draw(stream.counts, epsilon=epsilon, day=stream.day, seed=0)
        at = slice(0, 7 * stream.day, max(1, 7 * stream.day // 140))
        days = np.arange(stream.counts.size)[at] / stream.day
        lines = {LAPLACE: drawn.noisy, PEGASUS: drawn.grouped.estimates, FILTER: drawn.filtered}
        axes.set_xscale("linear")
        for method, values in lines.items():
            # no markers: there are hundreds of steps
            axes.plot(days, np.maximum(values[at], 0), color=light(STYLES[method][0]), linewidth=0.8, label=method)
        axes.plot(days, stream.counts[at], color=light("ink"), linewidth=0.8, linestyle="--", label="exact")
        _title(axes, name, epsilon, "day", "count" if number % len(streams) == 0 else "")
    finish(figure, shown, path)


def draw_errors(path: Path, errors: Mapping[str, Mapping[str, Runs]], over: str) -> None:
    """Figures 5.3 and 5.4: the scaled errors of the methods over those of the first, a panel for each epsilon."""
    figure, shown = panels(len(EPSILONS))
    names = list(errors)
    for axes, epsilon in zip(shown, EPSILONS, strict=True):
        axes.set_xscale("linear")
        first, *methods = errors[names[0]][epsilon]
        axes.axhline(1, color=light("chance"), linestyle=":", linewidth=1.4)
        for place, method in enumerate(methods):
            colour, marker, _ = STYLES[method]
            runs = [_over(errors[name][epsilon], method, first) for name in names]
            # side by side, for markers at one place would hide each other
            at = np.arange(len(names)) + 0.14 * (place - (len(methods) - 1) / 2)
            line(axes, (colour, marker, ""), method, at, runs)
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=8)
        _title(axes, "", epsilon, "", f"error / {over}" if axes is shown[0] else "")
    finish(figure, shown, path)


def draw_windows(path: Path, errors: Measured, names: Sequence[str]) -> None:
    """Figure 5.5: the errors of sums by the length of the window, over those of noisy counts."""
    figure, shown = panels(len(names), rows=len(DRAWN), scales=("log",) * len(names) * len(DRAWN))
    for number, axes in enumerate(shown):
        epsilon, name = DRAWN[number // len(names)], names[number % len(names)]
        widths = [width for width in WIDTHS if name in errors[f"5.5, {width}"]]
        axes.axhline(1, color=light("chance"), linestyle=":", linewidth=1.4)
        for method in errors["5.5, 1"][name][epsilon]:
            if method in (SUMS, MEDIANS):
                continue
            runs = [_over(errors[f"5.5, {width}"][name][epsilon], method, SUMS) for width in widths]
            line(axes, STYLES[method], method, np.array(widths, dtype=float), [run.mean(keepdims=True) for run in runs])
        axes.set_ylim(0.03, 40)
        axes.set_xlim(0.7, 1.4 * WIDTHS[-1])
        _title(axes, name, epsilon, "steps of a window", "error / noisy counts" if number % len(names) == 0 else "")
    finish(figure, shown, path)


def _over(runs: Runs, method: str, other: str) -> FloatArray:
    return np.array(runs[method]) / np.array(runs[other])


def draw_curves(path: Path, curves: Mapping[str, Mapping[str, Curves]]) -> None:
    """Figures 5.6 and 5.7: mean ROC curves."""
    names = list(curves)
    figure, shown = panels(len(names), rows=len(DRAWN), scales=("linear",) * len(names) * len(DRAWN))
    for number, axes in enumerate(shown):
        epsilon, name = DRAWN[number // len(names)], names[number % len(names)]
        axes.set_xscale("linear")
        axes.set_ylim(-0.02, 1.02)
        axes.plot([0, 1], [0, 1], color=light("hairline"), linewidth=1)
        for method, runs in curves[name][epsilon].items():
            colour, _, dashes = STYLES[method]
            axes.plot(FALSE, np.mean(runs, axis=0), color=light(colour), linestyle=dashes, linewidth=1.4, label=method)
        _title(axes, name, epsilon, "false alarms", "detected" if number % len(names) == 0 else "")
    finish(figure, shown, path)


def _title(axes: Axes, name: str, epsilon: str, across: str, up: str) -> None:
    axes.set_title(f"{name}, ε = {epsilon}" if name else f"ε = {epsilon}", fontsize=9)
    axes.set_xlabel(across, fontsize=8)
    axes.set_ylabel(up, fontsize=8)
    axes.tick_params(labelsize=8)


def relative(title: str, errors: Mapping[str, Mapping[str, Runs]], epsilons: Sequence[str]) -> Report:
    """The errors of the methods, divided by those of the first in the same repetition."""
    rows, methods = [], list(next(iter(next(iter(errors.values())).values())))
    for name, by_epsilon in errors.items():
        for epsilon in epsilons:
            runs = by_epsilon[epsilon]
            shown = [mean_interval(_over(runs, method, methods[0])) for method in methods[1:]]
            rows.append([name, epsilon, mean_interval(np.array(runs[methods[0]])), *shown])
    return Report(name=title, columns=("stream", "epsilon", *methods), rows=rows, targets=(), figures=errors)


def areas(title: str, curves: Mapping[str, Mapping[str, Curves]]) -> Report:
    """The areas under the ROC curves."""
    rows, methods = [], list(next(iter(next(iter(curves.values())).values())))
    for name, by_epsilon in curves.items():
        for epsilon, runs in by_epsilon.items():
            shown = [mean_interval(np.trapezoid(np.array(runs[method]), FALSE, axis=1)) for method in methods]
            rows.append([name, epsilon, *shown])
    return Report(name=title, columns=("stream", "epsilon", *methods), rows=rows, targets=(), figures={})


def regrets(errors: Measured) -> Report:
    """How much more error has what the rule chooses, on average and at worst."""
    by_rule = {
        "5.3": (SEASON, None),
        **{f"5.5, {width}": (FORECAST, PURE) for width in WIDTHS[1:]},
    }
    rows = []
    for figure in [name for name in by_rule if errors[name]]:
        method, among = by_rule[figure]
        means = [
            {name: float(np.mean(values)) for name, values in runs.items() if among is None or name in among}
            for by_epsilon in errors[figure].values()
            for runs in by_epsilon.values()
        ]
        ratios = [run[method] / min(run.values()) for run in means]
        what = "counts" if figure == "5.3" else f"sums of {figure[5:]} steps"
        rows.append([what, method, f"{np.mean(ratios):.2f}", f"{max(ratios):.2f}"])
    columns = ("figure", "the rule's choice", "mean regret", "worst")
    return Report(name="regret of the rule", columns=columns, rows=rows, targets=(), figures={})


def main(argv: list[str] | None = None) -> int:
    """Measure, print the tables and draw the pictures; for ``--quick`` into a folder that is thrown away."""
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(repetitions=20)
    given = parser.parse_args(argv)
    streams = real_streams(2500 if given.quick else 20_000)
    if not streams:
        return 0
    errors, curves = measure(streams, 2 if given.quick else given.repetitions)
    publish(relative("counts: scaled errors, over those of plain noise", errors["5.3"], EPSILONS), given.json)
    publish(relative("smoothers of PeGaSus: scaled errors, over the mean", errors["5.4"], EPSILONS), None)
    for width in TABLED:
        if errors[f"5.5, {width}"]:
            publish(
                relative(f"sums of {width} steps: errors, over noisy counts", errors[f"5.5, {width}"], EPSILONS), None
            )
    publish(areas(f"changes in {CHANGE} steps: area under the ROC curve", curves["5.6"]), None)
    publish(areas(f"low sums of {LOW} steps: area under the ROC curve", curves["5.7"]), None)
    publish(regrets(errors), None)
    pictures: dict[str, Callable[[Path], None]] = {
        "5-2": lambda path: draw_week(path, streams),
        "5-3": lambda path: draw_errors(path, errors["5.3"], LAPLACE),
        "5-4": lambda path: draw_errors(path, errors["5.4"], "the mean of a group"),
        "5-5": lambda path: draw_windows(path, errors, list(streams)),
        "5-6": lambda path: draw_curves(path, curves["5.6"]),
        "5-7": lambda path: draw_curves(path, curves["5.7"]),
    }
    with scratch_folder() as scratch, figures.fixed_settings():
        for name, picture in pictures.items():
            picture((scratch if given.quick else IMAGES) / f"stream-figure-{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
