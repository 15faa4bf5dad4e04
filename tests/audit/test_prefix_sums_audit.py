import itertools
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.prefix_stream import StreamShape, StreamState, release_step
from spark_jobs.mechanisms.shared_nodes import shared_node_prefixes, shared_node_weight
from spark_jobs.mechanisms.square_root import square_root_prefixes
from tests.support.audit import Tampered, audit, convicts, exactly, keeps, samples
from tests.support.noises import Still
from tests.support.shared_nodes import differences, exact_loss, least_whole_weight, node_matrix
from tests.support.zcdp_loss import zcdp_loss

pytestmark = pytest.mark.audit
ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BOTH = pytest.mark.parametrize("neighbours", list(Neighbours))

EPSILON, RHO = Decimal(1), Decimal("0.5")
POINTS = 4
# the row that is added, or that moves, makes up a difference that takes two nodes
TABLES = {
    ADDED: (np.array([3, 1, 2, 0]), np.array([3, 0, 2, 0])),
    REPLACED: (np.array([3, 1, 2, 0]), np.array([3, 0, 2, 1])),
}


def points_of(noise, neighbours, pair, *, calibrated_for=None, times=1):
    """The released points, weighed as their covariance tells the two tables apart."""
    nodes = node_matrix(POINTS)
    if (calibrated_for or neighbours) is REPLACED:
        nodes = nodes[:-1]
    difference = (np.cumsum(pair[0]) - np.cumsum(pair[1]))[: len(nodes)]
    weights = np.linalg.solve(nodes @ nodes.T, difference)

    def once(table):
        asked = {"epsilon": EPSILON, "neighbours": calibrated_for or neighbours, "noise": noise}
        return sum(
            float(weights @ shared_node_prefixes(table, **asked).prefix_counts[: len(nodes)]) for _ in range(times)
        )

    return (lambda table, count: np.array([once(table) for _ in range(count)])), *pair


@pytest.mark.sampled
@pytest.mark.slow
@BOTH
def test_shared_nodes_keep_epsilon_and_use_it(neighbours):
    found = audit(*points_of(SecureNoise(), neighbours, TABLES[neighbours]), samples=samples(8000))
    assert keeps(found, "shared-node prefix counts", relation=neighbours, claimed=EPSILON, at_least=0.02)


@pytest.mark.verify
@pytest.mark.slow
@BOTH
def test_shared_nodes_with_a_third_of_the_noise_are_convicted(neighbours):
    noise = Tampered(source=SeededNoise(91), epsilon_factor=3)
    found = audit(*points_of(noise, neighbours, TABLES[neighbours]), samples=samples(12000))
    fault = "a third of the noise"
    assert convicts(found, "shared-node prefix counts", relation=neighbours, claimed=EPSILON, fault=fault)


@pytest.mark.verify
@pytest.mark.slow
@BOTH
def test_points_evaluated_afresh_are_convicted(neighbours):
    mechanism = points_of(SeededNoise(92), neighbours, TABLES[neighbours], times=30)
    found = audit(*mechanism, samples=samples(1000))
    fault = "points evaluated afresh"
    assert convicts(found, "shared-node prefix counts", relation=neighbours, claimed=EPSILON, fault=fault)


@BOTH
def test_the_exact_loss_of_shared_nodes_is_epsilon_and_convicts_every_fault(neighbours):
    weight, every = shared_node_weight(POINTS, neighbours=neighbours), differences(POINTS, neighbours)
    what, said = "shared-node prefix counts", {"relation": neighbours, "claimed": EPSILON}
    assert keeps(exactly(exact_loss(weight, POINTS, every)), what, **said, at_least=0.9)
    halved, short = (exactly(exact_loss(less, POINTS, every)) for less in (weight / 2, weight - 1))
    assert convicts(halved, what, **said, fault="half the noise")
    assert convicts(short, what, **said, fault="a node less")


def test_nodes_calibrated_for_added_rows_are_convicted_where_one_is_replaced():
    heavy = [each for each in differences(8, REPLACED) if least_whole_weight(3, *each) == 3][:1]
    outputs = [20 * np.array(signs) for signs in itertools.product((-1, 1), repeat=8)][::5]
    added, replaced = (shared_node_weight(8, neighbours=each) for each in (ADDED, REPLACED))
    assert exact_loss(added, 8, heavy, outputs=outputs) > 1.2
    assert exact_loss(replaced, 8, heavy, outputs=outputs) <= 1 + 1e-9


STEPS = 12
SHAPES = {neighbours: StreamShape(steps=STEPS, neighbours=neighbours, exponentials=4) for neighbours in Neighbours}


def at_once(neighbours, *, times=1):
    """All prefix counts of a line of cells, measured together."""

    def mechanism(table, noise):
        for _ in range(times):
            square_root_prefixes(table, rho=RHO, neighbours=neighbours, noise=noise)

    return mechanism


def step_by_step(neighbours, *, times=1):
    """The same counts as a stream whose next count depends on what was released."""

    def mechanism(table, noise):
        for _ in range(times):
            state, released = StreamState.start(SHAPES[neighbours]), 0.0
            for count in table:
                echo = int(released > 5)
                state, released = release_step(state, int(count) + echo, shape=SHAPES[neighbours], rho=RHO, noise=noise)

    return mechanism


def worst_zcdp(mechanism, neighbours, *, rho_factor=1):
    """The largest loss over all neighbours of one table."""
    base, rows = np.arange(STEPS) % 5 + 1, np.eye(STEPS, dtype=np.int64)
    changes = rows if neighbours is ADDED else [new - old for old, new in itertools.permutations(rows, 2)]
    return max(zcdp_loss(mechanism, base + change, base, rho_factor=rho_factor) for change in changes)


ALL = pytest.mark.parametrize("build", [at_once, step_by_step])
IN_RHO = {at_once: "prefix counts by the square root", step_by_step: "prefix counts of a stream"}


def in_rho(loss):
    return exactly(loss, measure="ρ")


@ALL
@BOTH
def test_gaussian_prefix_counts_lose_rho_and_no_more(build, neighbours):
    found = in_rho(worst_zcdp(build(neighbours), neighbours))
    assert keeps(found, IN_RHO[build], relation=neighbours, claimed=RHO, at_least=0.999)


@ALL
@BOTH
def test_gaussian_prefix_counts_with_half_the_noise_are_convicted(build, neighbours):
    found = in_rho(worst_zcdp(build(neighbours), neighbours, rho_factor=4))
    assert convicts(found, IN_RHO[build], relation=neighbours, claimed=RHO, fault="half the noise")


@ALL
@BOTH
def test_a_rho_spent_twice_is_convicted(build, neighbours):
    found = in_rho(worst_zcdp(build(neighbours, times=2), neighbours))
    assert convicts(found, IN_RHO[build], relation=neighbours, claimed=RHO, fault="budget spent twice")


@ALL
def test_gaussian_prefix_counts_calibrated_for_added_rows_are_convicted_where_one_is_replaced(build):
    found = in_rho(worst_zcdp(build(ADDED), REPLACED))
    assert convicts(found, IN_RHO[build], relation=REPLACED, claimed=RHO, fault="noise for an added row")


def test_the_secure_source_draws_the_noise_that_the_loss_is_computed_for():
    counts = np.arange(5000) % 3
    made = square_root_prefixes(counts, rho=RHO, neighbours=ADDED, noise=SecureNoise())
    noise = made.measured - square_root_prefixes(counts, rho=RHO, neighbours=ADDED, noise=Still()).measured
    spread = (noise.astype(float) ** 2).mean() / made.stddev**2
    assert abs(spread - 1) < 6 * np.sqrt(2 / counts.size)
