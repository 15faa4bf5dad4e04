"""What privacy costs a fitted model: ``python -m benchmarks.private_fits [--quick]``.

Logistic fits by their area under the ROC curve, against scikit-learn's plain logistic regression on the same features,
and by their log loss; linear fits by the share of variance explained, against ordinary least squares, and by the error
of coefficients over their ranges. Seeded noise; each figure is of the rows that the model was fitted to, so that
only privacy makes the difference.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks._scored_tables import FOLDER
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.results.fits import PrivateFit
from spark_jobs.diagnostics import linear_fit, logistic_fit
from spark_jobs.diagnostics._fits.solving import solve
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics.cross_products import LATTICE, Bounded, CrossProductCells, CrossProducts, Levels
from spark_jobs.statistics.labelled_rows import LabelledRowCells, LabelledRows

EPSILONS = (0.1, 0.5, 1.0, 5.0)
DELTA = "1e-6"
SMALL = 5000
Ranges = Mapping[str, tuple[float, float]]
Kinds = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A table and a fit to it: rows, public bounds, public levels, and the outcome's bounds (None if it is 0 or 1)."""

    table: pd.DataFrame
    ranges: Ranges
    levels: Kinds
    outcome: FloatArray
    bounds: tuple[float, float] | None = None

    def part(self, rows: int) -> Task:
        """A random sample of rows, by a fixed seed."""
        selected = np.random.default_rng(1).permutation(len(self.table))[:rows]
        return Task(
            table=self.table.iloc[selected],
            ranges=self.ranges,
            levels=self.levels,
            outcome=self.outcome[selected],
            bounds=self.bounds,
        )

    def statistic(self) -> Any:
        """The exact sums, or the rows with their labels."""
        features = tuple(Bounded(name=name, lower=low, upper=high) for name, (low, high) in self.ranges.items())
        categorical = tuple(Levels(column=name, levels=levels) for name, levels in self.levels.items())
        columns = {name: self.table[name].to_numpy() for name in (*self.ranges, *self.levels)}
        if self.bounds is None:
            rows = LabelledRowCells(features=features, categorical=categorical)
            return LabelledRows.from_arrays(columns, self.outcome, design=rows)
        outcome = Bounded(name="outcome", lower=self.bounds[0], upper=self.bounds[1])
        design = CrossProductCells(features=features, categorical=categorical, outcome=outcome)
        return CrossProducts.from_arrays(columns, self.outcome, design=design)

    def matrix(self) -> FloatArray:
        """The clipped features as the model takes them, a column of ones first."""
        numbers = [self.table[name].to_numpy(float).clip(*bounds) for name, bounds in self.ranges.items()]
        levels = [
            (self.table[name].astype(str) == level).to_numpy(float)
            for name, known in self.levels.items()
            for level in known[1:]
        ]
        return np.stack([np.ones(len(self.table)), *numbers, *levels], axis=1)


def logistic_tasks() -> dict[str, Task]:
    """Who was persuaded, who earns much, who comes back."""
    makers = {"bank": _bank, "Adult": _adult, "diabetes": _diabetes, "diabetes, soon": _diabetes_soon}
    return {name: task for name, make in makers.items() if (task := make()) is not None}


def _read(file: str, **options: object) -> pd.DataFrame | None:
    if (FOLDER / file).is_file():
        return pd.read_csv(FOLDER / file, **options)
    progress(f"SKIPPED: {file} is not beside the repository; its rows are missing from the tables below")
    return None


def _bank() -> Task | None:
    table = _read("bank-full.csv.gz", sep=";")
    if table is None:
        return None
    return Task(
        table=table,
        ranges={
            "age": (18, 95), "balance": (-5000, 20000), "duration": (0, 1200), "campaign": (1, 20), "previous": (0, 10),
        },
        levels={
            "housing": ("no", "yes"), "loan": ("no", "yes"), "poutcome": ("unknown", "failure", "other", "success"),
            "contact": ("cellular", "telephone", "unknown"),
        },
        outcome=(table["y"] == "yes").to_numpy(float),
    )  # fmt: skip


def _adult() -> Task | None:
    table = _read("adult.csv.gz")
    if table is None:
        return None
    table = table.assign(marital_status=table["marital_status"].str.strip(), sex=table["sex"].str.strip())
    marital = ("Never-married", "Married-civ-spouse", "Divorced", "Separated", "Widowed", "Married-spouse-absent")
    return Task(
        table=table,
        ranges={
            "age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99), "capital_gain": (0, 100_000),
            "capital_loss": (0, 5000),
        },
        levels={"marital_status": marital, "sex": ("Male", "Female")},
        outcome=(table["income"].str.strip() == ">50K").to_numpy(float),
    )  # fmt: skip


def _diabetes_soon() -> Task | None:
    task = _diabetes()
    return None if task is None else replace(task, outcome=(task.table["readmitted"] == "<30").to_numpy(float))


def _diabetes() -> Task | None:
    table = _read("diabetic_data.csv.gz", low_memory=False)
    if table is None:
        return None
    return Task(
        table=table,
        ranges={
            "time_in_hospital": (1, 14), "num_lab_procedures": (0, 120), "num_medications": (0, 60),
            "number_outpatient": (0, 10), "number_emergency": (0, 10), "number_inpatient": (0, 10),
            "number_diagnoses": (1, 16),
        },
        levels={
            "gender": ("Female", "Male"), "insulin": ("No", "Steady", "Up", "Down"), "diabetesMed": ("No", "Yes"),
        },
        outcome=(table["readmitted"] != "NO").to_numpy(float),
    )  # fmt: skip


def wages() -> Task | None:
    """Logarithms of hourly wages, CPS 2012."""
    table = _read("cps2012.csv.gz")
    if table is None:
        return None
    school = np.select([table[name] == 1 for name in ("hsd08", "hsd911", "hsg", "cg", "ad")], range(1, 6), default=0)
    table = table.assign(school=school.astype(str))
    sides = ("female", "widowed", "divorced", "nevermarried", "mw", "so", "we")
    return Task(
        table=table,
        ranges={"exp1": (0, 60), "exp2": (0, 36), **dict.fromkeys(sides, (0.0, 1.0))},
        levels={"school": ("3", "1", "2", "0", "4", "5")},
        outcome=table["lnw"].to_numpy(float),
        bounds=(0.0, 6.0),
    )


def _mean(values: list[float]) -> str:
    array = np.array(values)
    return f"{array.mean():.4f} ± {1.96 * array.std() / np.sqrt(array.size):.4f}"


def _fits(task: Task, *, epsilon: float, delta: object, repetitions: int) -> list[PrivateFit]:
    module, statistic = (logistic_fit if task.bounds is None else linear_fit), task.statistic()
    return [
        module.release(statistic, epsilon=epsilon, delta=delta, noise=SeededNoise(seed)) for seed in range(repetitions)
    ]


def logistic_table(tasks: Mapping[str, Task], *, repetitions: int) -> tuple[list[list[str]], list[Target]]:
    """Areas and log losses."""
    rows, targets = [], []
    for name, task in tasks.items():
        x, y = task.matrix(), task.outcome
        scaled = x[:, 1:] / np.abs(x[:, 1:]).max(axis=0)
        plain = LogisticRegression(C=1e6, max_iter=5000).fit(scaled, y).predict_proba(scaled)[:, 1]
        best = float(roc_auc_score(y, plain))
        rows.append([name, f"{len(y):,}", "plain", "", f"{best:.4f}", f"{log_loss(y, plain):.4f}"])
        settings: list[tuple[str, float, object, int]] = [("no noise", 1e9, 0, 1)]
        settings += [(f"{epsilon:g}", epsilon, 0, repetitions) for epsilon in EPSILONS]
        settings += [(f"{epsilon:g}, δ {DELTA}", epsilon, DELTA, repetitions) for epsilon in (0.1, 1.0)]
        for label, epsilon, delta, count in settings:
            progress(f"{name}, epsilon {label}")
            fits = _fits(task, epsilon=epsilon, delta=delta, repetitions=count)
            predictors = [x @ fit.coefficients.value for fit in fits]
            areas = [float(roc_auc_score(y, line)) for line in predictors]
            losses = [float(log_loss(y, expit(line).clip(1e-9, 1 - 1e-9))) for line in predictors]
            shrunk = sum(fit.status == "shrunk" for fit in fits)
            rows.append([name, f"{len(y):,}", label, f"{shrunk} of {count}", _mean(areas), _mean(losses)])
            if count == 1:
                targets.append(
                    Target(
                        what=f"{name}: area without noise",
                        target=f"within 0.001 of plain, {best:.4f}",
                        outcome=f"{areas[0]:.4f}",
                        met=areas[0] >= best - 0.001,
                    )
                )
    return rows, targets


def linear_table(tasks: Mapping[str, Task], *, repetitions: int) -> list[list[str]]:
    """Variance explained, and the mean error of a coefficient times its range."""
    rows = []
    for name, task in tasks.items():
        x, y = task.matrix(), task.outcome.clip(*(task.bounds or (0, 1)))
        exact = np.linalg.lstsq(x, y, rcond=None)[0]
        r_squared = 1 - ((y - x @ exact) ** 2).mean() / y.var()
        rows.append([name, f"{len(y):,}", "plain", "", f"{r_squared:.4f}", ""])
        settings: list[tuple[str, float, object]] = [(f"{epsilon:g}", epsilon, 0) for epsilon in EPSILONS]
        settings += [(f"{epsilon:g}, δ {DELTA}", epsilon, DELTA) for epsilon in (0.1, 1.0)]
        for label, epsilon, delta in settings:
            progress(f"{name}, epsilon {label}")
            fits = _fits(task, epsilon=epsilon, delta=delta, repetitions=repetitions)
            shares = [float(1 - ((y - x @ fit.coefficients.value) ** 2).mean() / y.var()) for fit in fits]
            errors = [float(np.abs((fit.coefficients.value - exact)[1:] * fit.spans[1:]).mean()) for fit in fits]
            shrunk = sum(fit.status == "shrunk" for fit in fits)
            rows.append([name, f"{len(y):,}", label, f"{shrunk} of {repetitions}", _mean(shares), _mean(errors)])
    return rows


def likelihood_table(tasks: Mapping[str, Task]) -> tuple[list[list[str]], list[Target]]:
    """The coefficients at an epsilon of 10^6 against statsmodels', from three starts."""
    rows, targets = [], []
    for name, task in tasks.items():
        x = task.matrix()
        scale = np.abs(x).max(axis=0)
        exact = sm.Logit(task.outcome, x / scale).fit(disp=0, maxiter=100).params / scale
        statistic = task.statistic()
        worst = []
        for radius in (1.0, 4.0, 16.0):
            fit = logistic_fit.release(statistic, epsilon=1e6, radius=radius, noise=SeededNoise(1))
            worst.append(float(np.abs(fit.coefficients.value / exact - 1).max()))
        rows.append([name, f"{len(x):,}", str(x.shape[1]), *(f"{value:.3%}" for value in worst)])
        targets.append(
            Target(
                what=f"{name}: coefficients at epsilon 10^6",
                target="within 1% of statsmodels",
                outcome=f"{max(worst):.2%}",
                met=max(worst) <= 0.01,
            )
        )
    return rows, targets


def coverage_table(tasks: Mapping[str, Task], *, repetitions: int) -> list[list[str]]:
    """The coverage of 90% intervals for what the rows give without noise, over all slopes of many fits.

    They are for the ridge of the release; the last column is the coverage for a fit without a ridge.
    """
    rows = []
    for name, task in tasks.items():
        statistic = task.statistic()
        features = statistic.design.features
        halves = np.array([*(entry.half for entry in features), *(1.0 for _ in range(statistic.design.terms - 2))])
        halves = halves[: statistic.design.terms - 2]
        low, high = task.bounds or (0.0, 1.0)
        stretch = (high - low) / 2
        exact = statistic.products / float(LATTICE) ** 2
        for epsilon in (0.5, 1.0, 5.0):
            fits = _fits(task, epsilon=epsilon, delta=0, repetitions=repetitions)
            covered: dict[str, list[float]] = {"same": [], "plain": []}
            for fit in fits:
                for kind, ridge in (("same", fit.ridge), ("plain", 0.0)):
                    slopes = solve(exact, stddev=0.0, step=1 / LATTICE, min_ridge=ridge).slopes * stretch / halves
                    covered[kind].append(
                        float(((fit.coefficients.lower[1:] <= slopes) & (slopes <= fit.coefficients.upper[1:])).mean())
                    )
            shrunk = sum(fit.status == "shrunk" for fit in fits)
            rows.append(
                [name, f"{epsilon:g}", f"{shrunk} of {repetitions}", *(_mean(entry) for entry in covered.values())]
            )
    return rows


def main(argv: list[str] | None = None) -> int:
    """Run all three experiments and print their tables."""
    given = arguments((__doc__ or "").splitlines()[0]).parse_args(argv)
    repetitions = 5 if given.quick else 20
    tasks = logistic_tasks()
    if "Adult" in tasks:
        tasks[f"Adult, {SMALL:,}"] = tasks["Adult"].part(SMALL)
    heads = ["table", "rows", "epsilon", "shrunk", "area under the ROC curve", "log loss"]
    areas, targets = logistic_table(tasks, repetitions=repetitions)
    name = "private_fits: logistic"
    publish(Report(name=name, columns=heads, rows=areas, targets=targets, figures={}), None)
    likely, close = likelihood_table(tasks)
    heads = ["table", "rows", "terms", "radius 1", "radius 4", "radius 16"]
    publish(Report(name="private_fits: likelihood", columns=heads, rows=likely, targets=[], figures={}), None)
    targets += close
    paid = wages()
    lines: list[list[str]] = []
    covered: list[list[str]] = []
    if paid is not None:
        lines = linear_table({"wages": paid, f"wages, {SMALL:,}": paid.part(SMALL)}, repetitions=repetitions)
        covered = coverage_table({"wages": paid}, repetitions=2 * repetitions)
    heads = ["table", "rows", "epsilon", "shrunk", "R²", "error over the range"]
    publish(Report(name="private_fits: linear", columns=heads, rows=lines, targets=[], figures={}), None)
    figures = {"logistic": areas, "likelihood": likely, "linear": lines, "coverage": covered}
    heads = ["table", "epsilon", "shrunk", "holds, same ridge", "holds, no ridge"]
    name = "private_fits: 90% intervals"
    report = Report(name=name, columns=heads, rows=covered, targets=targets, figures=figures)
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
