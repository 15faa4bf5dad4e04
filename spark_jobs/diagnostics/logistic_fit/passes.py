"""The adaptive measurement of a logistic fit: noisy class sizes, and as many Newton passes as these sizes support.

Each pass reads the rows once, at coefficients that only earlier noisy values decide. Costs add up: class sizes get
``SIZES_SHARE`` of epsilon; each pass but the last gets ``PASS_SHARE`` of what is left of epsilon, or of rho; the last
pass gets the rest. If the class sizes say that the noise would hide a Newton step, there is a single pass, at
coefficients of 0, which gets all that the class sizes leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.odds import LossLaw
from spark_jobs.contract.options.fits import ROUNDING, FitMethod, LogisticFitSettings
from spark_jobs.contract.privacy import Neighbours, exact_difference, share_of
from spark_jobs.diagnostics._fits.intervals import as_line
from spark_jobs.diagnostics._fits.solving import solve
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.diagnostics.logistic_fit.newton import Step, is_near, newton_step
from spark_jobs.diagnostics.logistic_fit.surrogate import products_at_0, surrogate_line
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.moment_matrix import GAUSSIAN, K_NORM, Layout, noise_stddev, smallest_noise
from spark_jobs.mechanisms.newton_pass import NewtonPass, noisy_pass, on_grid
from spark_jobs.mechanisms.noise import gaussian_stddev, k_norm_scale, laplace_scale
from spark_jobs.mechanisms.zcdp import rho_within
from spark_jobs.statistics.labelled_rows import LabelledRows, NewtonSums

SIZES_SHARE = Decimal("0.02")
PASS_SHARE = Decimal("0.2")
MAX_PASSES = 8
MIN_SIGNAL = 55.0
"""Rows of the smaller class, over what the noise of all sums of products would be, from which passes pay."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Passes:
    """The class sizes and passes that were drawn.

    Attributes:
        sizes: noisy numbers of rows with label 0 and 1.
        sizes_stddev: standard deviation of the noise in ``sizes``.
        passes: all passes, in order; the first is at 0.
        spendings: the costs of sizes and passes.
    """

    sizes: Int64Array
    sizes_stddev: float
    passes: tuple[NewtonPass, ...]
    spendings: tuple[Spending, ...]


def take_passes(rows: LabelledRows, layout: Layout, options: LogisticFitSettings, terms: Terms) -> Passes:
    """Draw class sizes and passes; ``(epsilon, delta)``-DP for one row added, removed or replaced."""
    meter = terms.meter()
    method = _method(options.method, layout, meter, terms.neighbours)
    sizes_cost = share_of(meter.granted.epsilon, SIZES_SHARE)
    kept = exact_difference(meter.granted.epsilon, sizes_cost)
    total = rho_within(kept, meter.remaining_delta) if method == GAUSSIAN else kept
    start = np.zeros(layout.size, dtype=np.int64)
    sums = rows.sums_at(start)
    changed = 1 if terms.neighbours is Neighbours.ADD_REMOVE else 2
    meter.spend(sizes_cost, label="class sizes")
    sizes = terms.noise.laplace(_class_sizes(sums, layout), epsilon=sizes_cost, l1_sensitivity=changed)
    scale = laplace_scale(sizes_cost, changed)
    label = f"Newton passes, at most {MAX_PASSES}, of one gradient and Hessian"
    if method == GAUSSIAN:
        meter.spend(meter.remaining, delta=meter.remaining_delta, label=label, law=LossLaw.CONCENTRATED, rho=total)
    else:
        meter.spend_rest(label=label)
    smaller_class = float(sizes.min()) - 3.0 * math.sqrt(2.0) * scale

    def drawn(sums: NewtonSums, position: Int64Array, cost: Decimal, ratio: float) -> NewtonPass:
        return noisy_pass(
            sums,
            position,
            layout=layout,
            cost=cost,
            method=method,
            hessian_ratio=ratio,
            neighbours=terms.neighbours,
            noise=terms.noise,
        )

    if smaller_class < MIN_SIGNAL * _noise(layout, method, total, terms.neighbours) * math.sqrt(layout.size / 2):
        # as in one noisy matrix of all products, so that its entries get about equal noise
        entries = sum(layout.parts)
        passes = [drawn(sums, start, total, (entries + 1) / (8 if method == GAUSSIAN else 4))]
    else:
        passes = _newton(rows, sums, layout, options, total, drawn)
    return Passes(sizes=sizes, sizes_stddev=math.sqrt(2.0) * scale, passes=tuple(passes), spendings=meter.spendings)


def _newton(
    rows: LabelledRows,
    sums: NewtonSums,
    layout: Layout,
    options: LogisticFitSettings,
    total: Decimal,
    drawn: Callable[[NewtonSums, Int64Array, Decimal, float], NewtonPass],
) -> list[NewtonPass]:
    """The pass at 0, and passes until one is near the maximum and had all of the remaining budget."""
    left, last = total, False
    cost = share_of(total, PASS_SHARE)
    passes = [drawn(sums, np.zeros(layout.size, dtype=np.int64), cost, 1.0)]
    left = exact_difference(left, cost)
    at = start_at(passes[0], layout, options)
    while not last:
        last = len(passes) >= MAX_PASSES - 1 or (len(passes) > 1 and _near(passes[-1], layout, float(cost / left)))
        cost = left if last else share_of(left, PASS_SHARE)
        left = exact_difference(left, cost)
        position = on_grid(at)
        passes.append(drawn(rows.sums_at(position), position, cost, 1.0))
        at = passes[-1].coefficients + step_of(passes[-1], layout).taken()
    return passes


def start_at(first: NewtonPass, layout: Layout, options: LogisticFitSettings) -> FloatArray:
    """The coefficients of the second pass, computed from the pass at 0."""
    products = products_at_0(first.slope(layout), first.curvature(layout))
    solution = solve(products, stddev=4.0 * first.stddevs(layout)[1], step=1 / layout.steps)
    return as_line(surrogate_line(options.radius, options.intercept)(solution))


def step_of(taken: NewtonPass, layout: Layout) -> Step:
    """The Newton step of a pass."""
    return newton_step(
        taken.slope(layout),
        taken.curvature(layout),
        taken.coefficients,
        stddev=taken.stddevs(layout)[1],
        grid=1 / layout.steps,
    )


def _near(taken: NewtonPass, layout: Layout, part: float) -> bool:
    """Whether a pass with all that is left, of which this one cost ``part``, may be the last."""
    stddev = taken.stddevs(layout)[0]
    factor = math.sqrt(part) if taken.method == GAUSSIAN else part
    return is_near(step_of(taken, layout), stddev=stddev, last_stddev=stddev * factor)


def _class_sizes(sums: NewtonSums, layout: Layout) -> Int64Array:
    """The numbers of rows with label 0 and 1, of which the sums at 0 are exact multiples."""
    rows = int(sums.hessian[0, 0]) * 4 // (ROUNDING * layout.steps**2)
    more = int(sums.gradient[0]) * 2 // (ROUNDING * layout.steps)
    return np.array([(rows - more) // 2, (rows + more) // 2], dtype=np.int64)


def _method(wanted: FitMethod, layout: Layout, meter: BudgetMeter, neighbours: Neighbours) -> str:
    if wanted == "auto":
        return smallest_noise(layout, meter.remaining, meter.remaining_delta, neighbours)
    return wanted


def _noise(layout: Layout, method: str, total: Decimal, neighbours: Neighbours) -> float:
    """The standard deviation of one product's noise, if all of the budget were spent on products."""
    products = layout.l1_sensitivity(Neighbours.ADD_REMOVE) // layout.steps**2
    changed = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    if method == GAUSSIAN:
        return gaussian_stddev(total, changed * math.sqrt(products))
    body = layout.body(neighbours)
    if method == K_NORM and total >= body.smallest_epsilon:
        scale = k_norm_scale(total, body) / layout.steps**2
        return noise_stddev(method, scale, int(layout.measured.sum()))
    return math.sqrt(2.0) * laplace_scale(total, changed * products)
