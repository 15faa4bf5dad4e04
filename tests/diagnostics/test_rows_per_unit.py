"""A chosen bound on the rows of a unit: what it is near to, its statistic, and its bad requests."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.rows_per_unit import UnitRowCells, candidates_up_to
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics import rows_per_unit
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import UnitRowCounts
from tests.suites.diagnostic import DiagnosticSuite

SITE = {"column": "site", "values": ["a", "b"], "other": False}
EXAMPLES = [{"largest": 6, "units_above": 40}, {"largest": 2, "units_above": 0, "by": [SITE]}]
"""The most rows of a unit that the requests of other tests have is 7."""
ZIPF = np.random.default_rng(7).zipf(1.5, 20_000)


def counted(rows, largest=100):
    return UnitRowCounts.from_rows(np.asarray(rows, dtype=np.int64), design=UnitRowCells(largest=largest))


def chosen(units, releases, **options):
    return [rows_per_unit.release(units, noise=SeededNoise(seed), **options).bound for seed in range(releases)]


def requested(unit, **options):
    return ReleaseRequest.parse(
        {
            "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
            "unit": unit,
            "diagnostics": [{"kind": "rows_per_unit", **EXAMPLES[0], **options}],
            "budget": {"epsilon": "1"},
        }
    )


class TestRowsPerUnit(DiagnosticSuite):
    package = rows_per_unit
    tables = {"many": partial(counted, ZIPF), "one": partial(counted, [1])}
    empty = staticmethod(partial(counted, []))
    nasty = staticmethod(partial(counted, [1, 2**62]))
    settings = [{"epsilon": "1", "units_above": 10}, {"epsilon": "1e-3", "units_above": 0}]


def test_candidates_are_at_most_half_as_large_again_and_end_at_the_limit():
    assert candidates_up_to(1) == (1,)
    assert candidates_up_to(20) == (1, 2, 3, 4, 6, 8, 12, 16, 20)
    largest = candidates_up_to(1_000_000)
    assert (len(largest), largest[-1]) == (40, 1_000_000)
    assert max(np.divide(largest[1:], largest[:-1])) == 2


@pytest.mark.parametrize("above", [10, 200, 3000])
def test_without_noise_it_is_the_least_candidate_that_so_many_exceed(above):
    released = rows_per_unit.release(counted(ZIPF), epsilon=1e6, units_above=above, noise=SeededNoise(1))
    assert released.bound == min(one for one in candidates_up_to(100) if np.sum(one < ZIPF) <= above or one == 100)


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_units_of_one_row_get_the_bound_of_one_row(epsilon):
    ones = counted(np.ones(5000))
    bounds = chosen(ones, 400, epsilon=epsilon, units_above=0)
    assert np.mean(np.equal(bounds, 1)) > 0.8
    assert np.mean(np.greater(bounds, 2)) < 0.06


def test_a_table_without_units_gets_small_bounds():
    bounds = chosen(counted([]), 200, epsilon=1, units_above=9)
    assert np.mean(np.greater(bounds, 2)) < 0.08


def test_units_are_counted_by_their_rows_in_the_groups_of_the_table():
    sites = np.array(["a", "b", "c", "a", "a", "b", "c", "a"], dtype=object)
    owners = np.array(["u", "u", "u", "v", "v", "v", "w", None], dtype=object)
    counts = UnitRowCounts.from_arrays({"site": sites}, owners, by=[SITE], largest=3)
    assert counts.counts.tolist() == [0, 1, 1, 0]
    assert UnitRowCounts.from_arrays({}, owners, largest=2).counts.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("unit", "options", "line"),
    [
        ({}, {}, "unit.column: is required by rows_per_unit"),
        ({"column": "person", "max_rows": 3}, {}, "largest: got 6; must be at most unit.max_rows, which is 3"),
        ({"column": "person", "max_rows": 9}, {"largest": 0}, "largest: got 0; must be a whole number from 1"),
        ({"column": "person", "max_rows": 9}, {"units_above": -1}, "units_above: got -1"),
        (
            {"column": "person", "max_rows": 9},
            {"by": [{"column": "site", "keys": "discover"}]},
            "must have public groups",
        ),
    ],
)
def test_what_does_not_fit_is_refused(unit, options, line):
    with pytest.raises(InvalidRequest) as refused:
        requested(unit, **options)
    assert line in str(refused.value)


def test_it_is_the_only_diagnostic_of_its_request():
    whole = requested({"column": "person", "max_rows": 9})
    with pytest.raises(InvalidRequest, match="must be the only diagnostic of the request"):
        whole.changed(diagnostics=[*whole.diagnostics, {"kind": "quantile", "column": "x", "bounds": [0, 1]}])
