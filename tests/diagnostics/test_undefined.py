"""A figure of too few rows for its noise is no figure: in Python, in JSON and in Parquet, for every kind."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract.figures import OK, PARTLY, UNDEFINED, is_withheld, status_of, undefined_kinds
from spark_jobs.contract.options import DIAGNOSTICS, ScoreCells
from spark_jobs.contract.published import as_json
from spark_jobs.diagnostics import auc, by_group
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.publishing.data_files import parquet_bytes
from spark_jobs.publishing.rendering import Column
from spark_jobs.statistics import GroupedScoreCounts, ScoreCounts
from tests.support.kinds import EXAMPLES
from tests.support.undefined import is_undefined


def few_rows():
    """56 rows, ranked perfectly."""
    return ScoreCounts.from_arrays([0, 1] * 28, [0.2, 0.8] * 28)


SCORES = [
    kind
    for kind, options in DIAGNOSTICS.items()
    if options.model_validate({"kind": kind, **EXAMPLES[kind][0]}).statistics == (ScoreCells(),)
]
"""The kinds that are read from scores alone."""


def test_an_area_of_few_rows_at_little_budget_is_never_published():
    found = [auc.release(few_rows(), epsilon="0.05", noise=SeededNoise(seed)) for seed in range(200)]
    undefined = [is_undefined("auc", each) for each in found]
    assert np.mean(undefined) > 0.99
    assert not any(each.value is not None and status for each, status in zip(found, undefined, strict=True))


def test_an_area_of_many_rows_is_published():
    many = ScoreCounts.from_arrays([0, 1] * 5000, [0.2, 0.8] * 5000)
    assert auc.release(many, epsilon=1, noise=SeededNoise(1)).status == OK


@pytest.mark.parametrize("kind", SCORES)
def test_few_rows_at_little_budget_leave_no_figure_of_any_kind(kind):
    measured = diagnostic(kind).measure(few_rows(), epsilon="0.01", noise=SeededNoise(2))
    found = diagnostic(kind).summarise(measured, seed=1)
    fields = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    if not is_undefined(kind, found):
        # half of the draws have too few rows by themselves; another seed has them then
        found = diagnostic(kind).summarise(
            diagnostic(kind).measure(few_rows(), epsilon="0.01", noise=SeededNoise(3)), seed=1
        )
        assert is_undefined(kind, found)
        fields = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert status_of(fields) == UNDEFINED


def test_few_rows_at_little_budget_leave_no_figure_of_any_group():
    regions = np.array(["north", "south"], dtype=object).repeat(28)
    rows = GroupedScoreCounts.from_arrays([0, 1] * 28, [0.2, 0.8] * 28, regions, keys=("north", "south"))
    released = by_group.release(rows, epsilon="0.01", kinds=("auc", "roc_curve"), noise=SeededNoise(2))
    fields = json.loads(json.dumps(released.to_dict(), allow_nan=False))
    assert fields["status"] == [UNDEFINED] * 3
    assert all(of_kind["status"] == UNDEFINED for group in fields["results"] for of_kind in group.values())
    assert all(found["difference"] is None for found in fields["comparisons"])


def test_a_figure_beside_an_undefined_status_is_seen():
    names = ("value", "interval")
    assert is_withheld(names, {"value": None, "interval": None})
    assert not is_withheld(names, {"value": 1.0, "interval": None})
    names = ("cdf", "quantiles")
    assert is_withheld(names, {"cdf": [None], "quantiles": [{"level": 0.5, "value": None}]})
    assert not is_withheld(names, {"cdf": [None], "quantiles": [{"level": 0.5, "value": 3.0}]})


def test_the_status_of_groups_is_that_of_all_of_them():
    assert status_of({"status": ["ok", "ok"]}) == OK
    assert status_of({"status": ["ok", "undefined"]}) == PARTLY
    assert status_of({"status": ["undefined"]}) == UNDEFINED
    assert undefined_kinds({"auc": OK, "ecdf": UNDEFINED, "linear_regression": PARTLY}) == ("ecdf",)


def test_nothing_is_null_in_a_data_file_and_in_a_list():
    columns = {
        "value": Column(values=np.array([0.5, np.nan]), meaning="v"),
        "n": Column(values=np.array([1, 2]), meaning="n"),
    }
    table = pq.ParquetFile(io.BytesIO(parquet_bytes(columns, metadata={}))).read()
    assert table.column("value").to_pylist() == [0.5, None]
    assert [(field.name, field.nullable) for field in table.schema] == [("value", True), ("n", False)]
    assert as_json(np.array([[0.5, np.nan]])) == [[0.5, None]]
