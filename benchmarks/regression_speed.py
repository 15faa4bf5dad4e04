"""The time of private lines on the driver, and the accuracy of noisy sums: ``python -m
benchmarks.regression_speed``.

Theil-Sen over all pairs of 2,000 rows and by 10 matchings of 1,000,000, each with the three private medians; and the
noisy sums of thousands of groups at once, and the lines and intervals made of them. Secure noise throughout. Cases run
by turns; medians and ranges. Then the error of heights by NoisyStats, with its budget split in two ways, and by one
release of moments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.driver_mechanisms import in_milliseconds
from benchmarks.harness import Report, Target, Timing, alternate, arguments, progress, publish
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.linear_regression.robust_intervals import robust_half_widths
from spark_jobs.diagnostics.linear_regression.shrinkage import shrunk_lines
from spark_jobs.mechanisms.noise import Cost, SecureNoise, SeededNoise
from spark_jobs.mechanisms.regression.moments import noisy_moments, noisy_moments_zcdp
from spark_jobs.mechanisms.regression.noisy_intercept import noisy_intercept
from spark_jobs.mechanisms.regression.sums import GroupSums
from spark_jobs.papers.regression.gradient_descent import gradient_descent
from spark_jobs.papers.regression.noisy_stats import noisy_stats, noisy_stats_zcdp
from spark_jobs.papers.regression.theil_sen import AT, Median, theil_sen

STEPS = 2048
"""Of the box: the middles of 1,024 cells."""
ROWS_A_GROUP = 30
NOISE = SecureNoise()
REPLACED = Neighbours.REPLACE_ONE
EQUAL: dict[Neighbours, tuple[Cost, ...]] = {
    Neighbours.ADD_REMOVE: ("0.25",) * 4,
    Neighbours.REPLACE_ONE: ("0.34", "0.33", "0.33"),
}
"""Of epsilon, as the paper shares it out."""


def points(rows: int, generator: np.random.Generator) -> tuple[Int64Array, Int64Array]:
    """Rows about a line, in the middles of cells."""
    x = generator.random(rows)
    y = np.clip(0.2 + 0.5 * x + 0.1 * generator.normal(size=rows), 0, 1)
    cells = (np.minimum(values * STEPS / 2, STEPS / 2 - 1).astype(np.int64) for values in (x, y))
    first, second = (2 * cell + 1 for cell in cells)
    return first, second


def pairs(generator: np.random.Generator, *, quick: bool) -> dict[str, Callable[[], object]]:
    """Theil-Sen, by number of rows and of matchings."""
    cases: dict[str, Callable[[], object]] = {}
    for rows, matchings in ((2000, None), (10_000 if quick else 1_000_000, 10)):
        x, y = points(rows, generator)
        for method in Median:
            name = f"{method}, {'all pairs' if matchings is None else f'{matchings} matchings'} of {rows:,} rows"
            options: dict[str, Any] = {"method": method, "matchings": matchings, "neighbours": REPLACED}
            cases[name] = lambda x=x, y=y, options=options: theil_sen(  # type: ignore[misc]
                x, y, steps=STEPS, epsilon="1", noise=NOISE, **options
            )
    return cases


def groups(generator: np.random.Generator, *, quick: bool) -> dict[str, Callable[[], object]]:
    """Noisy sums and gradients of many groups in one call."""
    count = 200 if quick else 10_000
    x, y = points(count * ROWS_A_GROUP, generator)
    where, ones = np.repeat(np.arange(count), ROWS_A_GROUP), np.ones(x.size, dtype=np.int64)
    sums = GroupSums.from_cells(where, x, y, ones, groups=count, steps=STEPS)
    options: dict[str, Any] = {"neighbours": Neighbours.ADD_REMOVE, "noise": NOISE}
    placed: dict[str, Any] = {"groups": count, "steps": STEPS}
    return {
        f"noisy_stats, {count:,} groups": lambda: noisy_stats(sums, epsilon="1", **options),
        f"noisy_stats_zcdp, {count:,} groups": lambda: noisy_stats_zcdp(sums, rho="0.5", **options),
        f"noisy_intercept, {count:,} groups": lambda: noisy_intercept(sums, epsilon="1", **options),
        f"noisy_moments, {count:,} groups": lambda: noisy_moments(sums, epsilon="1", **options).lines(),
        f"noisy_moments_zcdp, {count:,} groups": lambda: noisy_moments_zcdp(sums, rho="0.5", **options).lines(),
        f"gradient_descent, {count:,} groups": lambda: gradient_descent(
            where, x, y, ones, epsilon="1", **placed, **options
        ),
        f"sums of {x.size:,} places in {count:,} groups": lambda: GroupSums.from_cells(where, x, y, ones, **placed),
    }


def summaries(generator: np.random.Generator, *, quick: bool) -> dict[str, Callable[[], object]]:
    """The lines of 100,000 groups that borrow from one another, and their intervals at two places and the intercept."""
    count = 200 if quick else 100_000
    x, y = points(count * ROWS_A_GROUP, generator)
    where, ones = np.repeat(np.arange(count), ROWS_A_GROUP), np.ones(x.size, dtype=np.int64)
    sums = GroupSums.from_cells(where, x, y, ones, groups=count, steps=STEPS)
    moments = noisy_moments(sums, epsilon="1", neighbours=Neighbours.ADD_REMOVE, noise=NOISE)
    shrunk, places = shrunk_lines(moments), np.array([-0.5, 0.5, -1.0])
    return {
        f"shrunk lines, {count:,} groups": lambda: shrunk_lines(moments),
        f"their intervals, {count:,} groups": lambda: robust_half_widths(shrunk, places, 0.9),
    }


def errors(generator: np.random.Generator, *, quick: bool) -> list[tuple[str, str]]:
    """Median errors of the heights over x = 1/4 and 3/4 at epsilon 3, against least squares on the same rows."""
    count, texts = 100 if quick else 2000, []
    for rows, spread, description in ((100, 1.0, "uniform x"), (100, 0.35, "crowded x"), (1000, 0.35, "crowded x")):
        x = 0.5 + spread * (generator.random(count * rows) - 0.5)
        y = np.clip(0.25 + 0.4 * x + 0.15 * generator.normal(size=x.size), 0, 1)
        u, v = (np.rint(values * STEPS).astype(np.int64) for values in (x, y))
        where = np.repeat(np.arange(count), rows)
        sums = GroupSums.from_cells(where, u, v, np.ones_like(u), groups=count, steps=STEPS)
        noise = SeededNoise(1)
        exact = noisy_moments(sums, epsilon="1e12", neighbours=REPLACED, noise=noise).lines().predict(AT)
        for relation in Neighbours:
            options: dict[str, Any] = {"epsilon": "3", "neighbours": relation, "noise": noise}
            released = {
                "equal shares": noisy_stats(sums, shares=EQUAL[relation], **options),
                "noisy_stats": noisy_stats(sums, **options),
                "noisy_moments": noisy_moments(sums, **options).lines(),
            }
            medians = [f"{name} {median_error(lines.predict(AT) - exact)}" for name, lines in released.items()]
            texts.append((f"error, {count:,} groups of {rows:,} rows, {description}, {relation}", "; ".join(medians)))
    return texts


def median_error(differences: FloatArray) -> str:
    """The median absolute difference with its 95% confidence interval, by ranks."""
    ordered = np.sort(np.abs(differences).mean(axis=1))
    middle, reach = ordered.size / 2, 0.98 * ordered.size**0.5
    low, high = (float(ordered[int(middle + sign * reach)]) for sign in (-1, 1))
    return f"{float(np.median(ordered)):.4f} ({low:.4f}-{high:.4f})"


def targets_of(timings: dict[str, Timing]) -> list[Target]:
    """The figures with their targets."""
    aimed = {"all pairs of 2,000 rows": 1.0, "10 matchings of 1,000,000 rows": 2.0}
    return [
        Target(
            what=name,
            target=f"at most {seconds:.0f} s",
            outcome=in_milliseconds(timing),
            met=timing.median <= seconds,
        )
        for end, seconds in aimed.items()
        for name, timing in timings.items()
        if name.endswith(end)
    ]


def main() -> int:
    """Print the figures of docs/contributing/benchmarks/driver.md."""
    given = arguments(__doc__.splitlines()[0]).parse_args()
    generator = np.random.default_rng(0)
    progress("lines by turns")
    cases = [make(generator, quick=given.quick) for make in (pairs, groups, summaries)]
    timings = alternate({name: case for one in cases for name, case in one.items()}, warmups=1)
    progress("errors")
    report = Report(
        name="regression_speed",
        columns=("what", "measured"),
        rows=[(name, in_milliseconds(timing)) for name, timing in timings.items()]
        + errors(generator, quick=given.quick),
        targets=[] if given.quick else targets_of(timings),
        figures={name: timing.wall for name, timing in timings.items()},
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
