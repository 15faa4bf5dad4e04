"""The plot of a distribution function: its steps, bands and quantiles, with a reference or an earlier release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.figure import Ends
from spark_jobs.contract.options import ReferenceDistribution
from spark_jobs.contract.results.values import EcdfComparison, Quantile
from spark_jobs.diagnostics.ecdf.distance import reference_cdf
from spark_jobs.diagnostics.ecdf.result import Ecdf
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import chart, draw_bands, legend_in
from spark_jobs.publishing.formats import count, level, one_line, p_text, percent
from spark_jobs.publishing.rendering import Plot, Probe, known
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.value_axis import ValueAxis, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGIN = 0.012
_STEPS, _PROBES, _MAX_MARKS, _NAME_CHARACTERS = 240, 51, 11, 40


def is_defined(result: Ecdf) -> bool:
    """Whether the released function is defined."""
    return result.status == "ok"


def defined_comparison(result: Ecdf) -> EcdfComparison | None:
    """The comparison with an earlier release; None without an earlier release, or if either is undefined."""
    compared = result.comparison
    return compared if compared is not None and compared.status == "ok" and is_defined(result) else None


def value_text(result: Ecdf, quantile: Quantile, digits: int = 4) -> str:
    """A quantile as text, with ``or more`` or ``or less`` if it lies in the cell at a privately found bound."""
    place = quantile.figure.number
    text = number(place, digits)
    if result.bounds_found and place >= result.values[-1]:
        return f"{text} or more"
    return f"{text} or less" if result.bounds_found and place <= result.values[0] else text


def quantile_text(result: Ecdf, quantile: Quantile) -> str:
    """A quantile's interval as text; the interval is open if it ends beyond a bound that was found privately."""
    low, high = quantile.figure.ends()
    below, above = low < result.bounds[0], high > result.bounds[1]
    if below and above:
        return "any value"
    if above:
        return f"{number(low, 4)} or more"
    return f"{number(high, 4)} or less" if below else f"{number(low, 4)} to {number(high, 4)}"


def title(result: Ecdf) -> str:
    """The title of the plot, which quotes no text of the request."""
    return "Distribution of scores" if result.named is None else "Distribution of values"


def ecdf_plot(result: Ecdf, reference: ReferenceDistribution | None) -> Plot:
    """The plot of the released function, and of the reference if there is one."""
    axis = _axis(result)
    named = "Score" if result.named is None else one_line(result.named, _NAME_CHARACTERS)

    return chart(
        lambda axes: _draw(axes, result, axis, reference),
        name="ecdf",
        title=title(result),
        description=_description(result),
        lines=(_median_line(result), _second_line(result)),
        labels=(named + (", logarithmic" if result.logarithmic else ""), "Rows with at most this value"),
        legend=legend_in("upper left" if result.cdf[int((axis.first + axis.last) / 2)] < 0.5 else "lower right"),
        probes=_probes(result, axis) if is_defined(result) else (),
    )


def _axis(result: Ecdf) -> ValueAxis:
    edges = np.append(result.values, result.bounds[1])
    shown = [end for quantile in result.quantiles for end in quantile.figure.ends()] if is_defined(result) else []
    fractions = result.cdf if is_defined(result) else np.arange(1, result.cdf.size + 1) / result.cdf.size
    return ValueAxis.around(edges, fractions, logarithmic=result.logarithmic, shown=shown)


def _draw(axes: Axes, result: Ecdf, axis: ValueAxis, reference: ReferenceDistribution | None) -> None:
    shares = np.linspace(0.0, 1.0, 6)
    axes.set_yticks(shares, [f"{100 * share:.0f} %" for share in shares])
    axes.set_xticks(*axis.ticks())
    axes.set_xlim(axis.first - _MARGIN * (axis.last - axis.first), axis.last + _MARGIN * (axis.last - axis.first))
    axes.set_ylim(-_MARGIN, 1 + _MARGIN)
    if not is_defined(result):
        figures.draw_undefined(axes, "too few rows for this noise")
        return
    shown = _shown(result, axis)
    cells = np.append(shown, shown[-1])
    bands = {
        "of the whole function": Ends(*(end[cells] for end in result.function.ends("everywhere"))),
        "of each fraction": Ends(*(end[cells] for end in result.function.ends())),
    }
    draw_bands(axes, np.append(shown, axis.last), bands, result.confidence, step="post")
    if reference is not None:
        _draw_reference(axes, axis, reference)
    compared = defined_comparison(result)
    if compared is not None:
        _draw_steps(axes, compared.cdf, shown, axis, colour="ink", label="earlier release", dashed=True)
    _draw_steps(axes, result.cdf, shown, axis, colour="curve", label="released fractions")
    if compared is not None:
        _draw_gap(axes, result, compared)
    _draw_quantiles(axes, result, axis)


def _draw_steps(
    axes: Axes,
    cdf: FloatArray,
    shown: NDArray[np.intp],
    axis: ValueAxis,
    *,
    colour: str,
    label: str,
    dashed: bool = False,
) -> None:
    axes.step(
        np.concatenate([shown[:1], shown, [axis.last]]),
        np.concatenate([[0.0 if shown[0] == 0 else cdf[shown[0]]], cdf[shown], cdf[shown[-1:]]]),
        where="post", color=light(colour), linewidth=1.5 if dashed else 1.8, label=label,
        linestyle=(0, (5, 2)) if dashed else "-", solid_joinstyle="round",
    )  # fmt: skip


def _draw_gap(axes: Axes, result: Ecdf, compared: EcdfComparison) -> None:
    """A bar between the two functions where they differ most."""
    cell = int(np.searchsorted(result.values, known(compared.distance.at)))
    ends = result.cdf[cell], compared.cdf[cell]
    axes.vlines(cell + 0.5, min(ends), max(ends), color=light("spent"), linewidth=2.6, zorder=3, label="largest gap")


def _draw_reference(axes: Axes, axis: ValueAxis, reference: ReferenceDistribution) -> None:
    places = np.linspace(axis.first, axis.last, 400)
    values = np.interp(places, np.arange(axis.edges.size), axis.edges)
    axes.plot(
        places, reference_cdf(reference)(values), color=light("chance"), linewidth=1.4, linestyle=(0, (4, 3)),
        label=f"reference ({reference.distribution})",
    )  # fmt: skip


def _draw_quantiles(axes: Axes, result: Ecdf, axis: ValueAxis) -> None:
    """Dots at the quantiles, with their confidence intervals."""
    marks = result.quantiles if len(result.quantiles) <= _MAX_MARKS else (result.median,)
    levels = np.array([mark.level for mark in marks])
    ends = axis.place(np.array([mark.figure.ends() for mark in marks]).T)
    axes.hlines(levels, ends[0], ends[1], color=light("spent"), linewidth=1.5, zorder=3)
    axes.plot(
        axis.place([mark.figure.number for mark in marks]), levels, marker="o", markersize=5, color=light("spent"),
        markeredgecolor="white", markeredgewidth=0.8, linestyle="none", zorder=4, label=marks_text(result),
    )  # fmt: skip


def marks_text(result: Ecdf) -> str:
    """The legend of the dots in the plot."""
    return "quantiles with intervals" if len(result.quantiles) <= _MAX_MARKS else "median with interval"


def _shown(result: Ecdf, axis: ValueAxis) -> NDArray[np.intp]:
    """The cells to draw, evenly spaced in position and in each function's fractions: fine to a fraction of a pixel."""
    first, last = int(axis.first), min(int(np.ceil(axis.last)), result.cdf.size - 1)
    inside = np.linspace(first, last, _STEPS)
    compared = defined_comparison(result)
    functions = [result.cdf] if compared is None else [result.cdf, compared.cdf]
    risen = [first + np.searchsorted(cdf[first : last + 1], np.linspace(0.0, 1.0, _STEPS)) for cdf in functions]
    places = np.concatenate([inside, *risen, _probe_cells(result, axis)])
    return np.unique(np.clip(places, first, last).astype(np.intp))


def _probe_cells(result: Ecdf, axis: ValueAxis) -> Int64Array:
    return np.unique(np.linspace(axis.first, min(axis.last, result.cdf.size - 1), _PROBES).astype(np.int64))


def _probes(result: Ecdf, axis: ValueAxis) -> tuple[Probe, ...]:
    cells = _probe_cells(result, axis)
    scale = 1 + 2 * _MARGIN
    compared = defined_comparison(result)

    def share(place: float) -> float:
        return (float(place) + _MARGIN) / scale

    def lines(cell: int) -> tuple[str, ...]:
        band = f"({percent(result.function.lower[cell])} to {percent(result.function.upper[cell])})"
        here = f"at most {number(result.values[cell], 4)}"
        if compared is None:
            return here, f"{percent(result.cdf[cell])} of the rows", band
        return here, f"{percent(result.cdf[cell])} {band}", f"earlier {percent(compared.cdf[cell])}"

    return tuple(
        Probe(
            x=share(float(axis.fraction(cell))),
            y=share(result.cdf[cell]),
            low=share(result.function.lower[cell]),
            high=share(result.function.upper[cell]),
            lines=lines(int(cell)),
        )
        for cell in cells
    )


def _median_line(result: Ecdf) -> str:
    if not is_defined(result):
        return "Median undefined"
    median = result.median
    interval = f"{level(result.confidence)} interval {quantile_text(result, median)}"
    return f"Median {value_text(result, median)}  ({interval})"


def _second_line(result: Ecdf) -> str:
    compared = defined_comparison(result)
    if compared is None:
        return f"released with noise; about {count(result.rows)} rows"
    gap = compared.distance
    place, p_value = number(known(gap.at), 4), p_text(known(gap.p_value), floor=known(gap.p_value_floor))
    return f"Largest gap to the earlier release {percent(gap.figure.value)} at {place} ({p_value})"


def _description(result: Ecdf) -> str:
    if not is_defined(result):
        return "An empty plot: the distribution is undefined because there are too few rows for this noise."
    read = "; ".join(
        f"{percent(quantile.level)} are at most {value_text(result, quantile)}" for quantile in result.quantiles[:7]
    )
    compared = defined_comparison(result)
    apart = (
        ""
        if compared is None
        else f" It differs from an earlier release by at most {percent(compared.distance.figure.value)} of the rows, "
        f"at {number(known(compared.distance.at), 4)}."
    )
    return (
        f"The share of rows with at most a given value, rising from lower left to upper right; {read}. "
        f"{_median_line(result)}.{apart}"
    )
