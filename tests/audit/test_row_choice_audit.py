"""The choice of a bound on the rows of a unit: exact losses over every unit added, removed or replaced."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import rows_per_unit
from spark_jobs.mechanisms import row_choice
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.row_choice import scores_of
from spark_jobs.statistics import UnitRowCounts
from tests.support.audit import convicts, exactly, keeps
from tests.support.replay import replayed_loss
from tests.support.selection_loss import flip_probabilities, log_ratio

pytestmark = [pytest.mark.audit]
NAME, CLAIMED = "bound on the rows of a unit", 1.0
DESIGN = UnitRowCells(largest=6)
RELATIONS = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])
OTHERS = [rows for size in range(4) for rows in product((1, 2, 4, 9), repeat=size)] + [(9,) * 8, (1, 9) * 6]


def counts_of(rows, changes=1):
    """Units with these numbers of rows; ``changes`` stands for how often a unit is counted."""
    return changes * UnitRowCounts.from_rows(np.array(rows, dtype=np.int64), design=DESIGN).counts


def largest_loss(relation, *, epsilon=CLAIMED, monotone=True, changes=1, above=3):
    """The largest exact ratio of the probabilities of a choice, over tables that differ by one unit of 1 to 9 rows."""

    def law(rows):
        scores = scores_of(counts_of(rows, changes), units_above=above, epsilon=CLAIMED)
        return flip_probabilities(scores, epsilon=epsilon, sensitivity=1, monotone=monotone)

    units = [(rows,) for rows in (1, 2, 3, 4, 6, 9)]
    pairs = product(units, units) if relation is Neighbours.REPLACE_ONE else ((one, ()) for one in units)
    laws = {}
    worst = 0.0
    for others, (one, other) in product(OTHERS, pairs if isinstance(pairs, list) else list(pairs)):
        for rows in (others + one, others + other):
            laws.setdefault(rows, law(rows))
        worst = max(worst, log_ratio(laws[others + one], laws[others + other]))
    return worst


@pytest.mark.halved
@RELATIONS
def test_a_unit_loses_what_is_claimed_and_no_more(relation):
    sound = exactly(largest_loss(relation))
    assert keeps(sound, NAME, relation=relation, claimed=CLAIMED, at_least=0.9)
    faults = {
        "half the noise": {"epsilon": 2 * CLAIMED},
        "a unit counted twice": {"changes": 2},
    }
    for fault, planted in faults.items():
        loss = exactly(largest_loss(relation, **planted))
        assert convicts(loss, NAME, relation=relation, claimed=CLAIMED, fault=fault)


def test_all_scores_move_in_one_direction_by_at_most_one():
    """The proof's condition, for every unit put in the place of every other one."""
    units = [(), *((rows,) for rows in range(1, 10))]
    for others, one, other in product(OTHERS, units, units):
        moved = np.subtract(
            *(scores_of(counts_of(others + unit), units_above=3, epsilon=CLAIMED) for unit in (one, other))
        )
        assert np.abs(moved).max() <= 1
        assert (moved >= 0).all() or (moved <= 0).all()


@RELATIONS
def test_a_choice_without_noise_is_convicted(relation, monkeypatch):
    pair = [
        UnitRowCounts(design=DESIGN, counts=counts_of(rows))
        for rows in ([1] * 30 + [9], [1] * 30 + [2] * 30 + [9] * 40)
    ]

    def run(table, noise):
        options = {"epsilon": CLAIMED, "units_above": 3, "neighbours": relation, "noise": noise}
        return rows_per_unit.measure(table, **options).to_dict()

    assert keeps(replayed_loss(run, *pair, source=SeededNoise(3)), NAME, relation=relation, claimed=CLAIMED)
    monkeypatch.setattr(row_choice, "permute_and_flip", lambda scores, **_: int(np.argmax(scores)))
    loss = replayed_loss(run, *pair, source=SeededNoise(3))
    assert convicts(loss, NAME, relation=relation, claimed=CLAIMED, fault="noise left out")
