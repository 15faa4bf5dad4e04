"""Summarises a draw as the figures of a ranking that are released; deterministic post-processing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import DECIMALS, Ends, Figure, Number, Numbers
from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.results.curves import RankingFigures, gini_of
from spark_jobs.diagnostics._populations import privacy_share
from spark_jobs.diagnostics._score_ends import AtEnds
from spark_jobs.diagnostics._simulation import band_of_courses, central_range, rounded
from spark_jobs.diagnostics.ranking_figures.measurement import RankingDraw
from spark_jobs.diagnostics.ranking_figures.reading import (
    Ranking,
    distance,
    false_per_true,
    gain_at,
    mean_cost,
    precision_of,
)
from spark_jobs.diagnostics.roc_curve.bands import bands, hidden_band
from spark_jobs.diagnostics.roc_curve.posterior import trees_of
from spark_jobs.diagnostics.roc_curve.trace import Trace, trace
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import edges_of

SHARE_FEW_SCORES = 0.5
"""The share of the rows in cells of one score from which all rows count as sharing few scores."""


def summarise(draw: RankingDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> RankingFigures:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind bands and intervals.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    traced = trace(draw.curve)
    # counts that have a posterior keep all edges; of those in many cells some are left out
    at_places = traced if trees_of(draw.curve) else trace(draw.curve, resolve_rarer=True)
    ranking = Ranking.of(draw.curve, at_places, SeededNoise(seed), effect=sampling.effect().value)
    recall, depths = (np.arange(draw.points) + 0.5) / draw.points, np.array(draw.depths)
    _, area = bands(draw.curve, traced, seed=seed, sampling=sampling)
    at_ends = AtEnds.of_counts(draw.curve, draw.curve.negatives, draw.curve.positives)
    gains = _gains(ranking, depths, draw.curve.confidence)
    threshold, cost = _lowest_cost(ranking, draw)
    return RankingFigures(
        recall=rounded(recall),
        precision=_precision(ranking, recall, draw.curve.confidence, traced),
        depths=depths,
        gain=gains,
        lift=gains.mapped(lambda values: rounded(values * (1 / depths))),
        gini=gini_of(at_ends.widened(area)),
        ks=_largest_distance(ranking, draw.curve.confidence),
        threshold=threshold,
        cost=cost,
        false_positive_cost=draw.costs[0],
        false_negative_cost=draw.costs[1],
        positives=round(max(traced.sizes[1], 0.0), DECIMALS),
        negatives=round(max(traced.sizes[0], 0.0), DECIMALS),
        status=at_ends.status(area) if traced.defined else UNDEFINED,
        confidence=draw.curve.confidence,
        **draw.stated,
    )


def _precision(ranking: Ranking, recall: FloatArray, confidence: float, traced: Trace) -> Numbers:
    """The precision at recalls, with its bands.

    With few positives the errors of a precision are skewed, and so are those of the false positives for each true one.
    A simultaneous band for the noise reaches as far as one about the median of either does; the one for the population,
    which has to hold more, has a scale for either side.

    Args:
        ranking: the curve, with copies.
        recall: the recalls.
        confidence: nominal level.
        traced: the curve that is released.
    """
    places, fine = ranking.fine()
    at = np.interp(recall, fine.true / fine.positives, places)
    steps = ranking.steps(at)
    released = false_per_true(ranking.released(at), recall, steps)
    noise, population = (
        false_per_true(ranking.copied(at, copies), recall, steps) for copies in (ranking.noise, ranking.population)
    )
    band = _with_intervals(precision_of(released), precision_of(noise), precision_of(population), confidence)
    hidden = _hidden_courses(ranking, recall, traced)
    low, high = _all_precisions(noise, confidence, hidden)
    lowest, highest = np.minimum(low, band.lower), np.maximum(high, band.upper)
    low, high = (np.clip(end, 0.0, 1.0) for end in band_of_courses(precision_of(population), confidence))
    return replace(
        band,
        everywhere=Ends(rounded(lowest), rounded(highest)),
        population=Ends(rounded(np.minimum(low, lowest)), rounded(np.maximum(high, highest))),
    )


def _all_precisions(
    false: FloatArray, confidence: float, hidden: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Ends of a simultaneous band of the precision.

    Args:
        false: copies of the false positives for each true one; shape (copies, k).
        confidence: nominal level.
        hidden: how many fewer and more of them there may be beside the noise.
    """
    fewest, largest = everywhere(false, confidence)
    low, high = np.clip(everywhere(precision_of(false), confidence), 1e-12, 1.0)
    fewest, largest = np.minimum(fewest, 1 / high - 1), np.maximum(largest, 1 / low - 1)
    return precision_of(largest + hidden[1]), precision_of(fewest - hidden[0])


def _hidden_courses(ranking: Ranking, recall: FloatArray, traced: Trace) -> tuple[FloatArray, FloatArray]:
    """How many false positives fewer and more there may be for each true one, by what the counts do not show."""
    negatives, positives = ranking.sizes
    lowest, highest = hidden_band(traced)
    largest, released, fewest = (
        np.interp(recall, tpr, traced.fpr, left=0.0, right=1.0) * negatives / (positives * recall)
        for tpr in (lowest, traced.tpr, highest)
    )
    return np.maximum(released - fewest, 0.0), np.maximum(largest - released, 0.0)


def everywhere(copies: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Ends of a band that contains whole curves: a common multiple of each point's standard deviation about the median.

    Args:
        copies: curves; shape (copies, k).
        confidence: nominal level.
    """
    middle, spread = np.median(copies, axis=0), np.maximum(copies.std(axis=0), 1e-12)
    reach = np.quantile((np.abs(copies - middle) / spread).max(axis=1), confidence) * spread
    return middle - reach, middle + reach


def _gains(ranking: Ranking, depths: FloatArray, confidence: float) -> Numbers:
    places, fine = ranking.fine()
    at = np.interp(depths, (fine.true + fine.false) / fine.rows, places)
    steps = ranking.steps(at)
    noise, population = (
        gain_at(ranking.copied(at, copies), depths, steps) for copies in (ranking.noise, ranking.population)
    )
    return _with_intervals(gain_at(ranking.released(at), depths, steps), noise, population, confidence)


def _largest_distance(ranking: Ranking, confidence: float) -> Number:
    """The largest distance. The rows' is at one of thousands of scores; the population's curve is smooth."""
    places, released = ranking.fine()
    value = np.array([max(float(distance(released).max()), 0.0)])
    noise, population = (distance(ranking.copied(places, copies)) for copies in (ranking.noise, ranking.population))
    curve = ranking.curve
    share_few_scores = np.diff(curve.depth)[curve.straight].sum() > SHARE_FEW_SCORES
    of_edges = distance(ranking.at_edges(ranking.noise)) if share_few_scores else None
    smooth, of_population = (
        central_range(-_at_the_lowest(-copies, int(copies.mean(axis=0).argmax())), confidence)
        for copies in (noise, population)
    )
    ends = (np.clip(pair, 0.0, 1.0) for pair in (_ends_of_the_largest(noise, of_edges, confidence), of_population))
    of_noise, of_both = (_around(value, *pair) for pair in ends)
    # the rows' own interval is wider, as it allows for a rough curve
    figure = Figure(value=rounded(value), interval=of_noise, population=of_both)
    return _single(figure, privacy_share(smooth, of_population))


def _ends_of_the_largest(
    copies: FloatArray, at_edges: FloatArray | None, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of an interval for the largest value of a rough curve, of which there are copies; shape (copies, places).

    The largest is at least the value at the place where the copies are highest, which has an interval of its own. It is
    at most as large as the largest values of the copies, which are raised by having errors at many places. What noise
    raised that place by is no more than the exact curve rises between the edges, unless rows share few scores.

    Args:
        copies: of the curve at all places.
        at_edges: copies at the edges of the cells where rows seem to share few scores; otherwise None.
        confidence: nominal level.
    """
    tail = (1 - confidence) / 2
    single = copies[:, [np.median(copies, axis=0).argmax()]]
    raised = 0.0 if at_edges is None else _raised_by_choice(at_edges, tail)
    low = np.quantile(single, tail, axis=0) - raised
    return low, np.quantile(copies.max(axis=1, keepdims=True), 1 - tail, axis=0)


def _raised_by_choice(copies: FloatArray, tail: float) -> float:
    """How much further noise may have raised a figure at the edge where it is highest than at an edge of no choice.

    Copies are highest at some edges, among which noise chose one; where rows share few scores these are all those
    between two of them, at which the exact figures are equal.

    Args:
        copies: copies of the figures at the edges, shape (copies, edges).
        tail: the probability that it is raised further.
    """
    middle = np.median(copies, axis=0)
    errors = (middle - copies)[:, np.unique(copies.argmax(axis=1))]
    own = (middle - copies)[:, middle.argmax()]
    return max(float(np.quantile(errors.max(axis=1), 1 - tail) - np.quantile(own, 1 - tail)), 0.0)


def _lowest_cost(ranking: Ranking, draw: RankingDraw) -> tuple[float, Number]:
    """The edge of least cost by the released curve, and its cost."""
    curve, grid = ranking.curve, draw.curve.grid
    released = mean_cost(ranking.at_edges(), draw.costs)
    best = int(np.argmin(released))
    noise, population = (
        np.clip(_at_the_lowest(mean_cost(ranking.at_edges(copies), draw.costs), best), 0.0, max(draw.costs))
        for copies in (ranking.noise, ranking.population)
    )
    threshold = float(edges_of(grid)[curve.cuts[best]]) if best else 1.0 + 1.0 / grid
    cost = _with_intervals(released[[best]], noise, population, draw.curve.confidence)
    return threshold, _single(cost, privacy_share(cost.ends(), cost.ends("population")))


def _at_the_lowest(copies: FloatArray, best: int) -> FloatArray:
    """What a figure may be at the place where noise made it lowest: more often larger than released, than smaller.

    Each copy in turn is taken for the exact figures. With the errors of another one added, it shows by how much the
    lowest of noisy figures errs.

    Args:
        copies: copies of the figures at all places, shape (copies, places).
        best: the place where the figure seemed lowest.
    """
    middle = copies.mean(axis=0)
    errors = middle - np.roll(copies, 1, axis=0)
    lowest = np.argmin(copies + errors, axis=1)[:, np.newaxis]
    return np.asarray(middle[best] - np.take_along_axis(errors, lowest, axis=1))


def _single(figure: Numbers, share: FloatArray) -> Number:
    """The only number of an array, with the share of its interval for the population that the noise makes."""
    return replace(figure.at(0).mapped(float), privacy_share=float(rounded(share)[0]))


def _around(value: FloatArray, low: FloatArray, high: FloatArray) -> Ends[FloatArray]:
    return Ends(rounded(np.minimum(low, value)), rounded(np.maximum(high, value)))


def _with_intervals(value: FloatArray, noise: FloatArray, population: FloatArray, confidence: float) -> Numbers:
    """Released values with central ranges of copies, extended to the values.

    Args:
        value: the released values, shape (k,).
        noise: copies of the exact ones, shape (copies, k).
        population: copies of those of the population.
        confidence: nominal level.
    """
    ends = (_around(value, *central_range(copies, confidence)) for copies in (noise, population))
    return Figure(value=rounded(value), interval=next(ends), population=next(ends))
