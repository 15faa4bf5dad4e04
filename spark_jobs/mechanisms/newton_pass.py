"""One private Newton pass of a logistic fit: the gradient and the Hessian of the log likelihood at public coefficients.

A row is a vector z of lattice steps (``moment_matrix``, without outcome) with a label y. At coefficients b the row has
the probability p of label 1, and adds ``(y - p) z`` to the gradient and ``p (1 - p) z z^T`` to the Hessian. Of the
Hessian, the entries of ``Layout.measured`` are released. What each row adds is rounded to whole numbers
(``LabelledRows``).

Neighbours and sensitivity. Let ``t = min(p, 1 - p)``, so that ``|y - p| <= 1 - t`` and ``p (1 - p) <= t (1 - t)``, and
let z have q entries that can differ from 0 at once, whose products are Q measured entries (``Layout.l1_sensitivity`` of
a row added). A row added or removed changes

    the gradient by at most  A(t) = q (U (1 - t) + 1/2)             in 1-norm,  A(t) / sqrt(q) in 2-norm,
    the Hessian by at most   B(t) = Q steps (U t (1 - t) + 1/2)     in 1-norm,  B(t) / sqrt(Q) in 2-norm,

where ``U = ROUNDING steps`` stands for 1 and 1/2 is the error of rounding. The two are large for different rows: a
surely wrong row, t = 0, changes the gradient most and the Hessian not at all. So they are noised with scales ``b_g``
and ``b_h`` of a fixed ratio, for the largest *joint* loss of one row,

    max over t of  A(t) / b_g + B(t) / b_h  =  epsilon           (two-sided geometric noise, epsilon-DP),
    max over t of  A2(t)^2 / 2 s_g^2 + B2(t)^2 / 2 s_h^2  =  rho  (discrete Gaussian noise, rho-zCDP),

so that a Hessian at a quarter of the gradient's epsilon costs nothing more than the gradient alone. The maximum is over
the values of t that are possible for the public coefficients and the box of z. This makes the pass at coefficients 0,
where every t is 1/2, cheaper than the others. A row replaced is one removed and one added: everything doubles. The
coefficients are functions of earlier passes' noisy values, so passes compose adaptively: epsilons and rhos add up.

With noise that is drawn together within the gradient and within the Hessian (``k_norm``), the first equation holds for
the largest change of a single entry: A and B with 1 in place of q and Q, where ``b_g`` and ``b_h`` are the scales of
the radii. If the cost is too small for this noise, Laplace noise is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import expit

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.options.fits import COEFFICIENT_STEPS, ROUNDING
from spark_jobs.contract.privacy import Neighbours, share_of
from spark_jobs.mechanisms.k_norm import COARSEST, Body
from spark_jobs.mechanisms.moment_matrix import (
    GAUSSIAN,
    K_NORM,
    LAPLACE,
    Layout,
    box,
    noise_copies,
    noise_stddev,
)
from spark_jobs.mechanisms.noise import Noise, SeededNoise, gaussian_stddev, k_norm_scale, laplace_scale

MAX_COEFFICIENT = 1024
_SAFE = 1.0 + 1e-9
"""Above 1 by more than the rounding of the doubles in which losses are computed."""
_SAFE_RADII = _SAFE * (1 + 2 / COARSEST)
"""The same where radii have longer steps than entries, so that each of two losses may be rounded up by a step."""


class ExactSums(Protocol):
    """The exact sums of a pass over the rows; private."""

    @property
    def gradient(self) -> Int64Array:
        """The sum of the rows' gradients; shape (size,)."""
        ...

    @property
    def hessian(self) -> Int64Array:
        """The sum of the rows' Hessians, of which only the upper triangle is read; shape (size, size)."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class NewtonPass:
    """A released gradient and Hessian.

    Attributes:
        position: the coefficients at which both were computed, in multiples of ``1 / COEFFICIENT_STEPS``.
        gradient: noisy entries; ``ROUNDING steps`` stands for 1.
        hessian: noisy measured entries; ``ROUNDING steps^2`` stands for 1.
        method: ``k_norm``, ``laplace`` or ``gaussian``.
        gradient_scale, hessian_scale: parameters of the noise, in these units.
    """

    position: Int64Array
    gradient: Int64Array
    hessian: Int64Array
    method: str
    gradient_scale: float
    hessian_scale: float

    @property
    def coefficients(self) -> FloatArray:
        """The coefficients at which the pass was made, as floats, for a row's entries scaled to [-1, 1]."""
        return self.position / float(COEFFICIENT_STEPS)

    def slope(self, layout: Layout) -> FloatArray:
        """The noisy gradient for a row's entries scaled to [-1, 1]; shape (size,)."""
        return self.gradient / float(ROUNDING * layout.steps)

    def curvature(self, layout: Layout) -> FloatArray:
        """The noisy Hessian for a row's entries scaled to [-1, 1]; shape (size, size)."""
        return layout.filled(self.hessian / float(ROUNDING * layout.steps**2))

    def stddevs(self, layout: Layout) -> tuple[float, float]:
        """The standard deviations of the noise in an entry of ``slope`` and of ``curvature``."""
        return (
            noise_stddev(self.method, self.gradient_scale, self.gradient.size) / (ROUNDING * layout.steps),
            noise_stddev(self.method, self.hessian_scale, self.hessian.size) / (ROUNDING * layout.steps**2),
        )

    def copies(self, count: int, layout: Layout, *, noise: SeededNoise) -> tuple[FloatArray, FloatArray]:
        """Fresh noise only, for simulations; shapes (count, size) and (count, size, size)."""
        gradient = noise_copies(self.method, self.gradient_scale, (count, self.gradient.size), noise)
        hessian = noise_copies(self.method, self.hessian_scale, (count, self.hessian.size), noise)
        return gradient / float(ROUNDING * layout.steps), layout.filled(hessian / float(ROUNDING * layout.steps**2))


def rounding_stddev(rows: float, layout: Layout) -> float:
    """A cautious standard deviation of the rounding error in an entry of ``NewtonPass.slope``.

    What each row adds is rounded by up to half a step; a uniform error of this size has a variance of 1/12. Equal rows
    have equal errors, and how many rows are equal is private, so the errors are added up as if all rows were equal. The
    result depends only on ``rows``, a number of rows that is public or released.
    """
    return rows / (ROUNDING * layout.steps * math.sqrt(12.0))


def on_grid(coefficients: FloatArray) -> Int64Array:
    """The nearest coefficients at which a pass can be made, in multiples of ``1 / COEFFICIENT_STEPS``."""
    within = np.clip(coefficients, -MAX_COEFFICIENT, MAX_COEFFICIENT)
    return np.rint(within * COEFFICIENT_STEPS).astype(np.int64)


def noisy_pass(
    sums: ExactSums,
    position: Int64Array,
    *,
    layout: Layout,
    cost: Decimal,
    method: str,
    hessian_ratio: float,
    neighbours: Neighbours,
    noise: Noise,
) -> NewtonPass:
    """The gradient and the Hessian at ``position`` with noise; the guarantee is in the module.

    Args:
        sums: exact sums at ``position``; private.
        position: public, or computed from earlier noisy values.
        layout: the meaning of a row's entries, without outcome.
        cost: rho for ``gaussian``, otherwise epsilon; the caller has spent it.
        method: the kind of noise that is asked for; the result states the kind that was drawn.
        hessian_ratio: the epsilon or rho of the Hessian divided by that of the gradient, each for the row that changes
            it most.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise.
    """
    changed = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    exact = sums.gradient, sums.hessian[layout.measured]
    method, (first, second), norms = _plan(layout, position, cost, hessian_ratio, method, changed)
    if method == GAUSSIAN:
        distances = tuple(changed * size for size in norms)
        gradient = noise.gaussian(exact[0], rho=first, l2_sensitivity=distances[0])
        hessian = noise.gaussian(exact[1], rho=second, l2_sensitivity=distances[1])
        scales = gaussian_stddev(first, distances[0]), gaussian_stddev(second, distances[1])
    elif method == K_NORM:
        bodies = _boxes(layout, norms, changed)
        gradient = noise.k_norm(exact[0], epsilon=first, body=bodies[0])
        hessian = noise.k_norm(exact[1], epsilon=second, body=bodies[1])
        scales = k_norm_scale(first, bodies[0]), k_norm_scale(second, bodies[1])
    else:
        sizes = tuple(changed * math.ceil(size) for size in norms)
        gradient = noise.laplace(exact[0], epsilon=first, l1_sensitivity=sizes[0])
        hessian = noise.laplace(exact[1], epsilon=second, l1_sensitivity=sizes[1])
        scales = laplace_scale(first, sizes[0]), laplace_scale(second, sizes[1])
    return NewtonPass(
        position=position,
        gradient=gradient,
        hessian=hessian,
        method=method,
        gradient_scale=scales[0],
        hessian_scale=scales[1],
    )


def _plan(
    layout: Layout, position: Int64Array, cost: Decimal, hessian_ratio: float, method: str, changed: int
) -> tuple[str, tuple[Decimal, Decimal], tuple[float, float]]:
    """The method of a pass, what the gradient and the Hessian may cost, and the largest norms of a row's two.

    Passes are made after noise was drawn, so that none is refused: where a part is too small for noise that is drawn
    together, the pass has Laplace noise. Only where radii have longer steps than entries are they paid for.
    """
    for margin in (_SAFE, _SAFE_RADII) if method == K_NORM else ():
        norms, parts = _split(layout, position, hessian_ratio, K_NORM, margin)
        costs = share_of(cost, Decimal(parts[0])), share_of(cost, Decimal(parts[1]))
        bodies = _boxes(layout, norms, changed)
        if any(part < body.smallest_epsilon for part, body in zip(costs, bodies, strict=True)):
            method = LAPLACE
            break
        if margin == _SAFE_RADII or all(body.within(part)[1] == 1 for part, body in zip(costs, bodies, strict=True)):
            return K_NORM, costs, norms
    norms, parts = _split(layout, position, hessian_ratio, method, _SAFE)
    return method, (share_of(cost, Decimal(parts[0])), share_of(cost, Decimal(parts[1]))), norms


def _boxes(layout: Layout, norms: tuple[float, float], changed: int) -> tuple[Body, Body]:
    """What one row can change of the gradient, and of the Hessian."""
    first, second = (changed * math.ceil(size) for size in norms)
    return box(first, layout.size), box(second, int(layout.measured.sum()))


def _split(
    layout: Layout, position: Int64Array, hessian_ratio: float, method: str, margin: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The largest norms of a row's gradient and Hessian, and the share of the joint loss that each of them is."""
    entries = sum(layout.parts)
    products = layout.l1_sensitivity(Neighbours.ADD_REMOVE) // layout.steps**2
    norm = {K_NORM: lambda count: 1.0, LAPLACE: float, GAUSSIAN: math.sqrt}[method]
    counts, power = (norm(entries), norm(products)), 2 if method == GAUSSIAN else 1
    unit = float(ROUNDING * layout.steps)
    gradient = Polynomial([unit + 0.5, -unit]) * counts[0]
    hessian = Polynomial([0.5, unit, -unit]) * (counts[1] * layout.steps)
    # the ratio of losses at t = 0 for the gradient and at t = 1/2 for the Hessian
    weight = hessian_ratio * (float(gradient(0.0)) / float(hessian(0.5))) ** power
    ends = _reach(layout, position)
    norms = _largest(gradient, ends), _largest(hessian, ends)
    joint = _largest(gradient**power + weight * hessian**power, ends) * margin
    return norms, (norms[0] ** power / joint, weight * norms[1] ** power / joint)


def _largest(losses: Polynomial, ends: tuple[float, float]) -> float:
    """The largest value between the ends."""
    turns = [float(root.real) for root in losses.deriv().roots() if abs(root.imag) < 1e-6]
    return float(max(losses(point) for point in (*ends, *np.clip(turns, *ends)))) * _SAFE


def _reach(layout: Layout, position: Int64Array) -> tuple[float, float]:
    """The smallest and the largest ``min(p, 1 - p)`` of any row at ``position``."""
    coefficients = position / float(COEFFICIENT_STEPS)
    low = high = float(coefficients[0])
    free = coefficients[1 : 1 + layout.numbers]
    for block in layout.blocks:
        effects = coefficients[block]
        if effects.size == 1:
            free = np.append(free, effects)
        else:
            low, high = low + min(0.0, float(effects.min())), high + max(0.0, float(effects.max()))
    low, high = low - float(np.abs(free).sum()), high + float(np.abs(free).sum())
    nearest = 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))
    lowest, highest = (float(expit(-size)) for size in (max(abs(low), abs(high)), nearest))
    return max(lowest / _SAFE - 1e-12, 0.0), min(highest * _SAFE, 0.5)
