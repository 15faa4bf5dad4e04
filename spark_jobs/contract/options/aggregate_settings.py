"""How figures by public dimensions are released: tables of fewer dimensions, their shares, and the noise."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.base import Settings
from spark_jobs.contract.options.dimensions import Dimension
from spark_jobs.contract.privacy import GroupBound
from spark_jobs.contract.values import did_you_mean

CellMethod = Literal["auto", "k_norm", "gaussian"]
MAX_MARGINALS = 15
"""As many as four dimensions have."""
MAX_RATIO = 1_000
"""How many times as much as another one a table may have of the budget."""


class AggregatesSettings(Settings):
    """How a table of aggregates is released.

    Attributes:
        marginals: tables by fewer dimensions that are measured too, each as a list of dimensions; an empty list stands
            for the total. All tables are made consistent. Without marginals, the cells get all of the budget.
        weights: the relative shares of the budget, first of the cells and then of each marginal; equal if None.
        confidence: nominal level of intervals.
        method: the noise of rows and sums: ``k_norm`` (drawn jointly for a cell; pure), ``gaussian`` (spends delta), or
            ``auto`` for the one with less noise that the budget allows, chosen by public facts alone. ``auto`` is
            ``k_norm`` if the budget has no delta, and ``gaussian`` if the budget is a rho.
            For discovered keys, ``auto`` also compares thresholds, and is ``k_norm`` without ``max_groups``.
    """

    marginals: Annotated[tuple[tuple[str, ...], ...], Field(max_length=MAX_MARGINALS)] = ()
    weights: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9
    method: CellMethod = "auto"

    @property
    def group_bound(self) -> GroupBound | None:
        """The bounds on the cells of one unit, and on its rows in each; None if only its rows are bounded."""
        return None

    @property
    def noise_bound(self) -> GroupBound | None:
        """The bound on one unit for all of whose rows Gaussian noise is made together; None if for each row alone."""
        return self.group_bound

    @model_validator(mode="after")
    def _weigh_tables(self) -> Self:
        weights, tables = self.weights, 1 + len(self.marginals)
        if weights is not None and (len(weights) != tables or max(weights) > MAX_RATIO * min(weights)):
            raise InvalidRequest(
                "weights", list(weights[:8]),
                f"must be {tables} numbers, the first for the cells and then one for each marginal, and the largest "
                f"must be at most {MAX_RATIO} times the smallest",
                f"give {tables} positive numbers, or leave weights out for equal shares of the budget",
            )  # fmt: skip
        return self

    def tables(self, by: tuple[Dimension, ...]) -> tuple[tuple[int, ...], ...]:
        """The tables that are measured, each as the indices of its dimensions: that by all of them comes first.

        Raises:
            InvalidRequest: a marginal names something that is no dimension, or repeats a table.
        """
        columns = [dimension.name for dimension in by]
        every = tuple(range(len(columns)))
        listed = [every]
        for names in self.marginals:
            unknown = [name for name in names if name not in columns]
            if unknown:
                raise InvalidRequest(
                    "marginals", unknown[0],
                    "must name dimensions of the table, which are " + (", ".join(columns) or "none"),
                    f"correct it{did_you_mean(unknown[0], columns)}",
                )  # fmt: skip
            table = tuple(one for one in every if columns[one] in names)
            if table in listed or len(table) != len(names):
                raise InvalidRequest(
                    "marginals",
                    list(names),
                    "must be a table with fewer dimensions than the whole table, and must be "
                    "listed once, with each of its dimensions once",
                    "leave it out",
                )
            listed.append(table)
        return tuple(listed)
