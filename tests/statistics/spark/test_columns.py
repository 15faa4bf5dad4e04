"""The place of a key in a public list: by a map and by comparisons, it is that of Python's dictionary."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as sf

from spark_jobs.statistics.spark.columns import listed_place, lists_by_cases

pytestmark = pytest.mark.spark

ODD = ["", " ", "a", "a ", "A", "aa", "0", "00", "é", "e\u0301", "ß", "\uffff", "\U0001f600", "z\x00", "-0", "\x7f"]


@pytest.mark.parametrize("compared", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 130])
def test_places_are_those_of_a_dictionary(spark: Any, size: int, compared: bool) -> None:
    random = np.random.default_rng(size)
    texts = [*ODD, *(str(number) for number in random.integers(-50, 200, 300))]
    known = random.permutation(list(dict.fromkeys(texts)))[:size]
    places = {str(key): int(place) for key, place in zip(known, random.integers(0, 7, size), strict=True)}
    rows = spark.createDataFrame([(row, text) for row, text in enumerate([*texts, None])], "row int, text string")
    with lists_by_cases() if compared else nullcontext():
        place = listed_place(sf.col("text"), places)
    counted = {row["row"]: row["place"] for row in rows.select("row", place.alias("place")).collect()}
    assert [counted[row] for row in range(len(texts))] == [places.get(text) for text in texts]
    assert counted[len(texts)] is None
    assert rows.select(place.alias("place")).schema["place"].dataType.simpleString() == "bigint"


def test_comparisons_end_with_their_context(spark: Any) -> None:
    rows = spark.createDataFrame([(17,)], "number bigint")
    with lists_by_cases():
        compared = listed_place(sf.col("number"), {"17": 3, "18": 4})
    mapped = listed_place(sf.col("number"), {"17": 3, "18": 4})
    assert [tuple(row) for row in rows.select(compared, mapped).collect()] == [(3, 3)]
    assert "CASE" in str(compared)
    assert "CASE" not in str(mapped)
