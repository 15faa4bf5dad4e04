"""The operator with residual plots and private lines: from a DAG's parameters to the release, with the real Spark."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.release import Release
from tests.support.accounts import open_bound
from tests.support.airflow import make_context

KEYS = [f"{place:03d}" for place in range(30)]
RESIDUALS = {"kind": "residual_plot", "outcome": "wage", "unit": "0.125"}
MODEL = {"kind": "linear", "basis": "public", "intercept": 1.0, "coefficients": {"age": 0.5}}
SCHEMA = pa.schema({"age": pa.float64(), "wage": pa.float64(), "tract": pa.string()})
NASTY = [(math.nan, 1.0), (1.0, None), (math.inf, -math.inf), (-1e300, 1e300), (None, None), (5e-324, -0.0)]


def lines() -> dict[str, Any]:
    return {
        "kind": "linear_regression",
        "x": "age",
        "y": "wage",
        "x_bounds": [0, "{{ params.oldest }}"],
        "y_bounds": [0, 4],
        "group_by": "tract",
        "groups": {"list": "tracts"},
    }


def operator(folder: Path, table: str, **changes: Any) -> ReleaseDiagnosticsOperator:
    given = {
        "account": table,
        "table": {"path": str(folder / table), "snapshot": {"path_version": "v1"}},
        "diagnostics": [RESIDUALS, lines()],
        "model": MODEL,
        "epsilon": "2",
        "output": str(folder / "releases" / table),
        "master": "local[2]",
        "private_dir": str(folder / "private"),
    }
    return ReleaseDiagnosticsOperator(task_id=f"release_{table}", **{**given, **changes})


def rendered(task: ReleaseDiagnosticsOperator) -> dict[str, Any]:
    context = make_context(task_id=task.task_id, oldest="2")
    task.render_template_fields(context)
    return context


def good_rows() -> pd.DataFrame:
    generator = np.random.default_rng(8)
    age = generator.random(3000) * 2
    wage = 1 + 0.5 * age + generator.normal(0, 0.2, 3000)
    return pd.DataFrame({"age": age, "wage": wage, "tract": generator.choice([*KEYS, "elsewhere"], 3000)})


def nasty_rows() -> pd.DataFrame:
    rows = [(age, wage, tract) for age, wage in NASTY for tract in (KEYS[0], None, "elsewhere")]
    return pd.DataFrame(rows, columns=["age", "wage", "tract"])


def test_groups_of_a_registered_list_are_part_of_the_request_and_its_hash(
    tmp_path: Path, airflow_ledger: PrivacyLedger
) -> None:
    open_bound(
        airflow_ledger, "children", epsilon=3, table=tmp_path / "children", output=tmp_path / "releases" / "children"
    )
    airflow_ledger.register_keys("children", "tracts", KEYS, actor="admin")
    airflow_ledger.register_keys("children", "fewer", KEYS[:9], actor="admin")
    task = operator(tmp_path, "children", diagnostics=[lines()], model=None)
    context = rendered(task)
    request = task._on_terms(task.request, airflow_ledger, "key", context).request
    assert request.to_dict()["diagnostics"][0]["groups"] == KEYS
    assert request.to_dict()["diagnostics"][0]["x_bounds"] == [0.0, 2.0]
    task.request["diagnostics"][0]["groups"] = {"list": "fewer"}
    fewer = task._on_terms(task.request, airflow_ledger, "another key", context).request
    assert fewer.sha256 != request.sha256


def test_a_dag_that_names_a_file_of_keys_is_refused(tmp_path: Path, airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("children", epsilon=3, tables=[str(tmp_path / "children")])
    (tmp_path / "tracts.csv").write_text("tract\n4711\n")
    named = {**lines(), "groups": {"path": str(tmp_path / "tracts.csv")}}
    task, head = operator(tmp_path, "children", diagnostics=[named], model=None), airflow_ledger.head()
    with pytest.raises(AirflowFailException, match="a charged request reads no file") as failed:
        task.execute(rendered(task))
    assert "4711" not in str(failed.value)
    assert airflow_ledger.head() == head


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.usefixtures("shared_java")
def test_good_bad_and_no_rows_are_released_in_the_same_form(tmp_path: Path, airflow_ledger: PrivacyLedger) -> None:
    forms = []
    for table, rows in {"good": good_rows(), "nasty": nasty_rows(), "empty": good_rows().head(0)}.items():
        (tmp_path / table / "v1").mkdir(parents=True)
        rows.to_parquet(tmp_path / table / "v1" / "part-0.parquet", schema=SCHEMA)
        open_bound(airflow_ledger, table, epsilon=3, table=tmp_path / table, output=tmp_path / "releases" / table)
        airflow_ledger.register_keys(table, "tracts", KEYS, actor="admin")
        task = operator(tmp_path, table)
        told = task.execute(rendered(task))
        assert set(told) == {"uri", "key", "cost", "status", "figures"}
        [charge] = airflow_ledger.history(table)
        assert (charge.state, charge.cost.epsilon) == (ChargeState.COMMITTED, 2)
        json.loads((Path(told["uri"]) / "release.json").read_bytes(), parse_constant=pytest.fail)
        release = Release.from_json((Path(told["uri"]) / "release.json").read_bytes())
        forms.append(form(release, Path(told["uri"])))
    assert forms[0] == forms[1] == forms[2]
    assert forms[0]["groups"] == KEYS


def form(release: Release, folder: Path) -> dict[str, Any]:
    """What of a release must be the same whatever its rows were."""
    lines, plot = release.results["linear_regression"], release.results["residual_plot"]
    return {
        "files": sorted(path.name for path in folder.iterdir() if path.is_file()),
        "rules": release.rules,
        "assumptions": release.assumptions,
        "cost": release.cost,
        # how a plot shares its cost out follows its noisy number of rows
        "parts": [(part.kinds, part.cost, [spending.label for spending in part.spendings]) for part in release.parts],
        "groups": lines["keys"],
        "lines": {name: np.shape(value) for name, value in lines.items() if name != "keys"},
        "plot": sorted(plot),
    }
