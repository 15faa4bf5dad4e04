"""Lines through points: noisy sums by the log ratio of all that was drawn, medians of pairs by their exact laws."""

from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import pytest

from spark_jobs.mechanisms.noise import gaussian_stddev, k_norm_scale, laplace_scale
from spark_jobs.mechanisms.pure_release import pure_noise
from spark_jobs.mechanisms.regression.moments import noisy_moments, noisy_moments_zcdp
from spark_jobs.mechanisms.regression.noisy_intercept import noisy_intercept
from spark_jobs.mechanisms.selection import median_by_exponential, median_intervals
from spark_jobs.mechanisms.smooth_sensitivity import pairwise_median_bound
from spark_jobs.mechanisms.zcdp import epsilon_of
from spark_jobs.papers.regression import theil_sen as module
from spark_jobs.papers.regression.gradient_descent import gradient_descent, gradient_descent_zcdp
from spark_jobs.papers.regression.matchings import rounds_of
from spark_jobs.papers.regression.noisy_stats import noisy_stats, noisy_stats_zcdp
from spark_jobs.papers.regression.theil_sen import STEPS, Median, pair_estimates, theil_sen
from tests.suites.audit import ADDED, REPLACED, Fault, SampledAudit
from tests.support.noises import radii
from tests.support.points import sums_of
from tests.support.smooth_loss import log_density

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON, RHO, DELTA = 1.5, 0.5, 0.02
BOX = 2


@dataclass
class Transcript:
    """Noise that keeps what it was asked and what it said, or says again what another has said.

    ``price`` multiplies the cost that noise is drawn at: a fault.
    """

    source: object
    price: int = 1
    said: list | None = None
    asked: list = field(default_factory=list)
    given: list = field(default_factory=list)
    private = False
    guarantee = "NOT PRIVATE"

    def laplace(self, values, *, epsilon, l1_sensitivity):
        kind = "laplace", laplace_scale(epsilon, l1_sensitivity)
        cost = float(epsilon) * self.price
        return self._said(
            values, kind, lambda: self.source.laplace(values, epsilon=cost, l1_sensitivity=l1_sensitivity)
        )

    def gaussian(self, values, *, rho, l2_sensitivity):
        kind = "gaussian", gaussian_stddev(rho, l2_sensitivity)
        cost = float(rho) * self.price**2
        return self._said(values, kind, lambda: self.source.gaussian(values, rho=cost, l2_sensitivity=l2_sensitivity))

    joint = True

    def k_norm(self, values, *, epsilon, body):
        kind = "k_norm", (k_norm_scale(epsilon, body), body)
        return self._said(values, kind, lambda: self.source.k_norm(values, epsilon=epsilon * self.price, body=body))

    def _said(self, values, kind, draw):
        self.asked.append((np.array(values, dtype=np.float64), kind))
        answer = draw() if self.said is None else self.said[len(self.asked) - 1]
        self.given.append(answer)
        return answer


def evidence(release, relation, pair, source, *, price=1, times=1):
    """The log ratio of all answers, of as many groups with the same rows as there are samples."""

    def replayed(table, count, said):
        transcript = Transcript(source, said=said)
        release(table, count, relation, transcript)
        return transcript.asked

    def mechanism(table, count):
        total = np.zeros(count)
        for _ in range(times):
            drawn = Transcript(source, price=price)
            release(table, count, relation, drawn)
            for (one, kind), (other, _), said in zip(
                *(replayed(each, count, drawn.given) for each in pair), drawn.given, strict=True
            ):
                apart = said - other, said - one
                total += powers(kind, apart, count)
        return total

    return mechanism, *pair


def powers(kind, apart, count):
    """The log ratio of noise that is so far from the other table's vector and from the one's, of each group."""
    name, scale = kind
    if name == "k_norm":
        scale, body = scale
        power = [radii(body, np.asarray(one, dtype=np.int64)).astype(float) / scale for one in apart]
    else:
        power = np.abs(apart) / scale if name == "laplace" else np.square(apart) / (2 * scale**2)
    return (power[0] - power[1]).reshape(-1, count).sum(axis=0)


def of_sums(release, **cost):
    def run(table, count, relation, noise):
        release(sums_of(table, BOX, copies=count), neighbours=relation, noise=noise, **cost)

    return run


def of_rows(release, **cost):
    def run(table, count, relation, noise):
        x, y = np.tile(np.array(table).reshape(-1, 2), (count, 1)).T
        group = np.repeat(np.arange(count), len(table))
        options = {"groups": count, "steps": BOX, "neighbours": relation, "noise": noise, "iterations": 2}
        release(group, x, y, np.ones(x.size, dtype=np.int64), **options, **cost)

    return run


ZEROS = [(0, 0)] * 20
PURE = {
    "NoisyStats": (of_sums(noisy_stats, epsilon=EPSILON), {ADDED: (2, 2), REPLACED: ((0, 0), (2, 2))}),
    "NoisyIntercept": (of_sums(noisy_intercept, epsilon=EPSILON), {ADDED: (0, 2), REPLACED: ((0, 0), (0, 2))}),
    "noisy moments": (of_sums(noisy_moments, epsilon=EPSILON), {ADDED: (2, 2), REPLACED: ((2, 2), (1, 0))}),
    "noisy gradients": (of_rows(gradient_descent, epsilon=EPSILON), {ADDED: (1, 2), REPLACED: ((1, 0), (1, 2))}),
}
GAUSSIAN = {
    "NoisyStats, Gaussian": (of_sums(noisy_stats_zcdp, rho=RHO), PURE["NoisyStats"][1]),
    "noisy moments, Gaussian": (of_sums(noisy_moments_zcdp, rho=RHO), {ADDED: (2, 2), REPLACED: ((2, 2), (0, 0))}),
    "noisy gradients, Gaussian": (of_rows(gradient_descent_zcdp, rho=RHO), PURE["noisy gradients"][1]),
}
ALL = PURE | GAUSSIAN


def tables_of(name, relation, rows=1):
    """Twenty rows at a corner, and so many rows added or replaced."""
    row = ALL[name][1][relation]
    if relation is ADDED:
        return ZEROS, [*ZEROS, *[row] * rows]
    return [*ZEROS[rows:], *[row[0]] * rows], [*ZEROS[rows:], *[row[1]] * rows]


class TestNoisySums(SampledAudit):
    mechanisms = ALL
    at_least, seed, quick, thorough = 0.3, 51, 8000, 16_000
    kept = tuple(ALL)
    faults = {
        "half the noise": Fault(planted={"price": 2}),
        "sensitivity off by one record": Fault(planted={"rows": 2}),
        "budget spent three times": Fault(planted={"times": 3}, samples=30_000),
        "noise for an added row": Fault(
            planted={"told": ADDED}, relations=[REPLACED], mechanisms=["NoisyIntercept", "noisy gradients"]
        ),
        # half of the sums about the middle's sensitivity, 4.5 for 5, is too near to tell
        "noise for an added row, two replaced": Fault(
            planted={"told": ADDED, "rows": 2}, relations=[REPLACED], mechanisms=["noisy moments"]
        ),
    }

    def claim(self, mechanism, relation):
        return float(epsilon_of(RHO, DELTA)) if mechanism in GAUSSIAN else EPSILON

    def delta(self, mechanism):
        return DELTA if mechanism in GAUSSIAN else 0.0

    def mechanism(self, mechanism, relation, noise, *, rows=1, told=None, **planted):
        pair = tables_of(mechanism, relation, rows)
        return evidence(ALL[mechanism][0], told or relation, pair, noise, **planted)


# on a grid of twenty steps, heights over x = 1/2. Twenty rows at x = 1 and four at x = 0 give estimates in four heaps
# of twenty; one row takes a heap from the lowest place to the highest, so the best stretch becomes the short one above
GRID = 20
HEAPS = [(20, 10)] * 20 + [(0, 0), (0, 17), (0, 19)]
LOWEST_TO_HIGHEST = [*HEAPS, (0, 0)], [*HEAPS, (0, 20)]
# found by search: the noisy median's loss at likely values
FEW = [(10, 0), (12, 20), (0, 20), (12, 20)]
MOVED = [*FEW, (14, 0)], [*FEW, (15, 20)]
SMALL = [(20, 10), (10, 20), (12, 10), (17, 10)], [(20, 10), (0, 5), (12, 10), (17, 10)]
TWO = [(0, 0), (20, 10)], [(0, 20), (20, 10)]
PAIRS = {Median.EXPONENTIAL: LOWEST_TO_HIGHEST, Median.WIDE: LOWEST_TO_HIGHEST, Median.SMOOTH: MOVED}
LABELS = {Median.EXPONENTIAL: "DPExpTheilSen", Median.WIDE: "DPWideTheilSen", Median.SMOOTH: "DPSSTheilSen"}
LINE = {"lower": 0.25, "upper": 0.75, "at": (0.5,)}
WIDEN = 0.002


def log_law(table, method, matchings, epsilon):
    """The log density over the grid, of what is averaged over all orders of the rows."""
    points = np.array(table)
    rounds = rounds_of(len(table), matchings)
    changes = min(rounds, len(table) - 1)
    places = np.arange(STEPS)
    law = np.zeros(STEPS)
    orders = list(permutations(range(len(table)))) if matchings else [tuple(range(len(table)))]
    shape = pure_noise(str(epsilon))
    log_h = log_density("polynomial", alpha=float(shape.epsilon) / shape.rate)
    known = {}
    for order in orders:
        kept = np.ones(len(table), dtype=bool)
        rows = points[list(order)].T
        (values,) = pair_estimates(*rows, kept, steps=GRID, rounds=rounds, **LINE)
        key = tuple(sorted(values.tolist()))
        if key not in known and method is Median.SMOOTH:
            bound = pairwise_median_bound(
                values, lower=0, upper=STEPS - 1, changes=changes, smoothness=shape.smoothness
            )
            scale = shape.scale * max(bound, (STEPS - 1) * 2.0**-30)
            known[key] = np.exp(log_h((places - sorted(key)[(len(key) + 1) // 2 - 1]) / scale)) / scale
        elif key not in known:
            widen = round(2 * WIDEN * (STEPS - 1)) if method is Median.WIDE else 0
            scores, lengths = median_intervals(values, steps=STEPS, widen=widen)
            weights = np.exp(epsilon * (scores - scores.max()) / (4 * changes))
            known[key] = np.repeat(weights / (weights * lengths).sum(), lengths)
        law += known[key]
    return np.log(law)


def lines(method, noise, *, matchings=None, epsilon=2.0, times=1, pair=None):
    """Log ratios at a claim of 2, of as many heights over one x as ``times`` says, each at the whole ``epsilon``."""
    pair = pair or (PAIRS[method] if matchings is None else TWO if method is Median.SMOOTH else SMALL)
    ratio = np.subtract(*(log_law(table, method, matchings, 2.0) for table in pair))
    options = {"method": method, "matchings": matchings, "neighbours": REPLACED, "noise": noise, "widen": WIDEN}
    options |= {"steps": GRID, "epsilon": epsilon * times, **LINE, "at": LINE["at"] * times}

    def mechanism(table, count):
        x, y = np.array(table).T
        drawn = np.array([theil_sen(x, y, **options) for _ in range(count)])
        places = (drawn - LINE["lower"]) / (LINE["upper"] - LINE["lower"]) * (STEPS - 1)
        return ratio[np.rint(places).astype(np.int64)].sum(axis=1)

    return mechanism, *pair


def weigh_added_estimates(monkeypatch):
    def of_added(values, *, neighbours, **options):
        return median_by_exponential(values, neighbours=ADDED, **options)

    monkeypatch.setattr(module, "median_by_exponential", of_added)


def bound_one_estimate(monkeypatch):
    """As if a row were in one estimate alone."""

    def of_one(values, *, changes, **options):
        return pairwise_median_bound(values, changes=1, **options)

    monkeypatch.setattr(module, "pairwise_median_bound", of_one)


class TestMediansOfPairs(SampledAudit):
    mechanisms = {f"{LABELS[method]}, all pairs": method for method in Median}
    relations = (REPLACED,)
    claimed, at_least, seed, quick, thorough = 2.0, 0.2, 53, 2500, 5000
    kept = tuple(mechanisms)
    faults = {
        "half the noise": Fault(planted={"epsilon": 4.0}),
        "the whole budget for each of sixteen heights": Fault(planted={"times": 16}, samples=1500, long=True),
        "epsilon / k an estimate, not epsilon / (2 k)": Fault(
            patch=weigh_added_estimates, mechanisms=["DPExpTheilSen, all pairs", "DPWideTheilSen, all pairs"]
        ),
        "a bound for one estimate": Fault(
            patch=bound_one_estimate,
            planted={"pair": LOWEST_TO_HIGHEST},
            mechanisms=["DPSSTheilSen, all pairs"],
            samples=600,
        ),
    }

    def mechanism(self, mechanism, relation, noise, **planted):
        return lines(self.mechanisms[mechanism], noise, **planted)


@pytest.mark.verify
class TestMediansOfOneMatching(SampledAudit):
    mechanisms = {f"{LABELS[method]}, one matching": method for method in Median}
    relations = (REPLACED,)
    claimed, at_least, quick = 2.0, 0.1, 2500
    faults = {}

    def mechanism(self, mechanism, relation, noise):
        return lines(self.mechanisms[mechanism], noise, matchings=1)
