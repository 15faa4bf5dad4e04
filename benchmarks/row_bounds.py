"""How near a chosen bound on the rows of a unit comes to the best one: errors of counts of rows by group.

The error is the mean over groups and releases of the absolute difference between the released count and that of all
rows, those left out included. A fixed bound spends all of epsilon on the counts; ``auto`` spends a share on the choice.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Report, arguments, publish
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options.rows_per_unit import UnitRowCells, candidates_up_to
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.row_choice import choice_of, with_rows
from spark_jobs.diagnostics import rows_per_unit
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import UnitRowCounts

LIMIT = 200
GROUPS, EPSILONS = (1, 10, 200), ("0.1", "1")
UNITS = {"20,000 Zipf units": (20_000, 1.8), "2,000 Zipf units": (2000, 1.8), "5,000 units of one row": (5000, None)}


def rows_of(units: int, exponent: float | None, random: np.random.Generator) -> Int64Array:
    """The number of rows of each unit."""
    ones = np.ones(units, dtype=np.int64)
    return ones if exponent is None else np.minimum(random.zipf(exponent, units), LIMIT).astype(np.int64)


def exact_error(rows: Int64Array, bound: int, *, groups: int, epsilon: float) -> float:
    """The expected error of a group's count: lost rows, spread over the groups at random, and noise.

    In expectation over two-sided geometric noise of this scale, of ``|noise - lost|``.
    """
    lost, scale = float(np.maximum(rows - bound, 0).sum()) / groups, bound / epsilon
    return lost + scale * float(np.exp(-lost / scale))


def table_request(groups: int, epsilon: str) -> ReleaseRequest:
    """A table of counts by so many groups, whose bound is to be chosen."""
    entry = {"kind": "aggregates", "by": [{"column": "group", "values": list(range(groups)), "other": False}]}
    return ReleaseRequest.parse(
        {
            "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
            "unit": {"column": "person", "max_rows": LIMIT},
            "diagnostics": [{**entry, "max_rows": "auto"}],
            "budget": {"epsilon": epsilon},
        }
    )


def line_of(name: str, groups: int, epsilon: str, *, releases: int) -> list[str]:
    """A line of the table: the best fixed bound, the chosen ones, and two bounds that somebody may have guessed."""
    units, exponent = UNITS[name]
    wanted = table_request(groups, epsilon)
    choice = choice_of(wanted)
    options, cost = choice.diagnostics[0], float(choice.budget.epsilon)
    rest = float(with_rows(wanted, 1).budget.epsilon)
    design = UnitRowCells(largest=LIMIT)
    bounds, errors, fixed = [], [], dict.fromkeys(candidates_up_to(LIMIT), 0.0)
    for seed in range(releases):
        rows = rows_of(units, exponent, np.random.default_rng(seed))
        bound = rows_per_unit.release(
            UnitRowCounts.from_rows(rows, design=design),
            epsilon=cost,
            units_above=options.model_dump()["units_above"],
            noise=SeededNoise(seed),
        ).bound
        bounds.append(bound)
        errors.append(exact_error(rows, bound, groups=groups, epsilon=rest))
        for candidate in fixed:
            fixed[candidate] += exact_error(rows, candidate, groups=groups, epsilon=float(epsilon)) / releases
    best = min(fixed, key=lambda candidate: fixed[candidate])
    low, middle, high = np.quantile(bounds, [0.05, 0.5, 0.95], method="inverted_cdf").tolist()
    error = float(np.mean(errors))
    return [
        name, str(groups), epsilon, f"{best}", f"{fixed[best]:.3g}", f"{cost / float(epsilon):.2f}",
        f"{middle} ({low} to {high})", f"{error:.3g} ({error / fixed[best]:.2f})",
        *(f"{fixed[bound] / fixed[best]:.2f}" for bound in (1, LIMIT)),
    ]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Draw tables and choices, and print errors beside those of fixed bounds."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=400, help="of each row (default: 400)")
    given = parser.parse_args(argv)
    rows = [
        line_of(name, groups, epsilon, releases=3 if given.quick else given.releases)
        for name in UNITS
        for groups in GROUPS
        for epsilon in EPSILONS
    ]
    columns = (
        "units", "groups", "epsilon", "best bound", "its error", "share", "chosen (5% to 95%)", "error, over it",
        "bound 1, over it", f"bound {LIMIT}, over it",
    )  # fmt: skip
    return publish(Report(name="row_bounds", columns=columns, rows=rows, targets=[], figures={}), given.json)


if __name__ == "__main__":
    raise SystemExit(main())
