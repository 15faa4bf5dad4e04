"""Binned residuals: their data file, their picture and their part of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics._score_groups.page import PoolPage, PoolPoints, Range, is_defined, p_relation
from spark_jobs.diagnostics.binned_residuals.result import BinnedResiduals
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import ABSENT, count, decimals, level, p_figure
from spark_jobs.publishing.rendering import Headline, Measure, Rendering, Section, known
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NOTED = 0.05


def render(result: BinnedResiduals, request: ReleaseRequest) -> Rendering:
    """Files and report of released binned residuals; names, columns and rows are the same whatever was released."""
    return _PAGE.render(result, _section(result), _description(result))


def _limits(result: BinnedResiduals, at: PoolPoints) -> tuple[Range, Range]:
    """Ends of both axes; residuals in percentage points."""
    if not is_defined(result):
        return (-0.01, 1.01), (-10.5, 10.5)
    room = 0.06 * max(float(at.x.max() - at.x.min()), 0.05)
    scores = max(0.0, float(at.x.min()) - room), min(1.0, float(at.x.max()) + room)
    reach = 108.0 * min(max(float(np.abs(at.ends).max()), 0.001), 1.0)
    return scores, (-reach, reach)


def _dress(axes: Axes, defined: bool) -> None:
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+.3g}" if abs(value) > 1e-9 else "0")
    axes.axhline(0.0, color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)))
    if not defined:
        figures.draw_undefined(axes, "too few rows to tell through the noise")


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


def _signed(value: float) -> str:
    text = decimals(100 * value, 1)
    return text if text.startswith("-") or text == "0.0" else f"+{text}"


def _lines(result: BinnedResiduals) -> tuple[str, str]:
    return _test_line(result), f"released with noise; about {count(result.positives + result.negatives)} rows"


def _test_line(result: BinnedResiduals) -> str:
    return f"Test of fit: p {p_relation(known(result.p_value))}" if is_defined(result) else "Test of fit undefined"


_PAGE = PoolPage(
    kind="binned_residuals",
    title="Binned residuals",
    field="residual",
    meaning="mean of label minus score in the pool",
    zone="residual",
    frame=figures.Frame(width=6.4, height=4.4, heading=1.2, small=5.2, box=(0.13, 0.165, 0.815, 0.805)),
    y_label="Observed minus predicted (points)",
    slope=0.0,
    scale=100.0,
    text=_signed,
    unit="points",
    inside="released, with what noise hides",
    limits=_limits,
    dress=_dress,
    legend=_legend,
    lines=_lines,
    caption="The residuals in numbers, in percentage points. Bins with a star share their values with a neighbour: "
    "alone, either has too few rows to tell through the noise.",
    column="Residual",
)


def _description(result: BinnedResiduals) -> str:
    if not is_defined(result):
        return "An empty plot of residuals: undefined because there are too few rows to tell through the noise."
    outside = _PAGE.points(result).outside
    return (
        "Mean residuals against mean scores, from low scores on the left to high ones on the right; "
        f"{int(outside.sum())} of {outside.size} lie beyond the zone of a model with true scores. {_test_line(result)}."
    )


def _section(result: BinnedResiduals) -> Section:
    defined = is_defined(result)
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
            *(
                Measure(label=label, value=f"p {p_relation(known(p))}" if defined else ABSENT, note=note)
                for label, p, note in (
                    ("Trend", result.trend_p_value, "a shift, tilt or bow"),
                    ("Scatter", result.scatter_p_value, "single pools too far off"),
                )
            ),
            *_PAGE.measures(result),
        ),
        table=_PAGE.table(result),
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
