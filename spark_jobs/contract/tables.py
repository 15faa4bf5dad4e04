"""The parts of a request that describe the table, its label and the model that scores it."""

from __future__ import annotations

import math
import operator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from spark_jobs.contract.binding import (
    NAMED_FORMATS,
    TEXT_FORMATS,
    VERSIONED_FORMATS,
    DeclaredOrder,
    Format,
    OneForm,
    RowsPerUnit,
    TableBinding,
    TableVersion,
    Units,
    require_text_columns,
)
from spark_jobs.contract.bound_columns import BoundColumn, ColumnName, columns_of_mapping
from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.jdbc import Partitioning
from spark_jobs.contract.places import DATABASE, Place
from spark_jobs.contract.score_map import ScoreMap, require_both
from spark_jobs.contract.score_scale import ScoreScale
from spark_jobs.contract.snapshots import Literalish, Snapshot
from spark_jobs.contract.values import Frozen


class TableSource(Frozen):
    """A table of the data lake.

    A charged request gives only ``path`` or ``name``, and ``snapshot``; the rest is fixed by the account
    (``TableBinding``) and filled in from there. A draft outside the ledger gives everything itself.

    Attributes:
        path: absolute path or URI of the table's folder, for all formats except ``catalog`` and ``jdbc``; see
            ``Place``.
        name: catalog name such as ``sales.visits``, or a table of a database such as ``jdbc:warehouse.public.visits``.
        format: ``parquet``, ``orc``, ``csv``, ``json``, ``delta`` or ``iceberg`` (under ``path``), ``catalog`` or
            ``jdbc`` (named ``name``); by default parquet for a path, and for a name the format that its prefix implies.
        columns: names and types, as Spark writes them, e.g. ``{"age": "int"}``; a table without these columns is
            rejected. For a csv table of an account, the columns are those of the header, in the same order. A value of
            a csv or JSON file that cannot be parsed becomes null.
        file_form: how values are written in csv and JSON files; None for the default form (``FileForm``).
        version: how the table's states are named.
        public_columns: the columns that filters, groups and blocks may read where sizes are public.
        rows_per_unit: the most rows of one privacy unit in the table, as its administrator declares.
        units: the most privacy units that the table will ever have, as its administrator declares.
        version_order: the administrator's rule for which of two versions is the later one. Only streams have it, and it
            is not in the hash that is charged, as the administrator may list later versions.
        partitioning: how the reading of a database's table is split; required for such a table, forbidden for others.
        snapshot: the fixed state that is read.
    """

    path: str | None = None
    name: str | None = None
    format: Format | None = None
    columns: tuple[BoundColumn, ...] | None = None
    file_form: OneForm = None
    version: TableVersion | None = None
    public_columns: tuple[ColumnName, ...] | None = None
    rows_per_unit: RowsPerUnit = None
    units: Units = None
    version_order: DeclaredOrder = None
    partitioning: Annotated[Partitioning | None, Field(exclude_if=lambda value: value is None)] = None
    snapshot: Snapshot

    @field_validator("columns", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        return value if value is None else columns_of_mapping(value)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        wanted, other = ("name", "path") if self.format in NAMED_FORMATS else ("path", "name")
        if self.format is None and self.path is None:
            wanted, other = other, wanted
        if not getattr(self, wanted) or getattr(self, other) is not None:
            raise InvalidRequest(
                wanted,
                getattr(self, wanted),
                f"must be given for a {self.format} table, without {other}"
                if self.format
                else "exactly one of path and name must be given",
                f"set table.{wanted} and leave out table.{other}",
            )
        if self.format in ("csv", "json") and not self.columns:
            raise InvalidRequest(
                "columns", None, f"is required for a {self.format} table",
                f"list the {self.format}'s columns with their types, e.g. {{'age': 'int', 'score': 'double'}}",
            )  # fmt: skip
        require_text_columns(self.columns or (), self.form)
        if self.file_form is not None and self.format is not None:
            self.file_form.require_format(self.format)
        if self.snapshot.path_version is not None and self.path is None:
            raise InvalidRequest(
                "snapshot.path_version", self.snapshot.path_version, "can pin only a table that is named by its path",
                "pin a catalog table by table_version or partition, and a database's table by partition",
            )  # fmt: skip
        if self.snapshot.table_version is not None and self.format not in (*VERSIONED_FORMATS, None):
            raise InvalidRequest(
                "snapshot.table_version", self.snapshot.table_version, "can pin only a catalog, delta or iceberg table",
                "pin a path by path_version or partition, and a database's table by partition",
            )  # fmt: skip
        if self.path is not None and self.format in VERSIONED_FORMATS and self.snapshot.table_version is None:
            raise InvalidRequest(
                f"snapshot.{self.snapshot.form}", None, "must be replaced by table_version for the format "
                f"{self.format}",
                "pin the table by the number of its version or snapshot",
            )  # fmt: skip
        self._require_partitioning()
        _ = self.place  # raises now if the path or the name is not allowed
        if self.version is not None:
            self._require_version(self.version)
        return self

    def _require_partitioning(self) -> None:
        """Reject a database's table without bounds for its reading, and bounds where nothing is divided by them."""
        if (self.form == "jdbc") != (self.partitioning is not None):
            raise InvalidRequest(
                "partitioning",
                None,
                "is required for a table of a database"
                if self.partitioning is None
                else "is allowed only for a table of a database",
                "give public bounds: {'column': 'id', 'lower': 0, 'upper': 1000000, 'partitions': 8}"
                if self.partitioning is None
                else "leave it out",
            )

    def _require_version(self, version: TableVersion) -> None:
        """Reject a snapshot that names no state, or several states, which together contain a person several times."""
        given = self.snapshot.form
        if given != version.by:
            raise InvalidRequest(
                f"snapshot.{given}", None, f"must be replaced by {version.by}, because a version of this table is "
                f"{version.describe()}",
                f"pin the table by {version.by}",
            )  # fmt: skip
        path = self.snapshot.path_version
        if path is not None and path.count("/") + 1 != version.folders:
            raise InvalidRequest("snapshot.path_version", path, f"must be {version.describe()}", "name one version")
        pinned = self.snapshot.partition or {}
        if version.by == "partition" and sorted(map(str.lower, pinned)) != sorted(map(str.lower, version.columns)):
            raise InvalidRequest(
                "snapshot.partition", ", ".join(pinned),
                f"must pin exactly the columns of this table's version: {', '.join(version.columns)}",
                "pin each of them by its value",
            )  # fmt: skip
        for name, value in pinned.items():
            self._require_exact(name, value)

    def _require_exact(self, name: str, value: Literalish) -> None:
        """Reject a value that is not of its column's type: the number 1 would match both folders v=1 and v=01."""
        column = next((column for column in self.columns or () if column.name.lower() == name.lower()), None)
        if column is None or column.kind is None:
            return
        whole = column.kind is Kind.INTEGER
        if isinstance(value, bool) or not isinstance(value, int if whole else str):
            raise InvalidRequest(
                "snapshot.partition", f"{name}={value}",
                f"must be {'a whole number' if whole else 'text'}, as the column is of type {column.type}",
                "write it as the partition is named" + ("" if whole else ", in quotes"),
            )  # fmt: skip

    @property
    def is_text(self) -> bool:
        """Whether the table's values are read as text, which is then converted to the types of the declared columns."""
        return self.form in TEXT_FORMATS

    @property
    def is_bound(self) -> bool:
        """Whether the account's terms are filled in."""
        return self.version is not None

    @property
    def form(self) -> Format:
        """The table's format; for a charged request, known only once the account's terms are filled in."""
        if self.format is not None or self.path is not None:
            return self.format or "parquet"
        return "jdbc" if str(self.name).startswith(DATABASE) else "catalog"

    def completed(self, binding: TableBinding) -> Self:
        """This table with the account's terms filled in; unchanged if it already has exactly these terms.

        Raises:
            InvalidRequest: the request sets some of the terms itself, or its snapshot does not name a version of the
                bound table.
        """
        terms = {
            "format": binding.format,
            "columns": binding.columns,
            "version": binding.version,
            "public_columns": binding.public_columns,
            **({} if binding.rows_per_unit is None else {"rows_per_unit": binding.rows_per_unit}),
            **({} if binding.units is None else {"units": binding.units}),
            **({} if binding.file_form is None else {"file_form": binding.file_form}),
        }
        given = {name: getattr(self, name) for name in (*terms, "rows_per_unit", "units", "file_form")}
        stated = {name: value for name, value in given.items() if value is not None}
        if stated not in ({}, terms):
            first = next(iter(stated))
            raise InvalidRequest(f"table.{first}", None, "is set by the account in a charged request", "leave it out")
        try:
            return self.parse({**self.model_dump(), **TableBinding.model_dump(binding, include=set(terms))})
        except InvalidRequest as refused:
            raise refused.within("table") from None

    @property
    def place(self) -> Place:
        """Where the table lies, without its snapshot."""
        if self.path is not None:
            return Place.of_folder(self.path)
        return Place.of_database(str(self.name)) if self.form == "jdbc" else Place.of_catalog(str(self.name))

    @property
    def identity(self) -> str:
        """The table's name in the ledger: what an account is bound to."""
        return self.place.identity

    @property
    def pinned(self) -> Place:
        """The folder of the pinned ``path_version``; for other snapshots, the place of the whole table."""
        version = self.snapshot.path_version
        return self.place if version is None else self.place.below(version)


class Label(Frozen):
    """The 0/1 outcome: its column, and the value of each class.

    Attributes:
        column: the label's column; boolean, number or string.
        positive: the value that means 1.
        negative: the value that means 0. A row with any other value, or none, is dropped.
        rest: whether every value but ``positive`` means 0, whatever ``negative`` says; filled in where a request says
            ``negative: other``.
    """

    column: ColumnName
    positive: Literalish = 1
    negative: Literalish = 0
    rest: Annotated[bool, Field(exclude_if=operator.not_)] = False

    @property
    def negative_text(self) -> str:
        """The value, or the values, of class 0 in words."""
        return "any other value" if self.rest else str(self.negative)

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"column": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _two_classes(self) -> Self:
        if self.positive == self.negative:
            raise InvalidRequest(
                "negative", self.negative, "must differ from label.positive", "name the value of each class"
            )
        return self


class _Basis(Frozen):
    basis: Literal["public", "differentially_private"]
    """How the model was fitted: without the rows of this release, or by a private method that was paid for."""
    recalibrated: ScoreMap | None = None
    """The map that the model's scores go through, if any."""

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # a model without these fields has the hash that it had before the fields existed
        given: dict[str, Any] = handler(self)
        later = ("bounds", "fitted_by", "release", "recalibrated", "scale")
        return {name: value for name, value in given.items() if name not in later or value}


class ColumnsModel(_Basis):
    """Scores that are already in a column."""

    kind: Literal["columns"]
    score: ColumnName
    scale: ScoreScale | None = None
    """The map of its values to scores in [0, 1], by what the account says that the column may hold; not of fitted
    values."""


MAX_COEFFICIENTS = 500
"""The most features of a linear or logistic model. Levels of ``categorical`` columns do not count: none is parsed."""


class _Coefficients(_Basis):
    intercept: float = Field(default=0.0, allow_inf_nan=False)
    coefficients: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(
        default_factory=dict, max_length=MAX_COEFFICIENTS
    )
    """The coefficient of each feature, which is a column or an expression of the allow-list."""
    categorical: dict[ColumnName, dict[str, Annotated[float, Field(allow_inf_nan=False)]]] = Field(default_factory=dict)
    """For each column, the coefficients of its levels; a level that is not listed, or null, counts as 0."""

    @model_validator(mode="after")
    def _has_terms(self) -> Self:
        if not self.coefficients and not self.categorical:
            raise InvalidRequest("coefficients", None, "must name at least one feature", "list the model's terms")
        return self

    bounds: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """The bounds to which a feature's values are clipped before they are multiplied; without bounds they are not."""
    fitted_by: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """The key of the release that fitted the model, if one did; filled in together with the model itself."""
    release: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    """The URI of that release, against which the model is verified when a request is charged."""

    @model_validator(mode="after")
    def _named_with_its_place(self) -> Self:
        require_both(self.fitted_by, self.release)
        return self

    @model_validator(mode="after")
    def _bounds_of_features(self) -> Self:
        for name, (lower, upper) in self.bounds.items():
            if name not in self.coefficients:
                raise InvalidRequest("bounds", name, "must be a feature with a coefficient", "remove it")
            if not -math.inf < lower < upper < math.inf:
                raise InvalidRequest(
                    f"bounds.{name}", [lower, upper], "must be two finite numbers in ascending order",
                    "give the bounds that the model was fitted with",
                )  # fmt: skip
        return self


class LinearModel(_Coefficients):
    """Score = intercept + sum of coefficient x feature."""

    kind: Literal["linear"]


class LogisticModel(_Coefficients):
    """Score = 1 / (1 + exp(-(intercept + sum of coefficient x feature)))."""

    kind: Literal["logistic"]


class SparkMLModel(_Basis):
    """A saved ``pyspark.ml`` pipeline, whose stages transform one row at a time and cannot fail.

    Attributes:
        path: URI of the saved ``PipelineModel``.
        sha256: hash of the pipeline's files (``contract.store.pipelines``); filled in when a release is charged, so
            that the request's hash covers them, and verified before the pipeline is used.
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
MODEL_KINDS = ("columns", "linear", "logistic", "spark_ml")
"""The kinds of ``Model``."""


class Scoring(Frozen):
    """The public rule for scores outside [0, 1]; a row whose score is null or NaN is always dropped.

    Attributes:
        outside: ``clamp`` moves a score below 0 or above 1, also an infinite one, to the nearer end; ``drop`` drops its
            row.
    """

    outside: Literal["clamp", "drop"] = "clamp"

    @field_validator("outside", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if value not in ("clamp", "drop"):
            raise InvalidRequest("", value, "must be 'clamp' or 'drop'", "choose one")
        return value
