"""What the embedded engine is proved to count as Spark does; a request for anything else is refused before the charge.

``tests/application/test_engines.py`` is the proof: it counts with both engines, on ordinary and on extreme values. What
is refused either differs, or could not be shown to be the same to the last bit: logarithms and exponentials, whose last
digit may differ between two libraries; parts of times and casts of times, on which the embedded engine raises beyond
the year 262142; and text that the embedded engine reads by other rules than Java. No decision here depends on a table's
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from spark_jobs.contract.binding import Format
from spark_jobs.contract.bound_columns import BoundColumn
from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.columns import ColumnNeed, expressions, needs
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import BlockBy
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.expressions.tree import Cast, Expression, Function, size, walk
from spark_jobs.contract.expressions.tree import columns as columns_of
from spark_jobs.contract.file_checks import EMPTY, footers_of, pinned_names, require_no_links
from spark_jobs.contract.footers import VOID, reconciles
from spark_jobs.contract.options import AggregateCells, PairedScoreCells, PointCells, PointSums
from spark_jobs.contract.options.aggregates import DiscoverableCells
from spark_jobs.contract.options.by_group import GroupedScoreCells
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.delta_log import DeltaVersion
from spark_jobs.contract.store.iceberg_metadata import IcebergVersion
from spark_jobs.contract.store.table_files import TableFiles, folder_values, partition_columns, require_all_rows
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.tables import ColumnsModel, LinearModel, Model, TableSource

EMBEDDED = "embedded"
"""The Spark master that stands for the embedded engine."""
AUTO = "auto"
"""The master that stands for it where it takes a request and is installed, and for Spark on this machine otherwise."""
FORMATS: tuple[Format, ...] = ("parquet", "delta", "iceberg")
TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "timestamp",
    "timestamp_ntz",
)  # fmt: skip
"""The types of columns that it counts by, beside decimals of at most ``MAX_DIGITS`` digits."""
MAX_DIGITS = 15
"""The most digits of a decimal: of more, two engines make doubles that differ in the last bit."""
FUNCTIONS = ("ABS", "COALESCE", "GREATEST", "LEAST", "LENGTH", "SQRT", "TRIM")
"""The functions of filters and features that it evaluates."""
MAX_LEVELS = 12
"""The most levels of an expression: Spark Connect's messages, which hold each in several of their own, have 100."""
MAX_LISTED = 1_000
"""The most keys of a list or a lookup, with which it compares rows one after the other."""
_NOT_COUNTED = ("logistic_fit", "rows_per_unit")
"""Kinds whose statistics are made with exponentials of rows, or of units before any row is left out."""
_NAMELESS = "must have folders named column=value, with a value that is not empty", "rename the folder to column=value"
_OTHERWISE = "run the request on Spark, by another master such as local[*]"


def require_embedded(request: TableRequest) -> CheckedFiles:
    """Reject what the embedded engine is not proved to count as Spark does; returns the files that it may read.

    Only the request and the files' names and footers are read, and the metadata of a version once.

    Raises:
        InvalidRequest: the request needs Spark, or its table cannot be listed here.
    """
    if request.input_suite is not None:
        _refuse("input_suite", None, "must be left out with the embedded engine")
    if isinstance(request, ReleaseRequest):
        _require_release(request)
    elif isinstance(request, StreamRequest):
        _require_stream(request)
    _require_expressions(request)
    _require_blocks(request)
    _require_table(request.table)
    needed_columns(request)
    return _require_files(request)


def _require_stream(request: StreamRequest) -> None:
    if request.follow is not None:
        _refuse("follow", request.follow.delay, "must be left out with the embedded engine")
    if request.unit.column is not None:
        _refuse("unit.column", request.unit.column, "must be left out of a stream with the embedded engine")
    if request.states is not None:
        _require_short_lists([("states", request.states.column, len(request.leaf_names))])


def _require_release(request: ReleaseRequest) -> None:
    if request.federation is not None:
        _refuse("federation", request.federation.name, "must be left out with the embedded engine")
    for options in request.diagnostics:
        if options.kind in _NOT_COUNTED:
            _refuse("diagnostics", options.kind, "must be of a kind that the embedded engine releases")
    if request.uses_model:
        _require_model(request.needed_model)
    for statistic in request.statistics:
        if isinstance(statistic, PairedScoreCells):
            _require_model(statistic.model)
        if isinstance(statistic, DiscoverableCells):
            _refuse(
                "diagnostics.by",
                "discover",
                "must list its groups, instead of discovering keys, with the embedded engine",
            )
        if isinstance(statistic, AggregateCells) and statistic.of_units is not None:
            _refuse("diagnostics.measures", "units", "must count no distinct units with the embedded engine")
    _require_short_lists(_lists_of(request))
    if request.group_bound is not None:
        _refuse("unit", request.unit.column, "must be used without max_groups with the embedded engine")


def _lists_of(request: ReleaseRequest) -> Iterator[tuple[str, str, int]]:
    """Of each public list of keys the field, the column and the length."""
    for statistic in request.statistics:
        if isinstance(statistic, AggregateCells):
            for dimension in statistic.by:
                yield "diagnostics.by", dimension.column, len(dimension.places or ())
        if isinstance(statistic, (GroupedScoreCells, PointCells, PointSums)):
            yield "groups", statistic.group_by or "", len(statistic.groups or ())


def _require_short_lists(lists: Iterable[tuple[str, str, int]]) -> None:
    for field, column, keys in lists:
        if keys > MAX_LISTED:
            _refuse(
                field, f"{keys:,} keys of {column}", f"must be at most {MAX_LISTED:,} keys with the embedded engine"
            )


def needed_columns(request: TableRequest) -> tuple[BoundColumn, ...]:
    """The bound columns that the request needs; the engine reads no others.

    Raises:
        InvalidRequest: the engine is not proved to count by the type of one of them.
    """
    bound = {column.name: column for column in request.table.columns or ()}
    wanted: dict[str, BoundColumn] = {}
    for need in (*needs(request, bound), *_of_terms(request)):
        name = need.spelling_in(bound)
        if name is None:
            _refuse(need.field, need.name, "must be a column, and no field of one, with the embedded engine")
        if not is_counted(bound[name].type):
            _refuse(
                need.field, need.name, f"must be of type {', '.join(TYPES)} or a decimal of at most {MAX_DIGITS} "
                f"digits with the embedded engine, not {bound[name].type}",
            )  # fmt: skip
        wanted[name] = bound[name]
    return tuple(wanted.values())


def is_counted(of: str) -> bool:
    """Whether the engine is proved to count by columns of a type, given in its canonical spelling."""
    return of in TYPES or (of.startswith("decimal(") and int(of[8:-1].split(",")[0]) <= MAX_DIGITS)


def _of_terms(request: TableRequest) -> Iterator[ColumnNeed]:
    if request.block_filter is not None:
        for name in columns_of(parse(request.block_filter, what="blocks")):
            yield ColumnNeed(name=name, field="blocks")
    for name in request.table.snapshot.partition or ():
        yield ColumnNeed(name=name, field="table.snapshot.partition")


def _require_model(model: Model) -> None:
    if not isinstance(model, (ColumnsModel, LinearModel)):
        _refuse("model.kind", model.kind, "must be columns or linear with the embedded engine")
    if model.recalibrated is not None:
        _refuse("model.recalibrated", None, "must be left out with the embedded engine")
    if isinstance(model, ColumnsModel) and model.scale is not None and model.scale.kind != "linear":
        _refuse("model.scale", model.scale.kind, "must be linear with the embedded engine")


def _require_expressions(request: TableRequest) -> None:
    names = [column.name for column in request.table.columns or ()]
    written = [(need.field, need.text, need.expression) for need in expressions(request, names)]
    for field, text, expression in written:
        for part in walk(expression):
            if (what := fault(part)) is not None:
                _refuse(field, text, f"must not contain {what} with the embedded engine")
        if size(expression)[1] > MAX_LEVELS:
            _refuse(field, text, f"must have at most {MAX_LEVELS} levels with the embedded engine")


def _require_blocks(request: TableRequest) -> None:
    """Reject blocks by the text of a day, of which the engine's differs beyond the year 262142.

    Blocks by time are compared with moments between the years 1900 and 9999: a day that the engine cannot make a
    moment of is in none of them either way. The texts of whole numbers and booleans are the same.
    """
    blocks = request.block_expression
    if request.block_filter is None or blocks is None or blocks.by is not BlockBy.VALUE:
        return
    column = next((one for one in request.table.columns or () if one.name.lower() == blocks.column.lower()), None)
    if column is not None and column.kind is Kind.DATE:
        _refuse("blocks", blocks.column, "must not be values of a column of type date with the embedded engine")


def fault(part: Expression) -> str | None:
    """Why the engine is not proved to evaluate a part of an expression; None if it is."""
    match part:
        case Function(name=name) if name not in FUNCTIONS:
            return name
        case Cast():
            return "CAST"
        case _:
            return None


def _require_table(table: TableSource) -> None:
    if table.form not in FORMATS:
        _refuse("table.format", table.form, f"must be {' or '.join(FORMATS)} with the embedded engine")
    if table.columns is None:
        _refuse("table.columns", None, "must be given with the embedded engine")
    if table.path is None or table.pinned.local is None:
        _refuse("table.path", table.path, "must be a folder of this machine with the embedded engine")
    for name, value in (table.snapshot.partition or {}).items():
        if not isinstance(value, str):
            _refuse("table.snapshot.partition", f"{name}={value}", "must be a text with the embedded engine")


@dataclass(frozen=True, kw_only=True)
class CheckedFiles:
    """The files of a table whose columns were checked, as one reading of its folder or metadata gave them.

    Attributes:
        files: the files.
        values: of each file, by its name, the values of the columns that it does not hold.
        folder_columns: these columns.
    """

    files: TableFiles
    values: Mapping[str, Sequence[str | None]]
    folder_columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: TableSource, needed: Iterable[BoundColumn]) -> CheckedFiles:
        """The files of a table, with those of its needed columns whose types its metadata state.

        Raises:
            InvalidRequest: the table cannot be listed here, or its metadata have other columns.
        """
        return _FILES[table.form](table, {column.name.lower(): column for column in needed})


def _require_files(request: TableRequest) -> CheckedFiles:
    """Reject a folder that is not there, and files in which the needed columns have not the bound types."""
    table = request.table
    table.pinned.require_real(what="table.path")
    require_no_links(table)
    needed = {column.name.lower(): column for column in needed_columns(request)}
    checked = CheckedFiles.of(table, needed.values())
    for name in checked.folder_columns:
        of_folder = needed.pop(name.lower(), None)
        if "%" in name or (of_folder is not None and of_folder.type != "string"):
            _refuse(
                "table", f"column {name} of folders",
                "must be of type string, and be written without escapes, with the embedded engine",
            )  # fmt: skip
    for footer in footers_of(table, checked.files, checked.files.names).values():
        types = {name.lower(): of for name, of in footer.types.items()}
        for column in needed.values():
            of = types.get(column.name.lower())
            # files that were written before a column was added have nulls there
            if (of is None and table.form == "parquet") or not reconciles(of or VOID, column.type):
                _refuse(
                    "table", f"column {column.name} of type {of or 'none'} in a file",
                    f"must be in all files, of a type that is read as {column.type}, with the embedded engine",
                )  # fmt: skip
    return checked


def _of_folder(table: TableSource, _: Mapping[str, BoundColumn]) -> CheckedFiles:
    """The files of a folder that are read, and the columns that their folders add."""
    files = TableFiles.of(table.pinned)
    require_all_rows(files, field="table.path", value=table.path)
    if not files.names:
        raise InvalidRequest("table.path", table.path, *EMPTY)
    if any("" in folder_values(name) for name in files.names):
        raise InvalidRequest("table.path", table.path, *_NAMELESS)
    names = pinned_names(table, files.names)
    # summaries of other files, which Spark passes over
    shown = (name for name in names if not Path(name).name.startswith(("_", ".")))
    values = {name: folder_values(name) for name in shown}
    folder_columns = partition_columns(files.names[0])
    return CheckedFiles(files=replace(files, names=names), values=values, folder_columns=folder_columns)


def _of_delta(table: TableSource, needed: Mapping[str, BoundColumn]) -> CheckedFiles:
    """The files of a version of a Delta table, and the columns whose values its log holds."""
    folder = str(table.pinned.local)
    version = DeltaVersion.of(folder, int(table.snapshot.table_version or 0))
    _require_types(version.types, needed)
    files = TableFiles(folder=folder, names=tuple(version.files))
    return CheckedFiles(files=files, values=version.files, folder_columns=version.folder_columns)


def _of_iceberg(table: TableSource, needed: Mapping[str, BoundColumn]) -> CheckedFiles:
    """The files of a snapshot of an Iceberg table, in each of which a column of a name is the snapshot's."""
    folder = str(table.pinned.local)
    version = IcebergVersion.of(folder, int(table.snapshot.table_version or 0))
    _require_types(version.types, needed)
    spelled = {name.lower(): name for name in version.types}
    for name in version.files:
        for column in needed:
            if (has := version.fault_of(folder, name, spelled[column])) is not None:
                _refuse(
                    "table", f"column {spelled[column]} of which a file has {has}",
                    "must be the same column in all files with the embedded engine",
                )  # fmt: skip
    return CheckedFiles(files=TableFiles(folder=folder, names=version.files), values=dict.fromkeys(version.files, ()))


def _require_types(types: Mapping[str, str], needed: Mapping[str, BoundColumn]) -> None:
    of_version = {name.lower(): of for name, of in types.items()}
    for name, column in needed.items():
        if of_version.get(name) != column.type:
            _refuse(
                "table", f"column {column.name} of type {of_version.get(name) or 'none'} in this version",
                f"must be of the bound type {column.type} with the embedded engine",
            )  # fmt: skip


_FILES = {"parquet": _of_folder, "delta": _of_delta, "iceberg": _of_iceberg}


def _refuse(field: str, value: object, requirement: str) -> NoReturn:
    raise InvalidRequest(field, value, requirement, _OTHERWISE)
