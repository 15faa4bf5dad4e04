"""Private fits, audited by the exact loss of all that they draw, for rows at the corners of the box and inside it.

A fit is one vector of noise on many sums, of which every row changes nearly all by a little: samples of it see next to
nothing of the loss, while the loss itself can be computed.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.diagnostics import linear_fit, logistic_fit
from spark_jobs.diagnostics.logistic_fit import passes
from spark_jobs.mechanisms import newton_pass
from spark_jobs.mechanisms.moment_matrix import Layout
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.zcdp import rho_within
from spark_jobs.statistics.cross_products import (
    LATTICE,
    Bounded,
    CrossProductCells,
    CrossProducts,
    Levels,
)
from spark_jobs.statistics.labelled_rows import LabelledRowCells, LabelledRows
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault
from tests.support.noises import worst_loss
from tests.support.replay import replay
from tests.support.zcdp_loss import Watching, zcdp_loss

pytestmark = pytest.mark.audit

EPSILON, DELTA = Decimal(1), Decimal("1e-6")
X, Y, K, S = (
    Bounded(name="x", lower=0, upper=1),
    Bounded(name="y", lower=0, upper=1),
    Levels(column="k", levels=tuple("abc")),
    Levels(column="s", levels=("no", "yes")),
)
LINEAR = CrossProductCells(features=(X,), categorical=(K, S), outcome=Y)
LOGISTIC = LabelledRowCells(features=(X,), categorical=(K, S))
OTHERS = [(0.2, "a", "no", 0.0), (0.9, "b", "no", 0.0), (0.5, "c", "yes", 1.0)]
CORNERS = [*itertools.product([0.0, 1.0], "abc", ["no", "yes"], [0.0, 1.0]), (None, "a", "no", 0)]
FITS = {"linear fit": (linear_fit, LINEAR), "logistic fit": (logistic_fit, LOGISTIC)}


def table(name, *rows):
    x, k, s, y = zip(*OTHERS, *rows, strict=True)
    statistic = CrossProducts if name == "linear fit" else LabelledRows
    return statistic.from_arrays({"x": x, "k": k, "s": s}, y, design=FITS[name][1])


def pairs(name, neighbours):
    with_one = [table(name, row) for row in CORNERS]
    if neighbours is ADDED:
        return [(one, table(name)) for one in with_one]
    return list(itertools.combinations(with_one, 2))


def drawn(method, name, neighbours, *, times=1, **options):
    """A mechanism that measures a fit, with all of its noise."""

    def mechanism(statistic, noise):
        for _ in range(times):
            FITS[name][0].measure(
                statistic, **{"epsilon": EPSILON, **options}, neighbours=neighbours, noise=noise, method=method
            )

    return mechanism


def with_sensitivity(changed):
    """The patch after which a layout's sensitivity is what ``changed`` makes of it, the layout and the relation."""
    whole = Layout.l1_sensitivity
    return lambda monkeypatch: monkeypatch.setattr(
        Layout, "l1_sensitivity", lambda layout, relation: changed(whole, layout, relation)
    )


def with_box(changed):
    """The patch after which a row can change each entry by what ``changed`` says."""
    whole = Layout.body
    return lambda monkeypatch: monkeypatch.setattr(
        Layout, "body", lambda layout, relation: changed(whole, layout, relation)
    )


def halved(whole, layout, relation):
    body = whole(layout, relation)
    return replace(body, unit=body.unit // 2)


def two_levels(name):
    """What 1 and 01, listed as two levels of a column of whole numbers, would do if they were two."""
    design = FITS[name][1]
    row = LATTICE * np.ones(design.terms, dtype=np.int64)
    none = table(name)
    return [(CrossProducts(design=design, products=none.products + np.outer(row, row)), none)]


class TestLinearFits(ExactAudit):
    """The largest loss of pure noise over all pairs."""

    mechanisms = {"linear fit": "laplace", "linear fit, drawn together": "k_norm"}
    claimed = EPSILON
    faults = {
        "half the noise": Fault(
            patch=with_sensitivity(lambda whole, layout, relation: whole(layout, relation) // 2),
            mechanisms=["linear fit"],
        ),
        "half the box": Fault(patch=with_box(halved), mechanisms=["linear fit, drawn together"]),
        "a box for an added row": Fault(
            patch=with_box(lambda whole, layout, _: whole(layout, ADDED)),
            relations=[REPLACED],
            mechanisms=["linear fit, drawn together"],
        ),
        # as if no two numbers of a row were multiplied with each other
        "noise for single numbers": Fault(
            patch=with_sensitivity(lambda _, layout, __: layout.steps**2 * (layout.numbers + 3)),
            relations=[ADDED],
            mechanisms=["linear fit"],
        ),
        "noise for an added row": Fault(
            patch=with_sensitivity(lambda whole, layout, _: whole(layout, ADDED)),
            relations=[REPLACED],
            mechanisms=["linear fit"],
        ),
        # each entry of such a row is at most 1 in size, and so the box holds it
        "a row of two levels": Fault(planted={"tables": two_levels}, relations=[ADDED], mechanisms=["linear fit"]),
        "budget spent twice": Fault(planted={"times": 2}),
    }

    def floor(self, mechanism, relation):
        # a row added can change all that the noise is for; the bound for a replaced one has some room
        return 0.999 if relation is ADDED else 0.8

    def loss(self, mechanism, relation, *, times=1, tables=None):
        name = "linear fit"
        measured = drawn(self.mechanisms[mechanism], name, relation, times=times)
        return max(worst_loss(measured, *pair) for pair in (tables(name) if tables else pairs(name, relation)))


def forget_gradient(monkeypatch):
    """Leave the noise out of gradients."""
    whole = newton_pass.noisy_pass

    def taken(sums, position, *, noise, **options):
        made = whole(sums, position, noise=noise, **options)
        return replace(made, gradient=np.array(sums.gradient))

    monkeypatch.setattr(passes, "noisy_pass", taken)


def forget_hessian(monkeypatch):
    """Leave the noise out of Hessians."""
    whole = newton_pass.noisy_pass

    def taken(sums, position, *, noise, layout, **options):
        made = whole(sums, position, noise=noise, layout=layout, **options)
        return replace(made, hessian=np.array(sums.hessian)[layout.measured])

    monkeypatch.setattr(passes, "noisy_pass", taken)


def start_from_the_rows(monkeypatch):
    """Take the second pass at coefficients that are computed from the exact sums of the first."""
    whole = newton_pass.noisy_pass
    exact = {}

    def taken(sums, position, *, layout, **options):
        exact["sums"] = sums
        return whole(sums, position, layout=layout, **options)

    def start(first, layout, options):
        sums = exact["sums"]
        bare = replace(first, gradient=np.array(sums.gradient), hessian=np.array(sums.hessian)[layout.measured])
        return START(bare, layout, options)

    monkeypatch.setattr(passes, "noisy_pass", taken)
    monkeypatch.setattr(passes, "start_at", start)


START = passes.start_at


def charge_parts(monkeypatch):
    """Charge a pass for the dearer of gradient and Hessian, and not for both."""
    whole = newton_pass._split

    def split(*arguments, **options):
        return whole(*arguments, **options)[0], (1.0, 1.0)

    monkeypatch.setattr(newton_pass, "_split", split)


def forget_passes(monkeypatch):
    """Give every pass the whole budget."""
    monkeypatch.setattr(passes, "exact_difference", lambda whole, part: whole)


def newton_tables(relation):
    """A table whose fit takes several passes, with neighbours that have a row at a corner, or another one.

    The label hardly depends on the rest: a row with ``p = 1/2`` changes gradient and Hessian by nearly as much as any.
    """
    random = np.random.default_rng(2)
    base = [
        (float(x), "abc"[int(k)], ("no", "yes")[int(s)], float(random.random() < 0.45 + 0.1 * x))
        for x, k, s in zip(random.random(4000), random.integers(0, 3, 4000), random.integers(0, 2, 4000), strict=True)
    ]

    def with_rows(*rows):
        x, k, s, y = zip(*base, *rows, strict=True)
        return LabelledRows.from_arrays({"x": x, "k": k, "s": s}, y, design=LOGISTIC)

    corners = [(x, k, s, y) for x in (0.0, 1.0) for k in "ac" for s in ("no", "yes") for y in (0.0, 1.0)]
    ones = [with_rows(corner) for corner in corners]
    return [(one, with_rows()) for one in ones] if relation is ADDED else [(ones[0], ones[-1]), (ones[1], ones[-2])]


class TestNewtonPasses(ExactAudit):
    """The loss of a whole chain of passes, along the path that the first table's noise takes."""

    mechanisms = {
        "logistic fit, several passes": "laplace",
        "logistic fit, one pass": "laplace",
        "logistic fit, several passes, drawn together": "k_norm",
        "logistic fit, one pass, drawn together": "k_norm",
    }
    claimed = EPSILON
    kept = ("logistic fit, several passes", "logistic fit, several passes, drawn together")
    verified = True
    faults = {
        # a row replaced cannot change both by twice as much, so that its claim has room; see test_newton_pass
        "half the noise": Fault(patch=lambda patch: patch.setattr(newton_pass, "ROUNDING", 8), relations=[ADDED]),
        "one charge for both": Fault(patch=charge_parts, relations=[ADDED]),
        "every pass for all of it": Fault(
            patch=forget_passes,
            mechanisms=["logistic fit, several passes", "logistic fit, several passes, drawn together"],
            relations=[ADDED],
        ),
        "budget spent twice": Fault(planted={"times": 2}, relations=[ADDED]),
    }

    def floor(self, mechanism, relation):
        return 0.8 if relation is ADDED else 0.3

    def loss(self, mechanism, relation, *, times=1):
        several = "several passes" in mechanism
        tables = newton_tables(relation) if several else pairs("logistic fit", relation)[:40]
        scale = 40 if several else 1
        method = self.mechanisms[mechanism]
        measured = drawn(method, "logistic fit", relation, times=times, epsilon=scale * EPSILON)
        return max(worst_loss(measured, *pair) for pair in tables) / scale


NOISELESS = {
    "a gradient": forget_gradient,
    "a Hessian": forget_hessian,
    "where the second pass is made": start_from_the_rows,
}


@pytest.mark.parametrize("left_out", NOISELESS)
def test_what_reaches_a_draw_without_noise_is_found(left_out, monkeypatch):
    """The replay that audits every kind: the noise of one table, played back on another, makes another draw."""
    one, other = newton_tables(ADDED)[0]

    def run(statistic, noise):
        return logistic_fit.measure(statistic, epsilon=40, noise=noise).to_dict()

    assert replay(run, one, other, source=SeededNoise(3))
    NOISELESS[left_out](monkeypatch)
    with pytest.raises(AssertionError):
        replay(run, one, other, source=SeededNoise(3))


class TestGaussianFits(ExactAudit):
    """The largest rho of discrete Gaussian noise over all pairs."""

    mechanisms = {"linear fit, Gaussian": "linear fit"}
    measure, claimed, at_least = "ρ", float(rho_within(EPSILON, DELTA)) * (1 + 1e-12), 0.8
    kept, verified = "first", True
    faults = {"budget spent twice": Fault(planted={"times": 2})}

    def loss(self, mechanism, relation, *, times=1):
        name = self.mechanisms[mechanism]
        measured = drawn("gaussian", name, relation, times=times, delta=DELTA)
        return max(zcdp_loss(measured, *pair) for pair in pairs(name, relation))


class Mixed(Watching):
    """Watches Gaussian noise; class sizes are drawn and replayed without being counted."""

    def laplace(self, values, *, epsilon, l1_sensitivity):
        self.asked.append((np.zeros(1), 1.0))
        drawn = self.source.laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity)
        self.given.append(drawn if self.answers is None else self.answers[len(self.asked) - 1])
        return self.given[-1]


class TestGaussianPasses(ExactAudit):
    """The largest rho of a whole chain of passes; class sizes are pure, and audited above."""

    mechanisms = ("logistic fit, Gaussian passes",)
    measure, verified, kept = "ρ", True, ()
    claimed = float(rho_within(EPSILON * 10 * (1 - passes.SIZES_SHARE), DELTA)) * (1 + 1e-12)
    faults = {
        "every pass for all of it": Fault(patch=forget_passes, relations=[ADDED]),
        "budget spent twice": Fault(planted={"times": 2}, relations=[ADDED]),
    }

    def floor(self, mechanism, relation):
        return 0.75 if relation is ADDED else 0.2

    def loss(self, mechanism, relation, *, times=1):
        measured = drawn("gaussian", "logistic fit", relation, times=times, delta=DELTA, epsilon=10 * EPSILON)
        return max(zcdp_loss(measured, *pair, watching=Mixed) for pair in newton_tables(relation))
