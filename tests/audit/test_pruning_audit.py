"""Pruning of hierarchies: the exact loss of paths, and samples of whole answers."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.papers.streams.pruning import node_noise, refined_nodes
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
from tests.support.pruning_loss import THRESHOLD, answer_log, worst_path_loss

pytestmark = [pytest.mark.audit, pytest.mark.slow]

NAME = "pruning of a hierarchy"
EPSILON = Decimal(2)


class TestExactLossOfPruning(ExactAudit):
    """The largest loss; a replaced row changes two paths, which may lose as much each."""

    mechanisms = (NAME,)
    claimed, at_least = EPSILON, 0.5
    faults = {**ExactAudit.faults, "scores do not fall with depth": Fault(planted={"decay": False})}

    def loss(self, mechanism, relation, *, less=1, times=1, told=None, decay=True):
        of_node, step = node_noise(EPSILON, told or relation, levels=11)
        paths = 1 if relation is ADDED else 2
        return paths * times * worst_path_loss(1 / float(of_node) / less, step if decay else 0, paths=500)


LARGE = {ADDED: Decimal(5), REPLACED: Decimal(10)}
"""At a small epsilon, one row more in a node tells too little to be sampled."""
LEAVES = np.array([THRESHOLD, 0, 0, 0, 0, 0, 0, 0])
FIRST, LAST = np.eye(8, dtype=int)[[0, -1]]
PAIRS = {ADDED: (LEAVES + FIRST, LEAVES), REPLACED: (LEAVES + FIRST, LEAVES + LAST)}


def answers_of(noise, relation):
    """The log ratio of whole answers, at the claimed noise."""
    of_node, step = node_noise(LARGE[relation], relation, levels=3)
    options = {"threshold": THRESHOLD, "epsilon": LARGE[relation], "neighbours": relation, "noise": noise}
    pair = PAIRS[relation]

    def once(counts):
        answers = refined_nodes(counts, **options)
        one, other = (answer_log(table, answers, 1 / float(of_node), step) for table in pair)
        return one - other

    return (lambda counts, count: np.array([once(counts) for _ in range(count)])), *pair


class TestSampledAnswers(SampledAudit):
    mechanisms = (NAME,)
    at_least, seed, quick, thorough = 0.01, 131, 1500, 4000
    options = {"threshold": 0.0}
    faults = {"an eighth of the noise": Fault(noise={"epsilon_factor": 8}, relations=[ADDED])}

    def claim(self, mechanism, relation):
        return LARGE[relation]

    def mechanism(self, mechanism, relation, noise):
        return answers_of(noise, relation)
