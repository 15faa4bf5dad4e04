"""What a request says about the table, its label and the model that scores it."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from spark_jobs.contract.binding import (
    BoundColumn,
    ColumnName,
    Format,
    TableBinding,
    TableVersion,
    columns_of_mapping,
    require_csv_columns,
)
from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place, require_relative
from spark_jobs.contract.values import Frozen

Literalish = bool | int | float | str


class Snapshot(Frozen):
    """The fixed state of the table that is read: exactly one of its three forms.

    Attributes:
        path_version: a sub-folder of the table's path that is never written again, e.g. ``"v=3"`` or ``"2026-11-21"``.
        partition: partition columns and the values they are pinned to; later partitions are not read.
        table_version: the version number of a catalog table that keeps its history (Delta, Iceberg).
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
                "",
                value=", ".join(given) or "nothing",
                requirement="must pin the table by exactly one of path_version, partition and table_version",
                remedy="a release is about one fixed state of a table: name it",
            )
        if self.path_version is not None:
            require_relative(self.path_version, "path_version")
        return self

    @property
    def form(self) -> str:
        """Which of the three forms it has."""
        return next(name for name in type(self).model_fields if getattr(self, name) not in (None, {}))

    def describe(self) -> str:
        """The snapshot in words, for reports."""
        if self.path_version is not None:
            return f"version {self.path_version}"
        if self.partition is not None:
            return "partition " + ", ".join(f"{name}={value}" for name, value in self.partition.items())
        return f"table version {self.table_version}"


class TableSource(Frozen):
    """A table in the lake.

    A charged request gives ``path`` or ``name``, and ``snapshot``: the rest is what the account says of the table
    (``TableBinding``), and is filled in from it. A draft outside the ledger says itself what it needs of it.

    Attributes:
        path: absolute path or URI of the table's folder; for parquet and csv. See ``Place`` for what it may be.
        name: catalog name such as ``sales.visits``.
        format: ``parquet`` or ``csv`` (under ``path``), or ``catalog`` (named ``name``); parquet or catalog if
            it is not said.
        columns: names and types, as Spark writes them, e.g. ``{"age": "int"}``; a table that has not these is refused.
            Of a csv table of an account they are the header, in its order; a value that does not parse becomes null.
        version: how the table's states are named.
        public_columns: what filters, groups and blocks may read where sizes are public.
        snapshot: the fixed state that is read.
    """

    path: str | None = None
    name: str | None = None
    format: Format | None = None
    columns: tuple[BoundColumn, ...] | None = None
    version: TableVersion | None = None
    public_columns: tuple[ColumnName, ...] | None = None
    snapshot: Snapshot

    @field_validator("columns", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        return value if value is None else columns_of_mapping(value)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        wanted, other = ("name", "path") if self.format == "catalog" else ("path", "name")
        if self.format is None and self.path is None:
            wanted, other = other, wanted
        if not getattr(self, wanted) or getattr(self, other) is not None:
            raise InvalidRequest(
                wanted,
                value=getattr(self, wanted),
                requirement=f"a {self.format} table is given by {wanted} alone"
                if self.format
                else "is given, or name is",
                remedy=f"set table.{wanted} and leave out table.{other}",
            )
        if self.format == "csv":
            if not self.columns:
                raise InvalidRequest(
                    "columns",
                    requirement="is required of a csv table",
                    remedy="list the csv's columns with their types, e.g. {'age': 'int', 'score': 'double'}",
                )
            require_csv_columns(self.columns)
        if self.snapshot.path_version is not None and self.is_catalog:
            raise InvalidRequest(
                "snapshot.path_version",
                value=self.snapshot.path_version,
                requirement="pins a parquet or csv path",
                remedy="pin a catalog table by table_version or partition",
            )
        if self.snapshot.table_version is not None and not self.is_catalog:
            raise InvalidRequest(
                "snapshot.table_version",
                value=self.snapshot.table_version,
                requirement="pins a catalog table",
                remedy="pin a path by path_version or partition",
            )
        _ = self.place  # refused now, if it is none
        if self.version is not None:
            self._require_version(self.version)
        return self

    def _require_version(self, version: TableVersion) -> None:
        """Reject a snapshot that names no state, or several: read side by side, they hold one person several times."""
        given = self.snapshot.form
        if given != version.by:
            raise InvalidRequest(
                f"snapshot.{given}", requirement=f"names no version of this table, which is {version.describe()}",
                remedy=f"pin it by {version.by}",
            )  # fmt: skip
        path = self.snapshot.path_version
        if path is not None and path.count("/") + 1 != version.folders:
            raise InvalidRequest(
                "snapshot.path_version",
                value=path,
                requirement=f"must be {version.describe()}",
                remedy="name one version",
            )
        pinned = self.snapshot.partition or {}
        if version.by == "partition" and sorted(map(str.lower, pinned)) != sorted(map(str.lower, version.columns)):
            raise InvalidRequest(
                "snapshot.partition", value=", ".join(pinned),
                requirement="must pin all that is the version of this table and nothing else: "
                f"{', '.join(version.columns)}",
                remedy="pin each of them by its value",
            )  # fmt: skip
        for name, value in pinned.items():
            self._require_exact(name, value)

    def _require_exact(self, name: str, value: Literalish) -> None:
        """Reject a value that is no value of its column as it is: the number 1 is both of the folders v=1 and v=01."""
        column = next((column for column in self.columns or () if column.name.lower() == name.lower()), None)
        if column is None or column.kind is None:
            return
        whole = column.kind is Kind.INTEGER
        if isinstance(value, bool) or not isinstance(value, int if whole else str):
            raise InvalidRequest(
                "snapshot.partition", value=f"{name}={value}",
                requirement=f"must be {'a whole number' if whole else 'text'}, as the column is of type {column.type}",
                remedy="write it as the partition is named" + ("" if whole else ", in quotes"),
            )  # fmt: skip

    @property
    def is_catalog(self) -> bool:
        """Whether the table has a catalog's name, and no path."""
        return self.path is None

    @property
    def is_bound(self) -> bool:
        """Whether it has all that an account says of a table."""
        return self.version is not None

    @property
    def form(self) -> Format:
        """How the table is read."""
        return self.format or ("catalog" if self.is_catalog else "parquet")

    def completed(self, binding: TableBinding) -> Self:
        """This table with all that its account says of it. A copy that has all of that already stays as it is.

        Raises:
            InvalidRequest: it says some of that itself, or its snapshot names no version of the bound table.
        """
        terms = {
            "format": binding.format,
            "columns": binding.columns,
            "version": binding.version,
            "public_columns": binding.public_columns,
        }
        stated = {name: getattr(self, name) for name in terms if getattr(self, name) is not None}
        if stated not in ({}, terms):
            first = next(iter(stated))
            raise InvalidRequest(
                f"table.{first}", requirement="is the account's, of a request that is charged", remedy="leave it out",
            )  # fmt: skip
        try:
            return self.parse({**self.model_dump(), **TableBinding.model_dump(binding, include=set(terms))})
        except InvalidRequest as refused:
            raise refused.within("table") from None

    @property
    def place(self) -> Place:
        """Where the table lies, whatever the snapshot."""
        if self.is_catalog:
            return Place.of_catalog(str(self.name))
        return Place.of_folder(str(self.path))

    @property
    def identity(self) -> str:
        """The table's name in the ledger: what an account is bound to."""
        return self.place.identity

    @property
    def pinned(self) -> Place:
        """The folder that is read, or the catalog's table; what partitions and table versions leave out lies there."""
        version = self.snapshot.path_version
        return self.place if version is None else self.place.below(version)


class Label(Frozen):
    """The 0/1 outcome: which values of which column are which class.

    Attributes:
        column: the label's column; boolean, number or string.
        positive: the value that means 1.
        negative: the value that means 0. A row with any other value, or none, is dropped.
    """

    column: ColumnName
    positive: Literalish = 1
    negative: Literalish = 0

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"column": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _two_classes(self) -> Self:
        if self.positive == self.negative:
            raise InvalidRequest(
                "negative",
                value=self.negative,
                requirement="must differ from label.positive",
                remedy="name the value of each class",
            )
        return self


class _Basis(Frozen):
    basis: Literal["public", "differentially_private"]
    """How the model came to be: fitted without the rows of this release, or by a private method that was paid for."""


class ColumnsModel(_Basis):
    """The scores are there already, in one column."""

    kind: Literal["columns"]
    score: ColumnName


class _Coefficients(_Basis):
    intercept: float = Field(default=0.0, allow_inf_nan=False)
    coefficients: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(default_factory=dict)
    """Feature, a column or an expression of the allow-list, to its coefficient."""
    categorical: dict[ColumnName, dict[str, Annotated[float, Field(allow_inf_nan=False)]]] = Field(default_factory=dict)
    """Column, to the coefficient of each of its levels; a level that is not listed, or null, counts 0."""

    @model_validator(mode="after")
    def _has_terms(self) -> Self:
        if not self.coefficients and not self.categorical:
            raise InvalidRequest(
                "coefficients", requirement="must name at least one feature", remedy="list the model's terms"
            )
        return self

    bounds: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Feature, to the bounds that its values are moved to before they are multiplied; one without any is left alone."""
    fitted_by: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """The key of the release that fitted it, where one did; filled in with the model itself."""
    release: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    """Where that release lies: what is charged is compared with it, never believed."""

    @model_validator(mode="after")
    def _named_with_its_place(self) -> Self:
        if (self.fitted_by is None) != (self.release is None):
            raise InvalidRequest(
                "fitted_by", value=self.fitted_by, requirement="is filled in from the release that fitted the model",
                remedy="name that release alone, {'release': URI}, as the model",
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _bounds_of_features(self) -> Self:
        for name, (lower, upper) in self.bounds.items():
            if name not in self.coefficients:
                raise InvalidRequest(
                    "bounds",
                    value=name,
                    requirement="must be bounds of features that have a coefficient",
                    remedy="remove it",
                )
            if not -math.inf < lower < upper < math.inf:
                raise InvalidRequest(
                    f"bounds.{name}", value=[lower, upper], requirement="must be two finite numbers in ascending order",
                    remedy="give the bounds that the model was fitted with",
                )  # fmt: skip
        return self

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # a model that says nothing of these has the hash that it had before there were any
        given: dict[str, Any] = handler(self)
        return {name: value for name, value in given.items() if name not in ("bounds", "fitted_by", "release") or value}


class LinearModel(_Coefficients):
    """Score = intercept + sum of coefficient x feature."""

    kind: Literal["linear"]


class LogisticModel(_Coefficients):
    """Score = 1 / (1 + exp(-(intercept + sum of coefficient x feature)))."""

    kind: Literal["logistic"]


class SparkMLModel(_Basis):
    """A saved ``pyspark.ml`` pipeline, of stages that look at one row and cannot fail.

    Attributes:
        path: URI of the saved ``PipelineModel``.
        sha256: of the pipeline's files (``contract.store.pipelines``); filled in where a release is charged, so that
            the request's hash covers them, and compared before the pipeline is used.
        output: ``probability`` (of the second class) or ``prediction``.
    """

    kind: Literal["spark_ml"]
    path: str = Field(min_length=1)
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    output: Literal["probability", "prediction"] = "probability"

    @field_validator("path")
    @classmethod
    def _one_place(cls, value: str) -> str:
        return Place.of_folder(value, what="").identity


Model = Annotated[ColumnsModel | LinearModel | LogisticModel | SparkMLModel, Field(discriminator="kind")]


class Scoring(Frozen):
    """Public per-record rules for scores that do not fit; a null or NaN score always drops the row.

    Attributes:
        outside: a score below 0 or above 1, infinite ones too, is moved to the nearer end (``clamp``) or dropped.
    """

    outside: Literal["clamp", "drop"] = "clamp"

    @field_validator("outside", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if value not in ("clamp", "drop"):
            raise InvalidRequest("", value=value, requirement="must be 'clamp' or 'drop'", remedy="choose one")
        return value
