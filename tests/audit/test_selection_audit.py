"""Choices: by the index that comes out, which is all that they release; here, whether it is the first."""

import itertools

import numpy as np
import pytest

from spark_jobs.mechanisms import quantiles
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.quantiles import private_quantile
from spark_jobs.mechanisms.selection import (
    exponential_mechanism,
    interval_exponential,
    median_by_exponential,
    permute_and_flip,
    report_noisy_max,
)
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
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


BY_CHOSEN_EVENT = {"threshold": 1}
"""Always the first, or never."""


class TestChoices(SampledAudit):
    mechanisms = CHOICES
    relations = (OPPOSITE,)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.25, 41, 1500, 4000
    options = BY_CHOSEN_EVENT
    kept = tuple(CHOICES)
    faults = {
        "half the noise": Fault(planted={"epsilon": 2 * EPSILON}),
        "sensitivity off by one record": Fault(planted={"moves": 2}),
        "budget spent twice": Fault(planted={"times": 2}),
        "monotone claimed wrongly": Fault(planted={"monotone": True}, mechanisms=MONOTONE, samples=8000),
        "half the noise drawn": Fault(noise={"epsilon_factor": 2}, mechanisms=["report noisy max"], samples=8000),
    }

    def mechanism(self, mechanism, relation, noise, **planted):
        return first_chosen(mechanism, noise, **planted)


@pytest.mark.verify
class TestMonotoneChoices(SampledAudit):
    mechanisms = MONOTONE
    relations = (RISEN,)
    claimed, at_least, quick = EPSILON, 0.1, 1500
    options = BY_CHOSEN_EVENT
    faults = {}

    def mechanism(self, mechanism, relation, noise):
        return first_chosen(mechanism, noise, pair=RISING, monotone=True)


LAWS = {"exponential mechanism": exponential_probabilities, "permute and flip": flip_probabilities}


class TestExactLossOfChoices(ExactAudit):
    """The largest loss over scores that move so, from the integer weights that are drawn by."""

    mechanisms = LAWS
    relations = (OPPOSITE,)
    claimed, at_least = EPSILON, 0.75
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "sensitivity off by one record": Fault(planted={"moves": (-2, 0, 2)}),
    }

    def loss(self, mechanism, relation, *, less=1, moves=(-1, 0, 1)):
        options = {"epsilon": less * EPSILON, "sensitivity": 1, "monotone": False}
        law = LAWS[mechanism]
        pairs = itertools.product([(0, 0, 0), (0, -3, 4), (0, 1, 1)], itertools.product(moves, repeat=3))
        return max(log_ratio(law(one, **options), law(np.add(one, move), **options)) for one, move in pairs)


# of a line of 100 points, the part before the cut has all the weight or next to none, depending on one row
CUT = {ADDED: 50, REPLACED: 20}
LINES = {ADDED: ([50], [50, 99]), REPLACED: ([0, 20], [20, 99])}
# a row more, or moved, beyond the cell that holds the median
CELLS = {
    ADDED: ([1, 1, 0, 0, 0], [1, 1, 0, 0, 1]),
    REPLACED: ([1, 1, 0, 0, 0], [0, 1, 0, 0, 1]),
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
ON_A_LINE = ["median on a grid", "widened median"]


def picked(name, relation, noise, *, epsilon=EPSILON, told=None, times=1):
    """1 if the event happened every time, -1 if it never did, and 0 else; ``told`` is the relation it is told."""
    happened, pairs, widen = MEDIANS[name]
    options = {"epsilon": epsilon, "neighbours": told or relation, "noise": noise}

    def mechanism(table, count):
        drawn = [[happened(table, relation, widen, **options) for _ in range(times)] for _ in range(count)]
        hits = np.array(drawn).sum(axis=1)
        return (hits == times).astype(int) - (hits == 0).astype(int)

    return mechanism, *pairs[relation]


class TestMedians(SampledAudit):
    mechanisms = MEDIANS
    claimed, at_least, seed, quick, thorough = EPSILON, 0.15, 46, 1500, 5000
    options = BY_CHOSEN_EVENT
    kept = tuple(MEDIANS)
    faults = {
        "half the noise": Fault(planted={"epsilon": 2 * EPSILON}, mechanisms=ON_A_LINE),
        "budget spent twice": Fault(planted={"times": 2}, mechanisms=ON_A_LINE),
        "noise for an added row": Fault(
            planted={"told": ADDED}, relations=[REPLACED], mechanisms=ON_A_LINE, samples=2500
        ),
    }

    def mechanism(self, mechanism, relation, noise, **planted):
        return picked(mechanism, relation, noise, **planted)


class TestExactLossOfQuantiles(ExactAudit):
    """The largest loss of a private median over small neighbours, by the law of what it has chosen."""

    mechanisms = ("private quantile",)
    claimed, at_least = EPSILON, 0.6

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        asked, worst = [], 0.0

        def remember(scores, *, epsilon, l_inf_sensitivity, noise, meter):
            asked.append(flip_probabilities(scores, epsilon=epsilon, sensitivity=l_inf_sensitivity, monotone=False))
            return 0

        options = {"level": "0.5", "epsilon": less * EPSILON, "neighbours": told or relation, "noise": SeededNoise(1)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quantiles, "permute_and_flip", remember)
            for held in itertools.product(range(3), repeat=4):
                table = np.array(held)
                for other in neighbouring(table, relation):
                    asked.clear()
                    for cells in (table, other):
                        private_quantile(cells, **options)
                    worst = max(worst, times * log_ratio(*asked))
        return worst
