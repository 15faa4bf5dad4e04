"""A plot inside the page: responsive, in the page's font and colours, with values shown under the pointer."""

from __future__ import annotations

import re
from html import escape

from spark_jobs.publishing.rendering import Plot, Probe
from spark_jobs.publishing.theme import as_variables

_OPENING = re.compile(r'<svg\b[^>]*\bviewBox="0 0 (?P<width>[0-9.]+) (?P<height>[0-9.]+)"[^>]*>')
_METADATA = re.compile(r"<metadata>.*?</metadata>|<title>.*?</title>|<style\b.*?</style>", re.DOTALL)
_FONT = re.compile(r"\s*font-family: [^;\"]+;?")
_IDS = re.compile(r'(\bid="|xlink:href="#|url\(#)')


def inline_svg(svg: bytes, plot: Plot) -> str:
    """The SVG of ``plot`` as an element of the page, in the page's colours; ids begin with the plot's name."""
    text = svg.decode("utf-8")
    opening = _OPENING.search(text)
    if opening is None:
        raise ValueError("the SVG has no viewBox")
    body = text[opening.end() : text.rindex("</svg>")]
    body = _IDS.sub(rf"\g<1>{plot.name}-", _FONT.sub("", _METADATA.sub("", body)))
    width, height = float(opening["width"]), float(opening["height"])
    probes = "".join(_probes(plot, width, height))
    opened = f'<svg viewBox="0 0 {width:g} {height:g}" aria-hidden="true" focusable="false">'
    return f"{opened}{as_variables(body)}{probes}</svg>"


def _probes(plot: Plot, width: float, height: float) -> list[str]:
    """One invisible strip per probe; the style sheet shows the values of the strip under the pointer."""
    left, bottom, wide, high = plot.axes
    x0, x1 = left * width, (left + wide) * width
    y0, y1 = (1 - bottom) * height, (1 - bottom - high) * height
    step = (x1 - x0) / max(1, len(plot.probes))
    return [
        _probe(
            probe,
            strip=(x0 + number * step, y1, step, y0 - y1),
            point=(
                x0 + probe.x * (x1 - x0),
                *(y0 - share * (y0 - y1) for share in (probe.y, probe.low, probe.high)),
            ),
            corner=(x1 - 0.02 * wide * width, y0 - 0.05 * high * height),
        )
        for number, probe in enumerate(plot.probes)
    ]


def _probe(probe: Probe, *, strip: tuple[float, ...], point: tuple[float, ...], corner: tuple[float, float]) -> str:
    x, y, low, high = point
    lines = "".join(
        f'<text x="{corner[0]:.1f}" y="{corner[1] - 15 * (len(probe.lines) - 1 - number):.1f}">{escape(line)}</text>'
        for number, line in enumerate(probe.lines)
    )
    return (
        f'<g class="probe"><rect x="{strip[0]:.2f}" y="{strip[1]:.1f}" width="{strip[2]:.2f}" height="{strip[3]:.1f}"/>'
        f'<g><path d="M{x:.1f} {low:.1f}V{high:.1f}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>{lines}</g></g>'
    )
