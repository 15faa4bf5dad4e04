"""Intervals for the number of all rows of a cell, with and without values of the measures.

This number is estimated by the sum of two released numbers, the rows with a value of every measure and the incomplete
rows, whose noise is independent (``mechanisms.cell_sums``). Take 1 / (the cost to one row) as the unit. The noise of
incomplete rows is then Laplace noise of scale 1. The noise of complete rows is a coordinate of the joint noise of D
numbers, a random point of a cube: the product of a radius with the gamma law of shape D + 1 and a number that is
uniform in [-1, 1]. Its density ``1 / (2 D) sum over j < D of exp(-|x|) |x|^j / j!`` is a mixture, with equal weights,
of gamma laws of shapes 1 to D with random signs; with D = 2 it is also the density of the sum of two Laplace variables
of scale 1, which is the noise in a cell with one sum (``mechanisms.cell_sums``). The sum of such a signed gamma
variable of shape k and Laplace noise exceeds x in absolute value with probability

    ``(E_k(x) + 2^-k (E_0(x) + sum over j < k of 2^j E_j(x))) / 2``,

with ``E_j(x) = exp(-x) sum over i <= j of x^i / i!``, by integration. Where squares are summed too, the joint noise
lies in a part of the cube, and its coordinates are more peaked around 0 (``diagnostics.aggregates.copied``), as is
their sum with noise that is symmetric and unimodal (Birnbaum 1948): intervals then hold somewhat more often than
stated. The lattice of the noise is taken to be fine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from spark_jobs.contract.options.measures import NEEDS, QUANTILE, figure_kind
from spark_jobs.contract.privacy import Neighbours

_HALVINGS = 100


def reach_of_rows(result: Mapping[str, Any]) -> float:
    """Half the width of the interval for the number of all rows of a cell, at the confidence level of the result.

    Args:
        result: a released table with measures and without marginals, in its published form.
    """
    kinds = [figure_kind(one["name"]) for one in result["measures"]]
    terms = {(one["of"], power) for one, kind in zip(result["measures"], kinds, strict=True) for power in NEEDS[kind]}
    halved = 2.0 if result["neighbours"] == Neighbours.REPLACE_ONE else 1.0
    shares = 1 + kinds.count(QUANTILE)  # each quantile has a share as large as that of the rows and sums
    scale = halved * shares / float(result["epsilon"])
    return scale * reach(1 + len(terms), 1 - float(result["confidence"]))


def reach(numbers: int, chance: float) -> float:
    """The size that the noise in the number of all rows exceeds with this probability, in the module's unit.

    Args:
        numbers: how many numbers of a cell have joint noise, rows included: D in the module's notation.
        chance: the probability.
    """
    low, high = 0.0, 1.0
    while beyond(high, numbers) > chance:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle, numbers) > chance else (low, middle)
    return high


def beyond(x: float, numbers: int) -> float:
    """The probability that the noise in the number of all rows exceeds ``x`` in size, in the module's unit."""
    tails, term, total = [], math.exp(-x), 0.0
    for place in range(numbers + 1):
        total += term
        tails.append(total)
        term *= x / (place + 1)
    chances = (
        (tails[k] + 2.0**-k * (tails[0] + sum(2.0**j * tails[j] for j in range(k)))) / 2 for k in range(1, numbers + 1)
    )
    return sum(chances) / numbers
