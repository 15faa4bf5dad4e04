"""A test whether two released ROC curves of independent rows differ; post-processing of two draws, at no cost.

Each release has paid its own cost; if both are about the same rows, the ledger has added the costs. The test uses
released values and the public distribution of the noise alone.

Curves are compared at equal FPR + TPR, as in bands. The null hypothesis is that the *curves of the populations* are
equal; the rows of each release are an independent sample. If two models scored the same rows, their estimated areas may
be positively correlated, and then the test overstates the sampling error of the difference; two curves do not show by
how much. For two models on the same rows use ``diagnostics.roc_comparison``, which counts both scores of a row
together.

The null distribution is simulated: 399 pairs of curves, or 99 if there are many cells. For each simulated pair, two
samples of rows are drawn from the mean of the released curves, one sample for each release. The rows of a sample are
counted in the cells of its release, and fresh noise is added. Curves of the test, released and simulated, are computed
from unbiased noisy counts; the posterior means that the release shows (``posterior``) take no part. With m simulated
pairs, of which r differ by no less than the released curves, the p-value is ``(1 + r) / (1 + m)``. The scores of the
two models need not be on the same scale: each release states where the cells of its model lie on the common curve.

Half the difference between a curve and the line through the edges of its cells counts as one standard deviation, as in
bands. In an unresolved cell the exact curve may be away from the course that the test assumes; the largest possible
distance is subtracted from the difference of the released curves.

The interval of the difference of the AUCs combines the intervals of both AUCs (MOVER: Zou and Donner, Statistics in
Medicine 2008) and the sampling variance (DeLong, DeLong, Clarke-Pearson, Biometrics 1988).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure import DECIMALS, Ends, Figure, Number, figure
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.contract.published import PublishedFields
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.diagnostics._simulation import WIDEST, normal, uniform
from spark_jobs.diagnostics.roc_curve.bands import MANY_CELLS, UNRESOLVED
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.roc_curve.shape import Edges, area, counts_above, edges, read_straight
from spark_jobs.diagnostics.roc_curve.summary import summarise
from spark_jobs.diagnostics.roc_curve.trace import Trace, sampling_variance, trace
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, noisy_tree

COPIES, COPIES_OF_FULL_GRID = 399, 99
EXACT_ROWS = 2_000
"""Largest sample of a class that is drawn row by row; larger ones are drawn as a Brownian bridge."""
_TIE = 1e-8


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveDifference(PublishedFields):
    """The difference of two released ROC curves.

    Attributes:
        auc_difference: area of the first curve less that of the second; its interval is for the curves of the
            populations.
        auc_p_value: p-value of the hypothesis that the curves are equal, by the difference of the areas.
        largest_difference: largest difference of TPR, and so of FPR, at equal FPR + TPR.
        p_value: p-value of the hypothesis that the curves are equal, by their largest difference.
        status: ``ok``, or ``undefined`` if one of the curves is undefined; then differences, interval and p-values are
            None.
        confidence: nominal level of the interval.
        guarantee: ``NOT PRIVATE`` if one of the releases is.
    """

    auc_difference: Number = figure("difference of the areas", "interval", limits=(-1, 1), stem="auc")
    auc_p_value: float | None = figure("p-value of equal areas", limits=(0, 1))
    largest_difference: float | None = figure("largest difference of the rates", limits=(0, 1))
    p_value: float | None = figure("p-value of equal curves", limits=(0, 1))
    status: str
    confidence: float
    guarantee: str


def compare(a: RocDraw, b: RocDraw, *, seed: int = 0, confidence: float | None = None) -> CurveDifference:
    """Compare two released ROC curves; spends no budget, because both releases are paid for.

    Formal guarantee: that of the two releases together (post-processing), under any neighbouring relation. If a row may
    be in both tables, this is the sum of their epsilons.

    Args:
        a: draw of a release.
        b: draw of another release, of other rows, with independent noise.
        seed: public seed of the simulations. Equal arguments give equal results.
        confidence: level of the interval; None means the level of the first release.

    Raises:
        InvalidRequest: the level is not between 0 and 1, or a release was made with a ``histogram`` method, whose error
            has no known distribution.

    Example:
        >>> from spark_jobs.diagnostics.roc_curve import measure
        >>> from spark_jobs.statistics import ScoreCounts
        >>> labels = [0, 0, 1, 1] * 2500
        >>> good, bad = ([0.2, 0.4, 0.6, 0.8] * 2500, [0.2, 0.6, 0.4, 0.8] * 2500)
        >>> one, other = (
        ...     measure(ScoreCounts.from_arrays(labels, scores), epsilon=1, noise=SeededNoise(seed))
        ...     for seed, scores in enumerate((good, bad))
        ... )
        >>> found = compare(one, other)
        >>> round(found.auc_difference.number, 1), found.p_value < 0.01
        (0.2, True)
    """
    level = a.confidence if confidence is None else confidence
    _check(level)
    for draw in (a, b):
        _trees(draw)
    released = trace(a), trace(b)
    traces = trace(a, raw=True), trace(b, raw=True)
    difference = released[0].auc - released[1].auc
    defined = all(traced.defined for traced in traces)
    if defined:
        # the lower curve comes first, so that an exchange of the arguments changes only the sign
        order = (0, 1) if traces[0].auc <= traces[1].auc else (1, 0)
        pair = (a, b)[order[0]], (a, b)[order[1]]
        p_value, auc_p_value = _p_values(pair, (traces[order[0]], traces[order[1]]), SeededNoise(seed))
        interval = _interval((a, b), released, seed=seed, level=level)
    else:
        p_value, auc_p_value, interval = 1.0, 1.0, (-1.0, 1.0)
    result = CurveDifference(
        auc_difference=Figure(
            value=round(difference, DECIMALS), interval=Ends(*(round(end, DECIMALS) for end in interval))
        ),
        auc_p_value=round(auc_p_value, DECIMALS),
        largest_difference=round(float(np.abs(_apart(*released)[1]).max()), DECIMALS),
        p_value=round(p_value, DECIMALS),
        status=OK if defined else UNDEFINED,
        confidence=level,
        guarantee=PRIVATE if a.guarantee == b.guarantee == PRIVATE else NOT_PRIVATE,
    )
    return result if defined else result.withheld()


def _check(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidRequest("confidence", level, "must be above 0 and below 1", "ask for 0.9, for example")


def _trees(draw: RocDraw) -> tuple[NoisyTree, NoisyTree]:
    negatives, positives = draw.negatives, draw.positives
    if isinstance(negatives, NoisyTree) and isinstance(positives, NoisyTree):
        return negatives, positives
    raise InvalidRequest(
        "histogram", None, "must be absent from releases that are compared", "release both curves without it"
    )


def _apart(one: Trace, other: Trace) -> tuple[FloatArray, FloatArray]:
    """All points of both curves, as FPR + TPR, and the first TPR less the second at these points."""
    runs = one.fpr + one.tpr, other.fpr + other.tpr
    at = np.union1d(*runs)
    return at, np.interp(at, runs[0], one.tpr) - np.interp(at, runs[1], other.tpr)


def _p_values(pair: tuple[RocDraw, RocDraw], traces: tuple[Trace, Trace], noise: SeededNoise) -> tuple[float, float]:
    """P-values by the largest difference of the curves, and by the difference of their areas."""
    at, apart = _apart(*traces)
    hidden, hidden_area = np.zeros(at.size), 0.0
    for traced in traces:
        room, room_area = _hidden(traced, at)
        hidden, hidden_area = hidden + room, hidden_area + room_area
    value = float(np.maximum(np.abs(apart) - hidden, 0.0).max())
    auc_value = max(abs(traces[0].auc - traces[1].auc) - hidden_area, 0.0)
    bends = [_bend(traced, at) for traced in traces]
    largest, areas = [], []
    for one, other in _copies(pair, traces, noise):
        bent = normal(noise, (2,)) / 2
        where, difference = _apart(one, other)
        moved = sum(part * np.interp(where, at, bend) for part, (bend, _) in zip(bent, bends, strict=True))
        largest.append(float(np.abs(difference + moved).max()))
        areas.append(abs(one.auc - other.auc + sum(part * bend for part, (_, bend) in zip(bent, bends, strict=True))))
    return _rank(value, largest), _rank(auc_value, areas)


def _hidden(traced: Trace, at: FloatArray) -> tuple[FloatArray, float]:
    """Distance of the exact curve from its course that unresolved cells may hide, and the same for the area."""
    curve = traced.edges
    run, course = curve.fpr + curve.tpr, np.interp(at, traced.fpr + traced.tpr, traced.tpr)
    room, room_area = np.zeros(at.size), 0.0
    for i in np.flatnonzero((np.diff(curve.depth) > UNRESOLVED) & ~curve.alone):
        fpr_step, tpr_step = curve.fpr[i + 1] - curve.fpr[i], curve.tpr[i + 1] - curve.tpr[i]
        above = course - curve.tpr[i]
        lowest = np.maximum(0.0, at - run[i] - fpr_step)
        highest = np.minimum(tpr_step, at - run[i])
        inside = (at > run[i]) & (at < run[i + 1])
        room = np.where(inside, np.maximum(above - lowest, highest - above), room)
        room_area += float(fpr_step * tpr_step / 2)
    return np.maximum(room, 0.0), room_area


def _bend(traced: Trace, at: FloatArray) -> tuple[FloatArray, float]:
    """The curve less the line through the edges of its cells, and the difference of their areas."""
    fpr, tpr = read_straight(traced.edges, traced.points)
    line = np.interp(at, fpr + tpr, tpr)
    bend: FloatArray = np.interp(at, traced.fpr + traced.tpr, traced.tpr) - line
    return bend, area(traced.fpr, traced.tpr) - area(fpr, tpr)


def _rank(value: float, null: list[float]) -> float:
    # without noise, copies equal the released value up to rounding
    return float((1 + sum(copy >= value - _TIE for copy in null)) / (1 + len(null)))


def _copies(
    pair: tuple[RocDraw, RocDraw], traces: tuple[Trace, Trace], noise: SeededNoise
) -> Iterator[tuple[Trace, Trace]]:
    """Simulated pairs of released curves under the hypothesis."""
    ends = [_ends(draw) for draw in pair]
    weights = [_precision(draw, traced) for draw, traced in zip(pair, traces, strict=True)]
    sizes = [_sizes(traced) for traced in traces]
    copies = COPIES if max(draw.cuts.size for draw in pair) <= MANY_CELLS else COPIES_OF_FULL_GRID
    knots = np.union1d(*ends)
    common = _common(traces, weights, knots)
    where = [np.searchsorted(knots, end) for end in ends]
    for _ in range(copies):
        one, other = (_sample(common, of_both, noise) for of_both in sizes)
        yield (
            _released_again(pair[0], [above[where[0]] for above in one], noise),
            _released_again(pair[1], [above[where[1]] for above in other], noise),
        )


def _ends(draw: RocDraw) -> FloatArray:
    """Released FPR + TPR at the edges of all counted cells."""
    above = (counts_above(tree.counts()) for tree in _trees(draw))
    curve: Edges = edges(draw.cuts[::-1], *above, tied=draw.tied, steps=draw.steps)
    return curve.fpr + curve.tpr


def _precision(draw: RocDraw, traced: Trace) -> float:
    """Approximate inverse variance of a curve: its weight in the common curve."""
    smaller = min(traced.sizes)
    noisy = float(_trees(draw)[0].prefix_variances()[1:].mean()) / smaller**2
    return 1.0 / (noisy + 1.0 / smaller)


def _sizes(traced: Trace) -> tuple[int, int]:
    return max(1, round(traced.sizes[0])), max(1, round(traced.sizes[1]))


def _common(traces: tuple[Trace, Trace], weights: list[float], at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """FPR and TPR of the mean curve; both rise, because the TPR of a curve never rises by more than FPR + TPR."""
    tpr = np.average([np.interp(at, traced.fpr + traced.tpr, traced.tpr) for traced in traces], axis=0, weights=weights)
    return np.clip(at - tpr, 0.0, 1.0), np.clip(tpr, 0.0, 1.0)


def _sample(
    curve: tuple[FloatArray, FloatArray], sizes: tuple[int, int], noise: SeededNoise
) -> tuple[FloatArray, FloatArray]:
    """Numbers of rows of both classes above each point of a curve, in a sample of these sizes."""
    negatives, positives = (_above(rate, size, noise) for rate, size in zip(curve, sizes, strict=True))
    return negatives, positives


def _above(rate: FloatArray, size: int, noise: SeededNoise) -> FloatArray:
    if size <= EXACT_ROWS:
        places = np.minimum(np.searchsorted(rate, uniform(noise, size)), rate.size - 1)
        return np.cumsum(np.bincount(places, minlength=rate.size)).astype(np.float64)
    walk = np.cumsum(np.sqrt(np.maximum(np.diff(rate, prepend=0.0), 0.0)) * normal(noise, rate.shape))
    rows: FloatArray = np.rint(size * rate + math.sqrt(size) * (walk - rate * walk[-1]))
    return rows


def _measured_again(tree: NoisyTree, counts: Int64Array, draw: RocDraw, noise: SeededNoise) -> NoisyTree:
    """Other counts with fresh noise of a tree; of a sum, with that of its terms, all but one of which count nothing."""
    terms = [counts, *([np.zeros_like(counts)] * ((tree.summed or 1) - 1))]
    drawn = [
        noisy_tree(one, tree=tree.tree, epsilon=draw.spendings[-1].epsilon, neighbours=draw.neighbours, noise=noise)
        for one in terms
    ]
    if len(drawn) == 1:
        return drawn[0]
    nodes = tuple(np.sum(levels, axis=0) for levels in zip(*(one.nodes for one in drawn), strict=True))
    return replace(drawn[0], nodes=nodes, scale=tree.scale, summed=tree.summed)


def _released_again(draw: RocDraw, above: list[FloatArray], noise: SeededNoise) -> Trace:
    """The raw curve of fresh noise around other counts."""
    drawn = [
        _measured_again(tree, np.diff(counts)[::-1].astype(np.int64), draw, noise)
        for tree, counts in zip(_trees(draw), above, strict=True)
    ]
    return trace(replace(draw, negatives=drawn[0], positives=drawn[1]), raw=True)


def _interval(
    pair: tuple[RocDraw, RocDraw], traces: tuple[Trace, Trace], *, seed: int, level: float
) -> tuple[float, float]:
    """The interval of the first area less the second."""
    (low_a, high_a), (low_b, high_b) = (
        _ends_of_area(replace(draw, confidence=level), seed=seed + i) for i, draw in enumerate(pair)
    )
    a, b = (traced.auc for traced in traces)
    sampling = float(ndtri((1 + level) / 2)) ** 2 * sum(sampling_variance(traced) for traced in traces)
    low = a - b - math.sqrt((a - low_a) ** 2 + (high_b - b) ** 2 + sampling)
    high = a - b + math.sqrt((high_a - a) ** 2 + (b - low_b) ** 2 + sampling)
    return max(low, -1.0), min(high, 1.0)


def _ends_of_area(draw: RocDraw, *, seed: int) -> tuple[float, float]:
    return summarise(draw, seed=seed).auc.interval or WIDEST
