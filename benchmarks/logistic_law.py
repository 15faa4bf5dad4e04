"""Private logistic fits on tables that a law draws: ``python -m benchmarks.logistic_law [--quick]``.

The law. Rows: 2,000 to 30,000, log-uniform. Numbers: 1 to 8, by correlated normals that are clipped, exponentiated,
cut in two, or rounded; up to 2 columns of 2 to 5 levels. Positives: 3% to 50%, log-uniform. The linear predictor has a
standard deviation of 0.2 to 2.2 and normal effects. A table whose maximum likelihood fit does not exist, or whose
standard errors exceed 3 over the range of a column, is drawn again.

*Held* is the share of slopes whose 90% interval holds the maximum likelihood fit of the same rows (noise) or the law's
own coefficient (population), over releases with status ``ok``, with a 99% interval. *Regret* is the mean loss of a row
beyond the maximum likelihood fit's; beside it that of the polynomial alone, which costs the same, and the share of
releases that are no worse.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import statsmodels.api as sm
from scipy.optimize import brentq
from scipy.special import expit

from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics import logistic_fit
from spark_jobs.diagnostics._fits import intervals
from spark_jobs.diagnostics.logistic_fit import passes
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics.cross_products import LATTICE, CrossProductCells, CrossProducts
from spark_jobs.statistics.labelled_rows import Bounded, LabelledRowCells, LabelledRows, Levels

EPSILONS = (0.5, 2.0, 10.0, 100.0, 1e6)
LARGEST_ERROR = 3.0


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the law, its coefficients, and the maximum likelihood fit of its rows, intercepts first.

    ``labels`` are the outcomes of a table for linear fits, which ``likeliest`` fits by least squares; ``explained`` is
    the part of their variance in the population that its model explains, if rows of the population were drawn.
    """

    rows: LabelledRows | CrossProducts
    matrix: FloatArray
    labels: FloatArray
    truth: FloatArray
    likeliest: FloatArray
    errors: FloatArray
    explained: float = math.nan

    def loss(self, coefficients: FloatArray) -> float:
        """The mean log loss of a row, beyond that of the maximum likelihood fit."""
        lines = (self.matrix @ item for item in (coefficients, self.likeliest))
        first, second = (float((np.logaddexp(0.0, line) - self.labels * line).mean()) for line in lines)
        return first - second


def drawn_table(seed: int) -> Table:
    """The table of this seed."""
    for attempt in range(100):
        table = _attempt(np.random.default_rng([seed, attempt]))
        if table is not None:
            return table
    raise RuntimeError("the law gives no table")


def _design(
    random: np.random.Generator, *, others: int = 0
) -> tuple[dict[str, FloatArray], FloatArray, tuple[Any, ...], FloatArray]:
    """Columns of the law; with a column of ones first, as a matrix; their bounds and levels; and slopes for them.

    The last ``others`` rows are further ones of the population.
    """
    count = int(np.exp(random.uniform(np.log(2000), np.log(30_000)))) + others
    numbers, factors = int(random.integers(1, 9)), [int(k) for k in random.integers(2, 6, random.integers(0, 3))]
    mixing = np.eye(numbers) + random.normal(size=(numbers, numbers)) * random.uniform()
    normal = random.normal(size=(count, numbers)) @ mixing.T
    columns: dict[str, FloatArray] = {}
    for place, values in enumerate((normal / normal.std(axis=0)).T):
        shapes = (
            values / random.uniform(2, 4),
            2 * np.exp(values) / random.uniform(6, 20) - 1,
            np.where(values > random.uniform(-1, 1.5), 1.0, -1.0),
            np.round(values) / 3,
        )
        # on the lattice, so that rounding is no error of the fit
        columns[f"x{place}"] = np.round(np.clip(shapes[random.integers(4)], -1, 1) * LATTICE) / LATTICE
    features = tuple(Bounded(name=name, lower=-1, upper=1) for name in columns)
    parts, categorical = [np.ones(count), *columns.values()], []
    for place, levels in enumerate(factors):
        column = random.choice(levels, count, p=random.dirichlet(2 * np.ones(levels)))
        columns[f"k{place}"] = column
        categorical.append(Levels(column=f"k{place}", levels=tuple(map(str, range(levels)))))
        parts += [(column == level).astype(float) for level in range(1, levels)]
    matrix = np.stack(parts, axis=1)
    slopes = random.normal(size=matrix.shape[1] - 1) / np.maximum(matrix[:, 1:].std(axis=0), 0.05)
    slopes *= random.uniform(0.2, 2.2) / max((matrix[:, 1:] @ slopes).std(), 1e-9)
    return columns, matrix, (features, tuple(categorical)), slopes


def _attempt(random: np.random.Generator) -> Table | None:
    columns, matrix, (features, categorical), slopes = _design(random)
    line, rate = matrix[:, 1:] @ slopes, np.exp(random.uniform(np.log(0.03), np.log(0.5)))
    start = brentq(lambda level: expit(line + level).mean() - rate, -60, 60)
    labels = (random.random(line.size) < expit(line + start)).astype(float)
    try:
        fit = sm.Logit(labels, matrix).fit(disp=0, maxiter=60, warn_convergence=False)
    except Exception:
        return None
    if not np.isfinite(fit.bse).all() or fit.bse.max() > LARGEST_ERROR or not fit.mle_retvals["converged"]:
        return None
    design = LabelledRowCells(features=features, categorical=categorical)
    return Table(
        rows=LabelledRows.from_arrays(columns, labels, design=design),
        matrix=matrix,
        labels=labels,
        truth=np.array([start, *slopes]),
        likeliest=fit.params,
        errors=fit.bse,
    )


def drawn_linear(random: np.random.Generator, *, others: int = 0) -> Table:
    """A table with the same columns whose outcome is linear in them, and lies in bounds that it fills by 20 to 80%.

    Errors have a standard deviation of 1; they are normal, skewed (gamma) or heavy-tailed (Student's t, 5 degrees).
    ``others`` are further rows of the population, by which its explained variance is known.
    """
    columns, matrix, (features, categorical), slopes = _design(random, others=others)
    variance = float((matrix[:, 1:] @ slopes).var())
    matrix = matrix[: len(matrix) - others]
    columns = {name: values[: len(matrix)] for name, values in columns.items()}
    shape, rows = random.choice(["normal", "skewed", "t"]), len(matrix)
    errors = {
        "skewed": lambda: random.gamma(2.0, size=rows) / np.sqrt(2) - np.sqrt(2),
        "t": lambda: random.standard_t(5, rows) / np.sqrt(5 / 3),
    }.get(str(shape), lambda: random.standard_normal(rows))()
    start = random.normal()
    outcome = start + matrix[:, 1:] @ slopes + errors
    low, high = float(outcome.min()), float(outcome.max())
    middle, reach = (low + high) / 2, (high - low) / (2 * random.uniform(0.2, 0.8))
    bounds = Bounded(name="y", lower=round(middle - reach, 2), upper=round(middle + reach, 2))
    design = CrossProductCells(features=features, categorical=categorical, outcome=bounds)
    fit = sm.OLS(outcome, matrix).fit()
    return Table(
        rows=CrossProducts.from_arrays(columns, outcome, design=design),
        matrix=matrix,
        labels=outcome,
        truth=np.array([start, *slopes]),
        likeliest=fit.params,
        errors=fit.bse,
        explained=variance / (variance + 1) if others else math.nan,
    )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one release came to.

    Attributes:
        ok: whether its status is ``ok``.
        used: passes.
        loss, polynomial: mean loss of a row beyond the best; of the release, and of the polynomial alone.
        noise, population: the share of slopes in their intervals.
        far: the largest error of a coefficient, relative to its size or standard error.
    """

    ok: bool
    used: int
    loss: float
    polynomial: float
    noise: float
    population: float
    far: float


def one_release(table: Table, epsilon: float, seed: int) -> Outcome:
    """A release of this table, against the polynomial alone."""
    draw = logistic_fit.measure(table.rows, epsilon=epsilon, noise=SeededNoise(seed))
    released = logistic_fit.summarise(draw, seed=seed)
    with patch.object(passes, "MIN_SIGNAL", math.inf), patch.object(intervals, "COPIES", 100):
        start = logistic_fit.measure(table.rows, epsilon=epsilon, noise=SeededNoise(seed))
        polynomial = logistic_fit.summarise(start, seed=seed)
    noise, population = (
        float(((low <= aim) & (aim <= high))[1:].mean())
        for low, high, aim in (
            (*released.coefficients.ends(), table.likeliest),
            (*released.coefficients.ends("population"), table.truth),
        )
    )
    away = np.abs(released.coefficients.value - table.likeliest) / np.maximum(np.abs(table.likeliest), table.errors)
    return Outcome(
        ok=released.status == "ok",
        used=len(draw.passes),
        loss=table.loss(released.coefficients.value),
        polynomial=table.loss(polynomial.coefficients.value),
        noise=noise,
        population=population,
        far=float(away.max()),
    )


def one_cell(epsilon: float, outcomes: list[Outcome]) -> tuple[list[str], dict[str, float]]:
    """A row of the table, and the figures behind it."""
    ok = [item for item in outcomes if item.ok]
    shares = {kind: np.array([getattr(item, kind) for item in ok]) for kind in ("noise", "population")}
    widths = {kind: 2.576 * values.std() / math.sqrt(max(len(values), 1)) for kind, values in shares.items()}
    own, other = (np.array([getattr(item, name) for item in outcomes]) for name in ("loss", "polynomial"))
    figures = {kind: float(values.mean()) for kind, values in shares.items()}
    figures |= {f"{kind} width": float(width) for kind, width in widths.items()}
    figures |= {"regret": float(own.mean() / other.mean()), "far": float(np.quantile([e.far for e in outcomes], 0.99))}
    row = [
        f"{epsilon:g}", f"{len(ok)} of {len(outcomes)}", f"{np.mean([item.used for item in outcomes]):.1f}",
        *(f"{figures[kind]:.3f} ± {widths[kind]:.3f}" for kind in shares),
        f"{own.mean():.5f}", f"{other.mean():.5f}", f"{np.mean(own <= 1.02 * other):.0%}",
    ]  # fmt: skip
    return row, figures


def main(argv: list[str] | None = None) -> int:
    """Run every cell and print the table."""
    given = arguments((__doc__ or "").splitlines()[0]).parse_args(argv)
    rows, targets = [], []
    outcomes: dict[float, list[Outcome]] = {epsilon: [] for epsilon in EPSILONS}
    for seed in range(40 if given.quick else 500):
        table = drawn_table(seed)
        for epsilon, releases in outcomes.items():
            releases.append(one_release(table, epsilon, seed))
        if seed % 50 == 0:
            progress(f"table {seed}")
    for epsilon, releases in outcomes.items():
        row, figures = one_cell(epsilon, releases)
        rows.append(row)
        targets += [
            Target(
                what=f"epsilon {epsilon:g}, population intervals",
                target="0.88 to 0.95",
                outcome=row[4],
                met=figures["population"] + figures["population width"] >= 0.88
                and figures["population"] - figures["population width"] <= 0.95,
            ),
            Target(
                what=f"epsilon {epsilon:g}, mean regret",
                target="at most that of the polynomial",
                outcome=f"{figures['regret']:.2f} of it",
                met=figures["regret"] <= 1.0,
            ),
        ]
    targets.append(
        Target(
            what="epsilon 1e+06, worst coefficient, 99% of tables",
            target="within 1%",
            outcome=f"{figures['far']:.2%}",
            met=figures["far"] <= 0.01,
        )
    )
    heads = [
        "epsilon", "ok", "passes", "held: noise", "held: population", "regret", "polynomial's", "no worse",
    ]  # fmt: skip
    report = Report(name="logistic_law", columns=heads, rows=rows, targets=targets, figures={"law": rows})
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
