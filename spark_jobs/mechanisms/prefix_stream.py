"""A running count released at every step of a stream, in zero-concentrated differential privacy and bounded memory.

The square root of summation (``square_root``) remembers its whole past. Here its first column ``f(k)`` is replaced by
``g(k) = sum w_i d_i^k``, a few exponentials with positive weights that add up to 1, fitted to ``f`` in advance: then
all the past that matters is one decaying sum for each exponential (Dvijotham, McMahan, Pillutla, Steinke, Thakurta,
"Efficient and near-optimal noise generation for streaming differential privacy", FOCS 2024). Eight of them come
within a thousandth of the square root's variance at 32,768 steps.

With ``G`` the lower Toeplitz matrix of ``g``, measured is ``y = G^-1 A x`` and released ``G (y + z)``: at each step

    y = S - sum w_i d_i s_i,   s_i <- d_i s_i + y   (S: the exact running count)
    m = round(y / u) + noise,  r_i <- d_i r_i + u m,   release sum w_i r_i

``y`` is computed in fixed point and put on a lattice of step ``u = 2^-24`` before whole noise is added; the release
is a function of the noisy lattice points.

Privacy: the released steps together are ``rho``-zCDP, also where what comes next depends on what was released, since
noise is added to each step's ``y`` afresh (Denisov, McMahan, Rush, Smith, Thakurta, NeurIPS 2022; composition of
zCDP). The 2-norm sensitivity of ``y / u`` has three parts:

* of ``G^-1 A x`` itself, a Toeplitz matrix: as in ``square_root``, for a row that comes or goes (``ADD_REMOVE``); for
  one that is replaced (``REPLACE_ONE``), the larger of that, where the new row is not counted at any step, and the
  sensitivity to a row that moves to another step;
* the lattice: both tables' points are moved by at most a half at each step, by one in their difference;
* fixed point: all divisions are rounded down, an error of at most ``e = 2^-63`` at a step. An error in ``s_i`` is as
  good as a change of the input that decays like ``d_i^k``. The inverse of a log-convex series has one positive
  coefficient and then negative ones of smaller sum (Kaluza 1928), so ``G^-1`` at most doubles it: below ``2 T e`` after
  T steps, which for 2^20 steps is less than ``2^-17`` of a lattice step.

Protected is one row, one event; a person with k events at ``rho`` has loss ``k^2 rho``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.optimize import nnls

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Cost, Noise, gaussian_stddev
from spark_jobs.mechanisms.square_root import column_sensitivity, series_inverse

MAX_STEPS = 1 << 20
MAX_TOTAL = 1 << 38
"""Rows of a whole stream, so that sums fit int64: more than an even share of them in one step count as the share."""
_PLACES = 64
_COEFFICIENT_PLACES = 30
_LATTICE_PLACES = 24


@dataclass(frozen=True, kw_only=True)
class StreamShape:
    """The public facts of a stream of running counts.

    Attributes:
        steps: how many there will be at most; 1 to 2^20.
        exponentials: how much is remembered; more come nearer to the square root.
        neighbours: the relation.
    """

    steps: int
    neighbours: Neighbours
    exponentials: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MAX_STEPS:
            raise ValueError(f"steps: got {self.steps}; must be 1 to {MAX_STEPS}")
        if not 1 <= self.exponentials <= 32:
            raise ValueError(f"exponentials: got {self.exponentials}; must be 1 to 32")

    @property
    def coefficients(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """``w_i`` and ``d_i`` in units of 2^-30: whole numbers."""
        return _fitted(self.steps, self.exponentials)

    def column(self) -> FloatArray:
        """``g(0), ..., g(steps - 1)``: the weights of past noise in a release."""
        weights, decays = (np.array(numbers) / float(1 << _COEFFICIENT_PLACES) for numbers in self.coefficients)
        k = np.arange(self.steps)
        column: FloatArray = np.sum([weight * decay**k for weight, decay in zip(weights, decays, strict=True)], axis=0)
        return column

    @property
    def l2_sensitivity(self) -> float:
        """Of the measured points, in lattice steps; rounded up."""
        return _sensitivity(self)

    def variances(self, rho: Cost) -> FloatArray:
        """Of the releases, bounded by those of continuous Gaussian noise; shape (steps,)."""
        stddev = gaussian_stddev(rho, self.l2_sensitivity) / (1 << _LATTICE_PLACES)
        return np.cumsum(self.column() ** 2) * stddev**2


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """What is kept between two steps. ``exact`` and ``sums`` are private, and so is the whole.

    Attributes:
        step: steps so far.
        exact: the exact running count.
        sums: ``s_i`` in fixed point.
        noisy_sums: ``r_i``, which follow from what was released.
    """

    step: int
    exact: int
    sums: tuple[int, ...]
    noisy_sums: tuple[float, ...]

    @classmethod
    def start(cls, shape: StreamShape) -> StreamState:
        """Before the first step."""
        return cls(step=0, exact=0, sums=(0,) * shape.exponentials, noisy_sums=(0.0,) * shape.exponentials)


def release_step(
    state: StreamState, count: int, *, shape: StreamShape, rho: Cost, noise: Noise
) -> tuple[StreamState, float]:
    """One step: its count goes in, the noisy running count comes out; all steps together cost ``rho`` once.

    Keep the new state before the count is published: a step that is released twice with fresh noise costs twice.

    Args:
        state: after the step before.
        count: rows of this step.
        shape: the public facts; the same at every step.
        rho: the cost of the whole stream; the same at every step.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        InvalidRequest: rho is no cost.
        ValueError: the stream is over, or the state is of another shape.
    """
    if state.step >= shape.steps or len(state.sums) != shape.exponentials:
        raise ValueError(f"state: got step {state.step} of {shape.steps}; must be of this shape and before its end")
    weights, decays = shape.coefficients
    exact = state.exact + min(max(int(count), 0), MAX_TOTAL // shape.steps)
    decayed = [decay * kept >> _COEFFICIENT_PLACES for decay, kept in zip(decays, state.sums, strict=True)]
    remembered = sum(weight * kept for weight, kept in zip(weights, decayed, strict=True)) >> _COEFFICIENT_PLACES
    measured = (exact << _PLACES) - remembered
    lattice = (measured + (1 << _PLACES - _LATTICE_PLACES - 1)) >> _PLACES - _LATTICE_PLACES
    noisy = noise.gaussian(np.array([lattice], dtype=np.int64), rho=rho, l2_sensitivity=shape.l2_sensitivity)
    value, whole_one = float(noisy[0]) / (1 << _LATTICE_PLACES), float(1 << _COEFFICIENT_PLACES)
    noisy_sums = tuple(decay / whole_one * kept + value for decay, kept in zip(decays, state.noisy_sums, strict=True))
    after = replace(
        state,
        step=state.step + 1,
        exact=exact,
        sums=tuple(kept + measured for kept in decayed),
        noisy_sums=noisy_sums,
    )
    return after, sum(weight / whole_one * kept for weight, kept in zip(weights, noisy_sums, strict=True))


@lru_cache(maxsize=64)
def _fitted(steps: int, exponentials: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Weights and decays in units of 2^-30; the weights add up to 2^30.

    ``f(k)`` is an integral of ``exp(-t (k + 1/2))`` over ``t``: the decays are ``exp(-t)`` at points that are evenly
    spaced in ``log t``, and the weights fit ``f`` in relative error by nonnegative least squares.
    """
    whole_one = 1 << _COEFFICIENT_PLACES
    rates = np.geomspace(0.05 / steps, 6.0, exponentials) if exponentials > 1 else np.array([1.0 / steps])
    decays = np.rint(np.exp(-rates) * whole_one).astype(np.int64)
    places = np.unique(np.concatenate([np.arange(20), np.geomspace(1, steps, 200).astype(np.int64)]))
    places = places[places < steps]
    k = np.arange(1, steps)
    wanted = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])[places]
    table = (decays / whole_one)[None, :] ** places[:, None]
    weights, _ = nnls(table / wanted[:, None], np.ones(places.size))
    whole = np.rint(weights / weights.sum() * whole_one).astype(np.int64)
    whole[whole.argmax()] += whole_one - whole.sum()
    return tuple(whole.tolist()), tuple(decays.tolist())


@lru_cache(maxsize=64)
def _sensitivity(shape: StreamShape) -> float:
    measured = np.cumsum(series_inverse(shape.column()))
    lattice = math.sqrt(shape.steps) * (1.0 + 2.0**-5)
    # a replaced row may become one that no step counts: the count of a single step changes by that alone
    relations = {Neighbours.ADD_REMOVE, shape.neighbours}
    return max(column_sensitivity(measured, relation) for relation in relations) * (1 << _LATTICE_PLACES) + lattice
