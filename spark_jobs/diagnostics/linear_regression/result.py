"""Released lines through groups of points."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours, plain
from spark_jobs.diagnostics.undefined import ListedArray
from spark_jobs.statistics.public_keys import GroupKey

INTERVALS = (
    "predictions_lower",
    "predictions_upper",
    "slope_lower",
    "slope_upper",
    "intercept_lower",
    "intercept_upper",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFit:
    """A released line through the points of each group, in the user's units; G groups, K places.

    Intervals cover what the same method would give on the same rows without noise: they account for the privacy noise,
    not for the sampling of the rows. Those of noisy moments hold on average over groups if there are 16 groups or more
    (``robust_intervals``), and for each group otherwise. They are NaN in groups whose method has noise that depends on
    the data, because intervals would then cost budget.

    Attributes:
        keys: public list of group keys; None for one group of all rows.
        at: places where the line is evaluated, as fractions of the way from the lower to the upper bound of x;
            shape (K,).
        x: these places in units of x; shape (K,).
        predictions: values of the line at these places, clipped to the bounds of y; shape (G, K).
        predictions_lower, predictions_upper: their intervals at level ``confidence``; shape (G, K).
        slope, intercept: slope of the line, and its value at x = 0; shape (G,).
        slope_lower, slope_upper, intercept_lower, intercept_upper: their intervals, or NaN; shape (G,).
        status: status of each group: ``ok``, or ``undefined`` if the released spread of x is not above 0. Slope and
            intercept, with their intervals, are then NaN, and predictions are those of a level line at the released
            mean of y, or, for noisy moments, of the line that is expected given its noise and the other groups.
        rows: number of rows of each group: public with ``public_sizes``, otherwise noisy and at least 0; NaN if the
            method does not count rows (gradient descent); shape (G,).
        total_rows: sum of the noisy sizes before they are clipped at 0, which may be negative; clipped sizes of many
            empty groups would add up to far too many. NaN if any size is NaN.
        methods: the method of each group.
        method: the requested method.
        x_bounds, y_bounds: bounds of the public box.
        public_sizes: whether group sizes, and which row is in which group, are public.
        confidence: nominal level of the intervals.
        epsilon, delta: privacy cost of the release.
        neighbours: neighbouring relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    keys: tuple[GroupKey, ...] | None
    at: FloatArray
    x: FloatArray
    predictions: FloatArray
    predictions_lower: FloatArray
    predictions_upper: FloatArray
    slope: FloatArray
    slope_lower: FloatArray
    slope_upper: FloatArray
    intercept: FloatArray
    intercept_lower: FloatArray
    intercept_upper: FloatArray
    status: tuple[str, ...]
    rows: FloatArray
    total_rows: float
    methods: tuple[str, ...]
    method: str
    x_bounds: tuple[float, float]
    y_bounds: tuple[float, float]
    public_sizes: bool
    confidence: float
    epsilon: Decimal
    delta: Decimal
    neighbours: Neighbours
    guarantee: str

    @property
    def groups(self) -> int:
        """The number of lines."""
        return int(self.slope.size)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, with null for NaN."""
        fields = self.to_columns()
        return {name: list(values) if isinstance(values, ListedArray) else values for name, values in fields.items()}

    def to_columns(self) -> dict[str, Any]:
        """The fields of ``to_dict``, with arrays of groups as ``ListedArray``: 10^5 lists would take 60 MiB."""
        return {
            "method": self.method,
            "confidence": self.confidence,
            "epsilon": plain(self.epsilon),
            "delta": plain(self.delta),
            "neighbours": str(self.neighbours),
            "public_sizes": self.public_sizes,
            "guarantee": self.guarantee,
            "x_bounds": list(self.x_bounds),
            "y_bounds": list(self.y_bounds),
            "at": self.at.tolist(),
            "x": self.x.tolist(),
            "keys": None if self.keys is None else list(self.keys),
            "status": list(self.status),
            "methods": list(self.methods),
            "rows": ListedArray(self.rows),
            "total_rows": None if np.isnan(self.total_rows) else self.total_rows,
            "predictions": ListedArray(self.predictions),
            "slope": ListedArray(self.slope),
            "intercept": ListedArray(self.intercept),
            **{name: ListedArray(getattr(self, name)) for name in INTERVALS},
        }
