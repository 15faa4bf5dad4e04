"""Binned residuals: their data file, their picture and their part of the report."""

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
    score_limits,
    score_range,
)
from spark_jobs.diagnostics.binned_residuals.result import BinnedResiduals
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, p_figure, p_text, percent
from spark_jobs.publishing.rendering import (
    Headline,
    Measure,
    Plot,
    Probe,
    Rendering,
    Section,
    ValueTable,
    known,
)
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRAME = figures.Frame(width=6.4, height=4.4, heading=1.2, small=5.2, box=(0.13, 0.165, 0.815, 0.805))
_NOTED = 0.05


def render(result: BinnedResiduals, request: ReleaseRequest) -> Rendering:
    """Files and report of released binned residuals; names, columns and rows are the same whatever was released."""
    columns = pool_columns(result, "residual", meaning="mean of label minus score in the pool", zone="residual")
    return Rendering(columns=columns, plots=(_plot(result),), section=_section(result, request))


def _defined(result: BinnedResiduals) -> bool:
    return result.status == "ok"


def _points(result: BinnedResiduals) -> PoolPoints:
    return points(result, result.residual, result.residual_lower, result.residual_upper)


def _plot(result: BinnedResiduals) -> Plot:
    at = _points(result)

    def draw(alone: bool) -> Figure:
        figure, axes = _FRAME.axes(
            alone=alone,
            x_label="Predicted share of positives (mean score of the pool)",
            y_label="Observed minus predicted (points)",
        )
        _draw(axes, result, at)
        if alone:
            if _defined(result):
                _legend(axes)
            figures.heading(figure, left=0.03, title="Binned residuals", lines=(_test_line(result), _size_line(result)))
        return figure

    return Plot(
        name="binned_residuals",
        title="Binned residuals",
        description=_description(result, at),
        draw=draw,
        axes=_FRAME.box,
        probes=_probes(result, at) if _defined(result) else (),
    )


def _legend(axes: Axes) -> None:
    """Above the axes, where no point can lie."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=3,
        fontsize=figures.LEGEND_SIZE,
        labelcolor=light("ink"),
        frameon=False,
        handlelength=1.4,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def _limits(result: BinnedResiduals, at: PoolPoints) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ends of both axes; residuals in percentage points."""
    if not _defined(result):
        return (-0.01, 1.01), (-10.5, 10.5)
    reach = np.abs(np.concatenate([at.low, at.high, at.zone_low, at.zone_high])).max()
    reach = 108.0 * min(max(float(reach), 0.001), 1.0)
    return score_limits(at), (-reach, reach)


def _draw(axes: Axes, result: BinnedResiduals, at: PoolPoints) -> None:
    figures.set_ticks(axes, *_limits(result, at))
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+.3g}" if abs(value) > 1e-9 else "0")
    if _defined(result):
        points_up = PoolPoints(
            x=at.x,
            y=100 * at.y,
            low=100 * at.low,
            high=100 * at.high,
            zone_low=100 * at.zone_low,
            zone_high=100 * at.zone_high,
            first=at.first,
            last=at.last,
            rows=at.rows,
        )
        draw_zone(axes, points_up, label=f"{level(result.confidence)} of a true model's", slope=0.0)
    axes.axhline(0.0, color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)))
    if _defined(result):
        draw_points(axes, points_up, inside="released, with what noise hides", outside="beyond the zone")
    else:
        middle = axes.transAxes
        axes.text(0.5, 0.72, "undefined", color=light("muted"), size=20, ha="center", transform=middle)
        axes.text(
            0.5, 0.64, "too few rows to tell through the noise", color=light("muted"), size=10, ha="center",
            transform=middle,
        )  # fmt: skip


def _probes(result: BinnedResiduals, at: PoolPoints) -> tuple[Probe, ...]:
    (left, right), (bottom, top) = _limits(result, at)

    def up(value: float) -> float:
        return float(np.clip((100 * value - bottom) / (top - bottom), 0.0, 1.0))

    return tuple(
        Probe(
            x=float((at.x[i] - left) / (right - left)),
            y=up(at.y[i]),
            low=up(at.low[i]),
            high=up(at.high[i]),
            lines=(
                f"scores {score_range(at.first[i], at.last[i], whole=True)}: {percent(at.x[i])} predicted",
                f"{_signed(at.y[i])} points ({_signed(at.low[i])} to {_signed(at.high[i])})",
                f"a true model: {_signed(at.zone_low[i])} to {_signed(at.zone_high[i])}",
            ),
        )
        for i in range(at.x.size)
    )


def _signed(value: float) -> str:
    text = decimals(100 * value, 1)
    return text if text.startswith("-") or text == "0.0" else f"+{text}"


def _table(result: BinnedResiduals) -> ValueTable:
    alone = np.bincount(result.pool)[result.pool] == 1
    rows = []
    for i in range(result.pool.size):
        cells = (
            (
                percent(result.predicted[i]),
                _signed(result.residual[i]),
                f"{_signed(result.residual_lower[i])} to {_signed(result.residual_upper[i])}",
                f"{_signed(result.zone_lower[i])} to {_signed(result.zone_upper[i])}",
                f"≈{SPACE}{count(result.rows[i])}",
            )
            if _defined(result)
            else (ABSENT,) * 5
        )
        rows.append((score_range(result.lower[i], result.upper[i], whole=bool(alone[i])), *cells))
    return ValueTable(
        caption="The residuals in numbers, in percentage points. Bins with a star share their values with a neighbour: "
        "alone, either has too few rows to tell through the noise.",
        header=("Scores", "Predicted", "Residual", f"{level(result.confidence)} interval", "True model", "Rows"),
        rows=tuple(rows),
    )


def _test_line(result: BinnedResiduals) -> str:
    return f"Test of fit: p {_relation(known(result.p_value))}" if _defined(result) else "Test of fit undefined"


def _relation(p: float) -> str:
    text = p_text(p)
    return text if text.startswith("below") else f"= {text}"


def _size_line(result: BinnedResiduals) -> str:
    return f"released with noise; about {count(result.positives + result.negatives)} rows"


def _description(result: BinnedResiduals, at: PoolPoints) -> str:
    if not _defined(result):
        return "An empty plot of residuals: undefined because there are too few rows to tell through the noise."
    return (
        "Mean residuals against mean scores, from low scores on the left to high ones on the right; "
        f"{int(at.outside.sum())} of {at.x.size} lie beyond the zone of a model with true scores. {_test_line(result)}."
    )


def _section(result: BinnedResiduals, request: ReleaseRequest) -> Section:
    defined, at = _defined(result), _points(result)
    significant = known(result.p_value) < _NOTED
    verdict = "the residuals speak against the scores" if significant else "no sign that the scores are wrong"
    return Section(
        title="Binned residuals",
        reading=(
            "Each point gathers rows of similar score: how much more often they are positive than their scores say "
            "(above the line), or less often (below). The whisker shows where the point would be without noise.",
            "If the scores were true, about "
            f"{level(result.confidence)} of the points would lie in the grey zone, and in no order. A bow or a tilt "
            "means that the model lacks a term.",
        ),
        headline=Headline(
            label="Test of fit (p-value)",
            value=p_figure(known(result.p_value)) if defined else "undefined",
            interval=verdict if defined else None,
            scale=("0 wrong", "1"),
            marks=(known(result.p_value),) * 3 if defined else None,
            reference=("", _NOTED),
        ),
        measures=(
            Measure(
                label="Trend",
                value=f"p {_relation(known(result.trend_p_value))}" if defined else ABSENT,
                note="a shift, tilt or bow",
            ),
            Measure(
                label="Scatter",
                value=f"p {_relation(known(result.scatter_p_value))}" if defined else ABSENT,
                note="single pools too far off",
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
        legend=(("point", "released residual"), ("outlier", "beyond the zone"), ("zone", "where a true model's lie")),
        notes=(
            "The p-value is how often a model with true scores would be released with residuals at least as "
            "surprising: labels and noise are both drawn again. It takes the model as given: fitted to these very "
            "rows, even by a private method, a model follows them a little, and the test is more careful than it says.",
        ),
        notice=None
        if defined
        else "Undefined: through the noise, there are too few rows to tell anything about the residuals. The release "
        "has been made and paid for like any other.",
    )
