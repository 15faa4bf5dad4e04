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


WHOLE = {
    "close": ["3", "5", "4", "9"],
    "far": ["-9223372036854775808", "0", "17", "9223372036854775807"],
    "one": ["-7"],
    "as texts": ["03", "-0", "+5", "4.0", " 9", "9223372036854775808", "٣", "1_0"],
    "none": ["a"],
}


@pytest.mark.parametrize("compared", [False, True])
@pytest.mark.parametrize("name", list(WHOLE))
def test_whole_numbers_have_the_places_of_their_texts(spark: Any, name: str, compared: bool) -> None:
    numbers = [-(2**63), 2**63 - 1, -9, -7, *range(-1, 19), None]
    places = {key: 2 * place for place, key in enumerate(WHOLE[name])}
    rows = spark.createDataFrame([(row, number) for row, number in enumerate(numbers)], "row int, number bigint")
    with lists_by_cases() if compared else nullcontext():
        columns = [
            listed_place(sf.col("number"), places, whole=True).alias("whole"),
            listed_place(sf.col("number"), places).alias("text"),
        ]
    counted = rows.select("row", *columns).collect()
    assert {row["row"]: row["whole"] for row in counted} == {row["row"]: row["text"] for row in counted}
    assert [row["whole"] for row in sorted(counted)] == [places.get(str(number)) for number in numbers]


def test_comparisons_end_with_their_context(spark: Any) -> None:
    rows = spark.createDataFrame([(17,)], "number bigint")
    with lists_by_cases():
        compared = listed_place(sf.col("number"), {"17": 3, "18": 4})
    mapped = listed_place(sf.col("number"), {"17": 3, "18": 4})
    assert [tuple(row) for row in rows.select(compared, mapped).collect()] == [(3, 3)]
    assert "CASE" in str(compared)
    assert "CASE" not in str(mapped)
