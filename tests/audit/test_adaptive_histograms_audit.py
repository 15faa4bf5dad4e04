"""Histograms whose second question depends on the first answer: by what they draw, and by what they give away."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.mechanisms.histograms import release_histogram, shrunken_tree
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.histograms import adaptive_grid, mwem
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
from tests.support.audit import Tampered, audit_outputs, convicts, samples
from tests.support.flawed.histograms import (
    ahp_with_clusters_of_exact_counts,
    grid_cut_by_exact_counts,
    mwem_with_the_exact_total,
    tree_of_levels_by_exact_counts,
)
from tests.support.transcripts import Transcripts

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal("1.5")
ROUNDS = 3
NAMES = ["ahp", "adaptive_grid", "mwem", "shrunken_tree"]
MECHANISMS = {f"histogram, {name}": name for name in NAMES}
BASES = np.array([30, 0, 2, 0]), np.array([0, 40, 0, 0])
FIRST, LAST = np.array([1, 0, 0, 0]), np.array([0, 0, 0, 1])
PAIRS = {
    ADDED: [(base + FIRST, base) for base in BASES],
    REPLACED: [(base + FIRST, base + LAST) for base in BASES],
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Two blocks and three rounds, so that four cells show all that a method does."""
    monkeypatch.setattr(adaptive_grid, "FIRST", 2)
    monkeypatch.setattr(shrunken_tree, "MIN_BLOCKS", 2)
    monkeypatch.setattr(mwem, "rounds", lambda worth, cells: ROUNDS)


@pytest.fixture
def chooser(monkeypatch):
    """Puts the choice of queries back that transcripts take the place of."""
    monkeypatch.setattr(mwem, "exponential_mechanism", mwem.exponential_mechanism)


def transcripts_of(name, relation, *, less=1, spent=EPSILON, told=None):
    """A method's draws, with as much noise as planted.

    Args:
        less: the noise of counts and of choices is divided by this.
        spent: what the method is told it may cost.
        told: the relation that the method is told.
    """

    def run(table, source):
        noise = Tampered(source=source, epsilon_factor=less)
        # blocks of a tree are those of a grid
        table = table.reshape(2, 2) if name == "shrunken_tree" else table
        release_histogram(table, epsilon=spent, neighbours=told or relation, noise=noise, method=name)

    def use(chooser):
        def choose(scores, *, epsilon, **options):
            return chooser(scores, epsilon=less * epsilon, **options)

        mwem.exponential_mechanism = choose

    return Transcripts(run, use)


@pytest.mark.usefixtures("chooser")
class TestDraws(ExactAudit):
    """The largest log ratio of what was drawn, over runs on all tables: pure privacy bounds every one of them."""

    mechanisms = MECHANISMS
    claimed = EPSILON
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "budget spent twice": Fault(planted={"spent": 2 * EPSILON}),
        "sensitivity off by one record": Fault(
            planted={"told": ADDED}, relations=[REPLACED], mechanisms=[*MECHANISMS][:2] + [*MECHANISMS][3:]
        ),
    }

    def floor(self, mechanism, relation):
        # a row moves the score of the query that is picked, and not always the one that would tell most
        return 0.65 if mechanism == "histogram, mwem" else 0.95

    def loss(self, mechanism, relation, **planted):
        transcripts = transcripts_of(MECHANISMS[mechanism], relation, **planted)
        tables = [pair[::step] for pair in PAIRS[relation] for step in (1, -1)]
        return max(transcripts.evidence(*pair, SeededNoise(seed)) for pair in tables for seed in range(40))


@pytest.mark.usefixtures("chooser")
class TestSamples(SampledAudit):
    mechanisms = MECHANISMS
    claimed, quick = 4 * EPSILON, 300
    options = {"threshold": 0.0}
    kept = tuple(name for name in MECHANISMS if name != "histogram, mwem")
    faults = {}

    def floor(self, mechanism, relation):
        return 0.05 if mechanism == "histogram, mwem" else 0.1

    def mechanism(self, mechanism, relation, noise):
        """The log ratios of runs, as a statistic of them."""
        name = MECHANISMS[mechanism]
        pair = PAIRS[relation][name == "mwem"]
        transcripts = transcripts_of(name, relation, spent=self.claimed)

        def run(table, count):
            other, sign = (pair[1], 1) if table is pair[0] else (pair[0], -1)
            return np.array([sign * transcripts.evidence(table, other, noise) for _ in range(count)])

        return run, *pair


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
        ("mwem", size_of, PAIRS[ADDED][0], "exact total"),
        (
            "shrunken_tree",
            shape_of(tree_of_levels_by_exact_counts, 1.5),
            (np.array([3, 0, 0, 0]), np.array([4, 0, 0, 0])),
            "levels by exact counts",
        ),
    ],
    ids=NAMES,
)
def test_a_shape_that_no_noise_covers_is_convicted(name, mechanism, pair, fault):
    found = audit_outputs(mechanism, *pair, samples=samples(1500))
    assert convicts(found, f"histogram, {name}", relation=ADDED, claimed=3, fault=fault)
