"""Counts and means by group beside other libraries: ``python -m benchmarks.peer_tables [--quick] [--cache FOLDER]``.

All releases are of the same rows at epsilon 1, without delta, for one row added or removed; values are in [-1, 1].

* a mean by group, alone: root mean squared error of a group's mean, over so many releases and groups that the ratio of
  two libraries' is known to a few percent (Laplace noise has a heavy tail);
* a count and three means by group: the same error, as four queries with a quarter of epsilon each, and from one count
  and three sums with a quarter each, where a library can share the count;
* counts of rows where a unit has several, with a tail as Zipf's law has it: mean absolute error of a group's count,
  bias included. Here a unit keeps ``max_rows`` rows in all; a library that bounds groups and rows in each group is run
  at several bounds. Either has the bound that is best on these very rows.

Every library is installed from the index into an environment of its own; one that cannot be is left out, which is said.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from benchmarks._shown import noise_of
from benchmarks.harness import Report, Target, arguments, publish
from benchmarks.peers import OURS, PACKAGES, figures_of
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.diagnostics import aggregates
from spark_jobs.statistics import AggregateSums

GROUPS, ROWS_OF_GROUP, COLUMNS, EPSILON = 20, 500, 3, 1.0
MEAN_GROUPS, MEAN_RELEASES, OWN_RELEASES = 200, 16, 10
"""Groups of the table whose mean alone is released, releases of other libraries, and ours for each of theirs."""
UNITS = 3_000
BOUNDS = ((1, 1), (2, 2), (5, 2), (5, 5), (10, 2), (10, 5), (20, 10))
"""Groups of a unit, and its rows in each, at which other libraries are run."""
MAX_ROWS = (1, 2, 5, 10, 20, 50, 100)
SCRIPT = "_peer_groups.py"


def rows_by_group(
    random: np.random.Generator, rows: int, *, groups: int = GROUPS, columns: int = COLUMNS
) -> tuple[Int64Array, FloatArray]:
    """The group of every row, and its values; shapes (n,) and (columns, n)."""
    group = np.repeat(np.arange(groups), rows)
    centres = random.uniform(-0.6, 0.6, (columns, groups))
    return group, np.clip(centres[:, group] + random.normal(0, 0.3, (columns, group.size)), -1, 1)


def ours_of(group: Int64Array, values: FloatArray, random: np.random.Generator) -> list[FloatArray]:
    """The count and the means of one release; shapes (groups,)."""
    columns = {"g": group, **{f"v{place}": one for place, one in enumerate(values)}}
    sums = AggregateSums.from_arrays(
        columns,
        by=[{"column": "g", "values": list(range(int(group.max()) + 1)), "other": False}],
        measures=[{"of": f"v{place}", "bounds": [-1, 1], "figures": ["mean"]} for place in range(len(values))],
    )
    table = aggregates.release(sums, epsilon=EPSILON, noise=noise_of(random))
    return [table.count.value, *(table.of("mean", f"v{place}").values.value for place in range(len(values)))]


def ratio_of(errors: ArrayLike, others: ArrayLike) -> tuple[float, float]:
    """The ratio of the root mean squares of other errors and of errors, and its standard error."""
    squares = [np.asarray(one, dtype=np.float64).ravel() ** 2 for one in (others, errors)]
    relative = [float(one.std(ddof=1) / np.sqrt(one.size) / one.mean()) for one in squares]
    ratio = float(np.sqrt(squares[0].mean() / squares[1].mean()))
    return ratio, ratio * float(np.hypot(*relative)) / 2


def of_a_mean(rows: int, groups: int, releases: int, folder: Path) -> dict[str, FloatArray]:
    """The errors of every library's means of one column; shapes (releases, groups), with more of our releases."""
    random = np.random.default_rng(22)
    group, values = rows_by_group(random, rows, groups=groups, columns=1)
    exact = values[0].reshape(groups, rows).mean(axis=1)
    table = {
        "group": group.tolist(), "groups": groups, "values": values.tolist(), "epsilon": EPSILON, "releases": releases,
        "figures": ["mean"],
    }  # fmt: skip
    errors = {OURS: np.array([ours_of(group, values, random)[1] for _ in range(OWN_RELEASES * releases)]) - exact}
    for library in ("tumult", "pipeline_dp"):
        figures = figures_of(library, [table], folder, script=SCRIPT)
        if figures is not None:
            errors[library] = np.asarray(figures[0]["mean"], dtype=np.float64) - exact
    return errors


def error_of(released: Sequence[Any], exact: FloatArray) -> float:
    """The root mean squared error over releases, figures and groups."""
    return float(np.sqrt(np.mean((np.asarray(released, dtype=np.float64) - exact) ** 2)))


def means_of(shared: Sequence[Any]) -> list[FloatArray]:
    """The means of releases of a count and sums, clipped to their range."""
    arrays = [np.asarray(one, dtype=np.float64) for one in shared]
    return [np.clip(one[1:] / np.maximum(one[0], 1), -1, 1) for one in arrays]


def of_means(rows: int, releases: int, folder: Path) -> dict[str, dict[str, float]]:
    """The errors of every library's means beside a count, for queries apart and with a shared count."""
    random = np.random.default_rng(20)
    group, values = rows_by_group(random, rows)
    exact = np.array([[one[group == place].mean() for place in range(GROUPS)] for one in values])
    table = {
        "group": group.tolist(), "groups": GROUPS, "values": values.tolist(), "epsilon": EPSILON, "releases": releases,
        "figures": ["apart", "shared"],
    }  # fmt: skip
    together = error_of([ours_of(group, values, random)[1:] for _ in range(releases)], exact)
    errors = {OURS: {"apart": together, "shared": together}}
    for library in ("tumult", "pipeline_dp"):
        figures = figures_of(library, [table], folder, script=SCRIPT)
        if figures is not None:
            errors[library] = _errors(figures[0], exact)
    return errors


def _errors(figures: Mapping[str, Sequence[Any]], exact: FloatArray) -> dict[str, float]:
    errors = {"apart": error_of([one[1:] for one in figures["apart"]], exact)}
    return errors | ({"shared": error_of(means_of(figures["shared"]), exact)} if "shared" in figures else {})


def zipf_rows(random: np.random.Generator, units: int) -> tuple[Int64Array, Int64Array]:
    """The unit and the group of every row; a unit has rows as Zipf's law says, at most 200."""
    sizes = np.minimum(random.zipf(1.8, units), 200)
    popular = 1 / np.arange(1, GROUPS + 1)
    unit = np.repeat(np.arange(units), sizes)
    return unit, random.choice(GROUPS, unit.size, p=popular / popular.sum())


def bounded(unit: Int64Array, max_rows: int, random: np.random.Generator) -> Int64Array:
    """Places of the rows that are kept: at most ``max_rows`` of a unit, at random."""
    order = random.permutation(unit.size)
    order = order[np.argsort(unit[order], kind="stable")]
    first = np.r_[0, np.flatnonzero(np.diff(unit[order])) + 1]
    sizes = np.diff(np.r_[first, order.size])
    place = np.arange(order.size) - np.repeat(first, sizes)
    return order[place < max_rows]


def of_units(units: int, releases: int, folder: Path) -> tuple[list[list[str]], float | None]:
    """Rows of the report, and our error over that of the library that bounds groups and rows in each."""
    random = np.random.default_rng(21)
    unit, group = zipf_rows(random, units)
    exact = np.bincount(group, minlength=GROUPS)

    def ours(max_rows: int) -> float:
        errors = []
        for _ in range(releases):
            kept = group[bounded(unit, max_rows, random)]
            sums = AggregateSums.from_arrays(
                {"g": kept}, by=[{"column": "g", "values": list(range(GROUPS)), "other": False}]
            )
            table = aggregates.release(sums, epsilon=EPSILON / max_rows, noise=noise_of(random))
            errors.append(np.abs(table.count.value - exact).mean())
        return float(np.mean(errors))

    best, bound = min((ours(one), one) for one in MAX_ROWS)
    rows = [[OURS, f"{bound} rows", f"{best:.1f}"]]
    tables = [
        {
            "group": group.tolist(), "groups": GROUPS, "values": [[0.0] * group.size], "epsilon": EPSILON,
            "releases": releases, "unit": unit.tolist(), "max_groups": k, "max_rows": r,
        }
        for k, r in BOUNDS
    ]  # fmt: skip
    figures = figures_of("pipeline_dp", tables, folder, script=SCRIPT)
    if figures is None:
        return rows, None
    errors = [float(np.abs(np.asarray(one["units"]) - exact).mean()) for one in figures]
    nearest = int(np.argmin(errors))
    k, r = BOUNDS[nearest]
    rows.append(["pipeline_dp", f"{k} groups, {r} rows in each", f"{errors[nearest]:.1f}"])
    return rows, best / errors[nearest]


def reports(
    rows: int, units: int, releases: int, folder: Path, *, of_mean: tuple[int, int], with_targets: bool
) -> tuple[Report, Report]:
    """The errors of means, ``of_mean`` the groups and releases of one alone, and of counts of units with rows."""
    errors, alone = of_means(rows, releases, folder), of_a_mean(rows, *of_mean, folder)
    for library in errors:
        errors[library]["mean"] = float(np.sqrt(np.mean(alone[library] ** 2)))
    of_report = [
        [library, *(f"{1000 * one[name]:.2f}" if name in one else "" for name in ("mean", "apart", "shared"))]
        for library, one in errors.items()
    ]
    targets = []
    if with_targets and "tumult" in alone:
        ratio, error = ratio_of(alone[OURS], alone["tumult"])
        targets.append(
            Target(
                what="a mean by group, of Tumult over ours", target="at least 1.4x",
                outcome=f"{ratio:.2f}x ± {error:.2f}", met=ratio >= 1.4,
            )
        )  # fmt: skip
    for library, name, what, aim in (
        ("tumult", "apart", "a count and three means, apart, of Tumult over ours", 2.5),
        ("tumult", "shared", "a count and three means, with a shared count, of Tumult over ours", 1.7),
    ):
        if with_targets and library in errors:
            ratio = errors[library][name] / errors[OURS][name]
            targets.append(Target(what=what, target=f"at least {aim}x", outcome=f"{ratio:.2f}x", met=ratio >= aim))
    means = Report(
        name=f"peer_tables: root mean squared errors of means by group, in thousandths of half the range, of {GROUPS} "
        f"groups of {rows} rows, {releases} releases",
        columns=("library", "a mean", "a count and three means, apart", "with a shared count"),
        rows=of_report, targets=targets, figures={"errors": errors, "versions": PACKAGES},
    )  # fmt: skip
    of_counts, ratio_of_counts = of_units(units, releases, folder)
    aimed = [] if ratio_of_counts is None or not with_targets else [
        Target(
            what="counts of rows of Zipf units, ours over PipelineDP", target="at most 0.7x",
            outcome=f"{ratio_of_counts:.2f}x", met=ratio_of_counts <= 0.7,
        )
    ]  # fmt: skip
    counts = Report(
        name=f"peer_tables: mean absolute errors of counts of rows by group, of {units} units with rows by Zipf's law",
        columns=("library", "its best bound", "error"), rows=of_counts, targets=aimed, figures={},
    )  # fmt: skip
    return means, counts


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=12, help="of each table (default: 12)")
    parser.add_argument("--cache", type=Path, default=Path("build/peers"), help="where environments are kept")
    given = parser.parse_args(argv)
    rows, units, releases = (50, 200, 2) if given.quick else (ROWS_OF_GROUP, UNITS, given.releases)
    of_mean = (GROUPS, 2) if given.quick else (MEAN_GROUPS, MEAN_RELEASES)
    both = reports(rows, units, releases, given.cache.absolute(), of_mean=of_mean, with_targets=not given.quick)
    return max(publish(one, given.json) for one in both)


if __name__ == "__main__":
    sys.exit(main())
