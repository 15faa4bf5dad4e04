"""The assets of releases: a task's outlets, made from its request, and the event of each release."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

from dp_operators.tasks.constants import is_constant
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.tasks.events import ReleaseEvent, StreamEvent

ALIAS = "private releases of {account}"


def release_asset(output: str) -> Asset:
    """The asset of a folder of releases; each release into the folder is an event of it.

    The asset's name is its URI, so that ``Asset("s3://releases/churn")`` is the same asset. For a folder on this
    machine, schedule on ``release_asset(path)``: Airflow takes ``Asset(path)`` for another asset.

    Args:
        output: the folder, as a release's ``output``; a path on this machine becomes a ``file://`` URI.

    Raises:
        InvalidRequest: ``output`` is neither an absolute path nor a URI.
    """
    return Asset(Place.of_folder(output, what="output").identity)


def release_alias(account: str) -> AssetAlias:
    """The asset alias, named by the paying account, of releases whose folder is known only when the task runs."""
    return AssetAlias(ALIAS.format(account=account))


def with_release_outlets(given: Any, request: Any) -> list[Any]:
    """A task's outlets: the given ones, and the asset or the alias of its release.

    Raises:
        InvalidRequest: a given alias is that of another account's releases.
    """
    outlets = list(given) if isinstance(given, Collection) and not isinstance(given, str) else [given] if given else []
    fields = request if isinstance(request, Mapping) else {}
    account, output = (fields.get(name) if is_constant(fields.get(name)) else None for name in ("account", "output"))
    own = release_asset(output) if output else release_alias(account) if account else None
    for outlet in outlets:
        if isinstance(outlet, AssetAlias) and account and outlet.name.startswith(ALIAS.format(account="")):
            _require_own(outlet, account)
    listed = own is None or own in outlets or (isinstance(own, Asset) and _with_uri(outlets, own.uri) is not None)
    return outlets if listed else [*outlets, own]


def record_event(event: ReleaseEvent | StreamEvent, outlets: Collection[Any], context: Context) -> None:
    """Attach the event to the release's asset among the task's outlets; Airflow emits it if the task succeeds."""
    accessors = context.get("outlet_events")
    if accessors is None:
        return
    asset, alias = release_asset(str(event.request.output)), release_alias(event.account)
    extra = event.to_dict()
    own = _with_uri(outlets, asset.uri)
    if own is not None:
        accessors[own].extra.update(extra)
    elif alias in outlets:
        accessors[alias].add(asset, extra=extra)


def _with_uri(outlets: Collection[Any], uri: str) -> Asset | None:
    """The asset of this URI, which may have a name of its own; Airflow allows one name for each URI.

    A path on this machine is its ``file://`` URI.
    """
    return next((outlet for outlet in outlets if isinstance(outlet, Asset) and _uri(outlet) == uri), None)


def _uri(asset: Asset) -> str:
    return Place.of_folder(asset.uri).identity if asset.uri.startswith("/") else asset.uri


def _require_own(outlet: AssetAlias, account: str) -> None:
    if outlet != release_alias(account):
        raise InvalidRequest(
            "outlets", outlet.name, f"must be of account {account}, which pays for the release",
            "leave it out: the outlet of a release is made from its request",
        )  # fmt: skip
