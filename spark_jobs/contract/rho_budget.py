"""A budget that is stated as a rho: what it may pay for, and the epsilon that pure noise may cost of it.

An account of composition ``zcdp`` adds up rhos. Gaussian noise of rho costs this rho, and pure noise of epsilon costs
``epsilon^2 / 2`` (``privacy.half_square``). A request that states a rho is charged this rho, and its guarantee is
rho-zCDP: no delta is spent, and the epsilon that is reported at a delta follows from the rho. Quantiles and the counts
of rows that no diagnostic uses are drawn with pure noise beside the Gaussian noise; each gets a share of rho, and costs
the epsilon that this share allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, epsilon_of_rho, exact_decimal, plain


def with_epsilon(value: Any) -> Any:
    """A budget as it is written; a rho gets the epsilon beside it whose half square the rho is.

    Raises:
        InvalidRequest: a rho is not above 0, or another epsilon or a delta stands beside it.
    """
    fields = value.model_dump() if isinstance(value, Budget) else value
    if not isinstance(fields, Mapping) or fields.get("rho") is None:
        return value
    rho = exact_decimal(fields["rho"], what="rho")
    if rho <= 0:
        raise InvalidRequest("rho", plain(rho), "must be above 0", "give the rho this release may cost, e.g. '0.005'")
    epsilon = epsilon_of_rho(rho)
    for name, allowed in (("epsilon", epsilon), ("delta", 0)):
        if fields.get(name) is not None and exact_decimal(fields[name], what=name) != allowed:
            raise InvalidRequest(
                name, fields[name], "must be left out beside rho, which is all that the release costs",
                f"leave {name} out, or rho",
            )  # fmt: skip
    return {**fields, "epsilon": epsilon, "delta": 0, "rho": rho}


def require_gaussian(budget: Budget, other: str | None, *, federated: bool) -> None:
    """Refuse a budget of rho for anything but a table of aggregates with Gaussian noise at one place.

    Args:
        budget: of the request.
        other: the kind of a diagnostic that no rho can pay for; None without one.
        federated: whether silos release their rows together.

    Raises:
        InvalidRequest: it pays for something else.
    """
    if budget.rho is None:
        return
    if other is not None:
        raise InvalidRequest(
            "budget.rho", plain(budget.rho),
            f"must pay for a table of aggregates with Gaussian noise and public groups, not for {other} with these "
            "options",
            "give an epsilon, of which a zcdp account counts half the square",
        )  # fmt: skip
    if federated:
        raise InvalidRequest(
            "budget.rho", plain(budget.rho),
            "must be left out with a federation, whose silos add up shares of pure noise", "give an epsilon",
        )  # fmt: skip
