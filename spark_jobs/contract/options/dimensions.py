"""The dimensions of a table of aggregates, each of which assigns a row to a group."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from spark_jobs.contract.calendar import Every, periods
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.linear import Amount, Keys, require_keys
from spark_jobs.contract.options.lookups import Lookup
from spark_jobs.contract.values import Frozen

MAX_BINS = 1_000
OTHER = "other"
"""The label of all rows that lie in no value, bin or period of a dimension."""
MIN_UNITS = 2
"""The fewest units of a discovered key: a key that one unit alone has is then never released, whatever the noise."""
MAX_MIN_UNITS = 10**9


class Dimension(Frozen):
    """A dimension of a table of aggregates: the rule that assigns a row to a group.

    Groups are listed values, bins of a number, calendar periods, the values of a public lookup, or discovered keys. All
    but discovered keys are public before a row is read.

    Attributes:
        column: the column; for bins, also an expression of the allow-list.
        values: public values: texts or whole numbers, which are compared with the column as text.
        edges: ascending edges of bins, which contain their lower edge; the last bin contains its upper edge, too.
        every: the length of calendar periods, in UTC.
        start, end: the first moment of the first period, and the moment at which the last one ends.
        other: whether rows of no listed value, bin or period are a group of their own; otherwise they are left out.
        keys: ``discover`` for groups that are the column's texts or whole numbers with enough units; spends a delta.
        min_units: with ``keys``, the fewest units with which a key can be released; 2 if left out.
        lookup: a public table with a value for each key in the column; the groups are these values. A row whose key is
            not in the table is treated like a row of no listed value (see ``other``).
    """

    column: Amount
    values: Keys | None = None
    edges: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] | None = None
    every: Every | None = None
    start: str | None = None
    end: str | None = None
    other: bool = True
    keys: Literal["discover"] | None = None
    min_units: Annotated[int, Field(le=MAX_MIN_UNITS)] | None = None
    lookup: Lookup | None = None

    @model_validator(mode="before")
    @classmethod
    def _width_is_filled_in(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("width") is not None:
            raise InvalidRequest(
                "width", data["width"],
                "must be left out unless the account declares a range of numbers for the column, and the account "
                f"declares none for {data.get('column')}",
                "give edges, such as [0, 18, 65, 120], or have a range declared: `dp-budget domains`",
            )  # fmt: skip
        return data

    @model_validator(mode="before")
    @classmethod
    def _of_discovered_keys(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("keys") is None:
            return data
        given = {name: value for name, value in data.items() if value is not None}
        return {"other": False, "min_units": MIN_UNITS, **given}

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # a dimension whose groups are public has the hash that it had before others existed
        fields: dict[str, Any] = handler(self)
        later = ("keys", "min_units", "lookup")
        return {name: value for name, value in fields.items() if value is not None or name not in later}

    @field_validator("values", mode="before")
    @classmethod
    def _keys(cls, value: Any) -> Any:
        return value if value is None else require_keys(value)

    @field_validator("edges")
    @classmethod
    def _ascending(cls, value: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if value is not None and not (
            2 <= len(value) <= MAX_BINS + 1 and all(one < other for one, other in pairwise(value))
        ):
            raise InvalidRequest(
                "", list(value[:8]), f"must be from 2 to {MAX_BINS + 1} numbers in ascending order",
                "give the edges of the bins, such as [0, 18, 65, 120]",
            )  # fmt: skip
        return value

    @model_validator(mode="after")
    def _of_one_form(self) -> Self:
        given = [name for name in ("values", "edges", "every", "keys", "lookup") if getattr(self, name) is not None]
        if len(given) != 1:
            raise InvalidRequest(
                self.column, given or None,
                "must have exactly one of values, edges, every and lookup, because groups that are read from the rows "
                "would not be private",
                f"list the values, have them declared, `dp-budget domains ACCOUNT --set \"{self.column} in ('a', "
                f"'b')\"`, or request `by: [{{column: {self.column}, keys: discover}}]`, which needs a delta",
            )  # fmt: skip
        if self.keys is None and self.min_units is not None:
            raise InvalidRequest(
                f"{self.column}.min_units", self.min_units, "may be given only with keys: discover", "leave it out"
            )
        if self.keys is not None and (self.min_units is None or self.other):
            raise InvalidRequest(
                self.column, None, "must have min_units, and other must be false, with keys: discover",
                "leave other out, and give min_units or leave it out for the default",
            )  # fmt: skip
        if self.min_units is not None and self.min_units < MIN_UNITS:
            raise InvalidRequest(
                f"{self.column}.min_units", self.min_units,
                f"must be at least {MIN_UNITS}, because with less, a key that only one unit has could be released",
                f"give {MIN_UNITS} or more, or leave it out",
            )  # fmt: skip
        if self.every is None and (self.start is not None or self.end is not None):
            raise InvalidRequest(
                self.column, None, "may have start and end only together with every",
                "leave start and end out, or give every, the length of a period",
            )  # fmt: skip
        if self.every is not None and (self.start is None or self.end is None):
            raise InvalidRequest(
                self.column, None, "must have start and end, because every divides the time between them into periods",
                "give in start when the first period begins, and in end when the last period ends",
            )  # fmt: skip
        known = self.values if self.lookup is None else self.lookup.levels
        if known is not None and self.other and OTHER in map(str, known):
            raise InvalidRequest(
                f"{self.column}.{'values' if self.lookup is None else 'lookup'}", OTHER,
                "must not be listed, because this name is taken by the group of all rows whose value is not listed",
                "leave the name out, or set other to false",
            )  # fmt: skip
        if self.every is not None and self.start is not None and self.end is not None:
            number = len(periods(self.start, self.end, self.every).labels)
            if number > MAX_BINS:
                raise InvalidRequest(
                    f"{self.column}.every", self.every, f"must make at most {MAX_BINS:,} periods, not {number:,}",
                    "choose longer periods, or a shorter stretch of time",
                )  # fmt: skip
        return self

    @property
    def name(self) -> str:
        """The name of the dimension: its column, or the title of the lookup's values."""
        return self.column if self.lookup is None else self.lookup.value

    @property
    def places(self) -> Mapping[str, int] | None:
        """The index of the group of each text of the column; None unless values are listed or looked up."""
        if self.lookup is not None:
            return self.lookup.places
        return None if self.values is None else {str(key): place for place, key in enumerate(self.values)}

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its groups, in order; empty if keys are discovered."""
        listed: tuple[str, ...]
        if self.keys is not None:
            return ()
        if self.values is not None:
            listed = tuple(map(str, self.values))
        elif self.lookup is not None:
            listed = self.lookup.levels
        elif self.edges is not None:
            listed = tuple(f"{low:.12g} to {high:.12g}" for low, high in pairwise(self.edges))
        else:
            listed = periods(str(self.start), str(self.end), self.every or "day").labels
        return (*listed, OTHER) if self.other else listed
