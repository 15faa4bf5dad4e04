from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.jdbc import CONNECTIONS_VARIABLE, Partitioning, connection_of
from spark_jobs.contract.places import Place
from spark_jobs.contract.tables import TableSource

LAKE: dict[str, Any] = {"url": "jdbc:postgresql://db.example:5432/lake", "user": "me", "tables": ["public.visits"]}
BOUNDS = {"column": "id", "lower": 0, "upper": 9, "partitions": 2}


def environ(tmp_path: Path, content: Any) -> dict[str, str]:
    file = tmp_path / "jdbc.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return {CONNECTIONS_VARIABLE: str(file)}


def test_a_table_of_a_connection_is_found_with_its_password(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    connection = connection_of(
        "lake.public.visits", environ(tmp_path, {"lake": {**LAKE, "password_file": str(secret)}})
    )
    assert (connection.user, connection.password()) == ("me", "hunter2")


@pytest.mark.parametrize(
    "table",
    ["lake.public.Visits", "lake.public.visit", "lake.private.visits", "other.public.visits", "Lake.public.visits"],
)
def test_what_is_not_allowed_is_refused_alike(tmp_path: Path, table: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        connection_of(table, environ(tmp_path, {"lake": LAKE}))
    assert str(refused.value).replace(table, "T") == (
        "table.name: got 'jdbc:T'; must be a table that DP_DIAGNOSTICS_JDBC allows, spelled in the same case; "
        "correct the name, or have the administrator add the table to its connection"
    )


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "must name a JSON file of connections"),
        ([], "must name a JSON file of connections"),
        ({"lake": {**LAKE, "url": "jdbc:mysql://x/y"}}, "must be the address of a PostgreSQL database"),
        ({"lake": {**LAKE, "tables": []}}, "DP_DIAGNOSTICS_JDBC.tables"),
        ({"lake": {**LAKE, "tables": ["visits"]}}, "must be a schema and a table, such as public.visits"),
        ({"lake": {**LAKE, "tables": ["public.(SELECT 1)"]}}, "must be a schema and a table, such as public.visits"),
        ({"lake": {**LAKE, "query": "SELECT 1"}}, "is not a field"),
        (
            {"lake": LAKE, "other": {**LAKE, "url": "jdbc:postgresql://DB.example/lake?user=x"}},
            "must have only one connection for each database",
        ),
    ],
)
def test_a_file_of_connections_that_is_wrong_is_refused_in_one_line(tmp_path: Path, content: Any, line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        connection_of("lake.public.visits", environ(tmp_path, content))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_file_of_connections_and_no_password_file_are_refused(tmp_path: Path) -> None:
    for given in ({}, {CONNECTIONS_VARIABLE: str(tmp_path / "none")}):
        with pytest.raises(InvalidRequest, match="must name a JSON file"):
            connection_of("lake.public.visits", given)
    fields = {"lake": {**LAKE, "password_file": str(tmp_path / "none")}}
    with pytest.raises(InvalidRequest, match="must name a file that can be read"):
        connection_of("lake.public.visits", environ(tmp_path, fields)).password()


def test_a_table_of_a_database_has_one_name_and_case_matters() -> None:
    place = Place.parse("jdbc:lake.public.Visits")
    assert place.identity == "jdbc:lake.public.Visits"
    assert place.local is None
    assert not place.overlaps(Place.parse("jdbc:lake.public.visits"))
    assert not place.overlaps(Place.parse("jdbc:lake.public.Visits2"))
    assert place.overlaps(place)


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:lake.visits",
        "jdbc:lake.a.b.c",
        "jdbc:Lake.public.visits",
        "jdbc:lake.public.visits; DROP TABLE x",
        'jdbc:lake."public".visits',
        "jdbc:lake.public.(SELECT 1) t",
        "jdbc:postgresql://host/db",
        "jdbc:lake.public.visits\n",
        "jdbc:lake..visits",
        "JDBC:lake.public.visits",
    ],
)
def test_what_is_no_such_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Place.parse(text)
    with pytest.raises(InvalidRequest):
        TableSource.parse({"name": text, "snapshot": {"partition": {"v": "1"}}, "partitioning": BOUNDS})


def test_an_account_binds_it_by_the_columns_of_its_version() -> None:
    fields = {
        "table": "jdbc:lake.public.visits",
        "format": "jdbc",
        "columns": {"id": "bigint", "v": "string"},
        "version": {"by": "partition", "columns": ["v"]},
    }
    binding = TableBinding.parse(fields)
    source = TableSource.parse(
        {"name": "jdbc:lake.public.visits", "snapshot": {"partition": {"v": "1"}}, "partitioning": BOUNDS}
    ).completed(binding)
    assert (source.form, source.identity) == ("jdbc", binding.table)
    assert TableSource.parse(source.model_dump()) == source
    for change, line in (
        ({"format": "parquet"}, "must match the table"),
        ({"format": "catalog"}, "must match the table"),
        ({"table": "/lake/t"}, "must match the table"),
        ({"version": {"by": "path_version"}}, "cannot name the states"),
        ({"version": {"by": "table_version"}}, "cannot name the states"),
        ({"columns": {"id": "bigint", "v": "array<int>"}}, "must be one of boolean"),
    ):
        with pytest.raises(InvalidRequest, match=line):
            TableBinding.parse({**fields, **change})


@pytest.mark.parametrize("changes", [{"lower": 9}, {"upper": 2**63}, {"partitions": 0}, {"partitions": 1001}, {"x": 1}])
def test_bounds_are_ascending_and_few(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        Partitioning.parse({**BOUNDS, **changes})


def test_bounds_are_for_tables_of_a_database_alone_and_change_no_other_hash() -> None:
    fields = {"path": "/lake/t", "snapshot": {"path_version": "v1"}}
    with pytest.raises(InvalidRequest, match="is allowed only for a table of a database"):
        TableSource.parse({**fields, "partitioning": BOUNDS})
    assert "partitioning" not in TableSource.parse(fields).model_dump()
