"""From what a DAG and a connection say to the runner that starts the Spark application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from dp_operators.operators.constants import is_constant
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from dp_operators.releasing import Runner, SparkSubmitRunner

RUNNERS = ("local", "spark_submit")

OPTIONS = {"deploy-mode": "deploy_mode", "spark-binary": "binary"}
"""Extras of a Spark connection that are options of ``spark-submit``."""

SETTINGS = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
"""Extras of a Spark connection that are Spark settings by another name."""


def make_runner(
    kind: str, *, master: str | None, spark_conn_id: str, conf: Mapping[str, Any] | None, private_dir: str | None
) -> Runner:
    """The runner a task asks for.

    Raises:
        InvalidRequest: no such runner, or its connection is missing or cannot be used, or an option of the other one.
    """
    check_runner(kind, master=master, conf=conf)
    if kind == "local":
        from dp_operators.releasing import LocalRunner

        return LocalRunner(private_dir=private_dir, master=master or LocalRunner.master)
    return spark_submit(_connection(spark_conn_id), conf=conf or {}, private_dir=private_dir)


def check_runner(kind: str, *, master: str | None, conf: Mapping[str, Any] | None) -> None:
    """Refuse a runner that there is not, and options of the other one; a template is taken for right.

    Raises:
        InvalidRequest: there is none, or an option is not its own.
    """
    if not is_constant(kind):
        return
    if kind not in RUNNERS:
        raise InvalidRequest(
            "runner", value=kind, requirement=f"must be one of {', '.join(RUNNERS)}", remedy="choose one"
        )
    if kind == "local" and conf:
        raise InvalidRequest(
            "conf", requirement="is for the spark_submit runner", remedy="leave it out, or set spark-defaults.conf"
        )
    if kind == "spark_submit" and master:
        raise InvalidRequest(
            "master",
            value=master,
            requirement="is for the local runner",
            remedy="put the cluster's master into the connection that spark_conn_id names",
        )


def spark_submit(connection: Connection, *, conf: Mapping[str, Any], private_dir: str | None) -> SparkSubmitRunner:
    """The runner for a connection of Airflow's type ``spark``: host and port, and the extras above.

    The extra ``conf`` holds Spark settings, which ``conf`` overrides.

    Raises:
        InvalidRequest: it names no master, or has an extra that would be ignored.
    """
    from dp_operators.releasing import SparkSubmitRunner

    extra = {name: value for name, value in connection.extra_dejson.items() if value not in (None, "", False)}
    settings = dict(extra.pop("conf", {}))
    settings.update({setting: extra.pop(name) for name, setting in SETTINGS.items() if name in extra})
    options = {option: extra.pop(name) for name, option in OPTIONS.items() if name in extra}
    if extra:
        raise InvalidRequest(
            f"connection {connection.conn_id}",
            value=f"the extra {', '.join(sorted(extra))}",
            requirement=f"has the extras {', '.join((*OPTIONS, *SETTINGS, 'conf'))}",
            remedy="say it as a Spark setting in conf",
        )
    return SparkSubmitRunner(
        master=spark_master(connection), conf={**settings, **conf}, private_dir=private_dir, **options
    )


def spark_master(connection: Connection) -> str:
    """The master of a Spark connection, as ``spark-submit --master`` takes it.

    Raises:
        InvalidRequest: it names none.
    """
    if not connection.host:
        raise InvalidRequest(
            f"connection {connection.conn_id}",
            requirement="must name a Spark master in its host",
            remedy="e.g. spark://host with port 7077, k8s://https://host, or yarn",
        )
    return f"{connection.host}:{connection.port}" if connection.port else str(connection.host)


def _connection(conn_id: str) -> Connection:
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        # the Spark hook of Airflow's own provider would go on with YARN here
        raise InvalidRequest(
            "spark_conn_id",
            value=conn_id,
            requirement="must be a connection that exists",
            remedy="create it with the cluster's master as its host",
        ) from None
