"""The operator that checks a release against suites, and suites of inputs in a DAG."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG

from dp_operators.operators.expectations import CheckReleaseOperator
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.errors import InvalidRequest

pytestmark = [pytest.mark.airflow]

SUITES = {"release.json": {"name": "mine", "expectations": []}}


@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        ('{"unmet": []}', None),
        (
            '{"unmet": ["release.json: expect_x(column=1)"]}',
            (AirflowFailException, "does not meet release.json: expect_x"),
        ),
        ('{"refused": "suites: must be"}', (AirflowFailException, "^suites: must be$")),
        ("", (AirflowException, r"failed; is dp-diagnostics\[spark,expectations\] here")),
    ],
)
def test_task_ends_as_the_checkpoint_did(
    answer: str, ends: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/asked\necho '{answer}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    operator = CheckReleaseOperator(task_id="check", release={"uri": "/releases/a"}, suites=SUITES)
    if ends is None:
        assert operator.execute({}) == "/releases/a"
    else:
        with pytest.raises(ends[0], match=ends[1]):
            operator.execute({})
    assert '"release": "/releases/a"' in (tmp_path / "asked").read_text()


def test_operator_without_a_suite_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="suites: must not be empty"):
        CheckReleaseOperator(task_id="check", release="/releases/a", suites={})


def test_input_expectation_of_rows_is_refused_when_the_dag_is_parsed() -> None:
    rows = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "score", "min_value": 0}}
    with (
        DAG("of_rows", schedule=None),
        pytest.raises(
            InvalidRequest, match=r"input_suite\.expectations\.0\.type: got 'expect_column_values_to_be_between'"
        ),
    ):
        ReleaseDiagnosticsOperator(
            task_id="release",
            account="{{ params.account }}",
            epsilon="1",
            diagnostics="roc_curve",
            table={"path": "/lake/visits", "snapshot": {"path_version": "{{ ds }}"}},
            output="/releases",
            input_suite={"name": "input", "expectations": [rows]},
        )
