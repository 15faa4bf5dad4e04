from __future__ import annotations

import itertools
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from spark_jobs.contract.column_types import kind_of_type, normal_type
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.kinds import kind_of_expression
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.tables.expressions import _Scope, feature_column, filter_column
from tests.support.expressions import KINDS, expressions, nasty_table
from tests.support.spark import settings as spark_settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

# an example is a query of a second, so a failing one is shown as it is
QUERIES = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
EXAMPLES = 60 if os.environ.get("DP_AUDIT") == "long" else 6
"""Queries tried, each of some 25 expressions."""
ANSI = "spark.sql.ansi.enabled"
EXTREME = st.sampled_from(KINDS).flatmap(lambda kind: expressions(3, extreme=True)[kind])
TAME = st.sampled_from(KINDS).flatmap(lambda kind: expressions(2, extreme=False)[kind])


@pytest.fixture(scope="module")
def nasty(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    return nasty_table(spark, str(tmp_path_factory.mktemp("nasty") / "table"))


@pytest.fixture(scope="module")
def tame(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "select l, d, s, b, t, m from values "
        "(1L, 0.5D, 'a', true, date '2026-01-31', timestamp '2026-01-31 12:00:00'),"
        "(2L, 3D, ' 12 ', false, date '1999-12-31', timestamp '1999-12-31 23:59:59'),"
        "(-7L, -2.25D, '', null, date '2026-02-28', null),"
        "(null, null, null, true, null, timestamp '2020-02-29 00:00:00'),"
        "(0L, 0D, '2026-01-31', false, date '1970-01-01', timestamp '1970-01-01 00:00:00')"
        " as v(l, d, s, b, t, m)"
    ).cache()


def column_of(text: str, schema: StructType) -> Column:
    return _Scope(schema=schema, field="where", text=text).translate(parse(text)).column


def values(frame: DataFrame, columns: list[Column]) -> list[list[Any]]:
    rows = frame.select(*(column.alias(f"c{n}") for n, column in enumerate(columns))).collect()
    return [list(row) for row in rows]


def one(spark: SparkSession, text: str, row: str = "select 1 as a") -> Any:
    frame = spark.sql(row)
    return values(frame, [column_of(text, frame.schema)])[0][0]


@settings(QUERIES, max_examples=EXAMPLES)
@given(texts=st.lists(EXTREME, min_size=20, max_size=30))
@pytest.mark.verify
def test_no_expression_raises_on_any_value_and_ansi_changes_nothing(
    spark: SparkSession, nasty: DataFrame, texts: list[str]
) -> None:
    from pyspark.sql import functions as sf

    digests = []
    for ansi in ("true", "false"):
        with spark_settings(spark, {ANSI: ansi}):
            columns = [column_of(text, nasty.schema) for text in texts]
            digests.append(nasty.agg(*(sf.bit_xor(sf.xxhash64("l", "s", column)) for column in columns)).collect())
    assert digests[0] == digests[1]


def test_the_extreme_table_breaks_ordinary_sql(spark: SparkSession, nasty: DataFrame) -> None:
    """The control of the test above: without the total forms these values do raise."""
    from pyspark.errors import PySparkException

    for text in ("l + 1", "l * l", "-l", "abs(l)", "d / 0", "cast(d as int)", "cast(s as double)", "cast(l as int)"):
        with spark_settings(spark, {ANSI: "true"}):
            spoilt = nasty.selectExpr(f"max({text})")
            with pytest.raises(PySparkException):
                spoilt.collect()


@settings(QUERIES, max_examples=EXAMPLES)
@given(texts=st.lists(TAME, min_size=20, max_size=30))
def test_expressions_mean_what_spark_reads_in_their_text(
    spark: SparkSession, tame: DataFrame, texts: list[str]
) -> None:
    from pyspark.sql import functions as sf

    with spark_settings(spark, {ANSI: "false"}):
        ours = values(tame, [column_of(text, tame.schema) for text in texts])
        theirs = values(tame, [sf.expr(text) for text in texts])
    for text, our, their in zip(texts, zip(*ours, strict=True), zip(*theirs, strict=True), strict=True):
        assert all(_same(a, b) for a, b in zip(our, their, strict=True)), text


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b
    return bool(a == b)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9223372036854775807 + 1", None),
        ("-(-9223372036854775808)", None),
        ("abs(-9223372036854775808)", None),
        ("abs(-3)", 3),
        ("7 / 2", 3.5),
        ("1 / 0", None),
        ("1e0 / 0", None),
        ("ln(0)", None),
        ("sqrt(4)", 2.0),
        ("try_cast('x' as double)", None),
        ("cast('3.5' as double)", 3.5),
        ("cast(3e9 as int)", None),
        ("cast(3e9 as bigint)", 3_000_000_000),
        ("cast('2026-02-30' as string)", "2026-02-30"),
        ("year(cast('2026-02-30' as string)) is null", "refused"),
        ("year(cast(a as date))", "refused"),
        ("year(date '0001-01-01')", 1),
        ("day(timestamp '1582-10-04 23:00:00')", 4),
        ("timestamp '2026-01-01 00:00:00' = timestamp '2026-01-01T02:00:00+02:00'", True),
        ("coalesce(null, 2)", 2),
        ("greatest(1, 2.5)", 2.5),
        ("null = 1", None),
        ("null is null", True),
        ("case when null then 1 else 2 end", 2),
        ("case a when 1 then 'x' end", "x"),
        ("1 = true", "refused"),
        ("'a' like '_'", True),
        ("'abc' like 'a%c'", True),
        ("length('\U0001f600')", 1),
        ("'\U0001f600' like '_'", True),
        ("'aba' like 'ab%ba'", False),
        ("'abba' like 'ab%ba'", True),
        ("'a\nb' like 'a_b'", True),
        ("'xaby' like '_a%_'", True),
        ("'' like '%'", True),
        ("'' like '_%'", False),
        ("null like 'a%'", None),
        ("abs(9223372036854775807)", 9223372036854775807),
    ],
)
def test_values_where_sql_leaves_a_choice(spark: SparkSession, text: str, expected: object) -> None:
    if expected == "refused":
        with pytest.raises(InvalidRequest):
            one(spark, text)
    else:
        assert one(spark, text) == expected


PATTERNS = st.text("ab_%", max_size=6).filter(lambda text: admitted(f"s like '{text}'"))
"""Patterns of LIKE that the language takes."""


def admitted(text: str) -> bool:
    try:
        parse(text)
    except InvalidRequest:
        return False
    return True


@pytest.mark.verify
@settings(QUERIES, max_examples=EXAMPLES)
@given(patterns=st.lists(PATTERNS, min_size=30, max_size=40, unique=True))
def test_patterns_mean_what_spark_reads_in_them(spark: SparkSession, patterns: list[str]) -> None:
    words = ["".join(word) for size in range(6) for word in itertools.product("ab", repeat=size)]
    frame = spark.createDataFrame([(word,) for word in (*words, None)], "s string")
    ours = values(frame, [column_of(f"s like '{pattern}'", frame.schema) for pattern in patterns])
    theirs = values(frame, [frame.s.like(pattern) for pattern in patterns])
    for pattern, our, their in zip(patterns, zip(*ours, strict=True), zip(*theirs, strict=True), strict=True):
        assert our == their, pattern


@pytest.mark.sampled
@pytest.mark.halved
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("s like '" + "_" * 199 + "%'", [1]),
        (" and ".join(["l >= 0"] * 600), [0, 1]),
        # the second row alone goes all the way down
        (f"case when l = 1 then {' and '.join(['l > 0'] * 600)} else true end", [0, 1]),
        (f"case when l = 1 then {'abs(' * 19}l{')' * 19} = 1 else true end", [0, 1]),
        (f"case when l = 1 then {'l + ' * 90}0 = 90 else true end", [0, 1]),
    ],
)
@pytest.mark.parametrize("codegen", ["CODEGEN_ONLY", "NO_CODEGEN"])
def test_the_largest_expressions_fail_on_no_value(
    spark: SparkSession, tmp_path: Path, text: str, kept: list[int], codegen: str
) -> None:
    """A failure for some rows and not for others would say who is in the table."""
    path = str(tmp_path / "table")
    spark.range(2).selectExpr("id as l", "repeat('x', int(id * 200000)) as s").repartition(1).write.parquet(path)
    frame = spark.read.parquet(path)
    generated = str(codegen == "CODEGEN_ONLY").lower()
    with spark_settings(spark, {"spark.sql.codegen.wholeStage": generated, "spark.sql.codegen.factoryMode": codegen}):
        assert sorted(row.l for row in frame.where(filter_column(text, frame.schema)).collect()) == kept


@pytest.mark.parametrize("pattern", ["_" * 7_000, "x" * 201, "_" * 201 + "%"])
def test_a_long_pattern_is_refused_whoever_is_in_the_table(tame: DataFrame, pattern: str) -> None:
    """As a regular expression the first of these overflowed the stack on one long text, and on no other row."""
    with pytest.raises(InvalidRequest, match="LIKE takes a pattern of at most 200 characters; shorten it"):
        filter_column(f"s like '{pattern}'", tame.schema)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s > 1", "types integer and string"),
        ("s = 1.5", "types number and string"),
        ("d in ('x')", "types number and string"),
        ("t > '2026-01-31'", "types date and string"),
        ("t > m", "types date and timestamp"),
        ("b + 1 > 0", "needs type number where"),
        ("s + 1 > 0", "needs type number where"),
        ("lower(l) = 'x'", "needs type string where"),
        ("l like 'x%'", "needs type string where"),
        ("year(s) > 0", "needs type date where"),
        ("cast(t as double) > 0", "cannot cast type date to DOUBLE"),
        ("cast(s as timestamp) > m", "cannot cast type string to TIMESTAMP"),
        ("case when l then 1 end > 0", "needs type boolean where"),
        ("coalesce(l, s) > 0", "types integer and string"),
        ("l", "needs type boolean where"),
        ("not s", "needs type boolean where"),
        ("a > 1", "must be of type"),
        ("nowhere > 1", "must be a column of the table, which has l, d, s, b, t, m, a"),
    ],
)
def test_a_condition_that_does_not_fit_the_schema_is_refused_in_one_line(tame: DataFrame, text: str, told: str) -> None:
    from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

    schema = StructType([*tame.schema.fields, StructField("a", ArrayType(IntegerType()))])
    with pytest.raises(InvalidRequest) as refused:
        filter_column(text, schema)
    assert told in str(refused.value)
    assert str(refused.value).startswith("where: got ")
    assert "\n" not in str(refused.value)


def test_a_string_with_another_collation_is_refused(spark: SparkSession) -> None:
    frame = spark.sql("select 'a' collate UNICODE_CI as s")
    with pytest.raises(InvalidRequest, match="collate"):
        filter_column("s = 'A'", frame.schema)


def test_columns_are_found_whatever_their_name(spark: SparkSession) -> None:
    frame = spark.sql(
        "select 2 as `hours-per-week`, 3 as `a.b`, 5 as `x``y`, 7 as Big, 10 as hours, 1 as per, 1 as week"
    )
    features = ["hours-per-week", "`a.b` + 0", "a.b", "`x``y`", "BIG", "hours - per - week"]
    assert values(frame, [feature_column(text, frame.schema) for text in features]) == [[2.0, 3.0, 3.0, 5.0, 7.0, 8.0]]


def test_a_name_that_two_columns_share_but_for_case_is_refused(spark: SparkSession) -> None:
    from pyspark.sql.types import IntegerType, StructField, StructType

    schema = StructType([StructField("a", IntegerType()), StructField("A", IntegerType())])
    with pytest.raises(InvalidRequest, match="column of the table"):
        filter_column("`b` > 1", schema)


@pytest.mark.parametrize(
    ("feature", "expected"), [("b", 1.0), ("l", 1.0), ("d", 0.5), ("s = 'a'", 1.0), ("null", None)]
)
def test_features_are_doubles(tame: DataFrame, feature: str, expected: float | None) -> None:
    row = values(tame.where("l = 1"), [feature_column(feature, tame.schema)])[0]
    assert row == [expected]


@pytest.mark.parametrize("feature", ["s", "t", "lower(s)", "date '2026-01-31'"])
def test_a_feature_that_is_no_number_is_refused_with_a_remedy(tame: DataFrame, feature: str) -> None:
    with pytest.raises(InvalidRequest, match=r"TRY_CAST\(\.\.\. AS DOUBLE\)") as refused:
        feature_column(feature, tame.schema)
    assert refused.value.field == "model.coefficients"


def test_a_filter_keeps_only_rows_for_which_it_is_true(tame: DataFrame) -> None:
    kept = tame.where(filter_column("d / l > 0 or s = ''", tame.schema)).select("l").collect()
    assert sorted(row.l for row in kept) == [-7, 1, 2]


def test_the_examples_of_a_table_on_disk(spark: SparkSession, tmp_path: Path) -> None:
    """Conditions are pushed down to the files, and still mean the same there."""
    path = str(tmp_path / "table")
    spark.range(100).selectExpr("id", "cast(id as int) as small", "cast(id as string) as text").write.parquet(path)
    frame = spark.read.parquet(path)
    text = "id >= 10 and small < 20 and text in ('11', '12', '99') and small != 12"
    assert [row.id for row in frame.where(filter_column(text, frame.schema)).collect()] == [11]


MIXED = st.builds(
    lambda template, a, b: template.format(a=a, b=b),
    st.sampled_from(
        ["{a} = {b}", "{a} + {b}", "{a} / {b}", "{a} and {b}", "not {a}", "coalesce({a}, {b})", "ln({a})", "abs({a})",
         "length({a})", "year({a})", "case when {a} then {b} else {a} end", "{a} in (1, 'a')", "{a} like 'a%'",
         "try_cast({a} as timestamp)", "try_cast({a} as double)", "{a} is null", "power({a}, {b})", "upper({a})"]
    ),
    st.one_of(EXTREME, st.just("null")),
    EXTREME,
)  # fmt: skip
"""Expressions of which some put together what does not fit."""


@pytest.mark.verify
@settings(QUERIES, max_examples=10 * EXAMPLES)
@given(text=MIXED)
def test_what_is_known_without_spark_is_what_spark_is_given(nasty: DataFrame, text: str) -> None:
    try:
        expression = parse(text)
    except InvalidRequest:
        reject()  # such as a text that is no timestamp, which is refused before anything has a type
    schema = nasty.schema
    kinds = {field.name: kind_of_type(normal_type(field.dataType.simpleString())) for field in schema.fields}
    outcomes: list[Any] = []
    for infer in (
        lambda: _Scope(schema=schema, field="where", text=text).translate(expression).kind,
        lambda: kind_of_expression(expression, kinds, field="where", text=text),  # type: ignore[arg-type]
    ):
        try:
            outcomes.append(infer())
        except InvalidRequest as refused:
            outcomes.append(str(refused))
    assert outcomes[0] == outcomes[1]
