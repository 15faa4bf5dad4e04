import itertools

import numpy as np
import pytest

from spark_jobs.mechanisms.median_bounds import Line, part_medians
from spark_jobs.mechanisms.smooth_sensitivity import lower_median, median_bound


def one_by_one(cells, edges, smoothness):
    parts = [np.append(cells[start:end], 0) for start, end in itertools.pairwise(edges)]
    return (
        [2 * lower_median(part) for part in parts],
        [median_bound(part, smoothness=smoothness) for part in parts],
    )


def tables():
    rng = np.random.default_rng(8)
    for trial in range(300):
        cells = rng.integers(0, 5, size=rng.integers(1, 40)) * (rng.random() < 0.8)
        if trial % 3 == 0:
            cells = cells * (rng.random(cells.size) < 0.3) * rng.integers(1, 60)
        inner = np.sort(rng.integers(0, cells.size + 1, size=rng.integers(0, 6)))
        yield cells, np.concatenate([[0], inner, [cells.size]])


@pytest.mark.slow
@pytest.mark.parametrize("smoothness", [0.001, 0.02, 0.3, 2.0])
def test_parts_together_are_as_one_by_one(smoothness):
    for cells, edges in tables():
        made = part_medians(Line.of(cells), edges, smoothness=smoothness)
        doubled, bounds = one_by_one(cells, edges, smoothness)
        assert made.doubled.tolist() == doubled
        np.testing.assert_allclose(made.bounds, bounds, rtol=1e-12)


@pytest.mark.parametrize("rows", [300, 5000, 200_000])
def test_long_lines_are_as_one_by_one(rows):
    rng = np.random.default_rng(rows)
    cells = np.bincount((rng.beta(0.4, 3, rows) * 4096).astype(int), minlength=4096)
    edges = np.unique(np.concatenate([[0, 4096], rng.integers(0, 4096, 30)]))
    made = part_medians(Line.of(cells), edges, smoothness=0.02)
    doubled, bounds = one_by_one(cells, edges, 0.02)
    assert made.doubled.tolist() == doubled
    np.testing.assert_allclose(made.bounds, bounds, rtol=1e-12)
