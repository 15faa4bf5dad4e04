from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.diagnostics import ecdf
from spark_jobs.diagnostics.ecdf import private_bounds
from spark_jobs.mechanisms import sparse_vector
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
from tests.support.audit import log_ratio
from tests.support.sparse_vector_loss import RecordingNoise, answer_probability

pytestmark = [pytest.mark.audit, pytest.mark.slow]

SEARCH = "search for a bound"
EPSILON = Decimal(1)
LINE = ValueGrid(lower=0, upper=1, cells=4)
WIDE = ValueGrid(lower=-16, upper=16, cells=32, scale="log", unit=1)


def table(values, grid=LINE):
    cells = grid.cell(np.array(values, dtype=float))
    return ValueCounts(counts=np.bincount(cells, minlength=grid.size), grid=grid)


BASE = [0.1, 0.1, 0.4, 0.9]
PAIRS = {
    ADDED: (table([*BASE, 0.6]), table(BASE)),
    REPLACED: (table([0.6, *BASE]), table([0.1, *BASE])),
}


def of_tree(noise, neighbours, pair):
    def mechanism(statistic, count):
        found = []
        for _ in range(count):
            noisy = ecdf.measure(statistic, epsilon=EPSILON, neighbours=neighbours, noise=noise, points=2).tree
            exact = (np.concatenate(noisy.tree.nodes(one.counts)) for one in pair)
            found.append(log_ratio(np.concatenate(noisy.nodes), *exact, noisy.scale))
        return np.array(found)

    return mechanism, *pair


class TestDistributionFunction(SampledAudit):
    mechanisms = ("distribution function",)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.3, 91, 3000, 4000
    faults = {
        **SampledAudit.faults,
        "sensitivity off by one record": Fault(noise={"missing_rows": 1}, relations=[REPLACED]),
        "budget spent twice": Fault(planted={"times": 2}),
    }

    def mechanism(self, mechanism, relation, noise, *, told=None, times=1):
        run, *pair = of_tree(noise, told or relation, PAIRS[relation])
        return (lambda table, count: sum(run(table, count) for _ in range(times))), *pair


# a row that raises every count from its own on, or moves there from the last mark
FEW = [0.5] * 6
SEARCHES = {
    ADDED: (table([0.5, *FEW], WIDE), table(FEW, WIDE)),
    REPLACED: (table([0.5, *FEW], WIDE), table([9.0, *FEW], WIDE)),
}
THRESHOLD = 7
LARGE = Decimal(3)
"""At a small epsilon, where a search ends tells little about a row that its noise is as large as."""


def of_search(noise, neighbours):
    """How early a search for the upper bound ends: the whole of its output, and earlier with more rows."""

    def mechanism(statistic, count):
        ends = private_bounds.marks(statistic.grid)
        parts = np.add.reduceat(statistic.counts, ends[:-1]).astype(np.int64)
        options = {"threshold": THRESHOLD, "epsilon": LARGE, "neighbours": neighbours, "noise": noise}
        crossings = (sparse_vector.first_crossing(parts, **options) for _ in range(count))
        return np.array([-(parts.size if found is None else found) for found in crossings], dtype=float)

    return mechanism


class TestSearch(SampledAudit):
    mechanisms = (SEARCH,)
    claimed, at_least, seed, quick, thorough = LARGE, 0.05, 5, 2000, 6000
    faults = {"half the noise": Fault(noise={"epsilon_factor": 2}, relations=[ADDED])}

    def mechanism(self, mechanism, relation, noise):
        return of_search(noise, relation), *SEARCHES[relation]


class TestExactLossOfSearch(ExactAudit):
    """The largest loss of where a search ends, from the scales that it draws with."""

    mechanisms = (SEARCH,)
    claimed, at_least = LARGE, 0.5
    faults = {name: fault for name, fault in ExactAudit.faults.items() if name != "budget spent twice"}

    def loss(self, mechanism, relation, *, less=1, told=None):
        drawn, laws = RecordingNoise(), []
        for statistic in SEARCHES[relation]:
            of_search(drawn, told or relation)(statistic, 1)
            marks = private_bounds.marks(statistic.grid)
            spare = np.cumsum(np.add.reduceat(statistic.counts, marks[:-1])) - THRESHOLD
            of_threshold, of_counts = (scale / less for scale in drawn.scales[:2])
            ends = [[False] * at + [True] for at in range(spare.size)] + [[False] * spare.size]
            laws.append([answer_probability(spare.tolist(), end, of_threshold, of_counts) for end in ends])
        return max(abs(np.log(one / two)) for one, two in zip(*laws, strict=True) if min(one, two) > 1e-12)


@pytest.mark.parametrize("neighbours", SEARCHES)
def test_a_release_with_found_bounds_spends_its_parts_and_no_more(neighbours):
    measurement = ecdf.measure(
        SEARCHES[neighbours][0],
        epsilon=EPSILON,
        neighbours=neighbours,
        noise=SeededNoise(1),
        find_bounds="log",
        points=2,
    )
    assert [spending.epsilon for spending in measurement.spendings] == [
        Decimal("0.08"), Decimal("0.08"), Decimal("0.08"), Decimal("0.76"),
    ]  # fmt: skip


@pytest.mark.parametrize("neighbours", SEARCHES)
def test_a_search_inwards_spends_its_parts_and_counts_a_row_once(neighbours):
    values = np.linspace(1.0, 1.2, 60_000)
    statistic = ValueCounts.from_arrays(values, lower=-16, upper=16, cells=4096, scale="log", unit=1)
    measurement = ecdf.measure(
        statistic, epsilon=EPSILON, neighbours=neighbours, noise=SeededNoise(1), find_bounds="linear", points=2
    )
    assert [spending.epsilon for spending in measurement.spendings] == [
        *[Decimal("0.08")] * 3, *[Decimal("0.01")] * 2, Decimal("0.74"),
    ]  # fmt: skip
    # the counts of the second pass, on which tree and searches rely, have a row in one cell each
    again = statistic.finer(measurement.grid)
    fewer = ValueCounts.from_arrays(values[1:], lower=-16, upper=16, cells=4096, scale="log", unit=1)
    assert np.abs(again - fewer.finer(measurement.grid)).sum() == 1
