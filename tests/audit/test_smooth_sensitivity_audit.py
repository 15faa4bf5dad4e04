"""Statistics with noise scaled by a smooth bound: by the log ratio of the densities that are claimed."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from functools import cache
from itertools import product

import numpy as np
import pytest

from spark_jobs.mechanisms.continuous_noise import cauchy_noise, laplace_noise, polynomial_noise, student_t_noise
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.quantiles import recursive_medians
from spark_jobs.mechanisms.smooth_sensitivity import (
    auc_bound,
    auc_fraction,
    average_precision,
    average_precision_bound,
    lower_median,
    median_bound,
    release_auc,
    release_average_precision,
    release_median,
)
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
from tests.support.audit import audit_outputs
from tests.support.median_law import recursive_law
from tests.support.neighbouring import neighbouring
from tests.support.smooth_loss import log_density, loss_between

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(2)
SHAPES = {
    "polynomial": polynomial_noise(EPSILON),
    "cauchy": cauchy_noise(EPSILON),
    "student_t": student_t_noise(EPSILON),
    "laplace": laplace_noise(EPSILON, "1e-6"),
}
# the row that moves a statistic the most, of two hundred in a class, at low, middle and high scores: a positive below
# all negatives, a negative above all positives, a row across a gap at the median
RANKED = ([0, 200, 0], [0, 0, 200])
TABLES = {
    ("AUC", ADDED): (RANKED, ([0, 200, 0], [1, 0, 200])),
    ("AUC", REPLACED): (RANKED, ([0, 200, 0], [1, 0, 199])),
    ("average precision", ADDED): (([5, 0, 0], [0, 200, 0]), ([5, 0, 1], [0, 200, 0])),
    ("average precision", REPLACED): (([5, 0, 0], [0, 199, 1]), ([5, 0, 1], [0, 199, 0])),
    ("median", ADDED): ([30, *[0] * 62, 30], [30, *[0] * 62, 31]),
    ("median", REPLACED): ([30, *[0] * 62, 30], [29, *[0] * 62, 31]),
}
TWO_RECORDS = {
    "AUC": (RANKED, ([0, 200, 0], [2, 0, 198])),
    "average precision": (([5, 0, 0], [0, 198, 2]), ([5, 0, 2], [0, 198, 0])),
}


def auc(table, relation, shape, noise):
    return release_auc(*table, shape=shape, neighbours=relation, noise=noise)


def ap(table, relation, shape, noise):
    return release_average_precision(*table, shape=shape, neighbours=relation, noise=noise)


def median(table, relation, shape, noise):
    return release_median(table, shape=shape, noise=noise)


def place(name, table, relation, smoothness):
    """The statistic's exact value and its bound."""
    if name == "median":
        return lower_median(table), median_bound(table, smoothness=smoothness)
    options = {"neighbours": relation, "smoothness": smoothness}
    if name == "AUC":
        return float(auc_fraction(*table)), auc_bound(*(sum(counts) for counts in table), **options)
    return average_precision(*table), average_precision_bound(sum(table[1]), **options)


RELEASES = {"median": median, "AUC": auc, "average precision": ap}


def evidence(name, relation, noise, density, *, fewer=1.0, pair=None, times=1):
    """Log ratios of densities, at the claimed scale; what is drawn may have ``fewer`` times less noise."""
    release, (first, second) = RELEASES[name], pair or TABLES[name, relation]
    shape = SHAPES[density]
    log_h = log_density(shape.density, shape.degrees, float(shape.epsilon) / shape.rate)
    places = [place(name, table, relation, shape.smoothness) for table in (first, second)]
    drawn = replace(shape, scale=shape.scale / fewer)

    def mechanism(table, count):
        released = np.array([[release(table, relation, drawn, noise) for _ in range(times)] for _ in range(count)])
        (one, other) = (log_h((released - at) / (shape.scale * s)) - np.log(s) for at, s in places)
        return (one - other).sum(axis=1)

    return mechanism, first, second


MECHANISMS = {f"{name}, {density} noise": (name, density) for name in RELEASES for density in SHAPES}


def with_noise(densities):
    return [mechanism for mechanism, (_, density) in MECHANISMS.items() if density in densities]


TIGHT, LOOSE = with_noise(["polynomial", "cauchy"]), with_noise(["student_t", "laplace"])
# what samples can tell; half of any is told by the exact losses below
FEWER = {2: ["polynomial"], 3: ["cauchy", "laplace"], 4: ["student_t"]}
PARTS = {2: "half the noise", 3: "a third of the noise", 4: "a quarter of the noise"}


class TestReleases(SampledAudit):
    mechanisms = MECHANISMS
    claimed, seed, quick, thorough = EPSILON, 32, 2000, 2500
    shipped_options = {"threshold": 0.0}
    kept = [f"{name}, polynomial noise" for name in RELEASES]
    faults = {
        **{name: Fault(planted={"fewer": fewer}, mechanisms=with_noise(FEWER[fewer])) for fewer, name in PARTS.items()},
        "budget spent twice": Fault(planted={"times": 2}, mechanisms=kept, samples=3000),
        "sensitivity off by one record": Fault(
            planted={"records": 2},
            relations=[REPLACED],
            mechanisms=[f"{name}, polynomial noise" for name in TWO_RECORDS],
            samples=3500,
        ),
    }

    def floor(self, mechanism, relation):
        # the constants of Student's t and of Laplace noise are loose
        return 0.15 if mechanism in TIGHT else 0.03

    def delta(self, mechanism):
        return float(SHAPES[MECHANISMS[mechanism][1]].delta)

    def mechanism(self, mechanism, relation, noise, *, records=1, **planted):
        name, density = MECHANISMS[mechanism]
        pair = TWO_RECORDS[name] if records == 2 else None
        return evidence(name, relation, noise, density, pair=pair, **planted)


# beside the tables above: few rows, where the bound itself changes
FEW = {
    "median": {
        ADDED: [([0, 1, 0, 2], [0, 2, 0, 2]), ([0, 2, 0, 3], [0, 3, 0, 3])],
        REPLACED: [([0, 0, 2, 0], [1, 0, 1, 0]), ([0, 3, 0, 2], [0, 2, 0, 3])],
    },
    "AUC": {
        ADDED: [(([0, 0, 0], [0, 0, 1]), ([1, 0, 0], [0, 0, 1]))],
        REPLACED: [(([0, 2, 0], [0, 1, 1]), ([0, 2, 0], [1, 1, 0]))],
    },
    "average precision": {
        ADDED: [(([0, 0, 0], [0, 0, 0]), ([0, 0, 0], [1, 0, 0]))],
        REPLACED: [(([0, 0, 0], [0, 0, 1]), ([1, 0, 0], [0, 0, 0]))],
    },
}


class TestExactLossOfReleases(ExactAudit):
    """The largest loss between tables, from the density that is drawn from."""

    mechanisms = MECHANISMS
    claimed = EPSILON
    faults = {
        "half the noise": Fault(planted={"less": 2}, mechanisms=TIGHT),
        # half of what the loose constants ask for is only just enough
        "noise divided by 2.2": Fault(planted={"less": 2.2}, mechanisms=LOOSE),
    }

    def floor(self, mechanism, relation):
        return 0.9 if mechanism in TIGHT else 0.45

    def loss(self, mechanism, relation, *, less=1.0):
        name, density = MECHANISMS[mechanism]
        shape = SHAPES[density]
        log_h = log_density(shape.density, shape.degrees, float(shape.epsilon) / shape.rate)
        pairs = (
            [place(name, table, relation, shape.smoothness) for table in pair]
            for pair in [TABLES[name, relation], *FEW[name][relation]]
        )
        return max(loss_between(log_h, shape.scale / less, pair, delta=float(shape.delta)) for pair in pairs)


# two levels on four cells; a row is added across the gap at the median, or moved there
ROWS = {ADDED: ([9, 0, 0, 9], [9, 0, 0, 10]), REPLACED: ([9, 0, 0, 9], [8, 0, 0, 10])}
MEDIANS = "recursive medians"


class TestRecursiveMedians(SampledAudit):
    mechanisms = (MEDIANS,)
    claimed, at_least, quick = 8, 0.1, 1200
    audit = staticmethod(audit_outputs)
    faults = {}

    def mechanism(self, mechanism, relation, noise):
        def run(table, count):
            options = {"levels": 2, "epsilon": self.claimed, "neighbours": relation, "noise": noise}
            return np.array([recursive_medians(table, **options).thresholds @ [25, 5, 1] for _ in range(count)])

        return run, *ROWS[relation]


@pytest.mark.verify
def test_recursive_medians_follow_their_law():
    cells, draws = [4, 0, 1, 3, 0], 3000
    options = {"levels": 2, "epsilon": 6, "neighbours": ADDED}
    law, noise = recursive_law(cells, **options), SeededNoise(35)
    drawn = Counter(tuple(recursive_medians(cells, **options, noise=noise).thresholds.tolist()) for _ in range(draws))
    assert sum(map(np.exp, law.values())) == pytest.approx(1)
    assert set(drawn) <= set(law)
    for thresholds, log in law.items():
        expected = draws * np.exp(log)
        assert abs(drawn[thresholds] - expected) <= 5 * np.sqrt(expected) + 1


@cache
def worst_medians(relation, *, epsilon=EPSILON):
    """The largest loss of two levels over small neighbours."""
    worst, laws = 0.0, {}

    def law(cells):
        key = tuple(cells.tolist())
        if key not in laws:
            laws[key] = recursive_law(key, levels=2, epsilon=epsilon, neighbours=relation)
        return laws[key]

    for held in product((0, 1, 4), repeat=4):
        table = np.array(held)
        for other in neighbouring(table, relation):
            one, two = law(table), law(other)
            worst = max(worst, max(abs(one[key] - two[key]) for key in one))
    return worst


class TestExactLossOfRecursiveMedians(ExactAudit):
    mechanisms = (MEDIANS,)
    claimed, at_least = EPSILON, 0.6
    faults = {
        "half the noise": Fault(planted={"epsilon": 2 * EPSILON}),
        "budget spent twice": Fault(planted={"times": 2}),
    }

    def loss(self, mechanism, relation, *, times=1, **planted):
        return times * worst_medians(relation, **planted)
