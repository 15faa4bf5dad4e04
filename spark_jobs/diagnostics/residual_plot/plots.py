"""The Q-Q plot: quantiles of the residuals against those of a normal distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.diagnostics.residual_plot.result import ResidualPlot
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import level
from spark_jobs.publishing.rendering import Plot, Probe
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.value_axis import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Normal quantiles of the residuals"
_FRAME = figures.Frame(width=5.6, height=4.8, heading=0.95, small=4.7, box=(0.17, 0.155, 0.785, 0.82))
_ROOM = 0.06


def quantile_plot(result: ResidualPlot) -> Plot:
    """Released quantiles with their intervals, and the line on which normally distributed residuals would lie."""
    defined = result.status == "ok"

    def draw(alone: bool) -> Figure:
        figure, axes = _FRAME.axes(
            alone=alone,
            x_label="Quantile of a standard normal distribution",
            y_label="Quantile of the residuals",
        )
        figures.set_ticks(axes, *_limits(result))
        axes.yaxis.set_major_formatter(lambda value, _: number(value, 4, plain_below=5))
        if defined:
            _draw(axes, result)
        else:
            figures.draw_undefined(axes, "too few rows for this noise")
        if alone:
            if defined:
                axes.legend(
                    loc="upper left",
                    fontsize=figures.LEGEND_SIZE,
                    labelcolor=light("ink"),
                    edgecolor="none",
                    framealpha=0.85,
                )
            figures.heading(figure, left=0.03, title=TITLE, lines=("released with noise; straight if normal",))
        return figure

    return Plot(
        name="residual_quantiles",
        title=TITLE,
        description=_description(result),
        draw=draw,
        axes=_FRAME.box,
        probes=_probes(result) if defined else (),
        legend=(
            ("curve", "released quantiles"),
            ("band", f"{level(result.confidence)} band"),
            ("chance", "a normal distribution"),
        ),
    )


def _limits(result: ResidualPlot) -> tuple[tuple[float, float], tuple[float, float]]:
    ends = result.qq_theoretical[[0, -1]]
    values = (
        np.concatenate([result.qq_lower, result.qq_upper, result.qq_line]) if result.status == "ok" else np.zeros(1)
    )
    low, high = float(values.min()), float(values.max())
    if not high > low:
        low, high = -result.residual_bound, result.residual_bound
    room = _ROOM * (high - low)
    side = _ROOM * float(ends[1] - ends[0])
    return (float(ends[0]) - side, float(ends[1]) + side), (low - room, high + room)


def _draw(axes: Axes, result: ResidualPlot) -> None:
    x = result.qq_theoretical
    axes.fill_between(
        x, result.qq_lower, result.qq_upper, color=light("curve"), alpha=0.22, linewidth=0,
        label=f"{level(result.confidence)} band",
    )  # fmt: skip
    axes.plot(
        x, result.qq_line, color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)), label="a normal distribution"
    )
    axes.plot(x, result.qq_residual, color=light("curve"), linewidth=1.8, label="released quantiles")


def _probes(result: ResidualPlot) -> tuple[Probe, ...]:
    (left, right), (low, high) = _limits(result)

    def up(value: float) -> float:
        return float(np.clip((value - low) / (high - low), 0.0, 1.0))

    return tuple(
        Probe(
            x=float((result.qq_theoretical[i] - left) / (right - left)),
            y=up(result.qq_residual[i]),
            low=up(result.qq_lower[i]),
            high=up(result.qq_upper[i]),
            lines=(
                f"residual {number(result.qq_residual[i], 3)}",
                f"({number(result.qq_lower[i], 3)} to {number(result.qq_upper[i], 3)})",
                f"normal: {number(result.qq_line[i], 3)}",
            ),
        )
        for i in range(result.qq_theoretical.size)
    )


def _description(result: ResidualPlot) -> str:
    if result.status != "ok":
        return "An empty plot of quantiles: undefined because there are too few rows for this noise."
    inside = int(((result.qq_lower <= result.qq_line) & (result.qq_line <= result.qq_upper)).sum())
    return (
        "Quantiles of the residuals against those of a normal distribution, rising from lower left to upper right; "
        f"the normal line lies within the band at {inside} of {result.qq_line.size} quantiles."
    )
