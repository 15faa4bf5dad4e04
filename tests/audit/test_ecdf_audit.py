from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import ecdf
from spark_jobs.diagnostics.ecdf import private_bounds
from spark_jobs.mechanisms import sparse_vector
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid
from tests.support.audit import Tampered, audit, convicts, exactly, keeps, log_ratio, samples
from tests.support.sparse_vector_loss import RecordingNoise, answer_probability

pytestmark = [pytest.mark.audit, pytest.mark.slow]

NAME, SEARCH = "distribution function", "search for a bound"
EPSILON = Decimal(1)
LINE = ValueGrid(lower=0, upper=1, cells=4)
WIDE = ValueGrid(lower=-16, upper=16, cells=32, scale="log", unit=1)


def table(values, grid=LINE):
    cells = grid.cell(np.array(values, dtype=float))
    return ValueCounts(counts=np.bincount(cells, minlength=grid.size), grid=grid)


BASE = [0.1, 0.1, 0.4, 0.9]
PAIRS = pytest.mark.parametrize(
    ("neighbours", "pair"),
    [
        (Neighbours.ADD_REMOVE, (table([*BASE, 0.6]), table(BASE))),
        (Neighbours.REPLACE_ONE, (table([0.6, *BASE]), table([0.1, *BASE]))),
    ],
    ids=["added", "replaced"],
)


def of_tree(noise, neighbours, pair):
    def mechanism(statistic, count):
        found = []
        for _ in range(count):
            noisy = ecdf.measure(statistic, epsilon=EPSILON, neighbours=neighbours, noise=noise, points=2).tree
            exact = (np.concatenate(noisy.tree.nodes(one.counts)) for one in pair)
            found.append(log_ratio(np.concatenate(noisy.nodes), *exact, noisy.scale))
        return np.array(found)

    return mechanism, *pair


@pytest.mark.sampled
@PAIRS
def test_an_ecdf_release_keeps_epsilon_and_uses_it(neighbours, pair):
    found = audit(*of_tree(SecureNoise(), neighbours, pair), samples=samples(3000))
    assert keeps(found, NAME, relation=neighbours, claimed=EPSILON, at_least=0.3)


@pytest.mark.verify
@PAIRS
def test_half_the_noise_is_convicted(neighbours, pair):
    noise = Tampered(source=SeededNoise(91), epsilon_factor=2)
    found = audit(*of_tree(noise, neighbours, pair), samples=samples(4000))
    assert convicts(found, NAME, relation=neighbours, claimed=EPSILON, fault="half the noise")


@pytest.mark.verify
def test_a_sensitivity_that_is_one_row_too_low_is_convicted():
    pair = table([0.6, *BASE]), table([0.1, *BASE])
    noise = Tampered(source=SeededNoise(92), missing_rows=1)
    found = audit(*of_tree(noise, Neighbours.REPLACE_ONE, pair), samples=samples(4000))
    assert convicts(
        found, NAME, relation=Neighbours.REPLACE_ONE, claimed=EPSILON, fault="sensitivity off by one record"
    )


@pytest.mark.verify
def test_noise_for_an_added_row_is_convicted_where_rows_are_replaced():
    pair = table([0.6, *BASE]), table([0.1, *BASE])
    found = audit(*of_tree(SeededNoise(93), Neighbours.ADD_REMOVE, pair), samples=samples(4000))
    assert convicts(found, NAME, relation=Neighbours.REPLACE_ONE, claimed=EPSILON, fault="noise for an added row")


@pytest.mark.verify
@PAIRS
def test_a_budget_spent_twice_is_convicted(neighbours, pair):
    noise = SeededNoise(94)
    once = of_tree(noise, neighbours, pair)[0]

    def twice(statistic, count):
        return once(statistic, count) + once(statistic, count)

    found = audit(twice, *pair, samples=samples(4000))
    assert convicts(found, NAME, relation=neighbours, claimed=EPSILON, fault="budget spent twice")


# a row that raises every count from its own on, or moves there from the last mark
FEW = [0.5] * 6
SEARCHES = pytest.mark.parametrize(
    ("neighbours", "pair"),
    [
        (Neighbours.ADD_REMOVE, (table([0.5, *FEW], WIDE), table(FEW, WIDE))),
        (Neighbours.REPLACE_ONE, (table([0.5, *FEW], WIDE), table([9.0, *FEW], WIDE))),
    ],
    ids=["added", "replaced"],
)
THRESHOLD = 7
LARGE = Decimal(3)
"""At a small epsilon, where a search ends tells little about a row that its noise is as large as."""


def of_search(noise, neighbours, told=None):
    """How early a search for the upper bound ends: the whole of its output, and earlier with more rows."""

    def mechanism(statistic, count):
        ends = private_bounds.marks(statistic.grid)
        parts = np.add.reduceat(statistic.counts, ends[:-1]).astype(np.int64)
        options = {"threshold": THRESHOLD, "epsilon": LARGE, "neighbours": told or neighbours, "noise": noise}
        crossings = (sparse_vector.first_crossing(parts, **options) for _ in range(count))
        return np.array([-(parts.size if found is None else found) for found in crossings], dtype=float)

    return mechanism


@pytest.mark.sampled
@SEARCHES
def test_a_search_for_a_bound_keeps_epsilon_and_uses_it(neighbours, pair):
    found = audit(of_search(SecureNoise(), neighbours), *pair, samples=samples(2000))
    assert keeps(found, SEARCH, relation=neighbours, claimed=LARGE, at_least=0.05)


@pytest.mark.verify
def test_a_search_with_half_the_noise_is_convicted():
    added = (table([0.5, *FEW], WIDE), table(FEW, WIDE))
    noise = Tampered(source=SeededNoise(5), epsilon_factor=2)
    found = audit(of_search(noise, Neighbours.ADD_REMOVE), *added, samples=samples(6000))
    assert convicts(found, SEARCH, relation=Neighbours.ADD_REMOVE, claimed=LARGE, fault="half the noise")


def search_loss(neighbours, pair, *, less=1, told=None):
    """The largest loss of where a search ends, from the scales that it draws with."""
    drawn, laws = RecordingNoise(), []
    for statistic in pair:
        of_search(drawn, neighbours, told)(statistic, 1)
        marks = private_bounds.marks(statistic.grid)
        spare = np.cumsum(np.add.reduceat(statistic.counts, marks[:-1])) - THRESHOLD
        of_threshold, of_counts = (scale / less for scale in drawn.scales[:2])
        ends = [[False] * at + [True] for at in range(spare.size)] + [[False] * spare.size]
        laws.append([answer_probability(spare.tolist(), end, of_threshold, of_counts) for end in ends])
    return exactly(max(abs(np.log(one / two)) for one, two in zip(*laws, strict=True) if min(one, two) > 1e-12))


@SEARCHES
def test_the_exact_loss_of_a_search(neighbours, pair):
    said = {"relation": neighbours, "claimed": LARGE}
    assert keeps(search_loss(neighbours, pair), SEARCH, **said, at_least=0.5)
    assert convicts(search_loss(neighbours, pair, less=2), SEARCH, **said, fault="half the noise")
    if neighbours is Neighbours.REPLACE_ONE:
        added = search_loss(neighbours, pair, told=Neighbours.ADD_REMOVE)
        assert convicts(added, SEARCH, **said, fault="noise for an added row")


@SEARCHES
def test_a_release_with_found_bounds_spends_its_parts_and_no_more(neighbours, pair):
    measurement = ecdf.measure(
        pair[0], epsilon=EPSILON, neighbours=neighbours, noise=SeededNoise(1), find_bounds="log", points=2
    )
    assert [spending.epsilon for spending in measurement.spendings] == [
        Decimal("0.08"), Decimal("0.08"), Decimal("0.08"), Decimal("0.76"),
    ]  # fmt: skip
