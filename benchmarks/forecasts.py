"""Forecast widths against released ones: ``python -m benchmarks.forecasts``.

Tables of scores are drawn from the law of ``_score_law``; other tables have columns whose shape is drawn among normal,
skewed, heavy-tailed and discrete. A forecast knows the number of rows, the share of positives, the AUC, R^2, and the
middle 90% of each column, each to two digits, and which shares of the rows and of the positives have scores that reach
0.1 and five other thresholds (those that about 90%, 50%, 10%, 1% and 0.1% of the rows reach); it reads no row. Each
forecast is compared with one release at epsilon 1. Beside it stands the median width of four other releases of the same
rows, which is what a forecast that knew every row could say, since an interval varies from release to release.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._score_law import POSITIVES, SHAPES, SIGNALS, drawn_table
from benchmarks.harness import Report, Target, arguments, progress, publish
from benchmarks.roc_comparison import drawn
from spark_jobs.application.draft import results_of
from spark_jobs.application.run import measure
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.figures import UNDEFINED, status_of
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.forecast import expected_widths, widths_of
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction
from spark_jobs.score_grid import cells_of, edges_of, middles_of
from spark_jobs.statistics import (
    CrossProducts,
    GroupedScoreCounts,
    LabelledRows,
    Moments,
    PairedScoreCounts,
    ResidualCounts,
    ScoreCounts,
    ValueCounts,
)

WITHIN, AIM = 1.5, 0.9
OTHERS = 4
"""Other releases of the same rows."""
Ratios = dict[str, tuple[float, float]]
"""By interval: widths over the released one, of the forecast and of other releases' median."""
THRESHOLD = 0.1
REACHED_BY = (0.9, 0.5, 0.1, 0.01, 0.001)
"""Shares of the rows whose lowest scores a caller states."""
OF_SCORES: tuple[dict[str, Any], ...] = (
    {"kind": "roc_curve"},
    {"kind": "auc"},
    {"kind": "average_precision"},
    {"kind": "confusion_matrix", "thresholds": [THRESHOLD]},
    {"kind": "binned_residuals"},
    {"kind": "calibration"},
    {"kind": "ranking_figures"},
    {"kind": "recalibration"},
    {"kind": "binormal_roc"},
    {
        "kind": "by_group",
        "group_by": "region",
        "groups": ["north", "south"],
        "kinds": ["auc", "binned_residuals", {"kind": "confusion_matrix", "thresholds": [THRESHOLD]}],
    },
)
OF_PAIRS: dict[str, Any] = {
    "kind": "roc_comparison",
    "other": {"kind": "columns", "basis": "public", "score": "other_score"},
}
OF_NUMBERS: tuple[dict[str, Any], ...] = (
    {"kind": "ecdf", "column": "y", "bounds": [0, 100], "cells": 4096},
    {"kind": "quantile", "column": "y", "bounds": [0, 100]},
    {"kind": "cdf_points", "column": "y", "bounds": [0, 100], "cells": 4096, "thresholds": [40, 50]},
    {"kind": "residual_plot", "outcome": "y", "unit": 0.01},
    {"kind": "linear_regression", "x": "x", "y": "y", "x_bounds": [0, 100], "y_bounds": [0, 100]},
    {"kind": "linear_fit", "features": {"x": [0, 100]}, "outcome": "y", "outcome_bounds": [0, 100]},
    {"kind": "logistic_fit", "features": {"x": [0, 100]}},
)
COLUMN_SHAPES = ("normal", "skewed", "heavy", "discrete")


def request_of(options: dict[str, Any], epsilon: str = "1") -> ReleaseRequest:
    """A request of one diagnostic."""
    fields = {
        "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        "label": "label",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
    }
    return ReleaseRequest.parse({**fields, "diagnostics": [options], "budget": {"epsilon": epsilon}})


def ratios(request: ReleaseRequest, statistic: Any, stated: ExpectedTable, *, seed: int) -> Ratios:
    """Forecast width over released width, by interval, and other releases' over it; empty if the release is undefined.

    Args:
        request: of one diagnostic.
        statistic: the exact statistic of a table.
        stated: what the forecast knows of it.
        seed: of the release's noise.
    """
    released = released_widths(request, statistic, seed=seed)
    if not released:
        return {}
    (expected,) = expected_widths(request, stated)
    others = [released_widths(request, statistic, seed=seed + 1 + number) for number in range(OTHERS)]
    return {
        name: (
            expected.widths.get(name, math.nan) / width,
            float(np.median([of.get(name, math.nan) for of in others])) / width,
        )
        for name, width in released.items()
        if width > 0
    }


def released_widths(request: ReleaseRequest, statistic: Any, *, seed: int) -> dict[str, float]:
    """The widths of one release's intervals; empty if it is undefined."""
    (options,) = request.diagnostics
    draw = measure(request, dict.fromkeys(options.statistics, statistic), charge_id=None, noise=SeededNoise(seed))
    results, _ = results_of(request, replace(draw, seed=seed))
    result = results[options.kind].to_dict()
    return {} if status_of(result) == UNDEFINED else widths_of(options.kind, result)


def of_scores(random: np.random.Generator, options: dict[str, Any], shape: str) -> tuple[str, Ratios]:
    """The ratios for a table of the law of scores, with its name."""
    positives, signal = int(random.choice(POSITIVES)), float(random.choice(SIGNALS))
    table = drawn_table(random, positives=positives, auc=signal, shape=shape)
    rows = table.counts.total
    stated = ExpectedTable(
        rows=rounded(rows), positive_rate=rounded(positives / rows), auc=signal, **reached_shares(table.counts)
    )
    counts = in_groups(random, table.counts, options["groups"]) if "groups" in options else table.counts
    return shape, ratios(request_of(options), counts, stated, seed=int(random.integers(2**62)))


def in_groups(random: np.random.Generator, counts: ScoreCounts, keys: list[str]) -> GroupedScoreCounts:
    """The same rows, each in a group at random."""
    cells = np.tile(middles_of(counts.cells), 2)
    times = np.concatenate([counts.negatives, counts.positives])
    labels, scores = (np.repeat(values, times) for values in (np.repeat([0, 1], counts.cells), cells))
    return GroupedScoreCounts.from_arrays(labels, scores, random.choice(np.array(keys), labels.size), keys=keys)


def of_pairs(random: np.random.Generator, options: dict[str, Any], _: str) -> tuple[str, Ratios]:
    """The ratios for a table of the law of comparisons, with the names of both shapes of scores."""
    (labels, first, second), _, shapes = drawn(random, gap=float(random.choice([0.0, 0.03])))
    counts = ScoreCounts.from_arrays(labels, first)
    stated = ExpectedTable(
        rows=rounded(labels.size),
        positive_rate=rounded(float(labels.mean())),
        auc=rounded(float(np.clip(auc_fraction(counts.negatives, counts.positives), 0.5, 0.99))),
        **reached_shares(counts),
    )
    pairs = PairedScoreCounts.from_arrays(labels, first, second)
    return " ".join(shapes), ratios(request_of(options), pairs, stated, seed=int(random.integers(2**62)))


def reached_shares(counts: ScoreCounts) -> dict[str, dict[float, float]]:
    """The shares of rows and of positives that reach some thresholds, as a caller would state them; they fall."""
    rows, cells = counts.total, counts.cells
    above = np.cumsum((counts.negatives + counts.positives)[::-1])[::-1] / rows
    of_positives = np.cumsum(counts.positives[::-1])[::-1] / counts.positives.sum()
    reached = [rounded(float(edges_of(cells)[np.searchsorted(-above, -share) + 1])) for share in REACHED_BY]
    shares: dict[float, tuple[float, float]] = {}
    for threshold in (THRESHOLD, *reached):
        place = int(cells_of(np.array(threshold), cells))
        pair = tuple(share_rounded(float(np.clip(of[place], 1 / rows, 1 - 1 / rows))) for of in (above, of_positives))
        same = [at for at, of in shares.items() if (at - threshold) * (of[0] - pair[0]) >= 0]
        if 0 < threshold < 1 and not same:
            shares[threshold] = pair
    ascending = sorted(shares)
    return {name: {at: shares[at][i] for at in ascending} for i, name in enumerate(("flagged", "recalls"))}


def of_numbers(random: np.random.Generator, options: dict[str, Any], shape: str) -> tuple[str, Ratios]:
    """The ratios for a table of numbers, with its name."""
    rows = int(np.exp(random.uniform(*np.log([3_000, 80_000]))))
    explained = np.sqrt(random.uniform(0.2, 0.8))
    place, spread = random.uniform(30, 60), random.uniform(3, 12)
    x, noise = column(random, rows, shape), column(random, rows, shape)
    y = place + spread * (explained * x + np.sqrt(1 - explained**2) * noise)
    fitted, x = place + spread * explained * x, 50 + 12 * x
    label = random.random(rows) < 1 / (1 + np.exp(-(x - 50) / 10))
    request = request_of(options)
    (statistic,) = request.statistics
    ends = {name: tuple(map(rounded, np.quantile(of, [0.05, 0.95]))) for name, of in (("x", x), ("y", y))}
    read = {"x": ("linear_regression", "linear_fit", "logistic_fit"), "y": tuple(o["kind"] for o in OF_NUMBERS[:-1])}
    stated = ExpectedTable(
        rows=rounded(rows),
        positive_rate=rounded(float(label.mean())),
        r_squared=rounded(explained**2),
        values={name: ends[name] for name, kinds in read.items() if options["kind"] in kinds},
    )
    exact: dict[str, Any] = {
        "ecdf": lambda: ValueCounts.from_arrays(y, **statistic.grid),
        "cdf_points": lambda: ValueCounts.from_arrays(y, **statistic.grid),
        "quantile": lambda: ValueCounts.from_arrays(y, **statistic.grid),
        "residual_plot": lambda: ResidualCounts.from_arrays(fitted, y - fitted, unit=statistic.unit),
        "linear_regression": lambda: Moments.from_arrays(x, y, lower=(0, 0), upper=(100, 100), cells=statistic.cells),
        "linear_fit": lambda: CrossProducts.from_arrays({"x": x}, y, design=statistic),
        "logistic_fit": lambda: LabelledRows.from_arrays({"x": x}, label, design=statistic),
    }
    return shape, ratios(request, exact[options["kind"]](), stated, seed=int(random.integers(2**62)))


def column(random: np.random.Generator, rows: int, shape: str) -> FloatArray:
    """A column of this shape with mean 0 and standard deviation 1."""
    drawn = {
        "normal": lambda: random.standard_normal(rows),
        "skewed": lambda: random.gamma(random.uniform(0.7, 4), size=rows),
        "heavy": lambda: random.standard_t(random.uniform(3, 6), rows),
        "discrete": lambda: np.round(random.standard_normal(rows) / (step := random.uniform(0.1, 0.8))) * step,
    }[shape]()
    return np.asarray((drawn - drawn.mean()) / drawn.std(), dtype=np.float64)


def rounded(value: float) -> float:
    """``value`` to two digits, as a caller would state it."""
    return float(f"{value:.2g}")


def share_rounded(share: float) -> float:
    """``share`` to two digits of what is left out, if that is less: 0.9987, not 1."""
    return rounded(share) if share < 0.5 else round(1 - rounded(1 - share), 12)


def outcomes(
    random: np.random.Generator, tables: int, kinds: Sequence[str] = ()
) -> Iterator[tuple[str, str, tuple[float, float]]]:
    """Kind and interval, shape of the table, and ratios, for that many tables of each shape; of these kinds, or all."""
    for options in (*OF_SCORES, OF_PAIRS, *OF_NUMBERS):
        if kinds and options["kind"] not in kinds:
            continue
        progress(options["kind"])
        of, shapes = (of_scores, SHAPES) if options in OF_SCORES else (of_numbers, COLUMN_SHAPES)
        of = of_pairs if options is OF_PAIRS else of
        for shape in (shape for shape in shapes for _ in range(tables)):
            name, measured = of(random, options, shape)
            yield from ((f"{options['kind']}: {interval}", name, ratio) for interval, ratio in measured.items())


def main(argv: list[str] | None = None) -> int:
    """Draw tables, and print how forecasts compare with releases."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=6, help="tables of each shape for each diagnostic (default: 6)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", default=(), help="kinds of diagnostics (default: all)")
    given = parser.parse_args(argv)
    measured: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for interval, _, both in outcomes(
        np.random.default_rng(given.seed), 1 if given.quick else given.tables, given.kinds
    ):
        measured[interval].append(both)
    rows, near_all = [], []
    for interval, values in measured.items():
        array = np.array(values)
        near = (array <= WITHIN) & (array >= 1 / WITHIN)
        near_all += list(near)
        low, middle, high = np.nanquantile(array[:, 0], [0.05, 0.5, 0.95])
        shares = (f"{share:.0%}" for share in near.mean(axis=0))
        rows.append([interval, f"{middle:.2f}", f"{low:.2f} to {high:.2f}", *shares, str(len(values))])
    of_forecasts, of_releases = np.mean(near_all, axis=0)
    target = Target(
        what=f"widths within a factor {WITHIN}", target=f"at least {AIM:.0%} of all intervals",
        outcome=f"{of_forecasts:.0%}; of the median of other releases {of_releases:.0%}", met=bool(of_forecasts >= AIM),
    )  # fmt: skip
    report = Report(
        name="forecasts",
        columns=(
            "interval",
            "forecast / released",
            "5% to 95%",
            f"within {WITHIN}",
            "other releases within it",
            "releases",
        ),
        rows=rows,
        targets=[] if given.quick else [target],
        figures=dict(measured),
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
