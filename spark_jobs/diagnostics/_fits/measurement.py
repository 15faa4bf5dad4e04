"""The common part of the draws of private fits: the public facts that turn noisy sums into a model."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.contract.options.fits import Bounded, CrossProductCells, Levels
from spark_jobs.diagnostics.diagnostic import Draw
from spark_jobs.mechanisms.moment_matrix import Layout
from spark_jobs.statistics.lattice import LATTICE, Design


@dataclass(frozen=True, kw_only=True, eq=False)
class FitDraw(Draw):
    """The noisy sums of a fit, with the public facts that turn them into a model.

    Attributes:
        features: numeric columns with their bounds.
        categorical: columns with their levels.
        confidence: nominal level of intervals.
    """

    features: tuple[Bounded, ...]
    categorical: tuple[Levels, ...]
    confidence: float


def layout_of(design: Design) -> Layout:
    """The layout of the rows of a design matrix, as the mechanism needs it."""
    return Layout(
        numbers=len(design.features),
        columns=tuple(len(column.coded_levels) for column in design.categorical),
        outcome=isinstance(design, CrossProductCells),
        steps=LATTICE,
    )
