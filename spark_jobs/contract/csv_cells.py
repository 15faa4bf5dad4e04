"""Writes CSV (RFC 4180) that is safe in a spreadsheet: no text of a cell begins as a formula does."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that a spreadsheet would compute; a text that does is written after an apostrophe."""


def csv_line(cells: Iterable[object]) -> str:
    """One line of CSV; numbers are written as they are, and other texts as ``guarded`` returns them."""
    line = io.StringIO()
    csv.writer(line).writerow(map(_cell, cells))
    return line.getvalue()


def guarded(text: str) -> str:
    """The text after an apostrophe if a spreadsheet would compute it as a formula; numbers and other text unchanged."""
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def _cell(value: object) -> object:
    return guarded(value) if isinstance(value, str) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text
