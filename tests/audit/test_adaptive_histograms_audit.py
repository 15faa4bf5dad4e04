"""Histograms whose second question depends on the first answer: by what they draw, and by what they give away."""

from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms import adaptive_grid, mwem, release_histogram
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from tests.support.audit import Tampered, audit, audit_outputs, convicts, exactly, keeps, samples
from tests.support.flawed.histograms import (
    ahp_with_clusters_of_exact_counts,
    grid_cut_by_exact_counts,
    mwem_with_the_exact_total,
)
from tests.support.transcripts import Transcripts

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal("1.5")
ROUNDS = 3
NAMES = ["ahp", "adaptive_grid", "mwem"]
BASES = np.array([30, 0, 2, 0]), np.array([0, 40, 0, 0])
FIRST, LAST = np.array([1, 0, 0, 0]), np.array([0, 0, 0, 1])
PAIRS = {
    Neighbours.ADD_REMOVE: [(base + FIRST, base) for base in BASES],
    Neighbours.REPLACE_ONE: [(base + FIRST, base + LAST) for base in BASES],
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Two blocks of a grid and three rounds, so that four cells show all that a method does."""
    monkeypatch.setattr(adaptive_grid, "FIRST", 2)
    monkeypatch.setattr(mwem, "rounds", lambda worth, cells: ROUNDS)


@dataclass
class Watched:
    """A method whose draws are remembered, with as much noise as planted; times ``less`` of it, for one row's change.

    Attributes:
        less: the noise of counts and of choices is divided by this.
        spent: what the method is told it may cost.
        told: the relation that the method is told.
    """

    name: str
    neighbours: Neighbours
    patch: Any
    less: int = 1
    spent: Decimal = EPSILON
    told: Neighbours | None = None

    def transcripts(self):
        def run(table, source):
            noise = Tampered(source=source, epsilon_factor=self.less)
            relation = self.told or self.neighbours
            release_histogram(table, epsilon=self.spent, neighbours=relation, noise=noise, method=self.name)

        def use(chooser):
            def choose(scores, *, epsilon, **options):
                return chooser(scores, epsilon=self.less * epsilon, **options)

            self.patch.setattr(mwem, "exponential_mechanism", choose)

        return Transcripts(run, use)

    def worst(self, runs=40):
        """The largest log ratio of what was drawn, over runs on all tables: pure privacy bounds every one of them."""
        transcripts = self.transcripts()
        tables = [pair[::step] for pair in PAIRS[self.neighbours] for step in (1, -1)]
        drawn = (transcripts.evidence(*pair, SeededNoise(seed)) for pair in tables for seed in range(runs))
        return exactly(max(drawn))

    def sampled(self, noise, pair):
        """The log ratios of runs, as a statistic of them."""
        transcripts = self.transcripts()

        def mechanism(table, count):
            other, sign = (pair[1], 1) if table is pair[0] else (pair[0], -1)
            return np.array([sign * transcripts.evidence(table, other, noise) for _ in range(count)])

        return mechanism, *pair


@pytest.fixture
def watched(monkeypatch):
    """``Watched`` methods, taken apart again after the test."""
    return partial(Watched, patch=monkeypatch)


EACH = pytest.mark.parametrize("name", NAMES)
BOTH = pytest.mark.parametrize("neighbours", list(Neighbours), ids=["added", "replaced"])


@EACH
@BOTH
def test_no_draw_tells_more_than_epsilon(watched, name, neighbours):
    # a row moves the score of the query that is picked, and not always the one that would tell most
    least = 0.65 if name == "mwem" else 0.95
    found = watched(name, neighbours).worst()
    assert keeps(found, f"histogram, {name}", relation=neighbours, claimed=EPSILON, at_least=least)


@pytest.mark.sampled("name")
@EACH
@BOTH
def test_samples_keep_epsilon(watched, name, neighbours):
    epsilon, pair = 4 * EPSILON, PAIRS[neighbours][name == "mwem"]
    sampled = watched(name, neighbours, spent=epsilon).sampled(SecureNoise(), pair)
    found = audit(*sampled, samples=samples(300), threshold=0.0)
    least = 0.05 if name == "mwem" else 0.1
    assert keeps(found, f"histogram, {name}", relation=neighbours, claimed=epsilon, at_least=least)


@pytest.mark.sampled("name")
@EACH
@BOTH
@pytest.mark.parametrize(
    ("fault", "planted"),
    [("half the noise", {"less": 2}), ("budget spent twice", {"spent": 2 * EPSILON})],
    ids=["halved", "twice"],
)
def test_too_little_noise_is_convicted(watched, name, neighbours, fault, planted):
    found = watched(name, neighbours, **planted).worst()
    assert convicts(found, f"histogram, {name}", relation=neighbours, claimed=EPSILON, fault=fault)


@pytest.mark.parametrize("name", ["ahp", "adaptive_grid"])
def test_noise_for_an_added_row_is_convicted_where_rows_are_replaced(watched, name):
    found = watched(name, Neighbours.REPLACE_ONE, told=Neighbours.ADD_REMOVE).worst()
    relation, fault = Neighbours.REPLACE_ONE, "sensitivity off by one record"
    assert convicts(found, f"histogram, {name}", relation=relation, claimed=EPSILON, fault=fault)


def shape_of(flawed, epsilon):
    """Which cells share an estimate, as a code: the shape of a release."""

    def mechanism(table, count):
        codes = []
        for seed in range(count):
            cells = flawed(table, epsilon=epsilon, noise=SeededNoise(seed))
            codes.append(int("".join("1" if same else "0" for same in np.diff(cells) == 0), 2))
        return np.array(codes)

    return mechanism


def size_of(table, count):
    return np.array(
        [
            round(float(mwem_with_the_exact_total(table, epsilon=float(EPSILON), noise=SeededNoise(seed)).sum()))
            for seed in range(count)
        ]
    )


@pytest.mark.verify
@pytest.mark.parametrize(
    ("name", "mechanism", "pair", "fault"),
    [
        (
            "ahp",
            shape_of(ahp_with_clusters_of_exact_counts, 3.0),
            (np.array([90, 90, 0, 0]), np.array([90, 91, 0, 0])),
            "clusters of exact counts",
        ),
        (
            "adaptive_grid",
            shape_of(grid_cut_by_exact_counts, 1.5),
            (np.array([3, 0, 0, 0]), np.array([4, 0, 0, 0])),
            "parts by exact counts",
        ),
        ("mwem", size_of, PAIRS[Neighbours.ADD_REMOVE][0], "exact total"),
    ],
    ids=NAMES,
)
def test_a_shape_that_no_noise_covers_is_convicted(name, mechanism, pair, fault):
    found = audit_outputs(mechanism, *pair, samples=samples(1500))
    assert convicts(found, f"histogram, {name}", relation=Neighbours.ADD_REMOVE, claimed=3, fault=fault)
