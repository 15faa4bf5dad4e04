"""What the demo shows on a terminal, or in a file when there is no terminal."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import TextIO

STYLES = {"bold": "1", "faint": "2", "green": "32", "yellow": "33", "red": "31", "cyan": "36"}
CLEAR_LINE = "\r\x1b[2K"


@dataclass(kw_only=True)
class Terminal:
    """Writes lines, with a moving one below them where the stream is a terminal that can show it.

    Attributes:
        stream: where to.
        coloured: whether to colour; ``Terminal.on`` finds out.
        moving: whether the last line may move.
    """

    stream: TextIO
    coloured: bool
    moving: bool
    _frames: cycle[str] = field(default_factory=lambda: cycle("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"))
    _started: float = field(default_factory=time.monotonic)

    @classmethod
    def on(cls, stream: TextIO, environ: Mapping[str, str] = os.environ) -> Terminal:
        """The terminal that ``stream`` is; ``NO_COLOR`` and ``TERM=dumb`` are honoured."""
        capable = stream.isatty() and environ.get("TERM", "dumb") != "dumb"
        return cls(stream=stream, coloured=capable and not environ.get("NO_COLOR"), moving=capable)

    def style(self, text: str, *styles: str) -> str:
        """``text`` in these styles, where colours are wanted."""
        if not self.coloured or not styles:
            return text
        return f"\x1b[{';'.join(STYLES[style] for style in styles)}m{text}\x1b[0m"

    def line(self, text: str = "") -> None:
        """Write one line."""
        self.stream.write(f"{CLEAR_LINE if self.moving else ''}{text}\n")
        self.stream.flush()

    def step(self, who: str, what: str, *styles: str) -> None:
        """Write one line of the run: when, who and what."""
        self.line(f"{self.style(f'{self._elapsed():6.1f} s', 'faint')}  {who:<8}{self.style(what, *styles)}")

    def wait(self, text: str) -> None:
        """Show that time passes."""
        if self.moving:
            when = self.style(f"{self._elapsed():6.1f} s", "faint")
            # a line that wraps could not be cleared again
            room = max(shutil.get_terminal_size().columns - 16, 0)
            self.stream.write(f"{CLEAR_LINE}{when}  {self.style(next(self._frames), 'cyan')} {text[:room]}")
            self.stream.flush()

    def _elapsed(self) -> float:
        return time.monotonic() - self._started


def curve_lines(
    fpr: Sequence[float],
    tpr: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    width: int = 48,
    height: int = 14,
) -> list[str]:
    """A ROC curve in characters: ``•`` the curve, ``░`` its band, ``·`` what guessing would give.

    The four sequences have one length; ``fpr`` does not fall, and runs from 0 to 1.
    """
    places = [(column + 0.5) / width for column in range(width)]
    values, low, high = ([_read(fpr, part, at) for at in places] for part in (tpr, lower, upper))
    return _plotted(values, low, high, height=height, behind=places)


def step_lines(
    values: Sequence[float], lower: Sequence[float], upper: Sequence[float], *, height: int = 10
) -> list[str]:
    """Steps in characters, a column for each: ``•`` the value, ``░`` its band, from 0 to the largest upper end."""
    top = max(upper) or 1.0
    scaled = ([value / top for value in part] for part in (values, lower, upper))
    return _plotted(*scaled, height=height)


def _plotted(
    values: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    height: int,
    behind: Sequence[float] = (),
) -> list[str]:
    """Values from 0 to 1 over their bands, a column for each; ``behind`` is drawn first."""
    rows = [[" "] * len(values) for _ in range(height)]

    def row_of(value: float) -> int:
        return height - 1 - min(int(value * height), height - 1)

    for column, value in enumerate(behind):
        rows[row_of(value)][column] = "·"
    for column, value in enumerate(values):
        for row in range(row_of(upper[column]), row_of(lower[column]) + 1):
            rows[row][column] = "░"
        rows[row_of(value)][column] = "•"
    return ["│" + "".join(row) for row in rows] + ["└" + "─" * len(values)]


def _read(x: Sequence[float], y: Sequence[float], at: float) -> float:
    """``y`` at ``at`` on the line through the points; the last of several points with one x counts."""
    right = next((index for index, value in enumerate(x) if value > at), len(x) - 1)
    left = max(right - 1, 0)
    span = x[right] - x[left]
    return y[left] + (y[right] - y[left]) * ((at - x[left]) / span if span > 0 else 1.0)
