"""How charges add up, and when an account may bear one more.

``pure`` accounts add epsilons. For mechanisms chosen adaptively, each with an epsilon chosen adaptively too, stopping
before the exact sum would exceed the cap is a valid privacy filter: everything released is cap-differentially private
under the account's neighbour relation (Rogers, Roth, Ullman, Vadhan, "Privacy Odometers and Filters", 2016, section 3).
Proof: the likelihood ratio of any transcript is a product of conditional ratios, each at most e^epsilon_i, and on every
transcript the epsilons sum to at most the cap. Reserved charges are counted before their mechanism runs, so the sum
that is compared never lags behind what was drawn.

Sums are of exact decimals. Nothing here rounds.
"""

from __future__ import annotations

from decimal import localcontext
from typing import Any

from dp_operators.budget.values import exact_budget
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import MAX_EPSILON, Budget, exact_decimal, exact_sum, plain

COMPOSITIONS = ("pure", "zcdp", "approximate")
OFFERED = ("pure",)


def offered_composition(composition: str) -> str:
    """``composition``, if this version keeps such accounts.

    Raises:
        RequestRefused: no composition, or one that this version does not keep.
    """
    if composition in OFFERED:
        return composition
    if composition in COMPOSITIONS:
        bound = "this version keeps pure accounts"
    else:
        bound = "must be one of " + ", ".join(COMPOSITIONS) + ", of which this version keeps pure"
    raise RequestRefused("composition", given=composition, bound=bound, remedy="open the account with pure")


def pure_budget(epsilon: Any, delta: Any = 0, rho: Any = None) -> Budget:
    """A cap or a cost in a pure account.

    Raises:
        RequestRefused: epsilon is not a finite number above 0, or there is a delta or a rho.
    """
    number = exact_decimal(epsilon, what="epsilon")
    if not 0 < number <= MAX_EPSILON:
        raise RequestRefused(
            "epsilon",
            given=plain(number),
            bound="must be above 0 and at most 10^12",
            remedy="give an amount such as '0.5'",
        )
    for what, value in (("delta", delta), ("rho", rho)):
        if value is not None and exact_decimal(value, what=what) != 0:
            raise RequestRefused(
                what,
                given=value,
                bound="this version keeps pure accounts, which have none",
                remedy=f"leave {what} out",
            )
    return exact_budget(number)


def added(spent: Budget, cost: Budget) -> Budget:
    """What is spent once ``cost`` is."""
    return exact_budget(exact_sum(spent.epsilon, cost.epsilon), exact_sum(spent.delta, cost.delta))


def taken_off(spent: Budget, cost: Budget) -> Budget:
    """What is spent once ``cost``, which is part of it, is given back."""
    return exact_budget(
        exact_sum(spent.epsilon, cost.epsilon.copy_negate()), exact_sum(spent.delta, cost.delta.copy_negate())
    )


def fits(cap: Budget, spent: Budget) -> bool:
    """Whether ``spent`` is within ``cap``."""
    with localcontext(prec=200):
        return spent.epsilon <= cap.epsilon and spent.delta <= cap.delta
