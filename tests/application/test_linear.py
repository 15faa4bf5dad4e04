"""Requests for residual plots and private lines: counted beside a classifier's diagnostics, in one pass."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.left_out import LEFT_OUT
from spark_jobs.contract.options import (
    CrossProductCells,
    LinearRegressionOptions,
    Options,
    PointCells,
    PointSums,
    ResidualCells,
    ResidualPlotOptions,
    ScoreCells,
    ValueCells,
)
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.statistics import CrossProducts, Moments, PointCounts, ResidualCounts, ScoreCounts, ValueCounts
from tests.application.test_draw import request
from tests.support.scans import executed_scans
from tests.support.spark import settings as spark_settings

pytestmark = [pytest.mark.spark, pytest.mark.verify]

COLUMNS = "visited int, age double, wage double, rent double, tract string, county bigint, person string"
TRACTS = [f"{place:04d}" for place in range(3000)]
MODEL = {"kind": "linear", "basis": "public", "intercept": 0.25, "coefficients": {"age": 0.5}}
LATTICE: dict[str, Any] = {"lower": (0, -1), "upper": (2, 8), "cells": 8192}
"""That of sums, finer than the one of points."""
ECDF = {"kind": "ecdf", "column": "wage", "bounds": [0, 8], "cells": 4096}
RESIDUALS = ResidualPlotOptions(kind="residual_plot", outcome="wage", unit=0.125)
LINES = LinearRegressionOptions(
    kind="linear_regression", x="age", y="wage", x_bounds=(0, 2), y_bounds=(-1, 8), group_by="tract", groups=TRACTS
)
POINTS = LINES.model_copy(update={"method": "dp_grad_descent"})
"""Lines that need single points; ``LINES`` are made from sums."""
FIT = {"kind": "linear_fit", "features": {"age": [0, 2]}, "outcome": "wage", "outcome_bounds": [-1, 8]}
NASTY = [0.0, -0.0, 0.25, 1.0, 2.0, -3.5, 7.999, 1e300, -1e300, math.inf, -math.inf, math.nan, None, 5e-324]


def rows(count: int = 400) -> list[tuple[Any, ...]]:
    """Rows of all kinds: nothing there, nothing usable, beyond the bounds, of no listed group, of nobody."""
    generator = np.random.default_rng(7)
    made = []
    for place in range(count):
        age, wage = (
            NASTY[generator.integers(len(NASTY))] if generator.random() < 0.4 else float(generator.normal(1, 2))
            for _ in range(2)
        )
        tract = [*TRACTS[:6], TRACTS[-1], "nowhere", None][generator.integers(9)]
        label = [0, 1, None, 7][generator.integers(4)]
        made.append((label, age, wage, 100.0, tract, None if tract is None else place % 5, f"p{place % 90}"))
    return made


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("lake") / "table"
    spark.createDataFrame(rows(), COLUMNS).repartition(3).write.parquet(str(folder / "v1"))
    return spark, folder


def asked_of(
    table: tuple[Any, Path], *diagnostics: Any, public: tuple[str, ...] = (), **changes: Any
) -> ReleaseRequest:
    source = {
        "path": str(table[1]),
        "snapshot": {"path_version": "v1"},
        **({"public_columns": public} if public else {}),
    }
    return request(**{"table": source, "model": MODEL, "diagnostics": list(diagnostics), **changes})


def counted(table: tuple[Any, Path], *diagnostics: Any, **changes: Any) -> Any:
    asked = asked_of(table, *diagnostics, **changes)
    return {one: of for one, of in count(prepare(table[0], asked), asked).items() if one != LEFT_OUT}


def column(name: str) -> np.ndarray:
    return np.array([row[COLUMNS.split().index(name) // 2] for row in rows()], dtype=object)


def as_numbers(values: np.ndarray) -> np.ndarray:
    return np.array([math.nan if value is None else value for value in values], dtype=float)


def expected() -> dict[Any, Any]:
    age, wage = as_numbers(column("age")), as_numbers(column("wage"))
    with np.errstate(invalid="ignore"):
        fitted = 0.25 + 0.5 * age
        residual = wage - fitted
    points = PointCounts.from_arrays(
        column("age"), column("wage"), groups=column("tract"), keys=TRACTS, lower=(0, -1), upper=(2, 8)
    )
    return {
        ScoreCells: ScoreCounts.from_arrays(column("visited"), fitted),
        ValueCells: ValueCounts.from_arrays(column("wage"), lower=0, upper=8, cells=4096),
        ResidualCells: ResidualCounts.from_arrays(fitted, residual, unit=0.125),
        PointCells: points,
        PointSums: Moments.from_arrays(column("age"), column("wage"), groups=column("tract"), keys=TRACTS, **LATTICE),
    }


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_everything_is_counted_in_one_pass_as_from_arrays(table: tuple[Any, Path], ansi: str) -> None:
    """Three thousand groups of a million cells each: keys beyond 32 bits beside keys within."""
    table[0].conf.set("spark.sql.ansi.enabled", ansi)
    try:
        with executed_scans(table[0]) as scans:
            made = counted(table, "roc_curve", RESIDUALS, POINTS, ECDF)
    finally:
        table[0].conf.unset("spark.sql.ansi.enabled")
    cells = {kind: value for kind, value in expected().items() if kind is not PointSums}
    assert {type(statistic): value for statistic, value in made.items()} == cells
    assert len(scans) == 1


@pytest.mark.halved
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("diagnostics", [("roc_curve", LINES, FIT, RESIDUALS), (FIT, LINES), (FIT,), (LINES,)], ids=len)
def test_sums_and_cells_are_added_up_in_one_scan_of_the_table(
    table: tuple[Any, Path], diagnostics: tuple[Any, ...], ansi: str
) -> None:
    with spark_settings(table[0], {"spark.sql.ansi.enabled": ansi}), executed_scans(table[0]) as scans:
        made = counted(table, *diagnostics)
    assert len(scans) == 1
    by_type = {type(statistic): value for statistic, value in made.items()}
    products = by_type.pop(CrossProductCells, None)
    assert by_type == {kind: value for kind, value in expected().items() if kind in by_type}
    assert len(by_type) + (products is not None) == len(diagnostics)
    if products is not None:
        columns = {"age": column("age")}
        assert products == CrossProducts.from_arrays(columns, column("wage"), design=products.design)
        assert products.products[0, 0] > 0


def test_a_statistic_that_reads_the_rows_once_more_is_seen_in_the_scans(table: tuple[Any, Path]) -> None:
    with executed_scans(table[0]) as scans:
        counted(table, LINES, label=None, model=None)
        counted(table, RESIDUALS, label=None)
    assert len(scans) == 2


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.soak), 7])
def test_neither_layout_nor_slices_change_a_bit(
    table: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """Collected in slices of 4 KiB, the result is kept by Spark meanwhile, and the rows are read once."""
    from spark_jobs.statistics.spark import cells

    asked = asked_of(table, "roc_curve", LINES, FIT, RESIDUALS, ECDF)
    whole = count(prepare(table[0], asked), asked)
    monkeypatch.setattr(cells, "SLICE_BYTES", 2**12)
    read = table[0].sparkContext.accumulator(0)

    def seen(batches: Any) -> Any:
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    rows_of = prepare(table[0], asked).repartition(partitions)
    again = count(rows_of.mapInArrow(seen, rows_of.schema), asked)
    assert again.keys() == whole.keys()
    assert all(
        np.array_equal(again[one], made) if one == LEFT_OUT else again[one] == made for one, made in whole.items()
    )
    assert read.value == len(rows())


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_by_group_are_those_of_the_points_and_one_row_a_group_is_collected(
    table: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch, ansi: str
) -> None:
    """Two thirds of a million million cells, of which no count leaves Spark."""
    from pyspark.sql.classic.dataframe import DataFrame

    collected = []
    to_arrow = DataFrame.toArrow
    monkeypatch.setattr(DataFrame, "toArrow", lambda self: collected.append(to_arrow(self)) or collected[-1])
    finer = LINES.model_copy(update={"cells": 8192})
    table[0].conf.set("spark.sql.ansi.enabled", ansi)
    try:
        ((_, made),) = counted(table, finer, label=None, model=None).items()
    finally:
        table[0].conf.unset("spark.sql.ansi.enabled")
    assert made == Moments.from_arrays(column("age"), column("wage"), groups=column("tract"), keys=TRACTS, **LATTICE)
    # seven groups have rows; so have those that are not listed, together, and the rows that do not count
    assert [answer.num_rows for answer in collected] == [9]


@pytest.mark.parametrize("diagnostic", [RESIDUALS, POINTS, LINES], ids=["residual_plot", "points", "sums"])
def test_a_diagnostic_by_itself_is_counted_alike(table: tuple[Any, Path], diagnostic: Options) -> None:
    ((statistic, value),) = counted(table, diagnostic, label=None).items()
    assert value == expected()[type(statistic)]


def test_small_keys_stay_small_and_agree(table: tuple[Any, Path]) -> None:
    """Without groups the point's keys fit 32 bits, beside the residuals'."""
    whole = POINTS.model_copy(update={"group_by": None, "groups": None})
    made = counted(table, whole, RESIDUALS, label=None)
    assert made[RESIDUALS.statistic] == expected()[ResidualCells]
    assert made[whole.statistic] == PointCounts.from_arrays(column("age"), column("wage"), lower=(0, -1), upper=(2, 8))


@pytest.mark.parametrize("keys", [[3, 1, 4], ["3", "1", "4"]], ids=["numbers", "texts"])
def test_keys_of_a_column_of_whole_numbers_may_be_written_as_text(table: tuple[Any, Path], keys: list[Any]) -> None:
    by_county = LINES.model_copy(update={"group_by": "county", "groups": tuple(keys)})
    made = counted(table, by_county, label=None, model=None)[by_county.statistic]
    assert made == Moments.from_arrays(column("age"), column("wage"), groups=column("county"), keys=keys, **LATTICE)
    assert made.usable.min() > 0


def test_keys_that_a_column_of_whole_numbers_cannot_hold_are_refused(table: tuple[Any, Path]) -> None:
    by_county = LINES.model_copy(update={"group_by": "county", "groups": ("01",)})
    with pytest.raises(InvalidRequest) as refused:
        counted(table, by_county)
    assert str(refused.value) == (
        "diagnostics.groups: got '01'; must be a whole number, because the column county holds whole numbers; "
        "write whole numbers without leading zeros, or name a column that holds these keys as text"
    )


def test_expressions_stand_for_columns(table: tuple[Any, Path]) -> None:
    logged = ResidualPlotOptions(kind="residual_plot", outcome="ln(rent)", unit=0.125)
    half = POINTS.model_copy(update={"x": "age / 2", "group_by": None, "groups": None})
    made = counted(table, logged, half, label=None)
    age = as_numbers(column("age"))
    fitted = 0.25 + 0.5 * age
    assert made[logged.statistic] == ResidualCounts.from_arrays(fitted, math.log(100) - fitted, unit=0.125)
    assert made[half.statistic] == PointCounts.from_arrays(age / 2, column("wage"), lower=(0, -1), upper=(2, 8))


@pytest.mark.parametrize(
    ("diagnostic", "line"),
    [
        (RESIDUALS.model_copy(update={"outcome": "pay"}), "diagnostics.outcome: got 'pay'; must be a column of the"),
        (RESIDUALS.model_copy(update={"outcome": "tract"}), "diagnostics.outcome: got 'tract'; must be of type"),
        (RESIDUALS.model_copy(update={"outcome": "upper(tract)"}), "diagnostics.outcome: got 'upper(tract)'; must be"),
        (LINES.model_copy(update={"x": "pay"}), "diagnostics.x: got 'pay'; must be a column of the table"),
        (LINES.model_copy(update={"y": "pay + 1"}), "diagnostics.y: got 'pay'; must be a column of the table"),
        (LINES.model_copy(update={"group_by": "ward"}), "diagnostics.group_by: got 'ward'; must be a column of the"),
        (LINES.model_copy(update={"group_by": "age"}), "diagnostics.group_by: got 'age'; must be of type string or"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_refused_for_the_schema(
    table: tuple[Any, Path], diagnostic: Options, line: str
) -> None:
    asked = asked_of(table, diagnostic)
    with pytest.raises(InvalidRequest) as refused:
        prepare(table[0], asked)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_rows_of_a_unit_are_bounded_whatever_groups_they_lie_in(
    table: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    unit = {"column": "person", "max_rows": 2}
    made = counted(table, POINTS, RESIDUALS, unit=unit, label=None)
    people = {row[-1] for row in rows()}
    points, residuals = made[POINTS.statistic], made[RESIDUALS.statistic]
    assert 0 < points.total <= 2 * len(people)
    assert 0 < residuals.counts.sum() <= 2 * len(people)
    assert (points.unusable + points.usable).max() > 2
    again = counted(table, POINTS, RESIDUALS, unit=unit, label=None)
    assert made == again
    sums = counted(table, LINES, RESIDUALS, unit=unit, label=None)[LINES.statistic]
    assert 0 < sums.n.sum() <= 2 * len(people)
    assert sums == counted(table, LINES, RESIDUALS, unit=unit, label=None)[LINES.statistic]


@pytest.mark.halved
@pytest.mark.parametrize("public", [False, True], ids=["private sizes", "public sizes"])
@pytest.mark.parametrize("lines", [LINES, POINTS], ids=["sums", "points"])
def test_a_row_without_a_point_takes_no_place_of_one_that_has_one(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: LinearRegressionOptions, public: bool
) -> None:
    people = 20
    without = [(0, math.nan, 1.0), (0, 1.0, None), (0, None, math.inf)]
    made = [
        (label, age, wage, 1.0, TRACTS[person % 3], 0, f"p{person}")
        for person in range(people)
        for label, age, wage in [*without * 10, (1, 1.0, 2.0)]
    ]
    spark.createDataFrame(made, COLUMNS).repartition(3).write.parquet(str(tmp_path / "table" / "v1"))
    asked = {"unit": {"column": "person", "max_rows": 1}, "label": None}
    if public:
        # which group a unit's row lies in would be a choice among its rows
        lines = lines.model_copy(update={"public_sizes": True, "group_by": None, "groups": None})
        asked |= {"neighbours": "replace_one", "public": ("tract",)}
    for salt in ("0" * 32, "1" * 32):
        monkeypatch.setenv("DP_DIAGNOSTICS_SALT", salt)
        statistic = counted((spark, tmp_path / "table"), lines, **asked)[lines.statistic]
        points = statistic.n.sum() if isinstance(statistic, Moments) else statistic.usable.sum()
        assert points == people


def test_an_empty_table_has_statistics_of_the_same_form(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("lake") / "empty"
    spark.createDataFrame([], COLUMNS).write.parquet(str(folder / "v1"))
    made = counted((spark, folder), LINES, RESIDUALS, label=None)
    assert made[RESIDUALS.statistic] == ResidualCounts.from_arrays([], [], unit=0.125)
    assert made[LINES.statistic] == Moments.from_arrays([], [], groups=np.array([], dtype=str), keys=TRACTS, **LATTICE)
