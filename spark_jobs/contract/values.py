"""The base class of the contract's value types, and the conversion of pydantic's errors into ``InvalidRequest``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from decimal import Decimal
from difflib import SequenceMatcher
from functools import cache
from itertools import takewhile
from typing import Any, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from spark_jobs.contract.documents import Respelled
from spark_jobs.contract.errors import InvalidRequest

GroupKey = str | int
"""A key of a public list: a text or a whole number, where 17 and "17" are the same."""
_ALIKE = 0.7
"""From which likeness on a name is suggested."""
_REMEDIES = {
    "missing": ("is required", "add it"),
    "extra_forbidden": ("is not a field of this part of the request", "remove it or correct its name"),
}


class Frozen(BaseModel):
    """A frozen value, complete on construction and without unknown fields.

    Raises:
        InvalidRequest: on construction and from ``parse``; one line with the field, the value, the requirement and the
            remedy.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise refusal(error, type(self)) from None

    @model_validator(mode="before")
    @classmethod
    def _numbers_as_written(cls, data: Any) -> Any:
        """Reject what pydantic would accept as a number, ``"1_0"`` or ``true``, and keys that changed on the way."""
        if isinstance(data, dict):
            numeric = _numeric_fields(cls)
            for name in numeric:
                _require_numbers(name, data.get(name))
            for name in _keyed_fields(cls):
                _require_as_written(name, data.get(name))
        return data

    @classmethod
    def parse(cls, data: Any) -> Self:
        """``data`` (parsed JSON) as this type.

        Raises:
            InvalidRequest: ``data`` is not a valid value of this type.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise refusal(error, cls) from None

    def changed(self, **changes: Any) -> Self:
        """This value with some fields changed, checked as on construction.

        Raises:
            InvalidRequest: the result is not a valid value of this type.
        """
        return self.parse({name: getattr(self, name) for name in type(self).model_fields} | changes)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed and not checked; cached values that depend on fields are dropped."""
        copied = super().model_copy(update=update, deep=deep)
        for derived in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[derived]
        return copied


def refusal(error: ValidationError, model: type[BaseModel]) -> InvalidRequest:
    """The ``InvalidRequest`` for the first error that pydantic reports for ``model``."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"] if not _is_tag(part))
    where = re.sub(r"^(model|other)\.(columns|linear|logistic|spark_ml)\b", r"\1", where)
    inner = first.get("ctx", {}).get("error")
    if isinstance(inner, InvalidRequest):
        return inner.within(where) if where else inner
    bound, remedy = _REMEDIES.get(first["type"], (_lower_first(first["msg"]), "correct it"))
    if first["type"] == "string_type" and isinstance(first.get("input"), (bool, int, float, Decimal)):
        bound, remedy = "must be a text, and is written as a number, true or false", "write it in quotes"
    if first["type"] == "extra_forbidden":
        remedy += did_you_mean(str(first["loc"][-1]), _fields_at(model, first["loc"][:-1]))
    given = first.get("input") if first["type"] not in _REMEDIES else None
    return InvalidRequest(where or "request", given, bound, remedy)


def did_you_mean(given: object, known: Iterable[object]) -> str:
    """The end of a remedy that suggests the known name most similar to ``given``; empty if none is similar."""
    names = list(map(str, known))
    if in_another_form(str(given), names) is not None:
        return "; it is there in another Unicode form of the same letters: copy it from there"
    near = nearest(str(given), names)
    return "" if near is None else f"; did you mean {near!r}?"


def in_another_form(given: str, known: Iterable[str]) -> str | None:
    """The known name with the same letters as ``given`` in another Unicode form; None if no name has them."""
    composed = unicodedata.normalize("NFC", given)
    return next((name for name in known if name != given and unicodedata.normalize("NFC", name) == composed), None)


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known name that ``given`` is most likely a misspelling of; None if no name is similar.

    Similarity ignores case, blanks and the Unicode form of letters. Two letters that changed places are one slip, and
    the beginning of a name counts as the name. Of equally similar names, the one with the longer common beginning is
    taken, or else the shorter one.
    """
    ranked = [(_likeness(_folded(given), _folded(name)), name) for name in known if name != given]
    best = max(ranked, key=lambda rank: (rank[0], _common(given, rank[1]), -len(rank[1])), default=None)
    return best[1] if best is not None and best[0] >= _ALIKE else None


def _common(one: str, other: str) -> int:
    """How many characters at their beginnings two texts have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _likeness(given: str, name: str) -> float:
    if given == name:
        return 1.0
    if sorted(given) == sorted(name) and len(given) > 2:
        return 0.95
    if len(given) > 2 and (name.startswith(given) or given in name.split("_")):
        return 0.85
    return SequenceMatcher(None, given, name).ratio()


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()


def _fields_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The field names of the part of ``model`` at ``path``, the location of an error."""
    parts: list[type[BaseModel]] = [model]
    for name in path:
        inner = [
            field_model
            for part in parts
            if isinstance(name, str) and name in part.model_fields
            for field_model in _models_in(part.model_fields[name].annotation)
        ]
        parts = inner or parts
    return [name for part in parts for name in part.model_fields]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


@cache
def _numeric_fields(model: type[BaseModel]) -> tuple[str, ...]:
    """The fields of ``model`` whose type is a number, and neither text, nor a boolean, nor another model."""
    return tuple(
        name
        for name, field in model.model_fields.items()
        if (kinds := _scalars(field.annotation)) & {int, float}
        and not kinds & {str, bool}
        and not _models_in(field.annotation)
    )


@cache
def _keyed_fields(model: type[BaseModel]) -> tuple[str, ...]:
    """The fields of ``model`` that hold texts or keys; other models check their own."""
    return tuple(
        name
        for name, field in model.model_fields.items()
        if _scalars(field.annotation) & {str, Any} and not _models_in(field.annotation)
    )


def _scalars(annotation: Any) -> set[Any]:
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        arguments = arguments[1:]  # keys are names
    if not arguments:
        return {annotation}
    return {kind for argument in arguments for kind in _scalars(argument)}


def _require_numbers(name: str, value: Any) -> None:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for part in parts:
        _require_numbers(name, part)
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        raise InvalidRequest(name, value, "must be a number", "write it like 10 or 0.5")


def _require_as_written(name: str, value: Any) -> None:
    """Reject a key or a text that a document's reader took for a number of another spelling, such as 01067."""
    if isinstance(value, Respelled):
        raise InvalidRequest(
            name, value.text, f"is read as the number {int(value)}",
            "write quotes around a text or a key, or write the number without leading zeros and signs",
        )  # fmt: skip
    parts: Iterable[Any] = value if isinstance(value, (list, tuple)) else ()
    if isinstance(value, dict):
        parts = [*value, *value.values()]
    for part in parts:
        _require_as_written(name, part)


def _is_tag(part: object) -> bool:
    # pydantic adds the names of validators and union members to a location, which users did not write
    return isinstance(part, str) and ("[" in part or "(" in part or part.startswith("function-"))


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
