"""The area under the ROC curve: its data file, its picture and its part of the report."""

from __future__ import annotations

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics._score_figures.page import Wording, render_figure
from spark_jobs.diagnostics.auc import Auc
from spark_jobs.publishing.rendering import Rendering

WORDING = Wording(
    kind="auc",
    title="Area under the ROC curve",
    label="Area under the curve (AUC)",
    short="AUC",
    reading=(
        "The AUC is how often a positive row, picked at random, scores above a negative one, ties counting half: one "
        "half is the toss of a coin, one is perfect.",
    ),
    chance_label="½ chance",
    chance=lambda result: 0.5,
)


def render(result: Auc, request: ReleaseRequest) -> Rendering:
    """Files and report of a released AUC; names, columns and rows are the same whatever was released."""
    return render_figure(result, request, WORDING)
