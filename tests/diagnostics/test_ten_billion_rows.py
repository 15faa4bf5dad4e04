"""Every kind with the counts of 10^10 rows: no sum overflows, and nothing but the noise moves a figure."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from spark_jobs.contract.options import DIAGNOSTICS, LabelledRowCells
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.mechanisms.noise import SeededNoise
from tests.support.kinds import EXAMPLES, tables, times

ROWS = 10**10
WIDTHS = re.compile("population|privacy_share|lower|upper|zone|interval|statistic|calibrated")
"""Figures that depend on the number of rows, not on the noise alone."""
NUMBERS = re.compile("rows|count|sum|incomplete")
"""Figures that are numbers of rows or grow with them."""
EVERY = [
    pytest.param(DIAGNOSTICS[kind].model_validate({"kind": kind, **base}), id=f"{kind}-{place}")
    for kind in DIAGNOSTICS
    for place, base in enumerate(EXAMPLES[kind])
]
CASES = [case for case in EVERY if not isinstance(case.values[0].statistics[0], LabelledRowCells)]
"""All but those whose statistic keeps rows, and whose sums of them do not grow with their number."""


def figures(result, names):
    """The figures of a result that are numbers or lists of them, as arrays."""
    found = {name: np.array(result.get(name), dtype=object) for name in names}
    return {
        name: values.astype(float)
        for name, values in found.items()
        if values.size and all(isinstance(value, int | float) for value in values.ravel())
    }


@pytest.mark.slow
@pytest.mark.parametrize("options", CASES)
def test_figures_of_ten_billion_rows_are_those_of_a_million_with_as_little_noise(options):
    statistic = tables(options, Neighbours.ADD_REMOVE)[0]
    kind, found = diagnostic(options.kind), []
    for rows, epsilon in ((10**6, "10000"), (ROWS, "1")):
        delta = "1e-6" if options.accepts_delta else 0
        terms = Terms(epsilon=epsilon, delta=delta, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(1))
        draw = kind.measurement.measure(times(statistic, rows // 100), options, terms)
        result = json.loads(json.dumps(kind.summarise(draw, seed=1).to_dict()))
        found.append((result.get("status"), figures(result, options.result.figure_names())))
    (status, small), (same, large) = found
    assert status == same
    assert set(status) <= {"ok"} if isinstance(status, list) else status == "ok"
    for name in small.keys() & large.keys():
        assert np.isfinite(large[name]).all(), name
        if NUMBERS.search(name):
            large[name], small[name] = large[name] / ROWS, small[name] / 10**6
        if small[name].shape == large[name].shape and not WIDTHS.search(name):
            assert large[name] == pytest.approx(small[name], abs=0.02), name
