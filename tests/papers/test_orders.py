import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.mechanisms.histograms.interface import on_a_line
from spark_jobs.papers.histograms.orders import line_order

SHAPES = st.tuples(st.integers(1, 20), st.integers(1, 20))


@given(SHAPES)
def test_an_order_visits_every_cell_once(shape):
    assert sorted(line_order(shape)) == list(range(shape[0] * shape[1]))


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (8, 8), (32, 32), (2, 40), (40, 3)])
def test_squares_and_strips_are_walked_without_a_jump(shape):
    rows, columns = np.divmod(line_order(shape), shape[1])
    assert (np.abs(np.diff(rows)) + np.abs(np.diff(columns)) == 1).all()


def test_every_dyadic_piece_of_a_hilbert_curve_is_a_square_or_two():
    rows, columns = np.divmod(line_order((16, 16)), 16)
    for length in (4, 16, 64):
        for start in range(0, 256, length):
            piece = slice(start, start + length)
            assert np.ptp(rows[piece]) == np.ptp(columns[piece]) == length**0.5 - 1


def test_a_line_keeps_its_order():
    np.testing.assert_array_equal(line_order((7,)), np.arange(7))


@given(SHAPES)
def test_cells_come_back_to_their_places(shape):
    counts = np.arange(shape[0] * shape[1]).reshape(shape)
    np.testing.assert_array_equal(on_a_line(lambda line: line.astype(float), counts, line_order(shape)), counts)
