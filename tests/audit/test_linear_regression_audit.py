"""Lines of many groups: what all of a release loses when one row changes, in its group or from one to another."""

from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import linear_regression as lines
from spark_jobs.diagnostics.linear_regression import noisy_lines as module
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise, gaussian_stddev
from spark_jobs.mechanisms.zcdp import rho_within
from spark_jobs.statistics import PointCounts
from tests.support.audit import audit, convicts, exactly, keeps, log_ratio, samples
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
EVERY_RELATION = pytest.mark.parametrize("relation", RELATIONS)


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


@EVERY_RELATION
@pytest.mark.parametrize("method", PURE)
def test_all_groups_together_keep_epsilon(method, relation):
    options, pairs = RELATIONS[relation]
    found = exactly(loss_over(pairs, method, options))
    assert keeps(found, f"lines by group, {method}", relation=relation, claimed=EPSILON, at_least=0.25)


@EVERY_RELATION
def test_noisy_sums_use_all_of_it(relation):
    options, pairs = RELATIONS[relation]
    found = exactly(loss_over(pairs, "noisy_moments", options))
    assert keeps(found, "lines by group, all of epsilon", relation=relation, claimed=EPSILON, at_least=0.9)


def test_a_row_that_leaves_its_group_is_convicted_where_sizes_are_called_public():
    options, _ = RELATIONS["replaced, public sizes"]
    found = exactly(loss_over(LEFT, "noisy_moments", options))
    assert convicts(
        found, "lines by group", relation="replaced, public sizes", claimed=EPSILON, fault="a row leaves its group"
    )


def test_budgets_that_are_not_halved_are_convicted_where_sizes_are_private(monkeypatch):
    monkeypatch.setattr(module, "share", lambda amount, parts: amount)
    options, pairs = RELATIONS["replaced, private sizes"]
    found = exactly(loss_over(pairs, "noisy_moments", options))
    assert convicts(
        found, "lines by group", relation="replaced, private sizes", claimed=EPSILON, fault="epsilon not halved"
    )


def test_groups_that_share_rows_are_convicted(monkeypatch):
    """As if a row were counted in its own group and in another."""
    inner = lines.measure

    def twice(points, **options):
        inner(points, **options)
        return inner(points, **options)

    monkeypatch.setattr(lines, "measure", twice)
    found = exactly(loss_over(ADDED, "noisy_moments", {"neighbours": Neighbours.ADD_REMOVE}))
    assert convicts(found, "lines by group", relation="added", claimed=EPSILON, fault="a row in two groups")


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


@EVERY_RELATION
@pytest.mark.parametrize("method", ["noisy_moments_zcdp", "noisy_stats_zcdp", "dp_grad_descent_zcdp"])
def test_all_groups_together_keep_rho(method, relation):
    options, pairs = RELATIONS[relation]
    claimed = float(rho_within(EPSILON, DELTA))
    found = exactly(rho_over(pairs, method, options), measure="ρ")
    assert keeps(found, f"lines by group, {method}", relation=relation, claimed=claimed, at_least=0.04)


def test_a_rho_that_is_not_quartered_is_convicted_where_a_removal_and_an_addition_meet_in_one_group(monkeypatch):
    monkeypatch.setattr(module, "share", lambda amount, parts: amount)
    options, pairs = RELATIONS["replaced, private sizes"]
    claimed = float(rho_within(EPSILON, DELTA))
    found = exactly(rho_over(pairs, "noisy_moments_zcdp", options), measure="ρ")
    assert convicts(
        found, "lines by group", relation="replaced, private sizes", claimed=claimed, fault="rho not quartered"
    )


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


LARGE = 4.0
"""The loss is spread over ten numbers; for a small epsilon, outputs that show all of it are rare."""


def drawn(relation, noise, *, factor=1):
    """Log ratios of the noisy sums of whole releases, under the scales that they claim.

    Groups have noise of their own, so that one release of many copies is as good as many releases.
    """
    options, _ = RELATIONS[relation]
    pair = EXTREMES[relation]
    public = relation == "replaced, public sizes"

    def mechanism(row, count):
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


@pytest.mark.sampled
@EVERY_RELATION
def test_whole_releases_keep_epsilon_and_use_it(relation):
    found = audit(*drawn(relation, SecureNoise()), samples=samples(10_000))
    assert keeps(found, "a release of lines by group", relation=relation, claimed=LARGE, at_least=0.4)


@pytest.mark.verify
@EVERY_RELATION
def test_half_the_noise_is_convicted(relation):
    found = audit(*drawn(relation, SeededNoise(61), factor=2), samples=samples(40_000))
    assert convicts(found, "a release of lines by group", relation=relation, claimed=LARGE, fault="half the noise")
