"""Binned residuals: their data file, their picture and their part of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, percent
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Plot,
    Probe,
    Rendering,
    Section,
    ValueTable,
    known,
)
from spark_jobs.publishing.score_pools import (
    LEGEND_SIZE,
    Points,
    PoolValues,
    draw_points,
    draw_zone,
    p_figure,
    p_text,
    points,
    score_limits,
    score_range,
    set_ticks,
)
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRAME = figures.Frame(width=6.4, height=4.4, heading=1.2, small=5.2, box=(0.13, 0.165, 0.815, 0.805))
_NOTED = 0.05


class ResidualValues(PoolValues, Protocol):
    """The released values of binned residuals."""

    @property
    def residual(self) -> FloatArray: ...  # noqa: D102
    @property
    def residual_lower(self) -> FloatArray: ...  # noqa: D102
    @property
    def residual_upper(self) -> FloatArray: ...  # noqa: D102
    @property
    def trend_p_value(self) -> float | None: ...  # noqa: D102
    @property
    def scatter_p_value(self) -> float | None: ...  # noqa: D102


def render(found: ResidualValues, request: ReleaseRequest) -> Rendering:
    """Files and report of released binned residuals; names, columns and rows are the same whatever was released."""
    return Rendering(columns=_columns(found), plots=(_plot(found),), section=_section(found, request))


def _columns(found: ResidualValues) -> dict[str, Column]:
    nominal = f"{100 * found.confidence:.4g} %"
    interval = f"{nominal} interval of residual: where the exact counts of the same rows would put it"
    zone = f"{nominal} zone: where the residual of a model with true scores would be released"
    return {
        "lower": Column(values=found.lower, meaning="lower edge of the bin, as a score"),
        "upper": Column(values=found.upper, meaning="upper edge of the bin, as a score"),
        "pool": Column(values=found.pool, meaning="pool the bin belongs to; bins of a pool share all that follows"),
        "predicted": Column(values=found.predicted, meaning="mean score of the pool"),
        "residual": Column(values=found.residual, meaning="mean of label minus score in the pool"),
        "residual_lower": Column(values=found.residual_lower, meaning=f"lower end of the {interval}"),
        "residual_upper": Column(values=found.residual_upper, meaning=f"upper end of the {interval}"),
        "zone_lower": Column(values=found.zone_lower, meaning=f"lower end of the {zone}"),
        "zone_upper": Column(values=found.zone_upper, meaning=f"upper end of the {zone}"),
        "rows": Column(values=found.rows, meaning="noisy number of rows of the pool"),
    }


def _defined(found: ResidualValues) -> bool:
    return found.status == "ok"


def _points(found: ResidualValues) -> Points:
    return points(found, found.residual, found.residual_lower, found.residual_upper)


def _plot(found: ResidualValues) -> Plot:
    at = _points(found)

    def draw(alone: bool) -> Figure:
        figure, axes = _FRAME.axes(
            alone=alone,
            x_label="Predicted share of positives (mean score of the pool)",
            y_label="Observed minus predicted (points)",
        )
        _draw(axes, found, at)
        if alone:
            if _defined(found):
                _legend(axes)
            figures.heading(figure, left=0.03, title="Binned residuals", lines=(_test_line(found), _size_line(found)))
        return figure

    return Plot(
        name="binned_residuals",
        title="Binned residuals",
        description=_description(found, at),
        draw=draw,
        axes=_FRAME.box,
        probes=_probes(found, at) if _defined(found) else (),
    )


def _legend(axes: Axes) -> None:
    """Above the axes, where no point can lie."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=3,
        fontsize=LEGEND_SIZE,
        labelcolor=light("ink"),
        frameon=False,
        handlelength=1.4,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def _limits(found: ResidualValues, at: Points) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ends of both axes; residuals in percentage points."""
    if not _defined(found):
        return (-0.01, 1.01), (-10.5, 10.5)
    reach = np.abs(np.concatenate([at.low, at.high, at.zone_low, at.zone_high])).max()
    reach = 108.0 * min(max(float(reach), 0.001), 1.0)
    return score_limits(at), (-reach, reach)


def _draw(axes: Axes, found: ResidualValues, at: Points) -> None:
    set_ticks(axes, *_limits(found, at))
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+.3g}" if abs(value) > 1e-9 else "0")
    if _defined(found):
        points_up = Points(
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
        draw_zone(axes, points_up, label=f"{level(found.confidence)} of a true model's", slope=0.0)
    axes.axhline(0.0, color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)))
    if _defined(found):
        draw_points(axes, points_up, inside="released, with what noise hides", outside="beyond the zone")
    else:
        middle = axes.transAxes
        axes.text(0.5, 0.72, "undefined", color=light("muted"), size=20, ha="center", transform=middle)
        axes.text(
            0.5, 0.64, "too few rows to tell through the noise", color=light("muted"), size=10, ha="center",
            transform=middle,
        )  # fmt: skip


def _probes(found: ResidualValues, at: Points) -> tuple[Probe, ...]:
    (left, right), (bottom, top) = _limits(found, at)

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


def _table(found: ResidualValues) -> ValueTable:
    alone = np.bincount(found.pool)[found.pool] == 1
    rows = []
    for i in range(found.pool.size):
        cells = (
            (
                percent(found.predicted[i]),
                _signed(found.residual[i]),
                f"{_signed(found.residual_lower[i])} to {_signed(found.residual_upper[i])}",
                f"{_signed(found.zone_lower[i])} to {_signed(found.zone_upper[i])}",
                f"≈{SPACE}{count(found.rows[i])}",
            )
            if _defined(found)
            else (ABSENT,) * 5
        )
        rows.append((score_range(found.lower[i], found.upper[i], whole=bool(alone[i])), *cells))
    return ValueTable(
        caption="The residuals in numbers, in percentage points. Bins with a star share their values with a neighbour: "
        "alone, either has too few rows to tell through the noise.",
        header=("Scores", "Predicted", "Residual", f"{level(found.confidence)} interval", "True model", "Rows"),
        rows=tuple(rows),
    )


def _test_line(found: ResidualValues) -> str:
    return f"Test of fit: p {_relation(known(found.p_value))}" if _defined(found) else "Test of fit undefined"


def _relation(p: float) -> str:
    text = p_text(p)
    return text if text.startswith("below") else f"= {text}"


def _size_line(found: ResidualValues) -> str:
    return f"released with noise; about {count(found.positives + found.negatives)} rows"


def _description(found: ResidualValues, at: Points) -> str:
    if not _defined(found):
        return "An empty plot of residuals: undefined because there are too few rows to tell through the noise."
    return (
        "Mean residuals against mean scores, from low scores on the left to high ones on the right; "
        f"{int(at.outside.sum())} of {at.x.size} lie beyond the zone of a model with true scores. {_test_line(found)}."
    )


def _section(found: ResidualValues, request: ReleaseRequest) -> Section:
    defined, at = _defined(found), _points(found)
    speaks = known(found.p_value) < _NOTED
    verdict = "the residuals speak against the scores" if speaks else "no sign that the scores are wrong"
    return Section(
        title="Binned residuals",
        reading=(
            "Each point gathers rows of similar score: how much more often they are positive than their scores say "
            "(above the line), or less often (below). The whisker shows where the point would be without noise.",
            "If the scores were true, about "
            f"{level(found.confidence)} of the points would lie in the grey zone, and in no order. A bow or a tilt "
            "means that the model lacks a term.",
        ),
        headline=Headline(
            label="Test of fit (p-value)",
            value=p_figure(known(found.p_value)) if defined else "undefined",
            interval=verdict if defined else None,
            scale=("0 wrong", "1"),
            marks=(known(found.p_value),) * 3 if defined else None,
            reference=("", _NOTED),
        ),
        measures=(
            Measure(
                label="Trend",
                value=f"p {_relation(known(found.trend_p_value))}" if defined else ABSENT,
                note="a shift, tilt or bow",
            ),
            Measure(
                label="Scatter",
                value=f"p {_relation(known(found.scatter_p_value))}" if defined else ABSENT,
                note="single pools too far off",
            ),
            Measure(
                label="Beyond the zone",
                value=f"{int(at.outside.sum())} of {at.x.size}" if defined else ABSENT,
                note="pools",
            ),
            Measure(label="Rows", value=f"≈{SPACE}{count(found.positives + found.negatives)}", note="of both classes"),
        ),
        table=_table(found),
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
