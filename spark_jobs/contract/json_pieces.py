"""Writes long JSON documents piece by piece, so that little memory is needed besides the text itself."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

_STEP = "  "
_PIECE = 4096
"""The number of values of a list that are read and written at once."""


def json_bytes(value: Any, *, end: str = "") -> bytes:
    """``value`` as JSON in UTF-8: the same text as ``json.dumps(value, indent=2, ensure_ascii=False)``.

    Args:
        value: plain JSON types, with texts as the names in objects. Any other sequence is written as a list, slice by
            slice, so that a long sequence need not be a list in memory.
        end: text after the document.

    Raises:
        TypeError: a value has no JSON type.
        ValueError: a number is not finite.
    """
    document = io.BytesIO()
    for piece in _pieces(value, "\n"):
        document.write(piece.encode())
    document.write(end.encode())
    return document.getvalue()


def _pieces(value: Any, line: str) -> Iterator[str]:
    """The text of ``value`` in pieces; ``line`` is the line break with the indentation of the place it is at."""
    within, encoder = line + _STEP, _encoder(line + _STEP)
    if isinstance(value, dict) and value:
        before = "{"
        for name, item in value.items():
            yield f"{before}{within}{encoder.encode(name)}: "
            yield from _pieces(item, within)
            before = ","
        yield line + "}"
    elif _is_list(value) and len(value):
        before = "["
        for start in range(0, len(value), _PIECE):
            part = list(value[start : start + _PIECE])
            if any(isinstance(item, dict) or _is_list(item) for item in part):
                for item in part:
                    yield before + within
                    yield from _pieces(item, within)
                    before = ","
            else:
                yield before + within + encoder.encode(part)[1:-1]
                before = ","
        yield line + "]"
    else:
        yield encoder.encode([] if _is_list(value) else value)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, Sequence) and not isinstance(value, (str, bytes)))


@cache
def _encoder(line: str) -> json.JSONEncoder:
    """The encoder of lists whose items are on lines of their own."""
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(f",{line}", ": "))
