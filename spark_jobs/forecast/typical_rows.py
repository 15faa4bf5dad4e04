"""Statistics of made-up rows that agree with what a caller states about a table; no row of a table is read.

Scores are those of a calibrated model whose log-odds are normal in each class, unless the caller states how many scores
exceed a threshold. Numbers are normal. All groups have the same size, and all levels the same share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.options import (
    AggregateCells,
    CrossProductCells,
    DiscoverableCells,
    GroupedScoreCells,
    LabelledRowCells,
    PairedScoreCells,
    PointCells,
    PointSums,
    ProfileCells,
    ResidualCells,
    ScoreCells,
    Statistic,
    ValueCells,
)
from spark_jobs.contract.options.fits import Bounded
from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.diagnostics._simulation import normal, uniform
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import (
    AggregateSums,
    CrossProducts,
    GroupedScoreCounts,
    LabelledRows,
    Moments,
    PairedScoreCounts,
    PointCounts,
    ProfileCounts,
    ResidualCounts,
    ScoreCounts,
    SumsByKey,
    UnitRowCounts,
    ValueCounts,
)
from spark_jobs.statistics.key_batch import KeyBatch
from spark_jobs.statistics.labelled_rows import NewtonSums
from spark_jobs.statistics.moments import SUMS
from spark_jobs.statistics.point_grid import nearest_places
from spark_jobs.statistics.profile_counts import cells_of

MAX_ROWS = 200_000
"""How many rows are made up; a larger table consists of these rows several times."""
ROWS_OF_KEY, _MAX_KEYS = 1000, 200
"""The rows of a key that is discovered, as nobody can state how many keys there are; and the most keys that are made
up: their intervals are alike."""
_MIDDLE_90 = 2 * float(ndtri(0.95))
_AGREEMENT = 0.7
"""Correlation of the log-odds of two models within a class."""
_MIN_SPREAD = 0.3
"""Standard deviation of the log-odds of a model whose scores say nothing."""
_COUNTED: Mapping[type, tuple[str, ...]] = {
    CrossProducts: ("products",),
    GroupedScoreCounts: ("negatives", "positives"),
    Moments: (*SUMS, "unusable"),
    NewtonSums: ("gradient", "hessian"),
    PairedScoreCounts: ("counts",),
    AggregateSums: ("rows", "incomplete", "sums", "value_counts"),
    PointCounts: ("count", "unusable"),
    ProfileCounts: ("counts",),
    ResidualCounts: ("counts",),
    ScoreCounts: ("negatives", "positives"),
    UnitRowCounts: ("counts",),
    ValueCounts: ("counts",),
}
"""The fields of a statistic that are sums over rows."""


def typical_statistic(statistic: Statistic, table: ExpectedTable, noise: SeededNoise) -> Any:
    """The statistic of made-up rows that agree with ``table``, as Spark would count it on such rows.

    Args:
        statistic: what a request counts; ``table`` has what it needs (``ExpectedTable.check``).
        table: what the caller states.
        noise: random source of the made-up rows; need not be secure.
    """
    times = -(-table.rows // MAX_ROWS)
    rows = _Rows(table, table.rows // times, noise)
    if isinstance(statistic, LabelledRowCells):
        rows_once = LabelledRows.from_arrays(rows.features(statistic), rows.labels, design=statistic)
        return replace(rows_once, sums_at=lambda position: _repeated(rows_once.sums_at(position), times))
    if isinstance(statistic, DiscoverableCells):
        return _keys(statistic, rows, times)
    return _repeated(_counted(statistic, rows), times)


def _repeated(sums: Any, times: int) -> Any:
    return replace(sums, **{name: times * getattr(sums, name) for name in _COUNTED[type(sums)]})


def _counted(statistic: Statistic, rows: _Rows) -> Any:
    match statistic:
        case ScoreCells():
            return ScoreCounts.from_arrays(rows.labels, rows.scores(rows.noise()))
        case GroupedScoreCells():
            groups = np.resize(np.array(statistic.groups, dtype=object), rows.labels.size)
            return GroupedScoreCounts.from_arrays(rows.labels, rows.scores(rows.noise()), groups, keys=statistic.groups)
        case PairedScoreCells():
            first = rows.noise()
            second = _AGREEMENT * first + math.sqrt(1 - _AGREEMENT**2) * rows.noise()
            return PairedScoreCounts.from_arrays(rows.labels, rows.scores(first), rows.scores(second))
        case ValueCells():
            bounds = (statistic.lower, statistic.upper)
            values = rows.numbers(statistic.column, rows.noise(), bounds=bounds, logarithmic=statistic.scale == "log")
            return ValueCounts.from_arrays(values, **statistic.grid)
        case ResidualCells():
            explained = rows.noise()
            outcome = rows.numbers(statistic.outcome, rows.outcome(explained))
            fitted = rows.numbers(statistic.outcome, math.sqrt(rows.table.r_squared) * explained)
            return ResidualCounts.from_arrays(fitted, outcome - fitted, unit=statistic.unit)
        case PointCells() | PointSums():
            return _points(statistic, rows)
        case UnitRowCells():
            return UnitRowCounts.from_rows(np.ones(rows.labels.size, dtype=np.int64), design=statistic)
        case AggregateCells():
            return _aggregates(statistic, rows)
        case ProfileCells():
            return _profile(statistic, rows)
        case CrossProductCells():
            features = rows.features(statistic)
            deviates = rows.deviates or [rows.noise()]
            explained = np.sum(deviates, axis=0) / math.sqrt(len(deviates))
            outcome = rows.bounded(statistic.outcome, rows.outcome(explained))
            return CrossProducts.from_arrays(features, outcome, design=statistic)
    raise TypeError(f"no typical rows for {type(statistic).__name__}")


def _aggregates(statistic: AggregateCells, rows: _Rows) -> AggregateSums:
    """Rows that are spread evenly over the cells, each with all values."""
    places = [
        np.ones(rows.labels.size)
        if one.counts_units
        else nearest_places(rows.numbers(one.of, rows.noise(), bounds=one.bounds), *one.bounds, one.steps)
        for one in statistic.measures
    ]
    size = rows.labels.size
    of_rows = np.array(places, dtype=np.int64).reshape(len(places), size)
    return AggregateSums.from_places(np.arange(size) * statistic.cells // size, of_rows, design=statistic)


def _profile(statistic: ProfileCells, rows: _Rows) -> ProfileCounts:
    """Rows that all have a value: numbers where they are stated, and listed values and periods equally often."""
    cell: Any = 0
    for column, labels in zip(statistic.columns, statistic.keys, strict=True):
        if column.bounds is not None:
            deviates = rows.noise()
            values = rows.numbers(column.column, deviates, bounds=column.bounds, logarithmic=column.scale == "log")
            own = cells_of(values, column, statistic)
        else:
            own = (len(column.labels(statistic.bins)) * uniform(rows.source, rows.labels.size)).astype(np.int64)
        cell = cell * len(labels) + own
    counts = np.bincount(cell, minlength=statistic.max_keys)
    return ProfileCounts(design=statistic, counts=counts.astype(np.int64))


def _keys(statistic: DiscoverableCells, rows: _Rows, times: int) -> SumsByKey:
    """Keys of about ``ROWS_OF_KEY`` rows each, with all values."""
    size = rows.labels.size
    keys = min(max(times * size // ROWS_OF_KEY, 1), _MAX_KEYS)
    listed = [{"column": statistic.dimension.column, "values": list(range(keys)), "other": False}]
    design = AggregateCells.parse(
        {"by": listed, "measures": [one.model_dump(mode="json") for one in statistic.measures]}
    )
    sums = _repeated(_aggregates(design, rows), times)
    batch = KeyBatch(keys=[str(key) for key in range(keys)], rows=sums.rows, incomplete=sums.incomplete, sums=sums.sums)
    return SumsByKey(design=statistic, batches=lambda: iter([batch]))


def _points(statistic: PointCells | PointSums, rows: _Rows) -> PointCounts | Moments:
    explained = rows.noise()
    (x_low, x_high), (y_low, y_high), keys = statistic.x_bounds, statistic.y_bounds, statistic.groups
    kind = PointCounts if isinstance(statistic, PointCells) else Moments
    return kind.from_arrays(
        rows.numbers(statistic.x, explained, bounds=statistic.x_bounds),
        rows.numbers(statistic.y, rows.outcome(explained), bounds=statistic.y_bounds),
        groups=None if keys is None else np.resize(np.array(keys, dtype=object), rows.labels.size),
        keys=keys,
        lower=(x_low, y_low),
        upper=(x_high, y_high),
        cells=statistic.cells,
    )


class _Rows:
    """Made-up rows: their labels, and what makes up their numbers."""

    def __init__(self, table: ExpectedTable, count: int, noise: SeededNoise) -> None:
        self.table, self.source = table, noise
        rate = 0.5 if table.positive_rate is None else table.positive_rate
        self._log_odds = math.log(rate / (1 - rate))
        self._separation = math.sqrt(2) * float(ndtri(table.auc))
        self.labels: Int64Array = np.asarray(np.arange(count) < round(count * rate), dtype=np.int64)
        self.deviates: list[FloatArray] = []

    def noise(self) -> FloatArray:
        """Standard normal numbers, one for each row."""
        return normal(self.source, (self.labels.size,))

    def scores(self, noise: FloatArray) -> FloatArray:
        """Scores that separate the classes as stated and exceed thresholds as often as stated; calibrated otherwise."""
        spread = max(self._separation, _MIN_SPREAD)
        log_odds = self._log_odds + spread * (noise + self._separation * (self.labels - 0.5))
        thresholds = logit(list(self.table.flagged))
        for rows, shares in self._reaching():
            log_odds[rows] = _moved(log_odds[rows], np.quantile(log_odds[rows], 1 - shares), thresholds)
        scores: FloatArray = expit(log_odds)
        return scores

    def _reaching(self) -> Iterator[tuple[BoolArray, FloatArray]]:
        """Rows, and which shares of them reach the stated thresholds: all rows, or each class if recalls are stated."""
        shares, recalls = (np.array(list(of.values())) for of in (self.table.flagged, self.table.recalls))
        positive = self.labels == 1
        rate = positive.mean()
        if recalls.size and 0 < rate < 1:  # of few rows, no made-up one may be of the rarer class
            negatives = np.clip((shares - rate * recalls) / (1 - rate), 0.0, 1.0)
            yield positive, recalls
            yield ~positive, np.minimum.accumulate(negatives)
        elif shares.size:
            yield np.ones_like(positive), shares

    def numbers(
        self,
        name: str,
        deviates: FloatArray,
        *,
        bounds: tuple[float, float] = (0.0, 1.0),
        logarithmic: bool = False,
    ) -> FloatArray:
        """The values of a column whose middle 90% lie where it is stated, or in the middle half of the bounds."""
        quarter = (bounds[1] - bounds[0]) / 4
        low, high = self.table.values.get(name, (bounds[0] + quarter, bounds[1] - quarter))
        steps = 0.5 + deviates / _MIDDLE_90
        if logarithmic and low > 0:
            return low * (high / low) ** steps
        return low + (high - low) * steps

    def bounded(self, number: Bounded, deviates: FloatArray) -> FloatArray:
        """The values of a number of a fit."""
        return self.numbers(number.name, deviates, bounds=(number.lower, number.upper))

    def outcome(self, explained: FloatArray) -> FloatArray:
        """Standard normal numbers of which ``explained`` explains the stated share."""
        return math.sqrt(self.table.r_squared) * explained + math.sqrt(1 - self.table.r_squared) * self.noise()

    def features(self, statistic: CrossProductCells | LabelledRowCells) -> dict[str, Any]:
        """The columns of a fit; the labels are separated along all features together, as stated."""
        apart = self._separation / math.sqrt(max(len(statistic.features), 1))
        if not isinstance(statistic, LabelledRowCells):
            apart = 0.0
        share = float(self.labels.mean())
        spread = math.sqrt(1 + apart**2 * share * (1 - share))
        self.deviates = [(self.noise() + apart * (self.labels - share)) / spread for _ in statistic.features]
        columns: dict[str, Any] = {
            number.name: self.bounded(number, deviates)
            for number, deviates in zip(statistic.features, self.deviates, strict=True)
        }
        for variable in statistic.categorical:
            levels = np.array(variable.levels, dtype=object)
            columns[variable.column] = levels[(levels.size * uniform(self.source, self.labels.size)).astype(np.int64)]
        return columns


def _moved(values: FloatArray, places: FloatArray, targets: FloatArray) -> FloatArray:
    """The values moved so that ascending places come to targets.

    In between they move by as much as the places next to them. Beyond the outer places they are stretched as those are,
    or move by as much as a single one.
    """
    moved: FloatArray = values + np.interp(values, places, targets - places)
    if places[-1] > places[0]:
        stretch = (targets[-1] - targets[0]) / (places[-1] - places[0])
        moved += (stretch - 1) * (values - np.clip(values, places[0], places[-1]))
    return moved
