"""Whether a table spends its delta for a whole bounded unit; decided by public numbers, before the charge.

Keys that are discovered always do. A table of public groups does if its noise is Gaussian.

Gaussian noise is made for a whole unit, so that the counts of rows that did not count need a share of epsilon then
(``mechanisms.left_out``), which noise that is drawn jointly leaves free where rows are added or removed. So the rule
compares what either would really have: standard deviations of a cell's rows, of all tables by their geometric mean.
``mechanisms.cell_gaussian`` has the formulas; it compares again at equal epsilons, and can only agree that Gaussian
noise is the smaller one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spark_jobs.contract.left_out import SHARE
from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.contract.privacy import Neighbours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.contract.options import Options
    from spark_jobs.contract.privacy import Budget


def spends_delta_of_unit(diagnostics: Sequence[Options], budget: Budget, neighbours: Neighbours) -> bool:
    """Whether the only diagnostic of a request is a table that spends a delta for a whole bounded unit."""
    options = diagnostics[0]
    if len(diagnostics) > 1 or not isinstance(options, AggregatesOptions) or options.noise_bound is None:
        return False
    if not budget.delta:
        return False
    if options.discovers:
        return True
    if options.method == "k_norm":
        return False
    return options.method == "gaussian" or _is_nearer(options, budget, neighbours)


def _is_nearer(options: AggregatesOptions, budget: Budget, neighbours: Neighbours) -> bool:
    bound = options.noise_bound
    if bound is None:
        return False
    design, added = options.statistic, neighbours is Neighbours.ADD_REMOVE
    numbers, shares = 1 + len(design.terms), 1 + sum(len(measure.quantiles) for measure in design.measures)
    left = float(budget.epsilon) / shares
    reduced = left * (1 - 1 / SHARE)
    of_row = rho_near(reduced, float(budget.delta)) / (bound.groups * bound.rows**2)
    if of_row <= 0:
        return False
    rho = of_row if added else of_row * numbers / max(2 * numbers, 4 * (numbers - 1))
    epsilon = (left if added else reduced / 2) / bound.rows_of_unit
    together = math.sqrt((numbers + 1) * (numbers + 2) / 3)
    weights = options.weights or (1.0,) * (1 + len(options.marginals))
    parts = [weight / sum(weights) for weight in weights]
    # in a table by fewer dimensions the groups of a unit may be one cell
    shrunk = [1, *[bound.groups] * (len(parts) - 1)]
    ratios = (
        math.log(numbers * groups / (2 * rho * part)) / 2 - math.log(together / (epsilon * part))
        for part, groups in zip(parts, shrunk, strict=True)
    )
    return sum(ratios) < 0


def rho_near(epsilon: float, delta: float) -> float:
    """A rho that is within epsilon and delta, at most 0.1% below the largest (``mechanisms.zcdp`` has the formula)."""
    logs = math.log(delta)

    def rho(order: float) -> float:
        return (epsilon + (logs + math.log(order - 1) - order * math.log1p(-1 / order)) / (order - 1)) / order

    return max(rho(1 + math.exp(place / 25)) for place in range(-500, 1501))
