"""The page of a stream: its sections of the report, from released figures alone."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence

import numpy as np

from spark_jobs.contract.options.streams import LocalLevelMethod, StreamMonitor
from spark_jobs.contract.stream_request import StreamRequest, step_text
from spark_jobs.diagnostics.count_stream import plots
from spark_jobs.diagnostics.count_stream.monitors import Raised
from spark_jobs.diagnostics.count_stream.summary import (
    DEFAULT_CONFIDENCE,
    Change,
    Reading,
    StreamHistory,
    band_of_sum,
    banded_sums,
    certain_changes,
    readings,
)
from spark_jobs.publishing.formats import ABSENT, count, level, one_line
from spark_jobs.publishing.rendering import Column, Measure, Multiples, Plot, Rendering, Section, ValueTable, finite
from spark_jobs.publishing.time_axis import TimeAxis

MAX_TABLE = 48
MAX_ROWS = 1200
"""The most rows of counts that the page has as CSV, so that they fit it whatever the states' names."""
_NATURAL = tuple(dt.timedelta(seconds=s) for s in (60, 3600, 86_400, 604_800))
_STATUS = {
    "rise": "rising",
    "fall": "falling",
    "steady": "no change beyond noise",
    "silent": "cannot be distinguished from 0",
    "not measured": "not measured",
}


def window_of(request: StreamRequest) -> int:
    """The number of steps in a window of the report: a public choice.

    A window is the shortest of a minute, an hour, a day and a week that has at least 8 whole steps (a week: at least 2)
    and fits into the stream twice; else two steps, or one in a stream of fewer than four.
    """
    length = request.step_length
    for natural in _NATURAL:
        steps, rest = divmod(natural, length)
        if not rest and 2 <= steps <= request.steps // 2 and (steps >= 8 or natural == _NATURAL[-1]):
            return steps
    return 2 if request.steps >= 4 else 1


def render(history: StreamHistory, request: StreamRequest, raised: Sequence[Raised] = ()) -> dict[str, Rendering]:
    """The sections of the report, by name.

    Args:
        history: the counts to show; the first one is shown large.
        request: the stream's request.
        raised: the alarms of the stream's monitors, on all counts that are watched, shown or not.
    """
    axis = TimeAxis(first=request.first_instant, step=request.step_length)
    confidence = request.method.confidence if isinstance(request.method, LocalLevelMethod) else DEFAULT_CONFIDENCE
    width = window_of(request)
    length = window_text(width, axis)
    latest = readings(history, width=width, confidence=confidence)
    sections = {"stream_counts": _counts(history, request, axis, latest, confidence)}
    if history.steps >= 2 * width:
        sections["stream_sums"] = _sums(history, axis, width, length, confidence, latest[0])
        sections["stream_changes"] = _changes(history, request, axis, width, length, confidence)
    if request.monitors:
        sections["stream_monitors"] = _monitors(raised, request, axis, newest=history.steps - 1, confidence=confidence)
    if len(history.names) > 1:
        sections["stream_states"] = _states(history, request, latest, length)
    return sections


def _counts(
    history: StreamHistory, request: StreamRequest, axis: TimeAxis, latest: tuple[Reading, ...], confidence: float
) -> Rendering:
    first, banded = latest[0], history.lower is not None
    newest = axis.text(history.steps - 1)
    reading = [
        f"Rows are counted in steps of {request.step}, and each count gets noise before anybody sees it. "
        + (
            "The line is the sum of the noisy counts of all states."
            if request.has_total
            else "The line is an estimate of each step's count, made from the noisy counts up to that step."
        ),
        f"A {level(confidence)} band contains the exact count of its step in {level(confidence)} of steps."
        if banded
        else "This method has no band for a single step: its error depends on how the counts move. "
        "Sums over windows have bands.",
    ]
    band = f"{count(first.lower)} to {count(first.upper)}" if finite(first.lower) else ""
    noise = _band_of(history, 0, 1, confidence)
    measures = (
        Measure(label="Newest step", value=count(first.estimate), note=f"{band}{', ' if band else ''}from {newest}"),
        Measure(label="Released", value=f"{history.steps:,}", note=f"of {request.steps:,} steps"),
        Measure(label="Noise of a count", value=f"± {noise:,}", note=f"in {level(confidence)} of steps"),
    )
    section = Section(
        title=_titled("Counts", request, history),
        reading=tuple(reading),
        measures=measures,
        table=_recent_table(history, axis),
    )
    shown = plots.recent_plot(history, 0, axis=axis, confidence=confidence if banded else None)
    return Rendering(columns=_newest(history, request), plots=(shown,), section=section)


def _sums(
    history: StreamHistory, axis: TimeAxis, width: int, length: str, confidence: float, first: Reading
) -> Rendering:
    windows = history.steps // width
    joined = width * max(1, math.ceil(windows / plots.MAX_SUMS))
    sums = banded_sums(history, width=joined, confidence=confidence, every=joined)
    longer = window_text(joined, axis)
    widths = [2**i for i in range(max(history.steps.bit_length(), 1)) if 2**i <= history.steps]
    rows = tuple((step_text(one * axis.step), f"± {_band_of(history, 0, one, confidence):,}") for one in widths)
    section = Section(
        title=f"Sums over each {longer}",
        reading=(
            "A sum over a window of any length is the sum of its noisy counts, not of the estimates, whose errors do "
            "not cancel. It costs nothing more.",
            f"A {level(confidence)} band contains the exact sum of its window in {level(confidence)} of windows. It "
            "is for the noise alone: how much the counts themselves vary is seen from one window to the next.",
        ),
        measures=(
            Measure(
                label=f"The last {length}",
                value=count(first.total),
                note=f"{count(first.total_lower)} to {count(first.total_upper)}",
            ),
            Measure(label="Less the one before", value=_signed(first.change), note=_STATUS[first.status]),
        ),
        table=ValueTable(
            caption=f"Half the width of a sum's {level(confidence)} band, for {_origin(history)}",
            header=("Window", "Band"),
            rows=rows,
        ),
    )
    shown = plots.sums_plot(sums, 0, axis=axis, confidence=confidence, length=longer)
    return Rendering(columns={}, plots=(shown,), section=section)


def _changes(
    history: StreamHistory, request: StreamRequest, axis: TimeAxis, width: int, length: str, confidence: float
) -> Rendering:
    comparisons = max(request.steps // width - 1, 1) * (len(request.names) + request.has_total)
    changes = certain_changes(history, width=width, confidence=confidence, comparisons=comparisons)
    return Rendering(
        columns={},
        plots=(),
        section=Section(
            title="Jumps and drops",
            reading=(
                f"Each {length} is compared with the {length} before. The changes below, the largest first, are more "
                "than noise explains: the bands of all changes in the whole stream, of every count, contain the exact "
                f"changes together in {level(confidence)} of streams.",
                *(() if changes else (f"So far no {length} differs that clearly from the one before.",)),
            ),
            measures=tuple(_change(one, history, axis) for one in changes),
        ),
    )


def _change(change: Change, history: StreamHistory, axis: TimeAxis) -> Measure:
    name = f"{one_line(history.names[change.name], 40)}, " if len(history.names) > 1 else ""
    return Measure(
        label=f"{name}from {axis.text(change.at)}",
        value=_signed(float(change.after - change.before)),
        note=f"from {count(change.before)} to {count(change.after)}; by {_signed(change.lower)} to "
        f"{_signed(change.upper)}",
    )


def _monitors(
    raised: Sequence[Raised], request: StreamRequest, axis: TimeAxis, *, newest: int, confidence: float
) -> Rendering:
    names = request.watched_names
    listed = sorted(raised, key=lambda one: (-one.last, -one.first, one.monitor, one.name))[:MAX_TABLE]
    return Rendering(
        columns={},
        plots=(),
        section=Section(
            title="Monitors",
            reading=(
                f"Monitors watch {'the one count' if len(names) == 1 else f'all {len(names):,} counts'}, whether they "
                "are shown or not. An alarm is raised while a condition holds for every exact count that the noise "
                f"leaves possible. In {level(confidence)} of streams, no alarm of a monitor is false, in the whole "
                "stream and for every count; a condition that holds by less than the noise raises none. All alarms are "
                "in alarms.parquet.",
            ),
            measures=tuple(
                _monitored(monitor, [one for one in raised if one.monitor == number], names, axis, newest)
                for number, monitor in enumerate(request.monitors)
            ),
            table=ValueTable(
                caption="The newest alarms, by the steps at which they were raised, in UTC",
                header=("Monitor", "Count", "From", "To", "Noisy figure"),
                rows=tuple(
                    (
                        condition(request.monitors[one.monitor], axis),
                        one_line(names[one.name], 60),
                        axis.text(one.first),
                        axis.text(one.last),
                        f"{one.figure:,}",
                    )
                    for one in listed
                ),
            )
            if listed
            else None,
        ),
    )


def _monitored(
    monitor: StreamMonitor, listed: Sequence[Raised], names: Sequence[str], axis: TimeAxis, newest: int
) -> Measure:
    now = [names[one.name] for one in listed if one.last == newest]
    if not now:
        last = max((one.last for one in listed), default=None)
        value, note = "no alarm", "and none before" if last is None else f"the last one ended {axis.text(last)}"
    else:
        value = "alarm" if len(names) == 1 else f"{len(now):,} of {len(names):,} in alarm"
        note = ", ".join(one_line(name, 40) for name in now[:3]) + (" and others" if len(now) > 3 else "")
    return Measure(label=condition(monitor, axis), value=value, note=note)


def condition(monitor: StreamMonitor, axis: TimeAxis) -> str:
    """A monitor's condition in words."""
    length, rows = step_text(monitor.window * axis.step), count(monitor.threshold)
    match monitor.kind:
        case "low":
            return f"below {rows} in {length}"
        case "high":
            return f"above {rows} in {length}"
        case "jump":
            return f"up by more than {rows} from {length} to the next"
        case _:
            return f"down by more than {rows} from {length} to the next"


def _states(history: StreamHistory, request: StreamRequest, latest: tuple[Reading, ...], length: str) -> Rendering:
    total = int(request.has_total)
    places = {name: place for place, name in enumerate(history.names[total:], start=total)}
    levels = [[name for name in names if name in places] for names in reversed(request.levels)]
    groups = []
    for depth, names in enumerate(levels):
        if not names or (depth == 0 and len(levels) > 1 and len(names) == 1 and len(history.names) > 1):
            continue  # the top is shown large already
        shown = tuple((name, *_small(history, places[name])) for name in names)
        all_of_level = len(tuple(reversed(request.levels))[depth])
        note = "" if len(names) == all_of_level else f"These are {len(names)} of {all_of_level:,}, the busiest."
        heading = "States" if depth == len(levels) - 1 else f"Groups, level {depth + 1}"
        groups.append(Multiples(heading=heading, note=note, plots=shown))
    rows = tuple(
        (
            one_line(history.names[one.name], 60),
            count(one.estimate),
            f"{count(one.total)} ({count(one.total_lower)} to {count(one.total_upper)})"
            if finite(one.total)
            else ABSENT,
            _signed(one.change),
            _STATUS[one.status],
        )
        for one in latest
    )
    return Rendering(
        columns={},
        plots=(),
        multiples=tuple(groups),
        section=Section(
            title="Every count by itself",
            reading=(
                *_adding_up(request),
                f"The estimates of the last {min(history.steps, plots.MAX_SMALL):,} steps; each picture has its own "
                "scale. Counts rise or fall where noise does not explain the change, with bands that hold together for "
                "all counts of this page.",
            ),
            measures=_tally(latest, length),
            table=ValueTable(
                caption=f"The newest step, the last {length}, and how it differs from the {length} before",
                header=("Count", "Newest step", f"Last {length}", "Change", "Reading"),
                rows=rows,
            ),
        ),
    )


def _adding_up(request: StreamRequest) -> tuple[str, ...]:
    if len(request.levels) == 1 or not isinstance(request.method, LocalLevelMethod):
        return ()
    return (
        "The noisy count of a group is the sum of those of its states, and its estimate is the sum of those of its "
        "parts.",
    )


def window_text(steps: int, axis: TimeAxis) -> str:
    """The length of a window in words, as after an article: ``day``, ``8 hours``."""
    return step_text(steps * axis.step).removeprefix("1 ")


def _band_of(history: StreamHistory, place: int, width: int, confidence: float) -> int:
    """Half the width of the band of a sum over ``width`` steps, at the scale of the newest."""
    number = width * int(history.terms[place])
    return band_of_sum(float(history.scales[-1, place]), number=number, confidence=confidence)


def _origin(history: StreamHistory) -> str:
    states = int(history.terms[0])
    return f"the noisy counts of {states:,} states together" if states > 1 else "a noisy count"


def _small(history: StreamHistory, place: int) -> tuple[str, Plot]:
    noise = _band_of(history, place, 1, DEFAULT_CONFIDENCE)
    top = plots.top_of(history, place, minimum=float(noise))
    return f"0 to {count(top)}", plots.small_plot(history, place, top=top)


def _tally(latest: tuple[Reading, ...], length: str) -> tuple[Measure, ...]:
    """How many counts rise, fall and are silent."""
    labels = (("rise", "Rising"), ("fall", "Falling"), ("silent", "Without a signal"))
    notes = dict.fromkeys(("rise", "fall"), f"the last {length}, against the one before")
    notes["silent"] = f"the last {length} cannot be distinguished from 0"
    return tuple(
        Measure(
            label=label, value=f"{sum(one.status == status for one in latest)} of {len(latest)}", note=notes[status]
        )
        for status, label in labels
    )


def _newest(history: StreamHistory, request: StreamRequest) -> dict[str, Column]:
    """The newest steps of all counts that are shown, one row for each count of each step."""
    first = max(history.steps - max(MAX_ROWS // len(history.names), 1), 0)
    part = history.part(steps=slice(first, None))
    unknown, absent = ~part.measured.ravel(), np.full(part.noisy.size, np.nan)
    begins = np.datetime64(request.start.removesuffix("Z"), "us") + (
        np.arange(first, history.steps) * np.timedelta64(request.step_length)
    )
    return {
        "begins": Column(values=np.repeat(begins, len(part.names)), meaning="the first instant of the step, in UTC"),
        "state": Column(values=np.tile(np.array(part.names, dtype=object), part.steps), meaning="its name"),
        "noisy": Column(values=np.ma.MaskedArray(part.noisy.ravel(), mask=unknown), meaning="the noisy count"),
        "estimate": Column(values=np.where(unknown, np.nan, part.estimates.ravel()), meaning="the estimate"),
        "lower": Column(values=absent if part.lower is None else part.lower.ravel(), meaning="of the band"),
        "upper": Column(values=absent if part.upper is None else part.upper.ravel(), meaning="of the band"),
    }


def _recent_table(history: StreamHistory, axis: TimeAxis) -> ValueTable:
    rows = []
    for step in range(max(history.steps - MAX_TABLE, 0), history.steps):
        band = ABSENT
        if history.lower is not None and history.upper is not None:
            band = f"{count(float(history.lower[step, 0]))} to {count(float(history.upper[step, 0]))}"
        noisy = f"{int(history.noisy[step, 0]):,}" if history.measured[step, 0] else ABSENT
        rows.append((axis.text(step), f"{float(history.estimates[step, 0]):,.4g}", band, noisy))
    return ValueTable(
        caption="The newest steps, by their beginning in UTC", header=("Step", "Estimate", "Band", "Noisy count"),
        rows=tuple(reversed(rows)),
    )  # fmt: skip


def _titled(title: str, request: StreamRequest, history: StreamHistory) -> str:
    return title if len(request.names) == 1 else f"{title}: {one_line(history.names[0], 60)}"


def _signed(value: float) -> str:
    return f"{round(value):+,}".replace("-", "−") if finite(value) else ABSENT
