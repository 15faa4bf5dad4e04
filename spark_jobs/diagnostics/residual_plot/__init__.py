"""Private residual plots."""

from spark_jobs.diagnostics.residual_plot.result import ResidualPlot

__all__ = ["ResidualPlot"]
