"""Private lines through groups of points: their options, and the statistics that they are computed from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import ALL
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.expressions.tree import columns
from spark_jobs.contract.grids import are_bounds, check_grid
from spark_jobs.contract.options.base import CONFIDENCE, Confidence, Options, RequestContext, Settings, Statistic
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.lines import LinearFit
from spark_jobs.contract.tables import SparkMLModel

Amount = Annotated[str, Field(min_length=1, max_length=1000)]
"""A column of numbers or booleans, or an expression of the allow-list."""
Bounds = tuple[float, float]
Keys = tuple[str | int, ...]
LineMethod = Literal[
    "auto", "noisy_moments", "noisy_moments_zcdp", "noisy_stats", "noisy_stats_zcdp", "noisy_intercept",
    "dp_exp_theil_sen", "dp_wide_theil_sen", "dp_ss_theil_sen", "dp_grad_descent", "dp_grad_descent_zcdp",
]  # fmt: skip

MAX_GROUPS = 100_000
MAX_KEY_CHARACTERS = 255
THEIL_SEN = ("dp_exp_theil_sen", "dp_wide_theil_sen", "dp_ss_theil_sen")
"""Methods that match rows with each other; one row more or less would change many pairs."""
GRADIENTS = ("dp_grad_descent", "dp_grad_descent_zcdp")
CELLS_OF_SUMS = 2**13
"""Places of an axis for sums, which cost nothing more if there are more of them."""
SUMS_OF_GROUP = 6
"""The sums of one group: two numbers of rows, and four sums over its points."""


class _PointStatistic(Statistic):
    """Counts or sums of points, by group.

    Attributes:
        x, y: columns or expressions.
        x_bounds, y_bounds: public bounds; values beyond a bound are clipped to it.
        group_by: the column that assigns rows to groups; None if all rows are one group.
        groups: public keys of the groups; rows with other keys are not counted. None without ``group_by``.
        cells: the number of cells of each axis.
    """

    x: str
    y: str
    x_bounds: Bounds
    y_bounds: Bounds
    group_by: str | None
    groups: Keys | None
    cells: int

    @property
    def lines(self) -> int:
        """The number of groups: one for each key, or a single one."""
        return 1 if self.groups is None else len(self.groups)


class PointCells(_PointStatistic):
    """The statistic of methods that need single points: rows per group and cell (``statistics.PointCounts``)."""

    kind: Literal["points"] = "points"
    remedy_for_size: ClassVar[str] = (
        "ask for fewer cells, for fewer groups, or for a method that needs only sums, such as noisy_moments"
    )

    @property
    def max_keys(self) -> int:
        """The number of counts: one for each cell of each group, and one for each group's rows without a point."""
        return self.lines * (self.cells**2 + 1)


class PointSums(_PointStatistic):
    """The statistic of methods that need only sums per group: of x, y, x^2 and x y (``statistics.Moments``)."""

    kind: Literal["point_sums"] = "point_sums"

    @property
    def max_keys(self) -> int:
        """The number of sums: for each group, its rows with and without a point, and four sums over its points."""
        return self.lines * SUMS_OF_GROUP


class LinearRegressionSettings(Settings):
    """How lines are released from points, or from their sums.

    Attributes:
        method: see ``spark_jobs.diagnostics.linear_regression``; methods of zCDP spend delta. Theil-Sen and gradient
            descent need single points, counted in at most 2^26 cells for a request; the other methods need only sums.
        at: where the line is evaluated, as fractions of the way from the lower bound of x to the upper one.
        size_bound: a public estimate of the rows of a group, from which ``auto`` chooses if sizes are private.
        matchings: for Theil-Sen methods: how many partners each row gets. None stands for all other rows in groups of
            at most 256 rows, and for 10 in larger groups.
        public_sizes: under ``replace_one``: whether each group's size is public, and a row that is replaced stays in
            its group and within the request's filter. This is a weaker guarantee than ``replace_one`` alone, so the
            request must ask for it. Filters, groups and blocks may then read only columns that are declared public and
            that neither x nor y reads.
        confidence: nominal level of intervals.
    """

    method: LineMethod = "auto"
    at: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1, max_length=100)] = (0.25, 0.75)
    size_bound: Annotated[int, Field(ge=1, le=10**12)] | None = None
    matchings: Annotated[int, Field(ge=1, le=10**6)] | None = None
    public_sizes: bool = False
    confidence: Confidence = CONFIDENCE

    @property
    def spends_delta(self) -> bool:
        """Whether the method is accounted for in zCDP, which spends delta."""
        return self.method.endswith("_zcdp")


class LinearRegressionOptions(LinearRegressionSettings, Options):
    """A private line through the points of each group.

    Attributes:
        x, y: each a column of numbers or booleans, or an expression.
        x_bounds, y_bounds: public bounds; values of x and y are clipped to them.
        group_by: the column that assigns rows to groups.
        groups: public keys of the groups, in the order in which they are released: texts or whole numbers, which are
            compared with the column as text.
        cells: the number of cells of each axis, a power of two.
    """

    result: ClassVar[type[Result]] = LinearFit
    bounds_of: ClassVar[Mapping[str, str]] = {"x": "x_bounds", "y": "y_bounds"}
    keys_of: ClassVar[Mapping[str, str]] = {"group_by": "groups"}
    kind: Literal["linear_regression"] = "linear_regression"
    x: Amount
    y: Amount
    x_bounds: Bounds
    y_bounds: Bounds
    group_by: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    groups: Keys | None = None
    cells: Annotated[int, Field(ge=2, le=8192)] = 1024

    @field_validator("x", "y")
    @classmethod
    def _allowed(cls, value: str) -> str:
        return expression(value)

    @field_validator("x_bounds", "y_bounds", mode="before")
    @classmethod
    def _two(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise _no_bounds(value)
        return value

    @field_validator("x_bounds", "y_bounds")
    @classmethod
    def _ascending(cls, value: Bounds) -> Bounds:
        if not are_bounds(value):
            raise _no_bounds(list(value))
        return value

    @field_validator("cells")
    @classmethod
    def _power(cls, value: int) -> int:
        return power_of_two(value)

    @field_validator("groups", mode="before")
    @classmethod
    def _keys(cls, value: Any) -> Any:
        return value if value is None else require_keys(value)

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        for axis, (lower, upper) in (("x", self.x_bounds), ("y", self.y_bounds)):
            try:
                check_grid(lower=lower, upper=upper, cells=self.cells, scale="linear", unit=None)
            except InvalidRequest as refused:
                raise refused.within(axis) from None
        if self.x == self.y:
            raise InvalidRequest("y", self.y, "must differ from x", "name the outcome's column")
        if self.group_by is not None and self.groups is None:
            raise InvalidRequest(
                "groups", None,
                "is required with group_by, because keys that are read from the rows would not be private",
                "list the groups, or name a registered list of them",
            )  # fmt: skip
        if self.groups is not None and self.group_by is None:
            raise InvalidRequest(
                "group_by", None, "is required with groups", "name the column that assigns rows to groups"
            )
        return self

    @property
    def statistic(self) -> Statistic:
        """Counts of points by group, or sums by group if the method needs no more."""
        names = ("x", "y", "x_bounds", "y_bounds", "group_by", "groups", "cells")
        fields = {name: getattr(self, name) for name in names}
        if self.method in (*THEIL_SEN, *GRADIENTS):
            return PointCells(**fields)
        return PointSums(**{**fields, "cells": max(self.cells, CELLS_OF_SUMS)})

    @property
    def approximate(self) -> bool:
        """Whether the method spends delta."""
        return self.spends_delta

    def sizes_are_public(self, neighbours: Neighbours) -> bool:
        """Whether the size of each group is public, and a replaced row stays in its group."""
        return neighbours is Neighbours.REPLACE_ONE and self.public_sizes

    def check(self, request: RequestContext) -> None:
        """Reject Theil-Sen if a group's size is private, and ``public_sizes`` if replacing a unit could change a size.

        Replacing a row leaves the sizes unchanged, unless a selection among a unit's rows, or a pipeline, decides which
        rows are used. Selecting one row of each unit is allowed if all rows are in one group, because the selection
        does not change the number of rows used.
        """
        public = self.sizes_are_public(request.neighbours)
        if self.method in THEIL_SEN and not public:
            raise InvalidRequest(
                "diagnostics.method", self.method,
                "is differentially private only if the groups' sizes are public, which needs neighbours "
                "replace_one and public_sizes true", "set both, or choose another method",
            )  # fmt: skip
        if not public:
            return
        unit = request.unit
        if unit.column is not None and (unit.max_rows > 1 or self.group_by is not None):
            raise InvalidRequest(
                "diagnostics.public_sizes", True,
                "needs the unit to be a row, because which rows of a larger unit are used is secret",
                "set public_sizes to false",
            )  # fmt: skip
        if request.uses_model and isinstance(request.model, SparkMLModel):
            raise InvalidRequest(
                "diagnostics.public_sizes", True,
                "cannot be combined with a spark_ml model, because its stages may skip rows",
                "set public_sizes to false, or request the lines in a release of their own",
            )  # fmt: skip
        if request.knows_public_columns:
            self._require_public(request)

    def _require_public(self, request: RequestContext) -> None:
        """Reject filters, groups and blocks that read a column which is not public, or which x or y reads.

        The number of rows in use is published exactly; that of ``id = 17 AND sick = true`` would reveal who is sick.
        """
        public = {name.lower() for name in request.table.public_columns or ()}
        protected = {name.lower() for text in (self.x, self.y) for name in (text, *columns(parse(text)))}
        deciding = [] if request.where is None else [("where", name) for name in columns(parse(request.where))]
        if self.group_by is not None:
            deciding.append(("diagnostics.group_by", self.group_by))
        if request.blocks != (ALL,) and request.block_expression is not None:
            deciding.append(("blocks", request.block_expression.column))
        for field, name in deciding:
            if name.lower() not in public:
                raise InvalidRequest(
                    field,
                    name,
                    "must be a public column where sizes are public; the public columns here are "
                    + (", ".join(request.table.public_columns or ()) or "none"),
                    "leave it out, set public_sizes to false, or declare the column by `dp-budget bind`",
                )
            if name.lower() in protected:
                raise InvalidRequest(
                    field, name, "must not be read by x or y where sizes are public",
                    "leave it out, or set public_sizes to false",
                )  # fmt: skip


def require_keys(keys: Any) -> Keys:
    """``keys`` as a tuple, after checking that they can be keys of groups: texts or whole numbers, each once.

    Raises:
        InvalidRequest: they cannot be keys; the error's field is empty, for the caller to add.
    """
    if not isinstance(keys, (list, tuple)):
        raise InvalidRequest(
            "", type(keys).__name__, "must be a list of keys, or name a registered list",
            "write it like ['001', '002'] or {'list': 'tracts'}",
        )  # fmt: skip
    if not 1 <= len(keys) <= MAX_GROUPS:
        raise InvalidRequest(
            "", len(keys), f"must be from 1 to {MAX_GROUPS} keys",
            "leave out groups and group_by for one line, or split the groups over several releases",
        )  # fmt: skip
    for key in keys:
        if not is_key(key):
            raise InvalidRequest(
                "", key if isinstance(key, (str, int, float)) else type(key).__name__,
                f"must be texts of 1 to {MAX_KEY_CHARACTERS} characters or whole numbers of 64 bits",
                "write the keys as they are in the column, text in quotes",
            )  # fmt: skip
    ((key, times),) = Counter(map(str, keys)).most_common(1)
    if times > 1:
        raise InvalidRequest("", key, "must be listed once", "name each group once (17 and '17' are one key)")
    return tuple(keys)


def is_key(key: Any) -> bool:
    """Whether a value can be a key of a public list: a text that is not empty or too long, or a whole number."""
    if isinstance(key, str):
        surrogate = not key.isascii() and any("\ud800" <= character <= "\udfff" for character in key)
        return 1 <= len(key) <= MAX_KEY_CHARACTERS and not surrogate
    return isinstance(key, int) and not isinstance(key, bool) and -(2**63) <= key < 2**63


def _no_bounds(given: Any) -> InvalidRequest:
    return InvalidRequest(
        "", given, "must be two numbers in ascending order, both between -1e100 and 1e100",
        "give public bounds, such as [0, 100000], to which values are clipped",
    )  # fmt: skip


def power_of_two(value: int) -> int:
    """``value``, after checking that it is a power of two.

    Raises:
        InvalidRequest: ``value`` is not a power of two.
    """
    if value.bit_count() != 1:
        raise InvalidRequest("", value, "must be a power of two", "round it, e.g. to 32")
    return value


def expression(text: str) -> str:
    """``text``, after checking that it is an expression of the allow-list.

    Raises:
        InvalidRequest: ``text`` is not such an expression.
    """
    parse(text, what="")
    return text


KINDS: tuple[type[Options], ...] = (LinearRegressionOptions,)
