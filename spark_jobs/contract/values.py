"""Base of the contract's value types, and the way from pydantic's errors to ours."""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from spark_jobs.contract.errors import RequestRefused

_REMEDIES = {
    "missing": ("is required", "add it"),
    "extra_forbidden": ("is not a field of this part of the request", "remove it or correct its name"),
}


class Frozen(BaseModel):
    """Frozen, without unknown fields, complete on construction; what it refuses it refuses in one line.

    Raises:
        RequestRefused: on construction and from ``parse``, naming the field, the value given, the bound and the remedy.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise refusal(error) from None

    @classmethod
    def parse(cls, data: Any) -> Self:
        """``data`` (parsed JSON) as this type.

        Raises:
            RequestRefused: it does not fit.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise refusal(error) from None


def refusal(error: ValidationError) -> RequestRefused:
    """The first thing pydantic found, as one line of ours."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"] if not _is_tag(part))
    where = re.sub(r"^(model|other)\.(columns|linear|logistic|spark_ml)\b", r"\1", where)
    inner = first.get("ctx", {}).get("error")
    if isinstance(inner, RequestRefused):
        return inner.within(where) if where else inner
    bound, remedy = _REMEDIES.get(first["type"], (_lower_first(first["msg"]), "correct it"))
    given = first.get("input") if first["type"] not in _REMEDIES else None
    return RequestRefused(where or "request", given=given, bound=bound, remedy=remedy)


def _is_tag(part: object) -> bool:
    # pydantic adds names of validators and of union members to a location; a user never wrote them
    return isinstance(part, str) and ("[" in part or "(" in part or part.startswith("function-"))


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
