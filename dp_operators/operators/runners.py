"""Makes the runner that starts the Spark application, from a task's parameters and its Spark connection."""

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
"""Extras of a Spark connection that are options of ``SparkSubmitRunner``."""

SETTINGS = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
"""Extras of a Spark connection, and the Spark settings that they stand for."""


def make_runner(
    kind: str, *, master: str | None, spark_conn_id: str, conf: Mapping[str, Any] | None, private_dir: str | None
) -> Runner:
    """The runner of a task.

    Raises:
        InvalidRequest: there is no such runner, its connection is missing or unusable, or an option is for another
            runner.
    """
    check_runner(kind, master=master, conf=conf)
    if kind == "local":
        from dp_operators.releasing import LocalRunner

        return LocalRunner(private_dir=private_dir, master=master or LocalRunner.master)
    return spark_submit(_connection(spark_conn_id), conf=conf or {}, private_dir=private_dir)


def check_runner(kind: str, *, master: str | None, conf: Mapping[str, Any] | None) -> None:
    """Refuse an unknown runner, and options of another runner; a template passes, as its value is not known yet.

    Raises:
        InvalidRequest: there is no such runner, or an option is another runner's.
    """
    if not is_constant(kind):
        return
    if kind not in RUNNERS:
        raise InvalidRequest(
            "runner", value=kind, requirement=f"must be one of {', '.join(RUNNERS)}", remedy="choose one"
        )
    if kind == "local" and conf:
        raise InvalidRequest(
            "conf", requirement="is for the spark_submit runner only", remedy="leave it out, or set spark-defaults.conf"
        )
    if kind == "spark_submit" and master:
        raise InvalidRequest(
            "master",
            value=master,
            requirement="is for the local runner only",
            remedy="put the cluster's master into the connection that spark_conn_id names",
        )


def spark_submit(connection: Connection, *, conf: Mapping[str, Any], private_dir: str | None) -> SparkSubmitRunner:
    """The runner for an Airflow connection of type ``spark``: its host, its port and the extras above.

    The extra ``conf`` holds Spark settings, which the argument ``conf`` overrides.

    Raises:
        InvalidRequest: the connection names no master, or has an extra that would be ignored.
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
            requirement=f"may only have the extras {', '.join((*OPTIONS, *SETTINGS, 'conf'))}",
            remedy="give it as a Spark setting in conf",
        )
    return SparkSubmitRunner(
        master=spark_master(connection), conf={**settings, **conf}, private_dir=private_dir, **options
    )


def spark_master(connection: Connection) -> str:
    """The master of a Spark connection, as ``spark-submit --master`` takes it.

    Raises:
        InvalidRequest: the connection has no host.
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
        # the Spark hook of Airflow's own provider would silently use YARN here
        raise InvalidRequest(
            "spark_conn_id",
            value=conn_id,
            requirement="must be a connection that exists",
            remedy="create it with the cluster's master as its host",
        ) from None
