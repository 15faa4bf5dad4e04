"""What a request for seven kinds of score figures says, and how near it is: ``python -m benchmarks.score_requests``.

Each release of a table is compared with a request for ``roc_curve`` alone at all of the budget, and with the same seven
kinds bought apart (``"share": false``), at an epsilon of 1. Errors are absolute, against the exact figures of the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._scored_tables import counts, real_tables
from benchmarks.auc_accuracy import exact_figures, synthetic
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.application.draft import draws, results_of
from spark_jobs.application.draw import ReleaseDraw
from spark_jobs.application.run import measure
from spark_jobs.contract.options import ScoreCells
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction
from spark_jobs.statistics import ScoreCounts

SEVEN = ("roc_curve", "auc", "average_precision", "binormal_roc", "confusion_matrix", "calibration", "binned_residuals")
COLUMNS = (
    "table", "numbers of positives", "bought apart", "their range, apart", "error of positives", "AUC",
    "`roc_curve` alone", "AUC bought apart", "average precision", "bought apart",
)  # fmt: skip


def request_for(kinds: Sequence[str], *, share: bool = True) -> ReleaseRequest:
    """A request for these kinds, all of which may share, or none."""
    return ReleaseRequest.parse(
        {
            "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
            "label": "visited",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": [{"kind": kind, "share": share} for kind in kinds],
            "budget": {"epsilon": "1"},
        }
    )


def numbers_of_positives(results: dict[str, Any]) -> set[float]:
    """The different numbers of positives in the results."""
    return {result.to_dict()["positives"] for result in results.values()}


def draws_of(request: ReleaseRequest, draw: ReleaseDraw) -> dict[str, Any]:
    """The draw of each diagnostic."""
    return draws(request, draw.measurements, draw.shared)


def released(statistic: ScoreCounts, seed: int) -> dict[str, float]:
    """What one release of each request says; errors against the exact figures."""
    area, precision = float(auc_fraction(statistic.negatives, statistic.positives)), exact_figures(statistic)[1]
    table = {ScoreCells(): statistic}
    together, apart = (
        measure(request, table, charge_id=None, noise=SeededNoise(seed))
        for request in (request_for(SEVEN), request_for(SEVEN, share=False))
    )
    together_results, sizes = results_of(request_for(SEVEN), together)
    own = {kind: drawn.class_sizes for kind, drawn in draws_of(request_for(SEVEN, share=False), apart).items()}
    bought, _ = results_of(request_for(SEVEN, share=False), apart)
    alone = request_for(["roc_curve"])
    curve = draws_of(alone, measure(alone, table, charge_id=None, noise=SeededNoise(seed)))["roc_curve"]
    apart_sizes = [one.positives for one in own.values()]
    return {
        "numbers": len(numbers_of_positives(together_results)),
        "numbers apart": len(set(apart_sizes)),
        "range apart": max(apart_sizes) - min(apart_sizes),
        "positives": abs(sizes.positives - float(statistic.positives.sum())),
        "auc": abs(together_results["auc"].value - area),
        "alone": abs(trace(curve).auc - area),
        "auc apart": abs(bought["auc"].value - area),
        "precision": abs(together_results["average_precision"].value - precision),
        "precision apart": abs(bought["average_precision"].value - precision),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its table."""
    parser = arguments((__doc__ or "").splitlines()[0])
    parser.add_argument("--releases", type=int, default=20, help="of each table (default: 20)")
    given = parser.parse_args(argv)
    tables = {"synthetic, 30% of 20,000": synthetic(20_000, 0.3, 1), **real_tables()}
    rows, ratios, largest = [], [], 0.0
    for name, scored in tables.items():
        progress(name)
        every = [released(counts(scored), seed) for seed in range(2 if given.quick else given.releases)]
        mean = {key: float(np.mean([one[key] for one in every])) for key in every[0]}
        largest = max(largest, *(one["numbers"] for one in every))
        ratios.append(mean["auc"] / mean["alone"])
        rows.append(
            [
                f"{name} ({int(scored[0].sum()):,} of {scored[0].size:,})",
                *(f"{mean[key]:.0f}" for key in ("numbers", "numbers apart", "range apart", "positives")),
                *(f"{mean[key]:.4f}" for key in ("auc", "alone", "auc apart", "precision", "precision apart")),
            ]
        )
    targets = [
        Target(what="numbers of positives in a release", target="one", outcome=f"{largest:.0f}", met=largest == 1),
        Target(
            what="AUC of seven kinds over that of `roc_curve` alone",
            target="at most 1.5 in every row",
            outcome=", ".join(f"{ratio:.2f}" for ratio in ratios),
            met=max(ratios) <= 1.5,
        ),
    ]
    report = Report(
        name="score_requests", columns=COLUMNS, rows=rows, targets=[] if given.quick else targets,
        figures={"rows": rows},
    )  # fmt: skip
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
