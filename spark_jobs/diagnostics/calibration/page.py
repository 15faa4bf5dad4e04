"""The page of a calibration: data file, reliability diagram and section of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.pooled import Calibration
from spark_jobs.diagnostics._score_figures.page import population_measures
from spark_jobs.diagnostics._score_groups.page import PoolPage, PoolPoints, Range, is_defined
from spark_jobs.publishing.chart import SQUARE, draw_reference, draw_undefined_aside, legend_in
from spark_jobs.publishing.formats import ABSENT, SPACE, decimals, level, p_text, percent
from spark_jobs.publishing.rendering import Headline, Measure, Rendering, Section, known

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SCALES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Upper ends that the scale of the calibration error may have."""


def render(result: Calibration, request: ReleaseRequest) -> Rendering:
    """The page of a result. Its tables have the same names, columns and number of rows whatever was released."""
    return _PAGE.render(result, _section(result), _description(result))


def _limits(result: Calibration, at: PoolPoints) -> tuple[Range, Range]:
    """Ends of both axes, which are equal: the range of the released values, with a margin."""
    if not is_defined(result):
        return (-0.01, 1.01), (-0.01, 1.01)
    low, high = (float(end) for end in (min(at.x.min(), at.ends.min()), max(at.x.max(), at.ends.max())))
    room = 0.05 * max(high - low, 0.02)
    limits = max(-0.01, low - room), min(1.01, high + room)
    return limits, limits


def _dress(axes: Axes, defined: bool) -> None:
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    draw_reference(axes, [0, 1], [0, 1], label="perfect calibration")
    if not defined:  # clear of the line
        draw_undefined_aside(axes, "too few rows for the noise")


def _lines(result: Calibration) -> tuple[str, str]:
    return _error_line(result), _test_line(result)


def _error_line(result: Calibration) -> str:
    if not is_defined(result):
        return "Expected calibration error undefined"
    return f"Expected calibration error {_percent(result.ece.number)}  ({_interval(result)})"


def _test_line(result: Calibration) -> str:
    if not is_defined(result):
        return "Hosmer-Lemeshow test undefined"
    return f"Hosmer-Lemeshow test, noise included: {p_text(known(result.p_value), floor=result.p_value_floor)}"


def _of_statistic(result: Calibration) -> str:
    """What stands beside the Hosmer-Lemeshow statistic: its interval, or why it has no value."""
    if not is_defined(result):
        return ""
    if result.statistic.value is None:
        return "undefined: a group may expect less than one row of a class"
    low, high = result.statistic.ends()
    return f"{decimals(low, 1)} to {decimals(high, 1)}; {result.degrees} groups"


def _interval(result: Calibration) -> str:
    low, high = result.ece.ends()
    return f"{level(result.confidence)} interval {_percent(low)} to {_percent(high)}"


def _percent(share: float) -> str:
    return f"{decimals(100 * share, 2)}{SPACE}%"


def _description(result: Calibration) -> str:
    if not is_defined(result):
        return "An empty reliability diagram: undefined, because there are too few rows for the noise."
    outside = _PAGE.points(result).outside
    return (
        "Reliability diagram: observed share of positives against the predicted one, from low scores on the left to "
        f"high ones on the right; {int(outside.sum())} of {outside.size} pools lie outside the zone of a "
        f"calibrated model. {_error_line(result)}. {_test_line(result)}."
    )


_PAGE = PoolPage(
    kind="calibration",
    title="Calibration",
    field="observed",
    meaning="share of positives of the pool",
    zone="observed share",
    frame=SQUARE,
    y_label="Observed share of positives",
    slope=1.0,
    scale=1.0,
    text=percent,
    word="observed",
    limits=_limits,
    dress=_dress,
    legend=legend_in("upper left"),
    lines=_lines,
    caption="The diagram in numbers. Bins with a star are pooled with a neighbour and share its values: they "
    "have too few rows for the noise, or fewer than five expected rows in one of the classes.",
    column="Observed",
)


def _headline(result: Calibration) -> Headline:
    if not is_defined(result):
        return Headline(label="Expected calibration error", value="undefined", interval=None, scale=("0", "100 %"))
    (low, high), limit = result.ece.ends(), known(result.ece_calibrated)
    end = next(scale for scale in _SCALES if scale >= min(1.0, 1.15 * max(high, limit)))
    return Headline(
        label="Expected calibration error",
        value=_percent(result.ece.number),
        interval=_interval(result),
        scale=("0", f"{100 * end:g}{SPACE}%"),
        marks=(low / end, result.ece.number / end, high / end),
        reference=("calibrated model: below", limit / end),
    )


def _section(result: Calibration) -> Section:
    defined = is_defined(result)
    return Section(
        title="Calibration",
        reading=(
            "Each point stands for rows with similar scores: their observed share of positives (vertical) against the "
            "share that the model predicts (horizontal). On the dashed line both agree. The whisker is an interval for "
            "the point without noise.",
            "The calibration error is the mean distance from the line. By chance, a calibrated model has one too; in "
            f"{level(result.confidence)} of releases it stays below the mark on the scale.",
        ),
        headline=_headline(result),
        measures=(
            Measure(
                label="Hosmer-Lemeshow test",
                value=p_text(known(result.p_value), floor=result.p_value_floor) if defined else ABSENT,
                note="noise included",
            ),
            Measure(label="Statistic", value=decimals(result.statistic.value, 1), note=_of_statistic(result)),
            *population_measures(result.ece, result.confidence, 2, scale=100, unit=f"{SPACE}%"),
            *_PAGE.measures(result),
        ),
        table=_PAGE.table(result),
        legend=(
            ("point", "released share"),
            ("outlier", "outside the zone"),
            ("zone", "zone of a calibrated model"),
            ("chance", "perfect calibration"),
        ),
        notes=(
            "The p-value is the probability that the release of a calibrated model lies at least as far from the "
            "line; both its labels and the noise are simulated. A chi-squared table would ignore the noise. The test "
            "treats the model as fixed. If the model was fitted to these rows, the test is conservative.",
        ),
        notice=None
        if defined
        else "Undefined: the noise hides how well the scores of so few rows agree with their outcomes. The release "
        "was made and its cost was charged.",
    )
