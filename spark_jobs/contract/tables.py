"""What a request says about the table, its label and the model that scores it."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.places import Place, require_relative
from spark_jobs.contract.values import Frozen

ColumnName = Annotated[str, Field(min_length=1, max_length=255)]
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
            raise RequestRefused(
                "",
                given=", ".join(given) or "nothing",
                bound="must pin the table by exactly one of path_version, partition and table_version",
                remedy="a release is about one fixed state of a table: name it",
            )
        if self.path_version is not None:
            require_relative(self.path_version, "path_version")
        return self

    def describe(self) -> str:
        """The snapshot in words, for reports."""
        if self.path_version is not None:
            return f"version {self.path_version}"
        if self.partition is not None:
            return "partition " + ", ".join(f"{name}={value}" for name, value in self.partition.items())
        return f"table version {self.table_version}"


class TableSource(Frozen):
    """A table in the lake.

    Attributes:
        format: ``parquet`` or ``csv`` (under ``path``), or ``catalog`` (named ``name``).
        path: absolute path or URI of the table's folder; for parquet and csv. See ``Place`` for what it may be.
        name: catalog name such as ``sales.visits``; for catalog.
        columns: for csv, the types of its columns as Spark writes them, e.g. ``{"age": "int"}``;
            a value that does not parse becomes null.
        snapshot: the fixed state that is read.
    """

    format: Literal["parquet", "csv", "catalog"] = "parquet"
    path: str | None = None
    name: str | None = None
    columns: dict[ColumnName, str] | None = None
    snapshot: Snapshot

    @model_validator(mode="after")
    def _complete(self) -> Self:
        wanted, other = ("name", "path") if self.format == "catalog" else ("path", "name")
        if not getattr(self, wanted) or getattr(self, other) is not None:
            raise RequestRefused(
                wanted,
                given=getattr(self, wanted),
                bound=f"a {self.format} table is given by {wanted} alone",
                remedy=f"set table.{wanted} and leave out table.{other}",
            )
        if (self.format == "csv") != bool(self.columns):
            raise RequestRefused(
                "columns",
                bound="gives the column types of a csv table, and of no other",
                remedy="list the csv's columns with their types, e.g. {'age': 'int', 'score': 'double'}",
            )
        if self.snapshot.path_version is not None and self.format == "catalog":
            raise RequestRefused(
                "snapshot.path_version",
                given=self.snapshot.path_version,
                bound="pins a parquet or csv path",
                remedy="pin a catalog table by table_version or partition",
            )
        if self.snapshot.table_version is not None and self.format != "catalog":
            raise RequestRefused(
                "snapshot.table_version",
                given=self.snapshot.table_version,
                bound="pins a catalog table",
                remedy="pin a path by path_version or partition",
            )
        _ = self.place  # refused now, if it is none
        return self

    @property
    def place(self) -> Place:
        """Where the table lies, whatever the snapshot."""
        if self.format == "catalog":
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
            raise RequestRefused(
                "negative",
                given=self.negative,
                bound="must differ from label.positive",
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
            raise RequestRefused(
                "coefficients", bound="must name at least one feature", remedy="list the model's terms"
            )
        return self

    bounds: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Feature, to the bounds that its values are moved to before they are multiplied; one without any is left alone."""
    fitted_by: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """The key of the release that fitted it, where one did."""

    @model_validator(mode="after")
    def _bounds_of_features(self) -> Self:
        for name, (lower, upper) in self.bounds.items():
            if name not in self.coefficients:
                raise RequestRefused(
                    "bounds", given=name, bound="must be bounds of features that have a coefficient", remedy="remove it"
                )
            if not -math.inf < lower < upper < math.inf:
                raise RequestRefused(
                    f"bounds.{name}", given=[lower, upper], bound="must be two finite numbers in ascending order",
                    remedy="give the bounds that the model was fitted with",
                )  # fmt: skip
        return self

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # a model that says nothing of these has the hash that it had before there were any
        given: dict[str, Any] = handler(self)
        return {name: value for name, value in given.items() if name not in ("bounds", "fitted_by") or value}


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
        output: ``probability`` (of the second class) or ``prediction``.
    """

    kind: Literal["spark_ml"]
    path: str = Field(min_length=1)
    output: Literal["probability", "prediction"] = "probability"


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
            raise RequestRefused("", given=value, bound="must be 'clamp' or 'drop'", remedy="choose one")
        return value
