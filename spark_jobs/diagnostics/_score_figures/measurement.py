"""The measurement of one figure, AUC or average precision: the figure with noise, or noisy counts.

*Direct* releases add noise to the exact figure, scaled by a smooth bound on its sensitivity (Boyd, Lantz, Page 2015,
with exact local sensitivities and tight constants). The scale depends on the sizes of the classes, so an interval needs
noisy sizes, which cost budget. Without them the scale stays private, and there is no interval. Releases from *counts*
compute the figure from noisy counts of both classes, like a ROC curve, and have an interval at no further cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Literal

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.odds import LossLaw
from spark_jobs.contract.options import AucSettings, AveragePrecisionSettings, RocCurveSettings
from spark_jobs.contract.privacy import Neighbours, exact_difference
from spark_jobs.diagnostics._score_cells import takes_few_values
from spark_jobs.diagnostics._score_figures.ties import NoisyValues
from spark_jobs.diagnostics._score_figures.weighted import FINER, measure_precision
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw, measure_curve
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.continuous_noise import RESIDUAL_DELTA, Density, SmoothNoise, laplace_noise
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.pure_release import MAX_EPSILON, MIN_EPSILON, pure_noise, release_pure
from spark_jobs.mechanisms.smooth_sensitivity import (
    auc_bound,
    auc_fraction,
    average_precision,
    average_precision_bound,
    release_auc,
    release_average_precision,
)
from spark_jobs.mechanisms.weighted_sums import WeightedSum
from spark_jobs.statistics import ScoreCounts

Figure = Literal["auc", "average_precision"]
SIZES_SHARE = Decimal("0.05")
"""Share of the budget for the noisy class sizes that an interval needs."""
ENDS_SHARE = Decimal("0.01")
"""Share of the budget for the rows at the ends of the range of scores, whose order a direct release does not see."""
BESIDE_SHARE = 2 * ENDS_SHARE
"""Share of the budget for all counts that say whether scores can be told from each other."""
NEIGHBOURING = 16
"""Cells of the grid of scores next to each other, in which most rows of both classes hardly differ in their scores."""
COUNTS_ABOVE = 60
"""Epsilon from which counts are more accurate than a direct release, which spends at most 10."""
MIN_SIGNAL_OF_DIRECT = 120.0
"""Rows of the smaller class times epsilon from which ``auto`` releases an AUC directly; below, counts are nearer."""
_DIGITS = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class FigureDraw(Draw):
    """The noisy figure, or the noisy counts that it is computed from.

    Attributes:
        figure: ``auc`` or ``average_precision``.
        method: ``polynomial``, ``cauchy``, ``laplace``, ``counts`` or ``weighted_counts``; if the request has ``auto``,
            the method that was chosen.
        confidence: nominal level of the interval.
        value: the noisy figure of a direct release; otherwise None.
        sizes: noisy sizes of the classes, negatives first; None if they were not paid for.
        counts: the noisy counts; None for a direct release.
        weighted: the noisy weighted sum over all rows; None unless the method is ``weighted_counts``.
        ends: noisy numbers of rows whose scores are at 0 and at 1, negatives first; None unless an AUC is released
            directly, with an interval.
        crowded: the noisy value of ``crowd``, which measures how many rows of both classes have almost equal scores;
            None if ``ends`` is None.
        values: the noisy number of different scores, for an average precision whose counts do not show ties; else None.
    """

    figure: str
    method: str
    confidence: float
    value: float | None = None
    sizes: tuple[int, int] | None = None
    counts: RocDraw | None = None
    weighted: WeightedSum | None = None
    ends: tuple[int, ...] | None = None
    crowded: int | None = None
    values: NoisyValues | None = field(default=None, metadata={codec.LEFT_OUT: True})

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes."""
        if self.counts is not None:
            return self.counts.class_sizes
        if self.sizes is None:
            return None
        scale = laplace_scale(self.spendings[0].epsilon, rows_changed(self.neighbours))
        return ClassSizes(
            negatives=float(self.sizes[0]), positives=float(self.sizes[1]), variance=laplace_variance(scale)
        )

    @property
    def shape(self) -> SmoothNoise:
        """The kind of noise of a direct release, with its constants."""
        last = self.spendings[-1]
        return noise_shape(self.method, last.epsilon, last.delta)


def measure_figure(
    statistic: ScoreCounts, options: AucSettings | AveragePrecisionSettings, terms: Terms, *, figure: Figure
) -> FigureDraw:
    """Draw the noise of one figure; ``epsilon``-DP, and ``(epsilon, delta)``-DP for ``laplace``.

    Steps compose sequentially. A direct release spends on the noisy sizes of the classes, which are disjoint, and then
    on the figure, for which it spends an epsilon of at most 10 (``mechanisms.pure_release``). For the other methods see
    ``roc_curve.measurement`` and ``weighted.measure_precision``.

    Args:
        statistic: exact counts of both classes; private.
        options: the settings.
        terms: budget, relation and noise; only ``laplace`` spends delta.
        figure: ``auc`` or ``average_precision``.

    Raises:
        InvalidRequest: ``laplace`` without a delta above 0.
    """
    meter, method = terms.meter(), str(options.method)
    sizes = value = counts = weighted = ends = crowded = values = None
    if method == "auto" and takes_few_values(statistic.steps):
        method = "counts"
    elif method == "auto" and figure == "auc":
        method, sizes = _automatic(statistic, meter=meter, terms=terms)
    if method in ("auto", "weighted_counts"):
        counts, weighted, values = measure_precision(
            statistic,
            method=method,
            meter=meter,
            neighbours=terms.neighbours,
            noise=terms.noise,
            confidence=options.confidence,
        )
        method, spendings = "counts" if weighted is None else "weighted_counts", meter.spendings
    elif method == "counts":
        counts = measure_curve(
            statistic,
            RocCurveSettings(confidence=options.confidence),
            Terms(epsilon=meter.remaining, neighbours=terms.neighbours, noise=terms.noise),
            finer=FINER if figure == "average_precision" else 1,
        )
        spendings = (*meter.spendings, *counts.spendings)
    else:
        if sizes is None and options.interval:
            # a budget that does not fit must be rejected before the noise of the sizes is drawn
            noise_shape(
                method, min(meter.remaining * (1 - SIZES_SHARE - BESIDE_SHARE), MAX_EPSILON), meter.remaining_delta
            )
            sizes = _sizes(statistic, meter=meter, terms=terms)
        hides_order = statistic.cells == SCORE_CELLS and statistic.steps is None
        if sizes is not None and figure == "auc" and hides_order:
            ends = _ends(statistic, meter=meter, terms=terms)
            crowded = _crowded(statistic, sizes, meter=meter, terms=terms)
        value = _direct(statistic, figure, method, meter=meter, terms=terms)
        spendings = meter.spendings
    return FigureDraw(
        figure=figure,
        method=method,
        confidence=options.confidence,
        neighbours=terms.neighbours,
        guarantee=terms.noise.guarantee,
        spendings=spendings,
        value=value,
        sizes=sizes,
        counts=counts,
        weighted=weighted,
        ends=ends,
        crowded=crowded,
        values=values,
    )


def _automatic(statistic: ScoreCounts, *, meter: BudgetMeter, terms: Terms) -> tuple[str, tuple[int, int] | None]:
    """The method of ``auto`` for an AUC, by noisy sizes of the classes, and these sizes."""
    epsilon = meter.granted.epsilon
    if epsilon > COUNTS_ABOVE or epsilon * (1 - SIZES_SHARE - BESIDE_SHARE) <= MIN_EPSILON:
        return "counts", None
    sizes = _sizes(statistic, meter=meter, terms=terms)
    return "polynomial" if min(sizes) * float(epsilon) >= MIN_SIGNAL_OF_DIRECT else "counts", sizes


def _direct(statistic: ScoreCounts, figure: Figure, method: str, *, meter: BudgetMeter, terms: Terms) -> float:
    """The noisy figure, for the rest of the budget, up to 10 of epsilon."""
    neighbours, noise = terms.neighbours, terms.noise
    cost, delta = min(meter.remaining, MAX_EPSILON), meter.remaining_delta if method == "laplace" else Decimal(0)
    shape = noise_shape(method, cost, delta)
    law = LossLaw.SMOOTH_LAPLACE if method == "laplace" else LossLaw.ANY
    meter.spend(cost, delta=delta, label="area under the curve" if figure == "auc" else "average precision", law=law)
    if method == "laplace":
        release = release_auc if figure == "auc" else release_average_precision
        return release(statistic.negatives, statistic.positives, shape=shape, neighbours=neighbours, noise=noise)
    exact, bound = _exact(statistic, figure, shape=shape, neighbours=neighbours)
    return release_pure(exact, bound, shape=shape, noise=noise)


def noise_shape(method: str, epsilon: Decimal, delta: Decimal) -> SmoothNoise:
    """The kind of noise, with its constants, of a direct release that costs ``(epsilon, delta)``."""
    if method == "laplace":
        return laplace_noise(epsilon, max(exact_difference(delta, RESIDUAL_DELTA), Decimal(0)))
    return pure_noise(epsilon, Density(method))


def bound_for(figure: str, sizes: tuple[int, int], *, shape: SmoothNoise, neighbours: Neighbours) -> float:
    """The smooth bound on the sensitivity of a figure for these class sizes, negatives first."""
    if figure == "auc":
        return auc_bound(*sizes, neighbours=neighbours, smoothness=shape.smoothness)
    return average_precision_bound(sizes[1], neighbours=neighbours, smoothness=shape.smoothness)


def _exact(
    statistic: ScoreCounts, figure: Figure, *, shape: SmoothNoise, neighbours: Neighbours
) -> tuple[Decimal, float]:
    sizes = int(statistic.negatives.sum()), int(statistic.positives.sum())
    bound = bound_for(figure, sizes, shape=shape, neighbours=neighbours)
    if figure == "average_precision":
        return Decimal(average_precision(statistic.negatives, statistic.positives)), bound
    exact = auc_fraction(statistic.negatives, statistic.positives)
    with localcontext(prec=_DIGITS):
        return Decimal(exact.numerator) / exact.denominator, bound


def _sizes(statistic: ScoreCounts, *, meter: BudgetMeter, terms: Terms) -> tuple[int, int]:
    """Noisy sizes of the classes, negatives first."""
    cost = meter.spend_share(SIZES_SHARE, label="sizes of the classes")
    exact = np.array([statistic.negatives.sum(), statistic.positives.sum()], dtype=np.int64)
    noisy = terms.noise.laplace(exact, epsilon=cost, l1_sensitivity=rows_changed(terms.neighbours))
    return int(noisy[0]), int(noisy[1])


def _ends(statistic: ScoreCounts, *, meter: BudgetMeter, terms: Terms) -> tuple[int, ...]:
    """Noisy numbers of rows in the cells at both ends, negatives first; the four cells are disjoint."""
    cost = meter.spend_share(ENDS_SHARE, label="rows at the ends of the scores")
    exact = np.concatenate([rows[[0, -1]] for rows in (statistic.negatives, statistic.positives)])
    noisy = terms.noise.laplace(exact, epsilon=cost, l1_sensitivity=rows_changed(terms.neighbours))
    return tuple(noisy.tolist())


def _crowded(statistic: ScoreCounts, sizes: tuple[int, int], *, meter: BudgetMeter, terms: Terms) -> int:
    """The noisy ``crowd`` of both classes, whose noisy sizes were released."""
    cost = meter.spend_share(ENDS_SHARE, label="rows of both classes with almost equal scores")
    exact = np.array([crowd(statistic.negatives, statistic.positives, sizes)], dtype=np.int64)
    return int(terms.noise.laplace(exact, epsilon=cost, l1_sensitivity=1)[0])


def crowd(negatives: Int64Array, positives: Int64Array, sizes: tuple[int, int]) -> int:
    """How many rows of both classes have almost equal scores, in the run of ``NEIGHBOURING`` cells that has the most.

    In every run of neighbouring cells, the rows of a class are first scaled to the size of the smaller class:
    ``rows * smaller / size``, rounded down, where ``size`` is the public size of the class. Then the smaller of the two
    scaled counts is taken. The result is the largest of these over all runs. Sensitivity: 1 if a row is added, removed
    or replaced. As the factor is at most 1, the scaled count of a class changes by at most 1, and so do the smaller of
    both counts and the largest over all runs.
    """
    smaller = smaller_size(sizes)
    shares = []
    for rows, size in zip((negatives, positives), sizes, strict=True):
        sums = np.concatenate([[0], np.cumsum(rows)])
        shares.append((sums[NEIGHBOURING:] - sums[:-NEIGHBOURING]) * smaller // max(size, 1))
    return int(np.minimum(*shares).max())


def smaller_size(sizes: tuple[int, int]) -> int:
    """The noisy size of the smaller class, at least 1."""
    return max(min(sizes), 1)
