"""The page of an average precision."""

from __future__ import annotations

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.score_figures import ScoreFigure
from spark_jobs.diagnostics._score_figures.page import Wording, render_figure
from spark_jobs.diagnostics.average_precision import AveragePrecision
from spark_jobs.publishing.rendering import Rendering, finite


def share_of_positives(result: ScoreFigure) -> float | None:
    """The noisy share of positives: the average precision of scores without information; None if unknown."""
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
        "At each positive row, the precision is the share of positives among the rows with at least its score. The "
        "average precision is the mean of these precisions. Scores without information reach the share of positives "
        "in the table; 1 is perfect.",
    ),
    chance_label="chance",
    chance=share_of_positives,
)


def render(result: AveragePrecision, request: ReleaseRequest) -> Rendering:
    """The page of a released average precision."""
    return render_figure(result, request, WORDING)
