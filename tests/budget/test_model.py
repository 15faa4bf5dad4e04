"""Any sequence of calls, held against a model that keeps its books in memory, in fractions, its own way."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from dp_operators.budget import BudgetExceeded, ChargeConflict, PrivacyLedger
from tests.support.ledgers import commit

CAP = "1"
ACCOUNTS = st.sampled_from(["left", "right"])
KEYS = st.sampled_from(["r1", "r2", "r3"])
COSTS = st.sampled_from(["0.1", "0.3", 0.3, "1", "0.70", "0.000000000000000000000000000001", "1.1"])
REQUESTS = st.sampled_from(["a", "b"])
MANIFESTS = st.sampled_from([None, "m", "n"])

_runs = count()


@dataclass
class Paid:
    """What the model knows of one release key."""

    ids: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    costs: list[Fraction] = field(default_factory=list)
    request: str = ""
    manifest: str | None = None

    @property
    def alive(self) -> bool:
        return bool(self.states) and self.states[-1] != "void"


class Books(RuleBasedStateMachine):
    ledger: PrivacyLedger

    def __init__(self) -> None:
        super().__init__()
        self.run = next(_runs)
        self.books: dict[str, dict[str, Paid]] = {"left": {}, "right": {}}
        for name in self.books:
            self.ledger.open_account(self.name(name), epsilon=CAP)

    def name(self, account: str) -> str:
        return f"{account} {self.run}"

    def spent(self, account: str) -> Fraction:
        return sum(
            (
                cost
                for paid in self.books[account].values()
                for cost, state in zip(paid.costs, paid.states, strict=True)
                if state != "void"
            ),
            Fraction(0),
        )

    @rule(account=ACCOUNTS, key=KEYS, cost=COSTS, request=REQUESTS)
    def reserve(self, account: str, key: str, cost: Any, request: str) -> None:
        paid = self.books[account].setdefault(key, Paid())
        amount = Fraction(str(cost))
        if paid.alive:
            expected: Any = paid.ids[-1] if (paid.request, paid.costs[-1]) == (request, amount) else ChargeConflict
        else:
            expected = "new" if self.spent(account) + amount <= Fraction(CAP) else BudgetExceeded
        got = self.tried(
            lambda: self.ledger.reserve(self.name(account), release=key, epsilon=cost, request_sha256=request).id
        )
        if expected == "new":
            assert isinstance(got, str)
            assert got not in paid.ids
            paid.ids.append(got)
            paid.states.append("reserved")
            paid.costs.append(amount)
            paid.request, paid.manifest = request, None
        else:
            assert got == expected

    @rule(account=ACCOUNTS, key=KEYS, manifest=MANIFESTS, old=st.booleans())
    def commit(self, account: str, key: str, manifest: str | None, old: bool) -> None:
        self.settle(account, key, old, "committed", lambda charge: commit(self.ledger, charge, manifest), manifest)

    @rule(account=ACCOUNTS, key=KEYS, old=st.booleans())
    def burn(self, account: str, key: str, old: bool) -> None:
        self.settle(account, key, old, "burnt", self.ledger.burn)

    @rule(account=ACCOUNTS, key=KEYS, old=st.booleans())
    def void(self, account: str, key: str, old: bool) -> None:
        self.settle(account, key, old, "void", self.ledger.void)

    def settle(self, account: str, key: str, old: bool, state: str, call: Any, manifest: str | None = None) -> None:
        paid = self.books[account].get(key)
        if paid is None or not paid.ids:
            return
        place = 0 if old else len(paid.ids) - 1
        known = paid.manifest if place == len(paid.ids) - 1 else None
        if paid.states[place] == "reserved":
            paid.states[place] = expected = state
            paid.manifest = manifest
        elif (paid.states[place], known) == (state, manifest):
            expected = state
        else:
            expected = ChargeConflict
        assert self.tried(lambda: call(paid.ids[place]).state.value) == expected

    def tried(self, call: Any) -> Any:
        try:
            return call()
        except (BudgetExceeded, ChargeConflict) as refused:
            return type(refused)

    @invariant()
    def books_agree(self) -> None:
        for account, keys in self.books.items():
            spent = self.spent(account)
            assert spent <= Fraction(CAP)
            assert Fraction(self.ledger.remaining(self.name(account)).epsilon) == Fraction(CAP) - spent
            told = {charge.id: charge.state.value for charge in self.ledger.history(self.name(account))}
            known = [dict(zip(paid.ids, paid.states, strict=True)) for paid in keys.values()]
            assert told == {charge: state for states in known for charge, state in states.items()}

    def teardown(self) -> None:
        assert self.ledger.verification().findings == ()


@pytest.mark.slow
@pytest.mark.sampled
def test_ledger_keeps_the_same_books_as_the_model(ledger: PrivacyLedger) -> None:
    machine = type("BooksOfThisLedger", (Books,), {"ledger": ledger})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
