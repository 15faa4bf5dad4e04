"""Facts of a table's files that an administrator sees before confirming a binding; only first lines are read.

Without a header, a first line may be a person's row, so nothing of it is ever quoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dp_operators.budget.values import Account
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_checks import DAMAGED, FILES
from spark_jobs.contract.file_form import FileForm
from spark_jobs.contract.first_line import HeaderFault, counted, fault_of, header_names, json_fault_of, text_of, unlike
from spark_jobs.contract.footers import DamagedFile, footer_of, require_readable, require_types
from spark_jobs.contract.places import Place
from spark_jobs.contract.store.table_files import TableFiles, UnlistedStore, partition_columns, require_all_rows

_LOOKED_AT = 100
"""The most files of a version whose first lines are read."""
_NAMED = 3
"""The most tables of other accounts that a warning names."""


def report_on_files(binding: TableBinding) -> list[str]:
    """Lines on what the files of the table's newest version show, and on what is assumed of them.

    The newest version is the last by the order of names.

    Raises:
        InvalidRequest: the files cannot be read in the form that the binding states.
    """
    if binding.format not in FILES:
        return []
    try:
        version, files = _newest(binding)
    except UnlistedStore:
        return ["its files cannot be listed from this machine; a run looks at them before it is charged, if it can"]
    known = f"; assumed: {assumed(binding.file_form or FileForm())}" if binding.format == "csv" else ""
    if not files.names:
        return [f"there are no files yet, so that none was looked at{known}"]
    require_all_rows(files, field="table", value=binding.table)
    line = f"of {version} there {'is' if len(files.names) == 1 else 'are'} {counted(len(files.names), 'file')}"
    if binding.format == "parquet":
        line += f", and the footers of {_require_footers(binding, files)} were looked at: they have the bound types"
    if binding.format == "csv":
        looked = _require_headers(binding, files)
        line += (
            f", and the first line of {looked} was looked at: it names the bound columns"
            if files.texts
            else ", whose first lines cannot be uncompressed here, so that none was looked at"
        )
    if binding.format == "json":
        looked = _require_objects(binding, files)
        line += f", and the first line of {looked} was looked at: it may be a JSON object"
    return [line + known]


def same_people(binding: TableBinding, others: Iterable[Account]) -> list[str]:
    """A line for each account that has a table with the same columns and types, and so perhaps the same people."""
    wanted = sorted((name.lower(), of) for name, of in binding.types.items())
    lines: list[str] = []
    for account in others:
        for table, fields in account.bindings.items():
            bound = sorted((name.lower(), of) for name, of in TableBinding.parse(fields).types.items())
            if table != binding.table and bound == wanted:
                command = f"`dp-budget bind {account.name} --table {binding.table}`"
                lines.append(
                    f"warning: {table} of account {account.name} has the same columns and types; if this table was "
                    f"moved, renamed or copied from it, its people have a budget already: {command}"
                )
    more = len(lines) - _NAMED
    return lines if more <= 0 else [*lines[:_NAMED], f"warning: so have {counted(more, 'other table')}"]


def refused(fault: HeaderFault, field: str, value: object) -> InvalidRequest:
    """The error for a fault in the first line of a file."""
    return InvalidRequest(field, value, f"the first line {fault.what}", fault.remedy)


def _newest(binding: TableBinding) -> tuple[str, TableFiles]:
    files = TableFiles.of(Place.parse(binding.table))
    if files.log:
        require_all_rows(files, field="table", value=binding.table)
    if binding.version.by != "path_version":
        return "the table", files
    versions = files.below(binding.version.folders)
    if not versions:
        return "the table", TableFiles(folder=files.folder, names=())
    newest = max(versions)
    return f"version {newest}", versions[newest]


def _require_footers(binding: TableBinding, files: TableFiles) -> str:
    names = files.names[:_LOOKED_AT]
    try:
        footers = [footer_of(tail or b"damaged") for tail in map(files.tail, names) if tail != b""]
    except (DamagedFile, OSError):
        raise InvalidRequest("table", binding.table, DAMAGED[0], DAMAGED[1]) from None
    require_readable(footers, field="table", value=binding.table)
    require_types(footers, binding.columns, folders=partition_columns(files.names[0]))
    return _looked_at(names, files)


def _require_headers(binding: TableBinding, files: TableFiles) -> str:
    form = binding.file_form or FileForm()
    names = files.texts[:_LOOKED_AT]
    folders = {column.lower() for column in partition_columns(files.names[0])}
    bound = [name for name in binding.names if name.lower() not in folders]
    lines = [_first_line(files, name) for name in names]
    for line in [line for line in lines if line != b""] or lines[:1]:
        fault = fault_of(line, form)
        if fault is None:
            fault = unlike(header_names(text_of(line or b"", form.encoding) or "", form), bound)
        if fault is not None:
            raise refused(fault, "table", binding.table)
    return _looked_at(names, files)


def _require_objects(binding: TableBinding, files: TableFiles) -> str:
    names = files.texts[:_LOOKED_AT]
    for fault in (json_fault_of(_first_line(files, name)) for name in names):
        if fault is not None:
            raise refused(fault, "table", binding.table)
    return _looked_at(names, files)


def _first_line(files: TableFiles, name: str) -> bytes | None:
    try:
        return files.first_line(name)
    except OSError:
        return None


def _looked_at(names: Sequence[str], files: TableFiles) -> str:
    if len(names) == len(files.names):
        return "each"
    return f"{len(names):,} of them" if names else "none"


def assumed(form: FileForm) -> str:
    """How the values of a csv file are assumed to be written, and what of this was declared, in words."""
    separator = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "pipe"}.get(form.separator, form.separator)
    form_words = f"separator {separator}, {form.encoding}, numbers like 1{form.thousands}234{form.decimal}5"
    form_words += f", dates like {form.date or 'yyyy-MM-dd'}"
    declared = form.describe()
    return f"{form_words} (declared: {declared})" if declared else f"{form_words} (--file-form declares another form)"
