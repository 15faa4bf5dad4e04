"""Tables in S3: Spark's connector is looked for before anything is charged."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_operators.releasing import LocalRunner
from dp_operators.releasing.clusters import YarnCluster
from dp_operators.releasing.connectors import (
    hadoop_version,
    missing_connector,
    require_connector,
    spark_defaults,
    spark_home,
)
from spark_jobs.contract.errors import InvalidRequest
from tests.support.release_lab import make_request


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Spark as PyPI has it: without the connector."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "hadoop-client-api-3.5.0.jar").touch()
    return tmp_path / "spark"


def test_pyspark_comes_without_the_connector() -> None:
    """If this fails, PySpark has learnt to read S3 by itself: say so in the documentation."""
    home = spark_home({})
    assert home is not None
    assert hadoop_version(home)
    assert "hadoop-aws-" in missing_connector(settings={}, home=home)


@pytest.mark.parametrize("path", ["s3://lake/churn", "s3a://lake/churn"])
def test_missing_connector_is_named_with_where_it_was_looked_for_and_what_to_do(home: Path, path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        require_connector(path, settings={}, home=home)
    line = str(refused.value)
    assert line.startswith(f"table.path: got '{path}'")
    assert f"hadoop-aws-3.5.0.jar is neither in {home}/jars nor in spark.jars or spark.jars.packages" in line
    assert "put org.apache.hadoop:hadoop-aws:3.5.0 into spark.jars.packages" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"},
        {"spark.jars": "/opt/jars/hadoop-aws-3.5.0.jar,/opt/jars/bundle-2.35.4.jar"},
        {"spark.driver.extraClassPath": "/opt/jars/*"},
        {"spark.hadoop.fs.s3a.impl": "org.apache.hadoop.fs.RawLocalFileSystem"},
    ],
)
def test_connector_that_the_settings_bring_is_enough(home: Path, settings: dict[str, str]) -> None:
    require_connector("s3://lake/churn", settings=settings, home=home)


def test_connector_among_sparks_jars_has_to_be_of_its_hadoops_version(home: Path) -> None:
    (home / "jars" / "hadoop-aws-3.4.1.jar").touch()
    with pytest.raises(InvalidRequest, match=r"hadoop-aws-3\.4\.1\.jar in .* does not match Spark's"):
        require_connector("s3://lake/churn", settings={}, home=home)
    (home / "jars" / "hadoop-aws-3.5.0.jar").touch()
    require_connector("s3://lake/churn", settings={}, home=home)


@pytest.mark.parametrize("path", ["/lake/churn", "file:///lake/churn", "hdfs://name/lake", None])
def test_other_tables_need_none(home: Path, path: str | None) -> None:
    require_connector(path, settings={}, home=home)


def test_driver_that_runs_elsewhere_is_not_judged() -> None:
    require_connector("s3://lake/churn", settings={}, home=None)
    assert YarnCluster(resource_manager="rm:8088")._spark_home() is None


def test_settings_of_the_machine_are_read_as_spark_reads_them(home: Path, tmp_path: Path) -> None:
    text = "# jars\nspark.jars.packages   org.apache.hadoop:hadoop-aws:3.5.0\nspark.ui.enabled=false\n\nlonely\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    found = spark_defaults(home, {"SPARK_CONF_DIR": str(tmp_path)})
    assert found == {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0", "spark.ui.enabled": "false"}
    assert spark_defaults(home, {}) == {}


def test_sparks_folder_is_the_named_one_or_the_binarys_or_pysparks(home: Path) -> None:
    import pyspark

    assert spark_home({"SPARK_HOME": "/opt/spark"}) == Path("/opt/spark")
    assert spark_home({}, binary=str(home / "bin" / "spark-submit")) == home
    assert spark_home({}, binary="/usr/bin/true") == Path(pyspark.__file__).parent


def test_local_runner_takes_the_settings_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = make_request("/releases", table={"path": "s3://lake/churn", "snapshot": {"path_version": "v1"}})
    runner = LocalRunner(private_dir=tmp_path / "private")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with pytest.raises(InvalidRequest, match=r"^table\.path: "):
        runner.check(request)
    (tmp_path / "spark-defaults.conf").write_text("spark.jars.packages org.apache.hadoop:hadoop-aws:3.5.0\n")
    runner.check(request)
