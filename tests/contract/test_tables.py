"""What a request says of its table, and what its account adds."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.tables import TableSource

COLUMNS = {"id": "int", "region": "string", "v": "string", "part": "string"}
BOUND: dict[str, Any] = {
    "table": "file:///lake/visits",
    "format": "csv",
    "columns": COLUMNS,
    "version": {"by": "partition", "columns": ["v", "part"]},
    "public_columns": ["region"],
}
PINNED = {"path": "/lake/visits", "snapshot": {"partition": {"v": "3", "part": "a"}}}


def binding(**changes: Any) -> TableBinding:
    return TableBinding.parse({**BOUND, **changes})


def refused(fields: dict[str, Any], bound: TableBinding | None = None) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        TableSource.parse(fields).completed(bound or binding())
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_charged_request_names_the_table_and_its_state_and_the_account_says_the_rest() -> None:
    source = TableSource.parse(PINNED).completed(binding())
    assert source.form == "csv"
    assert {column.name: column.type for column in source.columns or ()} == COLUMNS
    assert source.version == binding().version
    assert source.public_columns == ("region",)
    # the copy that a release's folder keeps is complete, and stays as it is
    assert TableSource.parse(source.model_dump(mode="json")).completed(binding()) == source


@pytest.mark.parametrize(
    "said",
    [
        {"format": "csv", "columns": COLUMNS},
        {"format": "csv", "columns": {**COLUMNS, "id": "double"}},
        {"format": "parquet"},
        {"columns": COLUMNS},
        {"public_columns": ["id", "region"]},
        {"public_columns": []},
        {"version": {"by": "partition", "columns": ["v", "part"]}},
    ],
)
def test_a_charged_request_may_not_say_what_the_account_says(said: dict[str, Any]) -> None:
    found = refused({**PINNED, **said})
    assert found.field == f"table.{next(iter(said))}"
    assert found.remedy == "leave it out"


def test_the_copy_with_other_types_is_no_copy() -> None:
    # the rows of block '7', read as doubles, would be those of block '7.0'
    copy = TableSource.parse(PINNED).completed(binding(columns={**COLUMNS, "id": "double"}))
    assert refused(copy.model_dump(mode="json")).field == "table.format"


@pytest.mark.parametrize(
    "partition",
    [{"v": "3"}, {"part": "a"}, {"v": "3", "part": "a", "region": "north"}, {"v": "3", "V": "3"}, {"region": "north"}],
)
def test_a_pin_names_all_that_is_the_version_and_nothing_else(partition: dict[str, str]) -> None:
    """Versions that are read side by side hold one person several times, for one charge."""
    found = refused({**PINNED, "snapshot": {"partition": partition}})
    assert found.field == "table.snapshot.partition"
    assert "v, part" in found.requirement


@pytest.mark.parametrize("value", [3, True, 3.0])
def test_a_pinned_folder_is_text_as_it_is(value: Any) -> None:
    # the number 3 is both of v=3 and v=03
    assert "must be text" in str(refused({**PINNED, "snapshot": {"partition": {"v": value, "part": "a"}}}))


def test_columns_of_a_version_are_named_in_any_case() -> None:
    TableSource.parse({**PINNED, "snapshot": {"partition": {"V": "3", "PART": "a"}}}).completed(binding())


@pytest.mark.parametrize("path", ["2026", "2026/11/21", "v=1/day=2/x=3"])
def test_a_version_is_as_many_folders_deep_as_the_account_says(path: str) -> None:
    bound = binding(version={"by": "path_version", "folders": 2})
    TableSource.parse({**PINNED, "snapshot": {"path_version": "2026/11"}}).completed(bound)
    found = refused({**PINNED, "snapshot": {"path_version": path}}, bound)
    assert found.field == "table.snapshot.path_version"


def test_a_state_is_named_in_the_form_that_the_account_says() -> None:
    assert refused({**PINNED, "snapshot": {"path_version": "v=3"}}).field == "table.snapshot.path_version"
    assert refused(PINNED, binding(version={"by": "path_version"})).field == "table.snapshot.partition"


def test_a_catalog_table_is_known_by_having_a_name() -> None:
    bound = binding(
        table="catalog:lake.visits", format="catalog", version={"by": "partition", "columns": ["id"]}, columns=COLUMNS
    )
    fields = {"name": "lake.visits", "snapshot": {"partition": {"id": 3}}}
    assert TableSource.parse(fields).completed(bound).form == "catalog"
    assert "whole number" in str(refused({**fields, "snapshot": {"partition": {"id": "3"}}}, bound))


@pytest.mark.parametrize(
    "fields", [{}, {"path": "/lake/t", "name": "lake.t"}, {"format": "catalog", "path": "/lake/t"}]
)
def test_a_table_has_a_path_or_a_name(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"^(path|name|snapshot)"):
        TableSource.parse({**fields, "snapshot": {"path_version": "v1"}})


def test_the_order_of_a_headers_columns_is_in_the_requests_hash() -> None:
    from tests.support.requests import a_request

    turned = dict(reversed(COLUMNS.items()))
    one, other = (
        a_request(table={**PINNED, "format": "csv", "columns": columns}).sha256 for columns in (COLUMNS, turned)
    )
    assert one != other
