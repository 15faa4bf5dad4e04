"""``max_rows: auto`` by the operator: a choice and a table for one task, however often it is repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.operators import AggregatesOperator
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import PrivacyUnit
from tests.support.accounts import open_bound
from tests.support.airflow import make_context

UNIT = {"column": "person", "max_rows": 40}
TABLE = "file:///lake/visits"


def operator(output: Path, **fields: Any) -> AggregatesOperator:
    given = {
        "task_id": "counts",
        "account": "people",
        "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
        "by": [{"column": "region", "values": ["north", "south"]}],
        "unit": UNIT,
        "epsilon": "1",
        "output": str(output),
        "max_rows": "auto",
    }
    return AggregatesOperator(**{**given, **fields})


@pytest.fixture
def ledger(airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
    unit = PrivacyUnit(**UNIT)
    open_bound(airflow_ledger, "people", epsilon="3", table=TABLE, output=tmp_path / "releases", unit=unit)
    return airflow_ledger


@pytest.mark.slow
@pytest.mark.usefixtures("fake_application")
def test_a_task_makes_one_choice_and_one_table(ledger: PrivacyLedger, tmp_path: Path) -> None:
    output = tmp_path / "releases"
    done = operator(output).execute(make_context(task_id="counts"))
    assert operator(output).execute(make_context(task_id="counts")) == done
    keys = {charge.release: str(charge.cost.epsilon) for charge in ledger.history("people")}
    assert keys == {f"{done['key']}/max_rows": "0.45", done["key"]: "0.55"}
    used = json.loads(Path(done["uri"], "release.json").read_text())["request"]["diagnostics"][0]["max_rows"]
    named = operator(output, max_rows={"release": used["release"]}, epsilon="0.5", task_id="later")
    later = named.execute(make_context(task_id="later"))
    assert json.loads(Path(later["uri"], "release.json").read_text())["request"]["diagnostics"][0]["max_rows"] == used
    assert len(ledger.history("people")) == 3


def test_constants_are_checked_when_the_dag_is_parsed(tmp_path: Path) -> None:
    assert operator(tmp_path, max_rows="{{ params.rows }}").request["diagnostics"][0]["max_rows"] == "{{ params.rows }}"
    for wrong, line in [({"max_rows_limit": 0}, "max_rows_limit: got 0"), ({"unit": {}}, "every row is a unit")]:
        with pytest.raises(InvalidRequest, match=line):
            operator(tmp_path, **wrong)
