"""Pictures as they are published, and the texts that a reader sees on them."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from spark_jobs.publishing import figures, stamp
from spark_jobs.publishing.rendering import Plot


def drawn(plot: Plot, *, alone: bool) -> tuple[Figure, list[Text]]:
    """A plot with its stamp, and every text that is seen; all of them lie within the picture."""
    with figures.fixed_settings():
        figure = plot.draw(alone)
        stamp.stamp_figure(figure, stamp.marks("NOT PRIVATE", "UNCHARGED"))
        figures.png_bytes(figure, description="")
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    width, height = figure.get_size_inches() * figure.dpi
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text() and text.get_visible()]
    for text in texts:
        box = text.get_window_extent(renderer)
        assert 0 <= box.x0 <= box.x1 <= width, f"{text.get_text()!r} is cut off"
        assert 0 <= box.y0 <= box.y1 <= height, f"{text.get_text()!r} is cut off"
    return figure, texts


def assert_no_ticks_collide(figure: Figure) -> None:
    """Neighbouring labels of each axis have room between them."""
    for axes in figure.axes:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            boxes = [label.get_window_extent() for label in labels if label.get_text()]
            assert not any(one.overlaps(other) for one, other in pairwise(boxes))
