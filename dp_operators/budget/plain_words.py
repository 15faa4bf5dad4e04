"""What a privacy budget guarantees, in plain words for those who decide about it."""

from __future__ import annotations

from decimal import Decimal

from dp_operators.budget.values import Account
from spark_jobs.contract.odds import Odds, Spent, odds
from spark_jobs.contract.privacy import Budget, Neighbours, plain


def surest(bound: Odds) -> str:
    """How sure an observer with even prior odds on a fact can become of it, in words; percentages are rounded up."""
    return "more than 99.9%" if bound.surest > Decimal("99.9") else f"at most {plain(bound.surest)}%"


def observer(account: Account) -> str:
    """What the observer of a guarantee knows beforehand, as the rest of a sentence."""
    one = "row" if account.unit.column is None else account.unit.column
    unknown = "is in the table"
    if account.neighbours is Neighbours.REPLACE_ONE:
        kept = f", with {account.replaced_within}" if account.replaced_within else ""
        unknown = f"has one value or another{kept}"
    return f"knows everything but whether one particular {one} {unknown}, and holds both for equally likely"


def certainty(cap: Budget) -> str:
    """How sure the observer can become from all that a cap pays for, and how often they can become surer than that.

    Args:
        cap: the cap; a cap of rho comes with the delta at which its epsilon is reported.
    """
    bound = odds(Spent.of(cap))
    failure = f", except with a probability of at most {plain(bound.probability)}" if bound.probability else ""
    return f"{surest(bound)} sure{failure}"


def meaning(account: Account) -> str:
    """What the cap of an account's blocks guarantees, in one sentence."""
    sure, _, failure = certainty(account.cap).partition(", ")
    outcome = f"{sure} after seeing all that a block's cap pays for"
    return f"Somebody who {observer(account)}, can become {', '.join(filter(None, (outcome, failure)))}."
