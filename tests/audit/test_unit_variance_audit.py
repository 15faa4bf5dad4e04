"""How much figures vary between units: exact losses of what is released of it, and noise that is left out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from spark_jobs.application.run import measure
from spark_jobs.contract.privacy import UNIT_STEPS, Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics.unit_squares import OfCells, unit_squares, whole_weights
from tests.application.test_unit_variance import RECALL, Table, asked
from tests.support.audit import convicts, exactly, keeps
from tests.support.replay import NoiseLeftOut, replayed_loss

pytestmark = [pytest.mark.audit]
NAME, CLAIMED = "variation between units", 0.2
RELATIONS = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])


def largest_loss(relation, squares, *, scale=1.0):
    """The exact loss of noise of ``scale`` steps of ``UNIT_STEPS``: the cube's norm of the largest change, over units.

    Every unit of up to three rows in three cells is added to a table, or put in the place of every other one.
    """
    influences = np.array([[0.3, -1.0, 0.7], [1.0, 0.0, -0.2]])
    weights = whole_weights([OfCells.of_all(one) for one in influences], [1.0, 1.0])
    rest = squares([7, 8], [0, 1], weights)
    units = [cells for rows in range(4) for cells in product(range(-1, 3), repeat=rows)]
    changes = [squares([7, 8, *[9] * len(cells)], [0, 1, *cells], weights) - rest for cells in units]
    pairs = product(changes, changes) if relation is Neighbours.REPLACE_ONE else ((one, 0) for one in changes)
    return CLAIMED * max(float(np.abs(one - other).max()) for one, other in pairs) / (scale * UNIT_STEPS)


def of_units(units, cells, weights):
    return unit_squares(units, cells, weights, max_rows=3)


@pytest.mark.halved
@RELATIONS
def test_a_unit_loses_what_is_claimed_and_no_more(relation):
    assert keeps(exactly(largest_loss(relation, of_units)), NAME, relation=relation, claimed=CLAIMED, at_least=0.99)
    half = exactly(largest_loss(relation, of_units, scale=0.5))
    assert convicts(half, NAME, relation=relation, claimed=CLAIMED, fault="half the noise")
    by_rows = exactly(largest_loss(relation, lambda *table: unit_squares(*table, max_rows=1) * 3))
    assert convicts(by_rows, NAME, relation=relation, claimed=CLAIMED, fault="bound of one row")


@RELATIONS
def test_the_noise_of_one_table_makes_the_same_release_of_another(relation):
    wanted = asked("roc_curve", RECALL, neighbours=str(relation))

    def run(table, noise):
        draw = measure(wanted, table.counts, charge_id=None, noise=noise, squares=table.squares)
        return [draw.measurements, draw.shared, draw.units, draw.events]

    pair = [Table(seed, units=300, rows=3) for seed in (1, 2)]
    assert keeps(replayed_loss(run, *pair, source=SeededNoise(3)), NAME, relation=relation, claimed=CLAIMED)
    counting = NoiseLeftOut(SeededNoise(3), -1)
    run(pair[0], counting)
    last = len(counting.exact) - 1
    left_out = replayed_loss(lambda table, noise: run(table, NoiseLeftOut(noise, last)), *pair, source=SeededNoise(3))
    assert convicts(left_out, NAME, relation=relation, claimed=CLAIMED, fault="noise left out")
