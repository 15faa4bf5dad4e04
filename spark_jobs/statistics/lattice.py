"""The whole numbers that features and outcomes are rounded to before their products are summed."""

from __future__ import annotations

from spark_jobs.contract.options.fits import CrossProductCells, LabelProductCells

Design = CrossProductCells | LabelProductCells

LATTICE = 4096
"""Steps from the middle of a feature's bounds to either of them. A product of two has up to 2^24, so that the sums of
5 x 10^11 rows fit 64 bits."""
