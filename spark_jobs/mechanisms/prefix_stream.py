"""A running count released at every step of a stream, in zero-concentrated differential privacy and bounded memory.

The square root of summation (``square_root``) needs its whole past. Here its first column ``f(k)`` is replaced by
``g(k) = sum w_i d_i^k``, a few exponentials with positive weights that add up to 1, fitted to ``f`` in advance; then
one decaying sum for each exponential is all that must be remembered (Dvijotham, McMahan, Pillutla, Steinke, Thakurta,
"Efficient and near-optimal noise generation for streaming differential privacy", FOCS 2024). With eight of them the
variance is within a thousandth of that of the square root at 32,768 steps.

With ``G`` the lower Toeplitz matrix of ``g``, the mechanism measures ``y = G^-1 A x`` and releases ``G (y + z)``: at
each step

    y = S - sum w_i d_i s_i,   s_i <- d_i s_i + y   (S: the exact running count)
    m = round(y / u) + noise,  r_i <- d_i r_i + u m,   release sum w_i r_i

``y`` is computed in fixed point and rounded to a lattice of step ``u = 2^-24`` before integer noise is added; the
release is a function of the noisy lattice points.

Privacy: all released steps together are ``rho``-zCDP, even if later inputs depend on earlier releases, since each
step's ``y`` gets fresh noise (Denisov, McMahan, Rush, Smith, Thakurta, NeurIPS 2022; composition of zCDP). The 2-norm
sensitivity of ``y / u`` has three parts:

* ``G^-1 A x`` itself, a Toeplitz matrix: for a row that is added or removed (``ADD_REMOVE``), as in ``square_root``;
  for a row that is replaced (``REPLACE_ONE``), the larger of that (the new row may not be counted at any step) and the
  sensitivity to a row that moves to another step;
* the lattice: rounding moves the point of each table by at most a half at each step, and their difference by at most
  one;
* fixed point: all divisions are rounded down, with an error of at most ``e = 2^-63`` per step. An error in ``s_i`` is
  equivalent to a change of the input that decays like ``d_i^k``. The inverse of a log-convex series has one positive
  coefficient and then negative ones of smaller sum (Kaluza 1928), so ``G^-1`` at most doubles it: below ``2 T e`` after
  T steps, which for 2^20 steps is less than ``2^-17`` of a lattice step.

The guarantee is for one row, that is, one event; the loss of a person with k events is ``k^2 rho``.
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
"""The largest number of rows of a stream, so that sums fit int64; each step is clipped to an equal share of it."""
_PLACES = 64
_COEFFICIENT_PLACES = 30
_LATTICE_PLACES = 24


@dataclass(frozen=True, kw_only=True)
class StreamShape:
    """The public facts of a stream of running counts.

    Attributes:
        steps: the largest number of steps; 1 to 2^20.
        neighbours: the neighbouring relation.
        exponentials: the number of exponentials; more of them approximate the square root better.
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
        """The 2-norm sensitivity of the measured points, in lattice steps, rounded up."""
        return _sensitivity(self)

    def variances(self, rho: Cost) -> FloatArray:
        """Bounds on the variances of the released counts, by continuous Gaussian noise; shape (steps,)."""
        stddev = gaussian_stddev(rho, self.l2_sensitivity) / (1 << _LATTICE_PLACES)
        return np.cumsum(self.column() ** 2) * stddev**2


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """The state between two steps; private, because ``exact`` and ``sums`` are.

    Attributes:
        step: the number of steps so far.
        exact: the exact running count.
        sums: ``s_i`` in fixed point.
        noisy_sums: ``r_i``, which are functions of released values.
    """

    step: int
    exact: int
    sums: tuple[int, ...]
    noisy_sums: tuple[float, ...]

    @classmethod
    def start(cls, shape: StreamShape) -> StreamState:
        """The state before the first step."""
        return cls(step=0, exact=0, sums=(0,) * shape.exponentials, noisy_sums=(0.0,) * shape.exponentials)


def release_step(
    state: StreamState, count: int, *, shape: StreamShape, rho: Cost, noise: Noise
) -> tuple[StreamState, float]:
    """The noisy running count after the next step; all steps together cost ``rho`` once.

    Store the new state before the count is published: a step that is released twice with fresh noise costs twice.

    Args:
        state: the state after the previous step.
        count: the number of rows of this step; private.
        shape: the public facts; the same for all steps.
        rho: the cost of the whole stream; the same for all steps.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        InvalidRequest: rho is not a finite number above 0.
        ValueError: the stream has ended, or the state belongs to another shape.
    """
    if state.step >= shape.steps or len(state.sums) != shape.exponentials:
        raise ValueError(f"state: got step {state.step} of {shape.steps}; must be of this shape and before its end")
    weights, decays = shape.coefficients
    exact = state.exact + min(max(int(count), 0), MAX_TOTAL // shape.steps)
    decayed = [decay * total >> _COEFFICIENT_PLACES for decay, total in zip(decays, state.sums, strict=True)]
    remembered = sum(weight * total for weight, total in zip(weights, decayed, strict=True)) >> _COEFFICIENT_PLACES
    measured = (exact << _PLACES) - remembered
    lattice = (measured + (1 << _PLACES - _LATTICE_PLACES - 1)) >> _PLACES - _LATTICE_PLACES
    noisy = noise.gaussian(np.array([lattice], dtype=np.int64), rho=rho, l2_sensitivity=shape.l2_sensitivity)
    value, whole_one = float(noisy[0]) / (1 << _LATTICE_PLACES), float(1 << _COEFFICIENT_PLACES)
    noisy_sums = tuple(decay / whole_one * total + value for decay, total in zip(decays, state.noisy_sums, strict=True))
    after = replace(
        state,
        step=state.step + 1,
        exact=exact,
        sums=tuple(total + measured for total in decayed),
        noisy_sums=noisy_sums,
    )
    return after, sum(weight / whole_one * total for weight, total in zip(weights, noisy_sums, strict=True))


@lru_cache(maxsize=64)
def _fitted(steps: int, exponentials: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Weights and decays in units of 2^-30; the weights add up to 2^30.

    ``f(k)`` is an integral of ``exp(-t (k + 1/2))`` over ``t``. So the decays are ``exp(-t)`` at points that are evenly
    spaced in ``log t``, and the weights minimise the relative error of the fit to ``f``, by nonnegative least squares.
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
    # a replaced row may become one that no step counts, which changes the count of a single step
    relations = {Neighbours.ADD_REMOVE, shape.neighbours}
    return max(column_sensitivity(measured, relation) for relation in relations) * (1 << _LATTICE_PLACES) + lattice
