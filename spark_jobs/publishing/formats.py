"""Numbers and times as text, the same in every locale."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from spark_jobs.publishing.rendering import finite
from spark_jobs.wording.amounts import SPACE as SPACE

ABSENT = "\N{EN DASH}"
MONTHS = (  # strftime would follow the locale
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def percent(share: float | None) -> str:
    """A fraction in percent: ``12.5 %``; a dash if it is undefined."""
    return f"{100 * share:.1f}{SPACE}%" if finite(share) else ABSENT


def decimals(value: float | None, places: int = 3) -> str:
    """A number with ``places`` decimal places, without a negative zero; a dash if it is undefined."""
    return f"{round(value, places) + 0.0:.{places}f}" if finite(value) else ABSENT


def count(value: float | None) -> str:
    """A noisy count, at least 0: ``14,021``."""
    return f"{max(0, round(value)):,}" if finite(value) else ABSENT


def level(confidence: float) -> str:
    """A confidence level: ``90 %``."""
    return f"{100 * confidence:.4g}{SPACE}%"


def p_text(p: float, *, floor: float = 0.0) -> str:
    """A p-value: ``p = 0.046``; ``p ≤ 0.0005`` at the floor of its simulation; ``p < 0.0001`` below that."""
    if p < 0.0001:
        return f"p{SPACE}<{SPACE}0.0001"
    relation = "≤" if p <= 1.001 * floor else "="
    return f"p{SPACE}{relation}{SPACE}{p:.2g}" if p < 0.01 else f"p{SPACE}{relation}{SPACE}{decimals(p, 3)}"


def share_of(part: Decimal, whole: Decimal) -> Decimal:
    """``part / whole`` in percent, within 0 and 100, to two places: the width of a segment of a bar."""
    if whole <= 0:
        return Decimal(0)
    return min(Decimal(100), max(Decimal(0), 100 * part / whole)).quantize(Decimal("0.01"))


def moment(text: str) -> str:
    """An ISO 8601 time for people: ``21 November 2026, 01:20 UTC``; any other text unchanged."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return f"{time.day} {MONTHS[time.month - 1]} {time.year}, {time.hour:02}:{time.minute:02} UTC"


def size(octets: int) -> str:
    """A file's size: ``812 B``, ``43 kB``."""
    if octets < 1000:
        return f"{octets}{SPACE}B"
    return f"{octets / 1000:.0f}{SPACE}kB" if octets < 10**6 else f"{octets / 10**6:.1f}{SPACE}MB"


def one_line(text: str, limit: int) -> str:
    """A user's text for a plot: ``visible``, in one line of at most ``limit`` characters."""
    line = str(visible(text)).replace("\n", " ").replace("\t", " ")
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


_DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def visible(value: Any) -> Any:
    """``value``; in its texts, control and direction-changing characters become �: a page must read as its request."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_control(character) else character for character in value)


def _is_control(character: str) -> bool:
    if unicodedata.category(character) == "Cc":
        return character not in "\n\t"
    return unicodedata.bidirectional(character) in _DIRECTIONS
