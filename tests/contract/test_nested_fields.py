from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.column_checks import check_columns
from spark_jobs.contract.column_types import normal_type, struct_fields
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.expressions.tree import columns as columns_of
from spark_jobs.contract.nested_fields import with_nested_fields
from spark_jobs.contract.privacy import PrivacyUnit
from spark_jobs.contract.request import ReleaseRequest

ADDRESS = "struct<city:string,zip:int,geo:struct<lat:double,tags:array<string>>>"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("struct<a:int>", (("a", "int"),)),
        ("STRUCT< a : Integer , b:decimal(10,2)>", (("a", "Integer"), ("b", "decimal(10,2)"))),
        ("struct<a:map<string,int>,b:int>", (("a", "map<string,int>"), ("b", "int"))),
        ("struct<a.b:int,c d:string>", (("a.b", "int"), ("c d", "string"))),
        ("struct<>", None),
        ("struct<a>", None),
        ("struct<a:int", None),
        ("struct<a:int>>", None),
        ("struct<`a`:int>", None),
        ("struct<a:" * 200 + "int" + ">" * 200, None),
        ("array<struct<a:int>>", None),
        ("int", None),
    ],
)
def test_the_fields_of_a_struct(text: str, fields: Any) -> None:
    assert struct_fields(text) == fields


def test_a_struct_has_one_spelling() -> None:
    assert normal_type(" STRUCT<a: Integer, b: struct<c:LONG>>") == "struct<a:int,b:struct<c:bigint>>"


def test_fields_of_simple_values_are_columns_by_path() -> None:
    assert with_nested_fields({"id": "int", "address": ADDRESS, "list": "array<struct<a:int>>"}) == {
        "id": "int",
        "address": ADDRESS,
        "list": "array<struct<a:int>>",
        "address.city": "string",
        "address.zip": "int",
        "address.geo.lat": "double",
    }


def test_a_column_comes_before_a_field_of_the_same_path_and_equal_fields_have_none() -> None:
    types = {"a": "struct<b:int,c:int,C:int,d.e:int>", "A.B": "string"}
    assert with_nested_fields(types) == {**types, "a.`d.e`": "int"}
    assert with_nested_fields({"x.y": "struct<z:int>"})["`x.y`.z"] == "int"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a.b = 1", "a.b"),
        ("`a.b` = 1", "a.b"),
        ("`a`.`b` = 1", "a.b"),
        ("a.`b.c` = 1", "a.`b.c`"),
        ("`x.y`.z = 1", "`x.y`.z"),
        ("a.b.c.d.e.f = 1", "a.b.c.d.e.f"),
        ("day(seen.at) = 1", "seen.at"),
        ("a.date IS NULL", "a.date"),
    ],
)
def test_a_filter_names_a_field_by_its_path(text: str, name: str) -> None:
    assert list(columns_of(parse(text))) == [name]


@pytest.mark.parametrize("text", ["a.* = 1", "a.b(1) = 1", "a.b.c.d.e(1) = 1", "a[0].b = 1", "(a).b = 1", "a.b[1] = 1"])
def test_nothing_else_is_a_path(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(text)
    assert "\n" not in str(refused.value)


def request(**changes: Any) -> ReleaseRequest:
    return ReleaseRequest.parse(
        {
            "table": {"path": "/lake/t", "snapshot": {"path_version": "v1"}},
            "diagnostics": [{"kind": "ecdf", "column": "address.geo.lat", "bounds": [0, 1]}],
            "budget": {"epsilon": 1},
            **changes,
        }
    )


TYPES = {"id": "int", "address": ADDRESS}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"where": "address.city = 'Rome' AND address.zip > 3"},
        {"unit": {"column": "Address.Zip"}},
        {"diagnostics": [{"kind": "ecdf", "column": "address.zip", "bounds": [0, 1]}]},
    ],
)
def test_a_path_is_read_wherever_a_column_is(changes: dict[str, Any]) -> None:
    check_columns(request(**changes), TYPES)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"where": "address.town = 'Rome'"}, "where: got 'address.town'; must be a column of the table"),
        ({"where": "address.city > 3"}, "where: got"),
        ({"where": "address = 3"}, "must be of type"),
        ({"unit": {"column": "address"}}, "unit.column: got 'address'; must be of type"),
        ({"unit": {"column": "address.geo"}}, "unit.column: got 'address.geo'; must be a column of the table"),
        (
            {"diagnostics": [{"kind": "ecdf", "column": "address.city", "bounds": [0, 1]}]},
            "diagnostics.column: got 'address.city'; must be of type integer, number or boolean, not string",
        ),
    ],
)
def test_a_path_that_does_not_fit_is_refused_in_one_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_columns(request(**changes), TYPES)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_suite_sees_the_columns_of_the_table_alone() -> None:
    count = {"type": "expect_table_column_count_to_equal", "kwargs": {"value": 2}}
    check_columns(request(input_suite={"name": "s", "expectations": [count]}), TYPES)


def test_an_account_binds_units_blocks_and_public_columns_by_path() -> None:
    binding = TableBinding.parse(
        {
            "table": "/lake/t",
            "format": "json",
            "columns": {"person": "struct<id:string,born:date,height:double>"},
            "version": {"by": "path_version"},
            "public_columns": ["person.born"],
        }
    )
    from spark_jobs.contract.expressions.blocks import BlockExpression

    binding.require_terms(PrivacyUnit(column="person.id"), BlockExpression.parse("year(person.born)"))
    for unit, blocks, line in (
        ("person.name", None, "must be a column of the bound table"),
        ("person", None, "must be a column of single values, not of structs, lists or maps"),
        ("person.id", "value(person.height)", "must use a column of type"),
    ):
        with pytest.raises(InvalidRequest, match=line):
            binding.require_terms(PrivacyUnit(column=unit), None if blocks is None else BlockExpression.parse(blocks))
    with pytest.raises(InvalidRequest, match="public_columns"):
        TableBinding.parse({**binding.model_dump(), "public_columns": ["person.name"]})
    with pytest.raises(InvalidRequest, match=r"version\.columns"):
        TableBinding.parse({**binding.model_dump(), "version": {"by": "partition", "columns": ["person.id"]}})
