"""Runners from what a DAG says: a Spark connection is read in full, or refused."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dp_operators.backends.kubernetes import KubernetesCluster
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.releasing import LocalRunner, SparkSubmitRunner
from dp_operators.releasing.backends import RunState
from dp_operators.releasing.clusters import StandaloneCluster, YarnCluster
from dp_operators.releasing.spark_connect import SparkConnectRunner
from dp_operators.releasing.submissions import Submission
from dp_operators.tasks.runners import check_runner, make_runner
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.salt import read_salt
from spark_jobs.contract.stream_keys import StreamKeys

Connect = Callable[..., None]


def make(kind: str = "spark_submit", **fields: Any) -> Any:
    return make_runner(
        kind, **{"master": None, "spark_conn_id": "spark_default", "conf": None, "private_dir": None, **fields}
    )


def test_local_runner_takes_its_master() -> None:
    assert make("local") == LocalRunner()
    assert make("local", master="local[2]", private_dir="/private") == LocalRunner(
        master="local[2]", private_dir="/private"
    )


def test_spark_connection_is_read(connect: Connect) -> None:
    extra = {
        "deploy-mode": "cluster",
        "spark-binary": "/opt/spark/bin/spark-submit",
        "namespace": "analytics",
        "queue": "",
        "conf": {"spark.executor.memory": "2g", "spark.executor.cores": 2},
    }
    connect("spark_default", conn_type="spark", host="k8s://https://cluster", port=6443, extra=extra)
    assert make(conf={"spark.executor.memory": "4g"}) == KubernetesCluster(
        master="k8s://https://cluster:6443",
        binary="/opt/spark/bin/spark-submit",
        conf={
            "spark.executor.memory": "4g",
            "spark.executor.cores": 2,
            "spark.kubernetes.namespace": "analytics",
        },
    )


def test_spark_connection_may_be_a_bare_master(connect: Connect) -> None:
    connect("cluster", conn_type="spark", host="yarn")
    assert make(spark_conn_id="cluster") == SparkSubmitRunner(master="yarn")


def test_cluster_mode_is_the_kind_of_its_master(connect: Connect) -> None:
    extra = {"deploy-mode": "cluster", "rest-port": 6067, "application": "/opt/launch.py"}
    connect("standalone", conn_type="spark", host="spark://one", port=7077, extra=extra)
    assert make(spark_conn_id="standalone") == StandaloneCluster(
        master="spark://one:7077", rest="http://one:6067", application="/opt/launch.py"
    )
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": "rm:8088", "principal": "me@EXAMPLE"}
    connect("yarn", conn_type="spark", host="yarn", extra=extra)
    assert make(spark_conn_id="yarn") == YarnCluster(
        resource_manager="rm:8088", kerberos=True, conf={"spark.kerberos.principal": "me@EXAMPLE"}
    )


@pytest.mark.parametrize(
    ("host", "mode", "line"),
    [
        ("local[2]", "cluster", "deploy_mode: got 'cluster, with master local[2]'; must be 'client' with this master"),
        ("yarn", "cluster", "deploy_mode: got 'cluster, with master yarn'; needs the extra yarn_resourcemanager_"),
        ("yarn", "neither", "deploy_mode: got 'neither'; must be 'client' or 'cluster'"),
    ],
)
def test_deploy_mode_that_a_master_lacks_is_refused(connect: Connect, host: str, mode: str, line: str) -> None:
    connect("spark_default", conn_type="spark", host=host, extra={"deploy-mode": mode})
    with pytest.raises(InvalidRequest) as refused:
        make()
    assert str(refused.value).startswith(line)


@pytest.mark.parametrize(
    ("host", "extra", "spare"),
    [
        ("spark://a", {"rest-port": 6067, "kubernetes-conn-id": "x"}, "kubernetes-conn-id, rest-port"),
        ("yarn", {"yarn_resourcemanager_webapp_address": "rm:8088"}, "yarn_resourcemanager_webapp_address"),
        ("spark://a", {"deploy-mode": "cluster", "spark-binary": "/opt/spark/bin/spark-submit"}, "spark-binary"),
        ("spark://a", {"deploy-mode": "cluster", "kubernetes-conn-id": "x"}, "kubernetes-conn-id"),
        ("k8s://https://a", {"deploy-mode": "cluster", "rest-scheme": "https"}, "rest-scheme"),
    ],
)
def test_extra_of_another_mode_or_master_is_refused(
    connect: Connect, host: str, extra: dict[str, Any], spare: str
) -> None:
    connect("spark_default", conn_type="spark", host=host, extra=extra)
    with pytest.raises(InvalidRequest) as refused:
        make()
    assert str(refused.value).startswith(f"spark_conn_id: got 'a connection with the extra {spare}'; may only have the")
    assert "\n" not in str(refused.value)


def test_what_the_form_fills_in_by_itself_may_stand_anywhere(connect: Connect) -> None:
    filled = {"deploy-mode": "cluster", "spark-binary": "spark-submit", "namespace": "", "queue": ""}
    connect("spark_default", conn_type="spark", host="spark://a", extra=filled)
    assert isinstance(make(), StandaloneCluster)


def test_script_of_a_driver_on_this_machine_is_taken(connect: Connect) -> None:
    connect("spark_default", conn_type="spark", host="spark://a", extra={"application": "/opt/launch.py"})
    assert make() == SparkSubmitRunner(master="spark://a", application="/opt/launch.py")


@pytest.mark.parametrize("mode", ["client", "cluster"])
@pytest.mark.parametrize("host", ["https://dbc-1.example.org", "mesos://a:5050", "dbc-1.example.org", "yarn-cluster"])
def test_host_that_is_no_master_is_refused(connect: Connect, host: str, mode: str) -> None:
    connect("spark_default", conn_type="spark", host=host, extra={"deploy-mode": mode})
    with pytest.raises(InvalidRequest) as refused:
        make()
    assert str(refused.value).startswith(
        f"connection spark_default: got '{host}'; must name a Spark master in its host"
    )


@pytest.mark.parametrize(
    "host", ["local", "local[*]", "local[2,3]", "local-cluster[2,1,1024]", "yarn", "spark://a,b:7077"]
)
def test_host_may_be_any_of_sparks_masters(connect: Connect, host: str) -> None:
    connect("spark_default", conn_type="spark", host=host)
    assert make() == SparkSubmitRunner(master=host)


def test_connect_connection_is_read_as_the_spark_provider_reads_it(connect: Connect) -> None:
    fields = {"conn_type": "spark_connect", "login": "airflow", "password": "a;token", "extra": {"use_ssl": True}}
    for host in ("sc://spark.example.org", "spark.example.org"):
        connect("spark_default", host=host, port=443, **fields)
        assert make("cluster") == SparkConnectRunner(
            remote="sc://spark.example.org:443/;user_id=airflow;token=a%3Btoken;use_ssl=True"
        )
    connect("spark_default", conn_type="spark_connect", host="localhost")
    assert make("cluster") == SparkConnectRunner(remote="sc://localhost:15002/")
    assert make("cluster").elsewhere is False


@pytest.mark.parametrize(
    ("fields", "conf", "line"),
    [
        (
            {"extra": {"deploy-mode": "cluster"}},
            {},
            "connection spark_default: must name a Spark Connect server in its",
        ),
        ({"host": "sc://a/;token=x"}, {}, "connection spark_default: must name a Spark Connect server in its host"),
        ({"host": ""}, {}, "connection spark_default: must name a Spark Connect server in its host"),
        ({}, {"spark.driver.memory": "1g"}, "conf: must be left out with a Spark Connect server, which has settings"),
        (
            {"conn_type": "spark", "host": "sc://a", "extra": {"deploy-mode": "cluster"}},
            {},
            "connection spark_default: got 'a Spark Connect server as the host'; must name a Spark master, because",
        ),
    ],
)
def test_connect_connection_that_cannot_be_used_is_refused_in_one_line(
    connect: Connect, fields: dict[str, Any], conf: dict[str, str], line: str
) -> None:
    connect("spark_default", **{"conn_type": "spark_connect", "host": "sc://a", **fields})
    with pytest.raises(InvalidRequest) as refused:
        make("cluster", conf=conf)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_missing_connection_is_refused_and_never_means_yarn() -> None:
    with pytest.raises(InvalidRequest, match="spark_conn_id: got 'spark_default'; must be a connection that exists"):
        make()


def test_connection_without_a_master_is_refused(connect: Connect) -> None:
    connect("spark_default", conn_type="spark", extra={"queue": "q"})
    with pytest.raises(InvalidRequest, match="connection spark_default: must name a Spark master in its host"):
        make()


def test_extra_that_would_be_ignored_is_refused(connect: Connect) -> None:
    connect("spark_default", conn_type="spark", host="yarn", extra={"deploy_mode": "cluster"})
    with pytest.raises(InvalidRequest, match="got 'the extra deploy_mode'; may only have the extras deploy-mode, "):
        make()


@pytest.mark.parametrize(
    ("kind", "fields", "line"),
    [
        ("yarn", {}, "runner: got 'yarn'; must be one of local, spark_submit, cluster"),
        ("spark_submit", {"master": "local[2]"}, "master: got 'local[2]'; is for the local runner"),
    ],
)
def test_options_of_the_other_runner_are_refused(kind: str, fields: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        make(kind, **fields)
    assert str(refused.value).startswith(line)


SALT = "a salt from a vault, long enough"


def test_secrets_of_connections_reach_only_a_driver_on_this_machine(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for option in ("SALT_CONN_ID", "STREAM_KEYS_CONN_ID"):
        monkeypatch.setenv(f"AIRFLOW__PRIVACY_DIAGNOSTICS__{option}", option.lower())
    connect("salt_conn_id", conn_type="generic", password=SALT)
    connect("stream_keys_conn_id", conn_type="generic", password=f"k2:{'ab' * 32} k1:{'cd' * 32}")
    connect("here", conn_type="spark", host="spark://master", port=7077)
    connect(
        "there",
        conn_type="spark",
        host="yarn",
        extra={"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": "rm:8088"},
    )

    def runner(**fields: Any) -> Any:
        return ReleaseDiagnosticsOperator(task_id="release", request="/r.json", **fields)._runner()

    for driver in (runner(), runner(runner="spark_submit", spark_conn_id="here")):
        assert read_salt(driver.inherited()) == SALT.encode()
        assert list(StreamKeys.read(driver.inherited()).keys) == ["k2", "k1"]
        assert SALT not in repr(driver)
    assert SALT not in str(runner(runner="spark_submit", spark_conn_id="there").inherited())
    # neither the command line nor what is kept of the process has it
    script = tmp_path / "driver.py"
    script.write_text("import os, sys; print(*sys.argv, os.environ['DP_DIAGNOSTICS_SALT'])")
    started = replace(runner(private_dir=str(tmp_path / "private")), command=(sys.executable, str(script)))
    handle = started.submit(
        Submission(
            request_uri="r", request_sha256="", charge_id="c", key="k", output="o", run=1, secret=b"x" * 32,
        )
    )  # fmt: skip
    while started.look(handle) is RunState.RUNNING:
        time.sleep(0.05)
    printed = Path(handle.log).read_text()
    assert printed.count(SALT) == 1
    assert printed.rstrip().endswith(SALT)
    assert SALT not in str(handle)


@pytest.mark.parametrize("fields", [None, {"conn_type": "generic"}])
def test_secret_that_is_not_there_is_refused_in_one_line(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str] | None
) -> None:
    monkeypatch.setenv("AIRFLOW__PRIVACY_DIAGNOSTICS__SALT_CONN_ID", "salt")
    if fields:
        connect("salt", **fields)
    with pytest.raises(InvalidRequest, match=r"salt_conn_id: got 'salt'; must be a connection whose password"):
        ReleaseDiagnosticsOperator(task_id="release", request="/r.json")._runner()


@pytest.mark.parametrize("runner", ["local", "spark_submit", "cluster", "{{ params.runner }}"])
def test_settings_of_an_administrator_are_refused_when_the_dag_is_parsed(runner: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^conf: got 'spark\.jars'; must be a setting of memory"):
        check_runner(runner, master=None, conf={"spark.driver.memory": "1g", "spark.jars": "/tmp/mine.jar"})
    check_runner(runner, master=None, conf={"spark.driver.memory": "{{ params.memory }}"})


@pytest.mark.parametrize("kind", ["local", "spark_submit", "cluster"])
def test_settings_of_an_administrator_are_refused_when_templates_are_known(connect: Connect, kind: str) -> None:
    connect("spark_default", conn_type="spark", host="yarn", extra={"conf": {"spark.jars": "/opt/ours.jar"}})
    with pytest.raises(InvalidRequest, match=r"^conf: got 'spark\.metrics"):
        make(kind, conf={"spark.metrics.conf.*.sink.csv.class": "x"})


@pytest.mark.parametrize("value", ["${env:AWS_SECRET_ACCESS_KEY}", "{{secrets/prod/key}}", "4g --jars x", "4g\n"])
def test_value_of_a_setting_stands_for_itself(value: str) -> None:
    """Spark and Databricks put secrets in the place of references, and a queue's name is on a cluster's pages."""
    with pytest.raises(InvalidRequest, match="^conf.spark.yarn.queue: got .*must be a plain value"):
        make("local", conf={"spark.yarn.queue": value})
    if "{{" not in value:
        with pytest.raises(InvalidRequest, match="must be a plain value"):
            check_runner("local", master=None, conf={"spark.yarn.queue": value})


@pytest.mark.parametrize("conf", ["spark.driver.memory=4g", ["spark.driver.memory"]])
def test_rendered_settings_must_be_a_dictionary(conf: Any) -> None:
    with pytest.raises(InvalidRequest, match="^conf: got '(str|list)'; must be a dictionary"):
        make("local", conf=conf)
