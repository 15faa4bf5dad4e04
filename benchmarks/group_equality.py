"""False alarms of the tests of whether groups are equal, on tables whose groups have one population.

Run ``python -m benchmarks.group_equality --tables 100``; prints, for each kind of table and each figure, the share of
p-values of at most 0.05, and the share of tables with an adjusted one of at most 0.05.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from spark_jobs.diagnostics import by_group
from spark_jobs.diagnostics.by_group import ByGroup
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import GroupedScoreCounts

LEVEL = 0.05


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


def main() -> None:
    """Print the shares of false alarms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    tables = parser.parse_args().tables
    for law in LAWS:
        alarms: dict[str, list[bool]] = defaultdict(list)
        for seed in range(tables):
            comparisons = [one for one in released(law, seed).comparisons if one.p_value is not None]
            for one in comparisons:
                alarms[one.figure].append((one.p_value or 0.0) <= LEVEL)
            alarms["any, adjusted"].append(any((one.adjusted_p_value or 0.0) <= LEVEL for one in comparisons))
        print(law, {figure: f"{100 * np.mean(hits):.0f}%" for figure, hits in alarms.items()}, flush=True)


if __name__ == "__main__":
    main()
