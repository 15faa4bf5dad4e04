"""The budget of one release, drawn down call by call: what was spent is what the release says it cost."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import MAX_DIGITS, Budget, exact_decimal, exact_difference, plain
from spark_jobs.mechanisms.noise import Cost


class BudgetOverspent(RuntimeError):
    """A mechanism asked for more than is left. A fault of the program, never of the data: nothing was drawn."""


@dataclass(frozen=True, kw_only=True)
class Spending:
    """One draw on a meter.

    Attributes:
        label: what it paid for, in words.
        epsilon, delta: its cost, exact.
    """

    label: str
    epsilon: Decimal
    delta: Decimal = Decimal(0)

    def to_dict(self) -> dict[str, str]:
        """Plain JSON types; decimals as strings."""
        return {"label": self.label, "epsilon": plain(self.epsilon), "delta": plain(self.delta)}


class BudgetMeter:
    """An allowance ``(epsilon, delta)`` that cannot go below zero.

    Spendings compose sequentially: epsilons and deltas add, exactly. Parallel composition is said by spending once:
    mechanisms that run on disjoint parts of the rows under ``ADD_REMOVE`` share one spending (a unit that is added or
    removed changes one part alone); under ``REPLACE_ONE`` a unit may leave one part and enter another, so the parts
    share one spending of twice the loss each of them has when a single row changes.

    >>> meter = BudgetMeter("1")
    >>> meter.spend("0.25", label="noisy size")
    Decimal('0.25')
    >>> meter.spend_rest(label="one tree for each label")
    Decimal('0.75')
    >>> meter.remaining
    Decimal('0.00')

    Args:
        epsilon: the allowance; floats are read as Python prints them.
        delta: the allowance of approximate guarantees; 0 leaves pure ones alone.

    Raises:
        InvalidRequest: the allowance is not a budget above zero.
    """

    def __init__(self, epsilon: Cost, delta: Cost = 0) -> None:
        self._granted = Budget(epsilon=epsilon, delta=delta).require_positive()
        self._left, self._left_delta = self._granted.epsilon, self._granted.delta
        self._spendings: list[Spending] = []

    @property
    def granted(self) -> Budget:
        """The allowance."""
        return self._granted

    @property
    def spendings(self) -> tuple[Spending, ...]:
        """Every spending so far, in order."""
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
        """The epsilon that is left."""
        return self._left

    @property
    def remaining_delta(self) -> Decimal:
        """The delta that is left."""
        return self._left_delta

    def spend(self, epsilon: Cost, *, delta: Cost = 0, label: str) -> Decimal:
        """Draw ``(epsilon, delta)`` before the noise it pays for is drawn; returns the exact epsilon.

        Raises:
            BudgetOverspent: more than is left; nothing is then spent.
            InvalidRequest: not an amount above 0, or a delta below 0.
        """
        cost = Budget(epsilon=epsilon, delta=delta).require_positive()
        if cost.epsilon > self._left or cost.delta > self._left_delta:
            raise BudgetOverspent(
                f"{label}: asked for epsilon {plain(cost.epsilon)}, delta {plain(cost.delta)}; "
                f"left are epsilon {plain(self._left)}, delta {plain(self._left_delta)}"
            )
        self._left = exact_difference(self._left, cost.epsilon)
        self._left_delta = exact_difference(self._left_delta, cost.delta)
        self._spendings.append(Spending(label=label, epsilon=cost.epsilon, delta=cost.delta))
        return cost.epsilon

    def spend_share(self, part: Cost, *, label: str) -> Decimal:
        """Draw ``part``, in (0, 1], of the whole allowance's epsilon, rounded down.

        Raises:
            BudgetOverspent: more than is left.
        """
        with localcontext(prec=MAX_DIGITS, rounding=ROUND_FLOOR):
            amount = self._granted.epsilon * exact_decimal(part, what="part")
            amount = amount.quantize(Decimal(1).scaleb(max(amount.adjusted() + 1, 0) - MAX_DIGITS))
        return self.spend(amount, label=label)

    def spend_rest(self, *, label: str) -> Decimal:
        """Draw all the epsilon that is left, and no delta.

        Raises:
            BudgetOverspent: nothing is left.
        """
        if self._left <= 0:
            raise BudgetOverspent(f"{label}: nothing is left")
        return self.spend(self._left, label=label)


class RhoMeter:
    """An allowance of zero-concentrated differential privacy that cannot go below zero; ``rho`` adds up, exactly.

    >>> meter = RhoMeter("0.5")
    >>> meter.spend("0.125", label="running count")
    Decimal('0.125')
    >>> meter.remaining
    Decimal('0.375')

    Args:
        rho: the allowance; floats are read as Python prints them.

    Raises:
        InvalidRequest: not a finite number above 0.
    """

    def __init__(self, rho: Cost) -> None:
        self._granted = self._left = _positive_rho(rho)
        self._spendings: list[tuple[str, Decimal]] = []

    @property
    def granted(self) -> Decimal:
        """The allowance."""
        return self._granted

    @property
    def spendings(self) -> tuple[tuple[str, Decimal], ...]:
        """Every spending so far, in order: what for, and how much."""
        return tuple(self._spendings)

    @property
    def remaining(self) -> Decimal:
        """The rho that is left."""
        return self._left

    def spend(self, rho: Cost, *, label: str) -> Decimal:
        """Draw ``rho`` before the noise it pays for is drawn; returns the exact amount.

        Raises:
            BudgetOverspent: more than is left; nothing is then spent.
            InvalidRequest: not an amount above 0.
        """
        cost = _positive_rho(rho)
        if cost > self._left:
            raise BudgetOverspent(f"{label}: asked for rho {plain(cost)}; left is rho {plain(self._left)}")
        self._left = exact_difference(self._left, cost)
        self._spendings.append((label, cost))
        return cost


def _positive_rho(rho: Cost) -> Decimal:
    amount = exact_decimal(rho, what="rho")
    if amount <= 0:
        raise InvalidRequest("rho", value=plain(amount), requirement="must be above 0", remedy="give what it may cost")
    return amount
