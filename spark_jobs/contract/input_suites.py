"""A suite of expectations on an input table, in the JSON form of Great Expectations.

Only expectations on the schema are allowed. Whether rows meet an expectation on values is private: an answer would cost
budget, and a suite has none. Such an expectation is refused by its name when the request is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, field_serializer, model_validator

from spark_jobs.contract.column_types import TYPES, kind_of_type, normal_type
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import Frozen, did_you_mean

Kwargs = Mapping[str, Any]
Columns = Mapping[str, str]
"""Columns in the table's order, each with the name of its type in Great Expectations, which is Spark's class."""

_OTHERS = {"array": "ArrayType", "binary": "BinaryType", "map": "MapType", "struct": "StructType"}
_CLASSES = {
    "tinyint": "ByteType",
    "smallint": "ShortType",
    "int": "IntegerType",
    "bigint": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "decimal": "DecimalType",
    "char": "CharType",
    "varchar": "VarcharType",
    "timestamp_ntz": "TimestampNTZType",
}
_TYPE_NAMES = frozenset(name for names in TYPES.values() for name in names) | frozenset(_OTHERS.values())


def _is_between(columns: Columns, given: Kwargs) -> bool:
    low, high = given.get("min_value"), given.get("max_value")
    return (low is None or len(columns) >= low) and (high is None or len(columns) <= high)


def _matches_set(columns: Columns, given: Kwargs) -> bool:
    names = set(given["column_set"])
    return names == set(columns) if given.get("exact_match", True) else names <= set(columns)


SCHEMA_EXPECTATIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Columns, Kwargs], bool]]] = {
    "expect_column_to_exist": (("column",), (), lambda columns, given: given["column"] in columns),
    "expect_column_values_to_be_of_type": (
        ("column", "type_"),
        (),
        lambda columns, given: columns.get(given["column"]) == given["type_"],
    ),
    "expect_column_values_to_be_in_type_list": (
        ("column", "type_list"),
        (),
        lambda columns, given: columns.get(given["column"]) in given["type_list"],
    ),
    "expect_table_column_count_to_equal": (
        ("value",),
        (),
        lambda columns, given: len(columns) == given["value"],
    ),
    "expect_table_column_count_to_be_between": ((), ("min_value", "max_value"), _is_between),
    "expect_table_columns_to_match_ordered_list": (
        ("column_list",),
        (),
        lambda columns, given: list(columns) == given["column_list"],
    ),
    "expect_table_columns_to_match_set": (("column_set",), ("exact_match",), _matches_set),
}
"""The expectations of the schema: their required and their other arguments, and whether columns meet them."""

_LISTS, _NUMBERS = ("type_list", "column_list", "column_set"), ("value", "min_value", "max_value")


class SchemaExpectation(Frozen):
    """An expectation that the names and types of columns alone decide.

    Attributes:
        type: its name in Great Expectations.
        kwargs: its arguments.
    """

    type: str
    kwargs: Mapping[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _without_notes(cls, data: Any) -> Any:
        return _without(
            data, "id", "meta", "notes", "description", "severity", "rendered_content", "expectation_context"
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.type not in SCHEMA_EXPECTATIONS:
            raise InvalidRequest(
                "type",
                self.type,
                f"must be one of {', '.join(SCHEMA_EXPECTATIONS)}, because the result of any other expectation depends "
                "on private rows",
                f"remove it{did_you_mean(self.type, SCHEMA_EXPECTATIONS)}",
            )
        required, others, _ = SCHEMA_EXPECTATIONS[self.type]
        for name in (*required, *self.kwargs):
            if name not in self.kwargs or name not in (*required, *others):
                raise InvalidRequest(
                    f"kwargs.{name}", None,
                    f"is {'required' if name in required else 'no argument'} of {self.type} here",
                    "add it" if name in required else "remove it",
                )  # fmt: skip
        for name, value in self.kwargs.items():
            _check_argument(name, value)
        return self

    def is_met(self, columns: Columns) -> bool:
        """Whether a table with these columns meets the expectation."""
        return SCHEMA_EXPECTATIONS[self.type][2](columns, self.kwargs)

    def describe(self) -> str:
        """The expectation in one line."""
        return f"{self.type}({', '.join(f'{name}={value!r}' for name, value in self.kwargs.items())})"

    @field_serializer("kwargs")
    def _plain_kwargs(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(kwargs)


class InputSuite(Frozen):
    """A suite for an input, as ``ExpectationSuite.to_json_dict()`` gives it.

    Attributes:
        name: its name.
        expectations: what the table's schema must meet.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    expectations: Annotated[tuple[SchemaExpectation, ...], Field(min_length=1, max_length=1000)]

    @model_validator(mode="before")
    @classmethod
    def _without_notes(cls, data: Any) -> Any:
        return _without(data, "id", "meta", "notes")

    def check(self, types: Mapping[str, str]) -> None:
        """Refuse a table whose schema does not meet the suite.

        Args:
            types: the type of each of the table's columns, as Spark writes it, in the table's order.

        Raises:
            InvalidRequest: it names the first expectation that is not met.
        """
        columns = {name: class_of(written) for name, written in types.items()}
        for expectation in self.expectations:
            if not expectation.is_met(columns):
                raise InvalidRequest(
                    "input_suite", expectation.describe(), "must be met by the table's columns",
                    "correct the table or the suite",
                )  # fmt: skip


def class_of(written: str) -> str:
    """The class in ``pyspark.sql.types`` of a type as Spark writes it: ``DecimalType`` of ``decimal(9,2)``."""
    simple = normal_type(written).partition("(")[0].partition("<")[0]
    kind = kind_of_type(normal_type(written))
    return _CLASSES.get(simple) or (TYPES[kind][0] if kind else _OTHERS.get(simple, simple))


def _check_argument(name: str, value: Any) -> None:
    is_list = (
        isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value)
    )
    right = {
        **dict.fromkeys(_LISTS, is_list),
        **dict.fromkeys(_NUMBERS, value is None or (isinstance(value, int | float) and not isinstance(value, bool))),
        "exact_match": isinstance(value, bool),
    }.get(name, isinstance(value, str))
    if not right:
        raise InvalidRequest(
            f"kwargs.{name}", value, "must be of the type that Great Expectations takes", "correct the argument's type"
        )
    for given in value if name == "type_list" else [value] if name == "type_" else []:
        if given not in _TYPE_NAMES:
            raise InvalidRequest(
                f"kwargs.{name}", given, "must be a type of Spark, such as DoubleType",
                f"correct it{did_you_mean(given, _TYPE_NAMES)}",
            )  # fmt: skip


def _without(data: Any, *names: str) -> Any:
    """``data`` without what the library adds for its own records."""
    return {name: value for name, value in data.items() if name not in names} if isinstance(data, Mapping) else data
