"""What a stream uses of each unit, whatever the versions of its table do between two steps."""

import hmac
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.statistics.state_grid import EventBound
from spark_jobs.statistics.unit_use import RECORD_BYTES, UnitUse, unit_hashes
from tests.suites.statistic import EVERY_KIND
from tests.support.person_rows import PERSONS, used
from tests.support.state_rows import FIRST, SALT

STEPS = 5
VERSION = st.lists(st.tuples(st.integers(0, STEPS - 1), st.sampled_from(PERSONS)), max_size=25).map(tuple)
VERSIONS = st.lists(VERSION, min_size=STEPS, max_size=STEPS)
BOUNDS = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(
    lambda two: EventBound(max_rows=max(two), max_per_step=min(two), salt=SALT)
)
CUTS = st.sets(st.integers(1, STEPS - 1)).map(lambda cuts: [0, *sorted(cuts), STEPS])


def play(versions, bound, *, places, cuts=range(STEPS + 1), forget=False):
    """The counts of all steps, of which each run reads the version of its first step; and the use at the end."""
    use, counts = UnitUse.none(places), []
    for first, until in pairwise(cuts):
        known = UnitUse.none(places) if forget else UnitUse.from_records(use.to_records())
        run = used(versions[first], first=first, steps=until - first, start=FIRST, use=known, bound=bound)
        counts.append(run.counts.counts)
        use = run.use
    return np.concatenate(counts), use


def by_hand(versions, bound, *, places, cuts):
    """The same, row by row, without arrays; only a digest is taken over."""
    digests = {one: hmac.digest(bound.unit_key, one.encode(), "sha256") for one in PERSONS}
    taken, counts = Counter(), np.zeros((STEPS, len(PERSONS)), dtype=np.int64)
    for first, until in pairwise(cuts):
        for step in range(first, until):
            present = Counter(person for at, person in versions[first] if at == step)
            for person in sorted(present, key=digests.__getitem__):
                if not taken[person] and sum(map(bool, taken.values())) >= places:
                    continue
                counted = min(present[person], bound.max_per_step, bound.max_rows - taken[person])
                taken[person] += counted
                counts[step, PERSONS.index(person)] = counted
    return counts


@EVERY_KIND
@given(versions=VERSIONS, bound=BOUNDS, cuts=CUTS, places=st.integers(1, 6))
def test_a_person_gives_at_most_what_is_paid_for_whatever_versions_are_read(versions, bound, cuts, places):
    counts, use = play(versions, bound, places=places, cuts=cuts)
    assert counts.tolist() == by_hand(versions, bound, places=places, cuts=cuts).tolist()
    assert counts.sum(axis=0).max() <= bound.max_rows
    assert counts.max() <= bound.max_per_step
    assert (counts.sum(axis=0) > 0).sum() <= places
    given_by = dict(zip(PERSONS, counts.sum(axis=0).tolist(), strict=True))
    kept = use.of(unit_hashes(PERSONS, bound.unit_key))
    assert dict(zip(PERSONS, kept.tolist(), strict=True)) == given_by


@EVERY_KIND
@given(versions=VERSIONS, bound=BOUNDS, cuts=CUTS, places=st.integers(1, 6), person=st.sampled_from(PERSONS))
def test_one_person_changes_the_counts_by_what_is_paid_for(versions, bound, cuts, places, person):
    without = [tuple(row for row in version if row[1] != person) for version in versions]
    (counts, _), (others, _) = (play(one, bound, places=places, cuts=cuts) for one in (versions, without))
    paid = bound.max_rows if places >= len(PERSONS) else 2 * bound.max_rows
    assert np.abs(counts - others).sum() <= paid


def test_a_stream_that_forgets_counts_a_person_again():
    versions = [((step, "ada"), (step, "bob")) for step in range(STEPS)]
    bound = EventBound(max_rows=2, max_per_step=2, salt=SALT)
    kept, forgotten = (play(versions, bound, places=9, forget=forget)[0] for forget in (False, True))
    assert kept.sum(axis=0).tolist() == [2, 2, 0, 0, 0]
    assert forgotten.sum(axis=0).tolist() == [5, 5, 0, 0, 0]


def test_beyond_the_places_one_persons_absence_counts_another():
    bound = EventBound(max_rows=2, max_per_step=2, salt=SALT)
    rows = tuple((0, person) for person in ("ada", "ada", "bob", "bob"))
    [first, second] = sorted(("ada", "bob"), key=lambda one: hmac.digest(bound.unit_key, one.encode(), "sha256"))
    versions = [rows] * STEPS
    assert play(versions, bound, places=1)[0].sum(axis=0)[PERSONS.index(first)] == 2
    without = [tuple(row for row in rows if row[1] != first)] * STEPS
    assert play(without, bound, places=1)[0].sum(axis=0)[PERSONS.index(second)] == 2


@EVERY_KIND
@given(persons=st.dictionaries(st.text(max_size=3), st.integers(1, 65_535), max_size=20), more=st.integers(1, 5))
def test_records_hold_what_is_used_in_a_length_that_shows_nothing(persons, more):
    hashes = unit_hashes(persons, b"k" * 32)
    use = UnitUse.none(len(persons) + more).after(hashes, np.array([*persons.values()], dtype=np.int64))
    records = use.to_records()
    assert records.shape == (len(persons) + more, RECORD_BYTES)
    assert sorted(map(bytes, records[:, :32])) == list(map(bytes, records[:, :32])), "sorted by hash"
    again = UnitUse.from_records(records)
    assert again.of(hashes).tolist() == [*persons.values()]
    assert again.of(unit_hashes(["not among them"], b"k" * 32)).tolist() == [0]
    assert "units" not in repr(use)


def test_more_than_there_is_room_for_is_no_state():
    hashes = unit_hashes(["ada", "bob"], b"k" * 32)
    with pytest.raises(ValueError, match="more units, or rows of a unit"):
        UnitUse.none(1).after(hashes, np.array([1, 1]))
    with pytest.raises(ValueError, match="more units, or rows of a unit"):
        UnitUse.none(2).after(hashes, np.array([1, 65_536]))
