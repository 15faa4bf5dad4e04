"""Scales of scores that a request states itself: ``bounds``, ``step`` and ``scale`` beside the column of scores.

They are replaced by the map that they define (``ScoreScale``), and thresholds are mapped to [0, 1]. The result is the
request that an equal domain of the column would give; reading it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from spark_jobs.contract.domain_checks import Domains
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import are_bounds
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.score_scale import ScoreScale
from spark_jobs.contract.values import Frozen

Fields = Mapping[str, Any]
STATED = ("bounds", "step", "scale")
"""What a request may state of the scores of a column."""
_WORDS = get_args(ScoreScale.model_fields["kind"].annotation)


def with_stated_scale(fields: Fields, domains: Domains | None = None) -> dict[str, Any]:
    """The fields of a request with the maps of its models' scores, and its thresholds moved to [0, 1].

    Args:
        fields: the fields of the request.
        domains: the domains of the table's columns; they supply what is missing where a request gives only some of
            bounds, step and scale.

    Raises:
        InvalidRequest: bounds, step and scale do not define a map, or a threshold is not on the scale.
    """
    filled = dict(fields)
    scale = None
    if fields.get("model") is not None:
        filled["model"], scale = mapped_model(fields["model"], "model", domains)
    given = fields.get("diagnostics")
    if given is not None:
        entries = given if isinstance(given, (list, tuple)) else [given]
        moved = [_entry(entry, scale, domains) for entry in entries]
        if any(one is not other for one, other in zip(moved, entries, strict=True)):
            filled["diagnostics"] = moved
    return filled


def mapped_model(given: Any, field: str, domains: Domains | None = None) -> tuple[Any, ScoreScale | None]:
    """The model with the map of its scores; and that map again, or None unless bounds, step or scale are stated.

    Raises:
        InvalidRequest: they do not define a map.
    """
    if not states_scale(given):
        return given, None
    stated = {name: given[name] for name in STATED if given.get(name) is not None}
    scale = _scale(stated, given.get("score"), domains, field)
    rest = {name: value for name, value in given.items() if name not in STATED}
    return {**rest, "scale": scale.model_dump(mode="json")}, scale


def states_scale(given: Any) -> bool:
    """Whether a model states bounds, step or scale of its scores, rather than the map that they make."""
    return (
        isinstance(given, Mapping)
        and given.get("kind") == "columns"
        and (any(given.get(name) is not None for name in ("bounds", "step")) or isinstance(given.get("scale"), str))
    )


def _scale(stated: Fields, name: Any, domains: Domains | None, field: str) -> ScoreScale:
    domain = None if domains is None else domains.domain(name)
    own = None if domain is None else ScoreScale.of(domain)
    word = stated.get("scale", "linear" if own is None else own.kind)
    if not isinstance(word, str) or word not in _WORDS:
        raise InvalidRequest(
            f"{field}.scale", word, f"must be one of {', '.join(_WORDS)} if bounds or a step are given",
            "choose one",
        )  # fmt: skip
    if word == "logit":
        for name in ("bounds", "step"):
            if name in stated:
                raise InvalidRequest(
                    f"{field}.{name}", stated[name], "may not be given with scale: logit, which has "
                    "no ends", "leave it out",
                )  # fmt: skip
        return ScoreScale(kind="logit")
    own = own if own is not None and own.kind == word else None
    ends = _bounds(stated.get("bounds", (0.0, 1.0) if own is None else own.ends))
    if ends is None:
        raise InvalidRequest(
            f"{field}.bounds", stated["bounds"], "must be two numbers in ascending order",
            "give public bounds of the scores, such as [300, 850]",
        )  # fmt: skip
    try:
        step = None if "step" not in stated else _number(stated["step"])
    except (TypeError, ValueError):
        raise InvalidRequest(
            f"{field}.step", stated["step"], "must be a number",
            "give the distance between neighbouring scores, such as 1 or 0.01",
        ) from None  # fmt: skip
    try:
        scale = ScoreScale.parse({"kind": word, "lower": ends[0], "upper": ends[1], "step": step})
    except InvalidRequest as refused:
        raise refused.within(field) from None
    apart = None if domains is None else domains.step(name)
    return scale if apart is None or step is not None else scale.in_steps(float(apart))


def _bounds(given: Any) -> tuple[float, float] | None:
    if not isinstance(given, (list, tuple)) or len(given) != 2:
        return None
    try:
        lower, upper = map(_number, given)
    except (TypeError, ValueError):
        return None
    return (lower, upper) if are_bounds((lower, upper)) else None


def _number(given: Any) -> float:
    if isinstance(given, bool):
        raise TypeError
    return float(given)


def _entry(given: Any, scale: ScoreScale | None, domains: Domains | None) -> Any:
    """An entry of a request's diagnostics, with its thresholds, and those of the kinds in it, on the scale."""
    if isinstance(given, Frozen):
        return given if scale is None else _moved(given, scale)
    if not isinstance(given, Mapping):
        return given
    filled = dict(given)
    if given.get("other") is not None:
        filled["other"], _ = mapped_model(given["other"], "diagnostics.other", domains)
    if scale is not None:
        for option in _thresholds_of(given):
            filled = on_scale(filled, option, scale)
        if given.get("kind") == "by_group" and isinstance(given.get("kinds"), (list, tuple)):
            filled["kinds"] = [_entry(inner, scale, domains) for inner in given["kinds"]]
    return given if filled == given else filled


def _moved(options: Frozen, scale: ScoreScale) -> Frozen:
    kinds, thresholds = getattr(options, "kinds", None), getattr(options, "thresholds", None)
    if isinstance(kinds, tuple):
        return options.changed(kinds=tuple(_moved(inner, scale) for inner in kinds))
    if not isinstance(thresholds, tuple) or not thresholds or getattr(options, "column", None) is not None:
        return options
    return options.changed(thresholds=moved_thresholds(thresholds, scale))


def _thresholds_of(entry: Fields) -> tuple[str, ...]:
    """The options of an entry that hold thresholds of the model's scores."""
    kind = entry.get("kind")
    options = DIAGNOSTICS.get(kind) if isinstance(kind, str) else None
    return () if options is None or entry.get("column") is not None else options.thresholds_of


def on_scale(entry: dict[str, Any], option: str, scale: ScoreScale) -> dict[str, Any]:
    """An entry with its thresholds, given on the scale of the scores, mapped to [0, 1].

    Raises:
        InvalidRequest: a threshold is not on the scale.
    """
    given = entry.get(option)
    if not isinstance(given, (list, tuple)):
        return entry
    try:
        scores = [float(threshold) for threshold in given]
    except (TypeError, ValueError):
        return entry  # refused with the rest of the request
    return {**entry, option: moved_thresholds(scores, scale)}


def moved_thresholds(scores: Iterable[float], scale: ScoreScale) -> list[float]:
    """Thresholds on a scale of scores, mapped to [0, 1].

    Raises:
        InvalidRequest: a threshold is not on the scale.
    """
    moved = []
    for score in scores:
        if not scale.holds(score):
            raise InvalidRequest(
                "diagnostics.thresholds", f"{score:.12g}",
                f"must lie on the scale of the scores, {scale.describe()}", "correct it",
            )  # fmt: skip
        moved.append(scale.place(score))
    return moved
