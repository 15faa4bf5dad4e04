"""What a profile loses, exactly: over all pairs of rows, of one row more and of one row replaced."""

import itertools
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.diagnostics import profile
from spark_jobs.diagnostics.profile import measurement
from spark_jobs.statistics import ProfileCounts
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault
from tests.support.audit import Tampered
from tests.support.noises import worst_loss

pytestmark = [pytest.mark.audit]

EPSILON = Decimal(1)
AGE = {"column": "age", "bounds": [0, 3], "step": 1}
PLAN = {"column": "plan", "values": ["a", "b"]}
OF = {
    "one column": {"of": [AGE]},
    "two columns": {"of": [AGE, PLAN]},
    "two columns and a pair": {"of": [AGE, PLAN], "pairs": [("age", "plan")]},
}
SEVERAL = [*OF][1:]
ROWS = [*itertools.product([None, -1.0, 0.0, 3.0, 9.0], ["a", "b", "x", None])]


def counted(rows, of):
    ages, plans = zip(*rows, strict=True) if rows else ((), ())
    columns = {"age": np.array(ages, dtype=object), "plan": np.array(plans, dtype=object)}
    return ProfileCounts.from_arrays(columns, **of)


def whole_for_each(monkeypatch):
    """Have every column at the whole budget, as if the others cost nothing."""
    monkeypatch.setattr(measurement, "share", lambda epsilon, parts: epsilon)
    free_meter(monkeypatch)


def free_meter(monkeypatch):
    monkeypatch.setattr(measurement.Terms, "meter", lambda terms: Free(terms.epsilon))


class Free:
    """A meter that charges no part for another."""

    def __init__(self, epsilon):
        self.remaining, self.spendings = Decimal(epsilon), ()

    def spend(self, epsilon, *, label):
        return epsilon

    def spend_rest(self, *, label):
        return self.remaining


def first_for_nothing(monkeypatch):
    """Have the last column get all of epsilon, and the others theirs beside it: one is charged nothing."""
    free_meter(monkeypatch)


class TestExactLossOfProfiles(ExactAudit):
    mechanisms = OF
    relations = (ADDED, REPLACED)
    claimed, at_least = EPSILON, 0.999
    faults = {
        **ExactAudit.faults,
        "each column at the whole budget": Fault(patch=whole_for_each, mechanisms=SEVERAL),
        "a column charged nothing": Fault(patch=first_for_nothing, mechanisms=SEVERAL),
        "noise left out": Fault(planted={"left_out": True}),
    }

    def loss(self, mechanism, relation, *, less=1, times=1, told=None, left_out=False):
        def run(statistic, noise):
            source = Tampered(source=noise, epsilon_factor=less)
            for _ in range(times):
                profile.measure(statistic, epsilon=EPSILON, neighbours=told or relation, noise=source)
            if left_out:  # what is published would show the exact counts of the last table
                source.laplace(statistic[-1].counts, epsilon=10**6, l1_sensitivity=1)

        tables = [counted([row], OF[mechanism]) for row in ROWS]
        empty = counted([], OF[mechanism])
        pairs = [(table, empty) for table in tables] if relation is ADDED else itertools.combinations(tables, 2)
        return max(worst_loss(run, *pair) for pair in pairs)
