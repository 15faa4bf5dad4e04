"""The hooks of other providers, which are imported only where a connection asks for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from spark_jobs.contract.errors import InvalidRequest

DISTRIBUTION = "airflow-provider-dp-diagnostics"


def hook_of(path: str, *, extra: str, **arguments: Any) -> Any:
    """A hook of another provider.

    Args:
        path: the full name of its class.
        extra: the extra of this provider that installs it.
        arguments: those of the class.

    Raises:
        InvalidRequest: the provider is not installed.
    """
    module, _, name = path.rpartition(".")
    try:
        hook = getattr(import_module(module), name)
    except ImportError:
        raise InvalidRequest(
            "spark_conn_id",
            requirement=f"needs the provider of {module.removeprefix('airflow.providers.').partition('.hooks')[0]}",
            remedy=f"install {DISTRIBUTION}[{extra}]",
        ) from None
    return hook(**arguments)
