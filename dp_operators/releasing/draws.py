"""The opened draw of a charge: the charge it was made for, its cost, and the scale of its noise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Self

from dp_operators.budget.mechanism_events import drawn_events
from spark_jobs.contract.odds import gaussian_excess
from spark_jobs.contract.privacy import Budget, exact_decimal, exact_sum, half_square
from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.store.sealing import Seal, SealBroken, sha256

if TYPE_CHECKING:
    from dp_operators.budget import Charge


@dataclass(frozen=True, kw_only=True)
class OpenedDraw:
    """A draw whose seal was opened.

    Attributes:
        sha256: hash of the sealed object, as the ledger records it.
        fields: the draw's content.
    """

    sha256: str
    fields: dict[str, Any]

    @classmethod
    def of(cls, sealed: bytes, seal: Seal) -> Self:
        """The draw that was sealed for this charge.

        Raises:
            SealBroken: the draw was sealed for another charge, or altered.
        """
        fields = json.loads(seal.open("draw.json", sealed))
        if not isinstance(fields, dict):
            raise SealBroken("the draw holds no fields")
        return cls(sha256=sha256(sealed), fields=fields)

    def events(self, charge: Charge) -> tuple[dict[str, str], ...] | None:
        """The events of the draw's mechanisms, in the form that the ledger records."""
        return drawn_events(self.fields, max_rows=charge.unit.max_rows)

    def mismatches(self, charge: Charge) -> tuple[str, ...]:
        """The parts of the draw that the charge does not pay for, in words; empty for a sound draw.

        If the charge is an epsilon, the privacy loss of each call of the noise sampler for one row, times the rows of a
        unit, must not exceed this epsilon. Gaussian noise has no such bound: it requires a delta in the charge, and its
        loss may exceed the charge's epsilon only within this delta. If the charge is a rho, no call may cost more rho
        than the draw's largest mechanism, or than the charge. The costs of the mechanisms must add up to the draw's
        cost, which must be within the charge.
        """
        try:
            with localcontext(prec=200):
                facts = self._facts(charge)
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
            return ("its draw, which this version cannot read",)
        return tuple(what for what, holds in facts.items() if not holds)

    def _facts(self, charge: Charge) -> dict[str, bool]:
        cost = Budget.parse(self.fields["cost"])
        return {
            "its draw's charge": self.fields["charge_id"] == charge.id,
            "its draw's request": self.fields["request_sha256"] == charge.request_sha256,
            "its draw's noise, which is not private": self.fields["guarantee"] == PRIVATE,
            "its draw's cost, which exceeds the reservation": cost.is_within(charge.cost),
            "its draw's mechanisms, which do not add up to its cost": self._adds_up(cost, charge),
            "its draw's noise, which is too small for its cost": self._is_noisy(charge),
        }

    def _adds_up(self, cost: Budget, charge: Charge) -> bool:
        """Whether mechanisms spent the draw's cost; of a charge of rho, each at least what a pure epsilon costs."""
        events, rows = self.fields["events"], charge.unit.max_rows
        epsilons = [exact_decimal(event["epsilon"]) * rows for event in events]
        if charge.cost.currency == "epsilon":
            return cost.rho is None and exact_sum(*epsilons) == cost.epsilon
        rhos = [exact_decimal(event["rho"]) for event in events]
        paid = all(half_square(epsilon) <= rho for epsilon, rho in zip(epsilons, rhos, strict=True))
        return paid and exact_sum(*rhos) == cost.rho

    def _is_noisy(self, charge: Charge) -> bool:
        """Whether no call of the noise sampler lost more than the whole charge; of a charge of rho, than its events."""
        rows, cost = charge.unit.max_rows, charge.cost
        losses = [(kind, Decimal(loss)) for part in self.fields["noise"] for kind, loss in part.items()]
        pure = [loss * rows for kind, loss in losses if kind != "gaussian"]
        gaussian = max((loss for kind, loss in losses if kind == "gaussian"), default=None)
        if cost.currency == "rho":
            spent = max((exact_decimal(event["rho"]) for event in self.fields["events"]), default=Decimal(0))
            bound = min(spent, cost.rho or Decimal(0))
            return all(loss <= bound for loss in [*map(half_square, pure), *([] if gaussian is None else [gaussian])])
        within = max(pure, default=Decimal(0)) <= cost.epsilon
        if gaussian is None:
            return within
        return within and cost.delta > 0 and gaussian_excess(float(cost.epsilon), float(gaussian * rows)) <= cost.delta
