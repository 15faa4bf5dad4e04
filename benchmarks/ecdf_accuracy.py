"""How near private distribution functions come to the exact ones: ``python -m benchmarks.ecdf_accuracy [--quick]``.

Mean squared error of all prefix counts at epsilon 1, neighbours that replace a row, on lines of cells whose counts are
known: the variance that each method promises, and the errors of releases with seeded noise, before and after they are
made monotone within [0, n]. What smoothing gains depends on how many rows lie in a cell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from benchmarks.competitors.shared_node_smoothing import smooth_shared_nodes
from benchmarks.competitors.shared_nodes import levels_over, shared_node_prefixes
from benchmarks.competitors.square_root import square_root_prefixes
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.prefix_sums import monotone, noisy_tree
from spark_jobs.mechanisms.smoothing import smooth_2norm
from spark_jobs.mechanisms.trees import Tree, best_tree

REPLACED = Neighbours.REPLACE_ONE
RATES = {"0.03": 0.03, "1": 1.0, "100": 100.0}
"""Rows in a cell, on average."""
Release = Callable[[Int64Array, SeededNoise], tuple[FloatArray, FloatArray, FloatArray]]


def by_tree(tree: Tree) -> Release:
    """Prefix counts by a consistent tree, their variances, and the monotone line."""

    def release(counts: Int64Array, noise: SeededNoise) -> tuple[FloatArray, FloatArray, FloatArray]:
        released = noisy_tree(counts, tree=tree, epsilon=1, neighbours=REPLACED, noise=noise)
        prefix = released.prefix_counts()
        return prefix[1:], released.prefix_variances()[1:], monotone(prefix, upper=float(counts.sum()))[1:]

    return release


def by_shared_nodes(counts: Int64Array, noise: SeededNoise) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shared-node noise with the corrected weight, smoothed as the paper does."""
    released = shared_node_prefixes(counts, epsilon=1, neighbours=REPLACED, noise=noise, public_total=True)
    prefix = released.prefix_counts.astype(float)
    return prefix, released.variances(), smooth_shared_nodes(prefix, total=float(counts.sum()))


def by_square_root(counts: Int64Array, noise: SeededNoise) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The square root of summation at rho = 1/2: not the same guarantee as epsilon 1, which implies it."""
    released = square_root_prefixes(counts, rho="0.5", neighbours=REPLACED, noise=noise, public_total=True)
    prefix = released.prefix_counts()
    return prefix, released.variances(), smooth_2norm(prefix, total=float(counts.sum()))


def measured(release: Release, rate: float, *, cells: int, releases: int) -> tuple[float, FloatArray, FloatArray]:
    """The promised mean variance, and each release's mean squared error before and after smoothing."""
    counts = np.random.default_rng(cells).poisson(rate, cells)
    exact, noise, errors = np.cumsum(counts), SeededNoise(int(100 * rate)), []
    for _ in range(releases):
        prefix, variances, rising = release(counts, noise)
        errors.append([((prefix - exact) ** 2).mean(), ((rising - exact) ** 2).mean()])
    before, after = np.array(errors).T
    return float(variances.mean()), before, after


def summary(errors: FloatArray) -> str:
    """A mean and its 95% confidence interval."""
    return f"{errors.mean():,.1f} ± {1.96 * errors.std(ddof=1) / np.sqrt(errors.size):,.1f}"


def main(argv: list[str] | None = None) -> int:
    """Release many times and print the table."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    cells, releases = (1 << 10, 5) if given.quick else (1 << 15, 200)
    best = best_tree(cells, public_total=True)
    methods: dict[str, Release] = {
        f"consistent tree, branching {best.branching}": by_tree(best),
        "consistent tree, branching 16": by_tree(Tree(cells=cells, branching=16, root="public")),
        "shared nodes, weight L": by_shared_nodes,
        "square root, rho 1/2 (weaker guarantee)": by_square_root,
    }
    levels = levels_over(cells)
    paper = 2 * (levels + 1) ** 3
    rows = [["shared nodes, theorem 1", "any", f"{paper:,}", "", ""]]
    targets: list[Target] = []
    figures: dict[str, object] = {"paper": paper}
    for name, release in methods.items():
        for rate_name, rate in RATES.items():
            progress(f"{name}, {rate_name} rows in a cell")
            promised, before, after = measured(release, rate, cells=cells, releases=releases)
            rows.append([name, rate_name, f"{promised:,.1f}", summary(before), summary(after)])
            figures[f"{name} {rate_name}"] = [promised, float(before.mean()), float(after.mean())]
            if name == f"consistent tree, branching {best.branching}":
                targets.append(
                    Target(
                        what=f"mean squared error x epsilon^2, {rate_name} rows in a cell",
                        target="<= 1,000 (paper 8,192)",
                        outcome=f"promised {promised:,.1f} on any counts; measured {summary(before)}, "
                        f"made monotone {summary(after)}",
                        met=float(after.mean()) <= 1000,
                    )
                )
    heads = ("method", "rows in a cell", "promised", "measured", "made monotone")
    report = Report(
        name=f"ecdf_accuracy: {cells} cells, {releases} releases",
        columns=heads,
        rows=rows,
        targets=[] if given.quick else targets,
        figures=figures,
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
