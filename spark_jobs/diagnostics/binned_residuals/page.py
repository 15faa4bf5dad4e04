"""The page of binned residuals: data file, picture and section of the report."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.pooled import BinnedResiduals
from spark_jobs.diagnostics._score_figures.page import population_measures
from spark_jobs.diagnostics._score_groups.page import PoolPage, PoolPoints, Range, is_defined
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import draw_zero
from spark_jobs.publishing.formats import ABSENT, count, decimals, level, p_text
from spark_jobs.publishing.rendering import Headline, Measure, Rendering, Section, known

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIGNIFICANT = 0.05
_SCALES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


def render(result: BinnedResiduals, request: ReleaseRequest) -> Rendering:
    """The page of a result. Its tables have the same names, columns and number of rows whatever was released."""
    return _PAGE.render(result, _section(result), _description(result))


def _limits(result: BinnedResiduals, at: PoolPoints) -> tuple[Range, Range]:
    """Ends of both axes; residuals are in percentage points."""
    if not is_defined(result):
        return (-0.01, 1.01), (-10.5, 10.5)
    room = 0.06 * max(float(at.x.max() - at.x.min()), 0.05)
    scores = max(0.0, float(at.x.min()) - room), min(1.0, float(at.x.max()) + room)
    reach = 108.0 * min(max(float(np.abs(at.ends).max()), 0.001), 1.0)
    return scores, (-reach, reach)


def _dress(axes: Axes, defined: bool) -> None:
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+.3g}" if abs(value) > 1e-9 else "0")
    draw_zero(axes)
    if not defined:
        figures.draw_undefined(axes, "too few rows for the noise")


def _signed(value: float) -> str:
    text = decimals(100 * value, 1)
    return text if text.startswith("-") or text == "0.0" else f"+{text}"


def _lines(result: BinnedResiduals) -> tuple[str, str]:
    distance = f"Mean distance from 0: {_points(result.mean_distance.number)}; " if is_defined(result) else ""
    return (
        f"{distance}{_test_line(result)}",
        f"released with noise; about {count(result.positives + result.negatives)} rows",
    )


def _test_line(result: BinnedResiduals) -> str:
    return f"Test of fit: {_p(result, result.p_value)}" if is_defined(result) else "Test of fit undefined"


_PAGE = PoolPage(
    kind="binned_residuals",
    title="Binned residuals",
    field="residual",
    meaning="mean of label minus score in the pool",
    zone="residual",
    frame=figures.Frame(width=6.4, height=4.4, heading=1.2, small=5.2, box=(0.13, 0.165, 0.815, 0.805)),
    y_label="Mean residual (percentage points)",
    slope=0.0,
    scale=100.0,
    text=_signed,
    word="points",
    limits=_limits,
    dress=_dress,
    legend=partial(figures.legend_above, columns=3),
    lines=_lines,
    caption="The residuals in percentage points. Bins with a star are pooled with a neighbour and share its values, "
    "because they have too few rows for the noise.",
    column="Residual",
)


def _description(result: BinnedResiduals) -> str:
    if not is_defined(result):
        return "An empty plot of residuals: undefined, because there are too few rows for the noise."
    outside = _PAGE.points(result).outside
    return (
        "Mean residuals against mean scores, from low scores on the left to high ones on the right; "
        f"{int(outside.sum())} of {outside.size} lie outside the zone of a calibrated model. {_test_line(result)}."
    )


def _points(share: float) -> str:
    return f"{decimals(100 * share, 1)} points"


def _headline(result: BinnedResiduals) -> Headline:
    label = "Mean distance from the model"
    if not is_defined(result):
        return Headline(label=label, value="undefined", interval=None, scale=("0", "100 points"))
    (low, high), distance = result.mean_distance.ends(), result.mean_distance.number
    calibrated = known(result.mean_distance_calibrated)
    end = next(scale for scale in _SCALES if scale >= min(100.0, 115 * max(high, calibrated))) / 100
    return Headline(
        label=label,
        value=_points(distance),
        interval=f"{level(result.confidence)} interval {decimals(100 * low, 1)} to {_points(high)}",
        scale=("0", f"{100 * end:g} points"),
        marks=(low / end, distance / end, high / end),
        reference=("calibrated model: below", calibrated / end),
    )


def _section(result: BinnedResiduals) -> Section:
    defined = is_defined(result)
    significant = known(result.p_value) < _SIGNIFICANT
    verdict = "evidence of miscalibration" if significant else "no evidence of miscalibration"
    return Section(
        title="Binned residuals",
        reading=(
            "Each point stands for rows with similar scores. Above the line they are positive more often than the "
            "model predicts, below it less often. The whisker is an interval for the point without noise.",
            f"If the model is calibrated, about {level(result.confidence)} of the points lie in the grey zone, without "
            "a pattern. A slope or a curve in the points suggests that the model lacks a term.",
            "The mean distance of the points from the line counts each as often as it has rows, and leaves out what "
            "the noise adds. By chance, a calibrated model has a distance too; in "
            f"{level(result.confidence)} of releases it stays below the mark on the scale.",
        ),
        headline=_headline(result),
        measures=(
            Measure(
                label="Test of fit",
                value=_p(result, result.p_value) if defined else ABSENT,
                note=f"{verdict}; trend {_p(result, result.trend_p_value)}, "
                f"scatter {_p(result, result.scatter_p_value)}"
                if defined
                else "",
            ),
            *population_measures(result.mean_distance, result.confidence, 1, scale=100, unit=" points"),
            *_PAGE.measures(result),
        ),
        table=_PAGE.table(result),
        legend=(
            ("point", "released residual"),
            ("outlier", "outside the zone"),
            ("zone", "zone of a calibrated model"),
        ),
        notes=(
            "The p-value is the probability that the release of a calibrated model shows residuals at least as "
            "extreme; both its labels and the noise are simulated. Trend is a shift, slope or curve; scatter, single "
            "pools too far from 0. The test treats the model as fixed. If the model "
            "was fitted to these rows, even privately, the test is conservative.",
        ),
        notice=None
        if defined
        else "Undefined: the noise hides the residuals of so few rows. The release was made and its cost was charged.",
    )


def _p(result: BinnedResiduals, value: float | None) -> str:
    return p_text(known(value), floor=result.p_value_floor)
