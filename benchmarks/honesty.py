"""Do intervals hold, and are automatic choices good, on tables drawn at random? ``python -m benchmarks.honesty``.

Tables come from written laws: of scores (``_score_law``, ``recalibration``, ``roc_comparison``), of lines of cells and
points (``_choice_law``), of residuals (``_residual_models``), of rows to fit (``logistic_law``), of groups of rows
(``_honest_curves``), of tables of aggregates (``_honest_aggregates``), of streams (``_honest_streams``), and of raw
rows as people have them (``_raw_law``), whose exact figures no grid has touched (``_exact``). A cell of the law is a
kind of interval at one number of positives, or of rows times epsilon; all else is drawn anew for each release. A
release shows one interval of each kind, chosen at random if it has several. So coverage has a binomial law, and its 99%
interval is Clopper and Pearson's.

The width is compared with that of a calibrated oracle, who knows by which factor all intervals of a cell have to be
scaled to hold at their level exactly. A ratio of 1.3 is 30% too wide. With few releases the ratio is rough. On a grid,
widths are numbers of cells, and no interval is narrower than one. One cell that holds says the exact figure, so that no
level could make it narrower; an interval of all that a figure may be says nothing, and always holds. The shares of
these are stated; coverage and width are those of the others.

Regret is the mean error of ``auto`` on a table, divided by that of the best method on this table (``choices``).

Releases are kept as JSON lines; ``--resume`` continues an interrupted run of the same code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _honest_aggregates as tables
from benchmarks import _honest_choices as choices
from benchmarks import _honest_curves as curves
from benchmarks import _honest_numbers as numbers
from benchmarks import _honest_raw as raw
from benchmarks import _honest_scores as scores
from benchmarks import _honest_streams as streams
from benchmarks._cells import Cell, Run, released
from benchmarks._choice_law import drawn_grid, drawn_line, drawn_points
from benchmarks._raw_fits import of_raw_linear_fits
from benchmarks._raw_law import ATOMS, LATTICE, SCORE_FORMS, SMOOTH, TAILS
from benchmarks._score_law import POSITIVES
from benchmarks._shown import LEVEL, Intervals, Kind, Shown
from benchmarks.choices import RELATIONS, errors_of_cells, errors_of_lines, summary
from benchmarks.harness import Report, Target, arguments, publish
from benchmarks.rare_classes import CREDIBLE, HIGHEST, LOWEST, credible

GROUP_ROWS = (500, 2_000, 10_000, 50_000)
GROUP_NUMBERS = (20, 131, 500, 2_400)
COMPARED_ROWS = (150, 500, 2_000, 10_000)
WIDEST, MIN_RELEASES = 1.3, 100
"""Largest ratio of widths, and number of releases in a cell from which targets are judged."""
FILE = Path("build/honesty.jsonl")
DECIMALS = tuple(form for form in SCORE_FORMS if "decimal" in form)
TIED = ("an atom", "two values", "yes or no", "constant")
POSITIVE = "positives"
PRODUCT = "rows x epsilon"

KINDS: Mapping[str, tuple[Kind, tuple[float, ...], str]] = {
    "values": (numbers.of_values, numbers.ROWS, PRODUCT),
    "distances-of-functions": (numbers.of_distances_of_functions, numbers.ROWS, PRODUCT),
    "points-of-a-function": (numbers.of_points_of_a_function, numbers.ROWS, PRODUCT),
    "found-bounds": (numbers.of_values_without_bounds, numbers.ROWS, PRODUCT),
    "points": (numbers.of_points, numbers.ROWS, PRODUCT),
    "small-groups": (numbers.of_small_groups, GROUP_NUMBERS, "groups"),
    "residuals": (numbers.of_residuals, numbers.ROWS, PRODUCT),
    "linear-fits": (numbers.of_linear_fits, numbers.FITTED_ROWS, PRODUCT),
    "logistic-fits": (numbers.of_logistic_fits, numbers.FITTED_ROWS, PRODUCT),
    "areas": (scores.of_areas, POSITIVES, POSITIVE),
    "groups": (scores.of_groups, POSITIVES, POSITIVE),
    "matrices": (scores.of_matrices, POSITIVES, POSITIVE),
    "recalibrations": (scores.of_recalibrations, POSITIVES, POSITIVE),
    "curves": (curves.of_curves, POSITIVES, POSITIVE),
    "populations": (curves.of_populations, POSITIVES, POSITIVE),
    "differences-of-curves": (curves.of_curve_differences, POSITIVES, POSITIVE),
    "distances": (curves.of_distances, POSITIVES, POSITIVE),
    "ranked-populations": (curves.of_ranked_populations, POSITIVES, POSITIVE),
    "groups-of-rows": (curves.of_groups_of_rows, GROUP_ROWS, "rows of a group x epsilon"),
    "tables": (tables.of_tables, tables.ROWS, "rows of a cell x epsilon"),
    "tables-of-errors": (tables.of_errors, tables.ROWS, "rows of a cell x epsilon"),
    "tables-of-quantiles": (tables.of_quantiles, tables.ROWS, "rows of a cell x epsilon"),
    "streams": (streams.of_streams, streams.EVENTS, "events of a step x epsilon"),
    "comparisons": (scores.of_comparisons, COMPARED_ROWS, "rows of the smaller class x epsilon"),
    "raw-values-on-a-lattice": (raw.of_raw_values(LATTICE, "on a lattice"), numbers.ROWS, PRODUCT),
    "raw-values-with-atoms": (raw.of_raw_values(ATOMS, "atoms"), numbers.ROWS, PRODUCT),
    "raw-values-with-tails": (raw.of_raw_values(TAILS, "tails"), numbers.ROWS, PRODUCT),
    "raw-values-that-are-smooth": (raw.of_raw_values(SMOOTH, "raw and smooth"), numbers.ROWS, PRODUCT),
    "raw-found-bounds": (raw.of_raw_values_without_bounds, numbers.ROWS, PRODUCT),
    "raw-points": (raw.of_raw_points, numbers.ROWS, PRODUCT),
    "raw-groups": (raw.of_raw_groups, GROUP_NUMBERS, "groups"),
    "raw-residuals": (raw.of_raw_residuals, numbers.ROWS, PRODUCT),
    "raw-scores-of-few-decimals": (raw.of_raw_scores(DECIMALS, "few decimals"), POSITIVES, POSITIVE),
    "raw-scores-that-are-tiny": (raw.of_raw_scores(("tiny",), "tiny"), POSITIVES, POSITIVE),
    "raw-scores-with-atoms": (raw.of_raw_scores(TIED, "atoms"), POSITIVES, POSITIVE),
    "raw-scores-that-are-smooth": (raw.of_raw_scores(("smooth",), "raw and smooth"), POSITIVES, POSITIVE),
    "raw-recalibrations": (raw.of_raw_recalibrations(("smooth", *DECIMALS), "raw"), POSITIVES, POSITIVE),
    "raw-recalibrations-of-tiny-scores": (raw.of_raw_recalibrations(("tiny",), "tiny"), POSITIVES, POSITIVE),
    "raw-linear-fits": (of_raw_linear_fits, numbers.FITTED_ROWS, PRODUCT),
}
CHOICE_RELEASES = 40
"""Of a method that may be the best on a table (``choices.raced``)."""


def line_choices(random: np.random.Generator) -> dict[str, Any]:
    """The errors of every method for lines on one table, by relation."""
    points = drawn_points(random)
    return {f"lines, {one}": errors_of_lines(points, one, releases=CHOICE_RELEASES) for one in RELATIONS}


def cell_choices(random: np.random.Generator) -> dict[str, Any]:
    """The errors of every histogram method on a line and a grid of cells."""
    prefixes, ranges = errors_of_cells(drawn_line(random), releases=CHOICE_RELEASES)
    return {
        "histograms: prefixes of a line": prefixes,
        "histograms: ranges of a line": ranges,
        "histograms: rectangles of a grid": errors_of_cells(drawn_grid(random), releases=CHOICE_RELEASES)[1],
    }


def of_one_table(draws: Callable[..., Mapping[str, Any]]) -> Callable[[np.random.Generator], dict[str, Any]]:
    """The errors of every method on one table, by what ``draws`` it and releases it so often."""
    return lambda random: dict(draws(random, releases=CHOICE_RELEASES))


CHOICES: Mapping[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "choices of lines": line_choices,
    "choices of histograms": cell_choices,
    "choices of areas": of_one_table(scores.area_choices),
    "choices of curves and groups": of_one_table(choices.score_choices),
    "choices of residual plots": of_one_table(choices.residual_choices),
    "choices of fits": of_one_table(choices.fit_choices),
    "choices of streams": of_one_table(choices.stream_choices),
}
MEAN_REGRET, WORST_REGRET = 1.1, 1.5


def one_release(part: str, cell: float, random: np.random.Generator) -> dict[str, Any]:
    """What a line of the file says of one release: of each interval what ``Shown`` has, or the errors of methods."""
    if part in CHOICES:
        return CHOICES[part](random)
    drawn: Intervals = KINDS[part][0](random, cell)
    return {name: None if one is None else astuple(one) for name, one in drawn.items()}


def coverage(name: str, cell: str, shown: Sequence[Shown | None]) -> tuple[list[str], Target]:
    """A row of the table of coverage, and whether it meets its target."""
    defined = [one for one in shown if one is not None]
    counted = [one for one in defined if one.can_miss]
    low, high = credible(np.array([one.holds for one in counted], dtype=float)) if counted else (0.0, 1.0)
    needed = float(np.quantile([one.factor for one in counted], LEVEL)) if counted else 0.0
    ratio = _excess(counted, needed) if counted else None
    share = f"{np.mean([one.holds for one in counted]):.3f}" if counted else ""
    undefined = f"{1 - len(defined) / len(shown):.0%}"
    exact = f"{np.mean([one.is_one_exact_cell for one in defined]):.0%}" if any(one.cell for one in defined) else ""
    whole = f"{np.mean([one.whole for one in defined]):.0%}" if any(one.whole for one in defined) else ""
    holds, fits = low <= HIGHEST and high >= LOWEST, ratio is None or ratio <= WIDEST
    shown_ratio = "any" if ratio is None else f"{ratio:.2f}"
    row = [
        name,
        cell,
        share,
        f"{low:.3f}-{high:.3f}",
        "yes" if holds else "**no**",
        undefined,
        exact,
        whole,
        shown_ratio,
    ]
    target = Target(
        what=f"{name}, {cell}",
        target=f"{CREDIBLE:.0%} interval meets {LOWEST:.2f}-{HIGHEST:.2f}; at most {WIDEST} times the oracle's width",
        outcome=f"{low:.3f}-{high:.3f}; {shown_ratio}",
        met=holds and fits,
    )
    return row, target


def _excess(defined: Sequence[Shown], needed: float) -> float | None:
    """The width over the oracle's, who scales by ``needed``; None if any will do, as most figures are exact."""
    if any(one.cell for one in defined):
        return sum(one.width() for one in defined) / sum(one.width(needed) for one in defined)
    return 1 / needed if needed > 1e-3 else None


def coverage_report(drawn_by_cell: Mapping[Cell, Sequence[Mapping[str, Any]]]) -> Report:
    """Coverage in every cell of the law."""
    rows, targets = [], []
    releases = min(len(drawn) for drawn in drawn_by_cell.values())
    for (part, cell), drawn in drawn_by_cell.items():
        for name in drawn[0]:
            every = [None if one[name] is None else _decoded(one[name]) for one in drawn]
            row, target = coverage(name, f"{cell:,g} {KINDS[part][2]}", every)
            rows.append(row)
            targets.append(target)
    columns = (
        "interval",
        "cell of the law",
        "held",
        "99% interval",
        "meets",
        "undefined",
        "one cell",
        "whole range",
        "width / oracle's",
    )
    order = {name: place for place, name in enumerate(dict.fromkeys(row[0] for row in rows))}
    return Report(
        name=f"honesty: coverage of {LEVEL:.0%} intervals, {releases} releases a cell",
        columns=columns,
        rows=sorted(rows, key=lambda row: order[row[0]]),
        targets=[target for target in targets if not target.met] if releases >= MIN_RELEASES else [],
        figures={},
    )


def _decoded(fields: Sequence[float]) -> Shown:
    value, low, high, exact, cell, whole = fields
    return Shown(value=value, low=low, high=high, exact=exact, cell=cell, whole=whole)


def regret_report(drawn_by_cell: Mapping[Cell, Sequence[Mapping[str, Any]]]) -> Report:
    """The regret of every automatic choice."""
    rows, targets, tables = [], [], min(len(drawn) for drawn in drawn_by_cell.values())
    for drawn in drawn_by_cell.values():
        for name in drawn[0]:
            [row] = [row for row in summary([one[name] for one in drawn]) if row[0] == "`auto`"]
            rows.append([name, *row[1:]])
            mean, worst = (float(row[place].replace(",", "")) for place in (1, 4))
            targets.append(
                Target(
                    what=name,
                    target=f"regret at most {MEAN_REGRET} on average, {WORST_REGRET} at worst",
                    outcome=f"{mean:.2f}, {worst:.2f}",
                    met=mean <= MEAN_REGRET and worst <= WORST_REGRET,
                )
            )
    heads = ("automatic choice", "mean regret", "geometric", "median", "worst", "tables up to 1.5")
    name = f"honesty: regret of automatic choices, {tables} tables of {CHOICE_RELEASES} releases"
    return Report(name=name, columns=heads, rows=rows, targets=targets if tables >= MIN_RELEASES else [], figures={})


def main(argv: list[str] | None = None) -> int:
    """Draw tables, release them, and print coverage and regret."""
    parser = arguments(__doc__.splitlines()[0])
    parts = (*KINDS, *CHOICES)
    parser.add_argument("--releases", type=int, default=500, help="releases in each cell of the law (default: 500)")
    parser.add_argument("--tables", type=int, default=120, help="tables for each automatic choice (default: 120)")
    parser.add_argument("--kinds", nargs="+", choices=parts, default=parts, help="parts to run (default: all)")
    parser.add_argument(
        "--cells", nargs="+", type=float, help="cells of the law to run, by their numbers (default: all)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one for each core")
    parser.add_argument("--resume", action="store_true", help="go on with what the file of results has")
    parser.add_argument("--results", type=Path, default=FILE, help=f"JSON lines (default: {FILE})")
    given = parser.parse_args(argv)
    releases, tables = (2, 1) if given.quick else (given.releases, given.tables)
    kinds = [(kind, float(cell)) for kind in KINDS if kind in given.kinds for cell in KINDS[kind][1]]
    kinds = [one for one in kinds if given.cells is None or one[1] in given.cells]
    picks = [(choice, 0.0) for choice in CHOICES if choice in given.kinds]
    for cells, count, report in ((kinds, releases, coverage_report), (picks, tables, regret_report)):
        if cells:
            run = Run(work=one_release, releases=count, seed=given.seed, processes=given.processes, file=given.results)
            publish(report(released(run, cells, resume=given.resume)), given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
