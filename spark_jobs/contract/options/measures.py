"""The numbers that a table of aggregates is about: columns and expressions with public bounds, and their figures.

A value is a place ``j`` on a lattice of ``steps`` between its bounds, or ``a = 2 j / steps - 1`` in [-1, 1]. Figures
are made of sums over rows of a few numbers of each value (``Power``), each on a lattice of its own (``Term``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import are_bounds, check_grid, values_of_steps
from spark_jobs.contract.options.linear import Amount, expression
from spark_jobs.contract.values import Frozen

STEPS = 2**21
"""Lattice steps from a measure's lower bound to its upper one, where the request gives no step."""
MAX_STEPS = 2**30
"""The most steps of a measure: sums over 2^32 rows fit 64 bits."""
EXACT_SQUARES, SQUARE_STEPS = 2**15, 2**30
"""Squares of lattices of at most so many steps are exact; those of others are rounded to so many steps of their own."""
AggregateFigure = Literal["mean", "sum", "variance", "sd", "units"]
UNITS: AggregateFigure = "units"
"""The number of distinct values of the unit's column: a sum of 1 for one row of each unit in a cell, 0 for others."""
LATTICE_OF_UNITS: Mapping[str, Any] = {"bounds": (0.0, 1.0), "step": 1.0}
"""The lattice of these."""
FIGURES: tuple[AggregateFigure, ...] = ("mean", "sum", "variance", "sd", "units")
Power = Literal["value", "square"]
POWERS: tuple[Power, ...] = ("value", "square")
"""What is summed of a value: a itself and ``2 a^2 - 1``, all in [-1, 1]."""
NEEDS: Mapping[AggregateFigure, tuple[Power, ...]] = {
    "mean": ("value",),
    "sum": ("value",),
    "variance": ("value", "square"),
    "sd": ("value", "square"),
    "units": ("value",),
}
"""The sums that each figure is made of."""


class Term(NamedTuple):
    """A number of each row that is summed by cell.

    Attributes:
        measure: the number of its measure.
        power: what is summed of a value.
        last: the last place of its lattice, whose first is 0.
    """

    measure: int
    power: Power
    last: int


class Measured(Frozen):
    """A number whose figures are released.

    Attributes:
        of: a column of numbers or booleans, or an expression of the allow-list.
        bounds: public bounds; values beyond a bound count as the bound.
        step: the distance of neighbouring values, where they are whole steps from the lower bound: sums are then exact
            before noise. Without one, values are rounded to 2^21 steps between the bounds.
        figures: what is released of it: ``mean``, ``sum``, ``variance``, ``sd``. A mean and a sum cost the same as one;
            a variance, or its root, takes one sum more, of squares, which makes the noise of all numbers larger.
            ``units`` alone, of the unit's column, is the number of distinct ones, and needs no bounds.
    """

    of: Amount
    bounds: tuple[float, float]
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    figures: Annotated[tuple[AggregateFigure, ...], Field(min_length=1)] = ("mean", "sum")

    @field_validator("of")
    @classmethod
    def _allowed(cls, value: str) -> str:
        return expression(value)

    @model_validator(mode="after")
    def _on_a_lattice(self) -> Self:
        lower, upper = self.bounds
        if not are_bounds(self.bounds) or self.middle + self.half <= self.middle:
            raise InvalidRequest(
                "bounds", list(self.bounds), "must be two finite numbers in ascending order, of size 1e100 at most",
                "give public bounds of the values, such as [0, 5000]",
            )  # fmt: skip
        check_grid(lower=lower, upper=upper, cells=1, scale="linear", unit=None, step=self.step)
        if self.steps > MAX_STEPS:
            raise InvalidRequest(
                "step", self.step, f"must leave at most {MAX_STEPS:,} steps between the bounds",
                "give narrower bounds, or leave it out",
            )  # fmt: skip
        if len(set(self.figures)) < len(self.figures):
            raise InvalidRequest("figures", list(self.figures), "must be named once each", "remove one")
        if self.counts_units and (
            len(self.figures) > 1 or (self.bounds, self.step) != tuple(LATTICE_OF_UNITS.values())
        ):
            raise InvalidRequest(
                "figures", list(self.figures), "must be units alone, without bounds, where distinct units are counted",
                "ask for other figures of the column in a measure of their own",
            )  # fmt: skip
        return self

    @property
    def counts_units(self) -> bool:
        """Whether it is the number of distinct units."""
        return UNITS in self.figures

    @property
    def steps(self) -> int:
        """Lattice steps from the lower to the upper bound."""
        return STEPS if self.step is None else values_of_steps(*self.bounds, self.step) - 1

    @property
    def middle(self) -> float:
        """Halfway between the bounds."""
        return self.bounds[0] / 2 + self.bounds[1] / 2

    @property
    def half(self) -> float:
        """Half the distance between the bounds."""
        return self.bounds[1] / 2 - self.bounds[0] / 2

    @property
    def off(self) -> float:
        """The most by which rounding to the lattice moves a value."""
        return 0.0 if self.step is not None else self.half / self.steps

    @property
    def square_off(self) -> float:
        """The most by which rounding of squares moves ``half^2 a^2``."""
        return 0.0 if self.steps <= EXACT_SQUARES else self.half**2 / (2 * SQUARE_STEPS)

    @property
    def powers(self) -> tuple[Power, ...]:
        """What is summed of its values, in order."""
        needed = {power for figure in self.figures for power in NEEDS[figure]}
        return tuple(power for power in POWERS if power in needed)

    def last(self, power: Power) -> int:
        """The last place of the lattice of one of its sums."""
        if power == "square":
            return self.steps**2 if self.steps <= EXACT_SQUARES else SQUARE_STEPS
        return self.steps


def counts_units(entry: Any) -> bool:
    """Whether an entry of ``measures``, as it is written, is the number of distinct units."""
    return isinstance(entry, Mapping) and entry.get("figures") in ([UNITS], (UNITS,))


def terms_of(measures: tuple[Measured, ...]) -> tuple[Term, ...]:
    """All sums of some measures, in their order."""
    return tuple(
        Term(number, power, measure.last(power)) for number, measure in enumerate(measures) for power in measure.powers
    )
