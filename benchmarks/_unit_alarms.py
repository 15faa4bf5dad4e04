"""How often tests alarm where nothing differs, of units with several rows each."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from benchmarks._unit_law import Rows, request_of
from spark_jobs.application.draft import results_of
from spark_jobs.application.run import measure
from spark_jobs.application.unit_passes import cells_of_rows
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.grids import PAIR_CELLS, SCORE_CELLS
from spark_jobs.contract.options import Statistic
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import cells_of
from spark_jobs.statistics import GroupedScoreCounts, PairedScoreCounts
from spark_jobs.statistics.unit_squares import OfCells, unit_squares

LEVEL = 0.05
GROUPS = ("a", "b", "c")
CASES = (
    ("not alike", "3"),
    ("half", "3"),
    ("alike", "3"),
    ("not alike", "10"),
    ("alike", "10"),
)  # fmt: skip
UNITS = 2000


def alarms(law: str, rows: str, releases: int, *, share: str | None) -> dict[str, float]:
    """How often tests of equal groups and of equal areas of two models have a p-value below ``LEVEL``, for epsilon 1.

    Units are of one of three groups each, whose laws are the same; scores of the second model are drawn as those of the
    first.
    """
    random, alarmed = np.random.default_rng(5), defaultdict(list)
    for seed in range(releases):
        table = Rows.drawn(random, law=law, rows=rows, units=UNITS)
        group = table.unit % len(GROUPS)
        entry = {"kind": "by_group", "group_by": "region", "groups": list(GROUPS), "kinds": ["confusion_matrix"]}
        cells = (2 * group + table.labels) * SCORE_CELLS + cells_of(table.scores, SCORE_CELLS)
        counts = GroupedScoreCounts.from_arrays(
            table.labels, table.scores, np.array(GROUPS, dtype=object)[group], keys=GROUPS
        )
        result = _result(entry, counts, table, cells[:, np.newaxis], seed, share)
        for comparison in result.comparisons:
            if comparison.p_value is not None:
                alarmed[f"groups: {comparison.figure}"].append(comparison.p_value < LEVEL)
        other = table.scored(random)
        model = {"kind": "columns", "score": "other", "basis": "public"}
        one, second = (cells_of(scores, PAIR_CELLS) for scores in (table.scores, other))
        key = (table.labels * PAIR_CELLS + one) * PAIR_CELLS + second
        pairs = PairedScoreCounts.from_arrays(table.labels, table.scores, other)
        entry = {"kind": "roc_comparison", "other": model}
        result = _result(entry, pairs, table, key, seed, share)
        if result.auc_p_value is not None:
            alarmed["areas of two models"].append(result.auc_p_value < LEVEL)
    return {name: float(np.mean(of)) for name, of in alarmed.items()}


def _result(entry: dict[str, Any], counts: Any, table: Rows, cells: Int64Array, seed: int, share: str | None) -> Any:
    wanted = request_of([entry], table.max_rows, "1", share=share)
    (statistic,) = wanted.statistics

    def squares(of: Statistic, weights: OfCells) -> Int64Array:
        places = cells if cells.ndim > 1 else np.stack(cells_of_rows(of, cells), axis=-1)
        return unit_squares(table.unit, places, weights, max_rows=table.max_rows)

    draw = measure(wanted, {statistic: counts}, charge_id=None, noise=SeededNoise(seed), squares=squares)
    return results_of(wanted, draw)[0][entry["kind"]]
