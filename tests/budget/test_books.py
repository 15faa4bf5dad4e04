"""Any interleaving of calls over any blocks, in every composition, recomputed in fractions and floats another way."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import count
from math import log, sqrt

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_operators.budget import BudgetExceeded, Charge, ChargeConflict, PrivacyLedger
from dp_operators.budget.transactions.verification import Replay
from tests.support.ledgers import CAPS, COSTS

BLOCKS = ("2026-01", "2026-02", "2026-03")
_runs = count()

calls = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "reserve", "reserve", "commit", "burn", "void"]),
        st.integers(0, 4),
        st.integers(0, 3),
        st.sets(st.sampled_from(BLOCKS), min_size=1),
        st.sampled_from([None, "team"]),
    ),
    max_size=40,
)


def exceeds(kind: str, charges: list[Charge], *, share: float) -> bool:
    """Whether charges of one block are beyond ``share`` of its cap, from the theorems' own formulas."""
    epsilon = sum((Fraction(charge.cost.epsilon) for charge in charges), Fraction(0))
    delta = sum((Fraction(charge.cost.delta) for charge in charges), Fraction(0))
    part = Fraction(share)
    if kind == "pure":
        return epsilon > part
    if kind == "exact sums":
        return epsilon > part or delta > Fraction(1, 10**5)
    squares = sum((Fraction(charge.cost.epsilon) ** 2 for charge in charges), Fraction(0))
    if kind == "zcdp":
        direct = sum((Fraction(charge.cost.rho or 0) for charge in charges if charge.cost.epsilon == 0), Fraction(0))
        return squares / 2 + direct > part / 2
    advanced = sqrt(2 * log(1 / 5e-6) * float(squares)) + float(squares) / 2
    return delta > Fraction(5, 10**6) or (epsilon > part and advanced > share * (1 + 1e-12))


@pytest.mark.sampled("kind", "stays", "ledger_url")
@pytest.mark.slow
@pytest.mark.parametrize("stays", [True, False], ids=["block by block", "in all"])
@pytest.mark.parametrize("kind", list(CAPS))
def test_no_interleaving_exceeds_a_cap(ledger: PrivacyLedger, kind: str, stays: bool) -> None:
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(calls)
    def play(steps: list) -> None:
        name = f"account {next(_runs)}"
        ledger.open_account(name, **CAPS[kind], blocks="month(at)", unit_stays=stays)  # type: ignore[arg-type]
        half = {what: "0.25" if what == "rho" else "0.5" for what in ("epsilon", "rho") if what in CAPS[kind]}
        ledger.allot(name, "team", **half, delta=CAPS[kind].get("delta") if kind != "zcdp" else None)
        for verb, key, cost, blocks, allotment in steps:
            release = f"r{key}"
            try:
                if verb == "reserve":
                    amounts = COSTS[kind][cost % len(COSTS[kind])]
                    ledger.reserve(name, release=release, blocks=blocks, allotment=allotment, **amounts)
                elif (charge := ledger.find_charge(name, release)) is not None:
                    getattr(ledger, verb)(charge.id)
            except (BudgetExceeded, ChargeConflict):
                continue
        counted = [charge for charge in ledger.history(name) if charge.state != "void"]
        for block in BLOCKS:
            mine = [charge for charge in counted if not stays or block in charge.blocks]
            assert not exceeds(kind, mine, share=1)
            if kind != "approximate":  # whose smaller cap has another rho
                assert not exceeds(kind, [charge for charge in mine if charge.allotment], share=0.5)

    play()
    assert ledger.verification().findings == ()


def until_exceeded(ledger: PrivacyLedger, kind: str) -> Iterator[Charge]:
    for number in count():
        try:
            yield ledger.reserve(kind, release=f"r{number}", **COSTS[kind][0])
        except BudgetExceeded:
            return


def test_recomputation_is_seen_to_find_an_excess(ledger: PrivacyLedger) -> None:
    """The check itself: charges that a ledger refuses."""
    for kind, caps in CAPS.items():
        ledger.open_account(kind, **caps)  # type: ignore[arg-type]
        charges = list(until_exceeded(ledger, kind))
        assert not exceeds(kind, charges, share=1)
        assert exceeds(kind, [*charges, charges[0]], share=1)


def test_log_alone_gives_every_total(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon="1", blocks="month(at)")
    ledger.allot("visits", "team", epsilon="0.5")
    ledger.void(ledger.reserve("visits", release="a", epsilon="0.25", blocks=BLOCKS, allotment="team").id)
    ledger.reserve("visits", release="b", epsilon="0.25", blocks=BLOCKS[:2], allotment="team")
    replay = Replay()
    assert [found for entry in ledger.log() for found in replay.step(entry)] == []
    told = {(key[1], key[2]): row["epsilon"] for key, row in replay.block_totals.items() if row["epsilon"] != "0"}
    assert told == {(purse, block): "0.25" for purse in ("", "team") for block in BLOCKS[:2]}
