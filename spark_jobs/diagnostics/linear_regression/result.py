"""Released lines through groups of points."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours, plain
from spark_jobs.diagnostics.undefined import listed
from spark_jobs.statistics.point_grid import GroupKey

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

    Intervals cover what the same method gives on the same rows without noise: they measure the noise of privacy, not
    the sampling of the rows. They are NaN in all groups of a method whose noise depends on the data, for there they
    would have to be paid for.

    Attributes:
        keys: the public list of groups; None for one group of all rows.
        at: where the line is evaluated, in parts of the way from the lower bound of x to the upper one; shape (K,).
        x: the same in units of x.
        predictions: the line there, kept within the bounds of y; shape (G, K).
        predictions_lower, predictions_upper: intervals at level ``confidence``; shape (G, K).
        slope, intercept: of the line, the latter at x = 0; shape (G,).
        slope_lower, slope_upper, intercept_lower, intercept_upper: intervals, or NaN; shape (G,).
        status: of each group ``ok``, or ``undefined`` where the released spread of x is not above 0: slope and
            intercept, with their intervals, are then NaN. Predictions are those of a level line through the released
            mean of y, or, of noisy moments, near what its noise and the other groups leave to expect.
        rows: of each group: public sizes where ``public_sizes``, else noisy ones, at least 0; NaN where the method
            counts none (gradient descent).
        total_rows: the sum of the noisy sizes as drawn, below 0 or not: where many groups are empty, sizes of at least
            0 add up to far too many; NaN where any of them is.
        methods: of each group, what released it.
        method: what was asked for.
        x_bounds, y_bounds: of the public box.
        public_sizes: whether group sizes, and who is in which group, are public.
        confidence: nominal level.
        epsilon, delta: what the release cost.
        neighbours: the relation of the guarantee.
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
        """How many lines there are."""
        return int(self.slope.size)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; numbers are finite, and null where there is no such number."""
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
            "rows": listed(self.rows),
            "total_rows": None if np.isnan(self.total_rows) else self.total_rows,
            "predictions": self.predictions.tolist(),
            "slope": listed(self.slope),
            "intercept": listed(self.intercept),
            **{name: listed(getattr(self, name)) for name in INTERVALS},
        }
