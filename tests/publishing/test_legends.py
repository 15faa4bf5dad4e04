"""A legend names what its picture has, and all of it."""

from __future__ import annotations

import re

import pytest

from tests.support.report_pages import ENTRIES, report_page

KEY = re.compile(r'key-([a-z-]+)" aria-hidden="true"></span>([^<]*)')


def legends(name: str, rows: int) -> list[dict[str, str]]:
    page = report_page(name, rows=rows).decode()
    return [dict(KEY.findall(figure)) for figure in re.findall(r'<figure class="plot">.*?</figure>', page, re.DOTALL)]


@pytest.mark.parametrize("name", sorted({*ENTRIES} - {"by_group"}))
def test_an_undefined_result_has_no_legend_of_absent_marks(name: str) -> None:
    # only what does not come from rows is drawn: a reference, a line without a slope of its own, cells, all weak
    lines, cells = {"chance", "zone", "curve", "point"}, {"speck"}
    there = {"line": lines, "lines": lines, "aggregates": cells, "table_by_hour": cells}.get(name, {"chance"})
    for keys in legends(name, 0):
        assert set(keys) <= there, keys


def test_the_dots_of_a_distribution_are_no_diamonds() -> None:
    [keys] = legends("ecdf", 4000)
    assert set(keys) == {"curve", "band", "band-outer", "dot"}
    assert keys["dot"] == "quantiles with intervals"


def test_a_picture_with_one_band_names_one() -> None:
    curve, gains = legends("ranking_figures", 4000)
    assert set(curve) - set(gains) == {"band-outer"}


def test_a_line_that_the_noise_does_not_hide_is_not_named_beside_a_hidden_one() -> None:
    [defined], [undefined] = legends("line", 4000), legends("line", 0)
    assert set(undefined) - set(defined) == {"chance"}


def test_a_note_on_small_plots_names_what_is_drawn_in_one_of_them() -> None:
    defined, undefined = (report_page("by_group", rows=rows).decode() for rows in (4000, 0))
    assert "Drawn: released curve, 90\xa0% band of each point, of the whole curve, chance." in defined
    assert "Drawn: chance." in undefined
    assert "released curve, 90" not in undefined
