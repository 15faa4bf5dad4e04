"""Keys of groups: those of a request itself, or of a list that an administrator has registered; never of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.releasing import has_references, with_references
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from tests.support.ledgers import new_ledger

TABLE = "/lake/children"


@pytest.fixture
def ledger(tmp_path: Path) -> PrivacyLedger:
    made = new_ledger(tmp_path / "ledger.db")
    made.open_account("children", epsilon="3", tables=[TABLE])
    made.open_account("others", epsilon="3", tables=["/lake/others"])
    return made


def fields(groups: Any, **changes: Any) -> dict[str, Any]:
    lines = {
        "kind": "linear_regression", "x": "parents", "y": "children", "x_bounds": [0, 1], "y_bounds": [0, 1],
        "group_by": "tract", "groups": groups,
    }  # fmt: skip
    return {
        "account": "children",
        "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
        "diagnostics": [lines],
        "budget": {"epsilon": "1"},
        **changes,
    }


def test_a_request_names_a_registered_list_and_holds_its_keys(ledger: PrivacyLedger) -> None:
    ledger.register_keys("children", "tracts", ["001", "002"], actor="admin")
    named = fields({"list": "tracts"})
    assert has_references(named)
    filled = with_references(named, ledger)
    assert not has_references(filled)
    request, listed = ReleaseRequest.parse(filled), ReleaseRequest.parse(fields(["001", "002"]))
    assert request.sha256 == listed.sha256


@pytest.mark.parametrize(
    ("groups", "changes", "line"),
    [
        (
            {"list": "nowhere"},
            {},
            "groups: got 'nowhere'; must be a list of keys that is registered for account",
        ),
        (
            {"list": "theirs"},
            {},
            "groups: got 'theirs'; must be a list of keys that is registered for account",
        ),
        (
            {"list": "tracts", "path": "/x.csv"},
            {},
            "must be {'list': NAME} with no other entry, NAME being a registered list",
        ),
        ({"list": 3}, {}, "must be {'list': NAME} with no other entry, NAME being a registered list"),
        ({"list": "tracts"}, {"account": None}, "account: is required"),
    ],
)
def test_what_is_no_list_of_the_account_is_refused(
    ledger: PrivacyLedger, groups: Any, changes: dict[str, Any], line: str
) -> None:
    ledger.register_keys("others", "theirs", ["a"], actor="admin")
    head = ledger.head()
    with pytest.raises(InvalidRequest) as refused:
        with_references(fields(groups, **changes), ledger)
    assert line in str(refused.value)
    assert ledger.head() == head


def aggregates(by: Any) -> dict[str, Any]:
    return fields([], diagnostics=[{"kind": "aggregates", "by": by}])


def test_a_dimension_names_a_registered_list_too(ledger: PrivacyLedger) -> None:
    ledger.register_keys("children", "tracts", ["001", "002"], actor="admin")
    age = {"column": "age", "edges": [0, 18]}
    for by in (
        {"column": "tract", "values": {"list": "tracts"}},
        ["site", age, {"column": "t", "values": {"list": "tracts"}}],
    ):
        named = aggregates(by)
        assert has_references(named)
        filled = with_references(named, ledger)
        assert not has_references(filled)
        assert filled["diagnostics"][0]["by"][-1]["values"] == ["001", "002"]
    assert filled["diagnostics"][0]["by"][:2] == [{"column": "site"}, age]
    head = ledger.head()
    for values, line in (
        ({"list": "nowhere"}, "groups: got 'nowhere'; must be a list of keys that is registered"),
        ({"list": "tracts", "path": "/x"}, "got {'list': 'tracts', 'path': '/x'}; must be {'list': NAME} with"),
        ({"path": "/x.csv"}, "by.values: got '/x.csv'; must be a list of keys or {'list': NAME}: a charged"),
        ("/x.csv", "by.values: got '/x.csv'; must be a list of keys or {'list': NAME}: a charged"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            with_references(aggregates([{"column": "tract", "values": values}]), ledger)
        assert line in str(refused.value)
    assert ledger.head() == head


def test_keys_that_a_release_discovered_are_registered_from_its_file(
    ledger: PrivacyLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From then on they are public groups: of a request without a delta, beside other dimensions."""
    monkeypatch.setenv("DP_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.db'}")
    file, head = tmp_path / "aggregates.parquet", ledger.head()
    pq.write_table(pa.table({"by_page": ["/a", "/b"], "status": ["ok", "weak"], "count": [50.5, 21.5]}), file)
    assert (
        run(app, ["keys", "register", "children", "pages", str(file), "--column", "by_page", "--actor", "admin"]) == 0
    )
    assert ledger.head() != head
    by = [{"column": "page", "values": {"list": "pages"}}, {"column": "age", "edges": [0, 18]}]
    filled = with_references({**aggregates(by), "budget": {"epsilon": "1"}}, ledger)
    assert ReleaseRequest.parse(filled).diagnostics[0].statistic.by[0].labels == ("/a", "/b", "other")


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".json"])
def test_a_charged_request_reads_no_file(ledger: PrivacyLedger, tmp_path: Path, suffix: str) -> None:
    """The keys of another table's folder were published by its name: only the request's own table was compared."""
    file = tmp_path / f"secret{suffix}"
    file.write_text("name\nsecret-4711\n")
    head = ledger.head()
    for groups in ({"path": str(file), "column": "name"}, str(file), {"path": f"file://{file}"}):
        with pytest.raises(InvalidRequest) as refused:
            with_references(fields(groups), ledger)
        assert "must be a list of keys or {'list': NAME}: a charged request reads no file" in str(refused.value)
        assert "4711" not in str(refused.value)
    assert ledger.head() == head


def test_an_administrator_registers_a_file(
    ledger: PrivacyLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DP_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.db'}")
    file = tmp_path / "tracts.csv"
    file.write_text("tract,name\n001,Ash\n002,Birch\n")
    command = ["keys", "register", "children", "tracts", str(file), "--column", "tract", "--actor", "admin"]
    assert run(app, command) == 0
    listed = ledger.key_list("children", "tracts")
    assert (listed.keys, listed.registered_by) == (("001", "002"), "admin")
    assert capsys.readouterr().out == f"list tracts of account children has 2 keys, sha256 {listed.sha256}\n"
    assert run(app, command) == 0, "the same list again"
    assert run(app, ["keys", "list", "children"]) == run(app, ["keys", "show", "children", "tracts"]) == 0
    assert capsys.readouterr().out.endswith("registered by admin\n001\n002\n")
    file.write_text("tract\n003\n")
    head = ledger.head()
    assert run(app, command) == 2
    assert "register these keys under another name" in capsys.readouterr().err
    assert ledger.head() == head
