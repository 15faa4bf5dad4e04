"""Tables as programs write them and words as authors write them, through one DAG whose templates would change types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.release import Release
from tests.support.airflow import run_dag, states
from tests.support.file_cases import CASES, COLUMNS, ROWS, SECRET, FileCase, request_of
from tests.test_file_cases import require_right

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(2400)]

KEYS = ("2024_01", "0x1F")
"""Keys that a template engine reads as numbers."""


def opened(ledger: str, home: Path, account: str, case: FileCase, version: str = "v1") -> None:
    """An account of a table whose files are written after it was opened."""
    forms = [word for form in case.file_form for word in ("--file-form", form)]
    described = ["--columns", case.columns, "--format", case.form, *forms, "--ledger", ledger, "--yes"]
    places = ["--table", f"{home}/{account}", "--output", f"{home}/releases/{account}"]
    assert run(app, ["open", account, "--epsilon", "100", *places, *described]) == 0
    (home / account / version).mkdir(parents=True)
    case.write(home / account / version)


def task(account: str, request: Any) -> ReleaseDiagnosticsOperator:
    return ReleaseDiagnosticsOperator(
        task_id=re.sub(r"\W", "_", account), request=request, master="local[2]", on_exhausted="fail"
    )


def release_of(home: Path, account: str) -> Release:
    [manifest] = (home / "releases" / account).glob("*/release.json")
    return Release.from_json(manifest.read_bytes())


@pytest.mark.usefixtures("airflow_database", "shared_java")
def test_each_case_has_its_outcome(
    airflow_ledger: PrivacyLedger, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    accounts = {name.replace(" ", "-"): case for name, case in CASES.items()}
    for account, case in accounts.items():
        opened(ledger, tmp_path, account, case)
    unknown = accounts.pop("20-kind")  # whatever its account says: an import error
    with pytest.raises(InvalidRequest, match="did you mean 'roc_curve'"):
        task("20-kind", request_of("20-kind", unknown))
    grouped = FileCase(write=_grouped, columns=f"{COLUMNS}, region string")
    opened(ledger, tmp_path, "18-native", grouped, "20240131")
    opened(ledger, tmp_path, "17-yaml", grouped)
    by_region = {"kind": "by_group", "group_by": "region", "kinds": ["auc"]}
    (tmp_path / "17.yaml").write_text(
        yaml.safe_dump({**request_of("17-yaml", grouped), "diagnostics": []}).replace(
            "diagnostics: []", "diagnostics: [{kind: by_group, group_by: region, kinds: [auc], groups: [01067, 02139]}]"
        )
    )
    with DAG(
        "file_cases", schedule=None, render_template_as_native_obj=True,
        params={"version": "20240131", "first": KEYS[0], "second": KEYS[1], "title": "2024"},
    ) as dag:  # fmt: skip
        for account, case in accounts.items():
            task(account, request_of(account, case))
        native = {
            "title": "{{ params.title }}",
            "table": {"snapshot": {"path_version": "{{ params.version }}"}},
            "diagnostics": [{**by_region, "groups": ["{{ params.first }}", "{{ params.second }}"]}],
        }
        task("18-native", {**request_of("18-native", grouped), **native})
        task("17-yaml", str(tmp_path / "17.yaml"))
    outcomes = states(run_dag(dag))
    log = "".join(capfd.readouterr())
    assert SECRET not in log
    told = {account: case.told for account, case in accounts.items()} | {"18-native": "", "17-yaml": "number 1067"}
    assert outcomes == {
        re.sub(r"\W", "_", account): "failed" if line else "success" for account, line in told.items()
    }, log[-20_000:]
    for account, line in told.items():
        assert line in log, line
        assert [charge.state for charge in airflow_ledger.history(account)] == [ChargeState.COMMITTED] * (not line)
    for account, case in accounts.items():
        if not case.told:
            require_right(release_of(tmp_path, account), case)
    release = release_of(tmp_path, "18-native")
    assert release.request["diagnostics"][0]["groups"] == list(KEYS)
    snapshot = release.request["table"]["snapshot"]
    assert (release.request["title"], snapshot["path_version"]) == ("2024", "20240131")
    assert release.results["by_group"]["positives"] == pytest.approx([30, 30, 0], abs=3)  # and no row of another key


def _grouped(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tests.support.file_cases import frame

    pq.write_table(pa.Table.from_pandas(frame().assign(region=list(KEYS) * (ROWS // 2))), folder / "part.parquet")
