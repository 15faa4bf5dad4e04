"""The influence of a row on the difference of two models' areas, by its label and scores; post-processing."""

from __future__ import annotations

import numpy as np

from spark_jobs.diagnostics.roc_comparison.measurement import ComparisonDraw
from spark_jobs.diagnostics.roc_comparison.placements import placements
from spark_jobs.diagnostics.sampling import Influence
from spark_jobs.statistics.unit_squares import OfCells


def influences(draw: ComparisonDraw) -> dict[str, Influence]:
    """The influence of a row on the difference of the areas: its placement by the first model less that by the second.

    This is a sum of two parts, one for each score, so that it is looked up in two cells of the comparison's grid.
    """
    if draw.second is None or draw.sums is None:
        raise ValueError("the draw of a comparison with an earlier release has one score a row")
    one, other = (placements(curve).of_rows for curve in (draw.first_of_pairs or draw.first, draw.second))
    sizes, total, squares = draw.sums.moments().T
    sizes = np.maximum(sizes, 1.0)
    means = np.clip(total / sizes, -1.0, 1.0)
    scale = float(sizes.sum()) / sizes
    of_first, of_second = (one - means[:, np.newaxis]) * scale[:, np.newaxis], -other * scale[:, np.newaxis]
    lowest, highest = (getattr(of_first, end)(axis=1) + getattr(of_second, end)(axis=1) for end in ("min", "max"))
    return {
        "auc_difference": Influence(
            of_cells=OfCells.of_all(np.concatenate([of_first.reshape(-1), of_second.reshape(-1)])),
            largest=float(np.maximum(-lowest, highest).max()),
            rows_square=float((scale**2 * np.maximum(squares - sizes * means**2, 0.0)).sum()),
        )
    }
