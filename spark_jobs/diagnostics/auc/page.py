"""The page of an AUC."""

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
        "The AUC is the probability that a random positive row scores higher than a random negative one; ties count "
        "half. 0.5 is no better than chance, 1 is perfect.",
    ),
    chance_label="½ chance",
    chance=lambda result: 0.5,
)


def render(result: Auc, request: ReleaseRequest) -> Rendering:
    """The page of a released AUC."""
    return render_figure(result, request, WORDING)
