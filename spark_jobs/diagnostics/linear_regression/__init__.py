"""Private lines through groups of points."""

from __future__ import annotations

from spark_jobs.diagnostics.linear_regression.result import LinearFit

__all__ = ["LinearFit"]
