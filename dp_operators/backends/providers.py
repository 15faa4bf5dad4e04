"""What the backends that use other providers' hooks have in common; a hook is imported when a connection needs it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dp_operators.releasing.backends import RemoteBackend
from dp_operators.releasing.spark_submit import properties
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.table_request import TableRequest

if TYPE_CHECKING:
    from airflow.sdk import Connection

DISTRIBUTION = "airflow-provider-dp-diagnostics"
EXTRA = "dp_diagnostics"
"""The extra of a connection that says how to run the application; the others are the provider's."""
DEPLOY_MODE = "spark.submit.deployMode"
_KINDS: Mapping[type, str] = {str: "text", dict: "an object", list: "a list"}
CLIENTS = ("botocore", "google", "kubernetes", "urllib3")
"""Loggers of the services' clients, which at the level DEBUG repeat what is submitted, with the run's secret."""


def hook_of(path: str, *, extra: str, **arguments: Any) -> Any:
    """A hook of another provider.

    Args:
        path: the full name of its class.
        extra: the extra of this provider that installs it.
        arguments: the arguments of the class.

    Raises:
        InvalidRequest: the provider is not installed.
    """
    module, _, name = path.rpartition(".")
    try:
        hook = getattr(import_module(module), name)
    except ImportError:
        raise InvalidRequest(
            "spark_conn_id", None,
            f"needs the provider of {module.removeprefix('airflow.providers.').partition('.hooks')[0]}",
            f"install {DISTRIBUTION}[{extra}]",
        ) from None  # fmt: skip
    for client in map(logging.getLogger, CLIENTS):
        client.setLevel(max(client.getEffectiveLevel(), logging.INFO))
    return hook(**arguments)


@dataclass(frozen=True, kw_only=True)
class ProviderBackend(RemoteBackend):
    """A service that runs the driver itself, used through the hook of its own Airflow provider.

    The run's secret is among the settings that are submitted: whoever may read them there is inside the privacy
    boundary.

    Attributes:
        connection: name of the connection.
        settings: the connection's extra ``dp_diagnostics``, without ``conf``.
        conf: Spark settings, memory and cores among them.
    """

    connection_type: ClassVar[str]
    hook: ClassVar[str]
    """The full name of the hook's class."""
    parameter: ClassVar[str]
    """The hook's parameter that takes the name of the connection."""
    extra: ClassVar[str]
    """The extra of this package that installs the provider."""
    required: ClassVar[Mapping[str, type]]
    optional: ClassVar[Mapping[str, type]]
    """The fields of the connection's extra, with the types of their values; ``conf`` is one of each backend's."""
    environment_prefix: ClassVar[str] = ""
    """The prefix of Spark settings that become variables of the driver's environment."""

    connection: str
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    conf: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, connection: Connection, *, conf: Mapping[str, Any]) -> Self:
        """The backend of a connection, whose own Spark settings ``conf`` overrides.

        Raises:
            InvalidRequest: the connection's extra does not say how to run the application, or asks for another deploy
                mode.
        """
        cls._require_cluster_mode("deploy-mode", connection.extra_dejson)
        given = connection.extra_dejson.get(EXTRA)
        settings: dict[str, Any] = dict(given) if isinstance(given, dict) else {}
        types = {**cls.required, **cls.optional, "conf": dict}
        fits = set(cls.required) <= set(settings) <= set(types)
        if not fits or not all(isinstance(value, types[name]) for name, value in settings.items()):
            raise InvalidRequest(
                f"connection {connection.conn_id}", None, f"must have the extra {EXTRA} with {_listed(cls.required)}, "
                f"and at most {_listed({**cls.optional, 'conf': dict})} besides", "correct the connection",
            )  # fmt: skip
        own = settings.pop("conf", {})
        return cls(connection=str(connection.conn_id), settings=settings, conf={**own, **conf})

    @cached_property
    def _hook(self) -> Any:
        return hook_of(self.hook, extra=self.extra, **{self.parameter: self.connection})

    def check(self, request: TableRequest) -> None:
        """Check the Spark settings, and that the provider is installed.

        Raises:
            InvalidRequest: a setting is not a Spark setting or asks for another deploy mode, or the provider is
                missing.
        """
        properties(self.conf)
        self._require_cluster_mode(DEPLOY_MODE, self.conf)
        _ = self._hook

    @classmethod
    def _require_cluster_mode(cls, name: str, settings: Mapping[str, Any]) -> None:
        if settings.get(name) not in (None, "", "cluster"):
            raise InvalidRequest(
                name, settings[name], f"must be 'cluster' with a connection of type {cls.connection_type}",
                "leave it out",
            )  # fmt: skip

    def spark_settings(self, submission: Submission) -> dict[str, str]:
        """The Spark settings of a run's application, with the variables of its driver's environment."""
        variables = {f"{self.environment_prefix}.{name}": value for name, value in submission.variables().items()}
        return {**{name: str(value) for name, value in self.conf.items() if name != DEPLOY_MODE}, **variables}


def _listed(fields: Mapping[str, type]) -> str:
    return ", ".join(f"{name} ({_KINDS[kind]})" for name, kind in fields.items())
