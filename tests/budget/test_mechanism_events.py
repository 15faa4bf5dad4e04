"""Which events of a charge are taken at their word, and what is assumed of the others."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from dp_operators.budget import Charge, ChargeState
from dp_operators.budget.composition import cost_in
from dp_operators.budget.mechanism_events import MechanismEvent, charged_events, parse_event
from spark_jobs.contract.privacy import Neighbours, PrivacyUnit

CHARGE = Charge(
    id="c",
    account="a",
    release="r",
    generation=1,
    entry=2,
    state=ChargeState.COMMITTED,
    cost=cost_in("pure", "1"),
    blocks=("all",),
    events=(),
    neighbours=Neighbours.ADD_REMOVE,
    unit=PrivacyUnit(),
    request_sha256="",
    manifest_sha256=None,
    actor="",
    reserved_at="",
    renewed_at="",
    settled_at=None,
)
GAUSSIAN = {"mechanism": "gaussian", "rho": "0.125"}


def pure(epsilon: str) -> dict[str, str]:
    return {"mechanism": "pure", "epsilon": epsilon}


def charge(cost, planned=(), drawn=None) -> Charge:
    return replace(CHARGE, cost=cost, events=tuple(planned), drawn_events=drawn)


@pytest.mark.parametrize(
    ("told", "event"),
    [
        (pure("0.5"), MechanismEvent(mechanism="pure", epsilon=Decimal("0.5"))),
        ({**pure("0.5"), "label": "a tree"}, MechanismEvent(mechanism="pure", epsilon=Decimal("0.5"))),
        ({"mechanism": "laplace", "epsilon": 1}, MechanismEvent(mechanism="laplace", epsilon=Decimal(1))),
        (GAUSSIAN, MechanismEvent(mechanism="gaussian", rho=Decimal("0.125"))),
        (
            {"mechanism": "approximate", "epsilon": "1", "delta": "1e-9"},
            MechanismEvent(mechanism="approximate", epsilon=Decimal(1), delta=Decimal("1e-9")),
        ),
        ({"mechanism": "cauchy", "epsilon": "1"}, None),
        ({"mechanism": "laplace", "scale": "2"}, None),
        ({"mechanism": "approximate", "epsilon": "1"}, None),
        ({"mechanism": "approximate", "epsilon": "1", "delta": "1"}, None),
        (pure("-1"), None),
        (pure("nan"), None),
        ("pure", None),
        ({"epsilon": "1"}, None),
        ({"mechanism": ["pure"], "epsilon": "1"}, None),
    ],
)
def test_event_is_read_or_not(told: object, event: MechanismEvent | None) -> None:
    assert parse_event(told) == event


def test_word_of_the_draw_goes_before_the_plan_and_the_plan_before_the_charge() -> None:
    one, half = cost_in("pure", "1"), MechanismEvent(mechanism="pure", epsilon=Decimal("0.5"))
    assert charged_events(charge(one, [pure("1")], (pure("0.5"), pure("0.5")))) == (half, half)
    assert charged_events(charge(one, [pure("0.5")])) == (half,)
    assert charged_events(charge(one)) == (MechanismEvent(mechanism="pure", epsilon=Decimal(1)),)
    approximate = cost_in("approximate", "1", "1e-9")
    assert charged_events(charge(approximate)) == (
        MechanismEvent(mechanism="approximate", epsilon=Decimal(1), delta=Decimal("1e-9")),
    )


@pytest.mark.parametrize(
    "told",
    [
        [pure("0.5"), pure("0.6")],
        [pure("0.5"), "and something else"],
        [GAUSSIAN],
        [{"mechanism": "approximate", "epsilon": "0.5", "delta": "1e-9"}],
    ],
)
def test_events_that_are_no_word_to_rely_on_give_way_to_the_charge(told: list[object]) -> None:
    assert charged_events(charge(cost_in("pure", "1"), told)) == (MechanismEvent(mechanism="pure", epsilon=Decimal(1)),)


def test_charge_of_rho_is_told_by_its_events_alone() -> None:
    rho = cost_in("zcdp", None, 0, "0.25")
    assert charged_events(charge(rho)) is None
    assert (
        charged_events(charge(rho, [GAUSSIAN, GAUSSIAN]))
        == (MechanismEvent(mechanism="gaussian", rho=Decimal("0.125")),) * 2
    )
    # 0.125 and 0.5^2/2 make 0.25
    assert charged_events(charge(rho, [GAUSSIAN, pure("0.5")])) is not None
    assert charged_events(charge(rho, [GAUSSIAN, pure("0.51")])) is None
    assert (
        charged_events(charge(rho, [GAUSSIAN, {"mechanism": "approximate", "epsilon": "0.1", "delta": "1e-9"}])) is None
    )
