"""Sums of products of clipped, rounded rows, against numpy's on the same rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics.cross_products import (
    LATTICE,
    Bounded,
    CrossProductCells,
    CrossProducts,
    Levels,
)

AGE, PAY = Bounded(name="age", lower=18, upper=80), Bounded(name="pay", lower=-3, upper=7)
REGION = Levels(column="region", levels=("north", "south", "west"))
DESIGN = CrossProductCells(features=(AGE, PAY), categorical=(REGION,), outcome=Bounded(name="y", lower=0, upper=1))
ALONE = CrossProductCells(features=(AGE,), outcome=Bounded(name="y", lower=0, upper=1))


def table(rows, seed=3):
    random = np.random.default_rng(seed)
    columns = {
        "age": random.normal(50, 30, rows),
        "pay": random.normal(0, 6, rows),
        "region": random.choice(["north", "south", "west", "elsewhere"], rows),
    }
    return columns, random.uniform(-0.5, 1.5, rows)


def on_lattice(values, bounds):
    within = np.clip(values, bounds.lower, bounds.upper)
    return np.floor((within - bounds.middle) / bounds.half * LATTICE + 0.5)


def test_sums_are_those_of_the_rows_as_described():
    columns, y = table(100_000)
    found = CrossProducts.from_arrays(columns, y, design=DESIGN)
    levels = [LATTICE * (columns["region"] == level) for level in ("south", "west")]
    rows = np.stack(
        [
            np.full(y.size, LATTICE),
            on_lattice(columns["age"], AGE),
            on_lattice(columns["pay"], PAY),
            *levels,
            on_lattice(y, DESIGN.outcome),
        ],
        axis=1,
    ).astype(np.int64)
    assert np.abs(rows).max() == LATTICE
    assert (found.products == rows.T @ rows).all()


def test_rounding_moves_a_value_by_half_a_step_at_most():
    columns, y = table(20_000)
    within = np.clip(columns["age"], 18, 80)
    back = AGE.middle + AGE.half * on_lattice(columns["age"], AGE) / LATTICE
    assert np.abs(back - within).max() <= AGE.half / LATTICE / 2 * (1 + 1e-9)
    assert y.size == within.size


@pytest.mark.parametrize("value", [None, math.nan])
def test_a_row_without_a_number_is_not_counted(value):
    columns = {"age": [20.0, value], "pay": [1.0, 1.0], "region": ["south", "south"]}
    both = CrossProducts.from_arrays(columns, [1.0, 1.0], design=DESIGN)
    one = CrossProducts.from_arrays({name: column[:1] for name, column in columns.items()}, [1.0], design=DESIGN)
    assert both == one
    assert CrossProducts.from_arrays(columns, [1.0, None], design=DESIGN) == one


@pytest.mark.parametrize(
    ("value", "alike"), [(math.inf, 80), (-math.inf, 18), (1e308, 80), (17.999, 18), (-0.0, 18), (True, 18)]
)
def test_a_value_beyond_the_bounds_counts_as_the_nearer_one(value, alike):
    found, wanted = (CrossProducts.from_arrays({"age": [each]}, [1], design=ALONE) for each in (value, alike))
    assert found == wanted


@pytest.mark.parametrize("region", ["elsewhere", None, "", "North"])
def test_a_level_that_is_not_listed_counts_as_the_reference(region):
    columns = {"age": [20.0], "pay": [1.0], "region": [region]}
    reference = {**columns, "region": ["north"]}
    assert CrossProducts.from_arrays(columns, [1.0], design=DESIGN) == CrossProducts.from_arrays(
        reference, [1.0], design=DESIGN
    )


def test_levels_may_be_booleans_and_whole_numbers_and_two_of_them_are_a_sign():
    two = (Levels(column="a", levels=("false", "true")), Levels(column="b", levels=("1", "2")))
    design = CrossProductCells(features=(), categorical=two, outcome=Bounded(name="y", lower=0, upper=1))
    found = CrossProducts.from_arrays(
        {"a": [True, False, np.True_, None], "b": np.array([2, 1, 1, 2])}, [1, 0, 1, 0], design=design
    )
    assert (found.products // LATTICE**2).tolist() == [[4, 0, 0, 0], [0, 4, 0, 4], [0, 0, 4, 0], [0, 4, 0, 4]]


def test_sums_of_disjoint_rows_add_and_order_is_immaterial():
    columns, y = table(1000)
    whole = CrossProducts.from_arrays(columns, y, design=DESIGN)
    parts = [
        CrossProducts.from_arrays({name: column[cut] for name, column in columns.items()}, y[cut], design=DESIGN)
        for cut in (slice(0, 300), slice(300, None))
    ]
    assert parts[0] + parts[1] == whole
    order = np.random.default_rng(1).permutation(1000)
    shuffled = {name: column[order] for name, column in columns.items()}
    assert CrossProducts.from_arrays(shuffled, y[order], design=DESIGN) == whole
    assert hash(parts[0] + parts[1]) == hash(whole)


def test_a_row_is_what_the_mechanism_takes_it_for():
    from spark_jobs.contract.privacy import Neighbours
    from spark_jobs.diagnostics._fits.measurement import layout_of

    layout = layout_of(DESIGN)
    extremes = itertools.product([-1e9, 20, 1e9], [-1e9, 0, 1e9], ["north", "west"], [-9, 0.3, 9])
    worst = 0
    for age, pay, region, y in extremes:
        one = CrossProducts.from_arrays({"age": [age], "pay": [pay], "region": [region]}, [y], design=DESIGN)
        entries = one.products.astype(float)
        assert layout.filled(entries[layout.measured]).tolist() == entries.tolist()
        worst = max(worst, int(np.abs(one.products[layout.measured]).sum()))
    assert worst == layout.l1_sensitivity(Neighbours.ADD_REMOVE)


def test_repr_tells_nothing():
    columns, y = table(100)
    assert repr(CrossProducts.from_arrays(columns, y, design=DESIGN)) == "CrossProducts(terms=6)"


def test_what_does_not_fit_is_refused_in_a_line():
    columns, y = table(10)
    with pytest.raises(InvalidRequest, match="columns: got 'age'"):
        CrossProducts.from_arrays({"pay": columns["pay"]}, y, design=DESIGN)
    with pytest.raises(InvalidRequest, match="as long as the outcome"):
        CrossProducts.from_arrays(columns, y[:-1], design=DESIGN)
    with pytest.raises(InvalidRequest, match="symmetric matrix"):
        CrossProducts(design=ALONE, products=np.array([[1, 2, 3], [2, 1, 1], [4, 1, 1]]))
    other = CrossProducts.from_arrays({"age": [20.0]}, [1], design=ALONE)
    with pytest.raises(InvalidRequest, match="design"):
        other + CrossProducts.from_arrays(columns, y, design=DESIGN)
    for bounds in ((5, 5), (5, 1), (0, math.inf), (math.nan, 1), (1e16, 1e16 + 2)):
        with pytest.raises(InvalidRequest, match="ascending order"):
            Bounded(name="x", lower=bounds[0], upper=bounds[1])
