"""Meters of privacy budget: all mechanisms of a release spend from one meter, whose total is the release's cost."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.odds import LossLaw
from spark_jobs.contract.privacy import Budget, exact_decimal, exact_difference, plain, share_of
from spark_jobs.mechanisms.noise import Cost


class BudgetOverspent(RuntimeError):
    """A mechanism needs more than remains: a programming error, whatever the data. No noise was drawn."""


@dataclass(frozen=True, kw_only=True)
class Spending:
    """One expense of a meter.

    Attributes:
        label: the purpose, in words.
        epsilon, delta: the exact cost.
        law: what is known of the distribution of the privacy loss, if there is a delta.
        rho: the zCDP parameter of Gaussian noise, if the law needs it.
    """

    label: str
    epsilon: Decimal
    delta: Decimal = Decimal(0)
    law: LossLaw = LossLaw.ANY
    rho: Decimal | None = None

    def to_dict(self) -> dict[str, str]:
        """Plain JSON types; decimals as strings."""
        known = {} if self.rho is None else {"law": str(self.law), "rho": plain(self.rho)}
        return {"label": self.label, "epsilon": plain(self.epsilon), "delta": plain(self.delta), **known}


class BudgetMeter:
    """A budget ``(epsilon, delta)`` that cannot be overspent.

    Spendings compose sequentially: epsilons and deltas add up exactly. Parallel composition is expressed by spending
    once: under ``ADD_REMOVE``, mechanisms on disjoint parts of the rows share one spending, as a privacy unit that is
    added or removed changes only one part; under ``REPLACE_ONE``, a unit may leave one part and enter another, so that
    the parts share one spending of twice the loss that each of them has when a single row changes.

    >>> meter = BudgetMeter("1")
    >>> meter.spend("0.25", label="noisy size")
    Decimal('0.25')
    >>> meter.spend_rest(label="one tree for each label")
    Decimal('0.75')
    >>> meter.remaining
    Decimal('0.00')

    Args:
        epsilon: the budget; floats are read as Python prints them.
        delta: the budget of approximate guarantees; 0 allows only pure ones.

    Raises:
        InvalidRequest: the budget is not above zero.
    """

    def __init__(self, epsilon: Cost, delta: Cost = 0) -> None:
        self._granted = Budget(epsilon=epsilon, delta=delta).require_positive()
        self._left, self._left_delta = self._granted.epsilon, self._granted.delta
        self._spendings: list[Spending] = []

    @property
    def granted(self) -> Budget:
        """The budget at the start."""
        return self._granted

    @property
    def spendings(self) -> tuple[Spending, ...]:
        """All spendings so far, in order."""
        return tuple(self._spendings)

    @property
    def spent(self) -> Budget:
        """The sum of the spendings."""
        return Budget(
            epsilon=exact_difference(self._granted.epsilon, self._left),
            delta=exact_difference(self._granted.delta, self._left_delta),
        )

    @property
    def remaining(self) -> Decimal:
        """The remaining epsilon."""
        return self._left

    @property
    def remaining_delta(self) -> Decimal:
        """The remaining delta."""
        return self._left_delta

    def spend(
        self, epsilon: Cost, *, delta: Cost = 0, label: str, law: LossLaw = LossLaw.ANY, rho: Decimal | None = None
    ) -> Decimal:
        """Spend ``(epsilon, delta)``, before the noise that it pays for is drawn; returns the exact epsilon.

        Args:
            epsilon: the cost; above 0.
            delta: the cost in delta, for an approximate guarantee.
            label: the purpose, in words.
            law: what is known of the distribution of the privacy loss, for a statement about odds (``contract.odds``).
            rho: the zCDP parameter of Gaussian noise, if the law needs it.

        Raises:
            BudgetOverspent: the amount exceeds what remains; nothing is spent.
            InvalidRequest: epsilon is not above 0, or delta is below 0.
        """
        cost = Budget(epsilon=epsilon, delta=delta).require_positive()
        if cost.epsilon > self._left or cost.delta > self._left_delta:
            raise BudgetOverspent(
                f"{label}: needs epsilon {plain(cost.epsilon)}, delta {plain(cost.delta)}; "
                f"what remains is epsilon {plain(self._left)}, delta {plain(self._left_delta)}"
            )
        self._left = exact_difference(self._left, cost.epsilon)
        self._left_delta = exact_difference(self._left_delta, cost.delta)
        self._spendings.append(Spending(label=label, epsilon=cost.epsilon, delta=cost.delta, law=law, rho=rho))
        return cost.epsilon

    def spend_share(self, part: Cost, *, label: str) -> Decimal:
        """Spend the share ``part``, in (0, 1], of the initial epsilon, rounded down.

        Raises:
            BudgetOverspent: the amount exceeds what remains.
        """
        return self.spend(share_of(self._granted.epsilon, exact_decimal(part, what="part")), label=label)

    def spend_rest(self, *, label: str) -> Decimal:
        """Spend the remaining epsilon, and no delta.

        Raises:
            BudgetOverspent: nothing remains.
        """
        if self._left <= 0:
            raise BudgetOverspent(f"{label}: no epsilon remains")
        return self.spend(self._left, label=label)


class RhoMeter:
    """A budget of zero-concentrated differential privacy that cannot be overspent; ``rho`` adds up exactly.

    >>> meter = RhoMeter("0.5")
    >>> meter.spend("0.125", label="running count")
    Decimal('0.125')
    >>> meter.remaining
    Decimal('0.375')

    Args:
        rho: the budget; floats are read as Python prints them.

    Raises:
        InvalidRequest: rho is not a finite number above 0.
    """

    def __init__(self, rho: Cost) -> None:
        self._granted = self._left = _positive_rho(rho)
        self._spendings: list[tuple[str, Decimal]] = []

    @property
    def granted(self) -> Decimal:
        """The budget at the start."""
        return self._granted

    @property
    def spendings(self) -> tuple[tuple[str, Decimal], ...]:
        """All spendings so far, in order: label and amount."""
        return tuple(self._spendings)

    @property
    def remaining(self) -> Decimal:
        """The remaining rho."""
        return self._left

    def spend(self, rho: Cost, *, label: str) -> Decimal:
        """Spend ``rho``, before the noise that it pays for is drawn; returns the exact amount.

        Raises:
            BudgetOverspent: the amount exceeds what remains; nothing is spent.
            InvalidRequest: the amount is not above 0.
        """
        cost = _positive_rho(rho)
        if cost > self._left:
            raise BudgetOverspent(f"{label}: needs rho {plain(cost)}; what remains is rho {plain(self._left)}")
        self._left = exact_difference(self._left, cost)
        self._spendings.append((label, cost))
        return cost


def _positive_rho(rho: Cost) -> Decimal:
    amount = exact_decimal(rho, what="rho")
    if amount <= 0:
        raise InvalidRequest("rho", plain(amount), "must be above 0", "give the cost")
    return amount
