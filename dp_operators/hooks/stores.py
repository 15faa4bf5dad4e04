"""Stores of releases by Airflow's connections, through its object storage."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from dp_operators.get_provider_info import STORE_PROVIDERS
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.store.conditional_put import EXTRAS, by_environment


def by_connection(uri: str) -> Any:
    """The file system of ``uri``, opened with the connection that ``store_conn_ids`` names for its folder, if any.

    Without one, the process signs in with what its machine or environment gives.

    Raises:
        InvalidRequest: there is no such connection, or its provider is not installed.
    """
    from dp_operators import configuration

    place, option = Place.of_folder(uri), f"[{configuration.SECTION}] store_conn_ids"
    named = [(folder.identity, name) for folder, name in configuration.store_conn_ids() if folder.contains(place)]
    if not named:
        return by_environment(uri)
    connection = max(named)[1]  # of the longest folder
    from airflow.providers.common.compat.sdk import AirflowNotFoundException
    from airflow.sdk import BaseHook
    from airflow.sdk.io import get_fs, has_fs

    parts = urlsplit(uri)
    extra = EXTRAS[parts.scheme]
    if not has_fs(parts.scheme):
        raise InvalidRequest(
            option, connection, f"needs Airflow's provider for {parts.scheme}://", f"install {STORE_PROVIDERS[extra]}"
        )
    try:
        BaseHook.get_connection(connection)  # Amazon's file system would take the machine's credentials instead
    except AirflowNotFoundException:
        raise InvalidRequest(
            option,
            connection,
            "must name connections that exist",
            "create the connection, e.g. with airflow connections add",
        ) from None
    options = {"account_name": parts.hostname.partition(".")[0]} if extra == "azure" and parts.hostname else None
    return get_fs(parts.scheme, connection, options)
