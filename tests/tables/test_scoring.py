from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_jobs.contract.domains import parse_domain
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.score_scale import ScoreScale
from spark_jobs.score_grid import cells_of, places_on
from spark_jobs.tables.scoring import label_and_score
from tests.support.requests import a_logistic_request, a_request
from tests.support.spark import settings as spark_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

INF, NAN = math.inf, math.nan


def scored(frame: DataFrame, request: ReleaseRequest) -> list[tuple[Any, Any]]:
    label, score = label_and_score(frame, request)
    result = frame.select(label.alias("label"), score.alias("score"))
    assert dict(result.dtypes) == {"label": "int", "score": "double"}
    return [(row.label, row.score) for row in result.collect()]


def labels(spark: SparkSession, values: list[Any], type_name: str, label: Any) -> list[Any]:
    frame = spark.createDataFrame([(value,) for value in values], "y string").selectExpr(
        f"try_cast(y as {type_name}) as y", "0.5D as score"
    )
    return [label for label, _ in scored(frame, a_request(label=label))]


@pytest.mark.parametrize("type_name", ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5, 2)"])
def test_numbers_of_two_classes_are_labels(spark: SparkSession, type_name: str) -> None:
    assert labels(spark, ["1", "0", "2", "-1", None], type_name, "y") == [1, 0, None, None, None]
    other = {"column": "Y", "positive": 2, "negative": -1}
    assert labels(spark, ["1", "0", "2", "-1", None], type_name, other) == [None, None, 1, 0, None]


def test_doubles_that_are_neither_class_are_dropped(spark: SparkSession) -> None:
    assert labels(spark, ["NaN", "Infinity", "0.5", "-0.0", "1.0"], "double", "y") == [None, None, None, 0, 1]


@pytest.mark.parametrize(("positive", "negative", "expected"), [(1, 0, [1, 0, None]), (False, True, [0, 1, None])])
def test_booleans_are_labels(spark: SparkSession, positive: Any, negative: Any, expected: list[Any]) -> None:
    label = {"column": "y", "positive": positive, "negative": negative}
    assert labels(spark, ["true", "false", None], "boolean", label) == expected


def test_text_is_a_label(spark: SparkSession) -> None:
    label = {"column": "y", "positive": "yes", "negative": ""}
    assert labels(spark, ["yes", "", "YES", " yes", None], "string", label) == [1, 0, None, None, None]


@pytest.mark.parametrize(
    ("type_name", "label", "told"),
    [
        ("string", "y", "must be of type boolean, integer or number, not string"),
        ("int", {"column": "y", "positive": "1", "negative": "0"}, "must be of type string, not int"),
        ("int", {"column": "y", "positive": "1", "negative": 0}, "of the same type as label.positive"),
        ("boolean", {"column": "y", "positive": 2, "negative": 0}, "must be of type integer or number, not boolean"),
        ("date", "y", "not date"),
        ("array<int>", "y", "not array<int>"),
        ("int", "z", "must be a column of the table, which has y, score"),
        (
            "int",
            {"column": "y", "positive": 1, "negative": float("nan")},
            "a valid text, or a number within the range of a double",
        ),
        (
            "string",
            {"column": "y", "positive": "\ud800", "negative": "0"},
            "a valid text, or a number within the range of a double",
        ),
    ],
)
def test_a_label_that_does_not_fit_the_schema_is_refused(
    spark: SparkSession, type_name: str, label: Any, told: str
) -> None:
    frame = spark.sql(f"select cast(null as {type_name}) as y, 0.5D as score")
    with pytest.raises(InvalidRequest) as refused:
        label_and_score(frame, a_request(label=label))
    assert told in str(refused.value)
    assert "label." in str(refused.value)


SCORES = [0.25, 0.0, -0.0, 1.0, 7.0, -1.0, INF, -INF, NAN, None]


@pytest.mark.parametrize(
    ("outside", "expected"),
    [
        ("clamp", [0.25, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, None, None]),
        ("drop", [0.25, 0.0, 0.0, 1.0, None, None, None, None, None, None]),
    ],
)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_scores_follow_the_public_rule(spark: SparkSession, outside: str, expected: list[Any], ansi: str) -> None:
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        frame = spark.createDataFrame([(1, score) for score in SCORES], "y int, score double")
        assert [score for _, score in scored(frame, a_request(scoring={"outside": outside}))] == expected


@pytest.mark.parametrize("type_name", ["float", "int", "decimal(10, 2)"])
def test_scores_may_be_any_number(spark: SparkSession, type_name: str) -> None:
    frame = spark.sql(f"select 1 as y, cast(s as {type_name}) as score from values (1), (0), (7), (null) as v(s)")
    assert sorted(repr(score) for _, score in scored(frame, a_request())) == ["0.0", "1.0", "1.0", "None"]


@pytest.mark.parametrize("type_name", ["string", "boolean", "array<double>", "date"])
def test_a_score_of_another_type_is_refused(spark: SparkSession, type_name: str) -> None:
    frame = spark.sql(f"select 1 as y, cast(null as {type_name}) as score")
    with pytest.raises(InvalidRequest, match=r"model\.score: got 'score'; must be of type integer or number"):
        label_and_score(frame, a_request())


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_map_recalibrates_clipped_scores(spark: SparkSession, ansi: str) -> None:
    """No score, whatever it is, fails or gives anything but a probability or null."""
    scores = [0.0, -3.0, 0.005, 0.2, 0.5, 0.999, 1.0, 7.0, INF, -INF, NAN, None]
    table = spark.createDataFrame([(1, score) for score in scores], "y int, score double")
    score_map = {"intercept": -0.4, "slope": 1.7, "clip": 0.01}
    model = {"kind": "columns", "basis": "public", "score": "score", "recalibrated": score_map}
    clipped = np.clip([0, 0, 0.005, 0.2, 0.5, 0.999, 1, 1, 1, 0], 0.01, 0.99)
    expected = [*(1 / (1 + np.exp(0.4 - 1.7 * np.log(clipped / (1 - clipped))))), None, None]
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        mapped = [score for _, score in scored(table, a_request(model=model))]
        dropped = [score for _, score in scored(table, a_request(model=model, scoring={"outside": "drop"}))]
    assert mapped[-2:] == [None, None]
    assert mapped[:-2] == pytest.approx(expected[:-2], abs=1e-12)
    assert [score is None for score in dropped] == [score is None or not 0 <= score <= 1 for score in scores]


@pytest.fixture(scope="module")
def people(spark: SparkSession) -> DataFrame:
    rows = [
        (1, 30, 1.5, "a", True, 2),
        (0, -4, -2.0, "b", False, 3),
        (1, 7, 0.0, "other", None, 4),
        (0, None, 1.0, "a", True, 2),
        (1, 5, NAN, "a", True, 2),
        (0, 5, INF, None, True, None),
        (1, 2**31 - 1, 1e308, "a", True, 2),
    ]
    return spark.createDataFrame(rows, "y int, age int, x double, c string, b boolean, n int")


def test_logistic_scores_equal_the_formula(people: DataFrame) -> None:
    request = a_logistic_request(
        intercept=-0.5,
        coefficients={"age": 0.1, "x": 0.7, "x * x": -0.01, "b": 0.3},
        categorical={"c": {"a": 0.2, "b": -0.4}, "n": {"2": 1.0, "3": -1.0}},
    )
    wanted = []
    for _, age, x, c, b, n in people.toLocalIterator():
        if None in (age, x, b):
            wanted.append(None)
            continue
        with np.errstate(all="ignore"):
            z = np.float64(-0.5) + 0.1 * age + 0.7 * x - 0.01 * (np.float64(x) * x) + 0.3 * b
            z += {"a": 0.2, "b": -0.4}.get(c, 0.0) + {2: 1.0, 3: -1.0}.get(n, 0.0)
            p = float(1 / (1 + np.exp(-z)))
        wanted.append(None if math.isnan(p) else p)
    found = [score for _, score in scored(people, request)]
    assert (
        [score is None for score in found] == [score is None for score in wanted] == [False] * 2 + [True] * 4 + [False]
    )
    assert [score for score in found if score is not None] == pytest.approx(
        [score for score in wanted if score is not None], rel=1e-12, abs=0
    )


def test_linear_scores_are_bounded_by_the_rule(people: DataFrame) -> None:
    model = {"kind": "linear", "basis": "public", "intercept": 0.5, "coefficients": {"x": 0.25}}
    clamped = [score for _, score in scored(people, a_request(model=model))]
    assert clamped == [0.875, 0.0, 0.5, 0.75, None, 1.0, 1.0]
    dropped = [score for _, score in scored(people, a_request(model=model, scoring={"outside": "drop"}))]
    assert dropped == [0.875, 0.0, 0.5, 0.75, None, None, None]


def test_levels_of_booleans_and_whole_numbers_are_matched_as_such(people: DataFrame) -> None:
    model = {"kind": "linear", "basis": "public", "categorical": {"b": {"True": 0.25}, "n": {" 2 ": 0.5, "-7": 0.1}}}
    assert [score for _, score in scored(people, a_request(model=model))] == [0.75, 0, 0, 0.75, 0.75, 0.25, 0.75]


def test_a_model_of_many_levels_is_one_expression(spark: SparkSession) -> None:
    frame = spark.range(400).selectExpr("1 as y", "concat('l', id) as c")
    levels = {f"l{place}": place / 4096 for place in range(400)}
    model = {"kind": "linear", "basis": "public", "categorical": {"c": levels}}
    assert [score for _, score in scored(frame, a_request(model=model))] == [place / 4096 for place in range(400)]


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"coefficients": {"nowhere": 1}}, "model.coefficients: got 'nowhere'; must be a column of the table"),
        ({"coefficients": {"c": 1}}, "must be of type integer, number or boolean, not string"),
        ({"coefficients": {"c + 1": 1}}, "needs type number where it has type string"),
        ({"categorical": {"x": {"1": 1}}}, "must be of type string, integer or boolean, not double"),
        ({"categorical": {"nowhere": {"1": 1}}}, "must be a column of the table"),
        ({"categorical": {"n": {"two": 1}}}, "must be a value that a column of type integer can hold"),
        ({"categorical": {"b": {"1": 1}}}, "must be a value that a column of type boolean can hold"),
        ({"categorical": {"c": {"\udfff": 1}}}, "a valid text, or a number within the range of a double"),
    ],
)
def test_a_model_that_does_not_fit_the_schema_is_refused(people: DataFrame, model: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        label_and_score(people, a_logistic_request(**model))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("rows", [[], [(None, None)] * 3, [(5, NAN)], [(1, 0.5)] * 3, [(0, 7.0)], [(1, -INF)]])
def test_tables_of_bad_data_give_the_same_shape(spark: SparkSession, rows: list[Any]) -> None:
    frame = spark.createDataFrame(rows, "y int, score double")
    assert len(scored(frame, a_request())) == len(rows)


def test_the_score_of_a_pipeline_needs_its_output(people: DataFrame) -> None:
    model = {"kind": "spark_ml", "basis": "public", "path": "/models/m"}
    with pytest.raises(ValueError, match="prepare_model"):
        label_and_score(people, a_request(model=model))


SCALES = {
    "percent": ("between 0 and 100 score", lambda p: 100 * p),
    "300 to 850": ("between 300 and 850 score", lambda p: 300 + 550 * p),
    "-1 to 1": ("between -1 and 1 score", lambda p: 2 * p - 1),
    "log-odds": ("logit", lambda p: np.log(p / (1 - p))),
    "rare": ("between 0 and 0.0001 score", lambda p: 1e-4 * p),
    "very rare": ("between 0 and 0.000001 score", lambda p: 1e-6 * p),
    "logarithmic": ("between 1e-9 and 1 log", lambda p: 1e-9 ** (1 - p)),
    "logarithmic from 0": ("between 0 and 10 log", lambda p: 10 * p),
}


@pytest.mark.parametrize("scale", SCALES)
def test_scores_of_every_scale_have_the_same_order_in_cells(spark: SparkSession, scale: str) -> None:
    domain, of = SCALES[scale]
    generator = np.random.default_rng(7)
    visited = generator.random(4000) < 0.5
    chance = np.clip(0.5 + 0.12 * visited - 0.06 + 0.13 * generator.standard_normal(4000), 0.001, 0.999)
    scores = of(chance)
    model = {"kind": "columns", "basis": "public", "score": "score", "scale": ScoreScale.of(parse_domain(domain))}
    frame = spark.createDataFrame(
        [(int(y), float(s)) for y, s in zip(visited, scores, strict=True)], "y int, score double"
    )
    mapped = scored(frame, a_request(label="y", model=model))
    exact = roc_auc_score(visited, scores)
    cells = [math.floor(place * 65536) for _, place in mapped]
    assert abs(roc_auc_score([label for label, _ in mapped], cells) - exact) < 2e-4
    # a public threshold goes through the same formula, so that rows at it count
    at = ScoreScale.of(parse_domain(domain))
    assert at is not None
    assert sum(place >= at.place(float(scores[0])) for _, place in mapped) == int((scores >= scores[0]).sum())


def test_scores_beyond_a_scale_follow_the_public_rule(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT 1 AS y, CAST(s AS DOUBLE) AS score FROM VALUES (200), (300), (850), (900), (NULL) AS t(s)"
    )
    for domain in ("between 300 and 850 score", "between 300 and 850 log"):
        model = {"kind": "columns", "basis": "public", "score": "score", "scale": ScoreScale.of(parse_domain(domain))}
        clamped = scored(frame, a_request(label="y", model=model))
        assert [score for _, score in clamped] == [0, 0, 1, 1, None]
        dropped = scored(frame, a_request(label="y", model=model, scoring={"outside": "drop"}))
        assert [score for _, score in dropped] == [None, 0, 1, None, None]


LATTICES = {
    "two decimals": (0.0, 1.0, 0.01),
    "three decimals": (0.0, 1.0, 0.001),
    "percent": (0.0, 100.0, 1.0),
    "points": (300.0, 850.0, 1.0),
    "tiny": (0.0, 1e-4, 1e-8),
    "odd": (0.3, 0.6, 0.1),
    "signed": (-1.0, 1.0, 2.0**-14),
}


@pytest.mark.parametrize("lattice", LATTICES)
def test_each_value_of_a_scale_with_a_step_has_its_own_cell_and_thresholds_are_exact(
    spark: SparkSession, lattice: str
) -> None:
    lower, upper, step = LATTICES[lattice]
    scale = ScoreScale(kind="linear", lower=lower, upper=upper, step=step)
    generator = np.random.default_rng(5)
    numbers = np.unique(np.append(generator.integers(0, scale.steps + 1, 300), [0, scale.steps]))
    values = lower + numbers * step
    model = {"kind": "columns", "basis": "public", "score": "score", "scale": scale}
    moved = values + step * generator.uniform(-0.4, 0.4, values.size)
    frame = spark.createDataFrame([(1, float(s)) for s in (*values, *moved, math.nan, math.inf)], "y int, score double")
    mapped = [place for _, place in scored(frame, a_request(label="y", model=model))]
    *places, of_nan, of_infinity = mapped
    assert of_nan is None
    assert of_infinity == 1
    # the nearest value, whatever decimals lose; and Spark finds what numpy does
    assert places[: values.size] == places[values.size :] == places_on(scale, values).tolist()
    assert len(set(cells_of(np.array(places[: values.size]), SCORE_CELLS))) == values.size
    for number in generator.choice(numbers, 40):
        exact = lower + number * step
        beside = [np.nextafter(exact, -math.inf), exact, np.nextafter(exact, math.inf)]
        for threshold, first in [*((one, number) for one in beside), (exact + 0.4 * step, number + 1)]:
            if lower <= threshold <= upper:
                counted = np.array(places[: values.size]) >= scale.place(float(threshold))
                assert counted.tolist() == (numbers >= first).tolist()


def test_every_other_value_may_be_the_negative_class(spark: SparkSession) -> None:
    label = {"column": "y", "positive": "yes", "negative": "other", "rest": True}
    assert labels(spark, ["yes", "no", "Yes", "", None], "string", label) == [1, 0, 0, 0, None]
    numbers = {"column": "y", "positive": 2, "negative": "other", "rest": True}
    assert labels(spark, ["2", "0", "NaN", None], "double", numbers) == [1, 0, None, None]
    assert labels(spark, ["2", "0", None], "int", numbers) == [1, 0, None]
