"""Quantiles in the cells of a table: the choice of the dense mechanism, word for word, and counts of rings."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.cell_quantiles import ValuesByCell, choose_quantiles, count_around
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.quantiles import private_quantile, rings, sparse_quantile
from spark_jobs.mechanisms.selection import permute_and_flip_runs
from tests.support.noises import Still

SIZE = 37
TABLES = {
    "no row": {},
    "one at the start": {0: 1},
    "one at the end": {SIZE - 1: 5},
    "neighbours": {4: 2, 5: 1, 6: 4, 20: 1},
    "both ends": {0: 3, SIZE - 1: 3},
    "everywhere": dict.fromkeys(range(SIZE), 2),
}


def by_cell(*tables: dict[int, int]) -> ValuesByCell:
    keys = [(cell * SIZE + at, rows) for cell, table in enumerate(tables) for at, rows in sorted(table.items())]
    every = np.array(keys, dtype=np.int64).reshape(-1, 2)
    return ValuesByCell(cells=len(tables), size=SIZE, keys=every[:, 0], counts=every[:, 1])


def dense(table: dict[int, int]) -> np.ndarray:
    counts = np.zeros(SIZE, dtype=np.int64)
    counts[list(table)] = list(table.values())
    return counts


@pytest.mark.parametrize("level", ["0.5", "0.9", "0.01"])
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_runs_of_equal_scores_choose_what_their_cells_would(table: dict[int, int], level: str) -> None:
    cells = np.array(sorted(table), dtype=np.int64)
    rows = np.array([table[at] for at in sorted(table)], dtype=np.int64)
    for neighbours in Neighbours:
        for seed in range(30):
            options = {"level": level, "epsilon": "0.8", "neighbours": neighbours, "noise": SeededNoise(seed)}
            found = sparse_quantile(cells, rows, size=SIZE, **options)
            assert found == private_quantile(dense(table), **{**options, "noise": SeededNoise(seed)})


def test_each_cell_has_the_whole_budget_and_its_own_rows() -> None:
    values = by_cell(*TABLES.values())
    selected = choose_quantiles(
        values, level="0.5", epsilon=10**7, neighbours=Neighbours.REPLACE_ONE, noise=SeededNoise(1)
    )
    for at, table in zip(selected.tolist(), TABLES.values(), strict=True):
        if table:
            of_rows = np.repeat(np.arange(SIZE), dense(table))
            low, high = (np.quantile(of_rows, 0.5, method=name) for name in ("lower", "higher"))
            assert low <= at <= high
    still = Still()
    noisy = count_around(values, selected, epsilon=2, neighbours=Neighbours.REPLACE_ONE, noise=still)
    assert still.asked == [(1, 1)]
    exact = [
        np.add.reduceat(dense(table), rings(at, SIZE)[:-1])
        for at, table in zip(selected.tolist(), TABLES.values(), strict=True)
    ]
    assert noisy.around.tolist() == np.concatenate(exact).tolist()


def test_words_drawn_depend_on_public_sizes_alone() -> None:
    class Counting(SeededNoise):
        drawn = 0

        def words(self, count: int) -> np.ndarray:
            self.drawn += count
            return super().words(count)

    drawn = []
    for table in TABLES.values():
        noise = Counting(3)
        choose_quantiles(by_cell(table), level="0.5", epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=noise)
        drawn.append(noise.drawn)
    assert max(drawn) - min(drawn) <= 4, "only the choice among those accepted may be tossed again"


@pytest.mark.parametrize("lengths", [[], [0, 3], [1 << 22, 1]])
def test_runs_that_are_none_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="lengths"):
        permute_and_flip_runs(np.zeros(len(lengths)), lengths, epsilon=1, l_inf_sensitivity=1, noise=SeededNoise(1))


def test_a_level_outside_its_bounds_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="level"):
        choose_quantiles(by_cell({}), level="1.5", epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(1))
