"""The columns of a table as an account binds them: names, types, and what they may hold."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import Field, field_serializer, field_validator, model_validator

from spark_jobs.contract.column_text import column_of
from spark_jobs.contract.column_types import Kind, kind_of_type, normal_type
from spark_jobs.contract.domains import Domain, ValueRange, parse_domain, require_fits
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import Frozen

ColumnName = Annotated[str, Field(min_length=1, max_length=255)]


class BoundColumn(Frozen):
    """A column of a table.

    Attributes:
        name: its name, as the table spells it.
        type: its type, as Spark writes it, such as ``int``, ``string`` or ``decimal(10,2)``.
        domain: what it may hold (``contract.domains``), written in JSON as text; None if nothing is declared.
    """

    name: ColumnName
    type: Annotated[str, Field(min_length=1, max_length=10_000)]
    domain: Annotated[Domain | None, Field(exclude_if=lambda value: value is None)] = None

    @field_validator("type")
    @classmethod
    def _one_spelling(cls, value: str) -> str:
        return normal_type(value)

    @field_validator("domain", mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return parse_domain(value) if isinstance(value, str) else value

    @field_serializer("domain")
    def _as_text(self, value: Domain | None) -> str | None:
        return None if value is None else str(value)

    @model_validator(mode="after")
    def _domain_of_type(self) -> Self:
        if self.domain is not None:
            try:
                require_fits(self.domain, self.type, self.kind)
            except InvalidRequest as refused:
                raise refused.within(f"domain of {self.name}") from None
        return self

    @property
    def step(self) -> Decimal | None:
        """The step between the values of a range: the domain's, or 1 for whole numbers; None if any value may occur."""
        if not isinstance(self.domain, ValueRange) or self.domain.scale == "log":
            return None
        return self.domain.step or (Decimal(1) if self.kind is Kind.INTEGER else None)

    @property
    def bare(self) -> BoundColumn:
        """The column without its domain."""
        return self.model_copy(update={"domain": None})

    @property
    def kind(self) -> Kind | None:
        """The kind of its values; None for a type that cannot be read."""
        return kind_of_type(self.type)


def columns_of_mapping(value: Any) -> Any:
    """Turn a mapping of names to types and domains into a list of columns; return anything else unchanged.

    Raises:
        InvalidRequest: a text is neither a type nor a type followed by a domain.
    """
    if not isinstance(value, dict):
        return value
    columns = []
    for name, of in value.items():
        try:
            column = column_of(name, of) if isinstance(name, str) and isinstance(of, str) else None
        except InvalidRequest as refused:
            where = refused.field.removeprefix("columns.")
            raise InvalidRequest.from_dict({**refused.to_dict(), "field": where}) from None
        if column is not None and column.public:
            raise InvalidRequest(
                name, of, "must be a type and a domain, without the word public", "name the column in public_columns"
            )
        columns.append({"name": name, "type": of} if column is None else column.fields())
    return columns
