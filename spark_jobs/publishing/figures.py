"""Plots as bytes that depend on their content alone.

They use matplotlib's defaults instead of the user's settings, its own font instead of the machine's, fixed ids and no
date. ``pyplot`` and its global state are never imported.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import RcKeyType

from spark_jobs.publishing.theme import light

PNG_DPI = 200
LEGEND_SIZE = 8.5
_FONTS = Path(mpl.get_data_path(), "fonts", "ttf")
_SETTINGS: dict[RcKeyType, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "svg.fonttype": "none",  # text stays text, for screen readers, search and style sheets
    "svg.hashsalt": "differentially-private-diagnostics",
    "text.parse_math": False,
    "axes.formatter.use_locale": False,
}


@contextmanager
def fixed_settings() -> Iterator[None]:
    """A context with matplotlib's defaults and this module's settings, whatever the user's configuration."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def new_axes(
    size: tuple[float, float], box: tuple[float, float, float, float], *, x_label: str, y_label: str
) -> tuple[Figure, Axes]:
    """A figure of ``size`` inches with one plain set of axes at ``box`` (fractions of the figure)."""
    figure = Figure(figsize=size, facecolor="white")
    axes = figure.add_axes(box)
    axes.set_facecolor("none")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(light("chance"))
    axes.tick_params(colors=light("muted"), labelsize=9, length=0, pad=6)
    axes.grid(color=light("hairline"), linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(x_label, color=light("ink"), size=10, labelpad=8)
    axes.set_ylabel(y_label, color=light("ink"), size=10, labelpad=8)
    return figure, axes


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The sizes of a plot that is drawn twice: in the report, and as a file of its own with a heading.

    Attributes:
        width, height: size of the file's plot in inches, without its heading.
        heading: height of the heading in inches.
        small: width in the report, in inches; it is small so that text stays legible on a phone.
        box: left, bottom, width and height of the axes, as fractions of the plot without its heading.
    """

    width: float
    height: float
    heading: float
    small: float
    box: tuple[float, float, float, float]

    def axes(self, *, alone: bool, x_label: str, y_label: str) -> tuple[Figure, Axes]:
        """A figure with one plain set of axes, and room for a heading above them if it stands ``alone``."""
        left, bottom, wide, high = self.box
        size = (
            (self.width, self.height + self.heading) if alone else (self.small, self.small * self.height / self.width)
        )
        share = self.height / (self.height + self.heading) if alone else 1.0
        return new_axes(size, (left, bottom * share, wide, high * share), x_label=x_label, y_label=y_label)


def heading(figure: Figure, *, left: float, title: str, lines: tuple[str, ...]) -> None:
    """A title, and lines below it, at the top of a plot that stands alone."""
    height = float(figure.get_size_inches()[1])
    figure.text(left, 1 - 0.22 / height, title, color=light("ink"), size=14, weight="bold", va="top")
    for number, line in enumerate(lines):
        figure.text(left, 1 - (0.52 + 0.22 * number) / height, line, color=light("muted"), size=9.5, va="top")


def set_ticks(axes: Axes, across: tuple[float, float], upwards: tuple[float, float]) -> None:
    """Set the ends of both axes, and round ticks within them."""
    axes.set_xlim(across)
    axes.set_ylim(upwards)
    for axis, (low, high) in ((axes.xaxis, across), (axes.yaxis, upwards)):
        ticks = MaxNLocator(nbins=7, steps=[1, 2, 5, 10]).tick_values(low, high)
        axis.set_ticks([tick for tick in ticks if low <= tick <= high])


def draw_undefined(axes: Axes, why: str, *, height: float = 0.72) -> None:
    """Write "undefined", and why, at ``height`` (a fraction of the axes) in an empty plot."""
    middle = axes.transAxes
    axes.text(0.5, height, "undefined", color=light("muted"), size=20, ha="center", transform=middle)
    axes.text(0.5, height - 0.08, why, color=light("muted"), size=10, ha="center", transform=middle)


def legend_above(axes: Axes, *, columns: int) -> None:
    """A legend above the axes, where it hides nothing."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=columns,
        fontsize=LEGEND_SIZE,
        labelcolor=light("ink"),
        frameon=False,
        handlelength=1.4,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def svg_bytes(figure: Figure, *, title: str, description: str) -> bytes:
    """The figure as SVG."""
    _pin_fonts(figure)
    buffer = io.BytesIO()
    metadata = {"Title": title, "Description": description, "Date": None, "Creator": None}
    figure.savefig(buffer, format="svg", metadata=metadata)
    return buffer.getvalue()


def png_bytes(figure: Figure, *, description: str) -> bytes:
    """The figure as PNG."""
    _pin_fonts(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None, "Description": description})
    return buffer.getvalue()


def _pin_fonts(figure: Figure) -> None:
    """Measure and draw all text in the font that matplotlib ships, not in one of the machine's."""
    for text in figure.findobj(Text):
        if isinstance(text, Text):
            font = text.get_fontproperties().copy()
            font.set_file(str(_FONTS / ("DejaVuSans-Bold.ttf" if font.get_weight() == "bold" else "DejaVuSans.ttf")))
            text.set_fontproperties(font)
