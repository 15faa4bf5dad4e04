"""A codec between frozen dataclasses and plain JSON types, derived from the types of their fields.

Decoding an encoded value gives an equal value: whole numbers and decimals are kept exactly, floats as Python prints
them. A field with a default may be missing, because the data were encoded by a version without that field; it then has
the value ``absent`` of its metadata, or else the default. If a field may hold one of several dataclasses, the name of
the class is written too.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from spark_jobs.contract.values import Frozen

T = TypeVar("T")
_CLASS, _VALUE, _RANGE = "class", "value", "range"
_PLAIN = (bool, int, float, str)
LEFT_OUT = "left_out"
"""The name, in a field's metadata, of whether it is left out while it is None."""
ABSENT = "absent"
"""The name, in a field's metadata, of its value in what was encoded before there was such a field."""


def encode(value: Any, as_type: Any = None) -> Any:
    """``value`` as plain JSON types.

    Args:
        value: a dataclass, or a value that a field of one may hold: a number, text, decimal, enum, tuple, array,
            dataclass or value type of the contract.
        as_type: the declared type; by default the type of the value. If the value is of a subclass, its additional
            fields are omitted.

    Raises:
        TypeError: the value is of no such type.
    """
    as_type = type(value) if as_type is None else as_type
    if value is None or as_type in _PLAIN:
        return value
    origin, arguments = _parts(as_type)
    if _is_union(origin):
        members = _members(as_type)
        if len(members) == 1:
            return encode(value, members[0])
        return {_CLASS: type(value).__name__, _VALUE: encode(value, _member(members, type(value).__name__))}
    if origin is tuple:
        if arguments[0] in _PLAIN and arguments[-1] is Ellipsis:
            return list(value)
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return [encode(item, kind) for item, kind in zip(value, kinds, strict=True)]
    if _is_array(as_type):
        return _encode_array(value)
    if origin is Literal:
        return value
    if not isinstance(as_type, type):
        raise TypeError(f"no encoding of {as_type}")
    if issubclass(as_type, Decimal):
        return str(value)
    if issubclass(as_type, StrEnum):
        return str(value)
    if issubclass(as_type, Frozen):
        return {name: item for name, item in value.model_dump(mode="json").items() if name in as_type.model_fields}
    if is_dataclass(as_type):
        written = {name: getattr(value, name) for name in _fields(as_type)}
        optional = _optional(as_type)
        return {
            name: encode(written[name], kind)
            for name, kind in _fields(as_type).items()
            if name not in optional or written[name] is not None
        }
    raise TypeError(f"no encoding of {as_type}")


def decode(as_type: type[T], data: Any) -> T:
    """The value of type ``as_type`` that ``encode`` turned into ``data``.

    Raises:
        KeyError, TypeError, ValueError: ``data`` does not describe such a value.
    """
    return cast("T", _decode(as_type, data))


def _decode(as_type: Any, data: Any) -> Any:
    if as_type in _PLAIN:
        return data
    origin, arguments = _parts(as_type)
    if _is_union(origin):
        if data is None:
            return None
        members = _members(as_type)
        if len(members) == 1:
            return _decode(members[0], data)
        return _decode(_member(members, data[_CLASS]), data[_VALUE])
    if origin is tuple:
        if arguments[0] in _PLAIN and arguments[-1] is Ellipsis:
            return tuple(data)
        kinds = [arguments[0]] * len(data) if arguments[-1] is Ellipsis else arguments
        return tuple(_decode(kind, item) for kind, item in zip(kinds, data, strict=True))
    if _is_array(as_type):
        return _decode_array(data, arguments[1])
    if origin is Literal:
        return data
    if issubclass(as_type, (Decimal, StrEnum)):
        return as_type(data)
    if issubclass(as_type, Frozen):
        return as_type.parse(data)
    present = (name for name in _fields(as_type) if name in data or name not in _with_default(as_type))
    decoded = {name: _decode(_fields(as_type)[name], data[name]) for name in present}
    return as_type(**{**_absent(as_type), **decoded})


@cache
def _parts(as_type: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(as_type), get_args(as_type)


@cache
def _fields(as_type: type) -> Mapping[str, Any]:
    hints = get_type_hints(as_type)
    return {field.name: hints[field.name] for field in fields(as_type) if field.init}


@cache
def _with_default(as_type: type) -> frozenset[str]:
    return frozenset(
        field.name for field in fields(as_type) if field.default is not MISSING or field.default_factory is not MISSING
    )


@cache
def _optional(as_type: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(as_type) if field.metadata.get(LEFT_OUT))


@cache
def _absent(as_type: type) -> Mapping[str, Any]:
    return {field.name: field.metadata[ABSENT] for field in fields(as_type) if ABSENT in field.metadata}


def _is_union(origin: Any) -> bool:
    return origin is Union or origin is types.UnionType


def _members(union: Any) -> list[Any]:
    """The types of a union without None. Plain JSON types need no class name, so a union of them counts as one."""
    members = [member for member in get_args(union) if member is not type(None)]
    return [members[0]] if all(member in _PLAIN for member in members) else members


def _member(members: list[Any], name: str) -> Any:
    for member in members:
        if member.__name__ == name:
            return member
    raise ValueError(f"no class of this name is expected here: {name!r:.80}")


def _is_array(as_type: Any) -> bool:
    return get_origin(as_type) is np.ndarray


def _encode_array(array: NDArray[Any]) -> Any:
    if array.ndim == 1 and array.size > 1 and np.array_equal(array, np.arange(array.size)):
        return {_RANGE: int(array.size)}  # every cell of a grid, in order
    return array.tolist() if array.size else {"shape": list(array.shape)}


def _decode_array(data: Any, dtype: Any) -> NDArray[Any]:
    kind = get_args(dtype)[0]
    if isinstance(data, dict):
        return np.arange(data[_RANGE], dtype=kind) if _RANGE in data else np.zeros(data["shape"], dtype=kind)
    return np.array(data, dtype=kind)
