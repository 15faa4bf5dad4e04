"""A private linear fit: its data file, its picture and its part of the report."""

from __future__ import annotations

from spark_jobs.contract.options import LinearFitOptions
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics._fits.page import render_fit
from spark_jobs.diagnostics._fits.result import PrivateFit
from spark_jobs.publishing.rendering import Rendering


def render(result: PrivateFit, request: ReleaseRequest) -> Rendering:
    """Files and report of a released linear model; names, columns and rows are the same whatever was released."""
    requested = [options for options in request.diagnostics if isinstance(options, LinearFitOptions)]
    return render_fit(result, requested[0].outcome)
