"""What a privacy budget promises, in words for those who decide about it."""

from __future__ import annotations

import math
from decimal import Decimal

from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit, plain


def surest(epsilon: Decimal) -> str:
    """How sure an observer can become of what they held for as likely as not, in words; percents are rounded up.

    It is the posterior probability exp(epsilon) / (1 + exp(epsilon)) at prior odds of 1.
    """
    percent = 100 / (1 + math.exp(-min(float(epsilon), 700.0)))
    if percent > 99.9:
        return "more than 99.9%"
    return f"at most {math.ceil(percent) if percent <= 99 else math.ceil(10 * percent) / 10}%"


def observer(neighbours: Neighbours, unit: PrivacyUnit) -> str:
    """Whom a promise is about: what somebody knows beforehand, as the rest of a sentence."""
    one = "row" if unit.column is None else unit.column
    secret = "is in the table" if neighbours is Neighbours.ADD_REMOVE else "has one value or another"
    return f"knows everything but whether one particular {one} {secret}, and holds both for equally likely"


def certainty(cap: Budget) -> str:
    """How sure that observer can become after all that a cap pays for; its epsilon holds at its delta."""
    failure = f", except with a probability of about {plain(cap.delta)}" if cap.delta else ""
    return f"{surest(cap.epsilon)} sure{failure}"


def meaning(cap: Budget, neighbours: Neighbours, unit: PrivacyUnit) -> str:
    """What the cap of an account's blocks promises, in one sentence.

    Args:
        cap: its epsilon holds at its delta.
        neighbours: the relation of the guarantee.
        unit: the privacy unit.
    """
    sure, _, failure = certainty(cap).partition(", ")
    outcome = f"{sure} after seeing all that a block's cap pays for"
    return f"Somebody who {observer(neighbours, unit)}, can become {', '.join(filter(None, (outcome, failure)))}."
