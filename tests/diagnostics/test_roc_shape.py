import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from spark_jobs.diagnostics.roc_curve.shape import (
    area,
    areas_of_cells,
    choose_points,
    counts_above,
    edges,
    evenly_deep,
    read,
    read_straight,
)
from spark_jobs.mechanisms.cells import equal_log_odds, equal_width

GRID = 4096


def curve_of(negatives, positives, cuts, tied=False):
    above = (counts_above(np.asarray(counts, dtype=float)) for counts in (negatives, positives))
    return edges(cuts[::-1], *above, tied=tied)


@st.composite
def curves(draw):
    cells = draw(st.integers(1, 30))
    counts = st.lists(st.integers(-5, 50), min_size=cells, max_size=cells)
    return curve_of(draw(counts), draw(counts), equal_log_odds(GRID, cells), tied=draw(st.booleans()))


@given(curve=curves(), count=st.integers(2, 300))
@settings(deadline=None)
def test_points_are_distinct_thresholds_down_to_zero(curve, count):
    points = choose_points(curve, count)
    assert points.cuts.size == count
    assert points.cuts[-1] == 0
    assert points.cuts[0] < GRID
    assert (np.diff(points.cuts) < 0).all()
    assert ((points.fraction > 0) & (points.fraction <= 1)).all()
    # each lies in the cell it is said to lie in, every edge of which is a point if there is room
    assert (points.cuts < curve.cuts[points.cell]).all()
    assert (points.cuts >= curve.cuts[points.cell + 1]).all()
    if count >= curve.cuts.size - 1:
        assert set(curve.cuts[1:]) <= set(points.cuts)


@given(curve=curves(), count=st.integers(2, 300))
@settings(deadline=None)
def test_areas_of_cells_are_those_between_their_edges(curve, count):
    points = choose_points(curve, count)
    fpr, tpr = read(curve, points, curve.straight)
    cells = areas_of_cells(fpr, tpr, points)
    assert cells.sum() == pytest.approx(area(fpr, tpr), abs=1e-12)
    if count >= curve.cuts.size - 1:
        line = areas_of_cells(*read_straight(curve, points), points)
        trapezoids = np.diff(curve.fpr) * (curve.tpr[1:] + curve.tpr[:-1]) / 2
        np.testing.assert_allclose(line, trapezoids, atol=1e-12)


@given(curve=curves(), count=st.integers(2, 300))
@settings(deadline=None)
def test_a_curve_never_falls_and_meets_its_edges(curve, count):
    points = choose_points(curve, count)
    for fpr, tpr in (read(curve, points, curve.straight), read_straight(curve, points)):
        for rate, at_edges in ((fpr, curve.fpr), (tpr, curve.tpr)):
            assert rate[0] == 0
            assert rate[-1] == 1
            assert (np.diff(rate) >= -1e-12).all()
            whole = np.flatnonzero(points.fraction == 1)
            np.testing.assert_allclose(rate[1:][whole], at_edges[points.cell[whole] + 1], atol=1e-12)


@given(curve=curves(), data=st.data())
@settings(deadline=None)
def test_kept_edges_are_distinct_and_include_both_ends(curve, data):
    cells = data.draw(st.integers(1, curve.cuts.size - 1))
    index = evenly_deep(curve, cells)
    assert index.size == cells + 1
    assert index[0] == 0
    assert index[-1] == curve.cuts.size - 1
    assert (np.diff(index) > 0).all()


@pytest.mark.parametrize("auc", [0.7, 0.9, 0.95])
@pytest.mark.parametrize("cells", [6, 12, 24])
def test_smooth_scores_lose_far_less_area_than_chords_do(auc, cells):
    distance = np.sqrt(2) * norm.ppf(auc)
    # cells of equal depth of the mixture, and the exact shares of both classes in them
    mixture = np.linspace(-9, 9, 200_001)
    depth = (norm.cdf(mixture + distance / 2) + norm.cdf(mixture - distance / 2)) / 2
    at = np.interp(np.linspace(0, 1, cells + 1)[1:-1], depth, mixture)
    shares = [np.diff(np.concatenate([[0], norm.cdf(at + side), [1]])) * 1e6 for side in (distance / 2, -distance / 2)]
    curve = curve_of(*shares, equal_width(GRID, cells))
    points = choose_points(curve, 512)
    smooth, chords = area(*read(curve, points, curve.straight)), area(*read_straight(curve, points))
    assert chords == pytest.approx(auc - 0.32 / cells**2, abs=0.15 / cells**2)
    assert abs(smooth - auc) < 0.25 * abs(chords - auc)


def test_scores_that_seem_tied_keep_the_chords_of_crowded_cells_alone():
    """Atoms are in narrow cells; between them, scores may lie anywhere, and the curve is bent."""
    cuts = np.array([0, 1000, 1004, 2000, 2004, GRID])
    negatives, positives = [25, 40, 15, 15, 5], [5, 20, 15, 30, 30]
    curve, free = (curve_of(negatives, positives, cuts, tied=tied) for tied in (True, False))
    np.testing.assert_array_equal(curve.single, [False, True, False, True, False])
    points = choose_points(curve, 100)
    (fpr, tpr), (line_fpr, line_tpr) = read(curve, points, curve.straight), read_straight(curve, points)
    off = np.abs(np.interp(line_fpr + line_tpr, fpr + tpr, tpr) - line_tpr)[1:]
    inside = points.fraction < 1
    assert off[inside & curve.single[points.cell]].max() < 1e-9
    assert off[inside & (points.cell == 0)].max() > 1e-3
    assert off[~inside].max() < 1e-9
    assert area(*read(free, points, free.straight)) > area(fpr, tpr) > area(line_fpr, line_tpr)


def test_scores_of_few_values_keep_all_their_chords():
    """Wide cells with a value each, and empty ones between them: nothing there is bent, crowded cells or not."""
    cuts = np.array([0, 3, 600, 1200, 1800, 2400, 2402, 3000, 3300, 3700, GRID])
    one_crowded, none_crowded = [0, 30, 0, 0, 0, 35, 0, 0, 30, 5], [0, 30, 0, 30, 0, 0, 0, 35, 0, 5]
    for counts in (one_crowded, none_crowded):
        assert curve_of(counts, counts, cuts, tied=True).single.all()
        assert not curve_of(counts, counts, cuts, tied=False).single.any()


def test_a_cell_far_deeper_than_the_others_is_taken_for_a_tie():
    counts = [1.0] * 12 + [100.0]
    curve = curve_of(counts, counts[::-1], equal_width(GRID, 13))
    np.testing.assert_array_equal(np.flatnonzero(curve.straight), [0, 12])


def test_counts_above_reads_from_the_top_and_row_by_row():
    np.testing.assert_array_equal(
        counts_above(np.array([[1.0, 2.0, 4.0], [0.0, 1.0, 0.0]])), [[0, 4, 6, 7], [0, 0, 1, 1]]
    )


def test_an_outermost_cell_with_hardly_a_row_does_not_turn_the_curve_beside_it():
    """The curve leaves its end towards the first edge that holds something, wherever an edge before it lies."""
    grid, cuts = 1 << 16, np.array([0, 20_000, 40_000, 60_000, 1 << 16])
    score = norm.cdf(norm.ppf(cuts / grid))
    negatives, positives = (10_000 * np.diff(norm.cdf(norm.ppf(score) - shift)) for shift in (-0.8, 0.8))
    whole = curve_of(negatives, positives, cuts)
    cuts, (negatives, positives) = np.insert(cuts, 4, 65_530), (np.append(each, 0.0) for each in (negatives, positives))
    positives[-2:] += -1.0, 1.0
    apart = curve_of(negatives, positives, cuts)
    areas = [area(*read(curve, choose_points(curve, 256), curve.straight)) for curve in (whole, apart)]
    assert areas[0] == pytest.approx(areas[1], abs=3e-4)
