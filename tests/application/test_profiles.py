"""Columns of a profile as Spark counts them: what is missing, what is no value, and the limit of a unit's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.contract.left_out import LEFT_OUT
from spark_jobs.contract.options.profile import ProfileCells, ProfileColumn
from spark_jobs.statistics import ProfileCounts
from tests.application.test_draw import request

HEADER = "person,age,plan,member,day\n"
COLUMNS = {"person": "string", "age": "double", "plan": "string", "member": "boolean", "day": "date"}
ROWS = [
    "a,30,x,true,2024-01-05",
    "a,30.4,y,false,2024-02-01",
    "a,-9,z,true,2023-12-31",
    "b,200,x,maybe,2024-01-31",
    "b,forty,,true,soon",
    ",NaN,x,,",
    "c,,x,true,2024-06-30",
]
OF = [
    {"column": "age", "bounds": [0, 120], "step": 10},
    {"column": "plan", "values": ["x", "y"]},
    {"column": "member", "values": ["true", "false"]},
    {"column": "day", "start": "2024-01-01", "end": "2024-07-01"},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake") / "v1"
    folder.mkdir()
    (folder / "a.csv").write_text(HEADER + "\n".join(ROWS) + "\n")
    return folder.parent


@pytest.fixture(autouse=True)
def salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0123456789abcdef" * 2)


def counted(spark: Any, table: Path, **changes: Any) -> list[ProfileCounts]:
    source = {"format": "csv", "path": str(table), "columns": COLUMNS, "snapshot": {"path_version": "v1"}}
    entry = {"kind": "profile", "columns": OF, "pairs": [["plan", "age"]], "bins": 8}
    asked = request(table=source, label=None, model=None, diagnostics=[entry], **changes)
    counts = count(prepare(spark, asked), asked)
    assert counts[LEFT_OUT].sum() == (1 if "unit" in changes else 0)
    return [counts[statistic] for statistic in asked.statistics]


@pytest.mark.spark
def test_every_row_is_in_one_cell_of_each_column(spark: Any, table: Path) -> None:
    age, plan, member, day, pair = counted(spark, table)
    # bins of two tens; then below, above, missing, unparsed
    assert age.counts.tolist() == [0, 2, 0, 0, 0, 0, 0, 1, 1, 2, 1]
    assert plan.counts.tolist() == [4, 1, 1, 1, 0]
    assert member.counts.tolist() == [4, 1, 0, 1, 1]
    assert dict(zip(day.design.keys[0], day.counts.tolist(), strict=True)) == {
        **dict.fromkeys(day.design.keys[0], 0),
        "2024-01": 2, "2024-02": 1, "2024-06": 1, "other": 1, "missing": 1, "unparsed": 1,
    }  # fmt: skip
    assert pair.counts.sum() == len(ROWS)
    # rows of plan x: one of age 30, and of ages 200, NaN and null
    assert pair.counts.reshape(3, len(pair.design.keys[1]))[0].tolist() == [0, 1, 0, 0, 0, 0, 0, 3]


@pytest.mark.spark
def test_a_unit_has_no_more_rows_than_it_may_and_a_row_without_one_none(spark: Any, table: Path) -> None:
    for one in counted(spark, table, unit={"column": "person", "max_rows": 2}):
        assert one.counts.sum() == 2 + 2 + 1


@pytest.mark.spark
def test_arrays_are_counted_as_spark_counts_rows(spark: Any, table: Path) -> None:
    texts = [line.split(",") for line in ROWS]
    numbers = {"forty": None, "": None}
    ages = [numbers.get(line[1], line[1]) for line in texts]
    columns = {
        "age": np.array([None if one is None else float(one) for one in ages], dtype=object),
        "plan": np.array([line[2] or None for line in texts], dtype=object),
    }
    of = ProfileCounts.from_arrays(columns, of=OF[:2], pairs=[("plan", "age")], bins=8)
    age, plan, _, _, pair = counted(spark, table)
    moved = age.counts.copy()
    moved[-2:] = [age.counts[-2:].sum(), 0]  # arrays have no texts that are no value
    assert [one.counts.tolist() for one in of] == [moved.tolist(), plan.counts.tolist(), pair.counts.tolist()]


@pytest.mark.spark
@pytest.mark.parametrize(
    "given",
    [
        {"bounds": [0, 120], "step": 1},
        {"bounds": [0, 5000], "step": 0.01},
        {"bounds": [-3.3, 7.1]},
        {"bounds": [1e9, 1e9 + 1]},
        {"bounds": [0, 1e7], "scale": "log"},
        {"bounds": [0.02, 3000], "scale": "log"},
        {"bounds": [-50, 3000], "scale": "log"},
    ],
)
@pytest.mark.parametrize("bins", [8, 128, 255])
def test_numbers_at_edges_and_beside_them_are_in_the_bins_of_arrays(
    spark: Any, given: dict[str, Any], bins: int
) -> None:
    from pyspark.sql import functions as sf

    from spark_jobs.statistics.profile_counts import cells_of
    from spark_jobs.statistics.spark.profiles import profile_key

    column = ProfileColumn.parse({"column": "n", **given})
    design = ProfileCells(columns=(column,), bins=bins)
    edges = np.array(column.edges(bins))
    low, high = given["bounds"]
    lattice = low + given.get("step", (high - low) / 999) * np.arange(0, 500_000, 97)
    near = [np.nextafter(edges, -np.inf), edges, np.nextafter(edges, np.inf), lattice[lattice <= high]]
    values = np.concatenate([*near, [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300]])
    frame = spark.createDataFrame([(float(value),) for value in values], "n double")
    key = profile_key([(sf.col("n"), sf.lit(False))], design)
    assert [row[0] for row in frame.select(key).collect()] == cells_of(values, column, design).tolist()
