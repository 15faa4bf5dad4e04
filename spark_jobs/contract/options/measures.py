"""The numbers that a table of aggregates is about: columns and expressions with public bounds, and their figures.

A value is rounded to a place ``j`` on a lattice of ``steps`` steps between its bounds, which is the number
``a = 2 j / steps - 1`` in [-1, 1]. Figures are computed from sums over rows of a few functions of this number
(``Power``), each on a lattice of its own (``Term``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import are_bounds, check_grid, values_of_steps
from spark_jobs.contract.options.linear import Amount, expression
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.values import Frozen, did_you_mean

STEPS = 2**21
"""Lattice steps from a measure's lower bound to its upper one, where the request gives no step."""
MAX_STEPS = 2**30
"""The most steps of a measure: sums over 2^32 rows fit 64 bits."""
EXACT_SQUARES, SQUARE_STEPS = 2**15, 2**30
"""Squares of lattices of at most so many steps are exact; those of others are rounded to so many steps of their own."""
UNITS = "units"
"""The number of distinct values of the unit's column: a sum of 1 for one row of each unit in a cell, 0 for others."""
LATTICE_OF_UNITS: Mapping[str, Any] = {"bounds": (0.0, 1.0), "step": 1.0}
"""The lattice of these."""
MEANS, ERRORS = ("mean", "sum", "variance", "sd"), ("mae", "rmse", "bias", "r2")
COVERAGE, PINBALL, QUANTILE = "interval_coverage", "pinball", "quantile"
FIGURES = (*MEANS, "p50", *ERRORS, f"{PINBALL}_LEVEL", COVERAGE, UNITS)
"""The names of figures; a level is a decimal number between 0 and 1, as in ``pinball_0.9``. A quantile is named by its
percentage, with four decimals at most, as in ``p50`` and ``p99.9``."""
_LEVEL = re.compile(r"(?P<name>[a-z]+)_(?P<level>0\.\d{0,5}[1-9])")
_PERCENTAGE = re.compile(r"p(?P<percentage>0\.\d{0,3}[1-9]|[1-9]\d?(\.\d{0,3}[1-9])?)")
Power = Literal["value", "size", "square"]
POWERS: tuple[Power, ...] = ("value", "size", "square")
"""What is summed of a value: a itself, ``2 |a| - 1`` and ``2 a^2 - 1``, all in [-1, 1]."""
NEEDS: Mapping[str, tuple[Power, ...]] = {
    "mean": ("value",),
    "sum": ("value",),
    "variance": ("value", "square"),
    "sd": ("value", "square"),
    "mae": ("size",),
    "rmse": ("square",),
    "bias": ("value",),
    "r2": ("square",),
    PINBALL: ("value", "size"),
    COVERAGE: ("value",),
    UNITS: ("value",),
    QUANTILE: (),
}
"""The sums that each figure is made of; ``r2`` needs those of a variance of the outcome, too. A quantile is chosen
among counts of values."""


class Term(NamedTuple):
    """A number of each row that is summed in each cell.

    Attributes:
        measure: the index of its measure.
        power: the function of the measure's value that is summed.
        last: the last place of its lattice; the first is 0.
    """

    measure: int
    power: Power
    last: int


class ValueLine(NamedTuple):
    """The bins in which the values of a measure are counted within each cell of a table, for quantiles.

    Attributes:
        measure: the index of the measure.
        places: how many consecutive places of the measure's lattice a bin has; the last bin may differ.
        cells: the number of bins.
    """

    measure: int
    places: int
    cells: int


_OF_MODEL = ("outcome", "prediction", "lower", "upper")
"""Fields that are left out where they are not given, so that what was written without them stays as it is."""


class Measured(Frozen):
    """A number whose figures are released.

    Attributes:
        of: a column of numbers or booleans, or an expression of the allow-list.
        bounds: public bounds; values beyond a bound count as the bound.
        step: the distance between consecutive values, if all values are whole steps from the lower bound; sums are then
            exact before noise. Without a step, values are rounded to one of 2^21 steps between the bounds.
        figures: the figures that are released: ``mean``, ``sum``, ``variance``, ``sd``. A mean and a sum together cost
            as much as one of them; a variance or ``sd`` needs a further sum, of squares, which makes the noise of all
            numbers larger. A quantile, such as ``p50``, has a share of the budget of its own, as large as that of all
            sums together. Errors, whose bounds must be symmetric about 0, also have ``mae``, ``rmse``, ``bias``, ``r2``
            and ``pinball_LEVEL``; conditions that are true or false have ``interval_coverage``. ``units`` is the number
            of distinct units; it must be the only figure, of the unit's column, and needs no bounds.
        outcome, prediction: the columns or expressions of which an error is the difference; None unless it is an error.
        lower, upper: the ends of a prediction interval, if the number is the condition that the outcome lies in it.
    """

    of: Amount
    bounds: tuple[float, float]
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    figures: Annotated[tuple[str, ...], Field(min_length=1)] = ("mean", "sum")
    outcome: Amount | None = None
    prediction: Amount | None = None
    lower: Amount | None = None
    upper: Amount | None = None

    @field_validator("of", "outcome", "prediction", "lower", "upper")
    @classmethod
    def _allowed(cls, value: str | None) -> str | None:
        return None if value is None else expression(value)

    @field_validator("figures")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            leveled = _LEVEL.fullmatch(name) is not None
            if name == QUANTILE or figure_kind(name) not in NEEDS or leveled != (figure_kind(name) == PINBALL):
                raise InvalidRequest(
                    "", name,
                    f"must be one of {', '.join(FIGURES)}, where a quantile may have another percentage than p50, and "
                    "pinball must have a level such as 0.9",
                    f"correct it{did_you_mean(name, FIGURES)}",
                )  # fmt: skip
        return value

    @model_serializer(mode="wrap")
    def _without_what_is_not_given(self, dumped: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = dumped(self)
        return {name: value for name, value in fields.items() if name not in _OF_MODEL or value is not None}

    @model_validator(mode="after")
    def _of_errors(self) -> Self:
        kinds = {figure_kind(name): name for name in self.figures}
        errors = [kinds[name] for name in (*ERRORS, PINBALL) if name in kinds]
        if errors and self.bounds[0] != -self.bounds[1]:
            raise InvalidRequest(
                "figures", errors[0], "must be left out unless the measure is of errors, with bounds as far below 0 as "
                "above",
                "give outcome, prediction and largest_error instead of the expression and its bounds",
            )  # fmt: skip
        if "r2" in kinds and self.outcome is None:
            raise InvalidRequest(
                "figures",
                "r2",
                "is defined only for a measure of an outcome's errors",
                "give outcome and prediction instead of `of`",
            )
        if COVERAGE in kinds and (self.bounds, self.step) != ((0.0, 1.0), 1.0):
            raise InvalidRequest(
                "figures", COVERAGE, "is defined only for a value that is true or false, with bounds [0, 1] and step 1",
                "give outcome, lower and upper instead of the expression and its bounds",
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _on_a_lattice(self) -> Self:
        lower, upper = self.bounds
        if not are_bounds(self.bounds) or self.middle + self.half <= self.middle:
            raise InvalidRequest(
                "bounds", list(self.bounds), "must be two numbers in ascending order, both between -1e100 and 1e100",
                "give public bounds of the values, such as [0, 5000]",
            )  # fmt: skip
        check_grid(lower=lower, upper=upper, cells=1, scale="linear", unit=None, step=self.step)
        if self.steps > MAX_STEPS:
            raise InvalidRequest(
                "step", self.step, f"must leave at most {MAX_STEPS:,} steps between the bounds",
                "give narrower bounds, or leave step out",
            )  # fmt: skip
        if len(set(self.figures)) < len(self.figures):
            raise InvalidRequest(
                "figures", list(self.figures), "must be different figures", "remove the repeated figure"
            )
        if self.counts_units and (
            len(self.figures) > 1 or (self.bounds, self.step) != tuple(LATTICE_OF_UNITS.values())
        ):
            raise InvalidRequest(
                "figures", list(self.figures), "must be units alone, and bounds must be left out, in a measure that "
                "counts distinct units",
                "request other figures of the column in a separate measure",
            )  # fmt: skip
        return self

    @property
    def counts_units(self) -> bool:
        """Whether the measure is the number of distinct units."""
        return UNITS in self.figures

    @property
    def quantiles(self) -> tuple[str, ...]:
        """The names of its figures that are quantiles."""
        return tuple(name for name in self.figures if figure_kind(name) == QUANTILE)

    @property
    def steps(self) -> int:
        """The number of lattice steps from the lower to the upper bound."""
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
        """The most by which rounding to the lattice of squares moves ``half^2 a^2``."""
        return 0.0 if self.steps <= EXACT_SQUARES else self.half**2 / (2 * SQUARE_STEPS)

    @property
    def powers(self) -> tuple[Power, ...]:
        """The functions of its values that are summed, in order."""
        needed = {power for figure in self.figures for power in NEEDS[figure_kind(figure)]}
        return tuple(power for power in POWERS if power in needed)

    def last(self, power: Power) -> int:
        """The last place of the lattice on which ``power`` is summed; the first is 0."""
        if power == "square":
            return self.steps**2 if self.steps <= EXACT_SQUARES else SQUARE_STEPS
        return self.steps


def counts_units(entry: Any) -> bool:
    """Whether an entry of ``measures``, before it is parsed, asks for the number of distinct units."""
    return isinstance(entry, Mapping) and entry.get("figures") in ([UNITS], (UNITS,))


def figure_kind(name: str) -> str:
    """A figure's name without its level: ``pinball`` for ``pinball_0.9``, and one name for all quantiles."""
    if _PERCENTAGE.fullmatch(name):
        return QUANTILE
    match = _LEVEL.fullmatch(name)
    return name if match is None else match["name"]


def figure_level(name: str) -> float:
    """The level in the name of a figure that has one: 0.9 of ``pinball_0.9``."""
    match = _LEVEL.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} has no level")
    return float(match["level"])


def quantile_level(name: str) -> Decimal:
    """The level of the quantile of this name, exactly: 0.999 of ``p99.9``."""
    match = _PERCENTAGE.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is no quantile")
    return Decimal(match["percentage"]) / 100


def quantile_figure(level: Decimal) -> str:
    """The name of the quantile of this level: ``p99.9`` of 0.999.

    Raises:
        InvalidRequest: no quantile has this level.
    """
    name = f"p{plain(100 * level)}"
    if not _PERCENTAGE.fullmatch(name):
        raise InvalidRequest(
            "figures", plain(level), "must be a level between 0 and 1 with six decimals at most",
            "give a level such as 0.5: the smallest and the largest value are not released, because each may belong to "
            "a single row",
        )  # fmt: skip
    return name


def value_lines(measures: tuple[Measured, ...], limit: int) -> tuple[ValueLine, ...]:
    """The bins in which values are counted, for each measure with quantiles.

    Args:
        measures: all measures.
        limit: the most bins of one measure.
    """
    lines = []
    for number, measure in enumerate(measures):
        if measure.quantiles:
            places = -(-measure.steps // limit)
            lines.append(ValueLine(number, places, min(-(-(measure.steps + 1) // places), limit)))
    return tuple(lines)


def terms_of(measures: tuple[Measured, ...]) -> tuple[Term, ...]:
    """The sums that measures need in each cell, in the order of the measures."""
    return tuple(
        Term(number, power, measure.last(power)) for number, measure in enumerate(measures) for power in measure.powers
    )
