"""Short forms of measures: errors of a model's predictions of numbers, and coverage of its prediction intervals.

``{outcome, prediction, largest_error, figures}`` is the measure ``outcome - prediction`` with bounds of plus and minus
the largest error; ``r2`` also needs the standard deviation of the outcome, which is then released too. ``{outcome,
lower, upper}`` is the measure ``outcome BETWEEN lower AND upper``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.measures import COVERAGE
from spark_jobs.contract.privacy import exact_decimal

DEFAULT_FIGURES = ("mae", "rmse", "bias")
_PLAIN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_OF_ERRORS = ("outcome", "prediction", "largest_error", "bounds", "step", "figures")
_OF_INTERVALS = ("outcome", "lower", "upper", "figures")


def is_short(entry: Any) -> bool:
    """Whether an entry of ``measures`` is a short form: it has an ``outcome`` and no ``of``."""
    return isinstance(entry, Mapping) and entry.get("of") is None and entry.get("outcome") is not None


def is_of_intervals(entry: Mapping[str, Any]) -> bool:
    """Whether a short form is about prediction intervals."""
    return entry.get("lower") is not None or entry.get("upper") is not None


def lacks_bounds(entry: Any) -> bool:
    """Whether a short form needs bounds of its outcome, and lacks them."""
    if not is_short(entry) or is_of_intervals(entry) or entry.get("bounds") is not None:
        return False
    return entry.get("largest_error") is None or "r2" in _names(entry.get("figures"))


def in_full(entries: Any) -> Any:
    """Measures with short forms written out in full; a value that is not a list is returned unchanged.

    Raises:
        InvalidRequest: a short form lacks a field, or has an unknown one.
    """
    if not isinstance(entries, list) or not any(map(is_short, entries)):
        return entries
    full: list[Any] = []
    outcomes: list[dict[str, Any]] = []
    for entry in entries:
        if not is_short(entry):
            full.append(entry)
        elif is_of_intervals(entry):
            full.append(_coverage(entry))
        else:
            full.append(_errors(entry))
            if "r2" in full[-1]["figures"]:
                outcomes.append(_outcome(entry))
    for outcome in outcomes:
        place = next((at for at, one in enumerate(full) if _same(one, outcome)), None)
        if place is None:
            full.append(outcome)
        else:
            full[place] = _with_spread(full[place])
    return full


def _errors(entry: Mapping[str, Any]) -> dict[str, Any]:
    _require_only(entry, _OF_ERRORS, "outcome and prediction")
    outcome, prediction = (_required(entry, name) for name in ("outcome", "prediction"))
    largest, bounds = entry.get("largest_error"), entry.get("bounds")
    size = _number(largest)
    if largest is None and isinstance(bounds, (list, tuple)) and len(bounds) == 2:
        low, high = map(_number, bounds)
        size = None if low is None or high is None else high - low
    if size is None or not size > 0:
        raise InvalidRequest(
            "largest_error", largest, "must be a number above 0, or must be left out together with valid bounds of the "
            "outcome, from which it is derived",
            "give the size above which an error is clipped",
        )  # fmt: skip
    figures = list(DEFAULT_FIGURES) if entry.get("figures") is None else entry["figures"]
    if "r2" in _names(figures) and bounds is None:
        raise InvalidRequest(
            f"{outcome}.bounds", None, "is required for r2, because the account declares no domain for the outcome",
            "give public bounds of the outcome, such as [0, 5000], or have a domain declared: `dp-budget domains`",
        )  # fmt: skip
    return {
        "of": f"{_part(outcome)} - {_part(prediction)}", "bounds": [-size, size],
        "figures": figures, "outcome": outcome, "prediction": prediction,
    }  # fmt: skip


def _outcome(entry: Mapping[str, Any]) -> dict[str, Any]:
    step = {} if entry.get("step") is None else {"step": entry["step"]}
    return {"of": entry["outcome"], "bounds": entry["bounds"], **step, "figures": ["sd"]}


def _coverage(entry: Mapping[str, Any]) -> dict[str, Any]:
    _require_only(entry, _OF_INTERVALS, "outcome, lower and upper")
    outcome, lower, upper = (_required(entry, name) for name in ("outcome", "lower", "upper"))
    return {
        "of": f"{_part(outcome)} BETWEEN {_part(lower)} AND {_part(upper)}", "bounds": [0.0, 1.0], "step": 1.0,
        "figures": [COVERAGE] if entry.get("figures") is None else entry["figures"],
        "outcome": outcome, "lower": lower, "upper": upper,
    }  # fmt: skip


def _same(entry: Any, outcome: Mapping[str, Any]) -> bool:
    return isinstance(entry, Mapping) and entry.get("of") == outcome["of"]


def _with_spread(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A measure of an outcome, with its standard deviation."""
    figures = list(_names(entry.get("figures"))) or ["mean", "sum"]
    return dict(entry) if {"sd", "variance"} & set(figures) else {**entry, "figures": [*figures, "sd"]}


def _names(figures: Any) -> tuple[str, ...]:
    return tuple(map(str, figures)) if isinstance(figures, (list, tuple)) else ()


def _number(value: Any) -> float | None:
    """A number as documents and rendered templates have it, the latter as text; None for anything else."""
    try:
        return float(exact_decimal(value))
    except (InvalidRequest, OverflowError):
        return None


def _required(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidRequest(
            name, value, "must be a column of numbers or an expression", "name the column, or write the expression"
        )
    return value


def _require_only(entry: Mapping[str, Any], names: tuple[str, ...], what: str) -> None:
    for name in entry:
        if name not in names:
            raise InvalidRequest(
                name,
                None,
                f"is not an option of a measure by {what}",
                f"leave it out: such a measure has the options {', '.join(names)}",
            )


def _part(text: str) -> str:
    """A column or an expression as a part of one."""
    return text if _PLAIN.fullmatch(text) else f"({text})"
