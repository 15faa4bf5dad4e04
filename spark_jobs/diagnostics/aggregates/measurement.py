"""The random part of a table of aggregates: noisy numbers of every cell of the table and of its marginal tables.

If the keys of a dimension are discovered, the numbers of the released keys (``mechanisms.discovered_keys``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.odds import LossLaw
from spark_jobs.contract.options import AggregateCells, AggregatesSettings
from spark_jobs.contract.privacy import exact_difference, exact_sum
from spark_jobs.diagnostics.aggregates.gaussian import CostsInRho, GaussianCosts, gaussian_costs, shares_of
from spark_jobs.diagnostics.aggregates.quantiles import QuantilesOfCells, measure_quantiles
from spark_jobs.diagnostics.diagnostic import Draw, RhoTerms, Terms
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.cell_forms import forms_of
from spark_jobs.mechanisms.cell_gaussian import gaussian_cell_sums
from spark_jobs.mechanisms.cell_sums import NoisyCellSums, noisy_cell_sums
from spark_jobs.mechanisms.discovered_keys import DiscoveredKeys, noisy_keys
from spark_jobs.mechanisms.marginals import Dimensions
from spark_jobs.mechanisms.meter import BudgetMeter, RhoMeter, Spending
from spark_jobs.mechanisms.noise import Cost
from spark_jobs.statistics import AggregateSums, SumsByKey


@dataclass(frozen=True, kw_only=True, eq=False)
class MarginalDraw:
    """Noisy numbers of the cells of a marginal table, which has fewer dimensions.

    Attributes:
        dimensions: its dimensions, by number, ascending.
        cells: the noisy numbers.
        quantiles: the quantiles of its cells; None if none are requested.
    """

    dimensions: Dimensions
    cells: NoisyCellSums
    quantiles: tuple[QuantilesOfCells, ...] | None = field(default=None, metadata={codec.LEFT_OUT: True})


@dataclass(frozen=True, kw_only=True, eq=False)
class AggregatesDraw(Draw):
    """Noisy numbers of every cell, with the public facts that are needed to interpret them.

    Attributes:
        design: dimensions and measures.
        confidence: nominal level of intervals.
        cells: the noisy numbers.
        marginals: the draws of the marginal tables.
        discovered: the keys of ``cells`` if these were discovered; None if they are public.
        quantiles: the quantiles of the cells; None if none are requested.
    """

    design: AggregateCells
    confidence: float
    cells: NoisyCellSums
    marginals: tuple[MarginalDraw, ...] = field(default=())
    discovered: DiscoveredKeys | None = field(default=None, metadata={codec.LEFT_OUT: True})
    quantiles: tuple[QuantilesOfCells, ...] | None = field(default=None, metadata={codec.LEFT_OUT: True})

    @property
    def rho(self) -> Decimal | None:
        """What it cost of a budget of rho, of a row; None where the budget was an epsilon."""
        if self.delta or any(one.rho is None for one in self.spendings):
            return None
        return exact_sum(*(one.rho for one in self.spendings if one.rho is not None))


_BY_GAUSSIAN_NOISE = "rows and sums, by Gaussian noise"


def measure_cells(statistic: AggregateSums | SumsByKey, options: AggregatesSettings, terms: Terms) -> AggregatesDraw:
    """Draw the noise of all cells of all tables.

    Guarantee: ``epsilon``-DP for one row added, removed or replaced (``mechanisms.cell_sums``). Each table has a share
    of epsilon, which is divided between its quantiles and its rows and sums (``mechanisms.cell_quantiles``); the costs
    of all tables add up. With Gaussian noise the guarantee is ``(epsilon, delta)``-DP: the rows and sums of all tables
    share the rho that is possible with delta and with the epsilon that quantiles leave (``mechanisms.cell_gaussian``).
    With a budget of rho it is ``rho``-zCDP: each table has a share of rho, of which its rows and sums get one part and
    each quantile gets another (``gaussian.CostsInRho``). With discovered keys the guarantee is ``(epsilon, delta)``-DP
    for one row, where a unit has at most one row in each key, and with ``max_groups`` delta is that of a whole unit
    (``mechanisms.discovered_keys``).

    Args:
        statistic: exact rows and sums of every cell, or of every key; private.
        options: the settings.
        terms: budget, relation and noise; all of epsilon is spent, and delta if noise is Gaussian or keys are
            discovered.

    Raises:
        InvalidRequest: a marginal has a dimension that the table lacks, or delta is 0 where it is needed.
    """
    if isinstance(statistic, SumsByKey):
        return _measure_keys(statistic, options, terms)
    design = statistic.design
    tables = options.tables(design.by)
    if isinstance(terms, RhoTerms) and terms.rho is not None:
        return _measure_in_rho(statistic, options, terms, terms.rho)
    meter = terms.meter()
    wholes = shares_of(meter.remaining, options.weights, len(tables))
    costs = gaussian_costs(design, options, wholes, meter.remaining_delta, terms.neighbours)
    if costs is None:
        drawn = _drawn_together(statistic, tables, wholes, terms, meter)
    else:
        drawn = _with_gaussian_noise(statistic, tables, wholes, costs, terms, meter)
    return AggregatesDraw.of(
        terms,
        meter,
        design=design,
        confidence=options.confidence,
        cells=drawn[0].cells,
        quantiles=drawn[0].quantiles,
        marginals=tuple(drawn[1:]),
    )


def _drawn_together(
    statistic: AggregateSums, tables: Sequence[Dimensions], wholes: Sequence[Decimal], terms: Terms, meter: BudgetMeter
) -> list[MarginalDraw]:
    """Each table at its share of epsilon."""
    design, drawn = statistic.design, []
    for place, table in enumerate(tables):
        label = f"rows and sums by {', '.join(design.by[one].name for one in table)}" if table else "rows and sums"
        last = place == len(tables) - 1
        whole = meter.remaining if last else wholes[place]
        quantiles = measure_quantiles(statistic, table, whole, terms, meter) if design.value_lines else ()
        spent = [one.epsilon for one in meter.spendings[-2 * len(quantiles) :]] if quantiles else []
        left = exact_difference(whole, *spent)
        epsilon = meter.spend_rest(label=label) if last else meter.spend(left, label=label)
        cells = noisy_cell_sums(
            *_numbers_by(statistic, table),
            [term.last for term in design.terms],
            forms=forms_of(design.terms),
            epsilon=epsilon,
            neighbours=terms.neighbours,
            noise=terms.noise,
            measured=bool(design.measures),
        )
        drawn.append(MarginalDraw(dimensions=table, cells=cells, quantiles=quantiles or None))
    return drawn


def _with_gaussian_noise(
    statistic: AggregateSums,
    tables: Sequence[Dimensions],
    wholes: Sequence[Decimal],
    costs: GaussianCosts,
    terms: Terms,
    meter: BudgetMeter,
) -> list[MarginalDraw]:
    """The quantiles of each table at their shares of epsilon; rows and sums of all tables at shares of one rho."""
    design, quantiles = statistic.design, []
    for table, whole in zip(tables, wholes, strict=True):
        quantiles.append(measure_quantiles(statistic, table, whole, terms, meter) if design.value_lines else ())
    # one vector, whose noise is of at least ``UNIT`` steps
    label, law = _BY_GAUSSIAN_NOISE, LossLaw.GAUSSIAN
    meter.spend(costs.epsilon, delta=meter.remaining_delta, label=label, law=law, rho=costs.rho)
    return _gaussian_tables(statistic, tables, quantiles, costs.of_noise, costs.epsilons, terms)


def _measure_in_rho(
    statistic: AggregateSums, options: AggregatesSettings, terms: Terms, granted: Cost
) -> AggregatesDraw:
    """Rows and sums by Gaussian noise, and quantiles by pure noise, at shares of one rho."""
    design, meter = statistic.design, RhoMeter(granted)
    tables = options.tables(design.by)
    costs = CostsInRho.of(design, options, meter.remaining, len(tables))
    spendings: list[Spending] = []
    quantiles: list[tuple[QuantilesOfCells, ...]] = []
    for table, whole in zip(tables, costs.wholes, strict=True):
        if not whole:
            quantiles.append(())
            continue
        pure = BudgetMeter(whole)
        quantiles.append(measure_quantiles(statistic, table, whole, terms, pure))
        for one in pure.spendings:
            rho = meter.spend(costs.rho_of_draw(one.epsilon, costs.groups), label=one.label)
            spendings.append(replace(one, law=LossLaw.CONCENTRATED, rho=rho))
    rho = meter.spend(costs.rho, label=_BY_GAUSSIAN_NOISE)
    spendings.append(Spending(label=_BY_GAUSSIAN_NOISE, epsilon=Decimal(0), law=LossLaw.GAUSSIAN, rho=rho))
    first, *others = _gaussian_tables(statistic, tables, quantiles, costs.of_noise, [Decimal(0)] * len(tables), terms)
    return AggregatesDraw(
        neighbours=terms.neighbours,
        guarantee=terms.noise.guarantee,
        spendings=tuple(spendings),
        design=design,
        confidence=options.confidence,
        cells=first.cells,
        quantiles=first.quantiles,
        marginals=tuple(others),
    )


def _gaussian_tables(
    statistic: AggregateSums,
    tables: Sequence[Dimensions],
    quantiles: Sequence[tuple[QuantilesOfCells, ...]],
    rhos: Sequence[Decimal],
    epsilons: Sequence[Decimal],
    terms: Terms,
) -> list[MarginalDraw]:
    return [
        MarginalDraw(
            dimensions=table,
            quantiles=of or None,
            cells=gaussian_cell_sums(
                *_numbers_by(statistic, table),
                [term.last for term in statistic.design.terms],
                rho=rho,
                epsilon=epsilon,
                neighbours=terms.neighbours,
                noise=terms.noise,
                measured=bool(statistic.design.measures),
            ),
        )
        for table, of, rho, epsilon in zip(tables, quantiles, rhos, epsilons, strict=True)
    ]


def _numbers_by(statistic: AggregateSums, table: Dimensions) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Exact rows, incomplete rows and sums by the dimensions of a table."""
    sizes = [len(dimension.labels) for dimension in statistic.design.by]
    rows, incomplete, sums = (
        _summed(exact, sizes, table) for exact in (statistic.rows, statistic.incomplete, statistic.sums)
    )
    return rows, incomplete, sums


def _measure_keys(statistic: SumsByKey, options: AggregatesSettings, terms: Terms) -> AggregatesDraw:
    if options.marginals:
        raise InvalidRequest(
            "marginals", list(options.marginals), "must be left out with keys: discover", "leave it out"
        )
    meter, design = terms.meter(), statistic.design
    delta = meter.remaining_delta
    drawn = noisy_keys(
        statistic.batches(),
        [measure.steps for measure in design.measures],
        min_units=design.min_units,
        max_keys=design.max_released,
        epsilon=meter.spend(meter.remaining, delta=delta, label="keys with their rows and sums"),
        delta=delta,
        neighbours=terms.neighbours,
        noise=terms.noise,
        bound=options.group_bound,
        method=options.method,
    )
    return AggregatesDraw.of(
        terms, meter, design=design, confidence=options.confidence, cells=drawn.cells, discovered=drawn.discovered
    )


def _summed(exact: Int64Array, sizes: Sequence[int], table: Dimensions) -> Int64Array:
    """The exact numbers of a table by fewer dimensions, from those of all cells along the last axis."""
    leading = exact.shape[:-1]
    others = tuple(len(leading) + one for one in range(len(sizes)) if one not in table)
    cells = math.prod(sizes[one] for one in table)
    return np.asarray(exact.reshape((*leading, *sizes)).sum(axis=others).reshape((*leading, cells)))
