"""The example DAGs parse fast, import little, and say what a DAG of one's own would say."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

DAGS = Path(__file__).parents[2] / "dags"
FILES = sorted(DAGS.glob("*.py"))
HEAVY = (
    "pyspark",
    "opendp",
    "great_expectations",
    "numpy",
    "pandas",
    "scipy",
    "pyarrow",
    "statsmodels",
    "dp_operators.budget",
)


def test_there_are_example_dags() -> None:
    stems = ["federated_server", "federated_silo", "fit_then_diagnose"]
    stems += ["private_count_stream", "release_by_day", "release_diagnostics"]
    assert [file.stem for file in FILES] == stems


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_dags_import_airflow_the_provider_and_the_demo_alone(file: Path) -> None:
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            rooms |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            rooms.add(str(node.module).split(".")[0])
    assert rooms <= {"airflow", "dp_operators", "examples"}


PARSE = """
import json, sys, time
import airflow.sdk
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator, BaseHook, task, timezone
before, start = set(sys.modules), time.perf_counter()
import importlib.util
spec = importlib.util.spec_from_file_location("example", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(json.dumps({"seconds": time.perf_counter() - start, "modules": sorted(set(sys.modules) - before)}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [file if file.stem == "release_diagnostics" else pytest.param(file, marks=pytest.mark.verify) for file in FILES],
    ids=lambda file: file.stem,
)
def test_parsing_imports_nothing_heavy(file: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PARSE, str(file)], capture_output=True, text=True, check=True)
    parsed = json.loads(done.stdout.splitlines()[-1])
    operators = {f"dp_operators.operators.{name}" for name in ("release", "count_stream", "federation_server")}
    assert operators & set(parsed["modules"])
    heavy = [name for name in parsed["modules"] if name.startswith(HEAVY)]
    assert heavy == []


def test_release_dag_is_as_the_demo_says() -> None:
    from tests.support.dag_bags import DagBag

    bag = DagBag(dag_folder=str(DAGS))
    assert bag.import_errors == {}
    dag = bag.dags["release_diagnostics"]
    order = ["prepare", "budget_for_first", "release_first", "budget_for_second", "release_second"]
    assert [task.task_id for task in dag.topological_sort()] == order
    assert not dag.catchup
    assert dag.timetable.can_be_scheduled
    assert "person-year" in str(dag.doc_md)
    for release in ("release_first", "release_second"):
        [sensor] = dag.task_dict[release].upstream_list
        assert sensor.release_task_id == release
        assert sensor.on_exhausted == "skip"


def test_fit_dag_hands_the_model_on_and_one_account_pays() -> None:
    from tests.support.dag_bags import DagBag

    dag = DagBag(dag_folder=str(DAGS)).dags["fit_then_diagnose"]
    order = ["prepare", "budget_for_fit", "fit", "budget_for_diagnostics", "diagnose"]
    assert [task.task_id for task in dag.topological_sort()] == order
    fit, diagnose = dag.task_dict["fit"].request, dag.task_dict["diagnose"].request
    assert "model" not in fit
    assert diagnose["model"].operator.task_id == "fit"
    assert fit["account"] == diagnose["account"]
    assert fit["table"] == diagnose["table"]
