"""Leaves out the entries of a plot's legend whose marks are not drawn in its picture."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from spark_jobs.publishing.theme import light

_STYLE = re.compile(r'style="([^"]*)"')
Style = Mapping[str, str]


def drawn(legend: tuple[tuple[str, str], ...], svg: bytes) -> tuple[tuple[str, str], ...]:
    """The entries of ``legend`` that have a mark in ``svg``, a picture in the light values of the colour tokens."""
    styles = [_style(text) for text in _STYLE.findall(svg.decode("utf-8"))]
    return tuple((key, label) for key, label in legend if _MARKS.get(key, _always)(styles))


def _style(text: str) -> Style:
    pairs = (part.partition(":") for part in text.split(";"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _always(styles: list[Style]) -> bool:
    return True


def _coloured(token: str) -> Callable[[list[Style]], bool]:
    return lambda styles: any(light(token) in (style.get("fill"), style.get("stroke")) for style in styles)


def _filled(token: str) -> Callable[[list[Style]], bool]:
    return lambda styles: any(light(token) == style.get("fill") for style in styles)


def _dashed(token: str) -> Callable[[list[Style]], bool]:
    # the frame of the axes has the colour of chance, and no dashes
    return lambda styles: any(light(token) == style.get("stroke") and "stroke-dasharray" in style for style in styles)


def _two_bands(styles: list[Style]) -> bool:
    return len({style.get("fill-opacity") for style in styles if style.get("fill") == light("curve")} - {None}) > 1


_MARKS: Mapping[str, Callable[[list[Style]], bool]] = {
    **dict.fromkeys(("curve", "band", "point", "right"), _coloured("curve")),
    **dict.fromkeys(("second", "outlier", "dot", "gap", "spent", "wrong"), _coloured("spent")),
    **dict.fromkeys(("zone", "speck"), _filled("chance")),
    "before": _filled("before"),
    "band-outer": _two_bands,
    "chance": _dashed("chance"),
    "earlier": _dashed("ink"),
}
"""What a picture with a mark of each key of the style sheet has; keys that are not listed are always named."""
