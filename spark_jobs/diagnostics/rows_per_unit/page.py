"""The page of a chosen bound on the rows of a unit: its data file and its section of the report."""

from __future__ import annotations

import numpy as np

from spark_jobs.contract.options.rows_per_unit import RowsPerUnit
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.publishing.rendering import Column, Measure, Rendering, Section


def render(result: RowsPerUnit, request: ReleaseRequest) -> Rendering:
    """Data file and section of a chosen bound; names, columns and rows do not depend on the bound."""
    columns = {
        "bound": Column(values=np.array([result.bound]), meaning="the chosen bound"),
        "largest": Column(values=np.array([result.largest]), meaning="the largest bound that could be chosen"),
        "units_above": Column(values=np.array([result.units_above]), meaning="units that may have more rows"),
    }
    section = Section(
        title="Rows of a unit",
        reading=(
            f"The largest number of rows of one {request.unit.column} that a table is to use. It was chosen at random "
            f"among 1, 2, 3, 4, 6, 8, 12 and so on up to {result.largest}: likely is the least of them that about "
            f"{result.units_above:,} exceed.",
        ),
        measures=(Measure(label="Rows, at most", value=f"{result.bound:,}", note=f"of at most {result.largest:,}"),),
        notes=(
            f"A table's max_rows may name this release at no further cost. By the noise of the choice, "
            f"about {result.tolerance:,} units more may have more rows, and sometimes fewer do.",
        ),
    )
    return Rendering(columns=columns, plots=(), section=section)
