"""The page of a linear fit: its data file, its plot and its section of the report."""

from __future__ import annotations

from spark_jobs.contract.options import LinearFitOptions
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.fits import PrivateLinearFit
from spark_jobs.diagnostics._fits.page import render_fit
from spark_jobs.publishing.rendering import Rendering


def render(result: PrivateLinearFit, request: ReleaseRequest) -> Rendering:
    """The data file, plot and section of a released model; names, columns and rows do not depend on the values."""
    requested = [options for options in request.diagnostics if isinstance(options, LinearFitOptions)]
    return render_fit(result, requested[0].outcome)
