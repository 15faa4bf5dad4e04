"""Shrinkage of noisy lines towards a common line of all groups: empirical Bayes from released values alone.

In the *centred box*, ``a = 2 x - 1`` and ``b = 2 y - 1`` in [-1, 1]. A group's least squares line has a height p at a
place m and a slope s that solve ``M (p, s) = c``. M consists of the number of rows and of the sums of ``a - m`` and
``(a - m)^2``; c consists of the sums of ``b`` and ``(a - m) b``. All sums have noise of a known variance.

1. *The matrix M.* Three things are estimated in turn: numbers of rows, means of a and ``a^2``, and variances of a.
   Groups vary around a common mean with a common spread. Both are estimated from the noisy sums (``_population``), and
   each group's values are shrunk towards the mean according to the ratio of noise and spread. Variances are positive,
   so their laws are normal laws truncated at 0 (``_variances``). M is then replaced by its expectation (regression
   calibration of errors in variables); m is the expected mean of a.
2. *Lines.* ``c - M (p, s)`` is noise: that of c, and what remains of the noise of M. Lines vary around a common line in
   the same way. They also vary as least squares lines do from sample to sample, with covariances ``v inverse(M)`` for
   a variance v of the rows about their lines; the lines of groups with few rows or little spread of a vary most. Lines
   are shrunk towards the common line: the result is close to least squares if the noise is small, and close to the
   common line if noise dominates. This is ridge regression with a penalty that depends on the noise and the other
   groups.

A single group is shrunk towards the prior: heights around the middle of the box, slopes of standard deviation
``sqrt SLOPES``. All of this is post-processing of the draw, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.regression.moments import NoisyMoments

HEIGHTS, SLOPES = 1 / 3, 1 / 3
"""Prior variances: those of heights that are uniform over the box, and of slopes uniform between its diagonals."""
WIDEST = np.diag([HEIGHTS, 1.0])
"""The largest variances of the heights and slopes of groups whose x fills the box: of lines from corner to corner."""
LIKE = 0.05
"""Prior spread between groups as a fraction of the largest; it has the weight of ``_GROUPS`` groups."""
_GROUPS = 2.0
VARIANCE = 1 / 3
"""Prior variance of a within a group: that of uniform values."""
ABOUT_LINES = 0.02
"""Prior variance of rows about their group's line; it has the weight of ``_GROUPS`` groups."""
MIN_SPREAD_OF_ROWS = 0.1
"""Smallest standard deviation of the groups' numbers of rows, as a fraction of their mean."""
FURTHEST = -30.0
"""Lower limit, in standard deviations, of a noisy spread; avoids underflow."""
ROUNDS = 25
SCALES = 8
"""How many values stand for what the common variance of a may be."""
ROWS, X, Y, XX, XY = range(5)
"""Places of the sums in covariances of their noise, in the order of ``SUMS``."""
DIGITS = 9
"""Significant digits of values shared by all groups: sums over groups differ between machines in their last bits."""
Informed = tuple[FloatArray, FloatArray]
"""Information matrices, shape (groups, 2, 2), and their products with each group's estimates, shape (groups, 2)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shrunk:
    """Shrunk lines in the centred box; arrays have shape (groups,) unless stated.

    Attributes:
        place: place m of the heights, the expected mean of a in each group.
        height, slope: height of each line at this place, and its slope.
        covariances: covariances of the errors of height and slope; shape (groups, 2, 2).
        information: information of the noisy sums on height and slope, weighted by the noise; shape (groups, 2, 2).
        spread: covariances of least squares lines about the common one, at each group's place; shape (groups, 2, 2).
        widest: the largest variances of heights and slopes of groups, as a matrix.
        scales: equally likely values for each group's exact spread of a, as multiples of its estimate; shape
            (groups, SCALES).
    """

    place: FloatArray
    height: FloatArray
    slope: FloatArray
    covariances: FloatArray
    information: FloatArray
    spread: FloatArray
    widest: FloatArray
    scales: FloatArray

    def at(self, places: FloatArray) -> FloatArray:
        """Heights of the lines at these places of the centred box; shape (groups, places)."""
        return self.height[:, None] + self.slope[:, None] * (places - self.place[:, None])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Design:
    """The expected matrix M of each group, and its uncertainty; arrays of shape (groups,).

    Attributes:
        rows: number of rows.
        place: mean of a.
        squares: sum of ``(a - place)^2``; the sum of ``a - place`` is 0.
        of_rows, of_sum, of_squares: variances of the number of rows and of these two sums.
        scales: equally likely multiples of ``squares``, shape (groups, SCALES): the common variance of a is estimated,
            with one error for all groups.
    """

    rows: FloatArray
    place: FloatArray
    squares: FloatArray
    of_rows: FloatArray
    of_sum: FloatArray
    of_squares: FloatArray
    scales: FloatArray


def shrunk_lines(moments: NoisyMoments) -> Shrunk:
    """The shrunk line of each group.

    Args:
        moments: released sums of each group.
    """
    noise = moments.covariance + moments.steps**-4 * np.eye(5)  # sums are whole steps
    design = _design(moments, noise)
    place, one, nothing = design.place, np.ones_like(design.rows), np.zeros_like(design.rows)
    m = _matrix(design.rows, nothing, design.squares)
    right = np.stack([moments.y, moments.xy - place * moments.y], axis=-1)
    of_right = _matrix(noise[Y, Y] * one, -noise[Y, Y] * place, noise[XY, XY] + noise[Y, Y] * place**2)

    def observed(lines: FloatArray, about: FloatArray) -> Informed:
        """The information on the lines in the two equations, weighted by the noise for lines close to ``lines``."""
        pp, ps, ss = (lines[:, i] * lines[:, j] + about[:, i, j] for i, j in ((0, 0), (0, 1), (1, 1)))
        inexact = _matrix(
            design.of_rows * pp + design.of_sum * ss, design.of_sum * ps, design.of_sum * pp + design.of_squares * ss
        )
        weighted = times(m, inverse(of_right + inexact))
        return times(weighted, m), _applied(weighted, right)

    # where x fills a part of the box, lines from corner to corner of that part are as much steeper
    steeper = np.diag(
        [1.0, max(1.0, VARIANCE / float(_rounded(design.squares.sum(keepdims=True) / design.rows.sum())[0]))]
    )
    prior = _Shared(mean=np.zeros(2), spread=np.diag([HEIGHTS, SLOPES]) @ steeper)
    middle = float(_rounded(place.mean()))
    lines, covariances, spread = _population(observed, prior, WIDEST @ steeper, away=place - middle, design=m)
    information, _ = observed(lines, covariances)
    return Shrunk(
        place=place,
        height=lines[:, 0],
        slope=lines[:, 1],
        covariances=covariances,
        information=information,
        spread=spread,
        widest=WIDEST @ steeper,
        scales=design.scales,
    )


def _design(moments: NoisyMoments, noise: FloatArray) -> _Design:
    rows, of_rows, kept = _rows(moments, noise[ROWS, ROWS])
    sums = np.stack([moments.x, moments.xx], axis=-1)
    # the number of rows is uncertain too: its effect on the sums is that of rows with the mean of all groups
    of_all = np.clip(_rounded(sums.sum(axis=0) / rows.sum()), [-1.0, 0.0], 1.0)
    of_both = kept * noise[ROWS, XX] * np.array([0.0, 1.0])
    apart = noise[np.ix_([X, XX], [X, XX])] - of_both[:, None] * of_all - of_all[:, None] * of_both
    precise = inverse(apart + of_rows[:, None, None] * (of_all[:, None] * of_all)) * rows[:, None, None]
    informed = precise * rows[:, None, None], _applied(precise, sums)
    prior = _Shared(mean=np.array([0.0, 1 / 3]), spread=np.diag([1 / 3, 0.1]))
    figures, covariance, _ = _population(lambda *_: informed, prior, prior.spread, away=np.zeros_like(rows))
    mean, of_mean = np.clip(figures[:, 0], -1.0, 1.0), covariance[:, 0, 0]
    # about the expected mean of a, whose own error is made of the same noise: hence the last term
    observed = (moments.xx - 2 * mean * moments.x + mean**2 * rows) / rows + of_mean
    of_squares = noise[XX, XX] + 4 * mean**2 * noise[X, X] + 2 * mean**2 * of_both[1] + mean**4 * of_rows
    spread, of_spread, scales = _variances(observed, of_squares / rows**2)
    return _Design(
        rows=rows,
        place=mean,
        squares=rows * spread,
        of_rows=of_rows,
        of_sum=rows**2 * of_mean,
        of_squares=rows**2 * of_spread,
        scales=scales,
    )


def _rows(moments: NoisyMoments, of_one: float) -> tuple[FloatArray, FloatArray, float]:
    """The rows of each group, at least 1, their variances, and how much of their noise is left.

    Private sizes are shrunk towards their mean.
    """
    if moments.neighbours is Neighbours.REPLACE_ONE:
        return np.maximum(moments.rows, 1.0), np.zeros_like(moments.rows), 0.0
    groups = moments.rows.size
    mean = float(_rounded(moments.rows.mean()))
    shown = float(((moments.rows - mean) ** 2).sum()) / max(groups - 1, 1) - of_one
    spread = max(shown, (mean * MIN_SPREAD_OF_ROWS) ** 2)
    kept = float(_rounded(np.array(spread / (spread + of_one)))) if groups > 1 else 1.0
    return np.maximum(mean + kept * (moments.rows - mean), 1.0), np.full(groups, kept * of_one), kept


def _variances(observed: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means and variances of what the groups' variances of a may be: around a common one, and above 0.

    The third result is what they may be as multiples of these means, equally likely, as the common one may be other
    than its estimate: for each group by as much of its error as the mean has of it. Shape (groups, SCALES).

    Args:
        observed: noisy variances, perhaps below 0.
        noise: the variances of their noise.
    """
    noise = np.maximum(noise, 1e-18)

    def expected(common: float, between: float) -> tuple[FloatArray, FloatArray]:
        combined = 1 / (1 / noise + 1 / between)
        return above_0(combined * (observed / noise + common / between), np.sqrt(combined))

    if observed.size == 1:
        return *expected(VARIANCE, VARIANCE**2), np.ones((1, SCALES))
    common, _ = _common(observed, noise)
    between = LIKE * common**2
    for _ in range(ROUNDS):
        means, errors = expected(common, between)
        squares = (errors + (means - common) ** 2).sum()
        between = float(_rounded((_GROUPS * LIKE * common**2 + squares) / (_GROUPS + observed.size)))
        common, multiples = _common(observed, noise + between)
    return means, errors, 1 + (noise / (noise + between))[:, None] * (multiples - 1)


def _common(observed: FloatArray, variances: FloatArray) -> tuple[float, FloatArray]:
    """The common variance of a, above 0, from noisy ones that vary about it by ``variances``.

    The second result is what it may be as multiples of that: the middles of ``SCALES`` equally likely parts of a normal
    law that is cut off at 0.
    """
    weights = 1 / variances
    stddev = float(weights.sum() ** -0.5)
    mean = float((weights * observed).sum() / weights.sum())
    expected = float(_rounded(above_0(np.array([mean]), np.array([stddev]))[0])[0])
    away = max(mean / stddev, FURTHEST)
    beyond = (np.arange(SCALES) + 0.5)[::-1] / SCALES * ndtr(away)
    return expected, _rounded(stddev * (away - ndtri(beyond)) / expected)


def above_0(means: FloatArray, stddevs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and variances of normal distributions truncated to the numbers above 0."""
    away = np.maximum(means / stddevs, FURTHEST)
    hazard = np.exp(-(away**2) / 2 - log_ndtr(away)) / np.sqrt(2 * np.pi)
    return stddevs * (away + hazard), stddevs**2 * np.maximum(1 - hazard * (hazard + away), 1e-6)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shared:
    """What groups have in common: a mean, shape (2,), and a spread about it, shape (2, 2)."""

    mean: FloatArray
    spread: FloatArray


def _population(
    observed: Callable[[FloatArray, FloatArray], Informed],
    prior: _Shared,
    widest: FloatArray,
    *,
    away: FloatArray,
    design: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Posterior means, shape (groups, 2), and covariances, shape (groups, 2, 2), of two parameters of each group.

    The third result is the spread of the groups about the common mean, shape (groups, 2, 2).

    The common mean and spread are estimated by expectation maximisation. The prior of the mean is ``prior``; that of
    the spread is ``LIKE`` times ``widest``, to which it is limited.

    Args:
        observed: information in the noisy sums, given the current means and covariances.
        prior: prior of the common mean.
        widest: the largest spread, shape (2, 2).
        away: offset of each group, shape (groups,): the common ``(u, v)`` means ``(u + away v, v)`` for the group.
        design: matrices M of least squares, shape (groups, 2, 2), if groups vary by chance, too, as the module says.
    """
    one, nothing = np.ones_like(away), np.zeros_like(away)
    there, back = (np.stack([one, side * away, nothing, one], axis=-1).reshape(-1, 2, 2) for side in (1.0, -1.0))
    weak, like = inverse(prior.spread), LIKE * widest
    mean, spread, weight = prior.mean, like, _GROUPS + away.size
    about_lines, of_one = ABOUT_LINES, np.zeros_like(there) if design is None else inverse(design)
    alike, by_chance = _moved(spread, there), about_lines * of_one
    about = alike + by_chance
    means, covariances = _applied(there, mean), about
    for _ in range(ROUNDS):
        information, shown = observed(means, covariances)
        precision = inverse(about)
        covariances = inverse(information + precision)
        weights = times(times(_turned(there), precision), covariances)
        certain = times(times(weights, information), there).sum(axis=0) + weak
        mean = _rounded(_applied(inverse(certain), _applied(weights, shown).sum(axis=0) + _applied(weak, prior.mean)))
        means = _applied(covariances, shown + _applied(precision, _applied(there, mean)))
        apart = means - _applied(there, mean)
        scatter = covariances + apart[:, :, None] * apart[:, None, :]
        share = times(alike, precision)
        either = times(share, by_chance)  # covariances of either part, given the sum of both
        spread = (_GROUPS * like + _moved(_moved(scatter, share) + either, back).sum(axis=0)) / weight
        spread = _lifted(spread, _GROUPS * like / weight)
        limits = np.sqrt(np.minimum(1.0, np.diagonal(widest) / np.diagonal(spread)))
        spread = _rounded(spread * limits[:, None] * limits)  # an outlier must not stop the shrinkage of others
        if design is not None:
            squares = (design * (_moved(scatter, times(by_chance, precision)) + either)).sum() / 2
            about_lines = float(_rounded((_GROUPS * ABOUT_LINES + squares) / weight))
        alike, by_chance = _moved(spread, there), about_lines * of_one
        about = alike + by_chance
    return means, covariances, about


def _lifted(spread: FloatArray, part: FloatArray) -> FloatArray:
    """A spread of which ``part`` is a summand: where sums are so large that rounding left less, at least that."""
    if (np.diagonal(spread) >= np.diagonal(part) / 2).all():
        return spread
    variances = np.maximum(np.diagonal(spread), np.diagonal(part))
    largest = float(np.sqrt(variances.prod()))
    both = float(np.clip(spread[0, 1], -largest, largest))
    return np.array([[variances[0], both], [both, variances[1]]])


def _moved(matrix: FloatArray, by: FloatArray) -> FloatArray:
    """``by @ matrix @ by.T``."""
    return times(times(by, matrix), _turned(by))


def _matrix(first: FloatArray, both: FloatArray, second: FloatArray) -> FloatArray:
    return np.stack([first, both, both, second], axis=-1).reshape(-1, 2, 2)


def _turned(matrix: FloatArray) -> FloatArray:
    return np.swapaxes(matrix, -1, -2)


def times(first: FloatArray, second: FloatArray) -> FloatArray:
    """Products of 2 x 2 matrices, term by term, because a library's order of summation may differ between machines."""
    product: FloatArray = first[..., :1] * second[..., :1, :] + first[..., 1:] * second[..., 1:, :]
    return product


def _applied(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    applied: FloatArray = matrix[..., 0] * vector[..., :1] + matrix[..., 1] * vector[..., 1:]
    return applied


def inverse(matrix: FloatArray) -> FloatArray:
    """Inverses of symmetric 2 x 2 matrices that are positive definite up to rounding."""
    p, q, s = matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 1, 1]
    determinant = np.maximum(p * s - q * q, 1e-15 * p * s)
    turned = np.stack([s, -q, -q, p], axis=-1).reshape(matrix.shape)
    inverse: FloatArray = turned / determinant[..., None, None]
    return inverse


def significant(values: FloatArray, digits: int) -> FloatArray:
    """``values`` rounded to ``digits`` significant digits."""
    return np.array([float(f"{value:.{digits}g}") for value in np.ravel(values)]).reshape(np.shape(values))


def _rounded(values: FloatArray) -> FloatArray:
    return significant(values, DIGITS)
