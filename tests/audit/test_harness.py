"""The harness itself: its bounds are what statistics says, and it writes down what it found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from tests.audit.conftest import page, rows_of
from tests.support import audit as harness
from tests.support.audit import FALSE_ALARM, Finding, Record, audit, audit_of, audit_outputs, convicts, exactly, keeps

pytestmark = pytest.mark.audit


def two_coins(first, second):
    generator = np.random.default_rng(5)
    return lambda table, count: (generator.random(count) < (first if table else second)).astype(int)


@pytest.mark.parametrize("hits", [(900, 300), (1000, 0), (17, 3), (0, 0)])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_bounds_are_those_of_clopper_and_pearson(hits, delta):
    count = 1000
    found = audit(
        lambda table, _: np.repeat([1, 0], [hits[1 - table], count - hits[1 - table]]),
        0,
        1,
        samples=count,
        delta=delta,
        threshold=1,
    )
    low, high = (
        binomtest(hit, count).proportion_ci(confidence_level=1 - FALSE_ALARM / 2, method="exact") for hit in hits
    )
    expected = math.log((low.low - delta) / high.high) if low.low - delta > high.high else 0.0
    swapped = audit(
        lambda table, _: np.repeat([1, 0], [hits[table], count - hits[table]]),
        0,
        1,
        samples=count,
        delta=delta,
        threshold=1,
    )
    assert swapped.epsilon == pytest.approx(expected)
    assert found.epsilon == 0


def test_the_bound_approaches_the_loss_of_a_randomised_response_and_stays_below():
    loss = math.log(3)
    bounds = [audit(two_coins(0.75, 0.25), 1, 0, samples=n).epsilon for n in (2000, 20_000, 200_000)]
    assert bounds == sorted(bounds)
    assert 0.95 * loss < bounds[-1] <= loss
    learned = audit_outputs(two_coins(0.75, 0.25), 1, 0, samples=200_000)
    assert 0.95 * loss < learned.epsilon <= loss


def test_learned_events_find_outputs_that_are_not_ranked_by_size():
    generator = np.random.default_rng(6)
    # outputs 0 to 5; the odd ones speak for one table, the even ones for the other
    weights = {0: np.tile([3, 1], 3) / 12, 1: np.tile([1, 3], 3) / 12}

    def mechanism(table, count):
        return generator.choice(6, size=count, p=weights[table])

    by_size = audit(mechanism, 0, 1, samples=40_000).epsilon
    learned = audit_outputs(mechanism, 0, 1, samples=40_000).epsilon
    assert by_size < learned <= math.log(3)
    assert learned > 0.9 * math.log(3)


def test_equal_distributions_are_hardly_ever_convicted():
    generator = np.random.default_rng(7)
    bounds = [
        audit_outputs(lambda _, count: generator.integers(0, 50, count), 0, 1, samples=400).epsilon for _ in range(200)
    ]
    assert max(bounds) == 0


def test_what_is_found_is_kept_and_judged(monkeypatch):
    monkeypatch.setattr(harness, "RECORDS", [])
    found = Finding(epsilon=0.8, hits=(5, 1), samples=10, delta=1e-6)
    assert keeps(found, "it", relation="here", claimed=1, at_least=0.5)
    assert not keeps(found, "it", relation="here", claimed=1, at_least=0.9)
    assert not keeps(found, "it", relation="here", claimed=0.7)
    assert convicts(found, "it", relation="here", claimed="0.7", fault="a fault")
    assert not convicts(found, "it", relation="here", claimed=1, fault="a fault")
    text = page(harness.RECORDS)
    assert "| it | here | 0.7, δ = 1e-06 | a fault | 0.800 | 10 | harness |" in text
    assert text.count("\n| it |") == 4


def test_a_bound_below_its_floor_is_looked_at_once_more_and_one_above_the_claim_is_not(monkeypatch):
    monkeypatch.setattr(harness, "RECORDS", [])
    taken = []

    def of(law):
        def mechanism(table, count):
            taken.append(count)
            return law(table, count)

        return audit_outputs(mechanism, 0, 1, samples=400)

    generator = np.random.default_rng(8)

    def tilted(table, count):
        return (generator.random(count) < 0.5 + 0.3 * table).astype(int)

    assert keeps(of(tilted), "it", relation="here", claimed=1, at_least=0.1)
    assert taken == [400, 400, 1600, 1600]
    taken.clear()
    assert not keeps(
        of(lambda table, count: generator.integers(0, 9, count)), "it", relation="here", claimed=1, at_least=0.1
    )
    assert taken == [400, 400, 1600, 1600]
    taken.clear()
    assert not keeps(of(lambda table, count: np.full(count, table)), "it", relation="here", claimed=1, at_least=0.1)
    assert taken == [400, 400]
    assert [record.samples for record in harness.RECORDS] == [800, 800, 200]


def test_a_computed_loss_may_reach_the_claim_and_not_pass_it(monkeypatch):
    monkeypatch.setattr(harness, "RECORDS", [])
    assert keeps(exactly(1 + 1e-12), "it", relation="here", claimed=1, at_least=1)
    assert not keeps(exactly(1 + 1e-6), "it", relation="here", claimed=1)
    assert convicts(exactly(0.6, measure="ρ"), "it", relation="here", claimed="0.5", fault="a fault")
    assert "| it | here | ρ = 0.5 | a fault | 0.600 | exact | harness |" in page(harness.RECORDS)


def test_a_run_of_one_file_replaces_its_own_rows_and_no_others():
    def found(mechanism, audit, bound):
        return Record(
            mechanism=mechanism, relation="here", claimed="1", fault=None, bound=bound, samples=1000, audit=audit
        )

    before = page([found("a tree", "counts", 0.5), found("a cell", "counts", 0.4), found("noise", "noise", 0.3)])
    after = page([found("a tree", "counts", 0.6)], before)
    assert [(row[0], row[4]) for row in rows_of(after)] == [("a tree", "0.600"), ("noise", "0.300")]
    gone = page([found("a tree", "counts", 0.6)], page([found("old", "no such file", 0.5)]))
    assert [row[0] for row in rows_of(gone)] == ["a tree"]


def test_audits_are_named_by_their_files():
    assert audit_of("tests/audit/test_roc_curve_audit.py::test_it[x::y]") == "roc_curve"
    assert audit_of("test_harness.py") == "harness"
