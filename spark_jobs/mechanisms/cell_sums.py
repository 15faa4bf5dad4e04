"""Noisy rows and sums of the cells of a table; the noise of all numbers of a cell is drawn together.

A row lies in one cell. A complete row has a place ``j`` from 0 to ``m`` on the lattice of each term; a term is a value,
its square or its size. An incomplete row is counted separately, and adds to no other number. Let ``a = 2 j / m - 1``,
in [-1, 1]. How a cell's numbers get noise depends on how many terms there are:

* no term: the number of rows, with two-sided geometric noise of scale ``1 / epsilon``.
* one term: two *halves*, ``T+``, the sum of j, and ``T-``, the sum of m - j, each with noise of scale ``m / epsilon``.
  The rows are ``(T+ + T-) / m`` and the sum of a is ``(T+ - T-) / m``. A row changes both halves by numbers of at least
  0 that add up to m: the 1-norm sensitivity is m, and the noise in rows and in sums has standard deviation ``2 /
  epsilon``, where counting and summing at half of epsilon each would have ``2.83 / epsilon``. For rows and sum of a,
  this is the K-norm mechanism whose body is a square, as the ball of the 1-norm is a square turned by 45 degrees.
* several terms: ``U`` times the rows, and for each term ``U`` times its sum of a, rounded, with the noise of ``k_norm``
  whose body is the cube of half width U. One row changes each number by at most U, also after rounding: two numbers
  that differ by at most a whole number d still differ by at most d when both are rounded.
* several terms of one value: the cube is cut by the inequalities of ``cell_forms``. In these, rounding does enlarge the
  change by one row: rounding a sum by less than 1, and rounding a square to its lattice by at most 1/16 of a step of U.
  So a form's value exceeds U times its bound by at most the sum of its weights for sums plus 1/16 of its weight for the
  square, which is less than ``PAD`` times its bound: the body's unit is ``U + PAD``.

Incomplete rows have geometric noise of scale ``1 / epsilon``. Where there is a delta, noise may be Gaussian:
``cell_gaussian``.

Privacy. ``ADD_REMOVE``: a row is in one cell and is complete or not, so that it changes either the numbers of one body
or one number of incomplete rows. The measurement is ``epsilon``-DP for all cells together. ``REPLACE_ONE`` runs at half
of epsilon: one row is removed and one is added, each at that cost, whichever cells they are in. Under either relation,
the numbers of incomplete rows therefore cost nothing in addition.

Units. A measure may count distinct units: its value is 1 for one row of each unit in a cell, and 0 for the unit's other
rows. Which row has the 1 depends on rows of the same unit alone, so that a unit of k rows changes the table by k
vectors, each of which one row could cause: ``k epsilon`` for the unit. This is not a chain of k changes of one row, as
the 1 may pass from one row to another. But the loss of the noise above, drawn from a body or for halves, is a norm of
the whole change, and so is at most the sum of the k norms. If the number of units is the only term, one half counts the
units, the other the rows that do not count for a unit, and the noise in the number of units is that of a single half.

If the sampler cannot draw noise together (``Noise.joint`` is false), the numbers of several terms get independent
Laplace noise, calibrated to the largest 1-norm in the cube.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours, exact_decimal, share
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.cell_forms import CellForm
from spark_jobs.mechanisms.cell_noise import CellNoise
from spark_jobs.mechanisms.k_norm import Body
from spark_jobs.mechanisms.noise import Cost, Noise, gaussian_stddev, k_norm_scale
from spark_jobs.mechanisms.regression.sums import rounded, whole

UNIT = 1 << 26
"""Lattice steps of a row in numbers whose noise is drawn together."""
PAD = 4
"""Further steps of a body with forms, for rounding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCellSums:
    """Noisy numbers of k cells with p terms.

    Attributes:
        steps: the last place of each term's lattice, whose places are 0 to ``steps``; shape (p,).
        numbers: the noisy numbers of each cell, in one of three layouts. Without terms: the number of rows; shape
            (k, 1). With one term: the sum of the rows' places j, and the sum of ``steps - j``; shape (k, 2). With
            several terms, and always with Gaussian noise: the number of rows and the centred sums, in units of
            ``1 / UNIT``; shape (k, 1 + p).
        incomplete: noisy numbers of incomplete rows of each cell; shape (k,), or (0,) if no row can be incomplete.
        epsilon: the cost for one added or removed row; a replaced row costs twice as much. With Gaussian noise, the
            part of epsilon that was assigned to this table, which does not determine the noise.
        joint: whether the noise of several terms was drawn together.
        rho: the cost of Gaussian noise for an added or removed row; None for other noise.
    """

    steps: tuple[int, ...]
    numbers: Int64Array
    incomplete: Int64Array
    epsilon: Decimal
    joint: bool
    rho: Decimal | None = field(default=None, metadata={codec.LEFT_OUT: True})

    @property
    def law(self) -> CellNoise:
        """The law of the noise in a cell's rows and sums; too wide if forms cut the body (``noise_of_cells``)."""
        if self.rho is not None:
            scale = gaussian_stddev(self.rho, l2_of_row(len(self.steps))) / UNIT
            return CellNoise(measures=len(self.steps), scale=scale, joint=True, gaussian=True)
        several = self.joint and len(self.steps) > 1
        scale = k_norm_scale(self.epsilon, body_of(len(self.steps))) / UNIT if several else 1 / float(self.epsilon)
        return CellNoise(measures=len(self.steps), scale=scale, joint=self.joint)

    @property
    def rows(self) -> FloatArray:
        """Unbiased noisy numbers of complete rows; shape (k,)."""
        if self._in_halves:
            return (self.numbers[:, 0].astype(np.float64) + self.numbers[:, 1]) / self.steps[0]
        return self.numbers[:, 0] / (1.0 if not self.steps and self.rho is None else UNIT)

    @property
    def centred(self) -> FloatArray:
        """Unbiased noisy sums of each term's centred place ``a = 2 j / m - 1``, in [-1, 1]; shape (p, k)."""
        if self._in_halves:
            return ((self.numbers[:, 0].astype(np.float64) - self.numbers[:, 1]) / self.steps[0])[None]
        return self.numbers[:, 1:].T / float(UNIT)

    @property
    def cost(self) -> float:
        """A table's relative cost: the variance of entries is proportional to ``1 / cost^2`` within a measurement."""
        return float(self.epsilon) if self.rho is None else float(self.rho.sqrt())

    @property
    def _in_halves(self) -> bool:
        return len(self.steps) == 1 and self.rho is None


def noisy_cell_sums(
    rows: Int64Array,
    incomplete: Int64Array,
    sums: Int64Array,
    steps: Sequence[int],
    *,
    forms: Sequence[CellForm] = (),
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    measured: bool = False,
) -> NoisyCellSums:
    """One noisy measurement of all cells; ``epsilon``-DP (see the module's proof).

    Args:
        rows: exact numbers of complete rows; shape (k,); private.
        incomplete: exact numbers of incomplete rows; shape (k,).
        sums: exact sums of places on each term's lattice; shape (p, k).
        steps: the last place of each lattice.
        forms: inequalities for the changes by one row, if several terms are of one value.
        epsilon: the cost of all cells together.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        measured: whether rows can be incomplete even without terms, because they lack a value that no sum uses.

    Raises:
        InvalidRequest: epsilon is not a finite number above 0, or too small for noise that is drawn together.
    """
    cost = exact_decimal(epsilon, what="epsilon")
    cost = share(cost, 2) if neighbours is Neighbours.REPLACE_ONE else cost
    joint = noise.joint or len(steps) < 2
    exact = _numbers(whole(rows), whole(sums), steps)
    if len(steps) < 2:
        noisy = noise.laplace(fitting(exact), epsilon=cost, l1_sensitivity=steps[0] if steps else 1)
    elif joint:
        noisy = noise.k_norm(exact, epsilon=cost, body=body_of(len(steps), forms))
    else:
        noisy = noise.laplace(fitting(exact), epsilon=cost, l1_sensitivity=UNIT * (1 + len(steps)))
    none = np.zeros(0, dtype=np.int64)
    return NoisyCellSums(
        steps=tuple(steps),
        numbers=noisy,
        incomplete=noise.laplace(incomplete, epsilon=cost, l1_sensitivity=1) if steps or measured else none,
        epsilon=cost,
        joint=joint,
    )


def body_of(terms: int, forms: Sequence[CellForm] = ()) -> Body:
    """The K-norm body of what one row can change in its cell's rows and its sums of ``terms`` terms."""
    return Body(
        unit=UNIT + (PAD if forms else 0),
        widths=(1,) * (1 + terms),
        forms=tuple(form.weights for form in forms),
        bounds=tuple(form.bound for form in forms),
    )


def l2_of_row(terms: int) -> float:
    """The largest 2-norm of what one row adds to its cell's numbers, in units of ``1 / UNIT``, rounded up."""
    return math.nextafter(UNIT * math.sqrt(1 + terms), math.inf)


def noise_of_cells(cells: NoisyCellSums, forms: Sequence[CellForm], count: int, noise: Noise) -> FloatArray:
    """Independent draws of the noise in one cell's rows and sums, one draw in each row; shape (count, 1 + p).

    The mechanism's own sampler draws them, so that their law is that of a cell's noise.

    Args:
        cells: a measurement of several terms.
        forms: the inequalities with which the measurement was drawn.
        count: the number of draws.
        noise: a seeded sampler, for simulations.
    """
    none = np.zeros((count, 1 + len(cells.steps)), dtype=np.int64)
    if cells.rho is not None:
        drawn = noise.gaussian(none, rho=cells.rho, l2_sensitivity=l2_of_row(len(cells.steps)))
    elif cells.joint:
        drawn = noise.k_norm(none, epsilon=cells.epsilon, body=body_of(len(cells.steps), forms))
    else:
        drawn = noise.laplace(none, epsilon=cells.epsilon, l1_sensitivity=UNIT * none.shape[1])
    return drawn / float(UNIT)


def _numbers(rows: NDArray[np.object_], sums: NDArray[np.object_], steps: Sequence[int]) -> NDArray[np.object_]:
    """The exact numbers of each cell, as Python's integers; shape (k, numbers)."""
    if not steps:
        return rows[:, None]
    if len(steps) == 1:
        return np.stack([sums[0], steps[0] * rows - sums[0]], axis=-1)
    return in_units(rows, sums, steps)


def in_units(rows: NDArray[np.object_], sums: NDArray[np.object_], steps: Sequence[int]) -> NDArray[np.object_]:
    """Rows, and sums of each term's centred place, in units of ``1 / UNIT``, as Python's integers; shape (k, 1 + p)."""
    centred = [
        whole(rounded(UNIT * (2 * places - last * rows), np.full(rows.shape, last, dtype=np.int64)))
        for places, last in zip(sums, steps, strict=True)
    ]
    return np.stack([UNIT * rows, *centred], axis=-1)


def fitting(exact: NDArray[np.object_]) -> Int64Array:
    """Numbers clipped to int64; clipping adds no sensitivity."""
    return rounded(exact, np.ones(exact.shape, dtype=np.int64))
