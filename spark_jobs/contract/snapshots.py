"""The fixed state of a table, as a request names it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from spark_jobs.contract.bound_columns import ColumnName
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import require_relative
from spark_jobs.contract.values import Frozen

Literalish = bool | int | float | str


class Snapshot(Frozen):
    """The fixed state of a table that is read, in exactly one of three forms.

    Attributes:
        path_version: a sub-folder of the table's path that is never written again, e.g. ``"v=3"`` or ``"2026-11-21"``.
        partition: partition columns and the values they are pinned to; later partitions are not read.
        table_version: the version number of a Delta table, or the number of a snapshot of an Iceberg table; not a
            branch, a tag or a time, because the state that these name may change.
    """

    path_version: str | None = None
    partition: dict[ColumnName, Literalish] | None = None
    table_version: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [
            name for name in ("path_version", "partition", "table_version") if getattr(self, name) not in (None, {})
        ]
        if len(given) != 1:
            raise InvalidRequest(
                "", ", ".join(given) or "nothing",
                "must pin the table by exactly one of path_version, partition and table_version",
                "name the one fixed state of the table that is released",
            )  # fmt: skip
        if self.path_version is not None:
            require_relative(self.path_version, "path_version")
        return self

    @property
    def form(self) -> str:
        """The name of the field that is given: ``path_version``, ``partition`` or ``table_version``."""
        return next(name for name in type(self).model_fields if getattr(self, name) not in (None, {}))

    @property
    def name(self) -> str:
        """The name of the state, as it occurs in the rule by which the table's administrator orders its states."""
        if self.path_version is not None:
            return self.path_version
        if self.partition is not None:
            return "/".join(str(self.partition[name]) for name in sorted(self.partition))
        return str(self.table_version)

    def describe(self) -> str:
        """The snapshot in words, for reports."""
        if self.path_version is not None:
            return f"version {self.path_version}"
        if self.partition is not None:
            return "partition " + ", ".join(f"{name}={value}" for name, value in self.partition.items())
        return f"table version {self.table_version}"
