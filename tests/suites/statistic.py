"""What every statistic of private rows promises: counts that add up, of known sensitivity, that show nothing."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours

EVERY_KIND = settings(suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow], deadline=None)


class StatisticSuite:
    """A subclass, named ``Test...``, gives the attributes below.

    Attributes:
        kind: the class of the statistic.
        count: makes the statistic of a list of rows, as a static method.
        rows: the strategy of such lists; ``row`` that of one row.
        cells: the counts of a statistic, by cell, as a static method.
        packed: the keys and counts that the statistic is made of, and the arguments of ``from_keys``, as a static
            method.
        shown: a statistic of distinctive counts, and its whole ``repr``.
        others: statistics that differ from ``shown``, and from each other.
        grids: two statistics on different grids, and what a sum of both is refused with.
        read_only: the names of its arrays.
        empty: tables without a row that counts.
    """

    kind: ClassVar[type]
    count: ClassVar[Callable[[list[Any]], Any]]
    rows: ClassVar[st.SearchStrategy[list[Any]]]
    row: ClassVar[st.SearchStrategy[Any]]
    cells: ClassVar[Callable[[Any], Mapping[Any, int]]]
    packed: ClassVar[Callable[[Any], tuple[Any, Any, dict[str, Any]]]]
    shown: ClassVar[tuple[Any, str]]
    others: ClassVar[Sequence[Any]]
    grids: ClassVar[tuple[Any, Any, str]]
    read_only: ClassVar[Sequence[str]]
    empty: ClassVar[Sequence[list[Any]]]

    @pytest.mark.slow
    @EVERY_KIND
    @given(data=st.data())
    def test_parts_add_up_to_the_whole_in_any_order(self, data: st.DataObject) -> None:
        one, other = data.draw(self.rows), data.draw(self.rows)
        assert self.count(one) + self.count(other) == self.count([*other, *one])
        assert self.count(one) == self.count(one[::-1])

    @pytest.mark.slow
    @EVERY_KIND
    @given(data=st.data())
    def test_one_row_moves_the_counts_by_at_most_the_l1_sensitivity(self, data: st.DataObject) -> None:
        rows, row = data.draw(self.rows), data.draw(self.row)
        place = data.draw(st.integers(0, max(len(rows) - 1, 0)))
        replaced = [*rows[:place], row, *rows[place + 1 :]]
        before = Counter(self.cells(self.count(rows)))

        def distance(table: list[Any]) -> int:
            after = Counter(self.cells(self.count(table)))
            return sum(abs(before[cell] - after[cell]) for cell in before | after)

        assert distance([*rows, row]) <= self.kind.l1_sensitivity(Neighbours.ADD_REMOVE) == 1  # type: ignore[attr-defined]
        assert not rows or distance(replaced) <= self.kind.l1_sensitivity(Neighbours.REPLACE_ONE) == 2  # type: ignore[attr-defined]

    @pytest.mark.slow
    @EVERY_KIND
    @given(data=st.data())
    def test_keys_with_counts_make_the_same_object(self, data: st.DataObject) -> None:
        statistic = self.count(data.draw(self.rows))
        keys, counts, options = self.packed(statistic)
        assert self.kind.from_keys(keys[::-1], counts[::-1], **options) == statistic  # type: ignore[attr-defined]

    def test_counts_are_values_that_show_nothing(self) -> None:
        statistic, representation = self.shown
        assert repr(statistic) == str(statistic) == f"{statistic}" == representation
        assert copy.deepcopy(statistic) == statistic == pickle.loads(pickle.dumps(statistic))
        assert hash(copy.copy(statistic)) == hash(statistic)
        assert len({statistic, copy.copy(statistic), *self.others}) == 1 + len(self.others)
        assert statistic != type(statistic).__name__
        for name in self.read_only:
            with pytest.raises(ValueError, match="read-only"):
                getattr(statistic, name)[0] = 7
            with pytest.raises(AttributeError):
                setattr(statistic, name, getattr(statistic, name))

    def test_counts_on_other_grids_do_not_add(self) -> None:
        one, other, message = self.grids
        with pytest.raises(InvalidRequest, match=message):
            one + other

    def test_a_table_without_a_row_that_counts_has_the_usual_shape(self) -> None:
        usual = {name: getattr(self.count([]), name).shape for name in self.read_only}
        for rows in self.empty:
            statistic = self.count(rows)
            assert {name: getattr(statistic, name).shape for name in self.read_only} == usual
            assert sum(self.cells(statistic).values()) == 0
