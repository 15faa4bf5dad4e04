"""Calibration: its data file, its reliability diagram and its part of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics._score_groups.page import (
    PoolPoints,
    draw_points,
    draw_zone,
    points,
    pool_columns,
    score_range,
)
from spark_jobs.diagnostics.calibration.result import Calibration
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, p_text, percent
from spark_jobs.publishing.rendering import (
    Headline,
    Measure,
    Plot,
    Probe,
    Rendering,
    Section,
    ValueTable,
    ends_of,
    known,
)
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRAME = figures.Frame(width=5.6, height=5.3, heading=0.95, small=4.7, box=(0.17, 0.145, 0.785, 0.83))
_NOTED = 0.05
_SCALES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def render(result: Calibration, request: ReleaseRequest) -> Rendering:
    """Files and report of a released calibration; names, columns and rows are the same whatever was released."""
    columns = pool_columns(result, "observed", meaning="share of positives of the pool", zone="observed share")
    return Rendering(columns=columns, plots=(_plot(result),), section=_section(result, request))


def _defined(result: Calibration) -> bool:
    return result.status == "ok"


def _points(result: Calibration) -> PoolPoints:
    return points(result, result.observed, result.observed_lower, result.observed_upper)


def _plot(result: Calibration) -> Plot:
    at = _points(result)

    def draw(alone: bool) -> Figure:
        figure, axes = _FRAME.axes(
            alone=alone,
            x_label="Predicted share of positives (mean score of the pool)",
            y_label="Observed share of positives",
        )
        _draw(axes, result, at)
        if alone:
            axes.legend(
                loc="upper left",
                fontsize=figures.LEGEND_SIZE,
                labelcolor=light("ink"),
                edgecolor="none",
                framealpha=0.85,
            )
            figures.heading(figure, left=0.03, title="Calibration", lines=(_error_line(result), _test_line(result)))
        return figure

    return Plot(
        name="calibration",
        title="Calibration",
        description=_description(result, at),
        draw=draw,
        axes=_FRAME.box,
        probes=_probes(result, at) if _defined(result) else (),
    )


def _limits(result: Calibration, at: PoolPoints) -> tuple[float, float]:
    """Ends of both axes, which are the same: the released values with some room."""
    if not _defined(result):
        return -0.01, 1.01
    ends = np.concatenate([at.x, at.low, at.high, at.zone_low, at.zone_high])
    room = 0.05 * max(float(ends.max() - ends.min()), 0.02)
    return max(-0.01, float(ends.min()) - room), min(1.01, float(ends.max()) + room)


def _draw(axes: Axes, result: Calibration, at: PoolPoints) -> None:
    limits = _limits(result, at)
    figures.set_ticks(axes, limits, limits)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    if _defined(result):
        draw_zone(axes, at, label=f"{level(result.confidence)} of a true model's", slope=1.0)
    axes.plot([0, 1], [0, 1], color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)), label="scores are true")
    if _defined(result):
        draw_points(axes, at, inside="released share, with what noise hides", outside="beyond the zone")
    else:
        axes.text(0.33, 0.82, "undefined", color=light("muted"), size=20, ha="center", va="center")
        axes.text(0.33, 0.74, "too few rows to tell", color=light("muted"), size=10, ha="center", va="center")


def _probes(result: Calibration, at: PoolPoints) -> tuple[Probe, ...]:
    low, high = _limits(result, at)

    def place(value: float) -> float:
        return float(np.clip((value - low) / (high - low), 0.0, 1.0))

    return tuple(
        Probe(
            x=place(at.x[i]),
            y=place(at.y[i]),
            low=place(at.low[i]),
            high=place(at.high[i]),
            lines=(
                f"scores {score_range(at.first[i], at.last[i], whole=True)}: {percent(at.x[i])} predicted",
                f"{percent(at.y[i])} observed ({percent(at.low[i])} to {percent(at.high[i])})",
                f"a true model: {percent(at.zone_low[i])} to {percent(at.zone_high[i])}",
            ),
        )
        for i in range(at.x.size)
    )


def _table(result: Calibration) -> ValueTable:
    alone = np.bincount(result.pool)[result.pool] == 1
    rows = []
    for i in range(result.pool.size):
        cells = (
            (
                percent(result.predicted[i]),
                percent(result.observed[i]),
                f"{percent(result.observed_lower[i])} to {percent(result.observed_upper[i])}",
                f"{percent(result.zone_lower[i])} to {percent(result.zone_upper[i])}",
                f"≈{SPACE}{count(result.rows[i])}",
            )
            if _defined(result)
            else (ABSENT,) * 5
        )
        rows.append((score_range(result.lower[i], result.upper[i], whole=bool(alone[i])), *cells))
    return ValueTable(
        caption="The diagram in numbers. Bins with a star share their values with a neighbour: alone, either has too "
        "few rows to tell through the noise, or too few that are expected in one of the classes.",
        header=("Scores", "Predicted", "Observed", f"{level(result.confidence)} interval", "True model", "Rows"),
        rows=tuple(rows),
    )


def _error_line(result: Calibration) -> str:
    if not _defined(result):
        return "Expected calibration error undefined"
    return f"Expected calibration error {_percent(known(result.ece))}  ({_interval(result)})"


def _test_line(result: Calibration) -> str:
    if not _defined(result):
        return "Hosmer-Lemeshow test undefined"
    p = p_text(known(result.p_value))
    return f"Hosmer-Lemeshow test, noise included: p {p if p.startswith('below') else '= ' + p}"


def _interval(result: Calibration) -> str:
    low, high = ends_of(result.ece_interval)
    return f"{level(result.confidence)} interval {_percent(low)} to {_percent(high)}"


def _percent(share: float) -> str:
    return f"{decimals(100 * share, 2)}{SPACE}%"


def _description(result: Calibration, at: PoolPoints) -> str:
    if not _defined(result):
        return "An empty reliability diagram: undefined because there are too few rows to tell through the noise."
    return (
        "Reliability diagram: observed share of positives against the predicted one, from low scores on the left to "
        f"high ones on the right; {int(at.outside.sum())} of {at.x.size} pools lie beyond the zone of a model with "
        f"true scores. {_error_line(result)}. {_test_line(result)}."
    )


def _headline(result: Calibration) -> Headline:
    if not _defined(result):
        return Headline(label="Expected calibration error", value="undefined", interval=None, scale=("0", "100 %"))
    (low, high), limit = ends_of(result.ece_interval), known(result.ece_calibrated)
    end = next(scale for scale in _SCALES if scale >= min(1.0, 1.15 * max(high, limit)))
    return Headline(
        label="Expected calibration error",
        value=_percent(known(result.ece)),
        interval=_interval(result),
        scale=("0", f"{100 * end:g}{SPACE}%"),
        marks=(low / end, known(result.ece) / end, high / end),
        reference=("a true model: below", limit / end),
    )


def _section(result: Calibration, request: ReleaseRequest) -> Section:
    defined, at = _defined(result), _points(result)
    low, high = ends_of(result.statistic_interval)
    return Section(
        title="Calibration",
        reading=(
            "Each point gathers rows of similar score: how often they are positive (upwards) against how often their "
            "scores say they are (to the right). On the dashed line scores are true; the whisker shows where the point "
            "would be without noise.",
            "The calibration error is the mean distance from the line. A model with true scores has one too, by "
            f"chance: in {level(result.confidence)} of releases below the mark on the scale.",
        ),
        headline=_headline(result),
        measures=(
            Measure(
                label="Hosmer-Lemeshow test",
                value=f"p {'' if known(result.p_value) < 0.001 else '= '}{p_text(known(result.p_value))}"
                if defined
                else ABSENT,
                note="noise included",
            ),
            Measure(
                label="Statistic",
                value=decimals(result.statistic, 1) if defined else ABSENT,
                note=f"{decimals(low, 1)} to {decimals(high, 1)}; {result.degrees} groups" if defined else "",
            ),
            Measure(
                label="Beyond the zone",
                value=f"{int(at.outside.sum())} of {at.x.size}" if defined else ABSENT,
                note="pools",
            ),
            Measure(
                label="Rows", value=f"≈{SPACE}{count(result.positives + result.negatives)}", note="of both classes"
            ),
        ),
        table=_table(result),
        legend=(
            ("point", "released share"),
            ("outlier", "beyond the zone"),
            ("zone", "where a true model's lie"),
            ("chance", "scores are true"),
        ),
        notes=(
            "The p-value is how often a model with true scores would be released at least as far from the line: labels "
            "and noise are both drawn again. Looking the statistic up in a chi-squared table would forget the noise. "
            "The model is taken as given: fitted to these very rows it follows them a little, and the test is more "
            "careful than it says.",
        ),
        notice=None
        if defined
        else "Undefined: through the noise, there are too few rows to tell how well scores and outcomes agree. The "
        "release has been made and paid for like any other.",
    )
