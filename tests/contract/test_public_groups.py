"""Keys of groups from public files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.public_groups import with_public_groups

TABLE = {"path": "/lake/children", "snapshot": {"path_version": "v1"}}


def keys(groups: Any, table: Any = TABLE) -> Any:
    (entry,) = with_public_groups({"table": table, "diagnostics": [{"kind": "linear_regression", "groups": groups}]})[
        "diagnostics"
    ]
    return entry["groups"]


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(name: str, content: Any) -> str:
        path = tmp_path / name
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.mark.parametrize(
    ("name", "content", "column", "expected"),
    [
        ("tracts.csv", "tract,name\n001,Ash\n002,Birch\n001,Ash\n", "tract", ("001", "002")),
        ("tracts.csv", b"\xef\xbb\xbftract\r\n001\r\n\r\n002\r\n", None, ("001", "002")),
        ("TRACTS.CSV", 'a,b\n"1,2",x\n', "a", ("1,2",)),
        ("tracts.json", "[3, 1, 2]", None, (3, 1, 2)),
        ("tracts.json", '[{"tract": "001", "n": 1}, {"tract": "002"}]', "tract", ("001", "002")),
        ("tracts.parquet", pa.table({"tract": ["b", "a", "b"], "n": [1, 2, 3]}), "tract", ("b", "a")),
        ("tracts.parquet", pa.table({"tract": pa.array([7, 9], pa.int32())}), None, (7, 9)),
        ("tracts.parquet", pa.table({"t": pa.array(["x", "y", "x"]).dictionary_encode()}), "t", ("x", "y")),
    ],
)
def test_keys_are_read_in_the_order_of_the_file(file: Any, name: str, content: Any, column: Any, expected: Any) -> None:
    named = {"path": file(name, content)} | ({} if column is None else {"column": column})
    assert keys(named) == expected
    assert keys({**named, "path": f"file://{named['path']}"}) == expected


def test_a_file_of_one_column_may_be_named_by_its_path_alone(file: Any) -> None:
    assert keys(file("tracts.csv", "tract\n001\n002\n")) == ("001", "002")
    refused("no/such.csv", "diagnostics.groups.path: got 'no/such.csv'; must be a file that can be read")


def test_what_names_no_file_stays_as_it_is() -> None:
    assert keys(["001"]) == ["001"]
    fields = {"diagnostics": ["roc_curve", {"kind": "ecdf"}], "table": 3}
    assert with_public_groups(fields) == fields
    assert with_public_groups({"diagnostics": "roc_curve"}) == {"diagnostics": "roc_curve"}


@pytest.mark.parametrize(
    ("name", "content", "column", "line"),
    [
        (
            "tracts.csv",
            "a,b\n1,2\n",
            None,
            "diagnostics.groups.column: must be a column of the file, ",
        ),
        (
            "tracts.csv",
            "a,b\n1,2\n",
            "c",
            "diagnostics.groups.column: got 'c'; must be a column of the file, ",
        ),
        ("tracts.csv", "", "c", "diagnostics.groups.column: got 'c'; must be a column of the file, "),
        ("tracts.csv", b"\xff\xfe\x00", "c", "diagnostics.groups.path: got"),
        ("tracts.csv", 'a\n"open', "a", "diagnostics.groups.path: got"),
        ("tracts.json", "{", None, "diagnostics.groups.path: got"),
        ("tracts.json", '{"a": 1}', None, "diagnostics.groups.path: got"),
        ("tracts.json", '[1, {"a": 1}]', None, "diagnostics.groups.path: got"),
        ("tracts.parquet", "no parquet", None, "diagnostics.groups.path: got"),
        ("tracts.txt", "1", None, "diagnostics.groups.path: got"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line(
    file: Any, name: str, content: Any, column: Any, line: str
) -> None:
    refused({"path": file(name, content), "column": column}, line)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tracts.csv", "a,secret-4711\n1,2\n,secret-4711\n"),
        ("tracts.csv", "a,b\n"),
        ("tracts.json", '[{"a": 1}, {"secret-4711": "secret-4711"}]'),
        ("tracts.json", "[NaN]"),
        ("tracts.json", '["4711", 4711]'),
        ("tracts.json", '[["secret-4711"]]'),
        ("tracts.parquet", pa.table({"a": [47.11, None], "secret-4711": ["x", "y"]})),
    ],
)
@pytest.mark.parametrize("column", [None, "a", "nowhere"])
def test_no_refusal_says_what_a_file_holds(file: Any, name: str, content: Any, column: str | None) -> None:
    """Any file that the worker reads may be named, and a column, a value or the first line of one may be a secret."""
    path = file(name, content)
    with pytest.raises(InvalidRequest) as caught:
        keys({"path": path, "column": column})
    line = str(caught.value).replace(path, "").replace("nowhere", "")
    assert line.startswith("diagnostics.groups")
    assert not any(part in line for part in ("4711", "47.11", "secret"))
    assert "\n" not in line


def test_a_list_of_an_account_is_for_a_ledger_to_know() -> None:
    refused({"list": "tracts"}, "diagnostics.groups: got {'list': 'tracts'}; names a registered list, which only the")


@pytest.mark.parametrize(
    ("groups", "line"),
    [
        ({"path": "/no/such/file.csv"}, "diagnostics.groups.path: got '/no/such/file.csv'; must be a file that can be"),
        ({"path": "/"}, "diagnostics.groups.path: got '/'; must end in .csv, .json or .parquet; "),
        ({"path": "https://example.org/a.csv"}, "diagnostics.groups.path: got 'https://example.org/a.csv'; must be a"),
        ({"path": "/x/../children/a.csv"}, "diagnostics.groups.path: got '/x/../children/a.csv'; must not"),
        ({"column": "a"}, "diagnostics.groups.path: is required"),
        ({"path": "/a.csv", "columns": "a"}, "diagnostics.groups.columns: is not a field"),
    ],
)  # fmt: skip
def test_places_that_do_not_fit_are_refused(groups: Any, line: str) -> None:
    refused(groups, line)


@pytest.mark.parametrize("path", ["/lake/children/v1/part-0.parquet", "FILE://localhost/lake//children/a.csv"])
def test_the_private_table_is_no_public_file(path: str) -> None:
    refused(
        {"path": path},
        f"diagnostics.groups.path: got '{path}'; must not lie within the table, because keys that are read",
    )


def test_links_lead_to_no_public_file_of_the_private_table(tmp_path: Path) -> None:
    inside = tmp_path / "children" / "v1"
    inside.mkdir(parents=True)
    (inside / "keys.csv").write_text("key\na\n")
    (tmp_path / "keys.csv").symlink_to(inside / "keys.csv")
    (tmp_path / "link").symlink_to(tmp_path / "children")
    table, linked = (
        {"path": str(tmp_path / name), "snapshot": {"path_version": "v1"}} for name in ("children", "link")
    )
    for path in (
        f"{tmp_path}/keys.csv",
        f"{tmp_path}/link/v1/keys.csv",
        f"{inside}/keys.csv",
        f"file://localhost{inside}/keys.csv",
    ):
        for place in (table, linked):
            with pytest.raises(InvalidRequest, match="must not lie within the table"):
                keys(path, place)
    apart = tmp_path / "public.csv"
    apart.write_text("key\na\n")
    assert keys(str(apart), table) == keys(str(apart), linked) == ("a",)


def test_a_folder_beside_the_table_is_not_the_table() -> None:
    path = "/lake/children-of-the-county/a.csv"
    refused({"path": path}, f"diagnostics.groups.path: got '{path}'; must be a file that can be read")


def refused(groups: Any, start: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        keys(groups)
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)


def test_a_catalog_table_has_no_place_to_be_apart_from(file: Any) -> None:
    table = {"format": "catalog", "name": "a.b", "snapshot": {"table_version": 1}}
    assert keys({"path": file("a.json", json.dumps(["x"]))}, table) == ("x",)
