"""What histograms cost, computed exactly: by the laws of partitions, and by the vectors that get noise."""

import itertools
import math
from decimal import Decimal
from functools import partial

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.histograms.dawa import spread_totals
from spark_jobs.papers.histograms.partition import private_partition
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
from tests.support.audit import Tampered, convicts, exactly, keeps
from tests.support.flawed.dawa_partition import FAULTS, published_partition
from tests.support.noises import worst_loss
from tests.support.partition_loss import all_alone, partition_law, partition_loss, recorded, recorded_laws

pytestmark = pytest.mark.audit

STEPS, PENALTY = 2, 2.0
FINE = 6
"""Steps in which a third of a row can be told: three cells move each other by thirds."""


def loss_of(find, first, second, *, penalty=PENALTY, steps=STEPS, **options):
    """The exact loss of a partition between two tables."""
    laws = [partition_law(recorded_laws(find, np.array(x), **options), round(penalty * steps)) for x in (first, second)]
    for law in laws:
        assert sum(law.values()) == pytest.approx(1, abs=1e-9), "the laws are whole"
    return partition_loss(*laws)


def ours(neighbours, *, tamper=lambda noise: noise, penalty=PENALTY, steps=STEPS, epsilon=1):
    def find(counts, noise):
        return private_partition(
            counts, epsilon=epsilon, penalty=penalty, neighbours=neighbours, noise=tamper(noise), steps=steps
        )

    return find


def published(faults, *, penalty=PENALTY, steps=STEPS):
    def find(counts, noise):
        return published_partition(counts, epsilon=1, penalty=penalty, noise=noise, steps=steps, faults=faults)

    return find


def tables(cells, neighbours):
    """Pairs of neighbours, plain and extreme."""
    random = np.random.default_rng(cells)
    lines = [np.zeros(cells, int), *(random.choice([0, 1, 3, 20], (6, cells)))]
    one = np.eye(cells, dtype=int)
    for line in lines:
        for place in range(min(cells, 4)):
            moved = line - one[(place + cells // 2) % cells] if neighbours is REPLACED else line
            yield line, moved + one[place]


PARTITION = "private partition"


@pytest.mark.parametrize("cells", [2, 3, 4, 6])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_partition_costs_no_more_than_epsilon(cells, neighbours):
    worst = max(loss_of(ours(neighbours), *pair) for pair in tables(cells, neighbours))
    assert keeps(exactly(worst), f"{PARTITION}, {cells} cells", relation=neighbours, claimed=1, at_least=0.1)


def test_a_partition_of_a_longer_line_costs_no_more():
    for pair in itertools.islice(tables(8, ADDED), 3):
        assert loss_of(ours(ADDED), *pair) <= 1


# the dear third cell makes the whole line a rival of the first pair, and one row moves their costs apart
SHARP = ([0, 0, 80], [0, 1, 80])
SHARP_PENALTIES = (60.0, 80.0, 107.0, 135.0)


def sharpest(find, pair=SHARP, **options):
    """The worst loss over penalties that set the pair against the whole line."""
    return max(
        loss_of(find(penalty=penalty, steps=FINE), *pair, penalty=penalty, steps=FINE, **options)
        for penalty in SHARP_PENALTIES
    )


@pytest.mark.parametrize("faults", [("half",), FAULTS])
def test_the_published_partition_is_convicted(faults):
    floor = 0 if "clipped" in faults else None
    found = exactly(sharpest(partial(published, faults), floor=floor))
    assert convicts(found, PARTITION, relation=ADDED, claimed="1", fault=f"as published: {', '.join(faults)}")


def test_the_corrected_partition_withstands_the_same_tables():
    found = exactly(sharpest(partial(ours, ADDED)))
    assert keeps(found, PARTITION, relation=ADDED, claimed=1, at_least=0.5)


def test_bare_single_cells_cost_more_the_longer_the_line():
    losses = {}
    for cells in (4, 16, 256, 1024):
        line, more = np.zeros(cells, int), np.eye(1, cells, dtype=int)[0]
        chances = [all_alone(recorded(published(("bare",)), counts), round(PENALTY * STEPS)) for counts in (line, more)]
        losses[cells] = abs(chances[0] - chances[1])
    assert losses[4] < losses[16] < losses[256] < losses[1024]
    assert losses[16] > 1.5
    assert losses[1024] > 3.7


@pytest.mark.parametrize("fault", ["bare", "clipped"])
def test_each_of_these_faults_is_enough_by_itself(fault):
    pair, floor = (np.zeros(8, int), np.eye(1, 8, k=1, dtype=int)[0]), 0 if fault == "clipped" else None
    losses = [loss_of(published((fault,), penalty=p), *pair, penalty=p, floor=floor) for p in (2.0, 8.0)]
    assert max(losses) > 1.1


def test_with_noise_on_single_cells_the_same_lines_are_private():
    line, more = np.zeros(8, int), np.eye(1, 8, dtype=int)[0]
    for penalty in (0.0, 0.5, PENALTY, 8.0):
        assert loss_of(ours(ADDED, penalty=penalty), line, more, penalty=penalty) <= 1


def test_half_the_noise_is_convicted():
    found = exactly(sharpest(partial(ours, ADDED, tamper=partial(Tampered, epsilon_factor=2))))
    assert convicts(found, PARTITION, relation=ADDED, claimed=1, fault="half the noise")


def test_noise_for_an_added_row_is_convicted_where_one_is_replaced():
    moved = ([0, 1, 80], [0, 0, 81])
    added, own = (exactly(sharpest(partial(ours, each), moved)) for each in (ADDED, REPLACED))
    assert convicts(added, PARTITION, relation=REPLACED, claimed=1, fault="noise for an added row")
    assert keeps(own, PARTITION, relation=REPLACED, claimed=1, at_least=0.4)
    halved = exactly(sharpest(partial(ours, REPLACED, tamper=partial(Tampered, epsilon_factor=2)), moved))
    assert convicts(halved, PARTITION, relation=REPLACED, claimed=1, fault="half the noise")


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_totals_of_a_released_partition_cost_their_share(neighbours):
    line = np.array([4, 0, 9, 9, 1, 0])
    for starts in ([0], [0, 1, 2, 3, 4, 5], [0, 2, 4], [0, 4]):

        def mechanism(table, noise, starts=starts):
            options = {"epsilon": Decimal("0.75"), "neighbours": neighbours, "noise": noise, "public_total": False}
            spread_totals(table, np.array(starts), **options)

        for place in range(6):
            more = line + np.eye(6, dtype=int)[place] - (np.eye(6, dtype=int)[0] if neighbours is REPLACED else 0)
            assert worst_loss(mechanism, line, more) <= Decimal("0.75")


def test_a_whole_dawa_pays_for_both_stages():
    made = release_histogram(np.arange(16), epsilon=1, noise=SeededNoise(1), method="dawa")
    assert [event.epsilon for event in made.spendings] == [Decimal("0.25"), Decimal("0.75")]


def vector_losses(neighbours, mechanism):
    counts = np.array([3, 0, 0, 40, 1, 0, 2, 7, 90, 4, 0, 0, 8, 8, 1, 1])

    one = np.eye(16, dtype=int)
    for place in range(16):
        more = counts + one[place] - (one[3] if neighbours is REPLACED else 0)
        yield worst_loss(mechanism, counts, more)


class TestVectors(ExactAudit):
    """What gets noise, of the methods that measure more than a total."""

    mechanisms = {f"histogram, {name}": name for name in ("geometric", "laplace", "hb", "greedy_h")}
    claimed, at_least = 1, 0.9

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        def run(table, noise):
            for _ in range(times):
                source = Tampered(source=noise, epsilon_factor=less)
                name = self.mechanisms[mechanism]
                release_histogram(table, epsilon=1, noise=source, neighbours=told or relation, method=name)

        return max(vector_losses(relation, run))


class TestTotal(TestVectors):
    """A replaced row moves no total: all of the noise is spare."""

    mechanisms = {"histogram, uniform": "uniform"}
    faults = {
        "half the noise": Fault(planted={"less": 2}, relations=[ADDED]),
        "budget spent twice": Fault(planted={"times": 2}, relations=[ADDED]),
    }

    def floor(self, mechanism, relation):
        return 0.9 if relation is ADDED else 0


LARGE = 2
"""At a small epsilon, partitions that tell tables apart are too rare to be sampled."""
SAMPLED = {ADDED: (SHARP, 107.0), REPLACED: (([0, 1, 80], [0, 0, 81]), 108.0)}


def sampler(noise, neighbours, *, less=1):
    """Log ratios of the laws of partitions under two tables, at partitions that were drawn."""
    pair, penalty = SAMPLED[neighbours]
    tamper = partial(Tampered, epsilon_factor=less)
    find = ours(neighbours, tamper=tamper, penalty=penalty, steps=FINE, epsilon=LARGE)
    laws = [partition_law(recorded_laws(find, np.array(x)), round(penalty * FINE)) for x in pair]
    ratios = {key: math.log((laws[0][key] + 1e-13) / (laws[1][key] + 1e-13)) for key in laws[0]}

    def mechanism(table, count):
        return np.array([ratios[tuple(find(np.array(table), noise).tolist())] for _ in range(count)])

    return mechanism, *pair


class TestSampledPartitions(SampledAudit):
    """Secure noise, the whole code: no event of the partition's own log ratio tells the tables further apart."""

    mechanisms = (PARTITION,)
    claimed, at_least, seed, quick, thorough = LARGE, 0.05, 9, 1000, 4000
    shipped_options = {"threshold": 0.0}
    faults = {"a quarter of the noise": Fault(planted={"less": 4})}

    def mechanism(self, mechanism, relation, noise, **planted):
        return sampler(noise, relation, **planted)
