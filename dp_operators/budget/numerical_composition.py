"""A tighter bound on the total cost of charges that were fixed in advance: for information, never to admit a charge.

It is an upper bound on the epsilon, at a given delta, of all mechanisms together, computed from the distributions of
their privacy losses (Gopi, Lee, Wutschitz, "Numerical Composition of Differential Privacy", 2021) with
``prv_accountant``. It is valid for mechanisms and costs that were fixed beforehand. For adaptive choices, where the
next question depends on earlier answers, only the account's own sums are valid (see ``composition``); they are larger.

Two parts of the library are replaced. The library sizes the grid of losses by a Renyi divergence that is too small for
pure mechanisms: for 100 mechanisms of epsilon 1 it returns an epsilon of 72 at delta 10^-6, where the exact value is
83.5. And it computes the means of losses by numerical integration over jumps, which fails for a thousand mechanisms.
Here the grid contains every loss except with a probability that the bound accounts for, and the means are exact:

- ``pure`` and ``approximate``: the loss is plus or minus epsilon, as for randomised response, the worst case (Kairouz,
Oh, Viswanath 2015); its mean is epsilon tanh(epsilon/2). With probability delta the loss is infinite.
- ``laplace``: the mean is epsilon - 1 + e^-epsilon.
- ``gaussian``: rhos add up to one Gaussian mechanism; the loss is normal with mean rho and variance 2 rho.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from dp_operators.budget.mechanism_events import APPROXIMATE, GAUSSIAN, LAPLACE, MechanismEvent
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import exact_sum, plain

MIN_DELTA = Decimal("1e-10")
"""Below this the rounding error of the numerical composition is not small relative to delta."""

DEFAULT_DELTA = Decimal("1e-6")
"""The delta at which the bound is reported for an account whose delta is 0."""

_POINTS = 2**21
_PART = 200
_SHOWN = Decimal("0.0001")


@dataclass(frozen=True, kw_only=True)
class _Loss:
    """A privacy loss with the interface of the library's discretiser; its mean is exact."""

    of: Any
    exact_mean: float
    pm_inf: float

    def probability(self, low: Any, high: Any) -> Any:
        return self.of.probability(low, high)

    def mean(self) -> float:
        return self.exact_mean


def non_adaptive_epsilon(events: Iterable[MechanismEvent], delta: Decimal) -> Decimal | None:
    """An upper bound on the epsilon at ``delta`` of mechanisms that were fixed beforehand; None if there is no bound.

    If no mechanism is Gaussian and the deltas add up to at most ``delta``, the bound is never above the sum of the
    epsilons.

    Args:
        events: the events of the mechanisms.
        delta: at least 1e-10 and below 1.

    Raises:
        InvalidRequest: ``delta`` is out of these bounds, or the extra ``accounting`` is not installed.
    """
    if not MIN_DELTA <= delta < 1:
        raise InvalidRequest(
            "delta", plain(delta), f"must be at least {plain(MIN_DELTA)} and below 1", "ask for e.g. 1e-6"
        )
    fixed = tuple(events)
    if not fixed:
        return Decimal(0)
    bounds = []
    if not any(event.rho for event in fixed) and exact_sum(*(event.delta for event in fixed)) <= delta:
        bounds.append(exact_sum(*(event.epsilon for event in fixed)))
    composed = _composed(fixed, float(delta))
    if math.isfinite(composed):
        bounds.append(Decimal(composed).quantize(_SHOWN, rounding=ROUND_CEILING))
    return min(bounds, default=None)


def _composed(events: tuple[MechanismEvent, ...], delta: float) -> float:
    """The library's upper bound, on a grid that is fine and wide enough; infinite if it has none."""
    try:
        from prv_accountant.composers import Heterogeneous
        from prv_accountant.discretisers import CellCentred
        from prv_accountant.domain import Domain
    except ImportError:
        raise InvalidRequest(
            "non-adaptive bound", None, "needs the package prv-accountant",
            "install airflow-provider-dp-diagnostics[accounting]",
        ) from None  # fmt: skip

    losses = _losses(events)
    count, error = sum(losses.values()), delta / 1000
    width = _width(events, error / (8 * count)) + 3
    fineness = math.sqrt(count / 2 * math.log(12 / error))  # theorem 5.5 of the paper: mesh times this is the error
    mesh = max(_width(events, delta) / _PART / fineness, 2 * width / _POINTS)
    grid = Domain.create_aligned(-width, width, mesh)
    composer = Heterogeneous([CellCentred().discretise(loss, grid) for loss in losses])
    try:
        composed = composer.compute_composition(list(losses.values()))
        return float(composed.compute_epsilon(delta, error, grid.dt() * fineness)[2])
    except (RuntimeError, ValueError):  # raised where the library has no bound
        return math.inf


def _width(events: tuple[MechanismEvent, ...], chance: float) -> float:
    """A bound that the sum of the finite losses exceeds with probability at most ``chance``, on either side."""
    rho = sum(float(event.rho) + float(event.epsilon) ** 2 / 2 for event in events)
    bound = rho + 2 * math.sqrt(rho * -math.log(chance))
    if any(event.rho for event in events):
        return bound
    return min(bound, sum(float(event.epsilon) for event in events))


def _losses(events: tuple[MechanismEvent, ...]) -> Counter[_Loss]:
    from prv_accountant import GaussianMechanism, LaplaceMechanism, PureDPMechanism

    counted = Counter((event.mechanism, event.epsilon, event.delta) for event in events if event.mechanism != GAUSSIAN)
    losses: Counter[_Loss] = Counter()
    for (mechanism, exact, chance), count in counted.items():
        epsilon = float(exact)
        if mechanism == LAPLACE:
            loss = _Loss(of=LaplaceMechanism(epsilon), exact_mean=epsilon + math.expm1(-epsilon), pm_inf=0.0)
        else:
            infinite = float(chance) if mechanism == APPROXIMATE else 0.0
            mean = epsilon * math.tanh(epsilon / 2)
            loss = _Loss(of=PureDPMechanism(epsilon), exact_mean=mean, pm_inf=infinite)
        losses[loss] = count
    rho = float(sum(event.rho for event in events))
    if rho > 0:
        losses[_Loss(of=GaussianMechanism(1 / math.sqrt(2 * rho)), exact_mean=rho, pm_inf=0.0)] = 1
    return losses
