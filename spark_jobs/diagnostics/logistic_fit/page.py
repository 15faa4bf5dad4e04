"""The page of a logistic fit: its data file, its picture and its section of the report."""

from __future__ import annotations

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.fits import PrivateLogisticFit
from spark_jobs.diagnostics._fits.page import render_fit
from spark_jobs.publishing.rendering import Rendering


def render(result: PrivateLogisticFit, request: ReleaseRequest) -> Rendering:
    """Files and report of a released logistic model; names, columns and rows are the same whatever was released."""
    label = request.needed_label
    return render_fit(result, f"{label.column} = {label.positive}")
