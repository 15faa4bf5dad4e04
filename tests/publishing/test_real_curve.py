"""The renderer against the result it is made for."""

import io

import numpy as np
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract.release import NOT_PRIVATE, Release
from spark_jobs.diagnostics import roc_curve
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics.score_counts import ScoreCounts
from tests.support import publications as made


def released(labels, scores):
    counts = ScoreCounts.from_arrays(labels, scores, cells=1024)
    return roc_curve.release(counts, epsilon=1, noise=SeededNoise(7), method="fixed_cells", thresholds=32)


@pytest.fixture(scope="module")
def curve():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 2000)
    return released(labels, np.clip(0.3 * labels + rng.random(2000) * 0.7, 0, 1))


def test_real_result_is_published_as_it_was_released(curve):
    release, files = made.publish({"roc_curve": curve}, facts=made.facts(draft=True))
    table = pq.read_table(io.BytesIO(files["roc_curve.parquet"]))
    np.testing.assert_array_equal(table.column("tpr").to_numpy(), curve.tpr.value)
    assert release.guarantee == NOT_PRIVATE, "its noise came from a seed"
    assert Release.from_json(release.to_json()) == release
    assert f'class="number">{curve.auc.value:.3f}'.encode() in files["report.html"]


def test_empty_table_gives_files_of_the_same_shape(curve):
    nothing = released(np.array([], dtype=int), np.array([], dtype=float))
    full, empty = (made.publish({"roc_curve": result}, facts=made.facts())[1] for result in (curve, nothing))
    assert list(full) == list(empty)
    tables = [pq.read_table(io.BytesIO(files["roc_curve.parquet"])) for files in (full, empty)]
    assert tables[0].schema == tables[1].schema
    assert tables[0].num_rows == tables[1].num_rows
