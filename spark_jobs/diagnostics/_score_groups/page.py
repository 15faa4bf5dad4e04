"""The page that binned residuals and calibration share: pools as points, and the zone of a calibrated model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.contract.figure import Ends, Numbers
from spark_jobs.contract.figures import OK
from spark_jobs.contract.results.pooled import PooledBins
from spark_jobs.diagnostics._score_figures.page import share_measure
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import along, chart, draw_band
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, percent
from spark_jobs.publishing.rendering import Column, Measure, Plot, Probe, Rendering, Section, ValueTable, figure_columns
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ZONE_OPACITY = 0.3
Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class PoolPoints:
    """One value for each pool, from left to right.

    Attributes:
        x: mean scores.
        y, low, high: the points, with the ends of their whiskers.
        zone_low, zone_high: where the points of a calibrated model lie.
        first, last: scores at which the pools begin and end.
    """

    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray
    zone_low: FloatArray
    zone_high: FloatArray
    first: FloatArray
    last: FloatArray

    @property
    def outside(self) -> BoolArray:
        """Which points lie outside the zone."""
        outside: BoolArray = (self.y < self.zone_low) | (self.y > self.zone_high)
        return outside

    @property
    def ends(self) -> FloatArray:
        """All heights that the vertical axis has to show."""
        return np.concatenate([self.low, self.high, self.zone_low, self.zone_high])


@dataclass(frozen=True, kw_only=True)
class PoolPage:
    """The words, scales and drawing functions in which the pages of calibration and of binned residuals differ.

    Attributes:
        kind: name of the kind, and of its files.
        title: title of the section and the picture.
        field: the field of the result that is drawn.
        meaning: description of that field in the data file.
        zone: name of the quantity whose zone under a calibrated model is drawn.
        frame: size of the picture.
        y_label: label of the vertical axis.
        slope: slope of the line that extends the zone to both ends of the horizontal axis.
        scale: number by which the field is multiplied for the vertical axis.
        text: formats a value of the field.
        word: word after a value of the field, where the picture shows the value of a point.
        limits: ends of both axes.
        dress: formats the ticks and draws the line of perfect calibration, and a remark if the result is undefined.
        legend: adds the legend to a picture outside the report.
        lines: lines below the title of a picture outside the report.
        caption: caption of the table.
        column: header of the field's column in the table.
    """

    kind: str
    title: str
    field: str
    meaning: str
    zone: str
    frame: figures.Frame
    y_label: str
    slope: float
    scale: float
    text: Callable[[float], str]
    word: str
    limits: Callable[[Any, PoolPoints], tuple[Range, Range]]
    dress: Callable[[Axes, bool], None]
    legend: Callable[[Axes], None]
    lines: Callable[[Any], tuple[str, ...]]
    caption: str
    column: str

    def render(self, result: PooledBins, section: Section, description: str) -> Rendering:
        """The page of a result. Its tables have the same names, columns and number of rows whatever was released."""
        return Rendering(columns=self._columns(result), plots=(self._plot(result, description),), section=section)

    def points(self, result: PooledBins) -> PoolPoints:
        """The points and whiskers of a result's pools."""
        first = np.array(result.pool_starts)
        last = np.append(first[1:], result.pool.size) - 1
        drawn = self.figure(result)
        y, low, high = (values[first] for values in (drawn.value, *drawn.ends()))
        return PoolPoints(
            x=result.predicted[first],
            y=y,
            low=low,
            high=high,
            zone_low=result.zone_lower[first],
            zone_high=result.zone_upper[first],
            first=result.lower[first],
            last=result.upper[last],
        )

    def table(self, result: PooledBins) -> ValueTable:
        """The picture in numbers, a row for each bin."""
        alone = np.bincount(result.pool)[result.pool] == 1
        rows = tuple(
            (
                score_range(result.lower[i], result.upper[i], whole=bool(alone[i])),
                *(self._cells(result, i) if is_defined(result) else (ABSENT,) * 6),
            )
            for i in range(result.pool.size)
        )
        header = (
            "Scores",
            "Predicted",
            self.column,
            f"{level(result.confidence)} interval",
            "For the population",
            "Calibrated model",
            "Rows",
        )
        return ValueTable(caption=self.caption, header=header, rows=rows)

    def measures(self, result: PooledBins) -> tuple[Measure, ...]:
        """The numbers at the end of both kinds' sections: pools outside the zone, and rows."""
        outside = self.points(result).outside
        return (
            Measure(
                label="Outside the zone",
                value=f"{int(outside.sum())} of {outside.size}" if is_defined(result) else ABSENT,
                note="pools",
            ),
            share_measure([self.figure(result).at(result.pool_starts)], "pools"),
            Measure(
                label="Rows", value=f"≈{SPACE}{count(result.positives + result.negatives)}", note="of both classes"
            ),
        )

    def figure(self, result: PooledBins) -> Numbers:
        """The released figure that the page draws."""
        drawn: Numbers = getattr(result, self.field)
        return drawn

    def _range(self, low: float, high: float) -> str:
        return f"{self.text(low)} to {self.text(high)}"

    def _cells(self, result: PooledBins, i: int) -> tuple[str, ...]:
        drawn = self.figure(result).at(i)
        zone = self._range(result.zone_lower[i], result.zone_upper[i])
        rows = f"≈{SPACE}{count(result.rows[i])}"
        interval, population = (self._range(*drawn.ends(of)) for of in ("interval", "population"))
        return percent(result.predicted[i]), self.text(drawn.number), interval, population, zone, rows

    def _columns(self, result: PooledBins) -> dict[str, Column]:
        name, nominal = self.field, f"{100 * result.confidence:.4g} %"
        ends = {
            "interval": f"end of the {nominal} interval of {name} for what the same rows give without noise",
            "population": f"end of the {nominal} interval of {name} for the population that the rows are a sample of",
        }
        share = "share of the interval for the population that the noise makes"
        zone = f"{nominal} zone: where the released {self.zone} of a calibrated model would lie"

        def public(meanings: dict[str, str]) -> dict[str, Column]:
            return {field: Column(values=getattr(result, field), meaning=line) for field, line in meanings.items()}

        return {
            **public(
                {
                    "lower": "lower edge of the bin, as a score",
                    "upper": "upper edge of the bin, as a score",
                    "pool": "pool of the bin; bins of one pool share all values that follow",
                    "predicted": "mean score of the pool",
                }
            ),
            **figure_columns(result, name, self.meaning, ends, share=share),
            **public(
                {
                    "zone_lower": f"lower end of the {zone}",
                    "zone_upper": f"upper end of the {zone}",
                    "rows": "noisy number of rows of the pool",
                }
            ),
        }

    def _plot(self, result: PooledBins, description: str) -> Plot:
        at = self.points(result)
        return chart(
            lambda axes: self._draw(axes, result, at),
            name=self.kind,
            title=self.title,
            description=description,
            lines=self.lines(result),
            frame=self.frame,
            labels=("Predicted share of positives (mean score of the pool)", self.y_label),
            legend=self.legend,
            probes=self._probes(result, at) if is_defined(result) else (),
        )

    def _draw(self, axes: Axes, result: PooledBins, at: PoolPoints) -> None:
        figures.set_ticks(axes, *self.limits(result, at))
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        if is_defined(result):
            self._draw_zone(axes, at, label=f"{level(result.confidence)} zone of a calibrated model")
        self.dress(axes, is_defined(result))
        if is_defined(result):
            self._draw_points(axes, at)

    def _draw_zone(self, axes: Axes, at: PoolPoints, *, label: str) -> None:
        """Draw the zone at the pools' mean scores, extended to both ends of the axis."""
        left, right = axes.get_xlim()
        x = np.concatenate([[left], at.x, [right]])
        reach = self.slope * (x[[0, -1]] - at.x[[0, -1]])
        low, high = (
            self.scale * np.concatenate([[end[0] + reach[0]], end, [end[-1] + reach[1]]])
            for end in (at.zone_low, at.zone_high)
        )
        draw_band(axes, x, Ends(low, high), colour="chance", opacity=ZONE_OPACITY, label=label)

    def _draw_points(self, axes: Axes, at: PoolPoints) -> None:
        """Draw points with whiskers: discs inside the zone, diamonds in another colour outside it."""
        y, low, high = (self.scale * values for values in (at.y, at.low, at.high))
        for mask, token, marker, size, label in (
            (~at.outside, "curve", "o", 5.0, "inside the zone"),
            (at.outside, "spent", "D", 5.5, "outside the zone"),
        ):
            if not mask.any():
                continue
            axes.vlines(at.x[mask], low[mask], high[mask], color=light(token), linewidth=1.6, zorder=3)
            axes.plot(
                at.x[mask],
                y[mask],
                color=light(token),
                marker=marker,
                markersize=size,
                markeredgecolor="white",
                markeredgewidth=0.8,
                linestyle="none",
                label=label,
                zorder=4,
            )

    def _probes(self, result: PooledBins, at: PoolPoints) -> tuple[Probe, ...]:
        across, upwards = self.limits(result, at)
        return tuple(
            Probe(
                x=along(at.x[i], across),
                y=along(self.scale * at.y[i], upwards),
                low=along(self.scale * at.low[i], upwards),
                high=along(self.scale * at.high[i], upwards),
                lines=(
                    f"scores {score_range(at.first[i], at.last[i], whole=True)}: {percent(at.x[i])} predicted",
                    f"{self.text(at.y[i])} {self.word} ({self._range(at.low[i], at.high[i])})",
                    f"calibrated model: {self._range(at.zone_low[i], at.zone_high[i])}",
                ),
            )
            for i in range(at.x.size)
        )


def is_defined(result: PooledBins) -> bool:
    """Whether the result is defined, so that it has figures."""
    return result.status == OK


def score_range(first: float, last: float, *, whole: bool) -> str:
    """The scores of a bin, such as ``0.12 to 0.31``, with enough places to distinguish its ends.

    Args:
        first: lower end.
        last: upper end.
        whole: whether the bin is a pool by itself; if not, a star is added.
    """
    places = next((n for n in range(2, 6) if round(last, n) - round(first, n) > 10.0**-n / 2), 5)
    return f"{decimals(first, places)} to {decimals(last, places)}" + ("" if whole else f"{SPACE}*")
