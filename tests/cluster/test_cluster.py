"""A Spark standalone cluster of separate processes, set up as docker/compose.yaml sets it up."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.support.cluster import LOOPBACK, SparkCluster, kill_group, spark_cluster, wait_for, write_defaults

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SUM = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
total = spark.range(1000, numPartitions=2).selectExpr("sum(id)").first()[0]
print("total", total, "on", spark.sparkContext.master)
spark.stop()
"""


def submission(cluster: SparkCluster, job: Path) -> list[str]:
    settings = [f"spark.driver.host={LOOPBACK}", "spark.executor.memory=512m"]
    return ["spark-submit", "--master", cluster.master, *(f"--conf={setting}" for setting in settings), str(job)]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text(SUM)
    return path


def test_submitted_job_runs_on_the_workers(cluster: SparkCluster, job: Path) -> None:
    done = subprocess.run(
        submission(cluster, job), env=cluster.environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"total 499500 on {cluster.master}" in done.stdout
    assert "Asked to launch executor" in cluster.logs["worker-0"].read_text()


@pytest.mark.verify
def test_client_without_the_secret_is_turned_away(cluster: SparkCluster, job: Path, tmp_path: Path) -> None:
    before = cluster.logs["master"].read_text().count("Registered app")
    stranger = tmp_path / "conf"
    stranger.mkdir()
    write_defaults(stranger / "spark-defaults.conf", secret="0" * 64)
    said = tmp_path / "said"
    with said.open("wb") as output:
        client = subprocess.Popen(
            submission(cluster, job),
            env={**cluster.environment(), "SPARK_CONF_DIR": str(stranger)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for("Failed to connect to master", client, said)  # it would try again for a minute
    finally:
        kill_group(client)
    assert "total" not in said.read_text()
    assert cluster.logs["master"].read_text().count("Registered app") == before


def test_pages_that_the_health_checks_ask_answer_on_loopback_alone(cluster: SparkCluster) -> None:
    for name, page in cluster.pages.items():
        assert page.startswith("http://localhost:"), name
        with urllib.request.urlopen(f"{page}/json/", timeout=30) as answer:
            assert json.load(answer)


def test_daemons_ask_for_the_secret_and_take_no_jobs_from_anybody(cluster: SparkCluster) -> None:
    for name, log in cluster.logs.items():
        text = log.read_text()
        assert "authentication enabled" in text, name
        assert "StandaloneRestServer" not in text, f"{name} takes jobs from anybody"


@pytest.mark.verify
def test_daemons_end_with_the_test(tmp_path: Path) -> None:
    with spark_cluster(tmp_path / "short", workers=0) as running:
        groups = [daemon.pid for daemon in running.daemons.values()]
        assert all(processes_of(group) for group in groups)
    assert not any(processes_of(group) for group in groups)


def processes_of(group: int) -> list[str]:
    """Processes of a group that still run."""
    found = subprocess.run(["ps", "-eo", "pgid=,pid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in found.splitlines()]
    return [pid for pgid, pid, state in rows if int(pgid) == group and not state.startswith("Z")]
