"""Accounts that releases can be charged to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dp_operators.budget import Account, PrivacyLedger
from dp_operators.budget.table_schemas import binding_of
from spark_jobs.contract.binding import TableBinding

COLUMNS = {
    **dict.fromkeys(("visit", "any_visit", "visited", "y", "label", "sick"), "int"),
    **dict.fromkeys(("score", "other", "amount", "outcome", "wage", "age", "x", "a", "b"), "double"),
    **dict.fromkeys(("person", "region", "tract"), "string"),
    **dict.fromkeys(("at", "day"), "timestamp"),
}
"""Columns of tables that are never read: what the tests' requests name."""
GROWING = {"append_only": True, "version_order": "natural"}
"""What is declared of tables that have streams."""


def bound(
    table: str | Path,
    columns: Mapping[str, str] | None = None,
    *,
    version: Mapping[str, Any] | None = None,
    public: Iterable[str] = (),
    form: str | None = None,
    append_only: bool = False,
    **facts: Any,
) -> TableBinding:
    """A table with its columns: those given, those of its Parquet files where there are some, or ``COLUMNS``."""
    name = str(table)
    if columns is None:
        folder = Path(name.removeprefix("file://"))
        parts = min(folder.rglob("*.parquet"), default=None) if folder.is_dir() else None
        columns = COLUMNS if parts is None or not _is_parquet(parts) else binding_of(name, schema=parts).types
    fields = {"table": name, "columns": columns, "public_columns": list(public), "append_only": append_only, **facts}
    by_default = "catalog" if name.startswith("catalog:") else "parquet"
    states = {"by": "table_version" if by_default == "catalog" else "path_version"}
    return TableBinding.parse({**fields, "format": form or by_default, "version": version or states})


def _is_parquet(file: Path) -> bool:
    return file.read_bytes()[:4] == b"PAR1"


def open_bound(
    ledger: PrivacyLedger,
    name: str,
    *,
    table: str | Path,
    output: str | Path,
    columns: Mapping[str, str] | None = None,
    version: Mapping[str, Any] | None = None,
    public: Iterable[str] = (),
    form: str | None = None,
    facts: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Account:
    """Open an account for one table, bound with its columns, whose releases may go to ``output``."""
    binding = bound(table, columns, version=version, public=public, form=form, **(facts or {}))
    return ledger.open_account(name, tables=[binding], outputs=[str(output)], **settings)
