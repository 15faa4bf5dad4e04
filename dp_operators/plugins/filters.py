"""The charges, and the higher cap, that the query of an address asks about."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from fastapi import Depends, Query

from dp_operators.budget import ChargeState
from dp_operators.budget.overview import ChargeFilter
from dp_operators.plugins.pages import LISTED

MAX_LISTED = 1000
"""The maximum number of charges in one answer."""


def charge_filter(
    state: Annotated[str, Query(pattern=f"^({'|'.join(ChargeState)})?$")] = "",
    text: Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")] = "",
    since: Annotated[date | None, Query()] = None,
    until: Annotated[date | None, Query()] = None,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = LISTED,
) -> ChargeFilter:
    """The charges that the query of an address asks for."""
    wanted = ChargeState(state) if state else None
    return ChargeFilter(state=wanted, text=text, since=since, until=until, offset=offset, limit=limit)


Wanted = Annotated[ChargeFilter, Depends(charge_filter)]


def new_cap(
    epsilon: Annotated[str, Query(max_length=100)] = "",
    delta: Annotated[str, Query(max_length=100)] = "",
    rho: Annotated[str, Query(max_length=100)] = "",
    allotment: Annotated[str, Query(max_length=200)] = "",
) -> dict[str, str | None]:
    """The higher cap that a person is asked to approve, as arguments of ``cap_decision``; empty if there is none."""
    amounts = {"epsilon": epsilon or None, "delta": delta or None, "rho": rho or None}
    return {**amounts, "allotment": allotment or None} if any(amounts.values()) else {}


NewCap = Annotated[dict[str, str | None], Depends(new_cap)]
