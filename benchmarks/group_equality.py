"""False alarms of the tests of whether groups are equal, on tables whose groups have one population.

``python -m benchmarks.group_equality`` shows, for each kind of table and each figure, the share of p-values
of at most 0.05, and the share of tables with an adjusted one of at most 0.05.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from benchmarks.harness import Report, arguments, progress, publish
from spark_jobs.diagnostics import by_group
from spark_jobs.diagnostics.by_group import ByGroup
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import GroupedScoreCounts

LEVEL = 0.05
ADJUSTED = "any, adjusted"


@dataclass(frozen=True)
class Law:
    """Tables of so many groups, of half to one and a half times ``rows`` each, with calibrated normal scores."""

    groups: int
    rows: int
    rate: float
    separation: float


LAWS = (
    Law(2, 1_000, 0.3, 1.2),
    Law(5, 1_000, 0.3, 1.2),
    Law(2, 5_000, 0.06, 1.2),
    Law(5, 20_000, 0.03, 1.8),
    Law(10, 2_000, 0.2, 0.5),
    Law(3, 400, 0.4, 1.0),
)


def released(law: Law, seed: int) -> ByGroup:
    """The release of a random table at an epsilon of 1."""
    random = np.random.default_rng(1000 * seed + 7 * law.groups + law.rows)
    keys = [f"group {place}" for place in range(law.groups)]
    sizes = [int(law.rows * (0.5 + place / law.groups)) for place in range(law.groups)]
    labels = random.random(sum(sizes)) < law.rate
    deviates = random.normal(0, 1, labels.size) + law.separation * labels
    scores = expit(logit(law.rate) + law.separation * (deviates - law.separation / 2))
    counts = GroupedScoreCounts.from_arrays(labels, scores, np.repeat(np.array(keys, dtype=object), sizes), keys=keys)
    matrix = {"kind": "confusion_matrix", "thresholds": [law.rate]}
    return by_group.release(counts, epsilon=1, noise=SeededNoise(seed), kinds=["auc", "binned_residuals", matrix])


def alarms(law: Law, tables: int) -> dict[str, float]:
    """The share of tables with a p-value of at most ``LEVEL``, for each figure and for any of them, adjusted."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for seed in range(tables):
        comparisons = [one for one in released(law, seed).comparisons if one.p_value is not None]
        for one in comparisons:
            hits[one.figure].append((one.p_value or 0.0) <= LEVEL)
        hits[ADJUSTED].append(any((one.adjusted_p_value or 0.0) <= LEVEL for one in comparisons))
    return {figure: float(np.mean(alarmed)) for figure, alarmed in hits.items()}


def main(argv: list[str] | None = None) -> int:
    """Print the shares of false alarms."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=100, help="of each kind (default: 100)")
    given = parser.parse_args(argv)
    tables = 2 if given.quick else given.tables
    shares = {}
    for law in LAWS:
        progress(str(law))
        shares[law] = alarms(law, tables)
    figures = sorted({figure for of_law in shares.values() for figure in of_law} - {ADJUSTED})
    columns = (*figures, ADJUSTED)
    rows = [
        [f"{law.groups} groups of {law.rows:,}, {law.rate:.0%} positive, {law.separation:g} apart"]
        + [f"{of_law[figure]:.0%}" if figure in of_law else "" for figure in columns]
        for law, of_law in shares.items()
    ]
    name = f"group_equality: false alarms at {LEVEL:.0%}, {tables} tables of each kind"
    report = Report(
        name=name,
        columns=("tables", *columns),
        rows=rows,
        targets=[],
        figures={f"{law}": list(of_law.values()) for law, of_law in shares.items()},
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
