"""Mean absolute errors of each kind on smooth tables, to compare two commits: ``python -m benchmarks.smooth_accuracy``.

Rows without ties, steps or atoms, so that no grid shows and nothing but the noise differs. Errors are against the exact
figures of the raw rows (``_exact``), at epsilon 1, with seeded noise. Tables and seeds are the same at both commits. It
reads what is published alone, so that it also runs on an earlier tree, into which this file, ``_exact`` and
``_raw_law`` are copied. ``--before FILE`` compares with what ``--output`` wrote there: of each figure the ratio of the
mean errors, with its standard error over tables, for each seed and for all.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _exact as exact
from benchmarks._raw_law import SMOOTH, drawn_scores, drawn_values
from benchmarks.harness import arguments, markdown_table, progress
from spark_jobs.contract.options.fits import Bounded, CrossProductCells, LabelledRowCells
from spark_jobs.diagnostics import (
    auc,
    average_precision,
    binned_residuals,
    binormal_roc,
    calibration,
    cdf_points,
    confusion_matrix,
    ecdf,
    linear_fit,
    linear_regression,
    logistic_fit,
    quantile,
    ranking_figures,
    recalibration,
    residual_plot,
    roc_comparison,
    roc_curve,
)
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import (
    CrossProducts,
    LabelledRows,
    Moments,
    PairedScoreCounts,
    ResidualCounts,
    ScoreCounts,
    ValueCounts,
)

Errors = dict[str, float]
Law = Callable[[np.random.Generator, SeededNoise], Errors]
SEEDS = 3
POSITIVES, ROWS = 1_000, 4_000
"""Of a table of scores, and of any other: rows times epsilon."""
POINTS = 64
"""Places at which a curve is read."""
CLIP = 1e-3


def of_areas(random: np.random.Generator, noise: SeededNoise) -> Errors:
    """Areas, a curve, average precision and figures of a ranking."""
    table = drawn_scores(random, positives=POSITIVES, forms=("smooth",))
    counts, area = ScoreCounts.from_arrays(table.labels, table.scores), exact.area(table.labels, table.scores)
    curve = roc_curve.release(counts, epsilon=1, noise=noise)
    drawn, places = _figures(curve), np.linspace(0, 1, POINTS)
    traced = np.interp(places, drawn["fpr"], drawn["tpr"])
    errors = {
        "roc_curve: AUC": drawn["auc"] - area,
        "roc_curve: a point": np.abs(traced - np.interp(places, *exact.curve(table.labels, table.scores))).mean(),
        "auc": _figures(auc.release(counts, epsilon=1, noise=noise))["value"] - area,
        "binormal_roc: AUC": _figures(binormal_roc.release(counts, epsilon=1, noise=noise))["auc"] - area,
        "average_precision": _figures(average_precision.release(counts, epsilon=1, noise=noise))["value"]
        - exact.average_precision(table.labels, table.scores),
    }
    ranked = _figures(ranking_figures.release(counts, epsilon=1, noise=noise))
    errors["ranking_figures: ks"] = ranked["ks"] - exact.separation(table.labels, table.scores)
    gains = [exact.gain(table.labels, table.scores, 0.25), np.interp(0.25, ranked["depths"], ranked["gain"])]
    return errors | {"ranking_figures: a gain": gains[1] - gains[0]}


def of_groups(random: np.random.Generator, noise: SeededNoise) -> Errors:
    """Rates at a threshold, calibration, binned residuals and recalibration."""
    table = drawn_scores(random, positives=POSITIVES, forms=("smooth",))
    counts = ScoreCounts.from_arrays(table.labels, table.scores)
    matrix = _figures(confusion_matrix.release(counts, thresholds=[table.threshold], epsilon=1, noise=noise))
    rates = matrix.get("rates", matrix)
    errors = {
        f"confusion_matrix: {name}": float(rates[name][0]) - true
        for name, true in exact.rates(table.labels, table.scores, table.threshold).items()
    }
    for kind, name in ((calibration, "observed"), (binned_residuals, "residual")):
        released = _figures(kind.release(counts, epsilon=1, noise=noise))
        first = np.flatnonzero(np.diff(released["pool"], prepend=-1))
        starts = np.append(-np.inf, np.asarray(released["lower"])[first][1:])
        rows, positives, sums, _ = exact.of_groups(table.labels, table.scores, starts)
        true = (positives - (sums if name == "residual" else 0)) / np.maximum(rows, 1)
        off = np.abs(np.asarray(released[name], dtype=np.float64)[first] - true)
        label = f"{kind.__name__.rsplit('.', 1)[1]}: a group"
        errors[label] = float(np.average(off, weights=np.maximum(rows, 1e-9)))
        if name == "observed":
            errors["calibration: error"] = released["ece"] - float(np.abs(positives - sums).sum() / rows.sum())
    mapped = _figures(recalibration.release(counts, epsilon=1, clip=CLIP, noise=noise))
    true = exact.losses(table.labels, table.scores, clip=CLIP)
    return errors | {f"recalibration: {name}": mapped[name] - figure for name, figure in true.items()}


def of_comparisons(random: np.random.Generator, noise: SeededNoise) -> Errors:
    """The difference of two models' areas."""
    table = drawn_scores(random, positives=POSITIVES, forms=("smooth",))
    other = np.clip(table.scores + random.normal(0, 0.1, table.scores.size), 0, 1)
    counts = PairedScoreCounts.from_arrays(table.labels, table.scores, other)
    difference = roc_comparison.release(counts, epsilon=1, noise=noise).auc_difference
    value = getattr(difference, "value", difference)
    true = exact.area(table.labels, table.scores) - exact.area(table.labels, other)
    return {"roc_comparison: a difference": np.nan if value is None else value - true}


def of_values(random: np.random.Generator, noise: SeededNoise) -> Errors:
    """Fractions and quantiles, in parts of the range."""
    column = drawn_values(random, rows=ROWS, forms=SMOOTH)
    low, high = column.bounds
    values = exact.within(column.values, column.bounds)
    level, at = float(random.choice([0.1, 0.25, 0.5, 0.75, 0.9])), float(random.choice(values))
    true, share = exact.quantile(values, level), float(exact.share_up_to(values, [at])[0])
    counts = ValueCounts.from_arrays(values, lower=low, upper=high)
    one = quantile.release(counts, level=level, epsilon=1, noise=noise).value
    points = _figures(cdf_points.release(counts, thresholds=[at], quantiles=[level], epsilon=1, noise=noise))
    # of some thousand cells, as the time of a release grows with them
    coarser = ValueCounts.from_arrays(values, lower=low, upper=high, cells=4096)
    whole = ecdf.release(coarser, epsilon=1, noise=noise)
    places = np.sort(random.choice(values, POINTS))
    return {
        "quantile": (one - true) / (high - low),
        "cdf_points: a fraction": points["cdf"][0] - share,
        "cdf_points: a quantile": (points["quantiles"][0].value - true) / (high - low),
        "ecdf: a fraction": np.abs(whole.evaluate(places) - exact.share_up_to(values, places)).mean(),
        "ecdf: a quantile": (float(whole.quantile(level)) - true) / (high - low),
    }


def of_lines(random: np.random.Generator, noise: SeededNoise) -> Errors:
    """Heights and slope of a line, in parts of the box."""
    x = random.beta(*np.exp(random.normal(1, 0.5, 2)), ROWS)
    y = np.clip(random.uniform(0.3, 0.7) + random.normal(0, 0.3) * (x - x.mean()) + random.normal(0, 0.1, ROWS), 0, 1)
    moments = Moments.from_arrays(x, y, lower=(0, 0), upper=(1, 1))
    line = _figures(linear_regression.release(moments, method="noisy_moments", epsilon=1, noise=noise))
    slope, intercept = exact.line(x, y)
    heights = np.clip(intercept + slope * np.asarray(line["x"]), 0, 1)
    return {
        "linear_regression: a height": np.abs(np.asarray(line["predictions"])[0] - heights).mean(),
        "linear_regression: a slope": line["slope"][0] - slope,
    }


def of_residuals(random: np.random.Generator, noise: SeededNoise) -> Errors:
    """Means, spreads and quantiles of a residual plot, in parts of its bound."""
    size = float(10 ** random.uniform(0.5, 2.5))
    fitted = random.uniform(0.2, 1.0, ROWS) * size
    residuals = random.normal(0, size * random.uniform(0.05, 0.3), ROWS)
    statistic = ResidualCounts.from_arrays(fitted, residuals, unit=1.0)
    plot = _figures(residual_plot.release(statistic, epsilon=1, noise=noise))
    bound, edges = plot["residual_bound"], np.asarray(plot["fitted_edges"])
    # columns of one pool share their figures
    starts = np.flatnonzero(np.append(1, np.diff(plot["column_rows"]) != 0))
    ends = np.append(starts[1:], edges.size - 1)
    every = np.clip(residuals, -bound, bound)
    columns = [exact.column(fitted, residuals, (edges[a], edges[b]), bound) for a, b in zip(starts, ends, strict=True)]
    rows = np.array([rows.size for rows in columns])
    off = {
        name: [abs(plot[field][start] - figure(one)) if one.size else 0.0
               for start, one in zip(starts, columns, strict=True)]
        for name, field, figure in (("a mean", "trend", np.mean), ("a spread", "spread", exact.spread))
    }  # fmt: skip
    levels = exact.stats.norm.cdf(plot["qq_theoretical"])
    true = [exact.quantile(every, float(level)) for level in levels]
    return {
        f"residual_plot: {name}": float(np.average(errors, weights=rows)) / bound for name, errors in off.items()
    } | {"residual_plot: a quantile": float(np.abs(np.asarray(plot["qq_residual"]) - true).mean()) / bound}


def of_fits(random: np.random.Generator, noise: SeededNoise) -> Errors:
    """Coefficients of fits of two variables in [0, 1]."""
    rows = 10 * ROWS
    columns = {name: random.beta(2, 3, rows) for name in ("a", "b")}
    features = tuple(Bounded(name=name, lower=0, upper=1) for name in columns)
    score = sum(float(random.normal(0, 1)) * (one - 0.4) for one in columns.values())
    outcome = np.clip(0.5 + 0.2 * score + random.normal(0, 0.1, rows), 0, 1)
    cells = CrossProductCells(features=features, outcome=Bounded(name="y", lower=0, upper=1))
    linear = linear_fit.release(CrossProducts.from_arrays(columns, outcome, design=cells), epsilon=1, noise=noise)
    label = (random.random(rows) < 1 / (1 + np.exp(-3 * score))).astype(np.float64)
    drawn = LabelledRows.from_arrays(columns, label, design=LabelledRowCells(features=features))
    logistic = logistic_fit.release(drawn, epsilon=1, noise=noise)
    matrix = exact.sm.add_constant(np.stack(list(columns.values()), axis=1))
    errors = {}
    for name, fit, true in (
        ("linear_fit", linear, exact.sm.OLS(outcome, matrix).fit().params),
        ("logistic_fit", logistic, exact.sm.Logit(label, matrix).fit(disp=0).params),
    ):
        released = _figures(fit)
        off = np.abs(np.asarray(_coefficients(released), dtype=np.float64) - true)
        errors[f"{name}: a coefficient"] = float(off.mean()) if released["status"] == "ok" else np.nan
    return errors


def _figures(result: Any) -> Mapping[str, Any]:
    """The figures of a result by their published names, which were its attributes before a figure was a type."""
    return result.published() if hasattr(result, "published") else vars(result)


def _coefficients(released: Mapping[str, Any]) -> Any:
    """The coefficients of a fit, in the order of its columns, the intercept first."""
    given = released["coefficients"]
    return [one["value"] if isinstance(one, Mapping) else one for one in given]


LAWS: Mapping[str, tuple[Law, int]] = {
    "areas": (of_areas, 250),
    "groups": (of_groups, 500),
    "comparisons": (of_comparisons, 60),
    "values": (of_values, 600),
    "lines": (of_lines, 600),
    "residuals": (of_residuals, 200),
    "fits": (of_fits, 60),
}
"""What is released of a table, and of how many tables for each seed."""


def measured(*, tables: float, laws: list[str]) -> dict[str, list[list[float]]]:
    """Absolute errors by figure, seed and table."""
    errors: dict[str, list[list[float]]] = defaultdict(lambda: [[] for _ in range(SEEDS)])
    for name in laws:
        law, count = LAWS[name]
        for seed in range(SEEDS):
            progress(f"{name}, seed {seed + 1} of {SEEDS}")
            for table in range(max(2, int(count * tables))):
                entropy = [seed, table, sorted(LAWS).index(name)]
                noise = SeededNoise(int(np.random.default_rng([*entropy, 1]).integers(2**62)))
                for figure, error in law(np.random.default_rng(entropy), noise).items():
                    errors[figure][seed].append(abs(float(np.nan if error is None else error)))
    return dict(errors)


def ratio(after: np.ndarray, before: np.ndarray) -> tuple[float, float]:
    """The ratio of two mean errors of the same tables, and its standard error; tables that lack one are left out."""
    known = np.isfinite(after) & np.isfinite(before)
    one, other = after[known], before[known]
    value = float(one.mean() / other.mean())
    deviations = (one - value * other) / other.mean()
    return value, float(deviations.std(ddof=1) / np.sqrt(deviations.size))


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--laws", nargs="+", choices=[*LAWS], default=[*LAWS], help="tables of these laws alone")
    parser.add_argument("--tables", type=float, default=1.0, help="this many times the tables of each law")
    parser.add_argument("--output", type=Path, help="write all errors there, as JSON")
    parser.add_argument("--before", type=Path, nargs="+", default=[], help="errors of the earlier commit")
    options = parser.parse_args()
    errors = measured(tables=0.0 if options.quick else options.tables, laws=options.laws)
    if options.output is not None:
        options.output.write_text(json.dumps(errors))
    earlier = {}
    for file in options.before:
        earlier |= json.loads(file.read_text())
    rows = []
    for figure, by_seed in errors.items():
        mean = f"{np.nanmean(np.concatenate(by_seed)):.5f}"
        if figure not in earlier:
            rows.append([figure, mean, "", ""])
            continue
        pairs = list(zip(map(np.asarray, by_seed), map(np.asarray, earlier[figure]), strict=True))
        seeds = ", ".join(f"{ratio(*pair)[0]:.3f}" for pair in pairs)
        value, error = ratio(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
        rows.append([figure, mean, f"{value:.3f} ± {error:.3f}", seeds])
    print(markdown_table(("figure", "mean error", "over that before", "by seed"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
