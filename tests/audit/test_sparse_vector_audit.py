from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from spark_jobs.mechanisms import sparse_vector
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.sparse_vector import above_threshold, first_crossing, merge_cells
from tests.suites.audit import ADDED, REPLACED, Fault, SampledAudit
from tests.support.audit import audit_outputs, convicts, samples
from tests.support.flawed.sparse_vector import SHARES, published

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(3)
"""Large: a sequence of answers that tells neighbours apart at a small epsilon is too rare to be sampled."""
PAIRS = {
    ADDED: (np.array([-1] * 3 + [0] * 2), np.array([0] * 3 + [0] * 2)),
    REPLACED: (np.array([-1] * 3 + [0] * 2), np.array([0] * 3 + [-1] * 2)),
}


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
    monotone = relation is ADDED

    def once(queries):
        made = above_threshold(queries, epsilon=EPSILON, noise=make_noise(), cutoff=cutoff, monotone=monotone)
        return int((1 << made.above).sum())

    return lambda table, count: np.array([once(table) for _ in range(count)])


def split_nothing(monkeypatch):
    """The threshold and the queries, both at the whole epsilon."""
    monkeypatch.setattr(sparse_vector, "optimal_split", lambda epsilon, **_: (epsilon, epsilon))


class TestAboveThreshold(SampledAudit):
    mechanisms = {"above threshold, c = 1": 1, "above threshold, c = 2": 2}
    claimed, at_least, seed, quick, thorough = EPSILON, 0.05, 51, 4000, 10_000
    audit = staticmethod(audit_outputs)
    faults = {
        "half the noise": Fault(noise={"epsilon_factor": 2}, mechanisms=[*mechanisms][1:]),
        "threshold noise reused": Fault(
            planted={"misused": "threshold noise reused"}, mechanisms=[*mechanisms][1:], samples=2000
        ),
        "cut-off off by one": Fault(
            planted={"misused": "cut-off off by one"}, mechanisms=[*mechanisms][1:], samples=20_000
        ),
        "budget spent twice": Fault(patch=split_nothing, mechanisms=[*mechanisms][:1], samples=6000),
    }

    def mechanism(self, mechanism, relation, noise, *, misused=None):
        make_noise = (lambda: Misused(noise, misused)) if misused else (lambda: noise)
        return runs(make_noise, relation, cutoff=self.mechanisms[mechanism]), *PAIRS[relation]


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
        return np.array(self.cells) + first, np.array(self.cells) + (last if relation is REPLACED else 0)

    def mechanism(self, noise, relation):
        options = {"threshold": self.threshold, "epsilon": EPSILON, "neighbours": relation, "noise": noise}
        return lambda cells, count: np.array([str(self.run(cells, **options)) for _ in range(count)])


NESTED = {
    "first crossing": Nested(run=first_crossing, cells=(0, 0, 0, 0), threshold=1),
    "merged cells": Nested(run=merge_cells, cells=(0, 1, 0, 3, 1), threshold=2),
}


class TestNestedCounts(SampledAudit):
    mechanisms = NESTED
    claimed, at_least, seed, quick, thorough = EPSILON, 0.1, 55, 1000, 6000
    audit = staticmethod(audit_outputs)
    faults = {
        "half the noise": Fault(noise={"epsilon_factor": 2}),
        "noise for an added row": Fault(planted={"told": ADDED}, relations=[REPLACED], mechanisms=["first crossing"]),
    }

    def mechanism(self, mechanism, relation, noise, *, told=None):
        nested = NESTED[mechanism]
        return nested.mechanism(noise, told or relation), *nested.pair(relation)
