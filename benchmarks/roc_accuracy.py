"""How near private ROC curves come to the exact ones: ``python -m benchmarks.roc_accuracy [--quick] [--only NAME]``.

Five kinds of experiments, all with seeded noise (the distributions are those of releases):

* the smallest difference of AUCs detected by t-tests between 20 releases each, on curves without sampling error;
* the mean absolute error of the AUC with 1,000 rows in each class;
* on real tables, the error of the AUC and of the curve, for every method of choosing cells;
* the same for the default if a patient of diabetes, not a row, is the unit of privacy;
* the coverage of 90% intervals and bands.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from scipy import stats

from benchmarks._scored_tables import binormal_quantiles, counts, kept_of_patients, real_tables
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.diagnostics.roc_curve import measure, summarise
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts

AREAS = tuple(round(0.70 + 0.025 * step, 3) for step in range(11))
DETECTABLE = {200: 0.02, 500: 0.01, 1000: 0.005, 2000: 0.0025}
PAPER_DETECTABLE = {200: 0.1, 500: 0.05, 1000: 0.025, 2000: 0.01}
GROUP = 20
HISTOGRAMS = ("geometric", "hb", "greedy_h", "dawa", "ahp", "adaptive_grid", "mwem")
METHODS: dict[str, dict[str, object]] = {
    "default": {},
    "fixed 8": {"method": "fixed_cells", "thresholds": 8},
    "fixed 16": {"method": "fixed_cells", "thresholds": 16},
    "fixed 64": {"method": "fixed_cells", "thresholds": 64},
    "fixed 1024": {"method": "fixed_cells", "thresholds": 1024},
    "equal depth 16": {"method": "equi_depth", "thresholds": 16},
    "tree": {"method": "tree"},
    "medians 16": {"method": "recursive_medians", "thresholds": 16, "delta": "1e-9"},
    **{
        f"{name} 16, {histogram}": {"method": method, "thresholds": 16, "histogram": histogram, "delta": "1e-9"}
        for name, method in (("fixed", "fixed_cells"), ("medians", "recursive_medians"))
        for histogram in HISTOGRAMS
    },
}


@dataclass(frozen=True, kw_only=True)
class Exact:
    """A table's exact curve, read at fixed rates."""

    statistic: ScoreCounts
    fpr: FloatArray
    tpr: FloatArray

    @classmethod
    def of(cls, statistic: ScoreCounts) -> Exact:
        """The curve of these counts."""
        rates = [
            np.concatenate([[0.0], np.cumsum(label[::-1]) / label.sum()])
            for label in (statistic.negatives, statistic.positives)
        ]
        return cls(statistic=statistic, fpr=rates[0], tpr=rates[1])

    @property
    def auc(self) -> float:
        """Its area."""
        return float(np.trapezoid(self.tpr, self.fpr))

    def distance(self, fpr: FloatArray, tpr: FloatArray) -> float:
        """The area between it and another curve."""
        turns = np.concatenate([[True], (np.diff(self.fpr) > 0) | (np.diff(self.tpr) > 0)])
        level = np.linspace(0, 2, 2001)
        exact = np.interp(level, (self.fpr + self.tpr)[turns], self.tpr[turns])
        return float(np.abs(exact - np.interp(level, fpr + tpr, tpr)).mean() * 2)


def released_areas(statistic: ScoreCounts, *, releases: int, noise: SeededNoise, **options: object) -> FloatArray:
    """AUCs of that many releases of one table at epsilon 1."""
    return np.array([trace(measure(statistic, epsilon=1, noise=noise, **options)).auc for _ in range(releases)])


def detected_differences(signal: int, *, trials: int) -> tuple[list[str], Target, dict[str, object]]:
    """How often t-tests detect that AUCs differ by the target, over the areas; bias and spread of the AUC."""
    step, noise = DETECTABLE[signal], SeededNoise(signal)
    won, biases, spreads = [], [], []
    for area in AREAS:
        tables = [Exact.of(counts(binormal_quantiles(entry, signal))) for entry in (area, area + step)]
        drawn = [released_areas(entry.statistic, releases=GROUP * trials, noise=noise) for entry in tables]
        tests = stats.ttest_ind(*(areas.reshape(trials, GROUP) for areas in drawn), axis=1)
        won.append(float((tests.pvalue < 0.05).mean()))
        biases.append(float(drawn[0].mean() - tables[0].auc))
        spreads.append(float(drawn[0].std()))
    bias = float(np.mean(np.abs(biases)))
    error = 1.96 * max(spreads) / np.sqrt(GROUP * trials)
    row = [
        f"{signal}",
        f"{step}",
        f"{PAPER_DETECTABLE[signal]}",
        f"{min(won):.0%} to {max(won):.0%}",
        f"{min(spreads):.4f} to {max(spreads):.4f}",
        f"{bias:.4f} (worst {max(np.abs(biases)):.4f} ± {error:.4f})",
        f"{GROUP * trials}",
    ]
    met = min(won) > 0.5 and bias < step / 2
    target = Target(
        what=f"AUC difference detected at n·epsilon = {signal}",
        target=f"{step}, |bias| below {step / 2}",
        outcome=f"detected in {np.mean(won):.0%} of tests (smallest {min(won):.0%}); |bias| {bias:.4f}",
        met=met,
    )
    return row, target, {"won": won, "bias": biases, "spread": spreads}


def error_at_thousand(*, releases: int) -> tuple[list[str], Target, dict[str, object]]:
    """Mean absolute error of the AUC with 1,000 rows in each class at epsilon 1."""
    noise, errors = SeededNoise(1000), []
    for area in (0.7, 0.8, 0.9, 0.95):
        exact = Exact.of(counts(binormal_quantiles(area, 2000)))
        errors.append(np.abs(released_areas(exact.statistic, releases=releases, noise=noise) - exact.auc))
    values = np.concatenate(errors)
    width = 1.96 * values.std() / np.sqrt(values.size)
    measured = f"{values.mean():.4f} ± {width:.4f}"
    target = Target(
        what="AUC error, 1,000 rows per class, epsilon 1",
        target="at most 0.004",
        outcome=measured,
        met=values.mean() < 0.004,
    )
    return (
        ["1,000 per class", "", "0.0201", "", "", measured, f"{values.size}"],
        target,
        {"errors": float(values.mean())},
    )


def real_data(*, releases: int) -> tuple[list[list[str]], list[Target], dict[str, object]]:
    """Errors on real tables, method by method."""
    rows, regrets, figures = [], {name: [] for name in METHODS}, {}
    worst_ratio = 0.0
    for table, scored in real_tables().items():
        exact = Exact.of(counts(scored))
        for epsilon in ("0.01", "0.1", "1"):
            results = {}
            for name, options in METHODS.items():
                noise = SeededNoise(7)
                curves = [
                    trace(measure(exact.statistic, epsilon=epsilon, noise=noise, **options)) for _ in range(releases)
                ]
                results[name] = (
                    np.array([abs(one.auc - exact.auc) for one in curves]),
                    np.array([exact.distance(one.fpr, one.tpr) for one in curves]),
                )
            best = min(area.mean() for area, _ in results.values())
            winner = min(results, key=lambda name: results[name][0].mean())
            for name, (area, _) in results.items():
                regrets[name].append(area.mean() / best)
            ours, theirs = results["default"][0], results[winner][0]
            slack = 1.96 * np.hypot(ours.std(), theirs.std()) / np.sqrt(releases)
            worst_ratio = max(worst_ratio, float((ours.mean() - theirs.mean()) / slack) if slack else 0.0)
            figures[f"{table} {epsilon}"] = {name: [float(v.mean()) for v in pair] for name, pair in results.items()}
            cells = (f"{area.mean():.4f} / {shape.mean():.4f}" for area, shape in results.values())
            rows.append([f"{table} ({exact.auc:.3f})", epsilon, *cells])
    if not rows:
        return rows, [], figures
    rows.append(["mean regret of the AUC", "", *(f"{np.mean(values):.2f}" for values in regrets.values())])
    regret = float(np.mean(regrets["default"]))
    target = Target(
        what="real tables: the default against the best method of each",
        target="mean regret at most 1.05, nowhere beyond the 95% interval",
        outcome=f"mean regret {regret:.2f}; worst gap {worst_ratio:.2f} of the interval",
        met=regret <= 1.05 and worst_ratio <= 1,
    )
    return rows, [target], figures


def patients(*, releases: int) -> list[list[str]]:
    """Errors of the default's AUC on diabetes by the unit of privacy, against that of the rows kept and of all rows.

    If a unit is a patient, of whom ``max_rows`` rows are used, every release runs at ``epsilon / max_rows``.
    """
    scored = real_tables().get("diabetes")
    if scored is None:
        return []
    exact, rows = Exact.of(counts(scored)), []
    units = {"row": (scored, 1)} | {
        f"patient, max_rows {max_rows}": (kept_of_patients(scored, max_rows), max_rows) for max_rows in (1, 2)
    }
    for unit, (kept, max_rows) in units.items():
        own = Exact.of(counts(kept))
        for epsilon in ("0.01", "0.1", "1"):
            noise = SeededNoise(7)
            spent = Decimal(epsilon) / max_rows
            curves = [trace(measure(own.statistic, epsilon=spent, noise=noise)) for _ in range(releases)]
            errors = np.array([[abs(one.auc - reference.auc) for reference in (own, exact)] for one in curves])
            means, widths = errors.mean(axis=0), 1.96 * errors.std(axis=0) / np.sqrt(releases)
            texts = (f"{mean:.4f} ± {width:.4f}" for mean, width in zip(means, widths, strict=True))
            rows.append([unit, f"{kept[0].size:,}", epsilon, *texts, f"{own.auc - exact.auc:+.4f}", f"{releases}"])
    return rows


def coverage(*, releases: int) -> tuple[list[list[str]], list[Target], dict[str, object]]:
    """The coverage of 90% intervals of the AUC, and of 90% bands, for the exact curve."""
    rows, targets, figures = [], [], {}
    tables = {
        f"binormal {area}, n {rows_}": binormal_sample(area, rows_) for area in (0.7, 0.95) for rows_ in (300, 2000)
    }
    tables |= real_tables()
    for name, scored in tables.items():
        exact, noise, results = Exact.of(counts(scored)), SeededNoise(11), []
        for seed in range(releases):
            curve = summarise(measure(exact.statistic, epsilon=1, noise=noise), seed=seed)
            inside = covered(curve.fpr, curve.tpr.lower, curve.tpr.upper, exact)
            whole = covered(curve.fpr, curve.tpr.everywhere.lower, curve.tpr.everywhere.upper, exact).all()
            results.append((curve.auc.interval[0] <= exact.auc <= curve.auc.interval[1], inside.mean(), whole))
        means, widths = np.mean(results, axis=0), 1.96 * np.std(results, axis=0) / np.sqrt(releases)
        rows.append(
            [name, *(f"{mean:.3f} ± {width:.3f}" for mean, width in zip(means, widths, strict=True)), f"{releases}"]
        )
        figures[name] = means.tolist()
    parts = np.array(list(figures.values()))
    for column, what in enumerate(("interval of the AUC", "pointwise band")):
        mean = float(parts[:, column].mean())
        targets.append(
            Target(
                what=f"coverage of the 90% {what}, mean over tables",
                target="0.88 to 0.95",
                outcome=f"{mean:.3f} ({parts[:, column].min():.3f} to {parts[:, column].max():.3f})",
                met=0.88 <= mean <= 0.95,
            )
        )
    return rows, targets, figures


def binormal_sample(area: float, rows: int) -> tuple[Int64Array, FloatArray]:
    """A random sample with this area in the long run."""
    random = np.random.default_rng(round(1000 * area) + rows)
    labels = (random.random(rows) < 0.5).astype(np.int64)
    distance = np.sqrt(2) * stats.norm.ppf(area)
    return labels, 1 / (1 + np.exp(-(random.normal(size=rows) + distance * (labels - 0.5))))


def covered(at: FloatArray, lower: FloatArray, upper: FloatArray, exact: Exact) -> BoolArray:
    """The rates at which a band contains the exact curve; on a vertical stretch, any of its values."""
    rates, first = np.unique(exact.fpr, return_index=True)
    last = np.append(first[1:], exact.fpr.size) - 1
    lowest, highest = (np.interp(at, rates, exact.tpr[ends]) for ends in (first, last))
    return (highest >= lower - 1e-9) & (lowest <= upper + 1e-9)


EXPERIMENTS = (*(f"apart-{signal}" for signal in DETECTABLE), "error", "real", "patients", "coverage")


def the_area(names: Sequence[str], *, quick: bool) -> tuple[Report, dict[str, object]]:
    """The experiments on curves without sampling error, in one table."""
    rows, targets, figures = [], [], {}
    for name in names:
        progress(name)
        if name == "error":
            row, target, figures[name] = error_at_thousand(releases=20 if quick else 500)
        else:
            row, target, figures[name] = detected_differences(
                int(name.removeprefix("apart-")), trials=2 if quick else 25
            )
        rows.append(row)
        targets.append(target)
    columns = ("n·epsilon", "difference", "paper", "detected (p < 0.05)", "sd", "|bias|, or error", "releases")
    report = Report(
        name="roc_accuracy: the area", columns=columns, rows=rows, targets=[] if quick else targets, figures={}
    )
    return report, figures


def report_of(experiment: str, *, quick: bool) -> tuple[Report, dict[str, object]]:
    """One of the experiments with a table of its own."""
    progress(experiment)
    if experiment == "real":
        heads: Sequence[str] = ("table (exact AUC)", "epsilon", *METHODS)
        name = "roc_accuracy: real tables, mean error of the AUC / area between the curves"
        rows, targets, figures = real_data(releases=5 if quick else 60)
    elif experiment == "patients":
        heads = ("unit", "rows kept", "epsilon", "error of the AUC", "area between the curves", "kept rows' AUC")
        heads = (*heads, "releases")
        name = "roc_accuracy: diabetes by patient"
        rows, targets, figures = patients(releases=5 if quick else 60), [], {}
    else:
        heads = ("table", "AUC interval", "pointwise band", "whole band", "releases")
        name = "roc_accuracy: coverage at 90%"
        rows, targets, figures = coverage(releases=5 if quick else 150)
    return Report(name=name, columns=heads, rows=rows, targets=[] if quick else targets, figures={}), figures


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiments and print their tables."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, metavar="NAME", help=", ".join(EXPERIMENTS))
    given = parser.parse_args(argv)
    names = [name for name in EXPERIMENTS if name in (given.only or EXPERIMENTS)]
    figures: dict[str, object] = {}
    on_curves = [name for name in names if name.startswith("apart-") or name == "error"]
    if on_curves:
        report, figures = the_area(on_curves, quick=given.quick)
        publish(report, None)
    for name in names:
        if name not in on_curves:
            report, figures[name] = report_of(name, quick=given.quick)
            publish(report, None)
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
