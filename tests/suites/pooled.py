"""What binned residuals and calibrations promise alike: bins and pools of every release, whatever the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figures import OK
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.suites.diagnostic import DiagnosticSuite
from tests.support.score_rows import NASTY_ROWS, column
from tests.support.scored_rows import GRID, ten_data_sets
from tests.support.undefined import is_undefined

DATA_SETS = ten_data_sets()
METHODS = ["auto", "recursive_medians", "fixed_bins"]
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
EVERY_DATA_SET = pytest.mark.parametrize("name", DATA_SETS)


def counts_of(name: str, cells: int = GRID) -> ScoreCounts:
    return ScoreCounts.from_arrays(*DATA_SETS[name], cells=cells)


def no_rows(cells: int = GRID) -> ScoreCounts:
    return ScoreCounts.from_arrays([], [], cells=cells)


def check_bins(result: Any, bins: int) -> None:
    """What holds of the bins and pools of every release, beside the rules of its type."""
    assert {array.shape for array in result.published().values() if isinstance(array, np.ndarray)} == {(bins,)}
    assert (result.lower < result.upper).all()
    assert result.pool[0] == 0
    if result.status == OK:
        assert (result.zone_lower <= result.zone_upper).all()
        assert 0 < result.p_value <= 1


@pytest.mark.usefixtures("few_copies")
class PooledSuite(DiagnosticSuite):
    """A subclass gives a number of bins and ``check_figures``."""

    bins: ClassVar[int]
    tables = {name: lambda name=name: counts_of(name, 4096) for name in DATA_SETS}
    empty = staticmethod(lambda: no_rows(4096))
    nasty = staticmethod(lambda: ScoreCounts.from_arrays(column(NASTY_ROWS, 0), column(NASTY_ROWS, 1), cells=4096))

    def __init_subclass__(cls) -> None:
        """Try every method with little and with ordinary budget."""
        cls.settings = [{"epsilon": e, "method": m, "bins": cls.bins} for e in ("0.01", "1") for m in METHODS]

    def check_figures(self, result: Any) -> None:
        """Assert what holds for the figures of every defined result of the kind."""
        raise NotImplementedError

    def check_form(self, result: Any, options: Mapping[str, Any]) -> None:
        super().check_form(result, options)
        check_bins(result, options["bins"])
        if not is_undefined(self.package.DIAGNOSTIC.kind, result):
            self.check_figures(result)

    def test_no_small_table_breaks_a_release(self) -> None:
        @given(
            cells=st.integers(1, 8).map(lambda power: 2**power),
            rows=st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), max_size=40),
            epsilon=st.sampled_from(["0.001", "0.5", "7", "1000000"]),
            method=st.sampled_from(METHODS),
            neighbours=st.sampled_from(list(Neighbours)),
            seed=st.integers(0, 2**32 - 1),
        )
        @settings(deadline=None, max_examples=25)
        def check(
            cells: int, rows: list[tuple[int, float]], epsilon: str, method: str, neighbours: Neighbours, seed: int
        ) -> None:
            statistic = ScoreCounts.from_arrays([row[0] for row in rows], [row[1] for row in rows], cells=cells)
            draw = self.package.measure(
                statistic, epsilon=epsilon, method=method, neighbours=neighbours, noise=SeededNoise(seed)
            )
            self.check_form(self.package.summarise(draw, seed=seed), {"bins": draw.bins.size - 1})

        check()

    @pytest.mark.parametrize(
        "wrong",
        [
            {"method": "deciles"},
            {"bins": 1},
            {"bins": 257},
            {"bins": 12, "method": "recursive_medians"},
            {"confidence": 0.4},
            {"confidence": 1},
            {"epsilon": 0},
            {"epsilon": "nan"},
            {"delta": -1},
        ],
        ids=str,
    )
    def test_options_out_of_bounds_are_refused(self, wrong: Mapping[str, Any]) -> None:
        with pytest.raises(InvalidRequest):
            self.package.release(no_rows(), **{"epsilon": 1, "noise": SeededNoise(1), **wrong})
