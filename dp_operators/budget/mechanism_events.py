"""Mechanism events: the privacy cost of each mechanism of a charge, from which the total can be recomputed.

An event is a JSON object. Beside ``mechanism`` and its amounts it may have other fields, such as a ``label``:

===============  ======================  ==================================================================
``mechanism``    amounts                 meaning
===============  ======================  ==================================================================
``pure``         ``epsilon``             any epsilon-DP mechanism
``laplace``      ``epsilon``             real-valued Laplace noise of scale l1_sensitivity/epsilon
``gaussian``     ``rho``                 Gaussian noise with rho = (l2_sensitivity/stddev)^2/2
``approximate``  ``epsilon``, ``delta``  any (epsilon, delta)-DP mechanism
===============  ======================  ==================================================================

Two-sided geometric noise on a count, which the diagnostics draw, is ``pure`` and not ``laplace``: its privacy loss is
either epsilon or minus epsilon, as for randomised response, the worst epsilon-DP mechanism.

Amounts are exact decimals for a whole privacy unit. A charge has two lists of events: the planned events, written when
it is reserved, and the drawn events, taken from its draw when it is committed. The drawn events state what was really
spent. Neither list is ever changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

from dp_operators.budget.values import Charge
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import MAX_DIGITS, Budget, delta_of_rows, exact_decimal, exact_sum, half_square, plain

PURE, LAPLACE, GAUSSIAN, APPROXIMATE = ("pure", "laplace", "gaussian", "approximate")
_AMOUNTS = {PURE: ("epsilon",), LAPLACE: ("epsilon",), GAUSSIAN: ("rho",), APPROXIMATE: ("epsilon", "delta")}
_ZERO = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class MechanismEvent:
    """The privacy cost of one mechanism; amounts that its kind does not have are 0."""

    mechanism: str
    epsilon: Decimal = _ZERO
    delta: Decimal = _ZERO
    rho: Decimal = _ZERO


def parse_event(value: Any) -> MechanismEvent | None:
    """The event in a JSON value; None if the value is not a valid event."""
    mechanism = str(value.get("mechanism")) if isinstance(value, Mapping) else ""
    if mechanism not in _AMOUNTS:
        return None
    try:
        amounts = {name: exact_decimal(value.get(name), what=name) for name in _AMOUNTS[mechanism]}
    except InvalidRequest:
        return None
    if not amounts.get("delta", _ZERO) < 1 or any(amount < 0 for amount in amounts.values()):
        return None
    return MechanismEvent(mechanism=mechanism, **amounts)


def charged_events(charge: Charge) -> tuple[MechanismEvent, ...] | None:
    """Events that bound what a charge's mechanisms spent: the drawn ones, else the planned ones, else the cost itself.

    A list that cannot be parsed, or that adds up to more than the charge, is not used. None for a charge of rho without
    usable events, because a rho alone does not determine the mechanism that spends it.
    """
    values = charge.events if charge.drawn_events is None else charge.drawn_events
    parsed = [parse_event(value) for value in values]
    events = tuple(event for event in parsed if event is not None)
    if events and len(events) == len(parsed) and is_within_cost(events, charge):
        return events
    cost = charge.cost
    if cost.epsilon == 0:
        return None
    return (MechanismEvent(mechanism=APPROXIMATE if cost.delta else PURE, epsilon=cost.epsilon, delta=cost.delta),)


def is_within_cost(events: Iterable[MechanismEvent], charge: Charge) -> bool:
    """Whether events add up to at most the cost of a charge.

    Gaussian events can be within a cost in rho only, so they are never within a cost in epsilon.
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


def planned_events(cost: Budget) -> tuple[dict[str, str], ...]:
    """The events of a request before its draw, as the ledger stores them: one mechanism that spends the whole cost.

    None of a rho, which does not say what mechanism spends it.
    """
    if cost.rho is not None:
        return ()
    if cost.delta == 0:
        return ({"mechanism": PURE, "epsilon": plain(cost.epsilon)},)
    return ({"mechanism": APPROXIMATE, "epsilon": plain(cost.epsilon), "delta": plain(cost.delta)},)


def drawn_events(draw: Mapping[str, Any], *, max_rows: int) -> tuple[dict[str, str], ...] | None:
    """The mechanism events of a draw, as the ledger stores them, for a whole privacy unit; None if the draw has none.

    A draw states the cost of each mechanism for one row; a unit of several rows loses more (``delta_of_rows``). If the
    budget is one of rho, the draw states each rho for the whole unit, and a mechanism without an epsilon is Gaussian
    noise.

    Args:
        draw: the fields of the opened draw.
        max_rows: the largest number of rows of one unit.
    """
    try:
        events = tuple(_event_of_unit(spending, max_rows) for spending in draw.get("events") or ()) or None
        return events if events is None else _with_left_out(events, draw)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _with_left_out(events: tuple[dict[str, str], ...], draw: Mapping[str, Any]) -> tuple[dict[str, str], ...]:
    """The events, which also bound the loss of a row that counts in nothing.

    Where its count is free (``spark_jobs.mechanisms.left_out``), such a row loses the whole cost in one mechanism,
    which several mechanisms that add up to this cost do not bound.
    """
    free = draw.get("left_out") is not None and all(event["label"].partition(":")[0] != "left_out" for event in events)
    if not free or len(events) == 1:
        return events
    epsilon, delta = (exact_sum(*(exact_decimal(event.get(of, 0)) for event in events)) for of in ("epsilon", "delta"))
    whole = {"label": "; ".join(event["label"] for event in events), "epsilon": plain(epsilon)}
    return ({"mechanism": APPROXIMATE, **whole, "delta": plain(delta)} if delta else {"mechanism": PURE, **whole},)


def _event_of_unit(spending: Mapping[str, Any], rows: int) -> dict[str, str]:
    epsilon, delta = exact_decimal(spending["epsilon"]), exact_decimal(spending["delta"])
    label = ": ".join(str(spending[name]) for name in ("diagnostic", "label") if spending.get(name))
    with localcontext(prec=4 * MAX_DIGITS):
        of_unit = {"label": label, "epsilon": plain(epsilon * rows)}
    if delta == 0 and epsilon == 0:
        return {"mechanism": GAUSSIAN, "label": label, "rho": plain(exact_decimal(spending["rho"]))}
    if delta == 0:
        return {"mechanism": PURE, **of_unit}
    return {"mechanism": APPROXIMATE, **of_unit, "delta": plain(delta_of_rows(epsilon, delta, rows))}
