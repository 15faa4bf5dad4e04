"""The Spark half of tables whose keys are discovered against the numpy half, on the same rows."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import SumsByKey
from spark_jobs.statistics.spark import discovered_keys
from tests.support.spark import settings as spark_settings

pytestmark = [pytest.mark.spark, pytest.mark.verify]

MEASURES = [{"of": "spend", "bounds": [0, 10], "step": 0.5}, {"of": "stay", "bounds": [-5, 20.5]}]
KEYS = ["a", "b ", "", "é", "e\u0301", "A", "7", "x" * 255, "x" * 256, None, "\u00a0", "a\nb"]
NUMBERS = [None, float("nan"), float("inf"), -1e308, 0.25, 3.3, 10.0, -0.0]


def by(min_units=2):
    return [{"column": "page", "keys": "discover", "min_units": min_units}]


def content(statistic, min_units=2):
    """The keys that can be released, with their numbers; each of them in one batch only."""
    listed = [
        (key, int(batch.rows[place]), int(batch.incomplete[place]), batch.sums[:, place].tolist())
        for batch in statistic.batches()
        for place, key in enumerate(batch.keys)
        if batch.rows[place] >= min_units
    ]
    assert len({key for key, *_ in listed}) == len(listed)
    return sorted(listed)


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("measures", [MEASURES, MEASURES[:1], []], ids=["two", "one", "none"])
def test_nasty_rows_are_summed_like_arrays(spark, measures, ansi, monkeypatch):
    monkeypatch.setattr(discovered_keys, "_AT_ONCE", 4)
    random = np.random.default_rng(5)
    picked = zip(random.choice(len(KEYS), 400), *random.choice(len(NUMBERS), (2, 400)), strict=True)
    rows = [(KEYS[key], NUMBERS[one], NUMBERS[other]) for key, one, other in picked]
    values = [np.array([row[place] for row in rows], dtype=object) for place in range(3)]
    columns = dict(zip(("page", "spend", "stay"), values, strict=True))
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        table = spark.createDataFrame(rows, "page string, spend double, stay double").repartition(3)
        counted = content(SumsByKey.from_dataframe(table, by=by(), measures=measures))
    assert counted == content(SumsByKey.from_arrays(columns, by=by(), measures=measures))
    assert len(counted) == 9


def test_keys_of_few_rows_and_texts_that_are_none_are_not_read(spark):
    table = spark.createDataFrame([(b"\xff\xfe",)] * 9 + [(b"ok",)] * 9 + [(b"few",)] * 4, "page binary")
    texts = table.selectExpr("cast(page as string) as page")
    statistic = SumsByKey.from_dataframe(texts, by=by(5))
    [batch] = statistic.batches()
    assert (batch.keys, batch.rows.tolist()) == (["ok"], [9])
    assert list(SumsByKey.from_dataframe(texts.limit(0), by=by()).batches()) == []
    numbers = spark.createDataFrame([(7,), (7,), (-1,)], "page bigint")
    assert content(SumsByKey.from_dataframe(numbers, by=by())) == [("7", 2, 0, [])]


def test_many_keys_come_in_batches_of_which_none_is_all(spark, monkeypatch):
    table = spark.range(0, 40_000).selectExpr("concat('k', id div 2) as page")
    monkeypatch.setattr(discovered_keys, "_AT_ONCE", 1000)
    sizes = [len(batch.keys) for batch in SumsByKey.from_dataframe(table, by=by()).batches()]
    assert sum(sizes) == 20_000
    assert max(sizes) < 20_000


def test_a_unit_has_one_row_in_each_key_and_a_complete_one_if_it_can(spark):
    schema = "unit string, place int, page string, spend double"
    rows = [
        ("p", 3, "a", 1.0), ("p", 1, "a", None), ("p", 2, "a", 2.0), ("p", 4, "b", None),
        ("q", 1, "a", 4.0), ("q", 2, None, 9.0), ("r", 1, "a", None),
    ]  # fmt: skip
    design = SumsByKey.from_arrays({"page": [], "spend": []}, by=by(), measures=MEASURES[:1]).design
    table = spark.createDataFrame(rows, schema)
    key = discovered_keys.key_row_of(table["page"], [table["spend"]], design)
    table = table.select("unit", "place", key.alias("row"))
    kept = discovered_keys.one_row_of_a_unit(table, "row", "unit", "place")
    assert sorted((row.row.key, row.row.places) for row in kept.collect()) == [
        ("a", [0, -1]), ("a", [0, 4]), ("a", [0, 8]), ("b", [0, -1]),
    ]  # fmt: skip
    [batch] = discovered_keys.key_batches(kept, "row", design, min_units=2)
    assert (batch.keys, batch.rows.tolist(), batch.incomplete.tolist(), batch.sums.tolist()) == (
        ["a"],
        [2],
        [1],
        [[12]],
    )


def test_a_column_that_cannot_be_a_key_is_refused(spark):
    table = spark.createDataFrame([("a", 1.0)], "region string, page double")
    with pytest.raises(InvalidRequest, match="must be texts or whole numbers"):
        SumsByKey.from_dataframe(table, by=by())
