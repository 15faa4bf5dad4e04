"""README's commands and its DAG, as printed, in order: on an empty machine but for what ``pip install`` brings.

The folders ``/lake`` and ``/srv/dp`` lie below the test's own folder, and S3 is a server on loopback.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from spark_jobs.contract.release import Release
from tests.support.code_blocks import code_blocks
from tests.support.repository import ROOT, setup_cfg
from tests.support.s3_server import S3, s3_server

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(1800)]

RUN = """
import datetime as dt, os, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.utils.db import initdb

initdb()
bag = DagBag(dag_folder=sys.argv[1])
assert not bag.import_errors, bag.import_errors
[dag] = bag.dags.values()
today = dt.datetime.now(dt.UTC)
midnight = today.replace(hour=0, minute=0, second=0, microsecond=0)
runs = [dag.test(run_after=today, logical_date=None), dag.test(run_after=midnight, logical_date=midnight)]
for run in runs:
    print("RUN", run.state, run.logical_date, flush=True)
"""


@pytest.fixture(scope="module")
def blocks() -> dict[str, str]:
    """README's commands of the section with the DAG, and the DAG."""
    text = (ROOT / "README.md").read_text()
    found = [block for block in code_blocks(ROOT / "README.md") if block.code in text.partition("## In your DAG")[2]]
    return {block.language: block.code for block in found}


@pytest.fixture
def store() -> Iterator[S3]:
    with s3_server() as server:
        yield server


def test_installation_names_extras_that_there_are(blocks: dict[str, str]) -> None:
    [line] = [line for line in blocks["bash"].splitlines() if line.startswith("pip install")]
    both, alone = (part.partition("]")[0].split(",") for part in line.split("./spark_jobs[")[1:])
    assert (both, alone) == (["spark", "embedded", "s3", "java"], ["local", "s3"])
    assert {*both, *alone} <= set(setup_cfg("spark_jobs")["options.extras_require"])


ENGINES = {
    "embedded": {"JAVA_HOME": "/no/java"},
    "spark": {"DP_DIAGNOSTICS_MASTER": "local[2]"},
}
"""Variables by which one of the engines counts; a named Java that is missing is refused once one is needed."""


@pytest.mark.parametrize("engine", ENGINES)
def test_commands_and_dag_work_in_order(blocks: dict[str, str], store: S3, tmp_path: Path, engine: str) -> None:
    import datetime as dt

    here = [("/lake/", f"{tmp_path}/lake/"), ("/srv/dp/", f"{tmp_path}/dp/")]

    def placed(text: str) -> str:
        for printed, real in here:
            text = text.replace(printed, real)
        return text

    (tmp_path / "dp").mkdir()
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "churn.py").write_text(placed(blocks["python"]))
    (tmp_path / "run.py").write_text(RUN)
    version = tmp_path / "lake" / "churn" / f"{dt.datetime.now(dt.UTC):%Y-%m-%d}"
    version.mkdir(parents=True)
    pq.write_table(churn(2000), version / "part-0.parquet")

    commands = placed("".join(line for line in blocks["bash"].splitlines(True) if not line.startswith("pip ")))
    assert commands.count("dp-budget") >= 3
    script = f"set -e\n{commands}\necho DOCTOR IS CONTENT\nexec python run.py {tmp_path}/dags\n"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
            "AWS_ENDPOINT_URL": store.url,
            "AWS_ACCESS_KEY_ID": "releases",
            "AWS_SECRET_ACCESS_KEY": "for tests on loopback alone",
            "AWS_DEFAULT_REGION": "us-east-1",
            "NO_PROXY": "127.0.0.1",
            **ENGINES[engine],
        },
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    said = done.stdout + done.stderr
    assert "DOCTOR IS CONTENT" in said, said
    assert done.returncode == 0, said[-6000:]
    states = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("RUN ")]
    assert states == ["success", "success"], said[-6000:]
    assert "RUN success None" in done.stdout  # without a logical date

    ledger = PrivacyLedger(f"sqlite:///{tmp_path}/dp/ledger.db")
    charges = ledger.history("customers")
    assert [charge.state for charge in charges] == [ChargeState.COMMITTED] * 2
    assert ledger.remaining("customers").epsilon == Decimal("1.8")
    manifests = [key for key in store.objects if key.endswith("/release.json") and "/_" not in key]
    assert len(manifests) == 2
    assert all(key.startswith("/releases/churn/") for key in manifests)
    released = [Release.from_json(store.objects[key]) for key in manifests]
    assert all(0.5 < one.results["roc_curve"]["auc"] < 1 for one in released)
    assert {"pysail" in one.versions for one in released} == {engine == "embedded"}


def churn(rows: int) -> pa.Table:
    """Customers, whether they left, and how likely a model held it to be."""
    chance = np.random.default_rng(5)
    propensity = chance.beta(2, 3, rows)
    churned = np.where(chance.random(rows) < propensity, "yes", "no")
    return pa.table({"customer": [f"c{i}" for i in range(rows)], "churned": churned, "propensity": propensity})
