"""Private fits, audited by the exact loss of all that they draw, for rows at the corners of the box and inside it.

A fit is one vector of noise on many sums, of which every row changes nearly all by a little: samples of it see next to
nothing of the loss, while the loss itself can be computed.
"""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest

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
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault
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


def table(name, *rows):
    x, k, y = zip(*OTHERS, *rows, strict=True)
    return CrossProducts.from_arrays({"x": x, "k": k}, y, design=FITS[name][1])


def pairs(name, neighbours):
    with_one = [table(name, row) for row in CORNERS]
    if neighbours is ADDED:
        return [(one, table(name)) for one in with_one]
    return list(itertools.permutations(with_one, 2))


def drawn(method, name, neighbours, *, times=1, **options):
    """A mechanism that measures a fit, with all of its noise."""

    def mechanism(statistic, noise):
        for _ in range(times):
            FITS[name][0].measure(
                statistic, epsilon=EPSILON, neighbours=neighbours, noise=noise, method=method, **options
            )

    return mechanism


def with_sensitivity(changed):
    """The patch after which a layout's sensitivity is what ``changed`` makes of it, the layout and the relation."""
    whole = Layout.l1_sensitivity
    return lambda monkeypatch: monkeypatch.setattr(
        Layout, "l1_sensitivity", lambda layout, relation: changed(whole, layout, relation)
    )


def two_levels(name):
    """What 1 and 01, listed as two levels of a column of whole numbers, would do if they were two."""
    design = FITS[name][1]
    row = LATTICE * np.ones(design.terms, dtype=np.int64)
    none = table(name)
    return [(CrossProducts(design=design, products=none.products + np.outer(row, row)), none)]


class TestFits(ExactAudit):
    """The largest loss of two-sided geometric noise over all pairs."""

    mechanisms = FITS
    claimed = EPSILON
    faults = {
        "half the noise": Fault(patch=with_sensitivity(lambda whole, layout, relation: whole(layout, relation) // 2)),
        # as if no two numbers of a row were multiplied with each other
        "noise for single numbers": Fault(
            patch=with_sensitivity(lambda _, layout, __: layout.steps**2 * (layout.numbers + 3)), relations=[ADDED]
        ),
        "noise for an added row": Fault(
            patch=with_sensitivity(lambda whole, layout, _: whole(layout, ADDED)), relations=[REPLACED]
        ),
        "a row of two levels": Fault(planted={"tables": two_levels}, relations=[ADDED]),
        "budget spent twice": Fault(planted={"times": 2}),
    }

    def floor(self, mechanism, relation):
        # a row added can change all that the noise is for; the bound for a replaced one has some room
        return 0.999 if relation is ADDED else 0.8

    def loss(self, mechanism, relation, *, times=1, tables=None):
        measured = drawn("laplace", mechanism, relation, times=times)
        return max(
            worst_loss(measured, *pair) for pair in (tables(mechanism) if tables else pairs(mechanism, relation))
        )


class TestGaussianFits(ExactAudit):
    """The largest rho of discrete Gaussian noise over all pairs."""

    mechanisms = {f"{name}, Gaussian": name for name in FITS}
    measure, claimed, at_least = "ρ", float(rho_within(EPSILON, DELTA)) * (1 + 1e-12), 0.8
    faults = {"budget spent twice": Fault(planted={"times": 2})}

    def loss(self, mechanism, relation, *, times=1):
        name = self.mechanisms[mechanism]
        measured = drawn("gaussian", name, relation, times=times, delta=DELTA)
        return max(zcdp_loss(measured, *pair) for pair in pairs(name, relation))
