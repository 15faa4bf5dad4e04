"""Keys that are not public, with noisy rows and sums: a key is released only if its noisy rows exceed a threshold.

A key that no row has is never released, so no key is invented. Let each privacy unit have at most one row in each key.
The numbers of every key with at least ``min_units`` rows get the noise of ``cell_sums``; the key and its noisy numbers
are released if its noisy rows exceed a public threshold; otherwise nothing about the key is released. Let q be the
probability that the noisy rows of a key with exactly ``min_units`` rows exceed the threshold: the threshold is the
smallest number for which q is at most delta.

Privacy, for one row. ``ADD_REMOVE``: D' has one row more than D, in key g. All other keys have the same law. If g has
at least ``min_units`` rows in both tables, its noisy numbers are epsilon-DP, and they alone decide whether g is
released. If g has ``min_units`` rows in D' and one row less in D, it is never released from D, and is released from D'
with probability q: outputs without g have 1 - q times the probability under D' that they have under D. So the
probabilities P and P' of a set of outputs under D and D' satisfy ``P' <= e^epsilon P + delta``, and also
``P <= e^epsilon P'`` as ``1 / (1 - q) <= e^epsilon``. If g has fewer rows in both tables, nothing changes.
``REPLACE_ONE``: noise is drawn at half of epsilon, and a row leaves one key and enters another. Let r, at most epsilon,
be the loss of the keys that can be released from both tables. A key that reaches ``min_units`` in D' only, together
with one that reaches it in D only, costs ``delta`` and no more, as ``max(q, 1 - e^(epsilon - r) (1 - q)) <= delta``;
and the absence of the latter key costs ``ln(1 / (1 - q)) <= epsilon / 2``, which is the cost of one removed row.
Incomplete rows do not affect whether a key is released; their number is one more noisy number.

A unit with rows in k keys counts as k rows: group privacy (``contract.privacy.delta_of_rows``). If a
unit is in at most k keys (``bound``), delta is that of the whole unit, and the threshold is the smallest number with
``1 - (1 - q)^k <= delta``: the probability that any of a unit's k keys with exactly ``min_units`` rows is released. The
keys that can be released from both tables lose at most k times epsilon. If units are replaced, j of k keys are lost and
j' of k are opened, and ``max(1 - (1 - q)^j, 1 - e^(k epsilon - r) (1 - q)^j') <= delta``.

Gaussian noise (``cell_gaussian``), for a whole unit of at most k keys. Rho is the largest that epsilon and half of
delta allow, so that ``H(epsilon) <= delta / 2``, where H is the hockey-stick divergence of the keys that can be
released from both tables; the threshold has the other half. Let c and c' be the probabilities that no key is released
that only the first, or only the second, table can release; both are at least ``1 - delta / 2``. Outputs with such a key
of the first table have probability ``1 - c``, and all others contribute ``c H(epsilon - ln(c / c'))``. As ``H(x - d) <=
H(x) + 1 - e^-d`` for every ``d >= 0``, the sum is at most ``delta / 2 + max(1 - c, 1 - c')``, and so at most delta.

The rule. Of the two kinds of noise, the one is drawn whose threshold times its standard deviation is smaller; all of
these are public. Noise that is drawn jointly has both proportional to k, Gaussian noise to the root of k. By the
threshold alone, a unit of three keys would have twice the noise for a threshold that is lower by a twentieth.

The tails are exact sums over the lattice on which the noise is drawn, rounded up, so that q is never above delta:

* two-sided geometric noise of ratio r: ``P(G >= k) = r^k / (1 + r)``;
* the sum of two such variables, which is the noise in rows if there is one measure (the two halves of ``cell_sums``):
  ``r^k ((k + A) (1 - r) + r) / (1 + r)^2`` with ``A = 1 + 2 r^2 / (1 - r^2)``, which is the sum of
  ``((1 - r) / (1 + r))^2 r^m (m + A)`` over m of at least k;
* a coordinate of ``k_norm`` noise of D numbers in a cube, which is the noise in rows if there are several measures:
  ``sum_R e^(-R/s) (2R + 1)^(D-1) (R - k + 1)+ / sum_R e^(-R/s) (2R + 1)^D``, bounded by blocks of radii: the largest
  term of a block above, the smallest below;
* discrete Gaussian noise: ``sum_{m >= k} e^(-m^2 / 2 s^2)``, in blocks whose first term is the largest, over the sum of
  all m, which is at least ``s sqrt(2 pi)`` by Poisson's formula, and at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import GroupBound, Neighbours, exact_decimal, float_below, share
from spark_jobs.mechanisms.cell_gaussian import cost_of_added, gaussian_cell_sums, rho_of_row
from spark_jobs.mechanisms.cell_sums import UNIT, NoisyCellSums, body_of, l2_of_row, noisy_cell_sums
from spark_jobs.mechanisms.noise import Cost, Noise, gaussian_stddev, k_norm_scale, laplace_scale

_ROUNDED = 1 + 1e-9
"""By which scales and probabilities are rounded up: more than doubles lose."""
_SCALES, _BLOCKS, _DEVIATIONS = 400, 1 << 17, 40
"""Radii up to so many scales are summed, in at most so many blocks, and Gaussian noise up to so many standard
deviations beyond a number; what is beyond is below any delta."""


class ExactKeys(Protocol):
    """Exact numbers of k keys; private."""

    @property
    def keys(self) -> Sequence[str]:
        """The texts of the keys."""

    @property
    def rows(self) -> Int64Array:
        """The number of complete rows of each key; shape (k,)."""

    @property
    def incomplete(self) -> Int64Array:
        """The number of incomplete rows of each key; shape (k,)."""

    @property
    def sums(self) -> Int64Array:
        """For each measure, the sum of the rows' places on its lattice, by key; shape (p, k)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscoveredKeys:
    """The released keys, and the public rule by which they were released.

    Attributes:
        keys: texts, in order.
        threshold: a key is released if its noisy rows exceed this number.
        min_units: the fewest rows with which a key can be released.
    """

    keys: tuple[str, ...]
    threshold: float
    min_units: int


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyKeys:
    """The released keys with their noisy numbers.

    Attributes:
        discovered: the keys and the rule of their release.
        cells: the noisy numbers, one entry for each of these keys.
    """

    discovered: DiscoveredKeys
    cells: NoisyCellSums


def noisy_keys(
    batches: Iterable[ExactKeys],
    steps: Sequence[int],
    *,
    min_units: int,
    max_keys: int,
    epsilon: Cost,
    delta: Decimal,
    neighbours: Neighbours,
    noise: Noise,
    bound: GroupBound | None = None,
    method: Literal["auto", "k_norm", "gaussian"] = "k_norm",
) -> NoisyKeys:
    """The keys with their noisy numbers; ``(epsilon, delta)``-DP for one row (see the module's proof).

    Batches are read one at a time, and only keys that are released are kept.

    Args:
        batches: exact numbers by key; each key is in one batch only.
        steps: the last place of each measure's lattice.
        min_units: the fewest rows with which a key can be released; at least 2.
        max_keys: the largest number of released keys. If more keys pass the threshold, those with the largest noisy
            numbers of rows are released; ties are broken by key.
        epsilon: the cost of all keys together, for one row.
        delta: the delta of all keys together, for one row, or for a whole unit with a bound.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        bound: the most keys of one unit, with one row in each; None where rows are counted for themselves.
        method: the noise; ``auto`` is that of the rule where there is a bound, and ``k_norm`` where there is none.

    Raises:
        InvalidRequest: epsilon or delta is out of range; no batch was read.
    """
    cost, measures = exact_decimal(epsilon, what="epsilon"), len(steps)
    rho = _gaussian_rho(cost, delta, steps, bound, method, neighbours, noise, min_units=min_units)

    def noisy(rows: Int64Array, incomplete: Int64Array, sums: Int64Array) -> NoisyCellSums:
        exact = (rows, incomplete, sums, steps)
        if rho is not None:
            return gaussian_cell_sums(*exact, rho=rho, epsilon=cost, neighbours=neighbours, noise=noise)
        return noisy_cell_sums(*exact, epsilon=cost, neighbours=neighbours, noise=noise)

    # a draw without keys: what is recorded of the noise must not say whether there were any
    none = np.zeros(0, dtype=np.int64)
    released = noisy(none, none, np.zeros((measures, 0), dtype=np.int64))
    limit = key_threshold(released, min_units=min_units, delta=delta, bound=bound)
    keys: list[str] = []
    for batch in batches:
        several = np.flatnonzero(batch.rows >= min_units)
        drawn = noisy(batch.rows[several], batch.incomplete[several], batch.sums[:, several])
        passed = np.flatnonzero(counted(drawn) > limit)
        keys += [batch.keys[place] for place in several[passed].tolist()]
        released = _joined(released, _at(drawn, passed))
        if len(keys) > 2 * max_keys:
            keys, released = _largest(keys, released, max_keys)
    keys, released = _largest(keys, released, max_keys)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    discovered = DiscoveredKeys(
        keys=tuple(keys[place] for place in order), threshold=limit / steps_of_row(released), min_units=min_units
    )
    return NoisyKeys(discovered=discovered, cells=_at(released, order))


def _gaussian_rho(
    epsilon: Decimal,
    delta: Decimal,
    steps: Sequence[int],
    bound: GroupBound | None,
    method: str,
    neighbours: Neighbours,
    noise: Noise,
    *,
    min_units: int,
) -> Decimal | None:
    """The rho of one row, if noise is to be Gaussian; a function of public numbers."""
    if method == "k_norm" or (method == "auto" and bound is None):
        return None
    try:
        rho = rho_of_row(epsilon, share(delta, 2), bound)
    except InvalidRequest:
        if method == "gaussian":
            raise _unfit(delta) from None
        return None
    if method == "gaussian":
        return rho
    of_pure = share(epsilon, 2) if neighbours is Neighbours.REPLACE_ONE else epsilon
    none = np.zeros(0, dtype=np.int64)
    empty = NoisyCellSums(
        steps=tuple(steps), numbers=none, incomplete=none, epsilon=of_pure, joint=noise.joint or len(steps) < 2
    )
    far = replace(empty, joint=True, rho=cost_of_added(rho, 1 + len(steps), neighbours))
    pure, gaussian = (
        key_threshold(one, min_units=min_units, delta=delta, bound=bound) / steps_of_row(one) * one.law.stddev(1.0, 0.0)
        for one in (empty, far)
    )
    return rho if gaussian < pure else None


def steps_of_row(cells: NoisyCellSums) -> int:
    """The number of lattice steps that one row adds to ``counted``."""
    if cells.rho is not None or len(cells.steps) > 1:
        return UNIT
    return cells.steps[0] if cells.steps else 1


def counted(cells: NoisyCellSums) -> NDArray[np.object_]:
    """Each key's noisy rows in lattice steps, as Python's integers, which do not overflow."""
    numbers = cells.numbers.astype(object)
    halves = len(cells.steps) == 1 and cells.rho is None
    rows: NDArray[np.object_] = numbers[:, 0] + numbers[:, 1] if halves else numbers[:, 0]
    return rows


def key_threshold(cells: NoisyCellSums, *, min_units: int, delta: Decimal, bound: GroupBound | None = None) -> int:
    """The public threshold of noisy rows that a key must exceed to be released, in lattice steps of ``counted``.

    Keys with fewer than ``min_units`` rows get no noise and are never released. The threshold is the smallest whole
    number that the noisy rows of a key with exactly ``min_units`` rows exceed with a probability of at most delta.

    With a bound, any of a unit's keys; with Gaussian noise, with a probability of at most half of delta.

    Args:
        cells: any noisy cells with the noise that the keys get. Only their lattices (``steps``), their cost
            (``epsilon``) and ``joint`` are read.
        min_units: the fewest rows with which a key can be released.
        delta: of one row, which is in one key, or of a unit with a bound; above 0.
        bound: the most keys of one unit; None where rows are counted for themselves.

    Raises:
        InvalidRequest: delta is 0, or so large that the absence of a key would cost more than epsilon.
    """
    chance = float_below(delta if cells.rho is None else share(delta, 2))
    if bound is not None and 0 < chance < 1:
        chance = -math.expm1(math.log1p(-chance) / bound.groups) / _ROUNDED
    if not 0 < chance < 1 or -math.log1p(-chance) > float_below(cells.epsilon):
        raise _unfit(delta)
    beyond = tail_of_rows(cells)
    high = 1
    while beyond(high + 1) > chance:
        high *= 2
    low = -1  # the noise alone exceeds this one too often
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if beyond(middle + 1) <= chance else (middle, high)
    return steps_of_row(cells) * min_units + high


def _unfit(delta: Decimal) -> InvalidRequest:
    return InvalidRequest(
        "delta", delta, "must be above 0, and small beside epsilon, for keys that are discovered",
        "give a delta such as '1e-6'",
    )  # fmt: skip


def tail_of_rows(cells: NoisyCellSums) -> Callable[[int], float]:
    """A function of whole numbers k >= 0: the probability that noise in ``counted`` is at least k, rounded up."""
    measures, cost = len(cells.steps), cells.epsilon
    if cells.rho is not None:
        return _tail_of_gaussian(gaussian_stddev(cells.rho, l2_of_row(measures)))
    if measures == 1:
        return _tail_of_halves(laplace_scale(cost, cells.steps[0]))
    if measures and cells.joint:
        return _tail_in_a_cube(k_norm_scale(cost, body_of(measures)), 1 + measures)
    return _tail_of_one(laplace_scale(cost, UNIT * (1 + measures) if measures else 1))


def _tail_of_gaussian(stddev: float) -> Callable[[int], float]:
    stddev *= _ROUNDED
    size = max(math.ceil(_DEVIATIONS * stddev / _BLOCKS), 1)
    places = size * np.arange(-(-math.ceil(_DEVIATIONS * stddev) // size) + 1, dtype=np.float64)
    whole = max(stddev * math.sqrt(2 * math.pi), 1.0)
    return lambda k: min(_ROUNDED * size * float(np.exp(-(((k + places) / stddev) ** 2) / 2).sum()) / whole, 1.0)


def _tail_of_one(scale: float) -> Callable[[int], float]:
    scale *= _ROUNDED
    ratio = math.exp(-1 / scale)
    return lambda k: _ROUNDED * math.exp(-k / scale) / (1 + ratio)


def _tail_of_halves(scale: float) -> Callable[[int], float]:
    scale *= _ROUNDED
    ratio, rest = math.exp(-1 / scale), -math.expm1(-1 / scale)
    last = rest + 2 * ratio**2 / (1 + ratio) + ratio  # (1 - r) A + r
    return lambda k: _ROUNDED * math.exp(-k / scale) * (k * rest + last) / (1 + ratio) ** 2


def _tail_in_a_cube(scale: float, numbers: int) -> Callable[[int], float]:
    scale *= _ROUNDED
    size = max(math.ceil(_SCALES * scale / _BLOCKS), 1)
    first = size * np.arange(-(-math.ceil(_SCALES * scale) // size), dtype=np.float64)
    last = first + (size - 1)
    small, large = ((2 * radius + 1) / (2 * scale) for radius in (first, last))
    whole = float((np.exp(-last / scale) * small**numbers).sum())

    def beyond(k: int) -> float:
        above = np.maximum(last - k + 1, 0.0) / (2 * scale)
        return _ROUNDED * float((np.exp(-first / scale) * large ** (numbers - 1) * above).sum()) / whole

    return beyond


def _at(cells: NoisyCellSums, places: Int64Array | list[int]) -> NoisyCellSums:
    incomplete = cells.incomplete[places] if cells.steps else cells.incomplete
    return replace(cells, numbers=cells.numbers[places], incomplete=incomplete)


def _joined(one: NoisyCellSums, other: NoisyCellSums) -> NoisyCellSums:
    return replace(
        one,
        numbers=np.concatenate([one.numbers, other.numbers]),
        incomplete=np.concatenate([one.incomplete, other.incomplete]),
    )


def _largest(keys: list[str], cells: NoisyCellSums, limit: int) -> tuple[list[str], NoisyCellSums]:
    """The keys with the most noisy rows; a function of what is released."""
    if len(keys) <= limit:
        return keys, cells
    rows = counted(cells).tolist()
    places = sorted(range(len(keys)), key=lambda place: (-rows[place], keys[place]))[:limit]
    return [keys[place] for place in places], _at(cells, places)
