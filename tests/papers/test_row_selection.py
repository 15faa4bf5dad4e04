"""A public number of rows of a group: how it changes if one row does, by brute force and by what it costs."""

from collections import Counter
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.regression import row_selection
from spark_jobs.papers.regression.gradient_descent import gradient_descent
from spark_jobs.papers.regression.row_selection import kept_counts
from tests.support.noises import worst_loss

SALTS = [np.uint64(salt) for salt in (0, 1, 7, 2**63, 2**64 - 1)]
CELLS, LIMIT = 4, 3
EPSILON = 1.0


def kept(rows, salt, limit=LIMIT):
    """The kept rows of a group, by cell."""
    counted = Counter(rows)
    cells, counts = (
        np.array(values, dtype=np.int64) for values in (sorted(counted), [counted[c] for c in sorted(counted)])
    )
    return Counter(dict(zip(cells.tolist(), kept_counts(cells, counts, salt=salt, limit=limit).tolist(), strict=True)))


def groups(rows):
    return combinations_with_replacement(range(CELLS), rows)


def moved(one, other):
    """Rows that are kept of one group and not of the other, and the other way round."""
    return sum((one - other).values()), sum((other - one).values())


@pytest.mark.parametrize("salt", SALTS)
def test_a_replaced_row_replaces_at_most_one_kept_row(salt):
    for rows, gone, fresh in product(groups(5), range(5), range(CELLS)):
        replaced = [*rows[:gone], *rows[gone + 1 :], fresh]
        lost, gained = moved(kept(rows, salt), kept(replaced, salt))
        assert lost == gained <= 1


def test_a_row_added_to_a_full_group_displaces_another_and_to_any_other_group_none():
    seen = set()
    for salt, rows, fresh in product(SALTS, groups(LIMIT), range(CELLS)):
        seen.add(moved(kept(rows, salt), kept([*rows, fresh], salt)))
    assert seen == {(0, 0), (1, 1)}
    assert {moved(kept(rows, SALTS[2]), kept([*rows, 0], SALTS[2])) for rows in groups(LIMIT - 1)} == {(0, 1)}


def test_every_row_is_kept_as_often_as_any_other():
    """Of 3 rows of 10 + 1 + 4; a standard deviation is below 34, and five of them a false alarm of one in a million."""
    cells, counts = np.array([3, 900, 10**12]), np.array([10, 1, 4])
    salts = np.random.default_rng(5).integers(0, 2**64, size=4000, dtype=np.uint64)
    total = sum(kept_counts(cells, counts, salt=salt, limit=3) for salt in salts)
    assert total.sum() == 3 * 4000
    assert np.abs(total - counts * 3 * 4000 / 15).max() < 5 * 34


def test_chunks_do_not_matter_and_many_rows_take_the_memory_of_few(monkeypatch):
    generator = np.random.default_rng(1)
    cells, counts = np.sort(generator.choice(10**6, 300, replace=False)), generator.integers(1, 60, 300)
    whole = kept_counts(cells, counts, salt=SALTS[2], limit=500)
    assert whole.sum() == 500
    assert (whole <= counts).all()
    monkeypatch.setattr(row_selection, "_AT_ONCE", 37)
    assert np.array_equal(kept_counts(cells, counts, salt=SALTS[2], limit=500), whole)
    assert np.array_equal(kept_counts(cells, counts, salt=SALTS[2], limit=10**6), counts)


def test_equal_hashes_are_ordered_by_cell_and_number(monkeypatch):
    monkeypatch.setattr(row_selection, "_mixed", lambda words: words * np.uint64(0))
    monkeypatch.setattr(row_selection, "_AT_ONCE", 2)
    assert kept_counts(np.array([2, 5]), np.array([2, 9]), salt=SALTS[0], limit=4).tolist() == [2, 2]


def loss(charged_as, salt):
    """The largest loss of noisy gradients over the kept rows of a full group, and of it with one more row."""

    def mechanism(rows, noise):
        of_group = kept(rows, salt)
        places = np.array(sorted(of_group), dtype=np.int64)
        counts = np.array([of_group[place] for place in places.tolist()])
        x, y = 8 * (places % 2), 8 * (places // 2)
        gradient_descent(
            np.zeros_like(places), x, y, counts, groups=1, steps=8, epsilon=EPSILON, neighbours=charged_as, noise=noise
        )

    pairs = [(rows, (*rows, fresh)) for rows in groups(LIMIT) for fresh in range(CELLS)]
    return max(worst_loss(mechanism, *way, source=SeededNoise(1)) for pair in pairs for way in (pair, pair[::-1]))


@pytest.mark.audit
def test_a_full_group_and_one_row_more_are_audited_as_a_replacement_and_convict_the_charge_for_an_addition():
    assert 0.5 * EPSILON < loss(Neighbours.REPLACE_ONE, SALTS[1]) <= EPSILON * (1 + 1e-9)
    assert loss(Neighbours.ADD_REMOVE, SALTS[1]) > 1.1 * EPSILON
