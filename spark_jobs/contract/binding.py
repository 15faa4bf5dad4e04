"""What an account says of a table: how it is read, its columns, what names its states, and what of a row is public.

A charged request names a table and a state of it, and nothing else: all of this is the account's. If a request could
choose a column's type, one row could lie in block ``7`` as a whole number and in block ``7.0`` as a double, and be
released twice under one cap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.column_types import CSV_TYPES, Kind, is_csv_type, kind_of_type, normal_type
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import BlockBy, BlockExpression
from spark_jobs.contract.places import Place
from spark_jobs.contract.privacy import PrivacyUnit
from spark_jobs.contract.values import Frozen

ColumnName = Annotated[str, Field(min_length=1, max_length=255)]
Format = Literal["parquet", "csv", "catalog"]

MAX_COLUMNS = 10_000
MAX_FOLDERS = 20
_BLOCK_KINDS = (Kind.STRING, Kind.INTEGER, Kind.BOOLEAN, Kind.DATE)
_TIME_KINDS = (Kind.DATE, Kind.TIMESTAMP)


class BoundColumn(Frozen):
    """A column of a table.

    Attributes:
        name: as the table spells it.
        type: as Spark writes it, such as ``int``, ``string`` or ``decimal(10,2)``.
    """

    name: ColumnName
    type: Annotated[str, Field(min_length=1, max_length=10_000)]

    @field_validator("type")
    @classmethod
    def _one_spelling(cls, value: str) -> str:
        return normal_type(value)

    @property
    def kind(self) -> Kind | None:
        """What it holds; None for types that cannot be read."""
        return kind_of_type(self.type)


class TableVersion(Frozen):
    """How the states of a table are named; a snapshot names one in this way and in no other.

    Attributes:
        by: the form of ``Snapshot`` that is used.
        columns: of ``partition``, the partition columns that make a state; a snapshot pins all of them, and no other.
        folders: of ``path_version``, how many folders deep a state lies below the table's path.
    """

    by: Literal["path_version", "partition", "table_version"]
    columns: tuple[ColumnName, ...] = ()
    folders: Annotated[int, Field(ge=1, le=MAX_FOLDERS)] = 1

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.by == "partition") != bool(self.columns):
            raise InvalidRequest(
                "columns", value=", ".join(self.columns) or None,
                requirement="names the columns of a version that is a partition, and of no other",
                remedy="name every partition column that tells one state of the table from another",
            )  # fmt: skip
        if self.by != "path_version" and self.folders != 1:
            raise InvalidRequest(
                "folders", value=self.folders, requirement="is for versions that are folders of the table's path",
                remedy="leave it out",
            )  # fmt: skip
        return self

    def describe(self) -> str:
        """The form in words, for refusals and for who confirms it."""
        if self.by == "partition":
            return f"the partition columns {', '.join(self.columns)}"
        if self.by == "table_version":
            return "the catalog's version number"
        return "a folder below the path" if self.folders == 1 else f"a path of {self.folders} folders below the path"


class TableBinding(Frozen):
    """What an account says of one of its tables.

    Attributes:
        table: the table's identity; taken in any form that a request may name it in.
        format: ``parquet`` or ``csv`` (a path), or ``catalog``.
        columns: names and types, in order; of csv, the columns of the header in the order of the file, and then those
            that folders give. Also taken as a mapping of names to types.
        version: how the table's states are named.
        public_columns: the columns whose values are public and stay when a row is replaced: what filters, groups and
            blocks may read where sizes are public.
    """

    table: Annotated[str, Field(min_length=1, max_length=2000)]
    format: Format
    columns: Annotated[tuple[BoundColumn, ...], Field(min_length=1, max_length=MAX_COLUMNS)]
    version: TableVersion
    public_columns: tuple[ColumnName, ...] = ()

    @field_validator("table")
    @classmethod
    def _one_name(cls, value: str) -> str:
        try:
            return Place.parse(value).identity
        except InvalidRequest as refused:
            raise InvalidRequest.from_dict({**refused.to_dict(), "field": ""}) from None

    @field_validator("columns", mode="before")
    @classmethod
    def _from_mapping(cls, value: Any) -> Any:
        return columns_of_mapping(value)

    @field_validator("columns")
    @classmethod
    def _distinct(cls, value: tuple[BoundColumn, ...]) -> tuple[BoundColumn, ...]:
        _require_once((column.name for column in value), "")
        return value

    @field_validator("public_columns")
    @classmethod
    def _public_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        _require_once(value, "")
        return tuple(sorted(value))

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.format == "catalog") != self.table.startswith("catalog:"):
            raise InvalidRequest(
                "format", value=self.format, requirement=f"must be that of {self.table}",
                remedy="catalog is the format of catalog:db.name; parquet and csv are those of paths",
            )  # fmt: skip
        other_form = "path_version" if self.format == "catalog" else "table_version"
        if self.version.by == other_form:
            raise InvalidRequest(
                "version.by", value=other_form, requirement=f"does not name states of a {self.format} table",
                remedy="catalog tables are pinned by table_version or partition, paths by path_version or partition",
            )  # fmt: skip
        if self.format == "csv":
            require_csv_columns(self.columns)
        for name in (*self.version.columns, *self.public_columns):
            if name not in self.names:
                raise self._no_column("version.columns" if name in self.version.columns else "public_columns", name)
        self._require_exact_versions()
        return self

    def _require_exact_versions(self) -> None:
        """Refuse version columns in which two values could be pinned at once: folders ``v=1`` and ``v=01``, say."""
        kinds: tuple[Kind, ...] = (Kind.STRING,)
        if self.format == "catalog":
            kinds = (Kind.STRING, Kind.INTEGER, Kind.DATE)
        for name in self.version.columns:
            column = self.require_column(name, "version.columns")
            if column.kind not in kinds:
                raise InvalidRequest(
                    "version.columns", value=name,
                    requirement=f"must be of type {' or '.join(kinds)}, not {column.type}",
                    remedy="folders give text: bind the column as string",
                )  # fmt: skip

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def types(self) -> dict[str, str]:
        """The type of each column, in order."""
        return {column.name: column.type for column in self.columns}

    def column(self, name: str) -> BoundColumn | None:
        """The column of that name, whatever its case; None if there is none."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)

    def require_column(self, name: str, field: str) -> BoundColumn:
        """The column of that name.

        Raises:
            InvalidRequest: about ``field``; there is none.
        """
        column = self.column(name)
        if column is None:
            raise self._no_column(field, name)
        return column

    def require_terms(self, unit: PrivacyUnit, blocks: BlockExpression | None) -> None:
        """Refuse a table in which the account's unit or blocks would have no column, or one of which rows could move.

        Raises:
            InvalidRequest: a column is missing, or its type gives a row no block that stays: the text of a double
                depends on the version of Java, and a time of day alone becomes a moment of the day of the run.
        """
        if unit.column is not None and self.require_column(unit.column, "unit.column").kind is None:
            raise InvalidRequest(
                "unit.column", value=unit.column, requirement="must be a column of simple values", remedy="name another"
            )
        if blocks is None:
            return
        column = self.require_column(blocks.column, "blocks")
        kinds = _BLOCK_KINDS if blocks.by is BlockBy.VALUE else _TIME_KINDS
        if column.kind not in kinds:
            raise InvalidRequest(
                "blocks", value=str(blocks),
                requirement=f"must be of a column of type {', '.join(kinds)}, not {column.type}",
                remedy="name another column, or bind it as another type",
            )  # fmt: skip

    def require_extends(self, older: TableBinding) -> None:
        """Refuse to take the place of ``older`` by anything but more columns and more public ones.

        Raises:
            InvalidRequest: what was bound would change: a row that was paid for under one type would be another row.
        """
        kept = [column for column in self.columns if column in older.columns]
        same = (self.table, self.format, self.version) == (older.table, older.format, older.version)
        if not same or tuple(kept) != older.columns or not set(older.public_columns) <= set(self.public_columns):
            raise InvalidRequest(
                "binding", value=self.table,
                requirement="can only be given more columns and more public columns, in the order that it has",
                remedy="open an account for a new table, and leave this one as it is",
            )  # fmt: skip

    def _no_column(self, field: str, name: str) -> InvalidRequest:
        return InvalidRequest(
            field,
            value=name,
            requirement=f"must be a column of the bound table {self.table}",
            remedy="correct the name",
        )


def columns_of_mapping(value: Any) -> Any:
    """``value`` as a list of columns, where it maps names to types."""
    return [{"name": name, "type": of} for name, of in value.items()] if isinstance(value, dict) else value


def require_csv_columns(columns: Iterable[BoundColumn]) -> None:
    """Refuse columns that no csv file has.

    Raises:
        InvalidRequest: a type that text is not converted to, or a name with spaces around it, which a header loses.
    """
    for column in columns:
        if not is_csv_type(column.type):
            raise InvalidRequest(
                f"columns.{column.name}", value=column.type,
                requirement=f"must be one of {', '.join(CSV_TYPES)}, decimal(p,s)", remedy="correct the type",
            )  # fmt: skip
        if column.name != column.name.strip():
            raise InvalidRequest(
                "columns", value=column.name, requirement="must have no space around it", remedy="write the bare name"
            )


def _require_once(names: Iterable[str], what: str) -> None:
    """Refuse names that are one to Spark, which does not tell upper case from lower case."""
    ((name, times),) = Counter(name.lower() for name in names).most_common(1) or [("", 0)]
    if times > 1:
        raise InvalidRequest(
            what, value=name, requirement="is there more than once", remedy="columns must differ in more than case"
        )
