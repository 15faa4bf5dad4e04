"""The memory that lines of 10^5 groups take of the driver's Python."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.contract.json_pieces import json_bytes
from spark_jobs.statistics import Moments
from spark_jobs.statistics.spark.points import by_group
from tests.support.many_groups import lines_request, sums

GROUPS = 100_000
CELLS = 1_000_000
MAX_GROWTH, MAX_GROWTH_OF_MEANS, MAX_GROWTH_OF_COUNTS, MAX_STATISTIC = 350, 450, 780, 64
"""MiB: of the whole end of a release of lines, of means and of counts, to which imports and the request add 210; of the
sums."""
KEYS, MAX_GROWTH_OF_KEYS = 300_000, 100
"""Keys with enough units to be released, and MiB: 61 for a third of them, 68 for a million."""


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.parametrize(
    "fault",
    [pytest.param((), id="as it is"), pytest.param(("as-lists",), id="planted fault", marks=pytest.mark.soak)],
)
def test_the_end_of_a_release_takes_a_bounded_growth_of_memory(fault: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.support.many_groups", str(GROUPS), *fault]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=900, check=True
    )
    assert (float(done.stdout) < MAX_GROWTH) == (not fault), done.stdout


@pytest.mark.slow
@pytest.mark.verify
def test_counts_and_three_means_of_as_many_groups_take_less_than_a_gibibyte() -> None:
    """530 MiB with imports and the request, beside Java's."""
    command = [sys.executable, "-m", "tests.support.many_groups", str(GROUPS), "means"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=900, check=True
    )
    assert float(done.stdout) < MAX_GROWTH_OF_MEANS, done.stdout


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.parametrize(
    "fault",
    [pytest.param((), id="as it is"), pytest.param(("at-once",), id="planted fault", marks=pytest.mark.soak)],
)
def test_discovered_keys_are_never_in_the_driver_together(fault: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.support.many_keys", str(KEYS), *fault]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=900, check=True
    )
    growth, _, released = map(int, done.stdout.split())
    assert 950 < released < 1050
    assert (growth < MAX_GROWTH_OF_KEYS) == (not fault), growth


@pytest.mark.slow
@pytest.mark.verify
def test_counts_of_a_million_cells_take_less_than_a_gibibyte() -> None:
    """894 MiB with imports and the request, beside Java's."""
    command = [sys.executable, "-m", "tests.support.many_groups", str(CELLS), "counts"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=900, check=True
    )
    assert float(done.stdout) < MAX_GROWTH_OF_COUNTS, done.stdout


@pytest.mark.parametrize("rows", [10, 10**9])
def test_the_sums_of_groups_take_memory_by_the_request_and_not_by_the_rows(rows: int) -> None:
    """From the seven numbers that Spark collects for each group to the statistic."""
    exact = sums(lines_request(GROUPS), rows=rows)
    grid = exact.grid
    collected = [np.arange(GROUPS), exact.n + 1, *(getattr(exact, name) for name in ("n", "x", "y", "xx", "xy"))]
    tracemalloc.start()
    copies = [values.copy() for values in collected]
    statistic = Moments(**by_group(copies[0], copies[1:], grid), grid=grid)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert statistic.unusable.tolist() == [1] * GROUPS
    assert 2 * 6 * 8 * GROUPS < peak < MAX_STATISTIC * 2**20
    assert sum(getattr(statistic, name).nbytes for name in ("n", "x", "y", "xx", "xy", "unusable")) == 6 * 8 * GROUPS


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        None,
        1.5,
        "é\n\u2028",
        {"a": [], "b": {}, "é": [None, True, "x, y"], "c": [[1.0, 2.5], [], [{"d": 1e-300}]]},
        list(range(4096)),
        list(range(4097)),
        [*range(5000), [1], {"x": (1, 2)}],
    ],
)
def test_a_document_in_pieces_has_the_text_of_the_whole(value: object) -> None:
    assert json_bytes(value, end="\n").decode() == json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def test_a_number_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_bytes({"x": [1.0, math.nan]})
