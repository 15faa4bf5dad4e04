"""The random part of a linear regression: each method runs on its groups and spends their budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.odds import LossLaw
from spark_jobs.contract.options import LinearRegressionSettings
from spark_jobs.contract.options.linear import GRADIENTS
from spark_jobs.contract.privacy import Neighbours, share
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.diagnostics.linear_regression.measurement import GroupDraw, LinesDraw, MethodDraw, NoisyHeights
from spark_jobs.diagnostics.linear_regression.method_choice import choose
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.regression.lines import NoisyLines
from spark_jobs.mechanisms.regression.moments import noisy_moments, noisy_moments_zcdp
from spark_jobs.mechanisms.regression.noisy_intercept import noisy_intercept
from spark_jobs.mechanisms.regression.sums import GroupSums
from spark_jobs.mechanisms.zcdp import rho_within
from spark_jobs.papers.regression.gradient_descent import gradient_descent, gradient_descent_zcdp
from spark_jobs.papers.regression.noisy_stats import noisy_stats, noisy_stats_zcdp
from spark_jobs.papers.regression.row_selection import MAX_ROWS, kept_counts
from spark_jobs.papers.regression.theil_sen import Median, theil_sen
from spark_jobs.statistics import Moments, PointCounts

PLACES = (0.25, 0.75)
THEIL_SEN = {
    "dp_exp_theil_sen": Median.EXPONENTIAL,
    "dp_wide_theil_sen": Median.WIDE,
    "dp_ss_theil_sen": Median.SMOOTH,
}
ALL_PAIRS = 256
"""Largest number of rows for which all pairs are used, unless the request sets the number of matchings."""
FEW_PAIRS = 10


def measure_lines(statistic: PointCounts | Moments, options: LinearRegressionSettings, terms: Terms) -> LinesDraw:
    """Draw the noise of one line per group; see the package for methods and guarantee.

    Groups are disjoint, so all of them together cost as much as one (parallel composition). Under ``ADD_REMOVE`` the
    row is in one group; under ``REPLACE_ONE`` with ``public_sizes`` a row is replaced by one of its own group. Under
    ``REPLACE_ONE`` without ``public_sizes`` a replacement is a removal and an addition, possibly in two groups, so
    mechanisms for ``ADD_REMOVE`` run at ``epsilon / 2``, or at ``rho / 4``.

    Args:
        statistic: exact points, or their sums (``Moments``) for methods that do not need single points; private.
        options: the settings.
        terms: budget, relation and noise. All of epsilon is spent, and by zCDP methods all of delta.

    Raises:
        InvalidRequest: the budget is too small for the method, or the method needs public sizes or single points that
            are not available.
    """
    meter, grid = terms.meter(), statistic.grid
    public = terms.neighbours is Neighbours.REPLACE_ONE and options.public_sizes
    _require_possible(options.method, statistic, public=public)
    noisy = _NoisyGroups(statistic, options, meter, terms, public=public)
    return LinesDraw.of(
        terms,
        meter,
        method=options.method,
        at=options.at,
        confidence=options.confidence,
        public_sizes=public,
        parts=noisy.parts(),
        keys=statistic.keys,
        x_bounds=(grid.x.lower, grid.x.upper),
        y_bounds=(grid.y.lower, grid.y.upper),
        cells=statistic.cells,
    )


def _require_possible(method: str, points: PointCounts | Moments, *, public: bool) -> None:
    if method in THEIL_SEN and not public:
        raise InvalidRequest(
            "method", method, "is private only if sizes are public: with neighbours replace_one and public_sizes",
            "set both, or choose another method",
        )  # fmt: skip
    if isinstance(points, Moments) and (method in THEIL_SEN or method in GRADIENTS):
        raise InvalidRequest("method", method, "needs the points, not their sums", "count them with PointCounts")


class _NoisyGroups:
    """The inputs and the budget of the methods of one release."""

    def __init__(
        self,
        points: PointCounts | Moments,
        options: LinearRegressionSettings,
        meter: BudgetMeter,
        terms: Terms,
        *,
        public: bool,
    ) -> None:
        self.points, self.options, self.noise, self.public = points, options, terms.noise, public
        self.relation = Neighbours.REPLACE_ONE if public else Neighbours.ADD_REMOVE
        halved = terms.neighbours is Neighbours.REPLACE_ONE and not public
        label = f"lines of {points.grid.groups} groups, in parallel"
        self.rho = Decimal(0)
        if options.spends_delta:
            granted = meter.granted
            rho = rho_within(granted.epsilon, granted.delta)
            self.epsilon = meter.spend(
                granted.epsilon, delta=granted.delta, label=label, law=LossLaw.CONCENTRATED, rho=rho
            )
            self.rho = share(rho, 4) if halved else rho
        else:
            spent = meter.spend_rest(label=label)
            self.epsilon = share(spent, 2) if halved else spent
        moments = points if isinstance(points, Moments) else Moments.from_points(points)
        self.moments = moments.with_every_row() if public else moments

    def parts(self) -> tuple[MethodDraw, ...]:
        """The draw of each method, for the groups that it is chosen for by public facts alone."""
        options = self.options
        public_rows = self.moments.n.astype(np.float64) if self.public else None
        methods = choose(
            options.method,
            epsilon=float(self.epsilon),
            groups=self.points.grid.groups,
            public_rows=public_rows,
            size_bound=options.size_bound,
        )
        drawn = []
        for method in np.unique(methods).tolist():
            groups = np.flatnonzero(methods == method)
            drawn.append(MethodDraw(method=method, groups=groups, draw=self._draw(method, groups)))
        return tuple(drawn)

    def _draw(self, method: str, groups: Int64Array) -> GroupDraw:
        if method in THEIL_SEN:
            return self._heights(THEIL_SEN[method], groups)
        if method in GRADIENTS:
            return self._descended(method)
        sums = GroupSums(
            steps=self.points.grid.steps,
            **{
                to: getattr(self.moments, of)[groups]
                for to, of in zip(_OF_SUMS, ("n", "x", "y", "xx", "xy"), strict=True)
            },
        )
        common: dict[str, Any] = {"neighbours": self.relation, "noise": self.noise}
        if method in _BY_RHO:
            return _BY_RHO[method](sums, rho=self.rho, **common)
        return _BY_EPSILON[method](sums, epsilon=self.epsilon, **common)

    def _heights(self, median: Median, groups: Int64Array) -> NoisyHeights:
        """Theil-Sen lines, by their heights at the outermost requested places."""
        assured = self.points
        if not isinstance(assured, PointCounts):
            raise TypeError("points: must be PointCounts")
        places = (min(self.options.at), max(self.options.at))
        places = places if places[0] < places[1] else PLACES
        cells, heights = assured.cells, np.empty((groups.size, 2))
        for row, group in enumerate(groups.tolist()):
            x, y, without = self._rows(assured, group)
            missing = np.full(without, cells - 1)
            rows = x.size + missing.size
            heights[row] = theil_sen(
                np.concatenate([x, missing]),
                np.concatenate([y, missing]),
                steps=assured.grid.steps,
                epsilon=self.epsilon,
                neighbours=self.relation,
                noise=self.noise,
                method=median,
                usable=np.arange(rows) < x.size,
                at=places,
                widen=assured.grid.off,  # heights of points are known to half a step
                matchings=self.options.matchings or (None if rows <= ALL_PAIRS else FEW_PAIRS),
            )
        return NoisyHeights(places=places, heights=heights, rows=self.moments.n[groups].astype(np.float64))

    def _rows(self, points: PointCounts, group: int) -> tuple[Int64Array, Int64Array, int]:
        """The points of a group, one for each row, and its rows without a point: together at most ``MAX_ROWS``."""
        start, end = np.searchsorted(points.group, [group, group + 1])
        x, y = points.x_cell[start:end], points.y_cell[start:end]
        cells = np.append(x * points.cells + y, points.cells**2)
        counts = np.append(points.count[start:end], points.unusable[group])
        *kept, without = kept_counts(cells, counts, salt=self.noise.words(1)[0], limit=MAX_ROWS)
        return np.repeat(2 * x, kept), np.repeat(2 * y, kept), int(without)

    def _descended(self, method: str) -> NoisyLines:
        points = self.points
        if not isinstance(points, PointCounts):
            raise TypeError("points: must be PointCounts")
        every, middle = np.arange(points.grid.groups), np.full(points.grid.groups, points.cells - 1)
        missing = points.unusable if self.public else np.zeros_like(points.unusable)
        columns = (
            np.concatenate([points.group, every]),
            np.concatenate([2 * points.x_cell, middle]),
            np.concatenate([2 * points.y_cell, middle]),
            np.concatenate([points.count, missing]),
        )
        common: dict[str, Any] = {
            "groups": points.grid.groups,
            "steps": points.grid.steps,
            "neighbours": self.relation,
            "noise": self.noise,
        }
        if method == "dp_grad_descent_zcdp":
            lines = gradient_descent_zcdp(*columns, rho=self.rho, **common)
        else:
            lines = gradient_descent(*columns, epsilon=self.epsilon, **common)
        return replace(lines, rows=self.moments.n.astype(np.float64)) if self.public else lines


_OF_SUMS = ("rows", "x", "y", "xx", "xy")
_BY_EPSILON: dict[str, Callable[..., GroupDraw]] = {
    "noisy_moments": noisy_moments,
    "noisy_stats": noisy_stats,
    "noisy_intercept": noisy_intercept,
}
_BY_RHO: dict[str, Callable[..., GroupDraw]] = {
    "noisy_moments_zcdp": noisy_moments_zcdp,
    "noisy_stats_zcdp": noisy_stats_zcdp,
}
