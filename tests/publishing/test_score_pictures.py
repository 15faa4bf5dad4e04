"""The pictures of single figures, confusion matrices and compared curves: whatever was released can be read."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.results.score_figures import RATES
from spark_jobs.diagnostics import auc, confusion_matrix
from spark_jobs.diagnostics.confusion_matrix.plots import _apart
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.publishing.formats import p_text, percent
from spark_jobs.statistics import ScoreCounts
from tests.support import publications as made
from tests.support.pictures import drawn


def counts(rows: int = 3000) -> ScoreCounts:
    random = np.random.default_rng(4)
    labels = random.random(rows) < 0.35
    return ScoreCounts.from_arrays(labels, np.clip(random.normal(0.4 + 0.25 * labels, 0.2), 0, 1))


RELEASED = auc.release(counts(), epsilon=1, noise=SeededNoise(1))


def area(value, low, high):
    return replace(RELEASED, figure=replace(RELEASED.figure, value=value, interval=Ends(low, high)))


FIGURES = {
    "plain": RELEASED,
    "wide": area(0.5, 0.0, 1.0),
    "at the end": area(1.0, 0.98, 1.0),
    "at the other end": area(0.0, 0.0, 0.01),
    "hardly any noise": area(0.73412, 0.73411, 0.73413),
    "no width": area(0.7, 0.7, 0.7),
    "no interval": replace(
        RELEASED, status="unchecked", figure=Figure(value=RELEASED.value), positives=None, negatives=None
    ),
    "undefined": replace(RELEASED, status="undefined"),
    "beyond the interval": area(0.4, 0.6, 0.8),
}


def matrix(thresholds: tuple[float, ...], *, rows: int = 3000, epsilon: float = 1) -> Any:
    return confusion_matrix.release(counts(rows), epsilon=epsilon, thresholds=thresholds, noise=SeededNoise(2))


MATRICES = {
    "one": matrix((0.5,)),
    "one, all flagged": matrix((0.0,)),
    "one, none flagged": matrix((1.0,)),
    "one, no rows": matrix((0.5,), rows=0, epsilon=0.01),
    "many": matrix((0.1, 0.3, 0.5, 0.7)),
    "to the ends": matrix((0.0, 0.5, 1.0)),
    "a hundred": matrix(tuple(np.linspace(0.005, 0.995, 100).round(3))),
    "many, no rows": matrix((0.1, 0.9), rows=0, epsilon=0.01),
}


def shown(kind: str, found: Any, *, alone: bool = False) -> tuple[Axes, list[Text]]:
    """The axes of a kind's picture, and every text on it."""
    (plot,) = made.render(kind, found, made.request(diagnostics=[kind])).plots
    figure, texts = drawn(plot, alone=alone)
    return figure.axes[0], texts


@pytest.mark.sampled("name")
@pytest.mark.slow
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_can_be_read(name: str, alone: bool) -> None:
    axes, texts = shown("auc", FIGURES[name], alone=alone)
    told = [text.get_text() for text in texts]
    assert {"0", "1 perfect", "½ chance"} <= set(told)
    assert ("undefined" in told) == (name == "undefined")
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert len(dots) == {"undefined": 0, "no interval": 1}.get(name, 2)


@pytest.mark.parametrize("alone", [False, True])
def test_undefined_is_written_clear_of_the_scale(alone: bool) -> None:
    axes, texts = shown("auc", FIGURES["undefined"], alone=alone)
    [word] = [text for text in texts if text.get_text() == "undefined"]
    [why] = [text for text in texts if text.get_text() == "a class has too few rows"]
    above = min(text.get_window_extent().y0 for text in texts if text.get_text() in ("0", "1 perfect", "½ chance"))
    lines = min(line.get_window_extent().y0 for line in axes.lines)
    assert word.get_window_extent().y1 < min(above, lines)
    assert why.get_window_extent().y1 < word.get_window_extent().y0


def test_sizes_that_were_paid_for_are_not_said_to_be_missing() -> None:
    def notes(name: str) -> str:
        return " ".join(made.render("auc", FIGURES[name], made.request(diagnostics=["auc"])).section.notes)

    assert "which were not paid for" in notes("no interval")
    assert notes("undefined") == ""
    assert "measures the noise alone" in notes("plain")


def test_the_closer_look_shows_the_interval_and_the_value() -> None:
    _, texts = shown("auc", FIGURES["hardly any noise"])
    told = {text.get_text() for text in texts}
    assert {"0.7341", "½ chance"} <= told
    axes, texts = shown("auc", RELEASED)
    assert RELEASED.interval is not None
    closer, whole = (line for line in axes.lines if line.get_marker() == "o")
    assert whole.get_xdata()[0] == RELEASED.value
    assert 0.2 < closer.get_xdata()[0] < 0.8


@pytest.mark.sampled("name")
@pytest.mark.slow
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_can_be_read(name: str, alone: bool) -> None:
    found = MATRICES[name]
    axes, texts = shown("confusion_matrix", found, alone=alone)
    told = {text.get_text() for text in texts}
    if found.thresholds.size == 1:
        tiles = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        assert len(tiles) == 4
        assert {"TP, correct", "FN, incorrect", "FP, incorrect", "TN, correct"} <= told
    if found.status == "ok" or found.thresholds.size == 1:
        assert {"Accuracy", "Precision", "Recall", "Specificity", "F1"} <= told
    assert ("undefined" in told) == (found.status != "ok") or name == "one, none flagged"


def test_tiles_are_as_dark_as_their_share_of_a_class() -> None:
    axes, _ = shown("confusion_matrix", MATRICES["one, all flagged"])
    caught, missed, alarms, left = (patch.get_alpha() for patch in axes.patches if isinstance(patch, Rectangle))
    assert caught > missed
    assert alarms > left
    assert (caught, missed) == pytest.approx((0.42, 0.08), abs=0.02)


@pytest.mark.parametrize("heights", [[0.5] * 5, [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0.9, 0.1, 0.11, 0.12, 0.5]])
def test_names_at_the_lines_do_not_lie_upon_each_other(heights: list[float]) -> None:
    placed = _apart(np.array(heights, dtype=float))
    assert all(high - low > 0.05 for low, high in pairwise(sorted(placed)))
    assert placed.min() >= 0
    assert placed.max() <= 1
    assert list(np.argsort(placed, kind="stable")) == list(np.argsort(heights, kind="stable"))


def test_p_values_that_simulation_cannot_tell_from_less_are_bounds() -> None:
    shown = {p_text(p, floor=0.0025).replace("\N{NO-BREAK SPACE}", " ") for p in (0.0025, 0.0051, 0.0456, 0.2)}
    assert shown == {"p ≤ 0.0025", "p = 0.0051", "p = 0.046", "p = 0.200"}
    assert p_text(0.00004).endswith("<\N{NO-BREAK SPACE}0.0001")


def test_the_report_states_what_the_noise_makes_of_the_interval_for_the_population() -> None:
    [one, many, undefined] = (
        made.render("confusion_matrix", MATRICES[name], made.request()).section.measures
        for name in ("one", "many", "many, no rows")
    )
    share = percent(float(MATRICES["one"].recall.privacy_share[0]))
    assert f"of which the noise makes {share}" in next(item.note for item in one if item.label == "Recall")
    shares = np.stack([getattr(MATRICES["many"], rate).privacy_share for rate in RATES])
    assert ("Share of the noise", percent(float(np.nanmedian(shares)))) in [(item.label, item.value) for item in many]
    assert ("Share of the noise", "\N{EN DASH}") in [(item.label, item.value) for item in undefined]
