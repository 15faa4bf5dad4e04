"""Results without figures: what is released where noisy sizes cannot be told from noise."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.options import DIAGNOSTICS

R = TypeVar("R")
_PUBLIC = {"level", "confidence"}


def publishable(kind: str, result: R) -> R:
    """``result`` as it is; where its status is ``undefined``, with None or NaN for each of the kind's figures."""
    undefined = getattr(result, "status", None) == UNDEFINED
    return without_figures(result, DIAGNOSTICS[kind].figures) if undefined else result


def without_figures(result: R, names: tuple[str, ...]) -> R:
    """``result`` with None for the numbers in these fields, and NaN in arrays."""
    if not is_dataclass(result) or isinstance(result, type):
        raise TypeError(f"result: got {type(result).__name__}; must be a result")
    there = {field.name for field in fields(result)}
    return replace(result, **{name: _nothing(getattr(result, name)) for name in names if name in there})


def listed(values: NDArray[Any]) -> list[Any]:
    """An array as plain JSON types, with null for NaN."""
    return [_null(value) for value in values.tolist()]


def _null(value: Any) -> Any:
    if isinstance(value, list):
        return [_null(each) for each in value]
    return None if isinstance(value, float) and value != value else value


def _nothing(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.full(value.shape, np.nan)
    if is_dataclass(value) and not isinstance(value, type):
        return without_figures(value, tuple(f.name for f in fields(value) if f.name not in _PUBLIC))
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        return tuple(map(_nothing, value))
    return None
