"""The opened draw of a charge: the charge it was made for, its cost, and the scale of its noise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Self

from dp_operators.budget.mechanism_events import drawn_events
from spark_jobs.contract.privacy import Budget, exact_decimal, exact_sum
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

        The privacy loss of one call of the noise sampler for one row, times the rows of a unit, must not exceed the
        charge. What the mechanisms spent must add up to the draw's cost, which must be within the charge.
        """
        try:
            with localcontext(prec=200):
                facts = self._facts(charge)
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
            return ("its draw, which this version cannot read",)
        return tuple(what for what, holds in facts.items() if not holds)

    def _facts(self, charge: Charge) -> dict[str, bool]:
        rows, cost = charge.unit.max_rows, Budget.parse(self.fields["cost"])
        spent = exact_sum(*(exact_decimal(event["epsilon"]) for event in self.fields["events"]))
        largest = [Decimal(loss) for part in self.fields["noise"] for loss in part.values()]
        return {
            "its draw's charge": self.fields["charge_id"] == charge.id,
            "its draw's request": self.fields["request_sha256"] == charge.request_sha256,
            "its draw's noise, which is not private": self.fields["guarantee"] == PRIVATE,
            "its draw's cost, which exceeds the reservation": cost.epsilon <= charge.cost.epsilon
            and cost.delta <= charge.cost.delta,
            "its draw's mechanisms, which do not add up to its cost": spent * rows == cost.epsilon,
            "its draw's noise, which is too small for its cost": max(largest, default=Decimal(0)) * rows
            <= charge.cost.epsilon,
        }
