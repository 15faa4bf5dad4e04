"""Tables that are made to agree: the estimates of least squares by explicit matrices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from spark_jobs.mechanisms.marginals import consistent

SIZES = (3, 4, 2)


@pytest.mark.parametrize(
    "tables", [[(0, 1, 2), (0,), (1, 2), ()], [(0, 1, 2), (0, 1), (1, 2), (0, 2)], [(0, 1, 2), ()], [(0, 1, 2)]]
)
def test_it_is_least_squares(tables):
    random = np.random.default_rng(len(tables))
    truth = random.poisson(30, SIZES).astype(float)
    costs = {table: random.uniform(0.1, 1) for table in tables}

    def of(values, table):
        return values.sum(axis=tuple(one for one in range(3) if one not in table))

    noisy = {table: of(truth, table) + random.normal(size=[SIZES[one] for one in table]) for table in tables}
    design, wanted = [], []
    for table in tables:
        for cell in itertools.product(*(range(SIZES[one]) for one in table)):
            row, place = np.zeros(SIZES), dict(zip(table, cell, strict=True))
            row[tuple(place.get(one, slice(None)) for one in range(3))] = costs[table]
            design.append(row.ravel())
            wanted.append(noisy[table][cell] * costs[table])
    fitted = np.linalg.lstsq(np.array(design), np.array(wanted), rcond=None)[0].reshape(SIZES)
    found = consistent({table: np.asarray(values)[None] for table, values in noisy.items()}, SIZES, costs)
    for table in tables:
        assert found[table][0] == pytest.approx(of(fitted, table), abs=1e-10)
