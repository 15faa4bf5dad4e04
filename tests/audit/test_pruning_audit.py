"""Pruning of hierarchies: the exact loss of paths, and samples of whole answers."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.pruning import node_noise, refined_nodes
from tests.support.audit import Tampered, audit, convicts, exactly, keeps, samples
from tests.support.pruning_loss import THRESHOLD, answer_log, worst_path_loss

pytestmark = [pytest.mark.audit, pytest.mark.slow]

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BOTH = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])
NAME = "pruning of a hierarchy"
EPSILON = Decimal(2)


def exact_loss(relation, *, less=1, times=1, told=None, decay=True):
    """The largest loss; a replaced row changes two paths, which may lose as much each."""
    of_node, step = node_noise(EPSILON, told or relation)
    paths = 1 if relation is ADDED else 2
    return exactly(paths * times * worst_path_loss(1 / float(of_node) / less, step if decay else 0, paths=500))


@BOTH
def test_the_exact_loss_of_pruning(relation):
    said = {"relation": relation, "claimed": EPSILON}
    assert keeps(exact_loss(relation), NAME, **said, at_least=0.5)
    assert convicts(exact_loss(relation, less=2), NAME, **said, fault="half the noise")
    assert convicts(exact_loss(relation, times=2), NAME, **said, fault="budget spent twice")
    assert convicts(exact_loss(relation, decay=False), NAME, **said, fault="scores do not fall with depth")
    if relation is REPLACED:
        assert convicts(exact_loss(relation, told=ADDED), NAME, **said, fault="noise for an added row")


LARGE = {ADDED: Decimal(5), REPLACED: Decimal(10)}
"""At a small epsilon, one row more in a node tells too little to be sampled."""
LEAVES = np.array([THRESHOLD + 2, 0, 0, 0, 0, 0, 0, 0])
FIRST, LAST = np.eye(8, dtype=int)[[0, -1]]
PAIRS = {ADDED: (LEAVES + FIRST, LEAVES), REPLACED: (LEAVES + FIRST, LEAVES + LAST)}


def answers_of(noise, relation):
    """The log ratio of whole answers, at the claimed noise."""
    of_node, step = node_noise(LARGE[relation], relation)
    options = {"threshold": THRESHOLD, "epsilon": LARGE[relation], "neighbours": relation, "noise": noise}
    pair = PAIRS[relation]

    def once(counts):
        answers = refined_nodes(counts, **options)
        one, other = (answer_log(table, answers, 1 / float(of_node), step) for table in pair)
        return one - other

    return (lambda counts, count: np.array([once(counts) for _ in range(count)])), *pair


@pytest.mark.sampled
@BOTH
def test_sampled_answers_keep_epsilon_and_use_it(relation):
    found = audit(*answers_of(SecureNoise(), relation), samples=samples(1500), threshold=0.0)
    assert keeps(found, NAME, relation=relation, claimed=LARGE[relation], at_least=0.01)


@pytest.mark.verify
def test_sampled_answers_with_an_eighth_of_the_noise_are_convicted():
    noise = Tampered(source=SeededNoise(131), epsilon_factor=8)
    found = audit(*answers_of(noise, ADDED), samples=samples(4000), threshold=0.0)
    assert convicts(found, NAME, relation=ADDED, claimed=LARGE[ADDED], fault="an eighth of the noise")
