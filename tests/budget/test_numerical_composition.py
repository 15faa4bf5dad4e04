"""The tighter sum that is shown for information, held against exact sums of losses."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from math import exp, sqrt

import pytest
from scipy.stats import binom, norm

from dp_operators.budget import BudgetExceeded, PrivacyLedger
from dp_operators.budget.cli import account_json
from dp_operators.budget.composition import epsilon_at
from dp_operators.budget.mechanism_events import MechanismEvent
from dp_operators.budget.numerical_composition import MIN_DELTA, non_adaptive_epsilon
from dp_operators.budget.reports import accounts_table
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import commit

CASES = [("0.01", 393), ("0.1", 100), ("0.5", 100), ("1", 30), ("1", 100), ("1", 300), ("0.3", 1000), ("3", 20)]


def event(mechanism: str, **amounts: str) -> MechanismEvent:
    return MechanismEvent(mechanism=mechanism, **{name: Decimal(amount) for name, amount in amounts.items()})


def least_epsilon(delta_at, delta: float) -> float:
    low, high = 0.0, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


def exact_pure(epsilon: float, count: int, delta: float) -> float:
    """Of ``count`` randomised responses: the number of truthful ones is binomial (Kairouz, Oh, Viswanath 2015)."""
    chance = binom(count, exp(epsilon) / (1 + exp(epsilon)))
    losses = [((2 * k - count) * epsilon, float(chance.pmf(k))) for k in range(count + 1)]
    return least_epsilon(lambda at: sum(p * -(exp(at - loss) - 1) for loss, p in losses if loss > at), delta)


def exact_gaussian(rho: float, delta: float) -> float:
    """Balle and Wang 2018, theorem 8."""
    apart = sqrt(2 * rho)
    return least_epsilon(
        lambda at: float(norm.cdf(apart / 2 - at / apart) - exp(at + norm.logcdf(-apart / 2 - at / apart))), delta
    )


@pytest.mark.slow
@pytest.mark.parametrize("delta", ["1e-6", "1e-9", "1e-10"])
@pytest.mark.parametrize(("epsilon", "count"), CASES)
def test_pure_mechanisms_are_never_told_too_low_and_hardly_too_high(epsilon: str, count: int, delta: str) -> None:
    told = non_adaptive_epsilon([event("pure", epsilon=epsilon)] * count, Decimal(delta))
    assert told is not None
    exact = exact_pure(float(epsilon), count, float(delta))
    assert exact - 1e-9 <= float(told) <= 1.01 * exact + 2e-4
    assert told <= Decimal(epsilon) * count


def test_library_left_to_itself_tells_less_than_the_exact_epsilon() -> None:
    """Why the grid is sized here: the library's own size cuts losses off."""
    from prv_accountant import PRVAccountant, PureDPMechanism

    accountant = PRVAccountant([PureDPMechanism(1.0)], eps_error=0.1, delta_error=1e-9, max_self_compositions=[100])
    _, _, upper = accountant.compute_epsilon(1e-6, [100])
    assert upper < 73 < 83 < exact_pure(1.0, 100, 1e-6)


@pytest.mark.parametrize("rho", ["0.001", "0.1", "0.5", "5", "50"])
def test_gaussian_mechanisms_are_never_told_too_low_and_hardly_too_high(rho: str) -> None:
    parts = [event("gaussian", rho=str(Decimal(rho) / 10))] * 10
    told = float(non_adaptive_epsilon(parts, Decimal("1e-6")) or 0)
    exact = exact_gaussian(float(rho), 1e-6)
    assert exact <= told <= 1.01 * exact + 2e-4
    assert told < float(epsilon_at(Decimal(rho), Decimal("1e-6")))


def test_laplace_mechanisms_cost_less_than_pure_ones_and_more_than_one_of_them() -> None:
    delta = Decimal("1e-6")
    laplace = non_adaptive_epsilon([event("laplace", epsilon="0.1")] * 100, delta) or 0
    pure = non_adaptive_epsilon([event("pure", epsilon="0.1")] * 100, delta) or 0
    assert Decimal("0.1") < laplace < pure
    # of one: delta = 1 - e^((epsilon - 1)/2) at any epsilon below 1
    alone = float(non_adaptive_epsilon([event("laplace", epsilon="1")], Decimal("0.2")) or 0)
    exact = least_epsilon(lambda at: 1 - exp((at - 1) / 2), 0.2)
    assert exact <= alone <= 1.02 * exact


def test_mixtures_hold_against_every_outcome() -> None:
    """Pure and approximate ones with different amounts: all outcomes are enumerated."""
    events = [event("pure", epsilon=str(Decimal(k) / 10)) for k in (1, 3, 5)]
    events += [event("approximate", epsilon="0.4", delta="0.001"), event("approximate", epsilon="0.2", delta="0.002")]
    revealed = 1 - (1 - 0.001) * (1 - 0.002)

    def delta_at(at: float) -> float:
        total = 0.0
        for signs in itertools.product((1, -1), repeat=len(events)):
            epsilons = [float(each.epsilon) for each in events]
            loss = sum(sign * epsilon for sign, epsilon in zip(signs, epsilons, strict=True))
            chance = 1.0
            for sign, epsilon in zip(signs, epsilons, strict=True):
                chance *= exp(epsilon) / (1 + exp(epsilon)) if sign > 0 else 1 / (1 + exp(epsilon))
            total += chance * max(0.0, 1 - exp(at - loss))
        return revealed + (1 - revealed) * total

    for delta in ("0.01", "0.1"):
        told = float(non_adaptive_epsilon(events, Decimal(delta)) or 0)
        exact = least_epsilon(delta_at, float(delta))
        assert exact <= told <= 1.03 * exact


def test_figure_grows_with_every_event_and_shrinks_with_delta() -> None:
    delta, events, before = Decimal("1e-6"), [], Decimal(0)
    for each in ("pure", "laplace", "approximate") * 3:
        more = {"delta": "1e-8"} if each == "approximate" else {}
        events.append(event(each, epsilon="0.2", **more))
        told = non_adaptive_epsilon(events, delta) or Decimal(0)
        assert told > before
        before = told
    events.append(event("gaussian", rho="0.02"))
    assert (non_adaptive_epsilon(events, delta) or 0) > before
    assert (non_adaptive_epsilon(events, Decimal("0.01")) or 0) < before


def test_no_events_cost_nothing_and_what_reveals_too_often_has_no_figure() -> None:
    assert non_adaptive_epsilon([], Decimal("1e-6")) == 0
    assert non_adaptive_epsilon([event("approximate", epsilon="1", delta="0.5")], Decimal("1e-6")) is None
    assert non_adaptive_epsilon([event("pure", epsilon="0.1")], Decimal("1e-6")) == Decimal("0.1")
    for delta in ("0", "1e-11", "1"):
        with pytest.raises(InvalidRequest, match=r"delta: got .* must be at least 0\.0000000001 and below 1"):
            non_adaptive_epsilon([event("pure", epsilon="1")], Decimal(delta))
    assert Decimal("1e-10") == MIN_DELTA


@pytest.fixture
def many(ledger: PrivacyLedger) -> PrivacyLedger:
    """A hundred small charges that fill a pure account, one of which was given back."""
    ledger.open_account("visits", epsilon="10")
    for number in range(100):
        charge = ledger.reserve("visits", release=f"r{number}", epsilon="0.1")
    ledger.void(charge.id)
    commit(ledger, ledger.history("visits")[0].id, "ab", events=[{"mechanism": "pure", "epsilon": "0.05"}] * 2)
    return ledger


def test_ledger_tells_the_figure_and_admits_nothing_by_it(many: PrivacyLedger) -> None:
    told = many.non_adaptive_bound("visits")
    assert told is not None
    assert told.delta == Decimal("1e-6")
    assert 4 < told.epsilon < 5
    with pytest.raises(BudgetExceeded):
        many.reserve("visits", release="more", epsilon="0.2")
    assert many.remaining("visits").epsilon == Decimal("0.1")


def test_figure_is_shown_and_exported_where_it_is_asked_for(many: PrivacyLedger) -> None:
    [account] = many.accounts()
    plain, tight = account_json(many, account), account_json(many, account, tight=True)
    assert "if decided beforehand" not in accounts_table([plain])
    told = tight["blocks"]["all"].pop("if_decided_beforehand")
    assert tight == plain
    assert json.dumps(told) == json.dumps(
        {"epsilon": str((many.non_adaptive_bound("visits") or account.cap).epsilon), "delta": "0.000001"}
    )
    shown = accounts_table([account_json(many, account, tight=True)]).splitlines()
    assert "if decided beforehand" in shown[0]
    assert f"{told['epsilon']} at 0.000001" in shown[1]
    # the figure never stands without what it is worth
    assert "if they and their amounts had been fixed before the first" in shown[-2]
    assert "For charges that were chosen after earlier answers only the" in shown[-1]
    assert "earlier answers" not in accounts_table([plain])


def test_account_of_rho_is_told_by_its_events(ledger: PrivacyLedger) -> None:
    ledger.open_account("noisy", composition="zcdp", rho="0.5", delta="1e-6")
    gaussian = [{"mechanism": "gaussian", "rho": "0.125"}]
    ledger.reserve("noisy", release="a", rho="0.125", events=gaussian)
    ledger.reserve("noisy", release="b", rho="0.125", events=gaussian)
    told = ledger.non_adaptive_bound("noisy")
    assert told is not None
    assert exact_gaussian(0.25, 1e-6) <= float(told.epsilon) < float(epsilon_at(Decimal("0.25"), Decimal("1e-6")))
    ledger.reserve("noisy", release="c", rho="0.1")
    assert ledger.non_adaptive_bound("noisy") is None
    assert " - " in accounts_table([account_json(ledger, ledger.account("noisy"), tight=True)])
