"""Whatever runs at once, no block is spent beyond its cap and no key is charged twice (I2, I3)."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from functools import partial

import psycopg
import pytest

from dp_operators.budget import BudgetExceeded, Charge, ChargeConflict, PrivacyLedger
from tests.support.ledgers import DRAW, commit, in_processes

pytestmark = pytest.mark.slow

WORKERS = 8


@pytest.fixture(params=["threads", "processes"])
def at_once(request: pytest.FixtureRequest):
    """Runs ``work(0)``, ``work(1)``, ... at once: threads on one ledger object, or processes."""
    if request.param == "processes":
        return partial(in_processes, count=WORKERS)

    def in_threads(work):
        with ThreadPoolExecutor(WORKERS) as pool:
            return list(pool.map(work, range(WORKERS)))

    return in_threads


def outcome(work) -> str:
    try:
        return str(work())
    except (BudgetExceeded, ChargeConflict) as refused:
        return type(refused).__name__


@pytest.mark.sampled("ledger_url")
def test_no_race_exceeds_the_cap(ledger: PrivacyLedger, at_once) -> None:
    ledger.open_account("visits", epsilon="1")

    def work(number: int) -> list[str]:
        keys = [f"worker {number}, release {i}" for i in range(4)]
        return [outcome(lambda key=key: ledger.reserve("visits", release=key, epsilon="0.1").state) for key in keys]

    outcomes = Counter(outcome for found in at_once(work) for outcome in found)
    assert outcomes == {"reserved": 10, "BudgetExceeded": 4 * WORKERS - 10}
    assert ledger.remaining("visits").epsilon == 0
    assert sum(charge.cost.epsilon for charge in ledger.history("visits")) == 1
    assert ledger.verification().findings == ()


@pytest.mark.sampled("ledger_url")
@pytest.mark.slow
def test_race_for_one_key_makes_one_charge(ledger: PrivacyLedger, at_once) -> None:
    ledger.open_account("visits", epsilon="1")

    found = at_once(lambda _: ledger.reserve("visits", release="r", epsilon="0.3", request_sha256="same").id)
    assert len(set(found)) == 1
    assert [charge.id for charge in ledger.history("visits")] == found[:1]
    assert ledger.remaining("visits").epsilon == Decimal("0.7")


@pytest.mark.sampled("ledger_url")
def test_race_of_different_requests_for_one_key_has_one_winner(ledger: PrivacyLedger, at_once) -> None:
    ledger.open_account("visits", epsilon="1")

    def work(number: int) -> str:
        return outcome(
            lambda: ledger.reserve("visits", release="r", epsilon="0.3", request_sha256=f"{number}").request_sha256
        )

    found = at_once(work)
    [charge] = ledger.history("visits")
    assert Counter(found) == {charge.request_sha256: 1, "ChargeConflict": WORKERS - 1}


@pytest.mark.sampled("ledger_url")
def test_race_to_settle_a_charge_has_one_outcome(ledger: PrivacyLedger, at_once) -> None:
    ledger.open_account("visits", epsilon="1")
    charge = ledger.record_draw(ledger.reserve("visits", release="r", epsilon="0.3").id, DRAW)
    ways = [
        lambda: ledger.commit(charge.id, "one").state,
        lambda: ledger.commit(charge.id, "two").state,
        lambda: ledger.burn(charge.id).state,
        lambda: ledger.void(charge.id).state,
    ]

    found = at_once(lambda number: outcome(ways[number % len(ways)]))
    settled = ledger.charge(charge.id)
    winners = WORKERS // len(ways)
    assert Counter(found) == {settled.state.value: winners, "ChargeConflict": WORKERS - winners}
    assert settled.state in ("committed", "burnt")
    assert ledger.remaining("visits").epsilon == Decimal("0.7")
    assert len(ledger.log("visits")) == 4
    assert ledger.verification().findings == ()


@pytest.mark.sampled("ledger_url")
@pytest.mark.slow
def test_any_mixture_of_calls_keeps_the_books(ledger: PrivacyLedger, at_once) -> None:
    """Few keys, two accounts, everything at random: the worst neighbourhood we can think of."""
    caps = {"small": Fraction("0.5"), "large": Fraction(2)}
    for name, cap in caps.items():
        ledger.open_account(name, epsilon=float(cap))

    def one_call(chance: random.Random) -> None:
        account, key = chance.choice(list(caps)), f"r{chance.randrange(4)}"
        cost = chance.choice(["0.1", "0.30", "0.000000000000000000000000000001"])
        charge: Charge = ledger.reserve(account, release=key, epsilon=cost, request_sha256=chance.choice("ab"))
        way = chance.choice([ledger.void, ledger.void, ledger.burn, ledger.renew, partial(commit, ledger)])
        way(charge.id)

    def work(number: int) -> Counter[str]:
        chance = random.Random(number)
        return Counter(outcome(lambda: one_call(chance)) for _ in range(12))

    outcomes = sum((Counter(found) for found in at_once(work)), Counter())
    assert outcomes["None"] > 0
    assert set(outcomes) <= {"None", "BudgetExceeded", "ChargeConflict"}
    assert ledger.verification().findings == ()
    for name, cap in caps.items():
        charges = ledger.history(name)
        spent = sum(Fraction(charge.cost.epsilon) for charge in charges if charge.state != "void")
        alive = Counter(charge.release for charge in charges if charge.state != "void")
        assert spent <= cap
        assert Fraction(ledger.remaining(name).epsilon) == cap - spent
        assert set(alive.values()) <= {1}


@contextmanager
def all_waiting(url: str, count: int) -> Iterator[None]:
    """Holds every change up at its last step, and lets them go once so many wait for one another inside the server."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    # a transaction sees one state of pg_stat_activity: the onlooker needs a connection of its own
    with psycopg.connect(url) as gate, psycopg.connect(url, autocommit=True) as onlooker:
        gate.execute("SELECT * FROM audit_head FOR UPDATE")
        yield
        end = time.monotonic() + 30
        while onlooker.execute(waiting).fetchone() != (count,):
            assert time.monotonic() < end, "they do not all wait"
            time.sleep(0.01)


@pytest.mark.postgres
def test_changes_that_wait_for_each_other_see_each_other(migrated_database: str, request) -> None:
    """Each was told a total that the one before it has changed since; none is lost, none goes over the cap."""
    ledger = PrivacyLedger(migrated_database)
    account = request.node.name
    ledger.open_account(account, epsilon="0.25")
    with ThreadPoolExecutor(4) as pool:
        with all_waiting(migrated_database, 4):
            calls = [
                pool.submit(outcome, partial(ledger.reserve, account, release=f"r{number}", epsilon="0.1"))
                for number in range(4)
            ]
        outcomes = Counter("BudgetExceeded" if call.result() == "BudgetExceeded" else "reserved" for call in calls)
    assert outcomes == {"reserved": 2, "BudgetExceeded": 2}
    assert ledger.remaining(account).epsilon == Decimal("0.05")
    ledger.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("first", "then"), [("commit", "burn"), ("burn", "commit"), ("burn", "void"), ("void", "void")]
)
def test_settlements_that_wait_for_each_other_see_each_other(
    migrated_database: str, request, first: str, then: str
) -> None:
    ledger = PrivacyLedger(migrated_database)
    account = request.node.name
    ledger.open_account(account, epsilon="1")
    charge = ledger.reserve(account, release="r", epsilon="0.25")
    if "commit" in (first, then):
        ledger.record_draw(charge.id, DRAW)
    logged = len(ledger.log(account))
    with ThreadPoolExecutor(2) as pool:
        with all_waiting(migrated_database, 2):
            calls = [
                pool.submit(outcome, lambda verb=verb: getattr(ledger, verb)(charge.id).state) for verb in (first, then)
            ]
        outcomes = [call.result() for call in calls]
    settled = ledger.charge(charge.id)
    assert sorted(outcomes) == (["void"] * 2 if first == then else sorted(["ChargeConflict", settled.state.value]))
    assert ledger.remaining(account).epsilon == (1 if settled.state == "void" else Decimal("0.75"))
    assert len(ledger.log(account)) == logged + 1
    ledger.close()


def test_ledger_may_be_used_on_both_sides_of_a_fork(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon="1")
    parent = os.getpid()

    def in_child(number: int) -> tuple[bool, str]:
        return os.getpid() != parent, ledger.reserve("visits", release=f"child {number}", epsilon="0.1").state

    assert in_processes(in_child, 2) == [(True, "reserved"), (True, "reserved")]
    ledger.reserve("visits", release="parent", epsilon="0.1")
    assert ledger.remaining("visits").epsilon == Decimal("0.7")
