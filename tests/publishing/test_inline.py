"""Pictures inside the page: what a pointer can ask for is shown as text, whatever a user wrote."""

from spark_jobs.publishing.inline import inline_svg
from spark_jobs.publishing.rendering import Plot, Probe
from tests.support import publications as made

SVG = b'<svg width="10" viewBox="0 0 10 10"><g id="a"/></svg>'


def plot(*lines: str) -> Plot:
    probe = Probe(x=0.5, y=0.5, low=0.4, high=0.6, lines=lines)
    return Plot(name="p", title="", description="", draw=lambda alone: None, axes=(0, 0, 1, 1), probes=(probe,))


def test_a_line_of_a_probe_is_text_and_not_markup():
    text = inline_svg(SVG, plot("age < 30", made.HOSTILE))
    assert "age &lt; 30" in text
    assert "<script>" not in text
    assert "<img" not in text


def test_ids_are_the_plots_own():
    assert 'id="p-a"' in inline_svg(SVG, plot("x"))
