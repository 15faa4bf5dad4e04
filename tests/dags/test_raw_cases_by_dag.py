"""Values as people have them, through a DAG: intervals hold the figures of the rows, a wrong word is refused unpaid."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import DAG

from dp_operators.budget import PrivacyLedger
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.releasing import ReleaseKey
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.layout import release_folder
from tests.support import raw_cases
from tests.support.accounts import open_bound
from tests.support.airflow import run_dag, states
from tests.support.raw_cases import EPSILON, QUESTIONS

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

TASKS = {name.replace(" ", "_"): name for name in QUESTIONS}


@pytest.mark.usefixtures("airflow_database", "shared_java")
def test_a_dag_holds_the_figures_of_rows_and_refuses_a_word_that_no_row_holds(
    airflow_ledger: PrivacyLedger, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = raw_cases.raw_table()
    table, output = raw_cases.write_rows(tmp_path / "visits", rows), str(tmp_path / "releases")
    open_bound(
        airflow_ledger, "visits", table=table, output=output, columns=raw_cases.COLUMNS, epsilon=EPSILON * len(TASKS)
    )
    common = {
        "account": "visits", "table": {"path": table, "snapshot": {"path_version": "v1"}}, "epsilon": str(EPSILON),
        "output": output, "private_dir": str(tmp_path / "private"), "master": "local[1]",
    }  # fmt: skip
    with DAG("raw_cases", schedule=None) as dag:
        for task, name in TASKS.items():
            ReleaseDiagnosticsOperator(task_id=task, **common, **raw_cases.request_of(QUESTIONS[name]))
        asked = {**raw_cases.request_of(QUESTIONS["tiny"]), "label": raw_cases.WRONG_LABEL}
        ReleaseDiagnosticsOperator(task_id="wrong_word", **common, **asked)
    ended = states(run_dag(dag))
    assert ended == {**dict.fromkeys(TASKS, "success"), "wrong_word": "failed"}
    assert "did you mean 'yes'?" in "".join(capfd.readouterr())
    charges = {ReleaseKey.parse(one.release).task_id: one.release for one in airflow_ledger.history("visits")}
    assert set(charges) == set(TASKS)
    for task, name in TASKS.items():
        release = Release.from_json((Path(release_folder(output, charges[task])) / "release.json").read_bytes())
        for question in QUESTIONS[name]:
            question.check(release.results[question.entry["kind"]], rows)
