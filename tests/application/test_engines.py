"""The contract of an engine: what Spark counts on this machine, the embedded engine counts to the last cell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from spark_jobs.application.count_statistics import prepare
from spark_jobs.application.embedded_tables import prepare_embedded, read_embedded
from spark_jobs.application.session import SQL_SETTINGS
from spark_jobs.contract import InvalidRequest, ReleaseRequest
from spark_jobs.contract.embedded_engine import FUNCTIONS, TYPES, CheckedFiles, fault, require_embedded
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.expressions.tree import ColumnReference, walk
from spark_jobs.embedded.client import CONNECT_MODE, embedded_session
from spark_jobs.tables.expressions import filter_column
from spark_jobs.tables.source import read_table
from tests.support.engine_cases import WHERE, cases, counted, differences, request
from tests.support.engine_rows import COLUMNS, retyped, table, with_invalid_texts, write
from tests.support.expressions import expressions
from tests.support.spark import settings

pytestmark = pytest.mark.spark

AXES = {"x": "x", "y": "y", "x_bounds": (0.0, 1.0), "y_bounds": (0.0, 1.0)}
MANY_LINES = {**AXES, "group_by": "site", "groups": [*range(1_001)]}
MANY = {"name": "many", "key": "site", "value": "region", "entries": [[key, "north"] for key in range(1_001)]}
QUICK = ("aggregates-1", "lookup", "unit-texts", "where-3", "model-clipped")
"""Cases of ``make test``; all others are in ``make verify``."""
CASES = [
    pytest.param(changes, id=name, marks=() if name in QUICK else (pytest.mark.verify,))
    for name, changes in cases().items()
]
OF_TEXTS = {
    "label-text": {},
    "by_group-0": {},
    "linear_fit-0": {},
    "aggregates-1": {},
    "filter": {"where": "site LIKE '%a' OR c = 'u'"},
}
"""Cases in which a text that is none counts nowhere, as no text does."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lake") / "v1"
    write(made, table())
    return made


@pytest.fixture(scope="module")
def embedded() -> Iterator[Any]:
    with embedded_session(SQL_SETTINGS) as session:
        del os.environ[CONNECT_MODE]  # a test has a session of Spark besides
        yield session


@pytest.fixture(autouse=True)
def salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)


def sql_settings() -> dict[str, str]:
    return {name: value for name, value in SQL_SETTINGS.items() if ".sql." in name}


def by_spark(spark: Any, asked: ReleaseRequest) -> dict[str, Any]:
    with settings(spark, sql_settings()):
        return counted(prepare(spark, asked), asked)


def by_embedded(session: Any, asked: ReleaseRequest) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONNECT_MODE, "1")
        return counted(prepare_embedded(session, asked), asked)


@pytest.mark.parametrize("changes", CASES)
def test_both_engines_count_alike(spark: Any, embedded: Any, folder: Path, changes: dict[str, Any]) -> None:
    asked = request(folder, **changes)
    assert differences(by_spark(spark, asked), by_embedded(embedded, asked)) == []


NAMES = {
    "l": "person", "i": "visited", "y": "few", "d": "amount", "f": "other", "s": "site", "b": "flag", "t": "born",
    "m": "at", "z": "local", "c": "cents",
}  # fmt: skip
"""The columns of the random conditions, and what they are called in the table."""


def is_proved(text: str) -> bool:
    parts = list(walk(parse(text)))
    columns = {part.name for part in parts if isinstance(part, ColumnReference)}
    return columns <= NAMES.keys() and not any(map(fault, parts))


CONDITIONS = expressions(3, extreme=True)["boolean"].filter(is_proved)


def truths(frame: Any, texts: list[str]) -> list[int]:
    """In how many rows each condition is true, and in how many it is false."""
    from pyspark.sql import functions as sf

    frame = frame.select(*(frame[of].alias(name) for name, of in NAMES.items()))
    columns = [filter_column(text, frame.schema) for text in texts]
    counts = [sf.count(sf.when(one, 1)) for column in columns for one in (column, ~column)]
    return [int(count) for count in frame.agg(*counts).collect()[0]]


@pytest.mark.verify
@hypothesis.settings(deadline=None, max_examples=6, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(texts=st.lists(CONDITIONS, min_size=20, max_size=30))
def test_random_conditions_are_true_of_the_same_rows(spark: Any, embedded: Any, folder: Path, texts: list[str]) -> None:
    source = request(folder).table
    with settings(spark, sql_settings()):
        expected = truths(read_table(spark, source), texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONNECT_MODE, "1")
        assert truths(read_embedded(embedded, source, checked=CheckedFiles.of(source, ())), texts) == expected


def test_the_cases_have_every_function_and_type_that_is_not_refused() -> None:
    assert all(f"{function}(" in " ".join(WHERE) for function in FUNCTIONS)
    assert set(COLUMNS.values()) == {*TYPES, "decimal(10,2)"}


def test_another_salt_keeps_other_rows(embedded: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the cases with units: a choice that were none would agree, too."""
    asked = request(folder, **cases()["unit-texts"])
    first = by_embedded(embedded, asked)
    assert differences(first, by_embedded(embedded, asked)) == []
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "1" * 32)
    assert differences(first, by_embedded(embedded, asked)) != []


@pytest.mark.parametrize(
    "name", [name if name == "label-text" else pytest.param(name, marks=pytest.mark.verify) for name in OF_TEXTS]
)
def test_text_that_is_none_fails_no_run(spark: Any, embedded: Any, tmp_path: Path, name: str) -> None:
    rows = table()
    for column in ("site", "c", "unused"):
        rows = with_invalid_texts(rows, column)
    write(tmp_path / "v1", rows)
    asked = request(tmp_path / "v1", **(OF_TEXTS[name] or cases()[name]))
    one, other = by_spark(spark, asked), by_embedded(embedded, asked)
    of_causes = {key for key, value in one.items() if "left_out" in key.lower() or key == "left_out"}
    assert set(differences(one, other)) <= of_causes


def test_a_unit_whose_name_is_no_text_has_none(embedded: Any, tmp_path: Path) -> None:
    rows = table()
    asked = request(tmp_path / "v1", **cases()["unit-one-text"])
    nulls = pa.array([None if place % 7 == 0 else one for place, one in enumerate(rows["named"].to_pylist())])
    write(tmp_path / "v1", with_invalid_texts(rows, "named"))
    found = by_embedded(embedded, asked)
    without = tmp_path / "other" / "v1"
    write(without, rows.set_column(rows.schema.get_field_index("named"), "named", nulls))
    assert differences(found, by_embedded(embedded, request(without, **cases()["unit-one-text"]))) == []


@pytest.mark.parametrize("of", [pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.string_view()], ids=str)
def test_texts_are_read_however_a_program_keeps_them(embedded: Any, folder: Path, tmp_path: Path, of: Any) -> None:
    rows = table()
    for column in ("site", "named"):
        plain = rows[column].combine_chunks()
        kept = plain.dictionary_encode() if pa.types.is_dictionary(of) else plain.cast(of)
        rows = rows.set_column(rows.schema.get_field_index(column), column, kept)
    write(tmp_path / "v1", rows)
    for name in ("by_group-0", "unit-texts"):
        expected = by_embedded(embedded, request(folder, **cases()[name]))
        assert differences(by_embedded(embedded, request(tmp_path / "v1", **cases()[name])), expected) == []


FOLDERS = [
    "a", "b", "A", "01", "1", " a", "a%20b", "%C3%A9", "%FF", "%00", "%zz", "a%", "50%25%34", "*", "[x]", "x=y", "A'b",
    "a\\b", "\u00e9", "true", "null", "__HIVE_DEFAULT_PARTITION__", "2026-01-31",
]  # fmt: skip
"""Values as the names of folders have them."""
OF_FOLDERS: dict[str, dict[str, Any]] = {
    "groups": {
        "diagnostics": [
            {
                "kind": "by_group",
                "group_by": "site",
                "groups": ["a", "1", "\u00e9", "\x00", "%4"],
                "kinds": ["roc_curve"],
            }
        ]
    },
    "where": {"where": "site > '1' AND NOT site = 'A'"},
    "unit": {"unit": {"column": "site", "max_rows": 40}},
    "blocks": {"block_expression": "value(site)", "blocks": ("a", "null", "a b", "A'b")},
    "label": {"label": {"column": "site", "positive": "a", "rest": True}},
    "not-read": {},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in folders of two levels; half of its files have a column of that name, too."""
    made, rows = tmp_path_factory.mktemp("lake") / "v1", table()
    part = rows.num_rows // len(FOLDERS)
    for place, name in enumerate(FOLDERS):
        own = rows.slice(place * part, part)
        for flag in (False, True):
            chosen = own.filter(
                pc.fill_null(pc.equal(own["few"], 1), False)
                if flag
                else pc.fill_null(pc.not_equal(own["few"], 1), True)
            )
            chosen = chosen if place % 2 else chosen.drop_columns(["site"])
            write(made / f"site={name}" / f"c={flag}", chosen.drop_columns(["c"]), files=1)
    return made


@pytest.mark.parametrize(
    "name", [name if name == "groups" else pytest.param(name, marks=pytest.mark.verify) for name in OF_FOLDERS]
)
def test_folders_named_by_values_are_read_alike(spark: Any, embedded: Any, folders: Path, name: str) -> None:
    asked = request(folders, **OF_FOLDERS[name])
    require_embedded(asked)
    assert differences(by_spark(spark, asked), by_embedded(embedded, asked)) == []


@pytest.mark.parametrize(
    "value", ["a", " a", "a b", "\u00e9", "\xc3\xa9", "\x00", "__HIVE_DEFAULT_PARTITION__", "none"]
)
@pytest.mark.verify
def test_a_partition_is_read_alike(spark: Any, embedded: Any, folders: Path, value: str) -> None:
    asked = request(folders)
    version = {"by": "partition", "columns": ["site"]}
    table = {**asked.table.model_dump(), "path": str(folders), "snapshot": {"partition": {"site": value}}}
    source = type(asked.table).parse({**table, "version": version})
    asked = asked.model_copy(update={"table": source})
    require_embedded(asked)
    assert differences(by_spark(spark, asked), by_embedded(embedded, asked)) == []


def shaken(rows: pa.Table, unit: str) -> pa.Table:
    """The table with times that fit in nanoseconds, of many digits, in another unit."""
    for column in ("at", "local"):
        plain = rows[column].cast(pa.int64()).combine_chunks()
        numbers = pc.fill_null(plain, 0).to_numpy() % (2 * 10**15) * 1000 + np.arange(len(plain)) % 1000 - 10**18
        times = pa.array(numbers, mask=plain.is_null().to_numpy(zero_copy_only=False)).cast(pa.timestamp("ns"))
        of = pa.timestamp(unit, "Europe/Paris" if column == "at" else None)
        rows = rows.set_column(rows.schema.get_field_index(column), column, times.cast(of, safe=False))
    return rows


def noted_otherwise(rows: pa.Table) -> pa.Table:
    """The table with columns of which a program notes another type than the file's."""
    plain = {"some": rows["some"], "person": rows["person"], "born": rows["born"]}
    made = {name: values.combine_chunks().dictionary_encode() for name, values in plain.items()}
    made["few"] = pc.abs(rows["few"]).cast(pa.uint8()).cast(pa.int8()).combine_chunks()
    made["cents"] = rows["cents"].cast(pa.decimal64(10, 2))
    for name, values in made.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    return rows


OF_OTHER_KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "nanoseconds": (lambda rows: shaken(rows, "ns"), {}),
    "milliseconds": (lambda rows: shaken(rows, "ms"), {}),
    "zone": (lambda rows: shaken(rows, "us"), {}),
    "noted-otherwise": (noted_otherwise, {}),
    "days-of-milliseconds": (
        lambda rows: rows.set_column(
            rows.schema.get_field_index("born"), "born", pc.if_else(rows["flag"], rows["born"], None).cast(pa.date64())
        ),
        {},
    ),
    "decimals-as-numbers": (lambda rows: rows, {"store_decimal_as_integer": True}),
    "no-note": (lambda rows: rows, {"store_schema": False}),
}
"""What programs write: how a table is changed, and how it is written."""
OF_TIMES = ("unit-times", "unit-decimals", "periods-at", "periods-local", "periods-born", "where-10", "unit-small")


@pytest.mark.parametrize(
    "name", [name if name == "nanoseconds" else pytest.param(name, marks=pytest.mark.verify) for name in OF_OTHER_KINDS]
)
def test_columns_are_read_whatever_their_program_notes(spark: Any, embedded: Any, tmp_path: Path, name: str) -> None:
    changed, options = OF_OTHER_KINDS[name]
    write(tmp_path / "v1", changed(table()), **options)
    for case in OF_TIMES:
        asked = request(tmp_path / "v1", **cases()[case])
        require_embedded(asked)
        assert differences(by_spark(spark, asked), by_embedded(embedded, asked)) == []


@pytest.mark.parametrize("store_schema", [True, False])
@pytest.mark.verify
def test_times_of_96_bits_are_read(spark: Any, embedded: Any, tmp_path: Path, store_schema: bool) -> None:
    """Spark's own files have such; those before 4713 BC too, in a file that is copied for a text as well."""
    rows = with_invalid_texts(table(), "site").drop_columns(["local"])
    write(tmp_path / "v1", rows, use_deprecated_int96_timestamps=True, store_schema=store_schema)
    for case in ("unit-times", "periods-at", "where-12"):
        asked = request(tmp_path / "v1", **cases()[case])
        columns = tuple(column for column in asked.table.columns or () if column.name != "local")
        asked = asked.model_copy(update={"table": asked.table.model_copy(update={"columns": columns})})
        assert differences(by_spark(spark, asked), by_embedded(embedded, asked)) == []


def test_a_time_in_milliseconds_that_is_none_in_microseconds_fails_no_run(embedded: Any, tmp_path: Path) -> None:
    rows = table()
    place = rows.schema.get_field_index("at")
    times = pa.array([2**62 if row % 5 == 0 else row for row in range(rows.num_rows)]).cast(pa.timestamp("ms", "UTC"))
    write(tmp_path / "v1", rows.set_column(place, "at", times))
    nulls = pa.array([None if row % 5 == 0 else row for row in range(rows.num_rows)]).cast(pa.timestamp("ms", "UTC"))
    write(tmp_path / "other" / "v1", rows.set_column(place, "at", nulls))
    case = cases()["unit-times"]
    expected = by_embedded(embedded, request(tmp_path / "other" / "v1", **case))
    assert differences(by_embedded(embedded, request(tmp_path / "v1", **case)), expected) == []


def test_files_without_rows_and_tables_of_none_are_counted(embedded: Any, folder: Path, tmp_path: Path) -> None:
    rows = table()
    write(tmp_path / "v1", rows)
    pq.write_table(rows.slice(0, 0), tmp_path / "v1" / "none.parquet")
    (tmp_path / "v1" / "no-byte.parquet").touch()
    (tmp_path / "v1" / "_metadata").write_bytes((tmp_path / "v1" / "part-0.parquet").read_bytes())
    (tmp_path / "v1" / "part-0.parquet").rename(tmp_path / "v1" / "part [0]*.parquet")
    for name in ("roc_curve-0", "unit-one-text"):
        expected = by_embedded(embedded, request(folder, **cases()[name]))
        assert differences(by_embedded(embedded, request(tmp_path / "v1", **cases()[name])), expected) == []
    write(tmp_path / "empty" / "v1", rows.slice(0, 0), files=1)
    empty = by_embedded(embedded, request(tmp_path / "empty" / "v1"))
    assert not empty["1 positives"].any()


HARMLESS = {"address": "struct<city:string>", "long": "decimal(16,2)", "many": "array<date>"}


def with_others(folder: Path, tmp_path: Path) -> Path:
    rows = pa.concat_tables([pq.read_table(file) for file in sorted(folder.glob("*.parquet"))])
    count = rows.num_rows
    others = {
        "address": pa.array([{"city": "a"}] * count),
        "long": pa.array([1] * count, pa.decimal128(16, 2)),
        "many": pa.array([[2**31 - 1]] * count, pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
        "unused": with_invalid_texts(rows, "site")["site"],
    }
    for name, values in others.items():
        place = rows.schema.get_field_index(name)
        rows = rows.append_column(name, values) if place < 0 else rows.set_column(place, name, values)
    write(tmp_path / "v1", rows)
    return tmp_path / "v1"


def test_columns_that_a_request_does_not_need_do_no_harm(embedded: Any, folder: Path, tmp_path: Path) -> None:
    made = with_others(folder, tmp_path)
    expected = by_embedded(embedded, request(folder, **cases()["unit-texts"]))
    assert differences(by_embedded(embedded, request(made, more=HARMLESS, **cases()["unit-texts"])), expected) == []


LOGISTIC = {"kind": "logistic", "basis": "public", "intercept": 0, "coefficients": {"x": 1}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "power": ({"where": "POWER(x, 2) > 1"}, "where: .* must not contain POWER"),
    "logarithm": ({"where": "LN(x) > 1"}, "where: .* must not contain LN"),
    "exponential": ({"where": "x > 0 AND EXP(x) > 1"}, "where: .* must not contain EXP"),
    "letters": ({"where": "LOWER(site) = 'a'"}, "where: .* must not contain LOWER"),
    "cast": ({"where": "TRY_CAST(x AS INT) = 1"}, "where: .* must not contain CAST"),
    "year": ({"where": "YEAR(born) = 2020"}, "where: .* must not contain YEAR"),
    "moment": ({"where": "CAST(born AS TIMESTAMP) IS NULL"}, "where: .* must not contain CAST"),
    "day": (
        {"block_expression": "value(born)", "blocks": ("2020-01-01",)},
        "blocks: got 'born'; must not be values of a column of type date",
    ),
    "list": ({"where": "many IS NULL"}, "where: got 'many'; must be of type "),
    "field": ({"where": "address.city = 'a'"}, "where: .* must be a column, and no field"),
    "decimal": (
        {"unit": {"column": "long", "max_rows": 1}},
        "unit.column: got 'long'; must be of type .* of at most 15 digits",
    ),
    "deep": ({"where": " + ".join(["x"] * 20) + " > 1"}, "where: .* must have at most 12 levels"),
    "logistic": ({"model": LOGISTIC}, "model.kind: got 'logistic'; must be columns or linear"),
    "fit": (
        {"diagnostics": [{"kind": "logistic_fit", "features": {"x": (0.0, 1.0)}}]},
        "diagnostics: got 'logistic_fit'; must be of a kind",
    ),
    "keys": (
        {"diagnostics": [{"kind": "aggregates", "by": [{"column": "site", "values": [*range(1_001)]}]}]},
        "diagnostics.by: got '1,001 keys of site'; must be at most 1,000 keys",
    ),
    "groups": (
        {"diagnostics": [{"kind": "linear_regression", "method": "noisy_moments", **MANY_LINES}]},
        "groups: got '1,001 keys of site'; must be at most 1,000 keys",
    ),
    "lookup": (
        {"diagnostics": [{"kind": "aggregates", "by": [{"column": "site", "lookup": MANY}]}]},
        "diagnostics.by: got '1,001 keys of site'; must be at most 1,000 keys",
    ),
    "discover": (
        {
            "unit": {"column": "named", "max_rows": 1},
            "budget": {"epsilon": "1", "delta": "1e-6"},
            "diagnostics": [{"kind": "aggregates", "by": [{"column": "site", "keys": "discover", "min_units": 20}]}],
        },
        "diagnostics.by: got 'discover'; must list its groups",
    ),
    "logit": (
        {"model": {"kind": "columns", "score": "paid", "basis": "public", "scale": {"kind": "logit"}}},
        "model.scale: got 'logit'; must be linear",
    ),
}


@pytest.mark.parametrize(("changes", "line"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_proved_is_refused_in_one_line_that_names_spark(
    folder: Path, tmp_path: Path, changes: dict[str, Any], line: str
) -> None:
    asked = request(with_others(folder, tmp_path), more=HARMLESS, **changes)
    with pytest.raises(InvalidRequest, match=f"^{line}.* the embedded engine.*; run the request on Spark, ") as refused:
        require_embedded(asked)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("table_changes", "line"),
    [
        ({"format": "csv"}, "table.format: got 'csv'; must be parquet"),
        ({"path": "s3://lake/visits"}, "table.path: .* must be a folder of this machine"),
    ],
)
def test_other_formats_and_places_are_refused(folder: Path, table_changes: dict[str, Any], line: str) -> None:
    asked = request(folder)
    source = asked.table.model_copy(update=table_changes)
    with pytest.raises(InvalidRequest, match=f"^{line}.* with the embedded engine"):
        require_embedded(asked.model_copy(update={"table": source}))


RETYPED = (
    "roc_curve-0", "where-0", "where-2", "where-4", "where-7", "by_group-0", "aggregates-1", "unit-whole",
    "unit-one-row", "unit-small", "unit-doubles", "residual_plot-0",
)  # fmt: skip


@pytest.mark.parametrize("name", RETYPED)
def test_types_that_a_row_may_change_are_read_alike(spark: Any, embedded: Any, tmp_path: Path, name: str) -> None:
    """Programs choose a type by the values: one that is missing, too long or broken may change a whole column's."""
    rows = table()
    write(tmp_path / "v1", retyped(rows))
    pq.write_table(rows.slice(0, 900), tmp_path / "v1" / "part-9.parquet")
    asked = request(tmp_path / "v1", **cases()[name])
    require_embedded(asked)
    assert differences(by_spark(spark, asked), by_embedded(embedded, asked)) == []


def test_files_of_another_type_or_in_folders_are_refused(tmp_path: Path) -> None:
    rows = table()
    place = rows.schema.get_field_index("score")
    write(tmp_path / "v1", rows.set_column(place, "score", rows["score"].cast(pa.string())))
    with pytest.raises(InvalidRequest, match="column score of type string in a file'; must be in all files, of a type"):
        require_embedded(request(tmp_path / "v1"))
    write(tmp_path / "v2" / "few=1", rows)
    with pytest.raises(InvalidRequest, match="column few of folders'; must be of type string"):
        require_embedded(request(tmp_path / "v2", where="few = 1"))
    require_embedded(request(tmp_path / "v2"))  # it does not read that column
    write(tmp_path / "v4" / "site=", rows)
    with pytest.raises(InvalidRequest, match="must have folders named column=value, with a value that is not empty"):
        require_embedded(request(tmp_path / "v4"))
    (tmp_path / "v3").mkdir()
    with pytest.raises(InvalidRequest, match="must be a table with files in it"):
        require_embedded(request(tmp_path / "v3"))
