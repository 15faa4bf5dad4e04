"""The summary of a draw as a released figure with its interval; deterministic post-processing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtri

from spark_jobs.contract.figure import DECIMALS, Ends, Figure
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, UNCHECKED, UNDEFINED
from spark_jobs.contract.results.score_figures import ScoreFigure
from spark_jobs.diagnostics._score_ends import CLEAR_OF_NOISE, CROWDED, AtEnds
from spark_jobs.diagnostics._score_figures.measurement import FigureDraw, bound_for, smaller_size
from spark_jobs.diagnostics._score_figures.precision import precision_from_counts
from spark_jobs.diagnostics._score_figures.ties import lowered_by_ties
from spark_jobs.diagnostics._score_figures.weighted import precision_from_sum
from spark_jobs.diagnostics.roc_curve import summarise as summarise_curve
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.roc_curve.trace import Trace, trace
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.mechanisms.noise import laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.pure_release import quantile

_POINTS = 401
_PROBABILITIES = (np.arange(_POINTS) + 0.5) / _POINTS
_LATTICE = np.stack([_PROBABILITIES, np.arange(1, _POINTS + 1) * (math.sqrt(5) - 1) / 2 % 1])
"""Points that fill the unit square evenly: the lattice of the golden section."""
_LAPLACE_PAIRS = np.sign(_LATTICE - 0.5) * -np.log1p(-np.abs(2 * _LATTICE - 1))
"""Pairs of independent Laplace variables of scale 1, as quantiles at these points; shape (2, points)."""
R = TypeVar("R", bound=ScoreFigure)


def summarise_as(result_type: type[R], draw: FigureDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> R:
    """The result of a draw; a function of the draw and the seed.

    Args:
        result_type: type of the result.
        draw: the draw.
        seed: public seed of the simulations behind intervals from counts.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    counted = draw.counts is not None
    fields = _from_counts(draw, seed=seed, sampling=sampling) if counted else _direct(draw, sampling.effect().value)
    return result_type(
        **fields,
        method=draw.method,
        confidence=draw.confidence,
        delta=draw.delta,
        **draw.stated,
    )


def _direct(draw: FigureDraw, effect: float) -> dict[str, Any]:
    value, sizes = float(draw.value or 0.0), draw.sizes
    if sizes is None:
        return {"figure": Figure(value=value), "positives": None, "negatives": None, "status": UNCHECKED}
    at_ends, figure = _at_ends(draw, sizes), _direct_figure(draw, value, effect)
    return {
        "figure": at_ends.widened(figure),
        "positives": max(float(sizes[1]), 0.0),
        "negatives": max(float(sizes[0]), 0.0),
        "at_ends": at_ends.share,
        "status": at_ends.status(figure) if min(sizes) >= min_size(draw) else UNDEFINED,
    }


def _at_ends(draw: FigureDraw, sizes: tuple[int, int]) -> AtEnds:
    """What is known of the rows at the ends of the scores beside a direct release."""
    if draw.ends is None:
        return AtEnds()
    scale = laplace_scale(draw.spendings[1].epsilon, rows_changed(draw.neighbours))
    negatives, positives = (
        [*map(float, draw.ends[2 * place : 2 * place + 2]), float(size)] for place, size in enumerate(sizes)
    )
    at_ends = AtEnds.of_rows(negatives, positives, stddev=math.sqrt(laplace_variance(scale)))
    smaller, stddev = smaller_size(sizes), math.sqrt(laplace_variance(scale))
    share = (draw.crowded or 0) / smaller
    if share < CROWDED or smaller < CLEAR_OF_NOISE * stddev:
        return at_ends
    return replace(at_ends, tied=min(share, 1.0))


def _direct_figure(draw: FigureDraw, value: float, effect: float) -> Figure[float]:
    """The figure of a direct release; half widths of noise and sampling add up in squares."""
    half, deviate = half_width(draw), float(ndtri((1 + draw.confidence) / 2))
    sampling = deviate * math.sqrt(effect * _sampling_variance(draw, value))
    both = math.hypot(half, sampling)
    noise, population = (
        Ends(round(max(value - reach, 0.0), DECIMALS), round(min(value + reach, 1.0), DECIMALS))
        for reach in (half, both)
    )
    share = round(1 - sampling / both if both > 0 else 0.0, DECIMALS)
    return Figure(value=round(value, DECIMALS), interval=noise, population=population, privacy_share=share)


def _sampling_variance(draw: FigureDraw, value: float) -> float:
    """Variance of a figure over samples of rows, from the figure and the noisy sizes alone.

    Of an AUC, that of Hanley and McNeil (Radiology 1982), for exponential classes; of an average precision, the
    binomial one (Boyd, Eng, Page, ECML 2013).
    """
    negatives, positives = (max(float(size), 1.0) for size in draw.sizes or (1, 1))
    if draw.figure != "auc":
        return value * (1 - value) / positives
    first, second = value / (2 - value) - value**2, 2 * value**2 / (1 + value) - value**2
    variance = value * (1 - value) + (positives - 1) * first + (negatives - 1) * second
    return max(variance, 0.0) / (positives * negatives)


def min_size(draw: FigureDraw) -> float:
    """The smallest noisy class size that defines a direct release: three standard deviations of noise, at least 1."""
    scale = laplace_scale(draw.spendings[0].epsilon, rows_changed(draw.neighbours))
    return max(1.0, DEFINED_ABOVE * math.sqrt(laplace_variance(scale)))


def half_width(draw: FigureDraw) -> float:
    """Half the width of the interval of a direct release.

    The scale of the noise is a bound that falls as the smaller class grows, and the class sizes are known only up to
    noise. The half width is a quantile of the absolute noise under a mixture over all sizes that the noisy sizes do not
    rule out. The weight of a size is the probability of the noise that separates it from the noisy size. As the noise
    of the figure and the noise of the sizes are both counted, the interval has its level to a good approximation: sizes
    are a location family, whose flat posterior is the fiducial one.
    """
    if draw.sizes is None:
        return math.inf
    scale = laplace_scale(draw.spendings[0].epsilon, rows_changed(draw.neighbours))
    sizes = np.rint(np.array(draw.sizes)[:, np.newaxis] - scale * _LAPLACE_PAIRS)
    sizes = sizes[:, (sizes >= 1).all(axis=0)] if (sizes >= 1).all(axis=0).any() else np.ones((2, 1))
    bounds = [
        min(bound_for(draw.figure, (negatives, positives), shape=draw.shape, neighbours=draw.neighbours), 1.0)
        for negatives, positives in sizes.T.astype(np.int64).tolist()
    ]
    noise = [quantile(draw.shape, probability) for probability in _PROBABILITIES.tolist()]
    return float(np.quantile(np.outer(bounds, noise), draw.confidence))


def _from_counts(draw: FigureDraw, *, seed: int, sampling: Sampling) -> dict[str, Any]:
    counts = draw.counts
    if counts is None:
        raise ValueError("counts: got None; must be the noisy counts of the release")
    traced = trace(counts)
    fields: dict[str, Any] = {
        "positives": round(max(traced.sizes[1], 0.0), DECIMALS),
        "negatives": round(max(traced.sizes[0], 0.0), DECIMALS),
        "status": OK if traced.defined else UNDEFINED,
    }
    if not traced.defined:
        return {"figure": Figure(value=None), **fields}
    if draw.figure == "auc":
        curve = summarise_curve(counts, seed=seed, sampling=sampling)
        figure = curve.auc
        fields |= {"status": curve.status, "at_ends": curve.at_ends}
    else:
        figure = _precision(draw, counts, traced, seed=seed, effect=sampling.effect().value)
    return {"figure": replace(figure, value=round(figure.number, DECIMALS)), **fields}


def _precision(draw: FigureDraw, counts: RocDraw, traced: Trace, *, seed: int, effect: float) -> Figure[float]:
    if draw.weighted is None:
        figure = precision_from_counts(counts, traced, seed=seed, effect=effect)
    else:
        figure = precision_from_sum(counts, draw.weighted, traced, seed=seed, effect=effect)
    return figure if draw.values is None else lowered_by_ties(figure, traced.edges, traced.sizes, draw.values)
