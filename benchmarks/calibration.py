"""The level and power of private calibration tests: ``python -m benchmarks.calibration [--quick]``.

On the real covariates of bank and diabetes (and on synthetic scores, where those tables are absent), with labels drawn
from the fitted model, so that its scores are true; all noise is seeded (the distributions are those of releases).

* how often the Hosmer-Lemeshow test rejects true scores at 5%, with and without accounting for the noise;
* the relative error of the statistic, against algorithm 2 of Barczewski, Mawass and Ramon with unit noise;
* the coverage of intervals for the exact statistic and calibration error;
* the power against stated misfits.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.special import expit, logit
from scipy.stats import chi2

from benchmarks._scored_tables import real_tables
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.diagnostics._score_groups.pools import pools
from spark_jobs.diagnostics.calibration import measure, summarise
from spark_jobs.diagnostics.calibration.summary import EXPECTED, calibration_test, hosmer_lemeshow
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts

EPSILONS = ("0.1", "0.3", "1")
GROUPS = 10
PAPER_LEVELS = 15
COPIES = 200
MISFITS = {
    "log-odds + 0.1": lambda odds: odds + 0.1,
    "log-odds x 1.1": lambda odds: 1.1 * odds,
    "log-odds + 0.05 (log-odds)²": lambda odds: odds + 0.05 * odds**2,
}


def tables() -> dict[str, FloatArray]:
    """Name -> scores."""
    scored_tables = {name: scored[1] for name, scored in real_tables().items() if name in ("bank", "diabetes")}
    return scored_tables or {"synthetic": np.random.default_rng(1).beta(1, 7, 20_000)}


def released(
    labels: Int64Array, scores: FloatArray, *, epsilon: str, random: np.random.Generator
) -> tuple[object, int]:
    """A draw, and a seed for its summary."""
    seed = int(random.integers(2**62))
    return measure(ScoreCounts.from_arrays(labels, scores), epsilon=epsilon, noise=SeededNoise(seed)), seed + 1


def exact_figures(lower: FloatArray, labels: Int64Array, scores: FloatArray) -> tuple[float, float]:
    """The statistic and the calibration error of the rows, in pools that begin at ``lower``."""
    inside = np.searchsorted(lower[1:], scores, side="right")
    rows, expected, positives = (
        np.bincount(inside, weights, minlength=lower.size) for weights in (None, scores, labels.astype(float))
    )
    filled = rows > 0
    variance = (expected * (1 - expected / np.maximum(rows, 1)))[filled]
    excess = (positives - expected)[filled]
    return float((excess**2 / variance).sum()), float(np.abs(excess).sum() / labels.size)


def as_published(labels: Int64Array, scores: FloatArray, *, epsilon: str, random: np.random.Generator) -> float:
    """Algorithm 2's statistic over its exact one: exact deciles given, unit noise at epsilon / (L + 9) on four sums."""
    groups = np.array_split(np.argsort(scores, kind="stable"), GROUPS)
    scale, noisy, exact = (PAPER_LEVELS + 9) / float(epsilon), 0.0, 0.0
    for group in groups:
        for observed, expected in (
            (labels[group].sum(), scores[group].sum()),
            ((1 - labels[group]).sum(), (1 - scores[group]).sum()),
        ):
            exact += (observed - expected) ** 2 / expected
            observed, expected = (value + random.laplace(0, scale) for value in (observed, expected))
            noisy += (observed - expected) ** 2 / expected
    return abs(noisy - exact) / exact


def level(name: str, scores: FloatArray, epsilon: str, *, releases: int) -> tuple[list[str], float, dict[str, object]]:
    """How often true scores are rejected, and the error of the statistic."""
    random = np.random.default_rng([len(name), int(float(epsilon) * 1000)])
    p_values, naive, errors, published = [], [], [], []
    for _ in range(releases):
        labels = (random.random(scores.size) < scores).astype(np.int64)
        measurement, seed = released(labels, scores, epsilon=epsilon, random=random)
        summary = pools(measurement, seed=seed, expected=EXPECTED, copies=COPIES)
        p_values.append(calibration_test(summary))
        naive.append(
            chi2.sf(float(hosmer_lemeshow(summary.released, 0 * summary.noise_variance)), summary.released.lower.size)
        )
        statistic, _ = exact_figures(summary.released.lower, labels, scores)
        errors.append(
            abs(max(float(hosmer_lemeshow(summary.released, summary.noise_variance)), 0.0) - statistic) / statistic
        )
        published.append(as_published(labels, scores, epsilon=epsilon, random=random))
    rejected = float(np.mean(np.array(p_values) < 0.05))
    width = 1.96 * np.sqrt(rejected * (1 - rejected) / releases)
    row = [
        f"{name} ({scores.size:,} rows)",
        epsilon,
        f"{rejected:.3f} ± {width:.3f}",
        f"{np.mean(np.array(naive) < 0.05):.3f}",
        f"{np.median(errors):.3f}",
        f"{np.median(published):.3g}",
        f"{releases}",
    ]
    figures = {"p": p_values, "chi-squared p": naive, "relative error": errors, "as published": published}
    return row, rejected, figures


def coverage(name: str, scores: FloatArray, epsilon: str, *, releases: int) -> list[str]:
    """The coverage of 90% intervals for the exact figures of the same rows in the same pools."""
    random, covered = np.random.default_rng(5), []
    for index in range(releases):
        truth = scores if index % 2 else expit(1.15 * logit(scores))
        labels = (random.random(scores.size) < truth).astype(np.int64)
        seed = int(random.integers(2**62))
        measurement = measure(
            ScoreCounts.from_arrays(labels, scores), epsilon=epsilon, confidence=0.9, noise=SeededNoise(seed)
        )
        result = summarise(measurement, seed=seed + 1)
        starts = result.lower[np.flatnonzero(np.diff(result.pool, prepend=-1))]
        statistic, error = exact_figures(starts, labels, scores)
        slack = 1e-3
        covered.append(
            (
                result.statistic.interval[0] <= statistic + slack and statistic - slack <= result.statistic.interval[1],
                result.ece.interval[0] <= error + slack / 100 and error - slack / 100 <= result.ece.interval[1],
            )
        )
    means = np.mean(covered, axis=0)
    return [name, epsilon, *(f"{mean:.3f}" for mean in means), f"{releases}"]


def power(name: str, scores: FloatArray, epsilon: str, *, releases: int) -> list[str]:
    """How often wrong scores are rejected at 5%; the labels are drawn from the given scores."""
    random, results = np.random.default_rng(9), []
    for misfit in MISFITS.values():
        wrong = expit(misfit(logit(np.clip(scores, 1e-6, 1 - 1e-6))))
        rejected = []
        for _ in range(releases):
            labels = (random.random(scores.size) < scores).astype(np.int64)
            measurement, seed = released(labels, wrong, epsilon=epsilon, random=random)
            summary = pools(measurement, seed=seed, expected=EXPECTED, copies=COPIES)
            rejected.append(calibration_test(summary) < 0.05)
        results.append(f"{np.mean(rejected):.2f}")
    return [name, epsilon, *results, f"{releases}"]


def main(argv: list[str] | None = None) -> int:
    """Run all experiments and print their tables."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    many, few = (8, 4) if given.quick else (500, 60)
    scored, figures, levels, covered, powers, rates = tables(), {}, [], [], [], []
    for name, scores in scored.items():
        for epsilon in EPSILONS:
            progress(f"{name}, epsilon {epsilon}")
            row, rejected, figures[f"{name} {epsilon}"] = level(name, scores, epsilon, releases=many)
            levels.append(row)
            rates.append(rejected)
            covered.append(coverage(name, scores, epsilon, releases=few))
            powers.append(power(name, scores, epsilon, releases=few))
    target = Target(
        what="type-I error of the test at 5%, true scores on real covariates",
        target="within 0.03 to 0.07",
        outcome=f"{min(rates):.3f} to {max(rates):.3f}",
        met=min(rates) >= 0.03 and max(rates) <= 0.07,
    )
    heads = (
        *("table", "epsilon", "rejected at 5%", "chi-squared, no noise known"),
        *("median relative error of H", "as published", "releases"),
    )
    publish(
        Report(
            name="calibration: true scores",
            columns=heads,
            rows=levels,
            targets=[] if given.quick else [target],
            figures={},
        ),
        None,
    )
    heads = ("table", "epsilon", "statistic", "calibration error", "releases")
    publish(Report(name="calibration: 90% intervals hold", columns=heads, rows=covered, targets=[], figures={}), None)
    heads = ("table", "epsilon", *MISFITS, "releases")
    return publish(
        Report(name="calibration: power at 5%", columns=heads, rows=powers, targets=[], figures=figures), given.json
    )


if __name__ == "__main__":
    sys.exit(main())
