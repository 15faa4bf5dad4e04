"""Release keys: one line, every part back, and never the same line for different releases."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_operators.releasing import ReleaseKey
from spark_jobs.contract import InvalidRequest

parts = st.text(min_size=1, max_size=12)
keys = st.builds(
    ReleaseKey,
    deployment=parts,
    dag_id=parts,
    run=parts,
    task_id=parts,
    map_index=st.integers(min_value=-1, max_value=10**6),
)


@given(keys)
def test_key_is_read_back_from_its_line(key):
    assert ReleaseKey.parse(str(key)) == key


@given(keys, keys)
def test_different_keys_are_different_lines(one, other):
    assert (str(one) == str(other)) == (one == other)


@given(keys)
def test_key_is_one_printable_line(key):
    assert str(key).isascii()
    assert str(key).isprintable()
    assert " " not in str(key)


def test_separators_inside_a_part_do_not_move_it():
    one = ReleaseKey(deployment="prod", dag_id="a/b", run="c", task_id="d")
    other = ReleaseKey(deployment="prod", dag_id="a", run="b/c", task_id="d")
    assert str(one) == "prod/a%2Fb/c/d/-1"
    assert str(one) != str(other)


def test_ordinary_key_stays_readable():
    key = ReleaseKey(deployment="prod", dag_id="visits", run="scheduled__2026-11-21T00:00:00+00:00", task_id="g.roc")
    assert str(key) == "prod/visits/scheduled__2026-11-21T00:00:00+00:00/g.roc/-1"


def test_key_has_no_place_for_a_try_number():
    assert set(inspect.signature(ReleaseKey).parameters) == {"deployment", "dag_id", "run", "task_id", "map_index"}


@pytest.mark.parametrize("line", ["", "a/b/c/d", "a/b/c/d/x", "a/b/c/d/01", "a//c/d/1", "a/b/c/d/1/2", "cli/abc"])
def test_other_lines_are_refused(line):
    with pytest.raises(InvalidRequest):
        ReleaseKey.parse(line)


@pytest.mark.parametrize("part", ["deployment", "dag_id", "run", "task_id"])
def test_empty_parts_are_refused(part):
    fields = {"deployment": "prod", "dag_id": "dag", "run": "run", "task_id": "task", part: ""}
    with pytest.raises(InvalidRequest, match=rf"key\.{part}"):
        ReleaseKey(**fields)
