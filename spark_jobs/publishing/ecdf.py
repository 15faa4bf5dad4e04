"""The distribution function: its data file, its picture and its part of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from spark_jobs.contract.diagnostics import EcdfOptions, ReferenceDistribution
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.publishing import drawing
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, percent
from spark_jobs.publishing.rendering import Column, Headline, Measure, Plot, Probe, Rendering, Section, ValueTable
from spark_jobs.publishing.score_pools import p_text
from spark_jobs.publishing.tokens import light
from spark_jobs.publishing.value_axis import ValueAxis, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAND_OPACITY = (0.13, 0.22)
_WIDTH, _HEIGHT, _HEADING = 5.6, 5.3, 0.95
_SMALL = 4.7
_BOX = (0.17, 0.145, 0.785, 0.83)
_MARGIN = 0.012
_STEPS, _PROBES, _MOST_MARKS = 240, 51, 11


class QuantileValues(Protocol):
    """A released quantile."""

    @property
    def level(self) -> float: ...  # noqa: D102
    @property
    def value(self) -> float: ...  # noqa: D102
    @property
    def lower(self) -> float: ...  # noqa: D102
    @property
    def upper(self) -> float: ...  # noqa: D102


class DistanceValues(Protocol):
    """A released Kolmogorov-Smirnov distance."""

    @property
    def value(self) -> float: ...  # noqa: D102
    @property
    def interval(self) -> tuple[float, float]: ...  # noqa: D102
    @property
    def p_value(self) -> float: ...  # noqa: D102


class EcdfValues(Protocol):
    """The released values of a distribution function, one for each cell."""

    @property
    def values(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def cdf(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def lower(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def upper(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def lower_everywhere(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def upper_everywhere(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def bounds(self) -> tuple[float, float]: ...  # noqa: D102
    @property
    def bounds_found(self) -> bool: ...  # noqa: D102
    @property
    def quantiles(self) -> Sequence[QuantileValues]: ...  # noqa: D102
    @property
    def distance(self) -> DistanceValues | None: ...  # noqa: D102
    @property
    def logarithmic(self) -> bool: ...  # noqa: D102
    @property
    def rows(self) -> float: ...  # noqa: D102
    @property
    def named(self) -> str | None: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def confidence(self) -> float: ...  # noqa: D102
    @property
    def median(self) -> QuantileValues: ...  # noqa: D102


def render(found: EcdfValues, request: ReleaseRequest) -> Rendering:
    """Files and report of a released distribution function; names, columns and rows are the same for any."""
    return Rendering(columns=_columns(found), plots=(_plot(found, _reference(request)),), section=_section(found))


def _reference(request: ReleaseRequest) -> ReferenceDistribution | None:
    asked = [options.reference for options in request.diagnostics if isinstance(options, EcdfOptions)]
    return asked[0] if asked else None


def _columns(found: EcdfValues) -> dict[str, Column]:
    nominal = f"{100 * found.confidence:.4g} %"
    band = f"{nominal} band of cdf, value by value: where the exact counts of the same rows would put it"
    everywhere = f"{nominal} band that holds the whole function at once"
    return {
        "value": Column(values=found.values, meaning="where a cell starts: rows' values are rounded down to it"),
        "cdf": Column(values=found.cdf, meaning="fraction of the rows whose rounded value is at most this"),
        "lower": Column(values=found.lower, meaning=f"lower end of the {band}"),
        "upper": Column(values=found.upper, meaning=f"upper end of the {band}"),
        "lower_everywhere": Column(values=found.lower_everywhere, meaning=f"lower end of the {everywhere}"),
        "upper_everywhere": Column(values=found.upper_everywhere, meaning=f"upper end of the {everywhere}"),
    }


def _defined(found: EcdfValues) -> bool:
    return found.status == "ok"


def _axis(found: EcdfValues) -> ValueAxis:
    edges = np.append(found.values, found.bounds[1])
    shown = [end for quantile in found.quantiles for end in (quantile.lower, quantile.upper)] if _defined(found) else []
    return ValueAxis.around(edges, found.cdf, logarithmic=found.logarithmic, shown=shown)


def _title(found: EcdfValues) -> str:
    return "Distribution of scores" if found.named is None else "Distribution of values"


def _plot(found: EcdfValues, reference: ReferenceDistribution | None) -> Plot:
    axis = _axis(found)

    def draw(alone: bool) -> Figure:
        width, height = (_WIDTH, _HEIGHT + _HEADING) if alone else (_SMALL, _SMALL * _HEIGHT / _WIDTH)
        left, bottom, wide, high = _BOX
        share = _HEIGHT / (_HEIGHT + _HEADING) if alone else 1.0
        figure, axes = drawing.new_axes(
            (width, height),
            (left, bottom * share, wide, high * share),
            x_label=("Score" if found.named is None else "Value") + (", logarithmic" if found.logarithmic else ""),
            y_label="Rows with at most this value",
        )
        _draw(axes, found, axis, reference)
        if alone and _defined(found):
            axes.legend(
                loc="upper left" if found.cdf[int((axis.first + axis.last) / 2)] < 0.5 else "lower right",
                fontsize=8.5, labelcolor=light("ink"), edgecolor="none", framealpha=0.85,
            )  # fmt: skip
        if alone:
            lines = (_median_line(found), f"released with noise; about {count(found.rows)} rows")
            drawing.heading(figure, left=0.03, title=_title(found), lines=lines)
        return figure

    return Plot(
        name="ecdf",
        title=_title(found),
        description=_description(found),
        draw=draw,
        axes=_BOX,
        probes=_probes(found, axis) if _defined(found) else (),
    )


def _draw(axes: Axes, found: EcdfValues, axis: ValueAxis, reference: ReferenceDistribution | None) -> None:
    shares = np.linspace(0.0, 1.0, 6)
    axes.set_yticks(shares, [f"{100 * share:.0f} %" for share in shares])
    axes.set_xticks(*axis.ticks())
    axes.set_xlim(axis.first - _MARGIN * (axis.last - axis.first), axis.last + _MARGIN * (axis.last - axis.first))
    axes.set_ylim(-_MARGIN, 1 + _MARGIN)
    if not _defined(found):
        axes.text(0.5, 0.62, "undefined", color=light("muted"), size=20, ha="center", transform=axes.transAxes)
        axes.text(
            0.5, 0.55, "too few rows to tell", color=light("muted"), size=10, ha="center", transform=axes.transAxes
        )
        return
    shown = _shown(found, axis)
    bands = {
        "of the whole function": (found.lower_everywhere, found.upper_everywhere),
        "of each fraction": (found.lower, found.upper),
    }
    for (what, (lower, upper)), alpha in zip(bands.items(), BAND_OPACITY, strict=True):
        low, high = (np.append(band[shown], band[shown[-1]]) for band in (lower, upper))
        axes.fill_between(
            np.append(shown, axis.last), low, high, step="post", color=light("curve"), alpha=alpha, linewidth=0,
            label=f"{level(found.confidence)} band {what}",
        )  # fmt: skip
    if reference is not None:
        _draw_reference(axes, found, axis, reference)
    axes.step(
        np.concatenate([shown[:1], shown, [axis.last]]),
        np.concatenate([[0.0 if shown[0] == 0 else found.cdf[shown[0]]], found.cdf[shown], found.cdf[shown[-1:]]]),
        where="post", color=light("curve"), linewidth=1.8, solid_joinstyle="round", label="released fractions",
    )  # fmt: skip
    _draw_quantiles(axes, found, axis)


def _draw_reference(axes: Axes, found: EcdfValues, axis: ValueAxis, reference: ReferenceDistribution) -> None:
    places = np.linspace(axis.first, axis.last, 400)
    values = np.interp(places, np.arange(axis.edges.size), axis.edges)
    axes.plot(
        places, _cdf(reference, values), color=light("chance"), linewidth=1.4, linestyle=(0, (4, 3)),
        label=f"reference ({reference.distribution})",
    )  # fmt: skip


def _cdf(reference: ReferenceDistribution, values: NDArray[np.float64]) -> NDArray[np.float64]:
    first, *rest = reference.parameters
    match reference.distribution:
        case "uniform":
            made = stats.uniform.cdf(values, loc=first, scale=rest[0] - first)
        case "normal":
            made = stats.norm.cdf(values, loc=first, scale=rest[0])
        case "lognormal":
            made = stats.lognorm.cdf(values, s=rest[0], scale=np.exp(first))
        case "exponential":
            made = stats.expon.cdf(values, scale=first)
    return np.asarray(made, dtype=np.float64)


def _draw_quantiles(axes: Axes, found: EcdfValues, axis: ValueAxis) -> None:
    """Dots on the function where quantiles are, with the intervals that noise leaves them."""
    marks = found.quantiles if len(found.quantiles) <= _MOST_MARKS else (found.median,)
    levels = np.array([mark.level for mark in marks])
    ends = axis.place([[mark.lower for mark in marks], [mark.upper for mark in marks]])
    axes.hlines(levels, ends[0], ends[1], color=light("spent"), linewidth=1.5, zorder=3)
    axes.plot(
        axis.place([mark.value for mark in marks]), levels, marker="o", markersize=5, color=light("spent"),
        markeredgecolor="white", markeredgewidth=0.8, linestyle="none", zorder=4, label="quantiles with intervals",
    )  # fmt: skip


def _shown(found: EcdfValues, axis: ValueAxis) -> NDArray[np.intp]:
    """Cells that draw the function to a fraction of a pixel: evenly spaced in place, and in fraction."""
    first, last = int(axis.first), min(int(np.ceil(axis.last)), found.cdf.size - 1)
    inside = np.linspace(first, last, _STEPS)
    risen = first + np.searchsorted(found.cdf[first : last + 1], np.linspace(0.0, 1.0, _STEPS))
    places = np.concatenate([inside, risen, _probe_cells(found, axis)])
    return np.unique(np.clip(places, first, last).astype(np.intp))


def _probe_cells(found: EcdfValues, axis: ValueAxis) -> NDArray[np.int64]:
    return np.unique(np.linspace(axis.first, min(axis.last, found.cdf.size - 1), _PROBES).astype(np.int64))


def _probes(found: EcdfValues, axis: ValueAxis) -> tuple[Probe, ...]:
    cells = _probe_cells(found, axis)
    scale = 1 + 2 * _MARGIN

    def share(place: float) -> float:
        return (float(place) + _MARGIN) / scale

    return tuple(
        Probe(
            x=share(float(axis.fraction(cell))),
            y=share(found.cdf[cell]),
            low=share(found.lower[cell]),
            high=share(found.upper[cell]),
            lines=(
                f"at most {number(found.values[cell], 4)}",
                f"{percent(found.cdf[cell])} of the rows",
                f"({percent(found.lower[cell])} to {percent(found.upper[cell])})",
            ),
        )
        for cell in cells
    )


def _interval(quantile: QuantileValues) -> str:
    return f"{number(quantile.lower, 4)} to {number(quantile.upper, 4)}"


def _median_line(found: EcdfValues) -> str:
    if not _defined(found):
        return "Median undefined"
    median = found.median
    return f"Median {number(median.value, 4)}  ({level(found.confidence)} interval {_interval(median)})"


def _description(found: EcdfValues) -> str:
    if not _defined(found):
        return "An empty plot: the distribution is undefined because there are too few rows to tell through the noise."
    read = "; ".join(
        f"{percent(quantile.level)} are at most {number(quantile.value, 4)}" for quantile in found.quantiles[:7]
    )
    return f"Share of rows with at most a value, rising from lower left to upper right; {read}. {_median_line(found)}."


def _table(found: EcdfValues) -> ValueTable:
    rows = [
        (
            percent(quantile.level),
            *((number(quantile.value), _interval(quantile)) if _defined(found) else (ABSENT, ABSENT)),
        )
        for quantile in found.quantiles
    ]
    return ValueTable(
        caption="Quantiles: the smallest value that this share of the rows does not exceed.",
        header=("Share of the rows", "At most", f"{level(found.confidence)} interval"),
        rows=tuple(rows),
    )


def _headline(found: EcdfValues) -> Headline:
    low, high = found.bounds
    scale = number(low, 4), number(high, 4)
    if not _defined(found):
        return Headline(label="Median", value="undefined", interval=None, scale=scale)
    median = found.median
    edges = np.append(found.values, high)
    marks = np.interp([median.lower, median.value, median.upper], edges, np.linspace(0.0, 1.0, edges.size))
    return Headline(
        label="Median",
        value=number(median.value, 4),
        interval=f"{level(found.confidence)} interval {_interval(median)}",
        scale=scale,
        marks=(float(marks[0]), float(marks[1]), float(marks[2])),
    )


def _measures(found: EcdfValues) -> tuple[Measure, ...]:
    low, high = found.bounds
    measures = [
        Measure(label="Rows", value=f"≈{SPACE}{count(found.rows)}", note=found.named or "with a score"),
        Measure(
            label="Bounds",
            value=f"{number(low, 4)} to {number(high, 4)}",
            note="found privately" if found.bounds_found else "public",
        ),
    ]
    if found.distance is not None:
        ends, p = found.distance.interval, p_text(found.distance.p_value)
        known = _defined(found)
        measures += [
            Measure(
                label="Distance to the reference",
                value=decimals(found.distance.value) if known else ABSENT,
                note=f"{level(found.confidence)} interval {decimals(ends[0])} to {decimals(ends[1])}" if known else "",
            ),
            Measure(
                label="Kolmogorov-Smirnov test",
                value=f"p {p if p.startswith('below') else '= ' + p}" if known else ABSENT,
                note="noise included",
            ),
        ]
    return tuple(measures)


def _section(found: EcdfValues) -> Section:
    defined = _defined(found)
    legend = [
        ("curve", "released fractions"),
        ("band", f"{level(found.confidence)} band of each fraction"),
        ("band-outer", "of the whole function"),
        ("outlier", "quantiles with intervals"),
    ]
    if found.distance is not None:
        legend.append(("chance", "reference"))
    notes = [
        "Values are rounded down to a fixed grid, and those beyond the bounds count at the nearer one. Bands and "
        "intervals say how far the noise may have moved the fractions of these rows, not which other rows might have "
        "been in the table.",
    ]
    if found.bounds_found:
        notes.append("The bounds were found by noisy searches; a few rows lie beyond either of them.")
    return Section(
        title=_title(found),
        reading=(
            "At each value, from left to right, the line shows which share of the rows has at most that value "
            "(upwards). Where it is steep there are many rows; where it is flat there are none.",
            "Half of the rows have at most the median. A whisker shows where its quantile would be without noise.",
        ),
        headline=_headline(found),
        measures=_measures(found),
        table=_table(found),
        legend=tuple(legend),
        notes=tuple(notes),
        notice=None
        if defined
        else "Undefined: through the noise, there are too few rows to tell how they are distributed. The release has "
        "been made and paid for like any other.",
    )
