"""The lattice to which features and outcomes are rounded before their products are summed."""

from __future__ import annotations

from spark_jobs.contract.options.fits import CrossProductCells, LabelledRowCells

Design = CrossProductCells | LabelledRowCells

LATTICE = 4096
"""The number of steps from the middle of a feature's bounds to either bound. A product of two values is at most 2^24,
so that the sums over 5 x 10^11 rows fit 64 bits."""
