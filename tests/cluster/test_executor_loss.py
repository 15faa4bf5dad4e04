"""An executor that is killed during the pass over the table does not change a bit of the statistics."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cluster.test_release import executors_of
from tests.support.cluster import LOOPBACK, SparkCluster, spark_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.soak]

ROOT = Path(__file__).parents[2]
FILES, ROWS_OF_FILE, GROUPS = 48, 50_000, 1000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with two versions: many files, and one file that has the same rows in the opposite order."""
    folder, generator, size = tmp_path_factory.mktemp("lake") / "sites", np.random.default_rng(7), FILES * ROWS_OF_FILE
    x = generator.random(size)
    columns = {
        "site": generator.integers(0, GROUPS + 10, size),
        "x": x,
        "y": x / 2 + generator.random(size) / 2,
        "label": (generator.random(size) < x).astype(np.int64),
    }
    for version in ("many", "one"):
        (folder / version).mkdir(parents=True)
    rows = pa.table(columns)
    for part in range(FILES):
        pq.write_table(rows.slice(part * ROWS_OF_FILE, ROWS_OF_FILE), folder / "many" / f"part-{part}.parquet")
    pq.write_table(pa.table({name: values[::-1] for name, values in columns.items()}), folder / "one" / "part.parquet")
    return folder


def start(cluster: SparkCluster, folder: Path, table: Path, version: str) -> subprocess.Popen[str]:
    """A driver that counts cells of scores and adds up sums per group on the cluster."""
    lines = {"kind": "linear_regression", "x": "x", "y": "y", "x_bounds": [0, 1], "y_bounds": [0, 1]}
    request = {
        "table": {"path": str(table), "snapshot": {"path_version": version}},
        "label": "label",
        "model": {"kind": "columns", "score": "x", "basis": "public"},
        "diagnostics": ["roc_curve", {**lines, "group_by": "site", "groups": list(range(GROUPS))}],
        "budget": {"epsilon": "1"},
    }
    document = folder / f"{version}.json"
    document.write_text(json.dumps(request))
    settings = {
        "spark.driver.host": LOOPBACK,
        "spark.executor.memory": "512m",
        "spark.sql.files.maxPartitionBytes": "2m",
        "spark.sql.files.openCostInBytes": "2m",
    }
    arguments = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.counted_sums", str(document), cluster.master],
        env={**kept, **cluster.environment(), "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_the_statistics_are_the_same_when_an_executor_is_killed_meanwhile(table: Path, tmp_path: Path) -> None:
    with spark_cluster(tmp_path / "cluster", workers=2) as cluster:
        with start(cluster, tmp_path, table, "many") as driver:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "running\n"
            (executor,) = executors_of(cluster)
            executor.send_signal(signal.SIGKILL)
            disturbed = driver.stdout.read().split()
        launched = cluster.logs["worker-0"].read_text().count("Asked to launch executor")
        with start(cluster, tmp_path, table, "one") as driver:
            undisturbed, _ = driver.communicate()
    assert launched == 2, "the executor was killed when the pass had ended"
    assert len(disturbed) == 1
    assert disturbed[0] == undisturbed.split()[-1]
    assert disturbed[0] != hashlib.sha256().hexdigest(), "no array was hashed"
