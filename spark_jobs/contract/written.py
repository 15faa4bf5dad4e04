"""A request as its author wrote it, before its account completes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from spark_jobs.contract.completion import leaves_out
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.table_request import TableRequest, canonical, canonical_sha256
from spark_jobs.contract.values import did_you_mean

_DECIDED = ("table", "start", "steps")
"""The fields that every request has and that an account may decide."""
AnyRequest = TypeVar("AnyRequest", bound=TableRequest)


@dataclass(frozen=True, kw_only=True)
class Written(Generic[AnyRequest]):
    """A request that leaves out what only its account knows, such as the bounds of a column.

    Attributes:
        kind: the type of request that it becomes once it is completed.
        fields: its fields, with the names of earlier releases and registered lists replaced by their content.
    """

    kind: type[AnyRequest]
    fields: Mapping[str, Any]

    @property
    def account(self) -> str | None:
        """The name of the account that pays."""
        name = self.fields.get("account")
        return None if name is None else str(name)

    @cached_property
    def sha256(self) -> str:
        """A hash of the fields as they are written, which does not depend on the account's current domains."""
        plain = {name: canonical(_plain(value)) for name, value in self.fields.items() if value is not None}
        return canonical_sha256(plain)

    @cached_property
    def charged_sha256(self) -> str:
        """A hash of the written fields without the snapshot, which differs between the runs of a stream."""
        table = {name: value for name, value in (self.fields.get("table") or {}).items() if name != "snapshot"}
        return Written(kind=self.kind, fields={**self.fields, "table": table}).sha256


def read_written(kind: type[AnyRequest], fields: Mapping[str, Any]) -> AnyRequest | Written[AnyRequest]:
    """The request that these fields make, or a ``Written`` if only the request's account can complete the fields.

    Raises:
        InvalidRequest: the fields cannot make a request, whatever the account's domains are.
    """
    if fields.get("account") is None or not leaves_out(fields):
        return kind.parse(fields)
    for name in fields:
        if name not in kind.model_fields and name != "end":
            raise InvalidRequest(
                name, None, "is not a field of this part of the request",
                f"remove it or correct its name{did_you_mean(name, kind.model_fields)}",
            )  # fmt: skip
    for name, field in kind.model_fields.items():
        if field.is_required() and fields.get(name) is None and name not in _DECIDED:
            raise InvalidRequest(name, None, "is required", "add it")
    return Written(kind=kind, fields=dict(fields))


def written_fields(request: TableRequest | Written[Any]) -> dict[str, Any]:
    """The fields that the author of a request gave, in plain JSON types; what was left out is not among them."""
    if isinstance(request, Written):
        return {name: value for name, value in request.fields.items() if value is not None}
    fields: dict[str, Any] = _given(request, request.to_dict())
    return fields


def _given(value: Any, dumped: Any) -> Any:
    """The part of ``dumped`` that was given when ``value`` was made."""
    if isinstance(value, BaseModel) and isinstance(dumped, dict):
        named = {name: part for name, part in dumped.items() if name in value.model_fields_set or name == "kind"}
        return {name: _given(getattr(value, name), part) for name, part in named.items()}
    if isinstance(value, (list, tuple)) and isinstance(dumped, list):
        return [_given(item, part) for item, part in zip(value, dumped, strict=True)]
    return dumped


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
