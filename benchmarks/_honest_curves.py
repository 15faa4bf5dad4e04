"""One release of a table of scores, and the intervals that it shows: curves, rankings, groups of rows, populations.

Each function draws a table with a stated number of positives (or of rows of a group times epsilon), and releases it.
Where a release has several intervals of a kind, one is chosen at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from benchmarks._honest_scores import exact_pools
from benchmarks._score_law import SHAPES, SIGNALS, drawn_table
from benchmarks._shown import LEVEL, Ends, Intervals, Shown, noise_of, shown_at, shown_of, worst_of
from benchmarks.ranking_figures import exact_figures
from benchmarks.rare_classes import nearest_rates
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.results.score_figures import RATES
from spark_jobs.diagnostics import (
    average_precision,
    binned_residuals,
    binormal_roc,
    by_group,
    calibration,
    confusion_matrix,
    ranking_figures,
    roc_curve,
)
from spark_jobs.diagnostics._score_figures.precision import average_precision_of
from spark_jobs.score_grid import edges_of
from spark_jobs.statistics import GroupedScoreCounts, ScoreCounts

FIGURES = ("positive_rate", "auc", "mean_residual", "predicted_positive_rate", "recall", "false_positive_rate",
           "precision")  # fmt: skip
GROUPS = 2
BINS = {"observed": "calibration: an observed share", "residual": "binned_residuals: a residual"}
SIZES = (12_000, 80_000)
MANY_ROWS = 10**12
"""Of a population on a grid: a cell with less than one of them does not matter."""
EDGE = 1e-12
"""A score this near to 0 or 1 is taken as this far away."""
INNER_NODES, INNER_WEIGHTS = np.polynomial.legendre.leggauss(200)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def of_curves(random: np.random.Generator, positives: float) -> Intervals:
    """Bands of ROC and precision-recall curves, and the figures of a ranking."""
    shape, signal = str(random.choice(SHAPES)), float(random.choice(SIGNALS))
    table = drawn_table(random, positives=int(positives), auc=signal, shape=shape)
    terms: dict[str, Any] = {"epsilon": table.epsilon, "confidence": LEVEL}
    names = (
        "roc_curve: a TPR", "roc_curve: every TPR", "ranking_figures: a gain", "ranking_figures: a precision",
        "ranking_figures: all precisions", "ranking_figures: gini", "ranking_figures: ks", "ranking_figures: cost",
        "ranking_figures: a lift",
    )  # fmt: skip
    shown: Intervals = dict.fromkeys(names)
    curve = roc_curve.release(table.counts, noise=noise_of(random), **terms)
    if curve.status == "ok":
        exact = nearest_rates(table.counts, curve.fpr, curve.tpr.value)
        inner = np.flatnonzero((curve.fpr > 0) & (curve.fpr < 1))
        if inner.size:
            shown[names[0]] = shown_at(int(random.choice(inner)), _band(curve, "tpr"), exact)
        shown[names[1]] = worst_of(_band(curve, "tpr", "_everywhere"), exact)
    rows = table.counts.negatives.sum() / table.counts.positives.sum()
    ranking = ranking_figures.release(table.counts, noise=noise_of(random), false_negative_cost=float(rows), **terms)
    if ranking.status == "ok":
        exact_of = exact_figures(table.counts, ranking)
        for name in ("gini", "ks", "cost"):
            interval = ranking.published()[f"{name}_interval"]
            shown[f"ranking_figures: {name}"] = shown_of(getattr(ranking, name).value, interval, float(exact_of[name]))
        for name in ("gain", "precision"):
            ends = _band(ranking, name)
            place = int(random.integers(ends[0].size))
            shown[f"ranking_figures: a {name}"] = shown_at(place, ends, exact_of[name])
            if name == "gain":
                lifts = exact_of["gain"] / ranking.depths
                shown["ranking_figures: a lift"] = shown_at(place, _band(ranking, "lift"), lifts)
        shown["ranking_figures: all precisions"] = worst_of(
            _band(ranking, "precision", "_everywhere"), exact_of["precision"]
        )
    return shown


def _band(result: Any, name: str, end: str = "", *, population: bool = False) -> Ends:
    of = f"{name}_population" if population else name
    return result.published()[name], result.published()[f"{of}_lower{end}"], result.published()[f"{of}_upper{end}"]


@dataclass(frozen=True, kw_only=True)
class Population:
    """Rows whose log-odds of the score are normal in each class, of one spread, and not always calibrated.

    Attributes:
        rate: of positives.
        separation: distance of the classes, in standard deviations.
        shift: what is added to the log-odds of a calibrated model.
    """

    rate: float
    separation: float
    shift: float

    def odds(self, deviates: FloatArray) -> FloatArray:
        """The log-odds of scores."""
        odds: FloatArray = logit(self.rate) + self.separation * (deviates - self.separation / 2) + self.shift
        return odds

    def deviates(self, scores: FloatArray) -> FloatArray:
        """Where scores lie among those of the negatives, in standard deviations."""
        inside = np.clip(scores, EDGE, 1 - EDGE)
        places: FloatArray = (logit(inside) - self.odds(np.zeros(1))) / self.separation
        return places

    def rates(self, threshold: float) -> dict[str, float]:
        """The rates of the population's confusion matrix."""
        place = float(self.deviates(np.array([threshold]))[0])
        recall, specificity = float(ndtr(self.separation - place)), float(ndtr(place))
        right, wrong = self.rate * recall, (1 - self.rate) * (1 - specificity)
        return {
            "accuracy": right + (1 - self.rate) * specificity,
            "precision": right / (right + wrong),
            "recall": recall,
            "specificity": specificity,
            "f1": 2 * right / (right + wrong + self.rate),
        }

    def between(self, low: float, high: float) -> tuple[float, float]:
        """The share of positives, and the mean score, of the rows with scores between these."""
        first, last = np.clip(self.deviates(np.array([low, high])), -9.0, 9.0 + self.separation)
        at = (first + last) / 2 + (last - first) / 2 * INNER_NODES
        densities = [np.exp(-((at - centre) ** 2) / 2) * INNER_WEIGHTS for centre in (0.0, self.separation)]
        negatives, positives = (1 - self.rate) * densities[0], self.rate * densities[1]
        rows = float((negatives + positives).sum())
        return float(positives.sum()) / rows, float(((negatives + positives) * expit(self.odds(at))).sum()) / rows

    def figures(self, threshold: float) -> dict[str, float]:
        """What ``FIGURES`` are of the population."""
        base = self.odds(np.zeros(1))[0]
        cut = float((logit(threshold) - base) / self.separation)
        above, above_of_positives = float(ndtr(-cut)), float(ndtr(self.separation - cut))
        flagged = self.rate * above_of_positives + (1 - self.rate) * above
        scores = [float(WEIGHTS @ expit(self.odds(NODES + at)) / WEIGHTS.sum()) for at in (0.0, self.separation)]
        return {
            "positive_rate": self.rate,
            "auc": float(ndtr(self.separation / np.sqrt(2))),
            "mean_residual": self.rate - (1 - self.rate) * scores[0] - self.rate * scores[1],
            "predicted_positive_rate": flagged,
            "recall": above_of_positives,
            "false_positive_rate": above,
            "precision": self.rate * above_of_positives / flagged,
        }

    def cells(self, cells: int) -> ScoreCounts:
        """As many rows that their counts on a grid of so many cells have the population's own figures."""
        places = self.deviates(edges_of(cells))
        shares = [np.diff(ndtr(places - centre)) for centre in (0.0, self.separation)]
        negatives, positives = (
            np.rint(MANY_ROWS * rate * of_class).astype(np.int64)
            for rate, of_class in zip((1 - self.rate, self.rate), shares, strict=True)
        )
        return ScoreCounts(negatives=negatives, positives=positives)


def _sample(random: np.random.Generator, positives: float) -> tuple[Population, FloatArray, ScoreCounts]:
    """A population with so many positives to be expected in a sample of it, the sample's scores, and their counts."""
    rows = int(np.exp(random.uniform(*np.log(SIZES))))
    one = Population(rate=positives / rows, separation=random.uniform(0.4, 2.2), shift=float(random.normal(0, 0.5)))
    labels = random.random(rows) < one.rate
    scores = expit(one.odds(random.normal(0, 1, rows) + one.separation * labels))
    return one, scores, ScoreCounts.from_arrays(labels, scores)


def of_ranked_populations(random: np.random.Generator, positives: float) -> Intervals:
    """Average precision and the figures of a ranking, of a population of which the rows are a sample."""
    one, _, counts = _sample(random, positives)
    terms: dict[str, Any] = {"epsilon": str(random.choice(["0.5", "1", "2", "4"])), "confidence": LEVEL}
    population = one.cells(counts.cells)
    precision = average_precision.release(counts, noise=noise_of(random), **terms)
    false, true = (np.append(0.0, np.cumsum(rows[::-1])) for rows in (population.negatives, population.positives))
    exact = average_precision_of(false, true, np.ones(counts.cells, dtype=np.bool_))
    shown: Intervals = {"average_precision, population": shown_of(precision.value, precision.population, float(exact))}
    names = ("gini", "ks", "cost", "a gain", "a lift", "all precisions")
    shown |= dict.fromkeys(f"ranking_figures: {name}, population" for name in names)
    cost = 1 / one.rate - 1
    ranking = ranking_figures.release(counts, noise=noise_of(random), false_negative_cost=cost, **terms)
    if ranking.status == "ok":
        exact_of = exact_figures(population, ranking)
        for name in names[:3]:
            interval = ranking.published()[f"{name}_population_interval"]
            shown[f"ranking_figures: {name}, population"] = shown_of(
                getattr(ranking, name).value, interval, float(exact_of[name])
            )
        place = int(random.integers(ranking.depths.size))
        for name, exact_ones in (("gain", exact_of["gain"]), ("lift", exact_of["gain"] / ranking.depths)):
            band = _band(ranking, name, population=True)
            shown[f"ranking_figures: a {name}, population"] = shown_at(place, band, exact_ones)
        shown["ranking_figures: all precisions, population"] = worst_of(
            _band(ranking, "precision", population=True), exact_of["precision"]
        )
    return shown


def of_distances(random: np.random.Generator, positives: float) -> Intervals:
    """The mean distance of shares from scores, of rows and of the population that they are a sample of."""
    one, _, counts = _sample(random, positives)
    terms: dict[str, Any] = {"epsilon": str(random.choice(["0.5", "1", "2", "4"])), "confidence": LEVEL}
    population = one.cells(counts.cells)
    groups = calibration.release(counts, noise=noise_of(random), **terms)
    bins = binned_residuals.release(counts, noise=noise_of(random), **terms)
    distance = "binned_residuals: mean distance"
    return {
        "calibration: error, population": _distance(groups, groups.ece.value, groups.ece.population, population),
        distance: _distance(bins, bins.mean_distance.value, bins.mean_distance.interval, counts),
        f"{distance}, population": _distance(bins, bins.mean_distance.value, bins.mean_distance.population, population),
    }


def _distance(bins: Any, value: float | None, ends: Ends | None, counts: ScoreCounts) -> Shown | None:
    if value is None or ends is None:
        return None
    _, rows, of_class, scores, _ = exact_pools(counts, bins.pool, bins.lower)
    return shown_of(value, ends, float(np.abs(of_class - scores).sum() / rows.sum()))


def of_populations(random: np.random.Generator, positives: float) -> Intervals:
    """Rates, shares, residuals and curves of a population of which the rows are a sample."""
    one, scores, counts = _sample(random, positives)
    terms: dict[str, Any] = {"epsilon": str(random.choice(["0.5", "1", "2", "4"])), "confidence": LEVEL}
    threshold = float(np.quantile(scores, 1 - np.exp(random.uniform(np.log(0.005), np.log(0.7)))))
    matrix = confusion_matrix.release(counts, thresholds=[threshold], noise=noise_of(random), **terms)
    exact = one.rates(float(matrix.thresholds[0]))
    shown: Intervals = {
        f"confusion_matrix: {rate}, population": _finite(
            *(values[0] for values in (getattr(matrix, rate).value, *getattr(matrix, rate).ends("population"))),
            exact[rate],
        )
        for rate in RATES
    }
    for kind, field in ((calibration, "observed"), (binned_residuals, "residual")):
        bins: Any = kind.release(counts, noise=noise_of(random), **terms)
        pool = int(random.choice(np.unique(bins.pool)))
        inside = np.flatnonzero(bins.pool == pool)
        share, mean = one.between(float(bins.lower[inside[0]]), float(bins.upper[inside[-1]]))
        ends = (bins.published()[f"{field}_population_{end}"][inside[0]] for end in ("lower", "upper"))
        figure = share if field == "observed" else share - mean
        shown[f"{BINS[field]}, population"] = _finite(getattr(bins, field).value[inside[0]], *ends, figure)
    curve = roc_curve.release(counts, noise=noise_of(random), **terms)
    inner = np.flatnonzero((curve.fpr > 0) & (curve.fpr < 1))
    names = ("roc_curve: a TPR, population", "roc_curve: every TPR, population")
    shown |= dict.fromkeys(names)
    if inner.size:
        true = ndtr(one.separation + ndtri(curve.fpr))
        shown[names[0]] = shown_at(int(random.choice(inner)), _band(curve, "tpr", population=True), true)
        shown[names[1]] = worst_of(_band(curve, "tpr", "_everywhere", population=True), true)
    binormal = binormal_roc.release(counts, noise=noise_of(random), **terms)
    area = one.figures(threshold)["auc"]
    shown["binormal_roc: AUC, population"] = shown_of(binormal.auc.value, binormal.auc.population, area)
    return shown


def of_curve_differences(random: np.random.Generator, positives: float) -> Intervals:
    """The difference of two curves' areas, each of a sample of a population of its own."""
    samples = [_sample(random, positives) for _ in range(2)]
    terms: dict[str, Any] = {"epsilon": str(random.choice(["0.5", "1", "2", "4"])), "confidence": LEVEL}
    draws = [roc_curve.measure(counts, noise=noise_of(random), **terms) for _, _, counts in samples]
    released = roc_curve.compare(*draws, seed=int(random.integers(2**62)))
    one, other = (float(ndtr(population.separation / np.sqrt(2))) for population, _, _ in samples)
    return {
        "roc_curve: difference of AUCs, population": shown_of(
            released.auc_difference.value, released.auc_difference.interval, one - other
        )
    }


def _finite(value: float, low: float, high: float, exact: float) -> Shown | None:
    known = bool(np.isfinite(value))
    return Shown(value=float(value), low=float(low), high=float(high), exact=exact) if known else None


def of_groups_of_rows(random: np.random.Generator, signal: float) -> Intervals:
    """The figures of one of two groups, and their difference, for the populations."""
    epsilon = float(random.choice([0.5, 1.0, 2.0]))
    rate, separation = np.exp(random.uniform(np.log(0.03), np.log(0.5))), random.uniform(0.5, 2.0)
    populations = [
        Population(
            rate=float(expit(logit(rate) + random.normal(0, 0.3))),
            separation=float(separation * np.exp(random.normal(0, 0.2))),
            shift=float(random.normal(0, 0.3)),
        )
        for _ in range(GROUPS)
    ]
    sizes = [int(signal / epsilon * np.exp(random.uniform(0, 1))) for _ in populations]
    labels = [random.random(size) < one.rate for size, one in zip(sizes, populations, strict=True)]
    scores = [
        expit(one.odds(random.normal(0, 1, of_rows.size) + one.separation * of_rows))
        for of_rows, one in zip(labels, populations, strict=True)
    ]
    keys = [f"group {place}" for place in range(GROUPS)]
    counts = GroupedScoreCounts.from_arrays(
        np.concatenate(labels), np.concatenate(scores), np.repeat(np.array(keys, dtype=object), sizes), keys=keys
    )
    threshold = float(np.clip(rate, 0.05, 0.5))
    kinds: list[Any] = ["auc", "binned_residuals", {"kind": "confusion_matrix", "thresholds": [threshold]}]
    released = by_group.release(counts, epsilon=epsilon, confidence=LEVEL, noise=noise_of(random), kinds=kinds)
    of_figure = {one.figure: one for one in released.comparisons}
    cut = next((one.threshold for one in released.comparisons if one.threshold is not None), threshold)
    exact = [one.figures(cut) for one in populations]
    shown: Intervals = {}
    place = int(random.integers(GROUPS))
    for figure in FIGURES:
        one = of_figure.get(figure)
        known = one is not None and one.values.value[place] is not None
        shown[f"by_group: {figure}, population"] = (
            shown_of(one.values.value[place], one.values.at(place).ends(), exact[place][figure]) if known else None
        )
    shown["by_group: a difference, population"] = _difference(of_figure[str(random.choice(FIGURES))], keys, exact)
    one = of_figure[str(random.choice([figure for figure in FIGURES if figure != "auc"]))]
    known = one.overall.value is not None
    shown["by_group: of all rows, population"] = (
        shown_of(one.overall.value, one.overall.interval, _of_all(one.figure, sizes, exact)) if known else None
    )
    return shown


def _of_all(figure: str, sizes: list[int], exact: list[dict[str, float]]) -> float:
    """A figure of all groups together, each of which is a share of the population as large as of the rows."""
    weights = np.array(sizes, dtype=np.float64)
    if figure in ("recall", "precision"):
        weights *= [one["positive_rate" if figure == "recall" else "predicted_positive_rate"] for one in exact]
    elif figure == "false_positive_rate":
        weights *= [1 - one["positive_rate"] for one in exact]
    return float(np.average([one[figure] for one in exact], weights=weights))


def _difference(one: Any, keys: list[str], exact: list[dict[str, float]]) -> Shown | None:
    if one.highest is None:
        return None
    high, low = (exact[keys.index(key)][one.figure] for key in (one.highest, one.lowest))
    return shown_of(one.difference.value, one.difference.interval, high - low)
