"""How an account binds a table: its format, its columns, how its states are named, and which columns are public.

A charged request names a table and one of its states; the account fixes everything else. Otherwise a request could
choose a column's type, and the same row would lie in block ``7`` as a whole number and in block ``7.0`` as a double: it
could be released twice, each time under a full cap.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.bound_columns import BoundColumn, ColumnName, columns_of_mapping
from spark_jobs.contract.column_types import TEXT_TYPES, Kind, is_text_type
from spark_jobs.contract.domains import Domain
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import BlockBy, BlockExpression
from spark_jobs.contract.file_form import FileForm
from spark_jobs.contract.nested_fields import with_nested_fields
from spark_jobs.contract.places import Place
from spark_jobs.contract.privacy import PrivacyUnit
from spark_jobs.contract.values import Frozen, did_you_mean
from spark_jobs.contract.version_order import VersionOrder, extends_order

Format = Literal["parquet", "orc", "csv", "json", "delta", "iceberg", "catalog", "jdbc"]
NAMED_FORMATS = ("catalog", "jdbc")
"""The formats of tables that have a name and no path."""
VERSIONED_FORMATS = ("catalog", "delta", "iceberg")
"""The formats of tables that keep their earlier states under numbers."""
TEXT_FORMATS = ("csv", "json", "jdbc")
"""The formats whose values arrive as text, which is converted to the types of the declared columns."""

MAX_COLUMNS = 10_000
MAX_FOLDERS = 20
_BLOCK_KINDS = (Kind.STRING, Kind.INTEGER, Kind.BOOLEAN, Kind.DATE)
_TIME_KINDS = (Kind.DATE, Kind.TIMESTAMP)


class TableVersion(Frozen):
    """How the states of a table are named; every snapshot of the table must name its state in this way.

    Attributes:
        by: the form of ``Snapshot`` that names a state.
        columns: for ``partition``: the partition columns that identify a state; a snapshot pins exactly these.
        folders: for ``path_version``: how many folders below the table's path a state lies.
    """

    by: Literal["path_version", "partition", "table_version"]
    columns: tuple[ColumnName, ...] = ()
    folders: Annotated[int, Field(ge=1, le=MAX_FOLDERS)] = 1

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.by == "partition" and not self.columns:
            raise InvalidRequest(
                "columns", None, "must list partition columns if by is partition",
                "list every partition column that distinguishes one state of the table from another",
            )  # fmt: skip
        if self.by != "partition" and self.columns:
            raise InvalidRequest(
                "columns", ", ".join(self.columns), "may be given only if by is partition", "leave it out"
            )
        if self.by != "path_version" and self.folders != 1:
            raise InvalidRequest("folders", self.folders, "may be given only with by: path_version", "leave it out")
        return self

    def describe(self) -> str:
        """The form in words, for messages and for the person who confirms it."""
        if self.by == "partition":
            return f"the partition columns {', '.join(self.columns)}"
        if self.by == "table_version":
            return "the table's version number"
        return "a folder below the path" if self.folders == 1 else f"a path of {self.folders} folders below the path"


MAX_UNITS = 1 << 22
"""The most units whose use a stream keeps; its state is written anew with every run."""


def _undeclared(value: object) -> bool:
    return value is None


# left out while it is not declared: what was written before there was such a field is the same, byte for byte
RowsPerUnit = Annotated[int | None, Field(default=None, ge=1, le=1_000_000, exclude_if=_undeclared)]
Units = Annotated[int | None, Field(default=None, ge=1, le=MAX_UNITS, exclude_if=_undeclared)]
DeclaredOrder = Annotated[VersionOrder | None, Field(default=None, exclude_if=_undeclared)]
OneForm = Annotated[FileForm | None, Field(default=None, exclude_if=_undeclared)]


class TableBinding(Frozen):
    """The terms that an account fixes for one of its tables.

    Attributes:
        table: the table's identity; accepted in any form in which a request may name it.
        format: ``parquet``, ``orc``, ``csv``, ``json``, ``delta`` or ``iceberg`` (a path), ``catalog`` or ``jdbc``.
        columns: names, types and domains, in order. For csv: the columns of the header, in the order of the file, and
            then those that partition folders add. Also accepted as a mapping of names to types and domains.
        file_form: how values are written in csv and JSON files; None for the form that is assumed (``FileForm``).
        version: how the table's states are named.
        public_columns: the columns whose values are public and do not change when a row is replaced. Where sizes are
            public, filters, groups and blocks may read only these.
        rows_per_unit: the most rows of one privacy unit in the table, as a fact that its administrator declares and
            nothing checks; None if it is not known.
        units: the most privacy units that the table will ever have, in all its versions together; declared and not
            checked. With this number, a stream can keep count of the rows of each unit that it has used.
        append_only: whether versions only gain rows, so that none is changed or removed; declared and not checked. A
            stream needs it where each row is a unit, or a unit has at most ``rows_per_unit`` rows.
        version_order: which of two versions is the later one; a stream never goes back.
    """

    table: Annotated[str, Field(min_length=1, max_length=2000)]
    format: Format
    columns: Annotated[tuple[BoundColumn, ...], Field(min_length=1, max_length=MAX_COLUMNS)]
    file_form: OneForm = None
    version: TableVersion
    public_columns: tuple[ColumnName, ...] = ()
    rows_per_unit: RowsPerUnit = None
    units: Units = None
    append_only: Annotated[bool, Field(exclude_if=operator.not_)] = False
    version_order: DeclaredOrder = None

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

    @field_validator("file_form")
    @classmethod
    def _one_way_to_declare_nothing(cls, value: FileForm | None) -> FileForm | None:
        return value if value is not None and value.model_dump() else None

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
        named = self.table.partition(":")[0]
        if self.format != named and (self.format in NAMED_FORMATS or named in NAMED_FORMATS):
            raise InvalidRequest(
                "format", self.format, f"must match the table {self.table}",
                "use catalog for catalog:db.name, jdbc for jdbc:connection.schema.table, and another "
                "format for a path",
            )  # fmt: skip
        numbered = dict.fromkeys(("delta", "iceberg"), ("table_version",))
        forms = {"catalog": ("table_version", "partition"), "jdbc": ("partition",), **numbered}
        if self.version.by not in forms.get(self.format, ("path_version", "partition")):
            raise InvalidRequest(
                "version.by", self.version.by, f"cannot name the states of a {self.format} table",
                "use table_version or partition for catalog tables, table_version for delta and iceberg, "
                "partition for tables of a database, and path_version or partition for others",
            )  # fmt: skip
        require_text_columns(self.columns, self.format)
        if self.file_form is not None:
            self.file_form.require_format(self.format)
        for name in self.version.columns:
            if name not in self.names:
                raise self._no_column("version.columns", name)
        readable = with_nested_fields(self.types)
        for name in self.public_columns:
            if name not in readable:
                raise self._no_column("public_columns", name)
        if self.version_order == "number" and self.version.by != "table_version":
            raise InvalidRequest(
                "version_order", "number", "needs a table whose versions are numbers, named by table_version",
                "use natural, which compares the digits within a name as numbers, or list the names in order",
            )  # fmt: skip
        self._require_exact_versions()
        return self

    @property
    def order(self) -> VersionOrder | None:
        """The bound order of versions, or else ``number`` for version numbers other than Iceberg's; else None."""
        numbered = self.version.by == "table_version" and self.format != "iceberg"
        return self.version_order or ("number" if numbered else None)

    def _require_exact_versions(self) -> None:
        """Reject version columns in which one pinned value could match two folders, such as ``v=1`` and ``v=01``."""
        kinds: tuple[Kind, ...] = (Kind.STRING,)
        if self.format in NAMED_FORMATS:
            kinds = (Kind.STRING, Kind.INTEGER, Kind.DATE)
        for name in self.version.columns:
            column = self.require_column(name, "version.columns")
            if column.kind not in kinds:
                raise InvalidRequest(
                    "version.columns", name, f"must be of type {' or '.join(kinds)}, not {column.type}",
                    "bind the column as string, because folder names are text",
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
        """The column with this name, or the field of a struct at this path, ignoring case; otherwise None."""
        own = next((column for column in self.columns if column.name.lower() == name.lower()), None)
        if own is not None:
            return own
        types = with_nested_fields(self.types)
        alike = (BoundColumn(name=one, type=of) for one, of in types.items() if one.lower() == name.lower())
        return next(alike, None)

    def require_column(self, name: str, field: str) -> BoundColumn:
        """The column with this name, or the field of a struct at this path, ignoring case.

        Args:
            name: the column's name.
            field: the field that names the column, for the message.

        Raises:
            InvalidRequest: the table has no such column.
        """
        column = self.column(name)
        if column is None:
            raise self._no_column(field, name)
        return column

    def require_terms(self, unit: PrivacyUnit, blocks: BlockExpression | None) -> None:
        """Reject a table without the columns of the account's unit and blocks, or with types that cannot be used there.

        Raises:
            InvalidRequest: a column is missing, or its type does not assign each row to one fixed block. For example,
                the text of a double depends on the version of Java, and Spark adds the date of the run to a bare time
                of day.
        """
        if unit.column is not None:
            self._require_unit(unit.column)
        if blocks is None:
            return
        column = self.require_column(blocks.column, "blocks")
        kinds = _BLOCK_KINDS if blocks.by is BlockBy.VALUE else _TIME_KINDS
        if column.kind not in kinds:
            raise InvalidRequest(
                "blocks", str(blocks), f"must use a column of type {', '.join(kinds)}, not {column.type}",
                "name another column, or bind it as another type",
            )  # fmt: skip

    def _require_unit(self, name: str) -> None:
        """Reject values that two units may have alike: a text read as a floating-point number loses its last digits."""
        column = self.require_column(name, "unit.column")
        if column.kind is None:
            raise InvalidRequest(
                "unit.column",
                name,
                "must be a column of single values, not of structs, lists or maps",
                "name another column",
            )
        if self.format in TEXT_FORMATS and column.type in ("float", "double"):
            raise InvalidRequest(
                "unit.column", name,
                f"must not be of type {column.type} in a {self.format} table, because two different long numbers may "
                "be read as the same number",
                "bind the column as string",
            )  # fmt: skip

    def require_extends(self, older: TableBinding, *, blocks: BlockExpression | None = None) -> None:
        """Reject this binding if it changes ``older`` in another way than is allowed.

        It may add columns, public columns, facts and later versions, and may change domains. If the account has no
        ``blocks``, it may also change the form of the files: a row that is then read in another way is still charged to
        the same total.

        Raises:
            InvalidRequest: this binding changes anything else that was bound, so that a row already paid for could
                count as a different row.
        """
        before = [column.bare for column in older.columns]
        kept = [column.bare for column in self.columns if column.bare in before]
        same = (self.table, self.format, self.version) == (older.table, older.format, older.version)
        same &= blocks is None or self.file_form == older.file_form
        same &= older.rows_per_unit in (None, self.rows_per_unit) and self.append_only >= older.append_only
        same &= older.units in (None, self.units) and extends_order(self.version_order, older.version_order)
        # a new column may be named like the path of a field that was bound
        same &= all(_bare(self.column(path)) == _bare(older.column(path)) for path in with_nested_fields(older.types))
        if not same or kept != before or not set(older.public_columns) <= set(self.public_columns):
            raise InvalidRequest(
                "binding", self.table,
                "may gain columns, public columns, later versions and facts that were not declared, and may change "
                "domains, but everything else that was bound must stay as it is, in the same order",
                "leave this binding as it is, and open an account for the new table",
            )  # fmt: skip

    def with_domains(self, domains: Mapping[str, Domain | None]) -> Self:
        """This binding with the domains of some columns replaced; None removes a column's domain.

        Raises:
            InvalidRequest: there is no such column, or a domain contradicts its type.
        """
        for name in domains:
            if name not in self.names:
                raise self._no_column("domains", name)
        return self.changed(
            columns=tuple(
                column.changed(domain=domains[column.name]) if column.name in domains else column
                for column in self.columns
            )
        )

    def _no_column(self, field: str, name: str) -> InvalidRequest:
        return InvalidRequest(
            field, name, f"must be a column of the bound table {self.table}",
            f"correct the name{did_you_mean(name, self.names)}",
        )  # fmt: skip


def _bare(column: BoundColumn | None) -> BoundColumn | None:
    return None if column is None else column.bare


def require_text_columns(columns: Iterable[BoundColumn], form: Format | None) -> None:
    """Reject columns that a table of a text format cannot have; other formats pass.

    Raises:
        InvalidRequest: text cannot be converted to a column's type, or a name begins or ends with spaces, which are
            lost when a header is read.
    """
    for column in columns if form in TEXT_FORMATS else ():
        if not is_text_type(column.type, structs=form == "json"):
            structs = " or a struct of these" if form == "json" else ""
            raise InvalidRequest(
                f"columns.{column.name}", column.type,
                f"must be one of {', '.join(TEXT_TYPES)} or decimal(p,s){structs}", "correct the type",
            )  # fmt: skip
        if form == "csv" and column.name != column.name.strip():
            raise InvalidRequest("columns", column.name, "must have no spaces around it", "remove them")


def _require_once(names: Iterable[str], what: str) -> None:
    """Reject names that Spark takes for the same, because it ignores case."""
    ((name, times),) = Counter(name.lower() for name in names).most_common(1) or [("", 0)]
    if times > 1:
        raise InvalidRequest(what, name, "must be listed only once", "give columns names that differ in more than case")
