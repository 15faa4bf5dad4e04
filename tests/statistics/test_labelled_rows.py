"""Gradients and Hessians of a logistic log likelihood over clipped, rounded rows, against numpy's on the same rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.fits import COEFFICIENT_STEPS, ROUNDING
from spark_jobs.statistics.labelled_rows import Bounded, LabelledRowCells, LabelledRows, Levels
from spark_jobs.statistics.lattice import LATTICE

DESIGN = LabelledRowCells(
    features=(Bounded(name="age", lower=18, upper=80),),
    categorical=(
        Levels(column="region", levels=("north", "south", "west")),
        Levels(column="member", levels=("0", "1")),
    ),
)
POSITION = np.array([-2 * COEFFICIENT_STEPS, COEFFICIENT_STEPS, 3 * COEFFICIENT_STEPS, -COEFFICIENT_STEPS // 3, 77])


def table(count, seed=3):
    random = np.random.default_rng(seed)
    columns = {
        "age": random.normal(50, 30, count),
        "region": random.choice(["north", "south", "west", "elsewhere"], count),
        "member": random.integers(0, 2, count),
    }
    return columns, random.integers(0, 2, count)


def test_sums_are_gradient_and_hessian_up_to_rounding():
    columns, label = table(80_000)
    found = LabelledRows.from_arrays(columns, label, design=DESIGN).sums_at(POSITION)
    age = np.floor((np.clip(columns["age"], 18, 80) - 49) / 31 * LATTICE + 0.5) / LATTICE
    levels = [columns["region"] == "south", columns["region"] == "west", 2 * columns["member"] - 1]
    z = np.stack([np.ones(label.size), age, *levels], axis=1).astype(float)
    p = expit(z @ POSITION / COEFFICIENT_STEPS)
    gradient, hessian = z.T @ (label - p), (z * (p * (1 - p))[:, None]).T @ z
    error = 0.1 * label.size / (LATTICE * ROUNDING)
    np.testing.assert_allclose(found.gradient / (LATTICE * ROUNDING), gradient, atol=error)
    np.testing.assert_allclose(found.hessian / (LATTICE**2 * ROUNDING), hessian, atol=error)


def test_class_sizes_are_exact_at_0():
    columns, label = table(1001)
    found = LabelledRows.from_arrays(columns, label, design=DESIGN).sums_at(np.zeros(5, dtype=np.int64))
    assert found.hessian[0, 0] * 4 == 1001 * ROUNDING * LATTICE**2
    assert found.gradient[0] * 2 == (2 * label.sum() - 1001) * ROUNDING * LATTICE


@pytest.mark.parametrize("label", [None, math.nan, 2, 0.5, -1])
def test_a_row_with_another_label_is_not_counted(label):
    columns = {"age": [20.0, 20.0], "region": ["south", "south"], "member": [1, 1]}
    found = LabelledRows.from_arrays(columns, [1, label], design=DESIGN).sums_at(POSITION)
    one = LabelledRows.from_arrays({n: c[:1] for n, c in columns.items()}, [1], design=DESIGN).sums_at(POSITION)
    assert found.gradient.tolist() == one.gradient.tolist()
    assert found.hessian.tolist() == one.hessian.tolist()


@pytest.mark.parametrize("size", [0, 2**30])
def test_any_coefficients_and_no_rows_give_sums(size):
    columns, label = table(0 if size == 0 else 50)
    found = LabelledRows.from_arrays(columns, label, design=DESIGN).sums_at(np.full(5, size))
    assert np.abs(found.gradient).max() <= 50 * LATTICE * ROUNDING
    assert found.hessian.shape == (5, 5)


def test_repr_tells_nothing_and_what_does_not_fit_is_refused():
    columns, label = table(10)
    assert repr(LabelledRows.from_arrays(columns, label, design=DESIGN)) == "LabelledRows(terms=6)"
    with pytest.raises(InvalidRequest, match="as long as the outcome"):
        LabelledRows.from_arrays(columns, label[:-1], design=DESIGN)


def test_the_sums_of_fewer_than_two_to_the_37_rows_fit_64_bits():
    columns = {"age": [80, 18], "region": ["south", "west"], "member": ["1", "0"]}
    sums = LabelledRows.from_arrays(columns, [0, 1], design=DESIGN).sums_at(np.zeros(5, dtype=np.int64))
    # at 0 the weight p (1 - p) is largest; no error y - p is above 1
    assert np.abs(sums.hessian).max() == 2 * 2**26
    assert ROUNDING * LATTICE < 2**26
