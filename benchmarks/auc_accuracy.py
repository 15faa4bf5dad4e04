"""How near private AUCs and average precisions come to the exact ones: ``python -m benchmarks.auc_accuracy [--quick]``.

Errors are against the exact figure of the same rows, at epsilon 1 unless a row says otherwise, with seeded noise (the
distributions are those of releases): the published releases, ours on the figure itself, ours from counts, and a ROC
curve's area from a release shared with calibration and binned residuals; then the coverage of 90% intervals.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from benchmarks._scored_tables import OTHER_SHAPES, Scored, binormal_quantiles, counts, real_tables
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.options import BinnedResidualsOptions, CalibrationOptions, RocCurveOptions, RocCurveSettings
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import auc, average_precision
from spark_jobs.diagnostics._score_figures.precision import average_precision_of, precision_of_curve
from spark_jobs.diagnostics._shared_groups.measurement import measure_shared
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.diagnostics.roc_curve.shared import curve_of_groups
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction
from spark_jobs.mechanisms.smooth_sensitivity import average_precision as exact_precision
from spark_jobs.statistics import ScoreCounts

DELTA = "1e-6"


def synthetic(rows: int, share: float, seed: int) -> Scored:
    """A random sample with this share of positives and an area near 0.8."""
    random = np.random.default_rng(seed)
    labels = (random.random(rows) < share).astype(np.int64)
    return labels, 1 / (1 + np.exp(-(random.normal(size=rows) + 1.2 * labels - 1)))


def shared_area(statistic: ScoreCounts, noise: SeededNoise) -> float:
    """The area of a ROC curve made from a release that it shares with calibration and binned residuals."""
    sharing = RocCurveOptions(), CalibrationOptions(), BinnedResidualsOptions()
    drawn = measure_shared(statistic, sharing, Terms(epsilon=1, noise=noise))
    return trace(curve_of_groups(RocCurveSettings(), drawn)).auc


def published_cauchy(statistic: ScoreCounts, noise: SeededNoise, epsilon: float = 1.0) -> float:
    """The release of Boyd, Lantz and Page: smoothness epsilon / 6, Cauchy noise of scale 6 S / epsilon."""
    sizes = int(statistic.negatives.sum()), int(statistic.positives.sum())
    smaller = min(sizes)
    bound = max(1 / max(smaller, 1), float(np.exp(-epsilon * (smaller - 1) / 6)))
    exact = float(auc_fraction(statistic.negatives, statistic.positives))
    uniform = (float(noise.words(1)[0] >> np.uint64(11)) + 0.5) / 2.0**53
    return float(np.clip(exact + 6 * bound / epsilon * np.tan(np.pi * (uniform - 0.5)), 0, 1))


def area_at_thousand(*, releases: int) -> tuple[list[list[str]], list[Target], dict[str, object]]:
    """Mean absolute error with 1,000 rows in each class, without sampling error of the rows."""
    statistic = counts(binormal_quantiles(0.8, 2000))
    exact = float(auc_fraction(statistic.negatives, statistic.positives))
    makers: dict[str, Callable[[SeededNoise], float]] = {
        "published, Cauchy": lambda noise: published_cauchy(statistic, noise),
        "published, Laplace, delta 1e-6": lambda noise: (
            auc.release(
                statistic, epsilon=1, delta=DELTA, method="laplace", neighbours=Neighbours.REPLACE_ONE,
                interval=False, noise=noise,
            ).value
        ),
        "Cauchy, exact scale": lambda noise: auc.release(statistic, epsilon=1, method="cauchy", noise=noise).value,
        "default, with interval": lambda noise: auc.release(statistic, epsilon=1, noise=noise).value,
        "default, no interval": lambda noise: auc.release(statistic, epsilon=1, interval=False, noise=noise).value,
        "shared release": lambda noise: shared_area(statistic, noise),
    }  # fmt: skip
    rows, errors = [], {}
    for name, make in makers.items():
        count, noise = releases if name != "shared release" else max(releases // 5, 5), SeededNoise(3)
        deviations = np.abs(np.array([make(noise) for _ in range(count)]) - exact)
        errors[name] = float(deviations.mean())
        rows.append([name, f"{deviations.mean():.4f} ± {1.96 * deviations.std() / np.sqrt(count):.4f}", str(count)])
    direct, shared = errors["default, no interval"], errors["shared release"]
    targets = [
        Target(
            what="AUC, 1,000 rows per class, direct",
            target="at most 0.0014, pure",
            outcome=f"{direct:.4f} ({errors['default, with interval']:.4f} with an interval)",
            met=direct <= 0.0014,
        ),
        Target(what="the same, shared release", target="at most 0.004", outcome=f"{shared:.4f}", met=shared <= 0.004),
    ]
    return rows, targets, dict(errors)


def released_precision(draw: average_precision.FigureDraw) -> float:
    """What a draw releases, without the interval of counts, whose simulations take far longer than the figure."""
    if draw.counts is None:
        return float(draw.value or 0.0)
    if draw.weighted is not None:
        return average_precision.summarise(draw, seed=0).value
    curve = trace(draw.counts)
    return precision_of_curve(curve.edges, curve.sizes) if curve.defined else 0.0


def exact_figures(statistic: ScoreCounts) -> tuple[float, float]:
    """The average precision of these rows with tied negatives first, and as scikit-learn counts ties."""
    false, true = (
        np.concatenate([[0.0], np.cumsum(class_counts[::-1], dtype=np.float64)])
        for class_counts in (statistic.negatives, statistic.positives)
    )
    as_one = average_precision_of(false, true, np.ones(false.size - 1, dtype=np.bool_))
    return exact_precision(statistic.negatives, statistic.positives), float(as_one)


def precision_errors(tables: list[Scored], *, releases: int) -> dict[str, FloatArray]:
    """Absolute errors of average precision by method, that many releases of each table, direct ones ten times as many.

    The errors of direct releases have heavy tails, and take next to no time. They are against the figure that takes
    tied negatives first, as these releases do; those of counts against the figure that counts ties as one.
    """
    errors: dict[str, list[float]] = {"polynomial": [], "counts": [], "auto": []}
    for number, scored in enumerate(tables):
        statistic = counts(scored)
        one_by_one, as_one = exact_figures(statistic)
        for method, values in errors.items():
            noise, exact = SeededNoise(number), one_by_one if method == "polynomial" else as_one
            for _ in range(releases * (10 if method == "polynomial" else 1)):
                draw = average_precision.measure(statistic, epsilon=1, method=method, noise=noise)
                values.append(abs(released_precision(draw) - exact))
    return {method: np.array(values) for method, values in errors.items()}


def precision(*, releases: int, samples: int) -> tuple[list[list[str]], list[Target], dict[str, object]]:
    """Mean absolute error of average precision by method, where positives are many and few."""
    cases: dict[str, list[Scored]] = {
        f"{positives:,} of {round(positives / share):,}": [
            synthetic(round(positives / share), share, seed) for seed in range(samples)
        ]
        for positives in (100, 300, 1000, 3000)
        for share in (0.5, 0.25, 0.1)
    }
    cases |= {
        f"{shape}, {positives:,} of {4 * positives:,}": [make(4 * positives, 0.25, seed) for seed in range(samples)]
        for shape, make in OTHER_SHAPES.items()
        for positives in (300, 3000)
    }
    cases |= {name: [scored] for name, scored in real_tables().items()}
    rows, figures, worse = [], {}, {"counts": [], "auto": []}
    for name, tables in cases.items():
        progress(name)
        errors = precision_errors(tables, releases=releases * samples // len(tables))
        means = {method: float(values.mean()) for method, values in errors.items()}
        widths = {method: float(1.96 * values.std() / np.sqrt(values.size)) for method, values in errors.items()}
        figures[name] = means
        rows.append([name, *(f"{mean:.4f} ± {widths[method]:.4f}" for method, mean in means.items())])
        for method, values in worse.items():
            if means[method] > means["polynomial"] and not name.startswith("100 of "):
                values.append(name)
    targets = [
        Target(
            what=f"average precision, {what} against smooth sensitivity, 300 positives and more",
            target="lower error everywhere",
            outcome=f"higher on: {'; '.join(worse[method])}" if worse[method] else "lower everywhere",
            met=not worse[method],
        )
        for method, what in (("counts", "from counts"), ("auto", "the default"))
    ]
    return rows, targets, figures


def coverage(*, releases: int) -> tuple[list[list[str]], list[Target], dict[str, object]]:
    """The coverage of 90% intervals for the exact figure, each release on a sample of its own."""
    figures = {
        "auc": (auc, lambda s: float(auc_fraction(s.negatives, s.positives))),
        "average_precision": (average_precision, lambda s: exact_figures(s)[1]),
    }
    makers = {"ordinary": synthetic} | OTHER_SHAPES
    cases = [("auc", "ordinary", 600, 0.5), ("auc", "ordinary", 4000, 0.1)]
    for size, share in ((600, 0.5), (1200, 0.25), (4000, 0.1), (8000, 0.5)):
        cases += [("average_precision", shape, size, share) for shape in makers]
    rows, results = [], {}
    for name, shape, size, share in cases:
        progress(f"coverage: {name}, {shape}, {size}")
        module, exact = figures[name]
        covered: list[bool] = []
        for seed in range(releases):
            statistic = counts(makers[shape](size, share, 1000 + seed))
            low, high = module.release(statistic, epsilon=1, noise=SeededNoise(seed)).interval
            covered.append(low <= exact(statistic) <= high)
        results[f"{name} {shape} {size} {share}"] = float(np.mean(covered))
        rows.append([name, shape, str(size), f"{share:.0%}", f"{np.mean(covered):.3f}", str(releases)])
    mean = float(np.mean([part for name, part in results.items() if name.startswith("average_precision")]))
    target = Target(
        what="coverage of 90% intervals, average precision, all releases", target="0.88 to 0.95", outcome=f"{mean:.3f}",
        met=0.88 <= mean <= 0.95,
    )  # fmt: skip
    return rows, [target], results


def main(argv: list[str] | None = None) -> int:
    """Run all three experiments and print their tables."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    quick, figures = given.quick, {}
    rows, targets, figures["area"] = area_at_thousand(releases=10 if quick else 500)
    heads = ("release, 1,000 rows per class, epsilon 1", "mean absolute error", "releases")
    name = "auc_accuracy: the area"
    publish(Report(name=name, columns=heads, rows=rows, targets=[] if quick else targets, figures={}), None)
    rows, targets, figures["precision"] = precision(releases=1 if quick else 5, samples=2 if quick else 6)
    name, heads = "auc_accuracy: average precision, mean absolute error", ("table", "polynomial", "counts", "default")
    publish(Report(name=name, columns=heads, rows=rows, targets=[] if quick else targets, figures={}), None)
    rows, targets, figures["coverage"] = coverage(releases=2 if quick else 20)
    heads = ("figure", "shape", "rows", "positives", "held", "releases")
    name = "auc_accuracy: coverage at 90%"
    report = Report(name=name, columns=heads, rows=rows, targets=[] if quick else targets, figures=figures)
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
