"""Makes the runner that starts the Spark application, from a task's parameters and its Spark connection."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook

from dp_operators.task_settings import require_task_settings
from dp_operators.tasks.constants import is_constant
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from dp_operators.releasing import Backend

RUNNERS = ("local", "spark_submit", "cluster")
TYPES = ("aws", "databricks", "google_cloud_platform", "kubernetes", "spark", "spark_connect")
"""Types of connections that have a backend."""

EXTRAS = (
    "deploy-mode",
    "spark-binary",
    "application",
    "rest-scheme",
    "rest-port",
    "yarn_resourcemanager_webapp_address",
    "kubernetes-conn-id",
)
"""Extras of a Spark connection that say how to submit; most are those of the Spark provider."""

USED = {
    "client": {"spark-binary", "application"},
    "spark://": {"application", "rest-scheme", "rest-port"},
    "yarn": {"spark-binary", "application", "yarn_resourcemanager_webapp_address"},
    "k8s://": {"spark-binary", "application", "kubernetes-conn-id"},
}
"""What of these a driver on this machine needs, and a driver on each kind of cluster."""
FORM_DEFAULTS = {"spark-binary": "spark-submit"}
"""What Airflow's form for a Spark connection fills in by itself, so that it may stand where it is not needed."""
MASTERS = r"yarn|local(\[.+\])?|local-cluster\[.+\]|(spark|k8s)://.+"
"""The masters that Spark has, as a regular expression."""

SETTINGS = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
"""Extras of a Spark connection, and the Spark settings that they stand for."""


def make_runner(
    kind: str, *, master: str | None, spark_conn_id: str, conf: Mapping[str, Any] | None, private_dir: str | None
) -> Backend:
    """The runner of a task.

    Raises:
        InvalidRequest: there is no such runner, its connection is missing or unusable, or an option belongs to another
            runner.
    """
    check_runner(kind, master=master, conf=conf)
    require_task_settings(conf or {})  # rendered by now
    if kind == "local":
        from dp_operators.releasing.runners import LocalRunner

        return LocalRunner(private_dir=private_dir, master=master or LocalRunner.master, conf=conf or {})
    connection = _connection(spark_conn_id)
    _check_type(connection, kind)
    if connection.conn_type == "spark_connect":
        return connect_backend(connection, conf=conf or {}, private_dir=private_dir)
    if connection.conn_type != "spark":
        from dp_operators.backends.handles import BY_TYPE

        return BY_TYPE[str(connection.conn_type)].of(connection, conf=conf or {})
    return spark_backend(connection, conf=conf or {}, private_dir=private_dir)


def _check_type(connection: Connection, kind: str) -> None:
    if connection.conn_type == "spark" or (kind == "cluster" and connection.conn_type in TYPES):
        return
    whole = kind == "cluster"
    raise InvalidRequest(
        f"connection {connection.conn_id}",
        f"the type {connection.conn_type}",
        f"must be of type {', '.join(TYPES[:-1])} or {TYPES[-1]}"
        if whole
        else f"must be of type spark for the runner {kind}",
        "name another connection" if whole else "name another connection, or set the runner to cluster",
    )


def check_runner(kind: str, *, master: str | None, conf: Mapping[str, Any] | None) -> None:
    """Refuse an unknown runner, and options of another runner or of the administrator; templates are not checked yet.

    Raises:
        InvalidRequest: there is no such runner, or an option is not one that a task may set.
    """
    if isinstance(conf, Mapping):
        require_task_settings({name: value if is_constant(value) else "" for name, value in conf.items()})
    if not is_constant(kind):
        return
    if kind not in RUNNERS:
        raise InvalidRequest("runner", kind, f"must be one of {', '.join(RUNNERS)}", "choose one")
    if kind != "local" and master:
        raise InvalidRequest(
            "master", master, "is for the local runner only",
            "put the cluster's master into the connection that spark_conn_id names",
        )  # fmt: skip


def spark_backend(connection: Connection, *, conf: Mapping[str, Any], private_dir: str | None) -> Backend:
    """The backend of a connection of type ``spark``, from its host, its port and its extras (``EXTRAS``, ``SETTINGS``).

    The extra ``conf`` holds Spark settings, which the argument ``conf`` overrides.

    Raises:
        InvalidRequest: the connection names no master, or has an extra that would be ignored.
    """
    extra = {name: value for name, value in connection.extra_dejson.items() if value not in (None, "", False)}
    settings = dict(extra.pop("conf", {}))
    settings.update({setting: extra.pop(name) for name, setting in SETTINGS.items() if name in extra})
    unknown = sorted(set(extra) - set(EXTRAS))
    if unknown:
        raise InvalidRequest(
            f"connection {connection.conn_id}", f"the extra {', '.join(unknown)}",
            f"may only have the extras {', '.join((*EXTRAS, *SETTINGS, 'conf'))}", "give it as a Spark setting in conf",
        )  # fmt: skip
    return of_master(
        spark_master(connection),
        extra,
        conf={**settings, **conf},
        private_dir=private_dir,
    )


def connect_backend(connection: Connection, *, conf: Mapping[str, Any], private_dir: str | None) -> Backend:
    """The backend of a connection of type ``spark_connect``, whose host, port, token and TLS are the Spark provider's.

    Raises:
        InvalidRequest: the connection names no server or has an extra that would be ignored, or Spark settings are
            given.
    """
    from dp_operators.releasing.spark_connect import PORT, SparkConnectRunner

    extra = connection.extra_dejson
    host = str(connection.host or "").removeprefix("sc://").rstrip("/")
    if not re.fullmatch(r"[\w.-]+|\[[\da-fA-F:.]+\]", host) or not set(extra) <= {"use_ssl"}:
        raise InvalidRequest(
            f"connection {connection.conn_id}", None,
            "must name a Spark Connect server in its host and port, and may only have the extra use_ssl",
            f"name the server, e.g. sc://spark.example.org with port {PORT}",
        )  # fmt: skip
    if conf:
        raise InvalidRequest(
            "conf", None, "must be left out with a Spark Connect server, which has settings of its own",
            "start the server with them",
        )  # fmt: skip
    given = {"user_id": connection.login, "token": connection.password, "use_ssl": extra.get("use_ssl")}
    parameters = [f"{name}={quote(str(value), safe='')}" for name, value in given.items() if value not in (None, "")]
    remote = f"sc://{host}:{connection.port or PORT}/{''.join(f';{parameter}' for parameter in parameters)}"
    return SparkConnectRunner(remote=remote, private_dir=private_dir)


def of_master(master: str, options: dict[str, Any], *, conf: Mapping[str, str], private_dir: str | None) -> Backend:
    """The backend of a Spark master: in client mode always ``spark-submit``, in cluster mode by the kind of master.

    Args:
        master: the master's URL.
        options: the connection's extras that are in ``EXTRAS``.
        conf: Spark settings.
        private_dir: the folder of private files; None for the default.

    Raises:
        InvalidRequest: the deploy mode is unknown, the master does not support the mode, an option is missing, or an
            option belongs to another mode or master.
    """
    from dp_operators.releasing.clusters import StandaloneCluster, YarnCluster
    from dp_operators.releasing.spark_submit import SparkSubmitRunner

    given = dict(options)
    mode = given.pop("deploy-mode", "client")
    if mode not in ("client", "cluster"):
        raise InvalidRequest("deploy_mode", mode, "must be 'client' or 'cluster'", "choose one")
    place = "client" if mode == "client" else next((kind for kind in USED if master.startswith(kind)), None)
    if place is None:
        raise InvalidRequest(
            "deploy_mode", f"cluster, with master {master}",
            "must be 'client' with this master: only standalone clusters, YARN and Kubernetes run drivers",
            "use client mode",
        )  # fmt: skip
    _require_used(given, USED[place], mode=mode, master=master)
    named = {"binary": given.get("spark-binary"), "application": given.get("application")}
    submitting: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if place == "client":
        return SparkSubmitRunner(master=master, conf=conf, private_dir=private_dir, **submitting)
    if place == "spark://":
        submitting.pop("binary", None)
        return StandaloneCluster(master=master, rest=_rest_server(master, given), conf=conf, **submitting)
    submitting |= {"master": master, "conf": conf, "private_dir": private_dir}
    if place == "k8s://":
        from dp_operators.backends.kubernetes import CONNECTION, KubernetesCluster

        return KubernetesCluster(connection=given.get("kubernetes-conn-id", CONNECTION), **submitting)
    manager = given.get("yarn_resourcemanager_webapp_address")
    if manager is None:
        raise InvalidRequest(
            "deploy_mode", "cluster, with master yarn", "needs the extra yarn_resourcemanager_webapp_address",
            "add it to the connection, e.g. http://rm.example.org:8088",
        )  # fmt: skip
    return YarnCluster(resource_manager=manager, kerberos="spark.kerberos.principal" in conf, **submitting)


def _require_used(options: Mapping[str, Any], used: Iterable[str], *, mode: str, master: str) -> None:
    spare = sorted(name for name in set(options) - set(used) if options[name] != FORM_DEFAULTS.get(name))
    if spare:
        raise InvalidRequest(
            "spark_conn_id", f"a connection with the extra {', '.join(spare)}",
            f"may only have the extras {', '.join(sorted(used))} with deploy-mode {mode} and master "
            f"{master}", "leave out the other extras, because they would be ignored",
        )  # fmt: skip


def _rest_server(master: str, options: Mapping[str, Any]) -> str:
    host = master.removeprefix("spark://").split(",")[0].rpartition(":")[0]
    return f"{options.get('rest-scheme', 'http')}://{host}:{options.get('rest-port', 6066)}"


def spark_master(connection: Connection) -> str:
    """The master of a Spark connection, as ``spark-submit --master`` takes it.

    Raises:
        InvalidRequest: the connection has no host, or one that is no Spark master.
    """
    if not connection.host:
        raise InvalidRequest(
            f"connection {connection.conn_id}", None, "must name a Spark master in its host",
            "name the master, e.g. spark://host with port 7077, k8s://https://host, or yarn",
        )  # fmt: skip
    host = str(connection.host)
    if host.startswith("sc://"):
        raise InvalidRequest(
            f"connection {connection.conn_id}", "a Spark Connect server as the host",
            "must name a Spark master, because it is of type spark", "make it a connection of type spark_connect",
        )  # fmt: skip
    if connection.port:
        # a connection that is given as a URI keeps the scheme apart from its host
        host = f"{host if '://' in host else f'spark://{host}'}:{connection.port}"
    if not re.fullmatch(MASTERS, host):
        raise InvalidRequest(
            f"connection {connection.conn_id}", host,
            "must name a Spark master in its host: spark://, k8s://, yarn or local",
            "for another service, make it a connection of the service's own type",
        )  # fmt: skip
    return host


def _connection(conn_id: str) -> Connection:
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        # the Spark hook of Airflow's own provider would silently use YARN here
        raise InvalidRequest(
            "spark_conn_id", conn_id, "must be a connection that exists",
            "create it with the cluster's master as its host",
        ) from None  # fmt: skip
