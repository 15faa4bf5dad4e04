"""Whatever numbers the noise makes of few rows or none, a release has results: it never fails on what was drawn."""

from __future__ import annotations

import json

import numpy as np
import pytest

from spark_jobs.application.draft import results_of
from spark_jobs.application.run import measure
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.options.base import ScoreCells
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.statistics import PairedScoreCounts, ScoreCounts
from tests.application.test_draw import request
from tests.audit.test_replay import DELTA, EVERY, FIRST
from tests.support.kinds import EXAMPLES, OTHER_MODEL, statistic_of, tables
from tests.support.noises import ShapedNoise
from tests.support.sharing import measure_shared, read_as

pytestmark = [pytest.mark.filterwarnings("error::RuntimeWarning")]

SHAPES = {
    "none": lambda shape, scale, random: np.zeros(shape),
    "all -1": lambda shape, scale, random: -np.ones(shape),
    "all 1": lambda shape, scale, random: np.ones(shape),
    "all low": lambda shape, scale, random: np.full(shape, -3 * scale),
    "all high": lambda shape, scale, random: np.full(shape, 3 * scale),
    "both signs": lambda shape, scale, random: 3 * scale * random.choice([-1, 1], shape),
    "few large": lambda shape, scale, random: 8 * scale * (random.random(shape) < 0.05),
    "small": lambda shape, scale, random: random.integers(-1, 2, shape),
}
SHAPED = pytest.mark.parametrize("shape", SHAPES)
ROWS = pytest.mark.parametrize("rows", [0, 1, 2])
"""Of each group, where there are groups."""


METHODS = [case for case in EVERY if not case.marks]
"""The first case of each method."""


def drawn(options, table, shape, *, epsilon, neighbours=Neighbours.ADD_REMOVE):
    """A draw of a table with prescribed noise."""
    delta, noise = DELTA if options.accepts_delta else 0, ShapedNoise(SHAPES[shape])
    terms = Terms(epsilon=epsilon, delta=delta, neighbours=neighbours, noise=noise)
    return diagnostic(options.kind).measurement.measure(table, options, terms)


def summarised(kind, draw):
    """The result of a draw, as JSON."""
    return json.dumps(diagnostic(kind).summarise(draw, seed=5).to_dict(), allow_nan=False)


@pytest.mark.sampled("options", "shape")
@pytest.mark.halved
@SHAPED
@ROWS
@pytest.mark.parametrize("options", FIRST)
def test_every_kind_has_a_result(options, rows, shape):
    sizes = (rows,) * len(getattr(options, "groups", None) or ("all",))
    parts = [statistic_of(cells, 1, sizes=sizes) for cells in options.statistics]
    table = parts[0] if len(parts) == 1 else tuple(parts)
    assert summarised(options.kind, drawn(options, table, shape, epsilon="1"))


@pytest.mark.verify
@pytest.mark.halved
@pytest.mark.parametrize("shape", ["none", "all low", "all high", "small"])
@pytest.mark.parametrize("options", METHODS)
def test_so_has_every_method_where_noise_is_all_there_is(options, shape):
    relation = Neighbours.REPLACE_ONE if "theil_sen" in getattr(options, "method", "") else Neighbours.ADD_REMOVE
    table = tables(options, relation)[1]
    assert summarised(options.kind, drawn(options, table, shape, epsilon="0.01", neighbours=relation))


@SHAPED
@ROWS
def test_every_kind_that_is_read_from_a_shared_release_has_a_result(rows, shape):
    readers = [options.model_validate({"kind": kind, **EXAMPLES[kind][-1]}) for kind, options in DIAGNOSTICS.items()]
    # groups share a measurement by key
    sharing = [options for options in readers if options.can_share and options.kind != "by_group"]
    table, noise = statistic_of(ScoreCells(), 1, sizes=(rows,)), ShapedNoise(SHAPES[shape])
    shared = measure_shared(table, diagnostics=sharing, epsilon="1", neighbours=Neighbours.ADD_REMOVE, noise=noise)
    for options in sharing:
        assert summarised(options.kind, read_as(options, shared))


@SHAPED
@ROWS
def test_a_comparison_beside_a_shared_release_has_a_result(rows, shape):
    asked = request(diagnostics=["roc_curve", {"kind": "roc_comparison", "other": OTHER_MODEL}])
    labels, scores = np.arange(rows), np.full(rows, 0.3)
    counts = {
        ScoreCells(): ScoreCounts.from_arrays(labels, scores),
        asked.diagnostics[1].statistics[0]: PairedScoreCounts.from_arrays(labels, scores, scores),
    }
    draw = measure(asked, counts, charge_id="c", noise=ShapedNoise(SHAPES[shape]))
    results, _ = results_of(asked, draw)
    assert results["roc_comparison"].first_is_shared
    assert json.dumps({kind: result.to_dict() for kind, result in results.items()}, allow_nan=False)
