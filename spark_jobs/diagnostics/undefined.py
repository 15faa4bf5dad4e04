"""What the results of all kinds share: null figures where a result is undefined, and fields as plain JSON types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.privacy import plain

R = TypeVar("R")
_PUBLIC = {"level", "confidence"}


def publishable(kind: str, result: R) -> R:
    """``result`` unchanged, or without the figures of its kind (None, NaN in arrays) if its status is ``undefined``."""
    undefined = getattr(result, "status", None) == UNDEFINED
    return without_figures(result, DIAGNOSTICS[kind].figures) if undefined else result


def without_figures(result: R, names: tuple[str, ...]) -> R:
    """``result`` with None in place of the numbers in these fields, and NaN in place of their arrays' values."""
    if not is_dataclass(result) or isinstance(result, type):
        raise TypeError(f"result: got {type(result).__name__}; must be a result")
    there = {field.name for field in fields(result)}
    return replace(result, **{name: _nothing(getattr(result, name)) for name in names if name in there})


def listed(values: NDArray[Any]) -> list[Any]:
    """An array as plain JSON types, with null for NaN."""
    return [_null(value) for value in values.tolist()]


@dataclass(frozen=True, eq=False)
class ListedArray(Sequence[Any]):
    """An array, read as ``listed`` without making the whole list, and equal to it; its slices are lists."""

    array: NDArray[Any]

    def __eq__(self, other: object) -> bool:
        """Whether both list the same values."""
        return isinstance(other, (ListedArray, list)) and list(self) == list(other)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, place: Any) -> Any:
        values = self.array[place]
        return listed(values) if isinstance(values, np.ndarray) else _null(values.item())


def plain_fields(result: Any) -> dict[str, Any]:
    """The fields of a result as plain JSON types: numbers and texts first, then arrays, with null for NaN."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    arrays = {name: listed(value) for name, value in values.items() if isinstance(value, np.ndarray)}
    return {**{name: _plain(value) for name, value in values.items() if name not in arrays}, **arrays}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, StrEnum):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _null(value: Any) -> Any:
    if isinstance(value, list):
        return [_null(item) for item in value]
    return None if isinstance(value, float) and value != value else value


def _nothing(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.full(value.shape, np.nan)
    if is_dataclass(value) and not isinstance(value, type):
        return without_figures(value, tuple(f.name for f in fields(value) if f.name not in _PUBLIC))
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        return tuple(map(_nothing, value))
    return None
