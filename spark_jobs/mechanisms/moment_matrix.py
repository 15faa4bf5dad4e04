"""Noisy sums of products: the private matrix to which linear models of several variables are fitted.

Each row is a vector of whole numbers, in units of ``1 / steps``. Its entries are an intercept, which is always
``steps``; *numbers* from ``-steps`` to ``steps``; categorical columns; and the outcome, if there is one, which is a
number. A column of two levels is a *sign*, ``steps`` or ``-steps``. A column of more levels has an entry for each level
but its first: at most one of them is ``steps``, and the others are 0. What is released is the upper triangle of
``sum z z^T`` without the entries that follow from others: two levels of one column never occur in the same row, the
square of a level equals its product with the intercept, and the square of a sign is the number of rows.

Sensitivity, in units of ``steps^2``, with ``m`` numbers (including intercept, outcome and signs), of which ``t`` are
signs, ``c`` columns of more than two levels and ``q = m + c``; a row that is not counted is ``z = 0``.

*A row added or removed* changes each measured entry by the row's own product, whose size is at most 1, and at most one
level of a column is not 0. So one entry changes for each pair of numbers, for each number's square, and for each pair
with a column:

    L1 = m (m + 1) / 2 - t + c m + c (c - 1) / 2;   L2 = sqrt(L1),

both attained at the corners of the box.

*A row replaced*: z becomes z'. Of the numbers, let ``s = z + z'`` and ``d = z - z'``. Then
``z z^T - z' z'^T = (s d^T + d s^T) / 2``, whose entries add up, over the whole matrix and in absolute value, to at most
``|s|_1 |d|_1``. As ``|s_i| + |d_i| = 2 max(|z_i|, |z'_i|) <= 2``, the two norms add up to at most 2 m and their product
is at most ``m^2``; an entry of the diagonal is ``|s_i d_i| <= 1``, and 0 for the intercept and for a sign if both rows
are counted. The measured part is half of the whole and half of the diagonal, at most ``(m^2 + m - 1 - t) / 2``; if one
of the rows is not counted, the change is that of an added row. A product with a level changes by at most 2, if one is
lost and another is gained. Hence

    L1 = max(m (m + 1) / 2 - t, (m^2 + m - 1 - t) / 2) + 2 c m + c (c - 1);   L2 = q:

without columns of more than two levels a replaced row costs hardly more than an added one, not twice as much.

Each measured entry by itself changes by at most 1 if a row is added or removed, and by at most 2 if one is replaced:
a box, for which noise can be drawn together (``k_norm``). With D entries it has a standard deviation of
``sqrt((D + 1)(D + 2) / 3)`` times 1 or 2 over epsilon, where Laplace noise has ``sqrt(2) L1`` over epsilon.

For the 2-norm, let first no column change its level. A column then behaves like a number, so that there are q numbers.
Entries off the diagonal are at most 2, those on it at most 1, so their squares add up to at most the 1-norm of the
whole matrix, ``q^2``. Where ``k`` columns change from one level to another, each pair with such a column loses one
product and gains another, which adds 2 to the squares: ``(q - k)^2 + 2 k (q - k) + k (k - 1) <= q^2``.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.odds import FINE_STEPS, LossLaw
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.k_norm import Body
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import (
    Cost,
    Noise,
    SeededNoise,
    gaussian_stddev,
    k_norm_scale,
    laplace_scale,
    laplace_variance,
)
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.zcdp import rho_within

K_NORM, LAPLACE, GAUSSIAN = "k_norm", "laplace", "gaussian"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The public meaning of a row's entries, in order: intercept, numbers, levels of each column, outcome.

    Attributes:
        numbers: the number of numeric features, without intercept and outcome.
        columns: the number of levels of each categorical column, without the reference level; 1 for a sign.
        outcome: whether the last entry is an outcome, which is a number.
        steps: the whole number that represents 1.
    """

    numbers: int
    columns: tuple[int, ...]
    outcome: bool
    steps: int

    @property
    def size(self) -> int:
        """The number of entries of a row."""
        return 1 + self.numbers + sum(self.columns) + self.outcome

    @property
    def signs(self) -> int:
        """The number of columns with two levels."""
        return self.columns.count(1)

    @property
    def parts(self) -> tuple[int, int]:
        """The number of numbers (with intercept, signs and outcome), and that of columns of more than two levels."""
        return 1 + self.numbers + self.signs + self.outcome, len(self.columns) - self.signs

    @cached_property
    def measured(self) -> BoolArray:
        """Whether each entry of the matrix is released; shape (size, size), True only in the upper triangle."""
        wanted = np.triu(np.ones((self.size, self.size), dtype=np.bool_))
        for block in self.blocks:
            wanted[block, block] = False
        return wanted

    @property
    def blocks(self) -> tuple[slice, ...]:
        """For each column, the positions of its levels among a row's entries."""
        ends = 1 + self.numbers + np.cumsum([0, *self.columns])
        return tuple(slice(int(start), int(end)) for start, end in pairwise(ends))

    def l1_sensitivity(self, neighbours: Neighbours) -> int:
        """The 1-norm sensitivity of the measured entries, in lattice steps; the proof is in the module."""
        (m, c), t = self.parts, self.signs
        numbers, pairs = m * (m + 1) // 2 - t, c * m + c * (c - 1) // 2
        if neighbours is Neighbours.REPLACE_ONE:
            # entries are whole numbers of lattice steps, and so is half of what they add up to, rounded down
            return max(self.steps**2 * numbers, self.steps**2 * (m * m + m - 1 - t) // 2) + self.steps**2 * 2 * pairs
        return self.steps**2 * (numbers + pairs)

    def l2_sensitivity(self, neighbours: Neighbours) -> float:
        """The 2-norm sensitivity of the measured entries, in lattice steps."""
        if neighbours is Neighbours.REPLACE_ONE:
            return float(self.steps**2 * sum(self.parts))
        squared = self.l1_sensitivity(neighbours) // self.steps**2
        return self.steps**2 * math.nextafter(math.sqrt(squared), math.inf)

    def body(self, neighbours: Neighbours) -> Body:
        """The K-norm body of the changes by one row: the box of the measured entries, in lattice steps."""
        return box(self.steps**2 * rows_changed(neighbours), int(self.measured.sum()))

    def filled(self, entries: FloatArray) -> FloatArray:
        """The symmetric matrices with these measured entries; the last axis becomes two."""
        matrix = np.zeros((*entries.shape[:-1], self.size, self.size))
        matrix[..., self.measured] = entries
        for block in self.blocks:
            sign = block.stop - block.start == 1
            for place in range(block.start, block.stop):
                matrix[..., place, place] = matrix[..., 0, 0 if sign else place]
        upper = np.triu(matrix)
        return upper + np.swapaxes(np.triu(matrix, 1), -1, -2)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyProducts:
    """A released matrix of sums of products.

    Attributes:
        layout: the meaning of its entries.
        entries: the measured entries, row by row, in lattice steps; noisy integers.
        method: ``k_norm``, ``laplace`` or ``gaussian``.
        scale: of the radius of noise drawn together, or of the two-sided geometric noise, or the parameter of the
            discrete Gaussian noise, in lattice steps.
    """

    layout: Layout
    entries: Int64Array
    method: str
    scale: float

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise in one entry, scaled so that a product of two numbers is at most 1."""
        return noise_stddev(self.method, self.scale, self.entries.size) / self.layout.steps**2

    @property
    def matrix(self) -> FloatArray:
        """The symmetric matrix, scaled so that a product of two numbers is at most 1; shape (size, size)."""
        return self.layout.filled(self.entries / float(self.layout.steps**2))

    def copies(self, count: int, *, noise: SeededNoise) -> FloatArray:
        """Matrices of fresh noise only, for simulations; shape (count, size, size)."""
        drawn = noise_copies(self.method, self.scale, (count, self.entries.size), noise)
        return self.layout.filled(drawn / float(self.layout.steps**2))


def box(change: int, count: int) -> Body:
    """The K-norm body of ``count`` numbers, each of which changes by at most ``change``."""
    return Body(unit=change, widths=(1,) * count)


def noise_stddev(method: str, scale: float, count: int) -> float:
    """The standard deviation of the noise of this kind and scale in each of ``count`` numbers."""
    if method == K_NORM:
        return scale * math.sqrt((count + 1) * (count + 2) / 3)
    return math.sqrt(laplace_variance(scale)) if method == LAPLACE else scale


def noise_copies(method: str, scale: float, shape: tuple[int, ...], noise: SeededNoise) -> Int64Array:
    """Noise of this kind and scale alone, for simulations; vectors along the last axis."""
    if method == K_NORM:
        return noise.boxed(shape, scale=scale)
    if method == LAPLACE:
        return noise.two_sided(shape, scale=scale)
    # a cost and a sensitivity that give the same scale
    return noise.gaussian(np.zeros(shape, dtype=np.int64), rho=0.5, l2_sensitivity=scale)


def noisy_products(
    products: Int64Array,
    *,
    layout: Layout,
    meter: BudgetMeter,
    neighbours: Neighbours,
    noise: Noise,
    method: str = "auto",
) -> NoisyProducts:
    """The matrix with noise, for the meter's whole remaining budget.

    Formal guarantee, for one row added or removed, or replaced (``neighbours``), by the sensitivities of the layout:
    ``epsilon``-DP if the noise is drawn together or is two-sided geometric noise; ``(epsilon, delta)``-DP if it is
    discrete Gaussian noise, which is drawn for the rho of ``zcdp.rho_within``.

    Args:
        products: exact sums; private. Symmetric, shape (size, size).
        layout: the meaning of the entries; rows must conform to it.
        meter: charged with its remaining epsilon, and with its remaining delta if the noise is Gaussian.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        method: ``k_norm``, ``laplace``, ``gaussian`` (requires delta), or ``auto``: the one with the least noise.

    Raises:
        InvalidRequest: the noise is Gaussian and there is no delta.
    """
    epsilon, delta = meter.remaining, meter.remaining_delta
    resolved = smallest_noise(layout, epsilon, delta, neighbours) if method == "auto" else method
    exact = products[layout.measured]
    label = f"sums of products, {exact.size} numbers"
    if resolved == K_NORM:
        body = layout.body(neighbours)
        cost = meter.spend_rest(label=label)
        entries, scale = noise.k_norm(exact, epsilon=cost, body=body), k_norm_scale(cost, body)
    elif resolved == LAPLACE:
        sensitivity = layout.l1_sensitivity(neighbours)
        cost = meter.spend_rest(label=label)
        entries = noise.laplace(exact, epsilon=cost, l1_sensitivity=sensitivity)
        scale = laplace_scale(cost, sensitivity)
    else:
        rho, distance = rho_within(epsilon, delta), layout.l2_sensitivity(neighbours)
        law = LossLaw.GAUSSIAN if distance >= FINE_STEPS else LossLaw.CONCENTRATED
        meter.spend(epsilon, delta=delta, label=f"{label}, by Gaussian noise", law=law, rho=rho)
        entries = noise.gaussian(exact, rho=rho, l2_sensitivity=distance)
        scale = gaussian_stddev(rho, distance)
    return NoisyProducts(layout=layout, entries=entries, method=resolved, scale=scale)


def smallest_noise(layout: Layout, epsilon: Decimal, delta: Cost, neighbours: Neighbours) -> str:
    """The method with the smallest standard deviation; it depends on public facts only."""
    scales = {LAPLACE: laplace_scale(epsilon, layout.l1_sensitivity(neighbours))}
    body = layout.body(neighbours)
    if epsilon >= body.smallest_epsilon:
        scales[K_NORM] = k_norm_scale(epsilon, body)
    if delta:
        with suppress(InvalidRequest):  # the delta may be too small for any rho
            scales[GAUSSIAN] = gaussian_stddev(rho_within(epsilon, delta), layout.l2_sensitivity(neighbours))
    count = int(layout.measured.sum())
    return min(scales, key=lambda method: noise_stddev(method, scales[method], count))
