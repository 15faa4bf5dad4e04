"""What a paid look at points could bring to the choice of a method for lines: ``python -m benchmarks.paid_looks``.

A part of epsilon buys noisy sums that tell the shape of a table. A random forest, which was fitted to other tables of
the same law (``_choice_law``) with the same look, predicts the error of each method from these sums and the public
facts. The method with the smallest prediction gets the rest of epsilon. Its regret is the error that it then has, over
that of the best method with all of epsilon. The forest knows the law, as no rule of a program may, so a look can hardly
bring more than what it reaches.

The sums are those of ``a, b, a a, a b, b b, b b b`` with ``a = 2 x - 1`` and ``b = 2 y - 1`` over all rows, and the
number of rows with y at 0 or 1. Rows are replaced, so that the sums move by at most 14 in all.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from benchmarks._choice_law import DrawnPoints, drawn_points
from benchmarks.choices import Errors, errors_of_lines
from benchmarks.choices import share as shown_share
from benchmarks.harness import Report, arguments, progress, publish
from spark_jobs.arrays import FloatArray

RELATION = "replaced, public sizes"
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2)
MOVES = 14
FOLDS = 5


def look(table: DrawnPoints, share: float, random: np.random.Generator) -> FloatArray:
    """Noisy means of the look at a share of epsilon, and the public facts."""
    facts = [math.log(table.signal), math.log(table.epsilon), float(table.groups)]
    if not share:
        return np.array(facts)
    a, b = 2 * table.x - 1, 2 * table.y - 1
    sums = np.array([one.sum() for one in (a, b, a * a, a * b, b * b, b**3, np.abs(b) == 1)])
    noise = random.laplace(0, MOVES / (share * table.epsilon), sums.size)
    means = (sums + noise) / table.x.size
    x, y, xx, xy, yy, *_ = means
    across, along, up = xx - x * x, xy - x * y, yy - y * y
    return np.array([*facts, *means, across, along, up, along / max(across, 1e-3), up - along**2 / max(across, 1e-3)])


def regrets(
    tables: Sequence[DrawnPoints], full: Sequence[Errors], rest: Sequence[Errors], share: float, *, repeats: int
) -> FloatArray:
    """The regret of the choice after a look, on tables that the forest has not seen; shape (tables,)."""
    methods = [name for name in full[0] if name != "auto"]
    random = np.random.default_rng(7)
    features = np.array([[look(table, share, random) for _ in range(repeats)] for table in tables])
    logs = np.log([[max(errors[name], 1e-9) for name in methods] for errors in rest])
    best = np.array([min(errors[name] for name in methods) for errors in full])
    result = np.empty(len(tables))
    fold = np.arange(len(tables)) % FOLDS
    for out in range(FOLDS):
        forest = RandomForestRegressor(300, min_samples_leaf=2, random_state=1, n_jobs=1)
        relative = logs - logs.min(axis=1, keepdims=True)
        forest.fit(
            features[fold != out].reshape(-1, features.shape[2]), np.repeat(relative[fold != out], repeats, axis=0)
        )
        for place in np.flatnonzero(fold == out):
            choice = forest.predict(features[place]).argmin(axis=1)
            result[place] = np.exp(logs[place, choice]).mean() / best[place]
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print."""
    parser = arguments(str(__doc__).splitlines()[0])
    parser.add_argument("--tables", type=int, help="tables of the law (default: 400)")
    given = parser.parse_args(argv)
    count, releases = given.tables or (20 if given.quick else 400), 2 if given.quick else 4
    drawn = (drawn_points(np.random.default_rng(number)) for number in range(10 * count))
    tables = [table for table in drawn if table.outcome != "close to a line"][:count]
    errors: dict[float, list[Errors]] = {}
    for share in SHARES:
        errors[share] = []
        for number, table in enumerate(tables):
            if number % 50 == 0:
                progress(f"share {share}: table {number}")
            part = replace(table, epsilon=table.epsilon * (1 - share))
            errors[share].append(errors_of_lines(part, RELATION, releases=releases))
    full = errors[0.0]
    best = [min(value for name, value in one.items() if name != "auto") for one in full]
    regret_of = {"auto": np.array([one["auto"] / low for one, low in zip(full, best, strict=True)])}
    for share in SHARES:
        name = "forest on public facts alone" if not share else f"a look for {share:.0%} of epsilon"
        regret_of[name] = regrets(tables, full, errors[share], share, repeats=4)
    rows = [
        [
            name,
            f"{one.mean():.2f}",
            f"{np.exp(np.log(one).mean()):.2f}",
            f"{one.max():.2f}",
            shown_share(one <= 1.5),
        ]
        for name, one in regret_of.items()
    ]
    heads = ("choice", "mean regret", "geometric", "worst", "tables up to 1.5")
    title = f"paid looks: lines, {RELATION}, {count} tables without points close to a line"
    figures: dict[str, Any] = {name: one.tolist() for name, one in regret_of.items()}
    return publish(Report(name=title, columns=heads, rows=rows, targets=(), figures=figures), given.json)


if __name__ == "__main__":
    sys.exit(main())
