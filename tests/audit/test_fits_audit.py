"""Private fits, audited by the exact loss of all that they draw, for rows at the corners of the box and inside it.

A fit is one vector of noise on many sums, of which every row changes nearly all by a little: samples of it see next to
nothing of the loss, while the loss itself can be computed.
"""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import linear_fit, logistic_fit
from spark_jobs.mechanisms.moment_matrix import Layout
from spark_jobs.mechanisms.zcdp import rho_within
from spark_jobs.statistics.cross_products import (
    LATTICE,
    Bounded,
    CrossProductCells,
    CrossProducts,
    LabelProductCells,
    Levels,
)
from tests.support.audit import convicts, exactly, keeps
from tests.support.noises import worst_loss
from tests.support.zcdp_loss import zcdp_loss

pytestmark = pytest.mark.audit

EPSILON, DELTA = Decimal(1), Decimal("1e-6")
X, Y, K = (
    Bounded(name="x", lower=0, upper=1),
    Bounded(name="y", lower=0, upper=1),
    Levels(column="k", levels=tuple("abc")),
)
LINEAR = CrossProductCells(features=(X,), categorical=(K,), outcome=Y)
LOGISTIC = LabelProductCells(features=(X,), categorical=(K,))
OTHERS = [(0.2, "a", 0.0), (0.9, "b", 0.0), (0.5, "c", 1.0)]
CORNERS = list(itertools.product([0.0, 0.5, 1.0, None], "abc", [0.0, 1.0]))
FITS = {"linear fit": (linear_fit, LINEAR), "logistic fit": (logistic_fit, LOGISTIC)}
EVERY_FIT = pytest.mark.parametrize("name", FITS)
EVERY_RELATION = pytest.mark.parametrize("neighbours", list(Neighbours))
USED = {Neighbours.ADD_REMOVE: 0.999, Neighbours.REPLACE_ONE: 0.8}
"""Of epsilon: a row added can change all that the noise is for; the bound for a replaced one has some room."""


def table(name, *rows):
    x, k, y = zip(*OTHERS, *rows, strict=True)
    return CrossProducts.from_arrays({"x": x, "k": k}, y, design=FITS[name][1])


def pairs(name, neighbours):
    with_one = [table(name, row) for row in CORNERS]
    if neighbours is Neighbours.ADD_REMOVE:
        return [(one, table(name)) for one in with_one]
    return list(itertools.permutations(with_one, 2))


def pure_loss(name, neighbours, *, times=1, tables=None):
    """The largest loss of two-sided geometric noise over all pairs."""

    def mechanism(statistic, noise):
        for _ in range(times):
            FITS[name][0].measure(statistic, epsilon=EPSILON, neighbours=neighbours, noise=noise, method="laplace")

    return exactly(max(worst_loss(mechanism, *pair) for pair in tables or pairs(name, neighbours)))


def gaussian_loss(name, neighbours, *, times=1):
    """The largest rho of discrete Gaussian noise over all pairs."""

    def mechanism(statistic, noise):
        for _ in range(times):
            FITS[name][0].measure(
                statistic, epsilon=EPSILON, delta=DELTA, neighbours=neighbours, noise=noise, method="gaussian"
            )

    return exactly(max(zcdp_loss(mechanism, *pair) for pair in pairs(name, neighbours)), measure="ρ")


@EVERY_FIT
@EVERY_RELATION
def test_a_fit_keeps_epsilon_and_uses_it(name, neighbours):
    found = pure_loss(name, neighbours)
    assert keeps(found, name, relation=neighbours, claimed=EPSILON, at_least=USED[neighbours])


@EVERY_FIT
@EVERY_RELATION
def test_a_gaussian_fit_keeps_its_rho_and_uses_it(name, neighbours):
    found = gaussian_loss(name, neighbours)
    claimed = float(rho_within(EPSILON, DELTA)) * (1 + 1e-12)
    assert keeps(found, f"{name}, Gaussian", relation=neighbours, claimed=claimed, at_least=0.8)


@EVERY_FIT
@EVERY_RELATION
def test_half_the_noise_is_convicted(name, neighbours, monkeypatch):
    whole = Layout.l1_sensitivity
    monkeypatch.setattr(Layout, "l1_sensitivity", lambda layout, relation: whole(layout, relation) // 2)
    found = pure_loss(name, neighbours)
    assert convicts(found, name, relation=neighbours, claimed=EPSILON, fault="half the noise")


@EVERY_FIT
def test_noise_for_single_numbers_is_convicted(name, monkeypatch):
    """As if no two numbers of a row were multiplied with each other."""
    monkeypatch.setattr(Layout, "l1_sensitivity", lambda layout, _: layout.steps**2 * (layout.numbers + 3))
    found = pure_loss(name, Neighbours.ADD_REMOVE)
    fault = "noise for single numbers"
    assert convicts(found, name, relation=Neighbours.ADD_REMOVE, claimed=EPSILON, fault=fault)


@EVERY_FIT
def test_noise_for_an_added_row_is_convicted_where_a_level_changes(name, monkeypatch):
    whole = Layout.l1_sensitivity
    monkeypatch.setattr(Layout, "l1_sensitivity", lambda layout, _: whole(layout, Neighbours.ADD_REMOVE))
    found = pure_loss(name, Neighbours.REPLACE_ONE)
    fault = "noise for an added row"
    assert convicts(found, name, relation=Neighbours.REPLACE_ONE, claimed=EPSILON, fault=fault)


@EVERY_FIT
def test_a_row_of_two_levels_is_convicted(name):
    """What 1 and 01, listed as two levels of a column of whole numbers, would do if they were two."""
    design = FITS[name][1]
    row = LATTICE * np.ones(design.terms, dtype=np.int64)
    none = table(name)
    both = CrossProducts(design=design, products=none.products + np.outer(row, row))
    found = pure_loss(name, Neighbours.ADD_REMOVE, tables=[(both, none)])
    fault = "a row of two levels"
    assert convicts(found, name, relation=Neighbours.ADD_REMOVE, claimed=EPSILON, fault=fault)


@EVERY_FIT
@EVERY_RELATION
def test_a_budget_spent_twice_is_convicted(name, neighbours):
    found = pure_loss(name, neighbours, times=2)
    assert convicts(found, name, relation=neighbours, claimed=EPSILON, fault="budget spent twice")
    found = gaussian_loss(name, neighbours, times=2)
    claimed = float(rho_within(EPSILON, DELTA))
    assert convicts(found, f"{name}, Gaussian", relation=neighbours, claimed=claimed, fault="budget spent twice")
