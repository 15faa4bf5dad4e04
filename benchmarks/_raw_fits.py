"""One release of a fit of raw rows, and its intervals beside the exact figures of these rows (``_exact``)."""

from __future__ import annotations

import numpy as np

from benchmarks import _exact as exact
from benchmarks._raw_law import drawn_fit
from benchmarks._shown import LEVEL, Intervals, noise_of, shown_at, shown_of
from spark_jobs.contract.options.fits import Bounded, CrossProductCells
from spark_jobs.diagnostics import linear_fit
from spark_jobs.statistics import CrossProducts


def of_raw_linear_fits(random: np.random.Generator, signal: float) -> Intervals:
    """A coefficient of a linear fit of several variables, and R^2."""
    epsilon = float(random.choice([0.5, 1.0, 4.0]))
    table = drawn_fit(random, rows=int(signal / epsilon))
    named = zip((*table.columns, "y"), table.bounds, strict=True)
    *features, outcome = (Bounded(name=name, lower=low, upper=high) for name, (low, high) in named)
    design = CrossProductCells(features=tuple(features), outcome=outcome)
    fit = linear_fit.release(
        CrossProducts.from_arrays(table.columns, table.outcome, design=design),
        epsilon=epsilon,
        confidence=LEVEL,
        noise=noise_of(random),
    )
    shown: Intervals = dict.fromkeys(("linear_fit: a slope, raw", "linear_fit: R2, raw"))
    if fit.status == "ok":
        within = [exact.within(*one) for one in zip(table.columns.values(), table.bounds, strict=False)]
        true, r_squared = exact.fit(within, table.outcome)
        place = int(random.integers(1, true.size))
        # in units of the boxes, so that slack means the same everywhere
        unit = outcome.half / features[place - 1].half
        ends = tuple(end / unit for end in (fit.coefficients.value, *fit.coefficients.ends()))
        shown["linear_fit: a slope, raw"] = shown_at(place, ends, true / unit)
        if fit.r_squared.value is not None:
            shown["linear_fit: R2, raw"] = shown_of(fit.r_squared.value, fit.r_squared.interval, r_squared)
    return shown
