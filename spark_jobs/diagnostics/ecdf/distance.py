"""Kolmogorov-Smirnov distances of released distribution functions, with intervals and tests that account for the noise.

Everything here is post-processing of releases: it costs nothing.

Intervals. Noise makes the largest difference larger, and the place of the exact largest difference is unknown. Both
ends invert a test. The released differences are scaled by a common factor, fresh noise is added, and the largest result
is compared with the released distance R. The ends of the interval are R times the smallest and the largest factor for
which the result is as large as R often enough.

* The lower end uses the released differences as they are, and noise before smoothing, which is usually larger than
  noise after smoothing. The differences contain noise themselves, which offers more places to reach R.
* The upper end uses only the part of the differences that exceeds their own noise, scaled so that the largest is R, and
  noise after smoothing. The upper end is also at most R plus the error of one place. For the exact distance D is the
  difference at some place, and R is at least the released difference there; so D exceeds R by no more than the error
  there. The largest such error counts, over the places where D may lie; if no difference exceeds its own noise, it
  alone gives the end.

The level was measured on tables drawn at random; it is not proven.

Tests. Samples are simulated under the hypothesis: rows are drawn on the grid, noise is added and smoothed as in the
release, and the distance is computed. If k of the simulated distances are at least the released one, the p-value is
``(1 + k) / (1 + copies)``. Samples are drawn exactly for up to ``EXACT_ROWS`` rows and as a Brownian bridge beyond. The
number of rows in a sample is the released number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import stats
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure import DECIMALS, Ends, Figure
from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.options import ReferenceDistribution
from spark_jobs.contract.results.values import Distance
from spark_jobs.diagnostics._simulation import uniform
from spark_jobs.diagnostics.ecdf.earlier import Earlier
from spark_jobs.diagnostics.ecdf.noise_model import COPIES, band_widths, upper_quantile
from spark_jobs.diagnostics.ecdf.result import Ecdf
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smoothing import smooth_1norm, smooth_2norm

Cdf = Callable[[FloatArray], FloatArray]
SMOOTHERS = {"2-norm": smooth_2norm, "1-norm": smooth_1norm}
TEST_COPIES = {"2-norm": 400, "1-norm": 99}
EXACT_ROWS = 5_000
"""Largest number of rows whose samples are drawn row by row."""


def reference_cdf(reference: ReferenceDistribution) -> Cdf:
    """The cumulative distribution function of the reference that a request names."""
    parameters = reference.parameters
    match reference.distribution:
        case "uniform":
            frozen = stats.uniform(loc=parameters[0], scale=parameters[1] - parameters[0])
        case "normal":
            frozen = stats.norm(loc=parameters[0], scale=parameters[1])
        case "lognormal":
            frozen = stats.lognorm(s=parameters[1], scale=np.exp(parameters[0]))
        case "exponential":
            frozen = stats.expon(scale=parameters[0])
    cdf: Cdf = frozen.cdf
    return cdf


def distance_to(released: Ecdf, cdf: Cdf, *, seed: int = 0, confidence: float | None = None) -> Distance:
    """The largest difference between a release and a continuous reference distribution.

    Args:
        released: the release.
        cdf: the reference's distribution function, vectorised. Its mass beyond the bounds counts at the nearer bound,
            as rows do.
        seed: public seed of the simulations.
        confidence: level of the interval; by default the release's own.

    Raises:
        InvalidRequest: the reference is not a distribution function at the grid's edges.
    """
    level = released.confidence if confidence is None else confidence
    expected = _at_edges(released, cdf)
    if released.status == UNDEFINED:
        return _undefined_distance(level)
    value, at = _largest(released, released.cdf - expected)
    noise = SeededNoise(seed)
    copies = TEST_COPIES[released.smoothing]
    ranks = []
    samples = _samples(expected, released.noise.rows, noise)
    for errors in released.noise.errors(expected, noise, copies=copies):
        ranks += [float(np.abs(_smoothed(released, next(samples) + error) - expected).max()) for error in errors]
    ends = _ends(released.cdf - expected, ((released, np.arange(released.cdf.size)),), SeededNoise(seed), level)
    return _tested(value, at, np.array(ranks), ends, level)


def distance_between(one: Ecdf, other: Ecdf | Earlier, *, seed: int = 0, confidence: float | None = None) -> Distance:
    """The largest difference between two releases, at the edges that their grids have in common.

    Args:
        one: a release.
        other: a release of other rows, or of the same table at another time, with independent noise. If some rows are
            in both tables, the test is conservative: it treats the two as independent samples.
        seed: public seed of the simulations.
        confidence: level of the interval; by default that of ``one``.

    Raises:
        InvalidRequest: the grids have no edge in common, apart from their bounds.
    """
    level = one.confidence if confidence is None else confidence
    mine, theirs = _common_edges(one, other)
    if UNDEFINED in (one.status, other.status):
        return _undefined_distance(level)
    value, at = _largest(one, one.cdf[mine] - other.cdf[theirs], mine)
    noise = SeededNoise(seed)
    sizes = one.noise.rows, other.noise.rows
    copies = min(TEST_COPIES[one.smoothing], TEST_COPIES[other.smoothing])
    joint = (sizes[0] * one.cdf[mine] + sizes[1] * other.cdf[theirs]) / sum(sizes)
    pooled = [_pooled(one, mine, joint), _pooled(other, theirs, joint)]
    draws = [
        _copies(release, cdf, kept, noise, copies)
        for release, cdf, kept in zip((one, other), pooled, (mine, theirs), strict=True)
    ]
    ranks = np.array([float(np.abs(a - b).max()) for a, b in zip(*draws, strict=True)])
    differences = one.cdf[mine] - other.cdf[theirs]
    ends = _ends(differences, ((one, mine), (other, theirs)), SeededNoise(seed), level)
    return _tested(value, at, ranks, ends, level)


def _largest(released: Ecdf, differences: FloatArray, cells: Int64Array | None = None) -> tuple[float, float]:
    """The largest absolute difference, and the value at which it occurs."""
    place = int(np.abs(differences).argmax())
    return float(np.abs(differences[place])), float(released.values[place if cells is None else cells[place]])


def _at_edges(released: Ecdf, cdf: Cdf) -> FloatArray:
    """The reference's mass below the end of each cell, shape (cells,)."""
    with np.errstate(all="ignore"):
        below = np.asarray(cdf(released.grid.edges[released.cuts[1:-1]]), dtype=np.float64)
    expected = np.append(below, 1.0)
    if below.shape != (released.cdf.size - 1,) or not (np.diff(expected, prepend=0.0) >= 0).all():
        raise InvalidRequest(
            "reference", None, "must be a distribution function that rises from 0 to 1", "give a continuous one"
        )
    return expected


def _samples(cdf: FloatArray, rows: float, noise: SeededNoise) -> Iterator[FloatArray]:
    """Empirical distribution functions of simulated samples of ``rows`` rows, without end; each of shape (cells,)."""
    count = max(1, round(rows))
    steps = np.sqrt(np.maximum(np.diff(cdf, prepend=0.0), 0.0))
    while True:
        if count <= EXACT_ROWS:
            cells = np.minimum(np.searchsorted(cdf, uniform(noise, count)), cdf.size - 1)
            yield np.cumsum(np.bincount(cells, minlength=cdf.size)) / count
        else:
            walk = np.cumsum(steps * ndtri(uniform(noise, cdf.size)))
            yield cdf + (walk - cdf * walk[-1]) / np.sqrt(count)


def _copies(
    released: Ecdf | Earlier, cdf: FloatArray, kept: Int64Array, noise: SeededNoise, copies: int
) -> Iterator[FloatArray]:
    """Simulated releases of samples from ``cdf``, with sampling, noise and smoothing, at the cells ``kept``."""
    samples = _samples(cdf, released.noise.rows, noise)
    for errors in released.noise.errors(cdf, noise, copies=copies):
        for error in errors:
            yield _smoothed(released, next(samples) + error)[kept]


def _ends(
    differences: FloatArray, compared: Sequence[tuple[Ecdf | Earlier, Int64Array]], noise: SeededNoise, level: float
) -> tuple[float, float]:
    """Ends of an interval for the largest absolute difference without noise.

    Args:
        differences: as released, shape (k,).
        compared: the releases whose noise the differences have, each with its k cells.
        noise: sampler with a public seed.
        level: nominal level.
    """
    value, tail = float(np.abs(differences).max()), (1 - level) / 2
    copies = min(COPIES, *(TEST_COPIES[release.smoothing] for release, _ in compared))
    copies = max(copies, math.ceil(1 / tail) - 1)  # so many show the share ``tail`` of them
    reach = np.zeros(differences.size)
    for release, kept in compared:
        smoother = SMOOTHERS[release.smoothing]
        widths = band_widths(
            release.noise, release.cdf, smoother=smoother, confidence=level, copies=copies, noise=noise
        )
        reach = np.hypot(reach, widths.single[kept])
    beyond = np.maximum(np.abs(differences) - reach, 0.0)
    surest = np.sign(differences) * beyond * value / max(float(beyond.max()), 1e-12)
    shares = []
    for one, *others in zip(*(_errors(release, kept, noise, copies) for release, kept in compared), strict=True):
        before, after = one - sum(others)
        shares.append([_shares_within(value, differences, before)[0], _shares_within(value, surest, after)[1]])
    lower, upper = np.array(shares).T
    low = value * min(1.0, -upper_quantile(-lower, 1 - tail))
    may_be_largest = np.abs(differences) + reach >= low
    high = value + float(reach[may_be_largest].max())
    if beyond.any():
        high = min(high, max(value, value * upper_quantile(upper, 1 - tail)))
    return low, min(1.0, high)


def _errors(released: Ecdf | Earlier, kept: Int64Array, noise: SeededNoise, copies: int) -> Iterator[FloatArray]:
    """Simulated errors of a released function at the cells ``kept``, before smoothing and after; shape (2, k)."""
    for errors in released.noise.errors(released.cdf, noise, copies=copies):
        for error in errors:
            smoothed = _smoothed(released, released.cdf + error) - released.cdf
            yield np.stack([error, smoothed])[:, kept]


def _shares_within(value: float, differences: FloatArray, errors: FloatArray) -> tuple[float, float]:
    """The smallest share of the differences whose largest sum with the errors is the value, and the largest; from 0.

    The largest sum is convex in the share, so it is below the value between these two. Both are 0 if it never is.
    """
    signed, sizes = np.where(differences < 0, -errors, errors), np.maximum(np.abs(differences), 1e-12)
    first, last = float(((-value - signed) / sizes).max()), float(((value - signed) / sizes).min())
    if first > last:
        return 0.0, 0.0
    return (0.0 if first > 0 else max(last, 0.0)), max(last, 0.0)


def _pooled(release: Ecdf | Earlier, kept: Int64Array, joint: FloatArray) -> FloatArray:
    """The common distribution under the hypothesis, interpolated to the cells of one of the releases."""
    cells = np.arange(release.cdf.size)
    pooled: FloatArray = np.interp(cells, np.concatenate([[-1], kept]), np.concatenate([[0.0], joint]))
    return pooled


def _common_edges(one: Ecdf, other: Ecdf | Earlier) -> tuple[Int64Array, Int64Array]:
    """The cells of both releases that end at the same value, and the last cell of each."""
    ends, others = one.grid.edges[one.cuts[1:-1]], other.grid.edges[other.cuts[1:-1]]
    _, mine, theirs = np.intersect1d(ends, others, return_indices=True)
    if mine.size == 0:
        raise InvalidRequest(
            "other", None, "must share edges of its grid with this release", "release both with the same bounds"
        )
    return np.append(mine, one.cdf.size - 1), np.append(theirs, other.cdf.size - 1)


def _smoothed(released: Ecdf | Earlier, fractions: FloatArray) -> FloatArray:
    return SMOOTHERS[released.smoothing](fractions, total=1.0)


def _tested(value: float, at: float, null: FloatArray, ends: tuple[float, float], level: float) -> Distance:
    # without noise a simulated distance may equal the released one up to rounding
    as_large = int((null >= value - 1e-9).sum())
    return Distance(
        figure=Figure(value=round(value, DECIMALS), interval=Ends(*(round(end, DECIMALS) for end in ends))),
        at=at,
        p_value=round((1 + as_large) / (1 + null.size), DECIMALS),
        p_value_floor=round(1 / (1 + null.size), DECIMALS),
        confidence=level,
    )


def _undefined_distance(level: float) -> Distance:
    return Distance(figure=Figure(value=None), at=None, p_value=None, p_value_floor=None, confidence=level)
