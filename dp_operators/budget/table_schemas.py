"""Builds the binding of a table from options, from schema files and from the earlier binding."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from spark_jobs.contract.binding import NAMED_FORMATS, VERSIONED_FORMATS, TableBinding
from spark_jobs.contract.bound_columns import columns_of_mapping
from spark_jobs.contract.column_text import columns_in
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_form import FileForm
from spark_jobs.contract.first_line import fault_of, header_names, text_of, unlike
from spark_jobs.contract.footers import common_types, footer_of
from spark_jobs.contract.places import Place
from spark_jobs.contract.store.table_files import TableFiles
from spark_jobs.contract.version_order import longer_order, order_of

_LOOKED_AT = 1000
"""The most files whose footers are read for the columns of a new binding."""
_BY = {**dict.fromkeys(VERSIONED_FORMATS, "table_version"), "jdbc": "partition"}


def binding_of(
    table: str,
    *,
    schema: Path | None = None,
    columns: str | None = None,
    form: str | None = None,
    version_columns: Iterable[str] = (),
    version_folders: int | None = None,
    public_columns: Iterable[str] = (),
    append_only: bool = False,
    rows_per_unit: int | None = None,
    file_form: Iterable[str] = (),
    units: int | None = None,
    version_order: Iterable[str] = (),
    before: Mapping[str, Any] | None = None,
) -> TableBinding:
    """The binding of a table from the arguments, completed by its earlier binding.

    Args:
        table: a path, a URI, ``catalog:db.name`` or ``jdbc:connection.schema.table``.
        schema: a JSON file of a binding or of its columns, a Parquet file, or a folder of Parquet files laid out like a
            snapshot of the table; or a csv file, whose header gives the names and ``columns`` the types.
        columns: names, types, domains and facts (``contract.column_text``), such as ``age int between 0 and 120,
            `amount, net` decimal(10,2)``.
        form: ``parquet``, ``orc``, ``csv``, ``json``, ``delta``, ``iceberg``, ``catalog`` or ``jdbc``; by default the
            format of the earlier binding or of the schema, or else the one that the table's name implies, which for a
            path is ``parquet``.
        version_columns: the partition columns that make a version.
        version_folders: how many levels of folders below the table a version lies; 1 by default.
        public_columns: columns that are public, in addition to those of the earlier binding.
        append_only: whether versions of the table only gain rows, if the administrator knows it.
        rows_per_unit: the most rows of one privacy unit in the table, if the administrator knows it.
        file_form: how values are written in csv and JSON files, such as ``separator=;``.
        units: the most privacy units that the table will ever have, if the administrator knows it.
        version_order: ``natural``, ``number``, or names of versions, earliest first, to add to those already listed.
        before: the fields of the earlier binding.

    Raises:
        InvalidRequest: the columns are not given, a file cannot be read, or the fields are not a valid binding.
    """
    form_before = FileForm.parse((before or {}).get("file_form") or {})
    file_forms = FileForm.of_options(file_form, form_before)
    fields: dict[str, Any] = {**(before or {}), **({} if schema is None else _of_file(schema, file_forms))}
    if file_forms.model_dump():
        fields["file_form"] = file_forms.model_dump()
    public = list(public_columns)
    if columns is not None:
        public += _set_columns(fields, columns, schema)
    if "columns" not in fields:
        raise InvalidRequest(
            "columns", None, f"must be given for table {table}: names, types and, for csv, their order",
            "name a file that has them by --schema, or list them: --columns 'id int, region string'",
        )  # fmt: skip
    fields.pop("header", None)
    named = table.partition(":")[0]
    by_default = named if named in NAMED_FORMATS else "parquet"
    fields["format"] = form or fields.get("format") or by_default
    version = _version(tuple(version_columns), version_folders)
    if version is not None or "version" not in fields:
        fields["version"] = version or {"by": _BY.get(fields["format"], "path_version")}
    fields["columns"] = _with_domains(fields["columns"], before)
    fields["public_columns"] = sorted({*fields.get("public_columns", ()), *public})
    order = longer_order(fields.get("version_order"), order_of(tuple(version_order)))
    declared = {
        "append_only": append_only or None, "rows_per_unit": rows_per_unit, "units": units, "version_order": order,
    }  # fmt: skip
    given = {name: value for name, value in declared.items() if value is not None}
    return TableBinding.parse({**fields, **given, "table": table})


def _set_columns(fields: dict[str, Any], columns: str, schema: Path | None) -> list[str]:
    """Put the columns of a text into the fields of a binding; the names of those that it makes public.

    Raises:
        InvalidRequest: it is no list of columns, or differs from the header of a csv file.
    """
    written = columns_in(columns)
    header = fields.pop("header", None)
    differs = None if header is None else unlike(header, [column.name for column in written])
    if differs is not None:
        raise InvalidRequest(
            "columns", columns, f"must be the names in the header of {schema}, in the same order, but that header "
            f"{differs.what}",
            "give each column of the header with its type",
        )  # fmt: skip
    fields["columns"] = [column.fields() for column in written]
    return [column.name for column in written if column.public]


def binding_lines(binding: TableBinding) -> str:
    """A binding as text, for an administrator to confirm."""
    lines = [f"table {binding.table}, {binding.format}; a version is {binding.version.describe()}"]
    lines += column_lines(binding)
    if binding.file_form is not None:
        lines.append(f"  written with {binding.file_form.describe()}")
    if binding.append_only:
        lines.append("  only gains rows, which nothing checks")
    if binding.rows_per_unit is not None:
        lines.append(f"  at most {binding.rows_per_unit:,} rows of a unit, which nothing checks")
    if binding.units is not None:
        lines.append(f"  at most {binding.units:,} units ever, which nothing checks")
    if isinstance(binding.version_order, tuple):
        lines.append(f"  {len(binding.version_order):,} versions, the last of which is {binding.version_order[-1]}")
    elif binding.version_order is not None:
        lines.append(f"  versions are ordered by {binding.version_order} order")
    return "\n".join(lines)


def column_lines(binding: TableBinding) -> list[str]:
    """One line for each column of a binding: name, type, domain, and whether it is public."""
    width = max(len(name) for name in binding.names)
    lines = []
    for column in binding.columns:
        domain = "" if column.domain is None else f" {column.domain}"
        public = "  public" if column.name in binding.public_columns else ""
        lines.append(f"  {column.name:<{width}}  {column.type}{domain}{public}")
    return lines


def _with_domains(columns: Any, before: Mapping[str, Any] | None) -> Any:
    """Columns as fields; a column that is given without a domain keeps the bound one."""
    columns = columns_of_mapping(columns)
    if before is None or not isinstance(columns, (list, tuple)):
        return columns
    bound = {column["name"]: column["domain"] for column in before["columns"] if "domain" in column}
    return [
        {"domain": bound[column["name"]], **column}
        if isinstance(column, dict) and column.get("name") in bound
        else column
        for column in columns
    ]


def _version(columns: tuple[str, ...], folders: int | None) -> dict[str, Any] | None:
    if columns and folders is not None:
        raise InvalidRequest(
            "version", ", ".join(columns), "must be partition columns or folders, not both",
            "leave out --version-folders",
        )  # fmt: skip
    if columns:
        return {"by": "partition", "columns": columns}
    return None if folders is None else {"by": "path_version", "folders": folders}


def _of_file(path: Path, form: FileForm) -> dict[str, Any]:
    unreadable = InvalidRequest(
        "schema",
        str(path),
        "must be a file or folder with the columns of a table",
        "name a Parquet file, a folder of them, a csv file, or a JSON file with the field columns",
    )
    try:
        if path.suffix == ".json":
            fields = json.loads(path.read_bytes())
            if not isinstance(fields, dict) or "columns" not in fields:
                raise unreadable
            return {name: value for name, value in fields.items() if name != "table"}
        if path.suffix == ".csv":
            return {"format": "csv", "header": _header(path, form)}
        return {"format": "parquet", "columns": _of_parquet(path)}
    except (OSError, ValueError, StopIteration):
        raise unreadable from None


def _header(path: Path, form: FileForm) -> list[str]:
    """The names in the first line of a csv file.

    Raises:
        InvalidRequest: it is no header in this form.
    """
    line = TableFiles(folder=str(path.parent), names=(path.name,)).first_line(path.name)
    fault = fault_of(line, form)
    if fault is not None:
        raise InvalidRequest("schema", str(path), f"the first line {fault.what}", fault.remedy)
    return header_names(text_of(line or b"", form.encoding) or "", form)


def _of_parquet(path: Path) -> list[dict[str, str]]:
    """The columns of a Parquet file; of a folder, those of its files and of the folders on the way to them."""
    files = TableFiles.of(Place.of_folder(str(path.absolute()))) if path.is_dir() else None
    files = files or TableFiles(folder=str(path.absolute().parent), names=(path.name,))
    names = [name for name in files.names if name.endswith(".parquet") or path.is_file()]
    columns = common_types(footer_of(files.tail(name) or b"") for name in names[:_LOOKED_AT])
    for folder in names[0].split("/")[:-1] if names else ():
        name, equals, _ = folder.partition("=")
        if equals:
            columns.pop(unquote(name), None)
            columns[unquote(name)] = "string"
    if not columns:
        raise ValueError("no column in any file")
    return [{"name": name, "type": of} for name, of in columns.items()]
