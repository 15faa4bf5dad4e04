"""What an account says of its tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_jobs.contract import InvalidRequest, PrivacyUnit
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.column_types import Kind, kind_of_type, normal_type
from spark_jobs.contract.expressions.blocks import BlockExpression

VISITS: dict[str, Any] = {
    "table": "file:///lake/visits",
    "format": "parquet",
    "columns": {"id": "INTEGER", "region": "string", "seen": "timestamp", "paid": "Decimal(10, 2)", "v": "string"},
    "version": {"by": "partition", "columns": ["v"]},
    "public_columns": ["region", "v"],
}


def refused(**changes: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        TableBinding.parse({**VISITS, **changes})
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_binding_is_the_same_after_json_in_any_order_of_keys() -> None:
    binding = TableBinding.parse(VISITS)
    text = json.dumps(binding.model_dump(mode="json"), sort_keys=True)
    assert TableBinding.parse(json.loads(text)) == binding
    assert binding.types == {
        "id": "int",
        "region": "string",
        "seen": "timestamp",
        "paid": "decimal(10,2)",
        "v": "string",
    }


def test_a_table_has_one_name_however_it_is_given() -> None:
    assert TableBinding.parse({**VISITS, "table": "/lake/visits"}) == TableBinding.parse(VISITS)
    assert refused(table="lake/visits").field == "table"


def test_the_order_of_columns_is_part_of_a_binding() -> None:
    turned = dict(reversed(VISITS["columns"].items()))
    assert TableBinding.parse({**VISITS, "columns": turned}) != TableBinding.parse(VISITS)


@pytest.mark.parametrize(
    ("text", "spelled", "kind"),
    [
        ("BIGINT", "bigint", Kind.INTEGER),
        ("long", "bigint", Kind.INTEGER),
        ("real", "float", Kind.NUMBER),
        ("Decimal( 38, 0 )", "decimal(38,0)", Kind.NUMBER),
        ("varchar(20)", "varchar(20)", Kind.STRING),
        ("timestamp_ntz", "timestamp_ntz", Kind.TIMESTAMP),
        ("string collate UTF8_LCASE", "string collate UTF8_LCASE", None),
        ("decimal(39,0)", "decimal(39,0)", None),
        ("Struct<A: Long>", "struct<A:bigint>", None),
        ("map<int, A>", "map<int, A>", None),
    ],
)
def test_a_type_has_one_spelling_and_a_kind(text: str, spelled: str, kind: Kind | None) -> None:
    assert normal_type(text) == spelled
    assert kind_of_type(spelled) is kind


def test_columns_that_differ_in_case_alone_are_refused() -> None:
    assert "must be listed only once" in str(refused(columns={**VISITS["columns"], "Region": "string"}))
    assert "must be listed only once" in str(refused(public_columns=["region", "Region"]))


def test_a_column_that_is_not_there_is_refused_by_name() -> None:
    assert refused(public_columns=["age"]).field == "public_columns"
    assert refused(version={"by": "partition", "columns": ["day"]}).field == "version.columns"


def test_a_version_in_which_two_folders_are_one_value_is_refused() -> None:
    # v=1 and v=01 are one whole number
    assert "string" in str(refused(columns={**VISITS["columns"], "v": "int"}))
    catalog = {"table": "catalog:lake.visits", "format": "catalog"}
    TableBinding.parse({**VISITS, **catalog, "columns": {**VISITS["columns"], "v": "int"}})
    assert "not double" in str(refused(**catalog, columns={**VISITS["columns"], "v": "double"}))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "catalog"},
        {"table": "catalog:lake.visits"},
        {"version": {"by": "table_version"}},
        {"format": "delta"},
        {"format": "iceberg", "version": {"by": "partition", "columns": ["day"]}},
        {"version": {"by": "partition"}},
        {"version": {"by": "path_version", "columns": ["v"]}},
        {"version": {"by": "path_version", "folders": 0}},
        {"columns": {}},
        {"format": "csv", "columns": {**VISITS["columns"], "tags": "array<int>"}},
        {"format": "csv", "columns": {**VISITS["columns"], " id": "int"}},
    ],
)
def test_a_binding_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    refused(**changes)


@pytest.mark.parametrize(
    ("blocks", "allowed"),
    [
        ("value(region)", True),
        ("value(id)", True),
        ("VALUE(id)".lower(), True),
        ("day(seen)", True),
        ("value(Region)", True),
        ("value(paid)", False),  # 7 and 7.00
        ("value(seen)", False),
        ("day(region)", False),  # the text 12:00 is a moment of the day on which it is read
        ("day(missing)", False),
    ],
)
def test_blocks_need_a_column_whose_rows_stay_where_they_are(blocks: str, allowed: bool) -> None:
    binding, expression = TableBinding.parse(VISITS), BlockExpression.parse(blocks)
    if allowed:
        binding.require_terms(PrivacyUnit(), expression)
        return
    with pytest.raises(InvalidRequest) as caught:
        binding.require_terms(PrivacyUnit(), expression)
    assert caught.value.field == "blocks"


def test_the_unit_needs_a_column_of_simple_values() -> None:
    binding = TableBinding.parse({**VISITS, "columns": {**VISITS["columns"], "tags": "array<string>"}})
    binding.require_terms(PrivacyUnit(column="id"), None)
    for column in ("tags", "person"):
        with pytest.raises(InvalidRequest) as caught:
            binding.require_terms(PrivacyUnit(column=column), None)
        assert caught.value.field == "unit.column"


@pytest.mark.parametrize("of", ["float", "double"])
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_text_that_is_read_as_a_floating_point_number_names_no_unit(form: str, of: str) -> None:
    for table in ({}, {"format": form}):
        binding = TableBinding.parse({**VISITS, "columns": {"id": of, "v": "string"}, "public_columns": [], **table})
        if table:
            with pytest.raises(InvalidRequest, match=f"unit.column: got 'id'; must not be of type {of}") as caught:
                binding.require_terms(PrivacyUnit(column="id"), None)
            assert "\n" not in str(caught.value)
        else:
            binding.require_terms(PrivacyUnit(column="id"), None)


def test_a_new_column_may_not_be_named_like_a_field_that_is_bound() -> None:
    older = TableBinding.parse({**VISITS, "columns": {**VISITS["columns"], "home": "struct<zip:int>"}})
    for name in ("home.zip", "HOME.zip"):
        columns = {**VISITS["columns"], "home": "struct<zip:int>", name: "double"}
        with pytest.raises(InvalidRequest, match="binding: "):
            TableBinding.parse({**VISITS, "columns": columns}).require_extends(older)


def test_a_binding_may_gain_columns_and_public_columns_and_nothing_else() -> None:
    older = TableBinding.parse(VISITS)
    more = {**VISITS["columns"], "age": "int"}
    TableBinding.parse({**VISITS, "columns": more, "public_columns": ["age", "region", "v"]}).require_extends(older)
    declared = TableBinding.parse({**VISITS, "rows_per_unit": 10})
    declared.require_extends(older)
    assert "rows_per_unit" not in older.model_dump(mode="json"), "ledgers hold it as it was"
    growing = TableBinding.parse({**VISITS, "append_only": True})
    growing.require_extends(older)
    assert "append_only" not in older.model_dump(mode="json")
    for before, after in ((declared, older), (declared, {**VISITS, "rows_per_unit": 11}), (growing, older)):
        with pytest.raises(InvalidRequest, match="binding: "):
            TableBinding.parse(after).require_extends(before)
    for changes in (
        {"columns": {**VISITS["columns"], "id": "double"}},
        {"columns": {name: VISITS["columns"][name] for name in ("id", "region", "v")}},
        {"columns": dict(reversed(VISITS["columns"].items()))},
        {"public_columns": ["region"]},
        {"version": {"by": "partition", "columns": ["region", "v"]}},
        {"version": {"by": "path_version"}},
        {"format": "csv"},
    ):
        with pytest.raises(InvalidRequest) as caught:
            TableBinding.parse({**VISITS, **changes}).require_extends(older)
        assert caught.value.field == "binding"
