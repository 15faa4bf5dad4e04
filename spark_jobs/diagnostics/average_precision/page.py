"""The average precision: its data file, its picture and its part of the report."""

from __future__ import annotations

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics._score_figures.page import Wording, render_figure
from spark_jobs.diagnostics._score_figures.result import ScoreFigure
from spark_jobs.diagnostics.average_precision import AveragePrecision
from spark_jobs.publishing.rendering import Rendering, finite


def share_of_positives(result: ScoreFigure) -> float | None:
    """The noisy share of positives, which scores that say nothing would reach; None where it is unknown."""
    if result.positives is None or result.negatives is None:
        return None
    share = result.positives / max(result.positives + result.negatives, 1.0)
    return min(max(share, 0.0), 1.0) if finite(share) else None


WORDING = Wording(
    kind="average_precision",
    title="Average precision",
    label="Average precision",
    short="AP",
    reading=(
        "Go down the rows from the highest score, and note at each positive row which share of the rows so far are "
        "positive: the average precision is the mean of these shares. Scores that say nothing give the share of "
        "positives in the whole table; one is perfect.",
    ),
    chance_label="chance",
    chance=share_of_positives,
)


def render(result: AveragePrecision, request: ReleaseRequest) -> Rendering:
    """Files and report of a released average precision; names, columns and rows are the same whatever was released."""
    return render_figure(result, request, WORDING)
