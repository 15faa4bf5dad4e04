"""Coverage of intervals for a population of units with several rows each: ``python -m benchmarks.units``.

Units have 3, 10 or 1 to 10 rows whose labels and scores are alike, half alike or not alike; there are 300 to 5,000 of
them. Each release is of new units. What is true of the population is computed by NumPy and scikit-learn from the raw
rows of 300,000 units. ``--areas`` measures ROC curves too, which take longer. Beside each coverage stands the mean
width over that of the intervals that allow for the most that units of so many rows can vary. ``--tests`` measures how
often tests alarm instead, where groups or two models are equally good.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks._unit_alarms import CASES, alarms
from benchmarks._unit_law import RATES, Rows
from benchmarks.harness import Report, Target, arguments, progress, publish

LAWS, ROWS, UNITS, EPSILONS = (
    ("alike", "half", "not alike"),
    ("3", "10", "1 to 10"),
    (300, 1000, 5000),
    ("0.5", "1", "5"),
)
TRUTH_FROM = 300_000
WIDTHS_FROM = 30
"""Releases of a cell whose width is compared; it varies little."""
LOWEST, HIGHEST = 0.88, 0.95


def cells(
    releases: int, *, areas: bool, epsilons: Sequence[str] = EPSILONS
) -> Iterator[tuple[str, dict[str, list[bool]], dict[str, list[float]]]]:
    """For each cell of the law, whether each interval holds, and its width over that of the largest possible one."""
    for law in LAWS:
        for rows in ROWS:
            truth = Rows.drawn(np.random.default_rng(1), law=law, rows=rows, units=TRUTH_FROM).exact()
            for units in UNITS:
                for epsilon in epsilons:
                    name = f"{law}, {rows} rows, {units:,} units, epsilon {epsilon}"
                    progress(name)
                    random = np.random.default_rng(units + len(law) + len(rows))
                    covered: dict[str, list[bool]] = defaultdict(list)
                    wide: dict[str, list[float]] = defaultdict(list)
                    for seed in range(releases):
                        table = Rows.drawn(random, law=law, rows=rows, units=units)
                        few = seed < WIDTHS_FROM
                        bound = table.released(epsilon, seed, areas=areas, share="0") if few else {}
                        for figure, (low, high) in table.released(epsilon, seed, areas=areas).items():
                            covered[figure].append(low <= truth[figure] <= high)
                            if figure in bound and bound[figure][1] > bound[figure][0]:
                                wide[figure].append((high - low) / (bound[figure][1] - bound[figure][0]))
                    yield name, covered, wide


def main(argv: list[str] | None = None) -> int:
    """Draw tables, and print coverage."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=300, help="of each cell (default: 300)")
    parser.add_argument("--areas", action="store_true", help="areas under ROC curves, too")
    parser.add_argument("--epsilon", nargs="+", default=EPSILONS, choices=EPSILONS, help="some of the epsilons")
    parser.add_argument("--tests", action="store_true", help="tests of equal groups and of equal areas, instead")
    given = parser.parse_args(argv)
    if given.tests:
        return publish(of_tests(2 if given.quick else given.releases), given.json)
    rows, of_laws = [], defaultdict(list)
    figures = (*RATES, *(["auc"] if given.areas else []))
    many = 1 if given.quick else given.releases
    for name, covered, wide in cells(many, areas=given.areas, epsilons=given.epsilon):
        shown = (f"{np.mean(covered[f]):.3f} ({np.mean(wide[f]):.2f})" if covered[f] else "undefined" for f in figures)
        rows.append([name, *shown])
        of_laws[", ".join(name.split(", ")[:2])] += [bool(one) for f in figures for one in covered[f]]
    targets = [
        Target(
            what=f"all figures, {name}",
            target=f"{LOWEST:.2f} to {HIGHEST:.2f} in the mean",
            outcome=f"{np.mean(covered):.3f} of {len(covered):,}",
            met=LOWEST <= float(np.mean(covered)) <= HIGHEST,
        )
        for name, covered in of_laws.items()
    ]
    report = Report(
        name="units",
        columns=("cell of the law", *figures),
        rows=rows,
        targets=[] if given.quick else targets,
        figures={},
    )
    return publish(report, given.json)


def of_tests(releases: int) -> Report:
    """How often tests alarm where nothing differs; in brackets with what is measured left out."""
    rows, every = [], {}
    for law, of_unit in CASES:
        progress(f"{law}, {of_unit} rows")
        measured, largest = (alarms(law, of_unit, releases, share=share) for share in (None, "0"))
        every[f"{law}, {of_unit} rows"] = measured
        rows.append([f"{law}, {of_unit} rows", *(f"{measured[name]:.3f} ({largest[name]:.3f})" for name in measured)])
    targets = [
        Target(
            what=f"all tests, {name}",
            target="3 to 7% in the mean",
            outcome=f"{np.mean(list(of.values())):.1%}",
            met=0.03 <= float(np.mean(list(of.values()))) <= 0.07,
        )
        for name, of in every.items()
    ]
    columns = ("cell of the law", *every[f"{CASES[0][0]}, {CASES[0][1]} rows"])
    return Report(name="unit_tests", columns=columns, rows=rows, targets=targets, figures={})


if __name__ == "__main__":
    sys.exit(main())
