"""The measurement of private fits: one noisy matrix of sums of products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_jobs.contract.options.fits import Bounded, CrossProductCells, FitSettings, Levels
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.mechanisms.moment_matrix import Layout, NoisyProducts, noisy_products
from spark_jobs.statistics import CrossProducts
from spark_jobs.statistics.lattice import LATTICE, Design


@dataclass(frozen=True, kw_only=True, eq=False)
class FitDraw(Draw):
    """The noisy matrix of a fit, with the public facts that turn it into a model.

    Attributes:
        features: numeric columns with their bounds.
        categorical: columns with their levels.
        outcome: numeric outcome with its bounds; None for a label.
        products: the noisy matrix; its rows and columns are the intercept, ``features``, ``categorical`` and outcome.
        confidence: nominal level of intervals.
    """

    features: tuple[Bounded, ...]
    categorical: tuple[Levels, ...]
    outcome: Bounded | None
    products: NoisyProducts
    confidence: float


def layout_of(design: Design) -> Layout:
    """The layout of a design's matrix, for the mechanism."""
    return Layout(
        numbers=len(design.features),
        columns=tuple(len(column.coded_levels) for column in design.categorical),
        outcome="number" if isinstance(design, CrossProductCells) else "sign",
        steps=LATTICE,
    )


def measured(statistic: CrossProducts, options: FitSettings, terms: Terms) -> dict[str, Any]:
    """The fields of a draw: one noisy matrix, which spends the budget of its kind of noise."""
    design, meter = statistic.design, terms.meter()
    products = noisy_products(
        statistic.products,
        layout=layout_of(design),
        meter=meter,
        neighbours=terms.neighbours,
        noise=terms.noise,
        method=options.method,
    )
    return {
        "features": design.features,
        "categorical": design.categorical,
        "outcome": design.outcome if isinstance(design, CrossProductCells) else None,
        "products": products,
        "confidence": options.confidence,
        "neighbours": terms.neighbours,
        "guarantee": terms.noise.guarantee,
        "spendings": meter.spendings,
    }
