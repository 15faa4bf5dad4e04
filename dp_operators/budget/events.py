"""Mechanism events: what the mechanisms of a charge do to privacy, so that their sum can be recomputed more tightly.

An event is a JSON object. Beside ``mechanism`` and its amounts it may carry anything else, such as a ``label``:

===============  ======================  ==================================================================
``mechanism``    amounts                 what it says
===============  ======================  ==================================================================
``pure``         ``epsilon``             any epsilon-DP mechanism
``laplace``      ``epsilon``             real-valued Laplace noise of scale l1_sensitivity/epsilon
``gaussian``     ``rho``                 Gaussian noise with rho = (l2_sensitivity/stddev)^2/2
``approximate``  ``epsilon``, ``delta``  any (epsilon, delta)-DP mechanism
===============  ======================  ==================================================================

Two-sided geometric noise on a count, which is what the diagnostics draw, is ``pure`` and not ``laplace``: its loss is
plus or minus epsilon and nothing in between, like that of randomised response, the worst there is.

Amounts are exact decimals, for a whole privacy unit. Each charge has two lists: what was planned when it was reserved,
and what the draw says when it is committed. The second is what happened; neither is ever changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dp_operators.budget.composition import half_square
from dp_operators.budget.values import Charge
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import exact_decimal, exact_sum

PURE, LAPLACE, GAUSSIAN, APPROXIMATE = ("pure", "laplace", "gaussian", "approximate")
_AMOUNTS = {PURE: ("epsilon",), LAPLACE: ("epsilon",), GAUSSIAN: ("rho",), APPROXIMATE: ("epsilon", "delta")}
_ZERO = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class Event:
    """One mechanism's event; amounts that it does not have are 0."""

    mechanism: str
    epsilon: Decimal = _ZERO
    delta: Decimal = _ZERO
    rho: Decimal = _ZERO


def read_event(told: Any) -> Event | None:
    """The event that a JSON value tells; None if it tells none."""
    mechanism = str(told.get("mechanism")) if isinstance(told, Mapping) else ""
    if mechanism not in _AMOUNTS:
        return None
    try:
        amounts = {name: exact_decimal(told.get(name), what=name) for name in _AMOUNTS[mechanism]}
    except InvalidRequest:
        return None
    if not amounts.get("delta", _ZERO) < 1 or any(amount < 0 for amount in amounts.values()):
        return None
    return Event(mechanism=mechanism, **amounts)


def events_of(charge: Charge) -> tuple[Event, ...] | None:
    """What a charge's mechanisms spent at most: as the draw told, else as was planned, else as it was charged.

    Events that cannot be read, or that add up to more than the charge, are no word to rely on. None for a charge of
    rho alone without events: an amount of zero-concentrated privacy does not say which mechanism spends it.
    """
    told = charge.events if charge.drawn_events is None else charge.drawn_events
    read = [read_event(each) for each in told]
    events = tuple(event for event in read if event is not None)
    if events and len(events) == len(read) and within(events, charge):
        return events
    cost = charge.cost
    if cost.epsilon == 0:
        return None
    return (Event(mechanism=APPROXIMATE if cost.delta else PURE, epsilon=cost.epsilon, delta=cost.delta),)


def within(events: Iterable[Event], charge: Charge) -> bool:
    """Whether events add up to no more than what was charged.

    Of Gaussian noise only an account that counts in rho can say so; elsewhere it is within nothing.
    """
    events = tuple(events)
    rho, cost = exact_sum(*(event.rho for event in events)), charge.cost
    if cost.epsilon == 0:
        halves = [exact_sum(event.rho, half_square(event.epsilon)) for event in events]
        return not any(event.delta for event in events) and exact_sum(*halves) <= (cost.rho or _ZERO)
    return (
        rho == 0
        and exact_sum(*(event.epsilon for event in events)) <= cost.epsilon
        and exact_sum(*(event.delta for event in events)) <= cost.delta
    )
