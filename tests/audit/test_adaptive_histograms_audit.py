"""Histograms whose second question depends on the first answer: by what they draw, and by what they give away."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms import adaptive_grid, mwem, release_histogram
from spark_jobs.mechanisms.noise import SeededNoise
from tests.support.audit import Tampered, audit, audit_outputs, convicts, keeps, samples
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
BASE = np.array([30, 0, 2, 0])
FIRST, LAST = np.array([1, 0, 0, 0]), np.array([0, 0, 0, 1])
PAIRS = {Neighbours.ADD_REMOVE: (BASE + FIRST, BASE), Neighbours.REPLACE_ONE: (BASE + FIRST, BASE + LAST)}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Two blocks of a grid and three rounds, so that four cells show all that a method does."""
    monkeypatch.setattr(adaptive_grid, "FIRST", 2)
    monkeypatch.setattr(mwem, "rounds", lambda worth, cells: ROUNDS)


@pytest.fixture
def evidence_of(monkeypatch):
    """The log ratio of everything a method drew, from a method, a relation and a source of noise."""

    def build(name, neighbours, noise, *, pair=None, spent=EPSILON):
        first, second = pair or PAIRS[neighbours]

        def run(table, source):
            release_histogram(table, epsilon=spent, neighbours=neighbours, noise=source, method=name)

        transcripts = Transcripts(run, lambda chooser: monkeypatch.setattr(mwem, "exponential_mechanism", chooser))

        def mechanism(table, count):
            other, sign = (second, 1) if table is first else (first, -1)
            return np.array([sign * transcripts.evidence(table, other, noise) for _ in range(count)])

        return mechanism, first, second

    return build


def drawn(name, neighbours):
    """How often to sample: MWEM's exact choices take ten times as long as noise; a replaced row moves more, by less."""
    return samples(500 if name == "mwem" else 1800 if neighbours is Neighbours.ADD_REMOVE else 3000)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_method_keeps_epsilon(evidence_of, name, neighbours):
    found = audit(*evidence_of(name, neighbours, SeededNoise(60)), samples=samples(500))
    assert keeps(found, f"histogram, {name}", relation=neighbours, claimed=EPSILON)


@pytest.mark.parametrize(
    ("name", "factor", "fault"),
    [
        ("ahp", 2, "half the noise"),
        ("adaptive_grid", 2, "half the noise"),
        ("mwem", 2 * ROUNDS, "every answer at the whole budget"),
    ],
    ids=NAMES,
)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_too_little_noise_is_convicted(evidence_of, name, factor, fault, neighbours):
    noise = Tampered(source=SeededNoise(61), epsilon_factor=factor)
    found = audit(*evidence_of(name, neighbours, noise), samples=drawn(name, neighbours))
    assert convicts(found, f"histogram, {name}", relation=neighbours, claimed=EPSILON, fault=fault)


@pytest.mark.parametrize("name", ["ahp", "adaptive_grid"])
def test_noise_for_an_added_row_is_convicted_where_rows_are_replaced(evidence_of, name):
    mechanism = evidence_of(name, Neighbours.ADD_REMOVE, SeededNoise(62), pair=PAIRS[Neighbours.REPLACE_ONE])
    found = audit(*mechanism, samples=drawn(name, Neighbours.REPLACE_ONE))
    relation, fault = Neighbours.REPLACE_ONE, "sensitivity off by one record"
    assert convicts(found, f"histogram, {name}", relation=relation, claimed=EPSILON, fault=fault)


@pytest.mark.parametrize(
    ("name", "times", "fault"),
    [
        ("ahp", 2, "budget spent twice"),
        ("adaptive_grid", 2, "budget spent twice"),
        ("mwem", 2 * ROUNDS, "every pick and answer at the whole budget"),
    ],
    ids=NAMES,
)
def test_a_budget_spent_again_is_convicted(evidence_of, name, times, fault):
    mechanism = evidence_of(name, Neighbours.ADD_REMOVE, SeededNoise(63), spent=times * EPSILON)
    found = audit(*mechanism, samples=drawn(name, Neighbours.ADD_REMOVE))
    assert convicts(found, f"histogram, {name}", relation=Neighbours.ADD_REMOVE, claimed=EPSILON, fault=fault)


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
        ("mwem", size_of, (BASE + FIRST, BASE), "exact total"),
    ],
    ids=NAMES,
)
def test_a_shape_that_no_noise_covers_is_convicted(name, mechanism, pair, fault):
    found = audit_outputs(mechanism, *pair, samples=samples(1500))
    assert convicts(found, f"histogram, {name}", relation=Neighbours.ADD_REMOVE, claimed=3, fault=fault)
