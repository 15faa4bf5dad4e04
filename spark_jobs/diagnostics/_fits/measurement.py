"""The random part of private fits: one noisy matrix of sums of products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_jobs.contract.options.fits import Bounded, CrossProductCells, Fitting, Levels
from spark_jobs.contract.privacy import Neighbours, exact_sum
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.moment_matrix import Layout, NoisyProducts, noisy_products
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.statistics import CrossProducts
from spark_jobs.statistics.lattice import LATTICE, Design

SECURE = SecureNoise()


@dataclass(frozen=True, kw_only=True, eq=False)
class FitMeasurement:
    """The draw: the noisy matrix, and the public facts that make a model of it.

    Attributes:
        features: numbers with their bounds.
        categorical: columns with their levels.
        outcome: a number with its bounds; None for a label.
        products: the noisy matrix, its entries in this order.
        confidence: nominal level of intervals.
        neighbours: the relation of the guarantee.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        spendings: what it cost.
    """

    features: tuple[Bounded, ...]
    categorical: tuple[Levels, ...]
    outcome: Bounded | None
    products: NoisyProducts
    confidence: float
    neighbours: Neighbours
    guarantee: str
    spendings: tuple[Spending, ...]

    @property
    def epsilon(self) -> Decimal:
        """What it cost."""
        return exact_sum(*(spending.epsilon for spending in self.spendings))

    @property
    def delta(self) -> Decimal:
        """What it cost in delta; 0 for pure privacy."""
        return exact_sum(*(spending.delta for spending in self.spendings))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "features": [feature.model_dump(mode="json") for feature in self.features],
            "categorical": [levels.model_dump(mode="json") for levels in self.categorical],
            "outcome": None if self.outcome is None else self.outcome.model_dump(mode="json"),
            "products": self.products.to_dict(),
            "confidence": self.confidence,
            "neighbours": str(self.neighbours),
            "guarantee": self.guarantee,
            "spendings": [spending.to_dict() for spending in self.spendings],
        }


def measured_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the measurement that ``FitMeasurement.to_dict`` described."""
    return {
        "features": tuple(Bounded.parse(feature) for feature in fields["features"]),
        "categorical": tuple(Levels.parse(levels) for levels in fields["categorical"]),
        "outcome": None if fields["outcome"] is None else Bounded.parse(fields["outcome"]),
        "products": NoisyProducts.from_dict(fields["products"]),
        "confidence": fields["confidence"],
        "neighbours": Neighbours(fields["neighbours"]),
        "guarantee": fields["guarantee"],
        "spendings": tuple(Spending.from_dict(spending) for spending in fields["spendings"]),
    }


def layout_of(design: Design) -> Layout:
    """What the mechanism has to know of a design."""
    return Layout(
        numbers=len(design.features),
        columns=tuple(len(each.told) for each in design.categorical),
        outcome="number" if isinstance(design, CrossProductCells) else "sign",
        unit=LATTICE,
    )


def measured(
    statistic: CrossProducts,
    options: Fitting,
    *,
    epsilon: Cost,
    delta: Cost,
    neighbours: Neighbours,
    noise: Noise,
) -> dict[str, Any]:
    """The fields of a measurement of ``statistic``; what ``measure`` of both fits promises."""
    design, meter = statistic.design, BudgetMeter(epsilon, delta)
    products = noisy_products(
        statistic.products,
        layout=layout_of(design),
        meter=meter,
        neighbours=neighbours,
        noise=noise,
        method=options.method,
    )
    return {
        "features": design.features,
        "categorical": design.categorical,
        "outcome": design.outcome if isinstance(design, CrossProductCells) else None,
        "products": products,
        "confidence": options.confidence,
        "neighbours": neighbours,
        "guarantee": noise.guarantee,
        "spendings": meter.events,
    }
