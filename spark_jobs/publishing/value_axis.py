"""A plot axis for values on a public grid, linear or logarithmic around 0: positions, ends, ticks and labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray
from spark_jobs.publishing.formats import ABSENT
from spark_jobs.publishing.rendering import finite

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TAIL = 0.001
"""Share of the rows that may lie beyond the drawn part of the axis, on either side."""
_MAX_TICKS, _APART = 7, 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueAxis:
    """An axis on which all cells have the same width; positions are in cells.

    Attributes:
        edges: edges of the cells, ascending; shape (N + 1,).
        logarithmic: whether cells are wider at larger values.
        first, last: ends of the drawn part, as positions between 0 and N.
    """

    edges: FloatArray
    logarithmic: bool
    first: float
    last: float

    @classmethod
    def around(cls, edges: FloatArray, cdf: FloatArray, *, logarithmic: bool, shown: Sequence[float] = ()) -> ValueAxis:
        """An axis that shows a released distribution without its extreme tails, and all of ``shown``."""
        places = np.interp(np.asarray(shown, dtype=np.float64), edges, np.arange(edges.size, dtype=np.float64))
        low = float(min([np.searchsorted(cdf, _TAIL), *places]))
        high = float(max([min(np.searchsorted(cdf, 1 - _TAIL) + 1, cdf.size), *places]))
        room = max(0.06 * (high - low), 2.0)
        return cls(
            edges=edges, logarithmic=logarithmic, first=max(0.0, low - room), last=min(float(cdf.size), high + room)
        )

    def place(self, values: ArrayLike) -> FloatArray:
        """Positions of values, in cells."""
        return np.interp(np.asarray(values, dtype=np.float64), self.edges, np.arange(self.edges.size, dtype=np.float64))

    def fraction(self, places: ArrayLike) -> FloatArray:
        """Positions as fractions of the drawn part of the axis, clipped to [0, 1]."""
        return np.clip((np.asarray(places, dtype=np.float64) - self.first) / (self.last - self.first), 0.0, 1.0)

    def ticks(self) -> tuple[FloatArray, list[str]]:
        """Positions of round values within the ends, and their labels."""
        low, high = (float(np.interp(end, np.arange(self.edges.size), self.edges)) for end in (self.first, self.last))
        if self.logarithmic:
            values = self._spread(_round_values(low, high))
        else:
            ticks = MaxNLocator(nbins=_MAX_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
            values = [value for value in np.asarray(ticks).tolist() if low <= value <= high]
        return self.place(values), [number(value, plain_below=5) for value in values]

    def _spread(self, groups: list[list[float]]) -> list[float]:
        """The values that are far enough apart on the axis; earlier groups have priority."""
        taken: list[float] = []
        for group in groups:
            for value in group:
                at = self.fraction(self.place(value))
                if all(abs(float(at - self.fraction(self.place(other)))) >= _APART for other in taken):
                    taken.append(value)
        return sorted(taken)


def _round_values(low: float, high: float) -> list[list[float]]:
    """Groups of round values between two values: 0, powers of ten, and twice and five times these."""
    reach = max(abs(low), abs(high), 1e-300)
    top = math.floor(math.log10(reach))
    sizes = [[10.0**power * step for power in range(top, max(top - 40, -300), -1)] for step in (1, 2, 5)]
    groups = [[0.0], *sizes]
    return [[v for size in group for v in ([size, -size] if size else [0.0]) if low <= v <= high] for group in groups]


def number(value: float, digits: int = 6, *, plain_below: int = 7) -> str:
    """A value as text: ``12,500``, ``0.25``, or ``2×10⁹`` from ``10^plain_below`` on; a dash if it is undefined."""
    if not finite(value):
        return ABSENT
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if -4 <= exponent < plain_below:
        text = f"{value:,.{max(0, digits - 1 - exponent)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, power = f"{value:.2e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    raised = f"10{str(int(power)).translate(_RAISED)}"
    return {"1": raised, "-1": f"-{raised}"}.get(mantissa, f"{mantissa}×{raised}")
