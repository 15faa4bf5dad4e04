import itertools
from decimal import Decimal

import numpy as np
import pytest

from benchmarks.competitors.shared_nodes import shared_node_prefixes, shared_node_weight
from benchmarks.competitors.square_root import square_root_prefixes
from spark_jobs.mechanisms.noise import SecureNoise
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
from tests.support.noises import Still
from tests.support.shared_nodes import differences, exact_loss, least_whole_weight, node_matrix
from tests.support.zcdp_loss import zcdp_loss

pytestmark = pytest.mark.audit

EPSILON, RHO = Decimal(1), Decimal("0.5")
POINTS = 4
SHARED = "shared-node prefix counts"
# the row that is added, or that moves, makes up a difference that takes two nodes
TABLES = {
    ADDED: (np.array([3, 1, 2, 0]), np.array([3, 0, 2, 0])),
    REPLACED: (np.array([3, 1, 2, 0]), np.array([3, 0, 2, 1])),
}


def points_of(noise, neighbours, pair, *, times=1):
    """The released points, weighed as their covariance tells the two tables apart."""
    nodes = node_matrix(POINTS)
    if neighbours is REPLACED:
        nodes = nodes[:-1]
    difference = (np.cumsum(pair[0]) - np.cumsum(pair[1]))[: len(nodes)]
    weights = np.linalg.solve(nodes @ nodes.T, difference)

    def once(table):
        asked = {"epsilon": EPSILON, "neighbours": neighbours, "noise": noise}
        return sum(
            float(weights @ shared_node_prefixes(table, **asked).prefix_counts[: len(nodes)]) for _ in range(times)
        )

    return (lambda table, count: np.array([once(table) for _ in range(count)])), *pair


@pytest.mark.slow
class TestSharedNodes(SampledAudit):
    mechanisms = (SHARED,)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.02, 91, 8000, 12000
    faults = {
        "a third of the noise": Fault(noise={"epsilon_factor": 3}),
        "points evaluated afresh": Fault(planted={"times": 30}, samples=1000),
    }

    def mechanism(self, mechanism, relation, noise, **planted):
        return points_of(noise, relation, TABLES[relation], **planted)


class TestExactLossOfSharedNodes(ExactAudit):
    mechanisms = (SHARED,)
    claimed, at_least = EPSILON, 0.9
    faults = {"half the noise": Fault(planted={"less": 2}), "a node less": Fault(planted={"nodes": 1})}

    def loss(self, mechanism, relation, *, less=1, nodes=0):
        weight = shared_node_weight(POINTS, neighbours=relation)
        return exact_loss((weight - nodes) / less, POINTS, differences(POINTS, relation))


def test_nodes_calibrated_for_added_rows_are_convicted_where_one_is_replaced():
    heavy = [each for each in differences(8, REPLACED) if least_whole_weight(3, *each) == 3][:1]
    outputs = [20 * np.array(signs) for signs in itertools.product((-1, 1), repeat=8)][::5]
    added, replaced = (shared_node_weight(8, neighbours=each) for each in (ADDED, REPLACED))
    assert exact_loss(added, 8, heavy, outputs=outputs) > 1.2
    assert exact_loss(replaced, 8, heavy, outputs=outputs) <= 1 + 1e-9


CELLS = 12


def at_once(neighbours, *, times=1):
    """All prefix counts of a line of cells, measured together."""

    def mechanism(table, noise):
        for _ in range(times):
            square_root_prefixes(table, rho=RHO, neighbours=neighbours, noise=noise)

    return mechanism


def worst_zcdp(mechanism, neighbours, *, rho_factor=1):
    """The largest loss over all neighbours of one table."""
    base, rows = np.arange(CELLS) % 5 + 1, np.eye(CELLS, dtype=np.int64)
    changes = rows if neighbours is ADDED else [new - old for old, new in itertools.permutations(rows, 2)]
    return max(zcdp_loss(mechanism, base + change, base, rho_factor=rho_factor) for change in changes)


class TestGaussianPrefixCounts(ExactAudit):
    mechanisms = {"prefix counts by the square root": at_once}
    measure, claimed, at_least = "ρ", RHO, 0.999

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        build = self.mechanisms[mechanism]
        return worst_zcdp(build(told or relation, times=times), relation, rho_factor=less**2)


def test_the_secure_source_draws_the_noise_that_the_loss_is_computed_for():
    counts = np.arange(5000) % 3
    made = square_root_prefixes(counts, rho=RHO, neighbours=ADDED, noise=SecureNoise())
    noise = made.measured - square_root_prefixes(counts, rho=RHO, neighbours=ADDED, noise=Still()).measured
    spread = (noise.astype(float) ** 2).mean() / made.stddev**2
    assert abs(spread - 1) < 6 * np.sqrt(2 / counts.size)
