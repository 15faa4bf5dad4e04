"""The cost of a table of aggregates with Gaussian noise, and whether this noise is smaller than that of pure DP.

With a budget of rho it always is smaller. There, a mechanism of pure epsilon costs ``epsilon^2 / 2``. So D numbers have
the standard deviation ``sqrt(D / 2 rho)`` with Gaussian noise, and the larger standard deviation
``sqrt((D + 1) (D + 2) / 3) / sqrt(2 rho)`` with pure noise that is drawn jointly. Moreover, several tables share rho,
while with pure noise they would share its root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from typing import Self

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import AggregateCells, AggregatesSettings
from spark_jobs.contract.privacy import (
    KEPT_DIGITS,
    MAX_DIGITS,
    GroupBound,
    Neighbours,
    epsilon_of_rho,
    exact_difference,
    exact_sum,
    kept_share,
    rho_of_epsilon,
    share,
)
from spark_jobs.mechanisms.cell_gaussian import cost_of_added, gaussian_is_nearer, rho_of_row


@dataclass(frozen=True, kw_only=True)
class GaussianCosts:
    """The cost of the rows and sums of all tables with Gaussian noise.

    Attributes:
        epsilons: for each table, its share of epsilon less what its quantiles cost.
        rhos: for each table, its share of the total rho of one row: the largest rho that these epsilons and delta
            allow.
        bound: the limit on the groups and rows of a unit, if the rows of a unit are counted together; else None.
    """

    epsilons: tuple[Decimal, ...]
    rhos: tuple[Decimal, ...]
    bound: GroupBound | None

    @property
    def epsilon(self) -> Decimal:
        """The sum of ``epsilons``."""
        return exact_sum(*self.epsilons)

    @property
    def rho(self) -> Decimal:
        """The rho of all tables: for one row, or for a whole unit if ``bound`` is set."""
        rows = 1 if self.bound is None else self.bound.groups * self.bound.rows**2
        with localcontext(prec=100):
            return exact_sum(*self.rhos) * rows

    @property
    def of_noise(self) -> tuple[Decimal, ...]:
        """For each table, the rho of one row with which its noise is drawn (``rhos_of_noise``)."""
        return rhos_of_noise(self.rhos, 1 if self.bound is None else self.bound.groups)


def gaussian_costs(
    design: AggregateCells, options: AggregatesSettings, wholes: Sequence[Decimal], delta: Decimal, by: Neighbours
) -> GaussianCosts | None:
    """The costs of tables with Gaussian noise; None if pure noise is to be used instead. Nothing private is used.

    Args:
        design: dimensions and measures.
        options: the settings.
        wholes: the share of epsilon of each table, its quantiles included.
        delta: the delta that may be spent.
        by: the neighbouring relation.

    Raises:
        InvalidRequest: the request wants Gaussian noise, and delta is 0 or too small for it.
    """
    if options.method == "k_norm" or (options.method == "auto" and not delta):
        return None
    quantiles = sum(len(measure.quantiles) for measure in design.measures)
    epsilons = [_kept(exact_difference(whole, *[kept_share(whole, 1 + quantiles)] * quantiles)) for whole in wholes]
    try:
        rho = rho_of_row(exact_sum(*epsilons), delta, options.noise_bound)
    except InvalidRequest:
        if options.method == "gaussian":
            raise
        return None
    bound, rhos = options.noise_bound, shares_of(rho, options.weights, len(wholes))
    costs = GaussianCosts(epsilons=tuple(epsilons), rhos=rhos, bound=bound)
    numbers = 1 + len(design.terms)
    together = [share(one, 2) if by is Neighbours.REPLACE_ONE else one for one in epsilons]
    nearer = gaussian_is_nearer(numbers, together, [cost_of_added(one, numbers, by) for one in costs.of_noise])
    return costs if nearer or options.method == "gaussian" else None


@dataclass(frozen=True, kw_only=True)
class CostsInRho:
    """The cost, out of a budget of rho, of the rows and sums of each table, and of its quantiles.

    Attributes:
        rhos: for each table, the rho of one row for its rows and sums, with Gaussian noise.
        wholes: for each table, the epsilon that ``measure_quantiles`` divides: ``2 (1 + quantiles)`` times the epsilon
            of one draw for a quantile; 0 without quantiles.
        groups: the most groups of one unit, if its rows are counted together; else 1.
    """

    rhos: tuple[Decimal, ...]
    wholes: tuple[Decimal, ...]
    groups: int

    @property
    def rho(self) -> Decimal:
        """That of the rows and sums of all tables."""
        return exact_sum(*self.rhos)

    @property
    def of_noise(self) -> tuple[Decimal, ...]:
        """For each table, the rho of one row with which its noise is drawn (``rhos_of_noise``)."""
        return rhos_of_noise(self.rhos, self.groups)

    @classmethod
    def of(cls, design: AggregateCells, options: AggregatesSettings, rho: Decimal, tables: int) -> Self:
        """Equal shares of a table's rho for each of its quantiles, and for its rows and sums.

        A quantile is drawn twice, at an epsilon that costs half of its share: of a unit with r rows in each of g groups
        ``(g r epsilon)^2 / 2``, where its rho is ``g r^2`` times that of a row.
        """
        bound, quantiles = options.group_bound, sum(len(measure.quantiles) for measure in design.measures)
        groups, rhos, wholes = 1 if bound is None else bound.groups, [], []
        for of_table in shares_of(rho, options.weights, tables):
            part = share(of_table, 1 + quantiles)
            epsilon = epsilon_of_rho(share(part, 2 * groups)) if quantiles else Decimal(0)
            draws = 2 * (1 + quantiles)
            with localcontext(prec=100):
                # an epsilon that ``measure_quantiles`` divides without a rest
                epsilon = kept_share(draws * epsilon, draws)
                wholes.append(draws * epsilon)
            drawn = cls.rho_of_draw(epsilon, groups)
            rhos.append(exact_difference(of_table, *[drawn] * (2 * quantiles)))
        return cls(rhos=tuple(rhos), wholes=tuple(wholes), groups=groups)

    @staticmethod
    def rho_of_draw(epsilon: Decimal, groups: int) -> Decimal:
        """The rho of one row of a pure draw, rounded up."""
        with localcontext(prec=100):
            return rho_of_epsilon(epsilon) * groups


def rhos_of_noise(rhos: Sequence[Decimal], groups: int) -> tuple[Decimal, ...]:
    """The rho of one row with which each table's noise is drawn, of what each table may cost a row; rounded down.

    It is all of it in the table by all dimensions, which is the first. A table by fewer dimensions adds groups up, so
    that a unit's rows in all of its groups may be in one cell (``mechanisms.cell_gaussian``).
    """
    return (rhos[0], *(share(one, groups) for one in rhos[1:]))


def _kept(epsilon: Decimal) -> Decimal:
    """Rounded down, so that a sum of some tables has not more digits than a cost may have."""
    quantum = Decimal(1).scaleb(max(epsilon.adjusted() + 1, 0) - KEPT_DIGITS)
    kept = epsilon.quantize(quantum, rounding=ROUND_FLOOR, context=Context(prec=2 * MAX_DIGITS))
    return epsilon if kept == epsilon else kept


def shares_of(amount: Decimal, weights: Sequence[float] | None, tables: int) -> tuple[Decimal, ...]:
    """The share of each table, rounded down; the last table gets the rest."""
    exact = [Decimal(1)] * tables if weights is None else [Decimal(str(one)) for one in weights]
    first = [kept_share(amount, sum(exact) / one) for one in exact[:-1]]
    return (*first, exact_difference(amount, *first))
