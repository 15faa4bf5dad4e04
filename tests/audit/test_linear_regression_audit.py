"""Lines of many groups: what all of a release loses when one row changes, in its group or from one to another."""

from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import linear_regression as lines
from spark_jobs.diagnostics.linear_regression import noisy_lines as module
from spark_jobs.mechanisms.noise import SeededNoise, gaussian_stddev
from spark_jobs.mechanisms.regression import moments
from spark_jobs.mechanisms.zcdp import rho_within
from spark_jobs.statistics import PointCounts
from tests.suites.audit import ExactAudit, Fault, SampledAudit
from tests.support.audit import log_ratio
from tests.support.noises import worst_loss

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON, DELTA = 1.0, "1e-6"
CELLS = 64
CORNERS = [None, *product((0.0, 0.5, 1.0), repeat=2), (None, 0.5)]
"""Where the one row that differs may lie; None where there is no such row, (None, y) for a row without a point."""
OTHERS = [("a", 0.1, 0.9), ("a", 0.9, 0.2), ("b", 0.0, 0.0), ("b", 0.6, 1.0), ("b", 0.6, 0.2)]
PURE = ("noisy_moments", "noisy_stats", "noisy_intercept", "dp_grad_descent")
ADDED = [((None, None), (group, place)) for group in "ab" for place in CORNERS[1:]]
STAYED = [(("a", one), ("a", other)) for one, other in product(CORNERS[1:], repeat=2)]
LEFT = [(("a", one), ("b", other)) for one, other in product(CORNERS[1:], repeat=2)]
RELATIONS = {
    "added": ({"neighbours": Neighbours.ADD_REMOVE}, ADDED),
    "replaced, public sizes": ({"neighbours": Neighbours.REPLACE_ONE, "public_sizes": True}, STAYED),
    "replaced, private sizes": ({"neighbours": Neighbours.REPLACE_ONE, "public_sizes": False}, STAYED + LEFT),
}


def table(row):
    """The statistic of the other rows and of this one."""
    group, place = row
    rows = OTHERS if place is None else [*OTHERS, (group, *place)]
    names, x, y = (np.array([each[i] for each in rows], dtype=object) for i in range(3))
    return PointCounts.from_arrays(x, y, groups=names, keys=("a", "b", "empty"), cells=CELLS)


def loss_over(pairs, method, options, *, source=1):
    """The largest loss of all that is drawn, over these pairs in both directions."""

    def mechanism(points, noise):
        lines.measure(points, epsilon=EPSILON, method=method, noise=noise, **options)

    tables = {row: table(row) for pair in pairs for row in pair}
    return max(
        worst_loss(mechanism, *(tables[row] for row in way), source=SeededNoise(source))
        for one, other in pairs
        for way in ((one, other), (other, one))
    )


def share_nothing(monkeypatch):
    """As if a removal and an addition could not meet in one group."""
    monkeypatch.setattr(module, "share", lambda amount, parts: amount)


def bound_too_little(monkeypatch):
    """As if a row's features could not add up to what they do in a corner of the box."""
    monkeypatch.setattr(moments, "_BOUNDS", (1, *moments._BOUNDS[1:]))


def count_twice(monkeypatch):
    """As if a row were counted in its own group and in another."""
    inner = lines.measure

    def twice(points, **options):
        inner(points, **options)
        return inner(points, **options)

    monkeypatch.setattr(lines, "measure", twice)


class TestAllGroupsTogether(ExactAudit):
    mechanisms = {f"lines by group, {method}": method for method in PURE}
    relations = tuple(RELATIONS)
    claimed, at_least = EPSILON, 0.25
    faults = {}

    def loss(self, mechanism, relation):
        options, pairs = RELATIONS[relation]
        return loss_over(pairs, self.mechanisms[mechanism], options)


class TestNoisySums(ExactAudit):
    """They use all of epsilon."""

    mechanisms = ("lines by group, all of epsilon",)
    relations = tuple(RELATIONS)
    claimed, at_least = EPSILON, 0.9
    faults = {
        "a row leaves its group": Fault(planted={"pairs": LEFT}, relations=["replaced, public sizes"]),
        "epsilon not halved": Fault(patch=share_nothing, relations=["replaced, private sizes"]),
        "a row in two groups": Fault(patch=count_twice, relations=["added"]),
        "a bound too small": Fault(patch=bound_too_little),
    }

    def loss(self, mechanism, relation, *, pairs=None):
        options, neighbours = RELATIONS[relation]
        return loss_over(pairs or neighbours, "noisy_moments", options)


@dataclass
class Gaussian:
    """Noise that keeps what Gaussian noise was asked for, and answers what it is told."""

    answers: list | None = None
    asked: list = field(default_factory=list)
    given: list = field(default_factory=list)
    private = False
    guarantee = "NOT PRIVATE"

    def gaussian(self, values, *, rho, l2_sensitivity):
        self.asked.append((np.array(values, dtype=float), gaussian_stddev(rho, l2_sensitivity)))
        drawn = SeededNoise(3).gaussian(values, rho=rho, l2_sensitivity=l2_sensitivity)
        self.given.append(drawn if self.answers is None else self.answers[len(self.asked) - 1])
        return self.given[-1]


def rho_over(pairs, method, options):
    """The largest zCDP loss over these pairs: half of the squared distance in deviations, summed over all answers."""
    worst = 0.0
    for one, other in pairs:
        first = Gaussian()
        lines.measure(table(one), epsilon=EPSILON, delta=DELTA, method=method, noise=first, **options)
        second = Gaussian(answers=first.given)
        lines.measure(table(other), epsilon=EPSILON, delta=DELTA, method=method, noise=second, **options)
        parts = zip(first.asked, second.asked, strict=True)
        worst = max(worst, sum(((a - b) ** 2).sum() / (2 * stddev**2) for (a, stddev), (b, _) in parts))
    return worst


class TestAllGroupsTogetherWithGaussianNoise(ExactAudit):
    mechanisms = {
        f"lines by group, {name}": name for name in ("noisy_moments_zcdp", "noisy_stats_zcdp", "dp_grad_descent_zcdp")
    }
    relations = tuple(RELATIONS)
    measure, claimed, at_least = "ρ", float(rho_within(EPSILON, DELTA)), 0.04
    faults = {
        "rho not quartered": Fault(
            patch=share_nothing, relations=["replaced, private sizes"], mechanisms=[*mechanisms][:1]
        ),
    }

    def loss(self, mechanism, relation):
        options, pairs = RELATIONS[relation]
        return rho_over(pairs, self.mechanisms[mechanism], options)


EXTREMES = {
    "added": ((None, None), ("a", (1.0, 1.0))),
    "replaced, public sizes": (("a", (1.0, 1.0)), ("a", (0.5, 0.0))),
    "replaced, private sizes": (("a", (1.0, 1.0)), ("b", (0.0, 0.0))),
}


def many(row, copies):
    """The statistic of so many tables side by side, each with groups of its own."""
    one = table(row)
    keys = np.arange(copies * 3)
    x, y, groups = ([np.empty(0)] * 3 for _ in range(3))
    for place in range(3):
        u, v = one.points(place)
        missing = np.full(int(one.unusable[place]), np.nan)
        x[place], y[place] = (np.concatenate([at / (2 * CELLS), missing]) for at in (u, v))
        groups[place] = np.full(x[place].size, place)
    columns = [np.concatenate(parts) for parts in (x, y, groups)]
    size = columns[2].size
    return PointCounts.from_arrays(
        *(np.tile(column, copies) for column in columns[:2]),
        groups=(np.tile(columns[2], copies) + 3 * np.repeat(np.arange(copies), size)).astype(np.int64),
        keys=keys,
        cells=CELLS,
    )


COPIES = 100_000
"""Copies in one release: a release has at most 2^20 groups, and each copy has three."""
LARGE = 4.0
"""The loss is spread over ten numbers; for a small epsilon, outputs that show all of it are rare."""


def drawn(relation, noise, *, factor=1):
    """Log ratios of the noisy sums of whole releases, under the scales that they claim.

    Groups have noise of their own, so that one release of many copies is as good as many releases.
    """
    options, _ = RELATIONS[relation]
    pair = EXTREMES[relation]
    public = relation == "replaced, public sizes"

    def release(row, count):
        (part,) = lines.measure(
            many(row, count), epsilon=factor * LARGE, method="noisy_moments", noise=noise, **options
        ).parts
        seen, scale = part.draw, factor * part.draw.scale
        one, other = (sums_of(many(each, 1), public=public) for each in pair)
        shape = (count, 3)
        value = sum(
            log_ratio(getattr(seen, name).reshape(shape), one[name], other[name], scale)
            for name in ("x", "y", "xx", "xy")
        )
        return value + log_ratio(seen.rows.reshape(shape), one["rows"], other["rows"], 2 * scale)

    def mechanism(row, count):
        return np.concatenate([release(row, min(COPIES, count - start)) for start in range(0, count, COPIES)])

    return mechanism, *pair


def sums_of(points, *, public):
    """The exact sums about the middle of the box, of three groups."""
    found = {name: np.zeros(3) for name in ("x", "y", "xx", "xy", "rows")}
    for group in range(3):
        a, b = (place / CELLS - 1 for place in points.points(group))
        terms = {"x": a, "y": b, "xx": a * a, "xy": a * b, "rows": np.ones(a.size)}
        for name, term in terms.items():
            found[name][group] = term.sum()
        found["rows"][group] += points.unusable[group] if public else 0
    return found


class TestWholeReleases(SampledAudit):
    mechanisms = ("a release of lines by group",)
    relations = tuple(RELATIONS)
    claimed, at_least, seed, quick, thorough = LARGE, 0.4, 61, 10_000, 40_000
    faults = {"half the noise": Fault(planted={"factor": 2})}

    def mechanism(self, mechanism, relation, noise, **planted):
        return drawn(relation, noise, **planted)
