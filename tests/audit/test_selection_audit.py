"""Choices: by the index that comes out, which is all that they release; here, whether it is the first."""

import itertools

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import quantiles
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.quantiles import private_quantile
from spark_jobs.mechanisms.selection import (
    exponential_mechanism,
    interval_exponential,
    median_by_exponential,
    permute_and_flip,
    report_noisy_max,
)
from tests.support.audit import Tampered, audit, convicts, exactly, keeps, samples
from tests.support.neighbouring import neighbouring
from tests.support.selection_loss import exponential_probabilities, flip_probabilities, log_ratio

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = 2
# one score rises by 1 and three fall by 1; or all rise, by 1 or not at all
FIRST = np.eye(4, dtype=int)[0]
OPPOSED, RISING = (FIRST, 1 - FIRST), (FIRST, np.ones(4, dtype=int))
LENGTHS = [5, 0, 5, 5, 5]


def intervals(scores, *, epsilon, l_inf_sensitivity, noise, monotone=False):
    """Which interval a point of ``interval_exponential`` lies in, the second being of no length."""
    chosen = interval_exponential(
        np.insert(scores, 1, 9), LENGTHS, epsilon=epsilon, l_inf_sensitivity=l_inf_sensitivity, noise=noise
    )
    return int(np.searchsorted(np.cumsum(LENGTHS), chosen, side="right"))


CHOICES = {
    "exponential mechanism": exponential_mechanism,
    "permute and flip": permute_and_flip,
    "report noisy max": report_noisy_max,
    "interval exponential": intervals,
}
MONOTONE = [name for name in CHOICES if name != "interval exponential"]
OPPOSITE, RISEN = "scores move by 1", "scores rise by 1"


def first_chosen(name, noise, *, pair=OPPOSED, epsilon=EPSILON, moves=1, monotone=False, times=1):
    """1 if the first was chosen every time, -1 if it never was, and 0 else."""

    def mechanism(scores, count):
        options = {"epsilon": epsilon, "l_inf_sensitivity": 1, "noise": noise, "monotone": monotone}
        drawn = [[CHOICES[name](scores * moves, **options) == 0 for _ in range(times)] for _ in range(count)]
        hits = np.array(drawn).sum(axis=1)
        return (hits == times).astype(int) - (hits == 0).astype(int)

    return mechanism, *pair


def found_by(quick, mechanism, first, second):
    """The audit by the event that is chosen beforehand: always the first, or never."""
    return audit(mechanism, first, second, samples=samples(quick), threshold=1)


@pytest.mark.sampled("name")
@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_keeps_epsilon_and_uses_it(name):
    found = found_by(1500, *first_chosen(name, SecureNoise()))
    assert keeps(found, name, relation=OPPOSITE, claimed=EPSILON, at_least=0.25)


@pytest.mark.verify
@pytest.mark.parametrize("name", MONOTONE)
def test_a_monotone_choice_keeps_epsilon_and_uses_it(name):
    found = found_by(1500, *first_chosen(name, SecureNoise(), pair=RISING, monotone=True))
    assert keeps(found, name, relation=RISEN, claimed=EPSILON, at_least=0.1)


@pytest.mark.verify
@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize(
    ("fault", "planted"),
    [
        ("half the noise", {"epsilon": 2 * EPSILON}),
        ("sensitivity off by one record", {"moves": 2}),
        ("budget spent twice", {"times": 2}),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_faulty_choice_is_convicted(name, fault, planted):
    found = found_by(4000, *first_chosen(name, SeededNoise(41), **planted))
    assert convicts(found, name, relation=OPPOSITE, claimed=EPSILON, fault=fault)


@pytest.mark.verify
@pytest.mark.parametrize("name", MONOTONE)
def test_monotone_weights_are_convicted_where_scores_move_both_ways(name):
    found = found_by(3000, *first_chosen(name, SeededNoise(42), monotone=True))
    assert convicts(found, name, relation=OPPOSITE, claimed=EPSILON, fault="monotone claimed wrongly")


@pytest.mark.verify
def test_noisy_max_with_half_the_noise_drawn_is_convicted():
    noise = Tampered(source=SeededNoise(43), epsilon_factor=2)
    found = found_by(3000, *first_chosen("report noisy max", noise))
    assert convicts(found, "report noisy max", relation=OPPOSITE, claimed=EPSILON, fault="half the noise drawn")


LAWS = {"exponential mechanism": exponential_probabilities, "permute and flip": flip_probabilities}


def exact_choice_loss(name, epsilon, moves):
    """The largest loss over scores that move so, from the integer weights that are drawn by."""
    options = {"epsilon": epsilon, "sensitivity": 1, "monotone": False}
    pairs = itertools.product([(0, 0, 0), (0, -3, 4), (0, 1, 1)], itertools.product(moves, repeat=3))
    return exactly(
        max(log_ratio(LAWS[name](one, **options), LAWS[name](np.add(one, move), **options)) for one, move in pairs)
    )


@pytest.mark.parametrize("name", LAWS)
def test_the_exact_loss_of_a_choice(name):
    said = {"relation": OPPOSITE, "claimed": EPSILON}
    assert keeps(exact_choice_loss(name, EPSILON, (-1, 0, 1)), name, **said, at_least=0.75)
    halved = exact_choice_loss(name, 2 * EPSILON, (-1, 0, 1))
    assert convicts(halved, name, **said, fault="half the noise")
    moved = exact_choice_loss(name, EPSILON, (-2, 0, 2))
    assert convicts(moved, name, **said, fault="sensitivity off by one record")


BOTH = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])
# of a line of 100 points, the part before the cut has all the weight or next to none, depending on one row
CUT = {Neighbours.ADD_REMOVE: 50, Neighbours.REPLACE_ONE: 20}
LINES = {Neighbours.ADD_REMOVE: ([50], [50, 99]), Neighbours.REPLACE_ONE: ([0, 20], [20, 99])}
# a row more, or moved, beyond the cell that holds the median
CELLS = {
    Neighbours.ADD_REMOVE: ([1, 1, 0, 0, 0], [1, 1, 0, 0, 1]),
    Neighbours.REPLACE_ONE: ([1, 1, 0, 0, 0], [0, 1, 0, 0, 1]),
}


def before_the_cut(values, relation, widen, **options):
    return median_by_exponential(values, steps=100, widen=widen, **options) < CUT[relation]


def in_the_first_cell(cells, relation, widen, **options):
    return private_quantile(cells, level="0.5", **options) == 0


MEDIANS = {
    "median on a grid": (before_the_cut, LINES, 0),
    "widened median": (before_the_cut, LINES, 1),
    "private quantile": (in_the_first_cell, CELLS, 0),
}
ON_A_LINE = pytest.mark.parametrize("name", ["median on a grid", "widened median"])


def picked(name, relation, noise, *, epsilon=EPSILON, told=None, times=1):
    """1 if the event happened every time, -1 if it never did, and 0 else; ``told`` is the relation it is told."""
    happened, pairs, widen = MEDIANS[name]
    options = {"epsilon": epsilon, "neighbours": told or relation, "noise": noise}

    def mechanism(table, count):
        drawn = [[happened(table, relation, widen, **options) for _ in range(times)] for _ in range(count)]
        hits = np.array(drawn).sum(axis=1)
        return (hits == times).astype(int) - (hits == 0).astype(int)

    return mechanism, *pairs[relation]


@pytest.mark.sampled("name")
@pytest.mark.parametrize("name", MEDIANS)
@BOTH
def test_a_median_keeps_epsilon_and_uses_it(name, relation):
    found = found_by(1500, *picked(name, relation, SecureNoise()))
    assert keeps(found, name, relation=relation, claimed=EPSILON, at_least=0.15)


@pytest.mark.verify
@ON_A_LINE
@BOTH
@pytest.mark.parametrize(
    ("fault", "planted"),
    [("half the noise", {"epsilon": 2 * EPSILON}), ("budget spent twice", {"times": 2})],
    ids=["halved", "twice"],
)
def test_a_faulty_median_is_convicted(name, relation, fault, planted):
    found = found_by(5000, *picked(name, relation, SeededNoise(46), **planted))
    assert convicts(found, name, relation=relation, claimed=EPSILON, fault=fault)


@pytest.mark.verify
@ON_A_LINE
def test_weights_for_added_rows_are_convicted_where_rows_are_replaced(name):
    relation, fault = Neighbours.REPLACE_ONE, "noise for an added row"
    found = found_by(2500, *picked(name, relation, SeededNoise(45), told=Neighbours.ADD_REMOVE))
    assert convicts(found, name, relation=relation, claimed=EPSILON, fault=fault)


@pytest.fixture
def quantile_loss(monkeypatch):
    """The largest loss of a private median over small neighbours, by the law of what it has chosen."""
    asked = []

    def remember(scores, *, epsilon, l_inf_sensitivity, noise, meter):
        asked.append(flip_probabilities(scores, epsilon=epsilon, sensitivity=l_inf_sensitivity, monotone=False))
        return 0

    monkeypatch.setattr(quantiles, "permute_and_flip", remember)

    def loss(relation, **options):
        worst = 0.0
        for held in itertools.product(range(3), repeat=4):
            table = np.array(held)
            for other in neighbouring(table, relation):
                asked.clear()
                for cells in (table, other):
                    private_quantile(cells, level="0.5", noise=SeededNoise(1), **options)
                worst = max(worst, log_ratio(*asked))
        return exactly(worst)

    return loss


@BOTH
def test_the_exact_loss_of_a_private_quantile(quantile_loss, relation):
    name, said = "private quantile", {"relation": relation, "claimed": EPSILON}
    own = quantile_loss(relation, epsilon=EPSILON, neighbours=relation)
    assert keeps(own, name, **said, at_least=0.6)
    assert convicts(exactly(2 * own.epsilon), name, **said, fault="budget spent twice")
    halved = quantile_loss(relation, epsilon=2 * EPSILON, neighbours=relation)
    assert convicts(halved, name, **said, fault="half the noise")
    if relation is Neighbours.REPLACE_ONE:
        added = quantile_loss(relation, epsilon=EPSILON, neighbours=Neighbours.ADD_REMOVE)
        assert convicts(added, name, **said, fault="noise for an added row")
