"""Tables of every format through the ledger, the protocol and the real application: released, or refused for nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dp_operators.release_check import check_release
from dp_operators.releasing import LocalRunner, Published
from spark_jobs.contract import InvalidRequest, Release
from tests.support.release_lab import Lab, make_request

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

PERSON = "struct<id:string,address:struct<city:string>>"
COLUMNS = {"visit": "int", "score": "double", "person": PERSON}
REQUEST: dict[str, Any] = {
    "diagnostics": [{"kind": "ecdf", "column": "score", "bounds": [0, 1]}],
    "where": "person.address.city <> 'Oslo'",
    "unit": {"column": "person.id"},
    "label": None,
    "model": None,
}


@pytest.fixture(autouse=True)
def salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0123456789abcdef" * 2)


def people() -> list[dict[str, Any]]:
    cities = ("Rome", "Oslo", "Bern")
    return [
        {"visit": i % 2, "score": i % 100 / 100, "person": {"id": f"p{i % 400}", "address": {"city": cities[i % 3]}}}
        for i in range(1200)
    ]


def write_json(lab: Lab, *, version: str = "v1") -> str:
    table = Path(lab.folder).resolve() / "people-json"
    (table / version).mkdir(parents=True)
    lines = [json.dumps(row) for row in people()] + ["{damaged", "", '{"score": "far"}']
    (table / version / "a.json").write_text("\n".join(lines))
    return str(table)


def open_account(lab: Lab, table: str, **settings: Any) -> None:
    lab.output = lab.open_account("visits", table, epsilon=100, unit=make_unit(), **settings)


def make_unit() -> Any:
    from spark_jobs.contract import PrivacyUnit

    return PrivacyUnit(column="person.id")


def attempt(lab: Lab, table: dict[str, Any], *, runner: Any = None, **changes: Any) -> Published:
    request = make_request(lab.output, account="visits", table=table, **{**REQUEST, **changes})
    runner = runner or LocalRunner(master="local[2]", private_dir=Path(lab.output).parent / "private")
    return lab.release(request=request, runner=runner, check=check_release)


def test_a_table_of_json_lines_is_released_for_units_that_are_named_by_a_path(lab: Lab) -> None:
    table = write_json(lab)
    open_account(lab, table, columns=COLUMNS, form="json")
    published = attempt(lab, {"path": table, "snapshot": {"path_version": "v1"}}, budget={"epsilon": 50})
    release = Release.from_json((Path(published.uri) / "release.json").read_bytes())
    # 400 people, each with a row outside Oslo, of whom one row counts; damaged lines name nobody
    assert release.results["ecdf"]["rows"] == pytest.approx(400, abs=3)
    assert any(line.startswith("Each line of a JSON file is a row.") for line in release.rules)
    [charge] = lab.ledger().history("visits")
    assert charge.state == "committed"


@pytest.mark.parametrize(
    ("snapshot", "change", "line"),
    [
        ("v2", "", "must be a table that exists"),
        ("v1", "emptied", "must be a table that exists"),
        ("v1", "only a marker", "must be a table with files in it"),
        ("v1", "links", "must be a folder without symbolic links in it"),
    ],
)
def test_a_table_that_is_not_as_it_was_is_refused_for_nothing(lab: Lab, snapshot: str, change: str, line: str) -> None:
    table = write_json(lab)
    open_account(lab, table, columns=COLUMNS, form="json")
    file = Path(table) / "v1" / "a.json"
    if change:
        file.rename(Path(table).parent / "moved.json")
    if change == "only a marker":
        (file.parent / "_SUCCESS").touch()
    if change == "links":
        file.symlink_to(Path(table).parent / "moved.json")
    # what a worker can see of its own machine is refused before the reservation
    states = ("void",) if change in ("only a marker", "links") else ()
    refused_for_nothing(lab, {"path": table, "snapshot": {"path_version": snapshot}}, line, states=states)


def refused_for_nothing(lab: Lab, table: dict[str, Any], line: str, *, states: tuple[str, ...] = ("void",)) -> None:
    """Refused in one line, with nothing spent; a request that cannot be right is not even reserved."""
    with pytest.raises(InvalidRequest) as refused:
        attempt(lab, table)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
    ledger = lab.ledger()
    assert tuple(charge.state for charge in ledger.history("visits")) == states
    assert ledger.remaining("visits").epsilon == 100
