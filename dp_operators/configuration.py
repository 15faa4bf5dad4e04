"""The section ``[privacy_diagnostics]`` of Airflow's configuration; the provider's metadata documents its options."""

from __future__ import annotations

import json

from airflow.providers.common.compat.sdk import conf

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place

SECTION = "privacy_diagnostics"


def production() -> bool:
    """Whether this deployment releases data of people: the cluster policy then refuses a local runner."""
    text = str(conf.get(SECTION, "production", fallback="False")).strip()
    if text.lower() not in ("true", "false"):
        raise InvalidRequest(
            f"[{SECTION}] production", text, "must be True or False", "correct Airflow's configuration"
        )
    return text.lower() == "true"


def default_deferrable() -> bool:
    """Whether tasks wait in the triggerer by default, if they can; this is Airflow's own option."""
    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


def deployment() -> str | None:
    """This deployment's name in release keys, where neither the task nor the ledger's connection gives one."""
    return conf.get(SECTION, "deployment", fallback=None) or None


def report_url() -> str | None:
    """The address of a report, with ``{folder}``, ``{uri}`` and ``{account}`` to be filled in; None if not set."""
    return conf.get(SECTION, "report_url", fallback=None) or None


def page_permission() -> str | None:
    """The permission that lets a user see a ledger's pages without reading its connection; None if not set."""
    return conf.get(SECTION, "page_permission", fallback=None) or None


def salt_conn_id() -> str | None:
    """The connection whose password is the salt; None if the worker's environment has it."""
    return conf.get(SECTION, "salt_conn_id", fallback=None) or None


def stream_keys_conn_id() -> str | None:
    """The connection whose password holds the keys of streams; None if the worker's environment has them."""
    return conf.get(SECTION, "stream_keys_conn_id", fallback=None) or None


def store_conn_ids() -> tuple[tuple[Place, str], ...]:
    """The connections through which Airflow's processes use stores, by the folders of the stores.

    Raises:
        InvalidRequest: the option is no JSON object of folders and connections.
    """
    text = conf.get(SECTION, "store_conn_ids", fallback=None) or "{}"
    try:
        return tuple((Place.of_folder(folder), str(name)) for folder, name in json.loads(text).items())
    except (ValueError, AttributeError):
        raise InvalidRequest(
            f"[{SECTION}] store_conn_ids", text, "must be a JSON object of folders and ids of connections",
            'write it like {"s3://releases": "aws_releases"}',
        ) from None  # fmt: skip


def lineage_namespace() -> str:
    """The OpenLineage namespace of catalog tables, which have no store of their own."""
    return str(conf.get(SECTION, "lineage_namespace", fallback=None) or "spark_catalog")
