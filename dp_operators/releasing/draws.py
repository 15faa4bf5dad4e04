"""The draw of a charge, as its committer opens it: whose it is, what it cost, and how much noise was in it."""

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
    """What a draw says, once its seal was opened.

    Attributes:
        sha256: hash of the sealed object, which is what the ledger knows it by.
        fields: what was sealed.
    """

    sha256: str
    fields: dict[str, Any]

    @classmethod
    def of(cls, sealed: bytes, seal: Seal) -> Self:
        """The draw that was sealed for this charge.

        Raises:
            SealBroken: it was not.
        """
        fields = json.loads(seal.open("draw.json", sealed))
        if not isinstance(fields, dict):
            raise SealBroken("the draw holds no fields")
        return cls(sha256=sha256(sealed), fields=fields)

    def events(self, charge: Charge) -> tuple[dict[str, str], ...] | None:
        """What its mechanisms spent, as the ledger keeps it."""
        return drawn_events(self.fields, max_rows=charge.unit.max_rows)

    def mismatches(self, charge: Charge) -> tuple[str, ...]:
        """What in it the charge does not pay for, in words; nothing in a sound draw.

        No single call of the noise source may lose more than the whole charge, for one row times the rows of a unit;
        what the mechanisms say that they spent must be the draw's cost, and that within the charge.
        """
        try:
            with localcontext(prec=200):
                facts = self._facts(charge)
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
            return ("its draw, which is not of this version's form",)
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
            "its draw's noise, which is less than its cost buys": max(largest, default=Decimal(0)) * rows
            <= charge.cost.epsilon,
        }
