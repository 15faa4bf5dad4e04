"""Monitors of a released stream: at which steps a public condition holds beyond doubt; post-processing, free.

A monitor compares the sum over the newest window, or its change, with a public threshold. It raises an alarm at a step
if the condition holds for every exact figure that the noise leaves possible. The bands of all its steps and counts hold
together (Bonferroni): an alarm is false only if the noise of some window exceeds its quantile. So with probability
``confidence`` none of a monitor's alarms over the whole stream, past and future, is false, whatever the counts are. The
kinds are those of Chen, Machanavajjhala, Hay and Miklau (2017): points of low signal, jumps and drops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import BoolArray, Int64Array
from spark_jobs.contract.options.streams import StreamMonitor
from spark_jobs.diagnostics.count_stream.summary import StreamHistory
from spark_jobs.mechanisms.streams.noise_sums import windows


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """Consecutive steps at which a monitor's condition holds beyond doubt.

    Attributes:
        name: index of the count in the history's names.
        first, last: the numbers of the first and the last of these steps.
        figure: the noisy sum or change at the last of them.
    """

    name: int
    first: int
    last: int
    figure: int


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An alarm of one of a stream's monitors.

    Attributes:
        monitor: index of the monitor in the request.
        name: index of the count among those that are watched.
        first: the number of the first step at which the condition holds.
        last: the number of the last such step.
        figure: the noisy sum or change at the last step.
    """

    monitor: int
    name: int
    first: int
    last: int
    figure: int


def alarms(history: StreamHistory, monitor: StreamMonitor, *, confidence: float, comparisons: int) -> tuple[Alarm, ...]:
    """All alarms of a monitor, the newest first.

    Args:
        history: what was released.
        monitor: the monitor's condition.
        confidence: the probability that no alarm of the monitor is false, in the whole stream.
        comparisons: the number of steps of the whole stream, past and future, times the number of its counts.
    """
    steps, holds, figures = certain_steps(history, monitor, confidence=confidence, comparisons=comparisons)
    return runs(steps, holds, figures)


def certain_steps(
    history: StreamHistory, monitor: StreamMonitor, *, confidence: float, comparisons: int
) -> tuple[Int64Array, BoolArray, Int64Array]:
    """The steps at which a monitor's condition holds beyond doubt.

    Args:
        history: what was released.
        monitor: the monitor's condition.
        confidence: see ``alarms``.
        comparisons: see ``alarms``.

    Returns:
        The numbers of the steps, counted from the history's first, that end whole windows, shape (m,); whether the
        condition holds there, shape (m, names); and the noisy sums or changes, of the same shape.
    """
    figures = windows(history.noisy, history.scales, history.measured, history.terms, width=monitor.window)
    if monitor.compares and figures.ends.size:
        figures = figures.changes(monitor.window)
    if not figures.ends.size:
        nothing = np.zeros((0, history.noisy.shape[1]), dtype=np.int64)
        return figures.ends, nothing.astype(np.bool_), nothing
    possible = figures.half_widths((1 - confidence) / max(comparisons, 1))
    beyond = monitor.sign * (figures.sums - monitor.level) > possible
    return figures.ends - 1, figures.complete & beyond, figures.sums


def runs(steps: Int64Array, holds: BoolArray, figures: Int64Array) -> tuple[Alarm, ...]:
    """The runs of consecutive steps at which a condition holds, newest first; takes what ``certain_steps`` returns."""
    edges = np.diff(holds.astype(np.int8), axis=0, prepend=0, append=0)
    listed = []
    for name in range(holds.shape[1]):
        begins, ends = (np.flatnonzero(edges[:, name] == edge) for edge in (1, -1))
        listed += [
            Alarm(
                name=name,
                first=int(steps[begin]),
                last=int(steps[end - 1]),
                figure=int(figures[end - 1, name]),
            )
            for begin, end in zip(begins, ends, strict=True)
        ]
    return tuple(sorted(listed, key=lambda alarm: (-alarm.last, alarm.name)))
