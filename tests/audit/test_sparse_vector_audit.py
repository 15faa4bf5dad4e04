from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import sparse_vector
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.sparse_vector import above_threshold, first_crossing, merge_cells
from tests.support.audit import Tampered, audit_outputs, convicts, keeps, samples
from tests.support.flawed.sparse_vector import SHARES, published

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(3)
"""Large: a sequence of answers that tells neighbours apart at a small epsilon is too rare to be sampled."""
ADDED = (np.array([-1] * 3 + [0] * 2), np.array([0] * 3 + [0] * 2))
REPLACED = (np.array([-1] * 3 + [0] * 2), np.array([0] * 3 + [-1] * 2))
RELATIONS = pytest.mark.parametrize(
    ("relation", "pair"),
    [(Neighbours.ADD_REMOVE, ADDED), (Neighbours.REPLACE_ONE, REPLACED)],
    ids=["added", "replaced"],
)


@dataclass
class Misused:
    """Noise with the faults that a sparse vector technique can have; its first vector is the threshold's."""

    source: Any
    fault: str
    first: Any = None
    private: bool = field(default=False, init=False)
    guarantee: str = field(default="NOT PRIVATE", init=False)

    def laplace(self, values, *, epsilon, l1_sensitivity):
        if self.fault == "threshold noise reused":
            if self.first is None:
                self.first = self.source.laplace(np.zeros(1, np.int64), epsilon=epsilon, l1_sensitivity=l1_sensitivity)
            return values + self.first[0]
        if self.first is None:
            self.first = values
        elif self.fault == "cut-off off by one":
            l1_sensitivity = l1_sensitivity // 2  # of a cut-off of 2
        return self.source.laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity)


def runs(make_noise, relation, *, cutoff):
    """Codes of which queries passed."""
    monotone = relation is Neighbours.ADD_REMOVE

    def once(queries):
        made = above_threshold(queries, epsilon=EPSILON, noise=make_noise(), cutoff=cutoff, monotone=monotone)
        return int((1 << made.above).sum())

    return lambda table, count: np.array([once(table) for _ in range(count)])


@pytest.mark.sampled
@RELATIONS
@pytest.mark.parametrize("cutoff", [1, 2])
def test_above_threshold_keeps_epsilon_and_uses_it(cutoff, relation, pair):
    noise = SecureNoise()
    found = audit_outputs(runs(lambda: noise, relation, cutoff=cutoff), *pair, samples=samples(4000))
    assert keeps(found, f"above threshold, c = {cutoff}", relation=relation, claimed=EPSILON, at_least=0.05)


@pytest.mark.verify
@RELATIONS
@pytest.mark.parametrize(("fault", "quick"), [("threshold noise reused", 2000), ("cut-off off by one", 20_000)])
def test_misused_noise_is_convicted(fault, quick, relation, pair):
    source = SeededNoise(51)
    found = audit_outputs(runs(lambda: Misused(source, fault), relation, cutoff=2), *pair, samples=samples(quick))
    assert convicts(found, "above threshold, c = 2", relation=relation, claimed=EPSILON, fault=fault)


@pytest.mark.verify
@RELATIONS
def test_half_the_noise_is_convicted(relation, pair):
    noise = Tampered(source=SeededNoise(52), epsilon_factor=2)
    found = audit_outputs(runs(lambda: noise, relation, cutoff=2), *pair, samples=samples(10_000))
    assert convicts(found, "above threshold, c = 2", relation=relation, claimed=EPSILON, fault="half the noise")


@pytest.mark.verify
@RELATIONS
def test_a_budget_spent_twice_is_convicted(monkeypatch, relation, pair):
    # the threshold and the queries, both at the whole epsilon
    monkeypatch.setattr(sparse_vector, "optimal_split", lambda epsilon, **_: (epsilon, epsilon))
    noise = SeededNoise(53)
    found = audit_outputs(runs(lambda: noise, relation, cutoff=1), *pair, samples=samples(6000))
    assert convicts(found, "above threshold, c = 1", relation=relation, claimed=EPSILON, fault="budget spent twice")


@pytest.mark.verify
@pytest.mark.parametrize("name", SHARES)
def test_published_variants_are_convicted(name):
    noise = SeededNoise(54)
    zeros, ones = np.zeros(12, np.int64), np.ones(12, np.int64)
    pair = np.concatenate([zeros, ones]), np.concatenate([ones, zeros])

    def mechanism(queries, count):
        # how many of each half passed: the halves are what the neighbours swap
        made = [published(name, queries, epsilon=1, noise=noise) for _ in range(count)]
        return np.array([13 * answers[:12].sum() + answers[12:].sum() for answers in made])

    found = audit_outputs(mechanism, *pair, samples=samples(4000))
    assert convicts(found, f"threshold test, {name}", relation="replace one", claimed=1, fault="no cut-off")


@dataclass(frozen=True, kw_only=True)
class Nested:
    """A threshold test of running sums, and tables on which a row in the first or in the last cell is seen best."""

    run: Any
    cells: tuple[int, ...]
    threshold: int

    def pair(self, relation):
        first, last = np.eye(len(self.cells), dtype=np.int64)[[0, -1]]
        return np.array(self.cells) + first, np.array(self.cells) + (last if relation is Neighbours.REPLACE_ONE else 0)

    def mechanism(self, noise, relation):
        options = {"threshold": self.threshold, "epsilon": EPSILON, "neighbours": relation, "noise": noise}
        return lambda cells, count: np.array([str(self.run(cells, **options)) for _ in range(count)])


NESTED = {
    "first crossing": Nested(run=first_crossing, cells=(0, 0, 0, 0), threshold=1),
    "merged cells": Nested(run=merge_cells, cells=(0, 1, 0, 3, 1), threshold=2),
}
BOTH = pytest.mark.parametrize("relation", list(Neighbours), ids=lambda relation: relation.name.lower())


@pytest.mark.sampled
@BOTH
@pytest.mark.parametrize("name", NESTED)
def test_nested_counts_keep_epsilon_and_use_it(name, relation):
    nested = NESTED[name]
    mechanism = nested.mechanism(SecureNoise(), relation)
    found = audit_outputs(mechanism, *nested.pair(relation), samples=samples(1000))
    assert keeps(found, name, relation=relation, claimed=EPSILON, at_least=0.1)


@pytest.mark.verify
@BOTH
@pytest.mark.parametrize("name", NESTED)
def test_half_the_noise_on_nested_counts_is_convicted(name, relation):
    nested = NESTED[name]
    mechanism = nested.mechanism(Tampered(source=SeededNoise(55), epsilon_factor=2), relation)
    found = audit_outputs(mechanism, *nested.pair(relation), samples=samples(6000))
    assert convicts(found, name, relation=relation, claimed=EPSILON, fault="half the noise")


@pytest.mark.verify
def test_noise_for_an_added_row_is_convicted_where_rows_are_replaced():
    nested = NESTED["first crossing"]
    mechanism = nested.mechanism(SeededNoise(56), Neighbours.ADD_REMOVE)
    found = audit_outputs(mechanism, *nested.pair(Neighbours.REPLACE_ONE), samples=samples(6000))
    fault = "noise for an added row"
    assert convicts(found, "first crossing", relation=Neighbours.REPLACE_ONE, claimed=EPSILON, fault=fault)
