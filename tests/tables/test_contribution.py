from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import GroupBound, PrivacyUnit
from spark_jobs.contract.salt import read_salt
from spark_jobs.tables.contribution import GroupsOfRows, bound_contributions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SALT = b"a salt of sixteen bytes or more"
UNITS = st.sampled_from(["a", "b", "c", None])
ROWS = st.lists(st.tuples(UNITS, st.integers(0, 2), st.sampled_from([0.0, -0.0, 0.5, None])), max_size=30)


def kept(
    frame: DataFrame,
    *,
    max_rows: int = 2,
    keys: tuple[str, ...] = ("k", "x"),
    salt: bytes = SALT,
    row_id: str | None = None,
) -> Counter[Any]:
    unit = PrivacyUnit(column="u", max_rows=max_rows)
    rows = bound_contributions(frame, unit=unit, keys=keys, salt=salt, row_id=row_id).collect()
    return Counter(tuple(row) for row in rows)


def table(spark: SparkSession, rows: list[Any], partitions: int = 1) -> DataFrame:
    return spark.createDataFrame(rows, "u string, k int, x double").repartition(partitions)


@pytest.mark.spark
@pytest.mark.verify
@settings(
    max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
@given(rows=ROWS, shuffled=st.randoms(use_true_random=False), max_rows=st.integers(1, 4))
def test_the_same_rows_are_kept_in_any_order_and_partitioning(
    spark: SparkSession, rows: list[Any], shuffled: Any, max_rows: int
) -> None:
    found = kept(table(spark, rows), max_rows=max_rows)
    mixed = list(rows)
    shuffled.shuffle(mixed)
    assert kept(table(spark, mixed, 4), max_rows=max_rows) == found
    owned = [row for row in rows if row[0] is not None]
    units = Counter(row[0] for row in owned)
    assert sum(found.values()) == sum(min(count, max_rows) for count in units.values())
    assert not found - Counter((k, x) for _, k, x in owned)


@pytest.mark.spark
@pytest.mark.verify
@settings(
    max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
@given(
    rows=st.lists(st.tuples(UNITS, st.integers(0, 2), st.sampled_from([0.0, 0.5, None])), max_size=30),
    ids=st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=30, max_size=30),
    shuffled=st.randoms(use_true_random=False),
    max_rows=st.integers(1, 4),
)
def test_rows_with_a_row_id_are_bounded_in_any_order_and_partitioning(
    spark: SparkSession, rows: list[Any], ids: list[Any], shuffled: Any, max_rows: int
) -> None:
    """Whether or not the column distinguishes all of them, and where it is null."""
    numbered = [(*row, one) for row, one in zip(rows, ids, strict=False)]
    mixed = list(numbered)
    shuffled.shuffle(mixed)
    names = "u string, k int, x double, i int"
    found = kept(spark.createDataFrame(numbered, names).repartition(1), max_rows=max_rows, row_id="i")
    assert kept(spark.createDataFrame(mixed, names).repartition(4), max_rows=max_rows, row_id="i") == found
    owned = [row for row in rows if row[0] is not None]
    units = Counter(row[0] for row in owned)
    assert sum(found.values()) == sum(min(count, max_rows) for count in units.values())
    assert not found - Counter((k, x) for _, k, x in owned)


@pytest.mark.spark
@pytest.mark.parametrize(("max_rows", "row_id"), [(3, None), (1, "x"), (3, "x"), (1, "k")])
def test_other_units_are_untouched_when_one_leaves(spark: SparkSession, max_rows: int, row_id: str | None) -> None:
    """The stability that the privacy of a unit rests on: at most ``max_rows`` rows differ."""
    rows = [(f"u{n % 7}", n % 3, float(n)) for n in range(100)]
    whole = kept(table(spark, rows), max_rows=max_rows, row_id=row_id)
    for unit in ("u0", "u3"):
        rest = kept(table(spark, [row for row in rows if row[0] != unit], 3), max_rows=max_rows, row_id=row_id)
        assert not rest - whole
        assert sum((whole - rest).values()) == max_rows


@pytest.mark.spark
@pytest.mark.parametrize("row_id", [None, "n"])
def test_every_row_of_a_unit_has_the_same_chance(spark: SparkSession, row_id: str | None) -> None:
    """1 row of 10 that are alike and 1 of 5 others: of 3000 units, 2000 keep one of the alike rows.

    The standard deviation is 26; five of them are a false alarm of one in two million.
    """
    frame = (
        spark.range(3000)
        .selectExpr("cast(id as string) as u", "explode(sequence(1, 15)) as n")
        .selectExpr("u", "n", "if(n <= 10, 0, n) as k", "cast(null as double) as x")
    )
    found = kept(frame, max_rows=1, row_id=row_id)
    assert abs(found[0, None] - 2000) < 130
    assert all(abs(found[n, None] - 200) < 5 * 14 for n in range(11, 16))
    assert sum(found.values()) == 3000


@pytest.mark.spark
@pytest.mark.verify
def test_a_unit_of_very_many_rows_that_are_alike_is_bounded(spark: SparkSession) -> None:
    frame = spark.range(150_000).selectExpr("'a' as u", "if(id < 10, 1, 0) as k", "0D as x")
    assert sum(kept(frame, max_rows=1_000_000).values()) == 150_000
    assert sum(kept(frame, max_rows=140_000).values()) == 140_000


@pytest.mark.spark
def test_another_salt_keeps_other_rows(spark: SparkSession) -> None:
    frame = spark.range(200).selectExpr("cast(id % 20 as string) as u", "int(id) as k", "0D as x")
    assert kept(frame) == kept(frame.repartition(5))
    assert kept(frame) != kept(frame, salt=SALT + b"!")


@pytest.mark.spark
def test_a_row_as_unit_keeps_every_row(spark: SparkSession) -> None:
    frame = table(spark, [("a", 1, 0.5), (None, 1, 0.5)])
    found = bound_contributions(frame, unit=PrivacyUnit(), keys=["k"], salt=b"")
    assert [tuple(row) for row in found.collect()] == [(1,), (1,)]


@pytest.mark.spark
@pytest.mark.parametrize("type_name", ["int", "double", "date", "boolean", "decimal(5, 0)", "timestamp"])
def test_units_of_any_plain_type_are_bounded(spark: SparkSession, type_name: str) -> None:
    base = "date '2026-01-01'" if type_name in ("date", "timestamp") else "true" if type_name == "boolean" else "3"
    frame = spark.range(9).selectExpr(f"cast({base} as {type_name}) as u", "int(id) as k", "0D as x")
    assert sum(kept(frame).values()) == 2


@pytest.mark.spark
@pytest.mark.parametrize("max_rows", [1, 2])
@pytest.mark.parametrize("type_name", ["bigint", "decimal(20, 0)", "decimal(38, 18)", "string"])
def test_long_numbers_are_units_of_their_own(spark: SparkSession, type_name: str, max_rows: int) -> None:
    many = spark.range(2**60, 2**60 + 8).selectExpr(f"cast(id as {type_name}) as u", "int(id % 2) as k", "0D as x")
    assert sum(kept(many, max_rows=max_rows).values()) == 8


@pytest.mark.spark
def test_zeros_and_nans_are_one_unit_each(spark: SparkSession) -> None:
    frame = spark.sql("select u, 1 as k, 0D as x from values (0D), (-0D), (double('nan')), (double('nan')) as v(u)")
    assert sum(kept(frame, max_rows=1).values()) == 2


@pytest.mark.spark
@pytest.mark.parametrize(("column", "told"), [("v", "column of the table"), ("u", "must be of type")])
def test_a_unit_that_does_not_fit_the_schema_is_refused(spark: SparkSession, column: str, told: str) -> None:
    frame = spark.sql("select array(1) as u, 1 as k")
    with pytest.raises(InvalidRequest, match=told) as refused:
        bound_contributions(frame, unit=PrivacyUnit(column=column), keys=["k"], salt=SALT)
    assert refused.value.field == "unit.column"


@pytest.mark.spark
def test_rows_of_equal_row_id_have_one_place(spark: SparkSession) -> None:
    """10 rows of one number and 1 of another: each is kept in half of 3000 units, with a standard deviation of 27."""
    frame = spark.range(3000).selectExpr("cast(id as string) as u", "explode(sequence(1, 11)) as n")
    frame = frame.selectExpr("u", "int(n > 10) as k", "0D as x")
    found = kept(frame, max_rows=1, row_id="k")
    assert sum(found.values()) == 3000
    assert abs(found[0, 0.0] - 1500) < 5 * 27.4


@pytest.mark.spark
@pytest.mark.parametrize("row_id", [None, "i"])
def test_rows_that_differ_in_where_they_are_null_have_chances_of_their_own(
    spark: SparkSession, row_id: str | None
) -> None:
    """Of 400 units, each row is kept in half, with a standard deviation of 10; equal hashes would keep the first."""
    columns = ("k", "j") if row_id is None else ("k", "i")
    rows = [(f"u{n}", *pair) for n in range(400) for pair in ((7, None), (None, 7))]
    frame = spark.createDataFrame(rows, f"u string, {columns[0]} int, {columns[1]} int").coalesce(1)
    found = kept(frame, max_rows=1, keys=columns if row_id is None else ("k",), row_id=row_id)
    assert sum(found.values()) == 400
    assert abs(sum(count for row, count in found.items() if row[0] == 7) - 200) < 50


@pytest.mark.spark
@pytest.mark.parametrize("row_id", [None, "n"])
@pytest.mark.parametrize("max_rows", [1, 2])
def test_spare_rows_come_last(spark: SparkSession, max_rows: int, row_id: str | None) -> None:
    from pyspark.sql import functions as sf

    frame = spark.range(200).selectExpr("cast(id as string) as u", "explode(sequence(1, 9)) as n")
    frame = frame.selectExpr("u", "n", "if(n = 5, 1, 0) as k")
    unit = PrivacyUnit(column="u", max_rows=max_rows)
    rows = bound_contributions(frame, unit=unit, keys=["k"], salt=SALT, spare=sf.col("k") == 0, row_id=row_id)
    assert Counter(row.k for row in rows.collect()) == Counter({1: 200, 0: 200 * (max_rows - 1)})


@pytest.mark.spark
def test_one_row_by_row_id_is_found_before_rows_are_shuffled(spark: SparkSession) -> None:
    frame = spark.range(10).selectExpr("cast(id as string) as u", "int(id) as k", "id as n")
    bounded = bound_contributions(frame, unit=PrivacyUnit(column="u"), keys=["k"], salt=SALT, row_id="n")
    executed = bounded._jdf.queryExecution().executedPlan().toString()
    last, exchange, first = (executed.index(one) for one in ("HashAggregate", "Exchange hash", "partial_min_by"))
    assert last < exchange < first
    assert executed.count("Exchange hashpartitioning") == 1
    assert "Sort" not in executed


@pytest.mark.spark
@pytest.mark.parametrize("row_id", [None, "n"])
@pytest.mark.parametrize(("max_rows", "sorts"), [(1, False), (2, True)])
def test_the_plan_has_one_exchange_of_rows_and_no_salt(
    spark: SparkSession, max_rows: int, sorts: bool, row_id: str | None
) -> None:
    import hashlib

    frame = spark.range(10).selectExpr("cast(id as string) as u", "int(id) as k", "id as `a.``b`", "id as n")
    unit = PrivacyUnit(column="u", max_rows=max_rows)
    bounded = bound_contributions(frame, unit=unit, keys=["k", "a.`b"], salt=SALT, row_id=row_id)
    assert bounded.columns == ["k", "a.`b"]
    plan = bounded._jdf.queryExecution().toString()
    executed = bounded._jdf.queryExecution().executedPlan().toString()
    assert executed.count("Exchange hashpartitioning") == 1
    assert ("Sort" in executed) is sorts
    digest = hashlib.sha256(b"dp-diagnostics contributions\0" + SALT).hexdigest()
    for secret in (SALT.decode(), SALT.hex(), digest):
        assert secret not in plan


def test_a_salt_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "salt"
    file.write_bytes(b"0123456789abcdef\n")
    assert read_salt({"DP_DIAGNOSTICS_SALT": "0123456789abcdef"}) == b"0123456789abcdef"
    assert read_salt({"DP_DIAGNOSTICS_SALT_FILE": str(file), "DP_DIAGNOSTICS_SALT": ""}) == b"0123456789abcdef"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, "exactly one of"),
        ({"DP_DIAGNOSTICS_SALT": "s" * 20, "DP_DIAGNOSTICS_SALT_FILE": "/x"}, "exactly one of"),
        ({"DP_DIAGNOSTICS_SALT": "too short secret"[:15]}, "at least 16 bytes"),
        ({"DP_DIAGNOSTICS_SALT_FILE": "/nowhere/salt"}, "file that can be read"),
    ],
)
def test_a_missing_or_short_salt_is_refused_without_telling_it(environ: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_salt(environ)
    assert told in str(refused.value)
    assert "too short" not in str(refused.value)
    assert "\n" not in str(refused.value)


def of_few_groups(
    frame: DataFrame, groups: int, rows: int, *, row_id: str | None = None, salt: bytes = SALT
) -> Counter[Any]:
    """The rows that are kept, with their unit; ``cause`` is null for rows that count, ``k`` is their group."""
    from pyspark.sql import functions as sf

    limit = GroupsOfRows(sf.col("k"), GroupBound(groups, rows))
    unit = PrivacyUnit(column="u", max_rows=groups * rows)
    kept = bound_contributions(
        frame,
        unit=unit,
        keys=["k", "x", "cause"],
        salt=salt,
        row_id=row_id,
        cause="cause",
        with_unit=True,
        groups=limit,
    )
    return Counter((row["unit"], row["k"], row["x"], row["cause"]) for row in kept.collect() for _ in range(row[3]))


def rows_of_groups(units: int = 12) -> list[Any]:
    """Units of 1 to 12 rows in up to 5 groups, some alike, and of rows that do not count."""
    counted = [(f"u{n}", m * (n + 2) % 5, float(m // 2), None) for n in range(units) for m in range(n + 1)]
    others = [(f"u{n}", None, None, n % 2) for n in range(units) for _ in range(n % 4)]
    return [*counted, *others, (None, None, None, 0)]


@pytest.mark.spark
@pytest.mark.parametrize("row_id", [None, "i"])
@pytest.mark.parametrize(("groups", "rows"), [(1, 1), (2, 1), (1, 3), (2, 3), (9, 99)])
def test_a_unit_has_few_groups_and_few_rows_in_one(
    spark: SparkSession, groups: int, rows: int, row_id: str | None
) -> None:
    """As many as there are, up to the limits, whatever the order; rows that do not count have what is left."""
    table = rows_of_groups()
    frame = spark.createDataFrame(
        [(*row, n % 7) for n, row in enumerate(table)], "u string, k int, x double, cause int, i int"
    )
    found = of_few_groups(frame, groups, rows, row_id=row_id)
    assert of_few_groups(frame.repartition(5), groups, rows, row_id=row_id) == found
    for unit in {row[0] for row in table} - {None}:
        own = Counter(row[1] for row in table if row[0] == unit and row[3] is None)
        kept = Counter(dict.fromkeys(own, 0))
        for (_, key, _, cause), number in ((row, count) for row, count in found.items() if row[0] == unit):
            if cause is None:
                kept[key] += number
        sizes = {key: count for key, count in kept.items() if count}
        assert len(sizes) == min(groups, len(own))
        assert all(count == min(rows, own[key]) for key, count in sizes.items())
        spare = sum(count for row, count in found.items() if row[0] == unit and row[3] is not None)
        causes = sum(row[0] == unit and row[3] is not None for row in table)
        assert spare == min(groups * rows - sum(sizes.values()), causes)
    assert found[None, None, None, 0] == 1
    assert not found - Counter(table)


@pytest.mark.spark
def test_groups_of_other_units_stay_when_one_leaves_and_another_salt_keeps_others(spark: SparkSession) -> None:
    names, table = "u string, k int, x double, cause int", rows_of_groups()
    whole = of_few_groups(spark.createDataFrame(table, names), 2, 2)
    for unit in ("u11", "u7"):
        rest = of_few_groups(
            spark.createDataFrame([row for row in table if row[0] != unit], names).repartition(3), 2, 2
        )
        assert not rest - whole
        assert sum((whole - rest).values()) == 4
        assert {row[0] for row in whole - rest} == {unit}
    assert of_few_groups(spark.createDataFrame(table, names), 2, 2, salt=SALT + b"!") != whole
