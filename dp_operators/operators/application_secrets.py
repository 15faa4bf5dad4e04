"""The application's secrets that Airflow's secrets backends hold, for drivers on the worker's machine.

The worker reads them when the task runs, and hands them to the driver in its environment, which Spark's pages do not
show: they are in no request, command line, Spark setting, trigger or log. A driver on a cluster does not get these
secrets, because they would have to be passed as Spark settings, which Spark's pages show; the cluster must mount its
own secrets.
"""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from dp_operators import configuration
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.layout import SALT_VARIABLE
from spark_jobs.contract.stream_keys import STREAM_KEYS_VARIABLE


def application_secrets() -> dict[str, str]:
    """The environment variables with the secrets that the configuration names connections for.

    Raises:
        InvalidRequest: there is no such connection, or it has no password.
    """
    named = (
        (SALT_VARIABLE, "salt_conn_id", configuration.salt_conn_id()),
        (STREAM_KEYS_VARIABLE, "stream_keys_conn_id", configuration.stream_keys_conn_id()),
    )
    return {variable: _password(option, name) for variable, option, name in named if name}


def _password(option: str, connection_id: str) -> str:
    try:
        password = BaseHook.get_connection(connection_id).password
    except AirflowNotFoundException:
        password = None
    if not password or "\0" in password:
        raise InvalidRequest(
            f"[{configuration.SECTION}] {option}", connection_id,
            "must be a connection whose password holds the secret",
            "create it in the secrets backend, or name a file in the worker's environment instead",
        )  # fmt: skip
    for part in (password, *password.split()):
        mask_secret(part)
    return str(password)
