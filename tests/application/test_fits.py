"""Requests for private fits: sums of the rows that a request names, beside what is counted in cells."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.left_out import LEFT_OUT
from spark_jobs.contract.options import CrossProductCells, LabelledRowCells, ScoreCells
from spark_jobs.contract.options.fits import ROUNDING
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import SALT_VARIABLE
from spark_jobs.statistics import CrossProducts, LabelledRows, ScoreCounts
from spark_jobs.statistics.lattice import LATTICE
from spark_jobs.tables.scoring import fitted_value
from spark_jobs.wording.rules import rules
from tests.application.test_draw import request

pytestmark = pytest.mark.spark

COLUMNS = "visited string, age double, wage double, tract string, county int, person string"
MODEL = {"kind": "columns", "basis": "public", "score": "age"}
LABEL = {"column": "visited", "positive": "yes", "negative": "no"}
FEATURES = {"age": [18, 80], "2 * wage": [-4, 4]}
LEVELS = {"tract": ["a", "b", "c"], "county": [1, 2, 3]}
LINEAR = {
    "kind": "linear_fit",
    "features": FEATURES,
    "categorical": LEVELS,
    "outcome": "wage",
    "outcome_bounds": [0, 9],
}
LOGISTIC = {"kind": "logistic_fit", "features": FEATURES, "categorical": LEVELS}
NASTY = [None, math.nan, math.inf, -math.inf, 1e300, 0.0, -0.0, 18.0, 80.0, 40.0, 0.3]


def rows(total: int = 300) -> list[tuple[Any, ...]]:
    generator = np.random.default_rng(11)

    def pick(of: list[Any]) -> Any:
        return of[int(generator.integers(len(of)))]

    return [
        (
            pick(["yes", "no", "yes", "no", "maybe", None]),
            pick([*NASTY, *generator.normal(50, 20, 12).tolist()]),
            pick([*NASTY, *generator.normal(4, 3, 12).tolist()]),
            pick(["a", "b", "c", "d", None]),
            pick([1, 2, 3, 4, None]),
            f"p{place % 40}",
        )
        for place in range(total)
    ]


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("lake") / "table"
    spark.createDataFrame(rows(), COLUMNS).repartition(3).write.parquet(str(folder / "v1"))
    return spark, folder


def asked_of(table: tuple[Any, Path], *diagnostics: Any, **changes: Any) -> ReleaseRequest:
    source = {"path": str(table[1]), "snapshot": {"path_version": "v1"}}
    fields = {"table": source, "label": LABEL, "model": MODEL, "diagnostics": list(diagnostics)}
    return request(**{**fields, **changes})


def counted(table: tuple[Any, Path], *diagnostics: Any, **changes: Any) -> Any:
    asked = asked_of(table, *diagnostics, **changes)
    counts = count(prepare(table[0], asked), asked)
    return {type(statistic): made for statistic, made in counts.items() if statistic != LEFT_OUT}


def column(name: str) -> np.ndarray:
    return np.array([row[COLUMNS.split().index(name) // 2] for row in rows()], dtype=object)


def arrays() -> tuple[dict[str, Any], Any, Any]:
    wage = [None if value is None else 2 * value for value in column("wage")]
    labels = [{"yes": 1, "no": 0}.get(value) for value in column("visited")]
    columns = {"age": column("age"), "2 * wage": wage, "tract": column("tract"), "county": column("county")}
    return columns, column("wage"), labels


def at_0(made: Any) -> Any:
    return made[LabelledRowCells].sums_at(np.zeros(made[LabelledRowCells].design.terms - 1, dtype=np.int64))


@pytest.mark.parametrize("ansi", [pytest.param("true", marks=pytest.mark.verify), "false"])
def test_rows_are_summed_as_from_arrays_beside_what_is_counted(table: tuple[Any, Path], ansi: str) -> None:
    table[0].conf.set("spark.sql.ansi.enabled", ansi)
    try:
        made = counted(table, LINEAR, "roc_curve", LOGISTIC)
        rows = made[LabelledRowCells]
        position = np.arange(rows.design.terms - 1) * 2**18
        summed = rows.sums_at(position)
    finally:
        table[0].conf.unset("spark.sql.ansi.enabled")
    columns, wage, labels = arrays()
    asked = asked_of(table, LINEAR, LOGISTIC)
    linear, logistic = (options.statistic for options in asked.diagnostics)
    assert isinstance(linear, CrossProductCells)
    assert isinstance(logistic, LabelledRowCells)
    assert made[CrossProductCells] == CrossProducts.from_arrays(columns, wage, design=linear)
    assert made[CrossProductCells].products[0, 0] > 50 * LATTICE**2
    expected = LabelledRows.from_arrays(columns, labels, design=logistic).sums_at(position)
    assert summed.gradient.any()
    assert np.abs(summed.gradient - expected.gradient).max() <= 1
    assert np.abs(np.triu(summed.hessian - expected.hessian)).max() <= LATTICE
    scores = [math.nan if value is None else value for value in column("age")]
    assert made[ScoreCells] == ScoreCounts.from_arrays(labels, scores)


def test_a_fit_needs_no_model_and_keeps_to_the_filter(table: tuple[Any, Path]) -> None:
    made = counted(table, LINEAR, model=None, label=None, where="tract = 'b'")
    columns, wage, _ = arrays()
    kept = column("tract") == "b"
    within = {name: np.array(values, dtype=object)[kept] for name, values in columns.items()}
    [design] = asked_of(table, LINEAR, model=None, label=None).statistics
    assert made == {CrossProductCells: CrossProducts.from_arrays(within, wage[kept], design=design)}


def test_a_unit_gives_at_most_its_rows(table: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SALT_VARIABLE, "a salt of thirty-two bytes or more, secret")
    unit = {"column": "person", "max_rows": 2}
    only = {"kind": "logistic_fit", "features": {"1": [0, 2]}}
    made = counted(table, only, "roc_curve", unit=unit)
    labelled = [person for person, label in zip(column("person"), arrays()[2], strict=True) if label is not None]
    most = sum(min(labelled.count(person), 2) for person in set(labelled))
    assert at_0(made).hessian[0, 0] * 4 == most * LATTICE**2 * ROUNDING


def test_two_spellings_of_a_level_never_meet_in_a_row(table: tuple[Any, Path]) -> None:
    """1 and 01 are one whole number: a row with two levels of a column would change more than the sensitivity."""
    spelled = {"kind": "logistic_fit", "categorical": {"county": ["4", "1", "01", "2", "+2", "002"]}}
    with pytest.raises(InvalidRequest, match=r"diagnostics\.categorical\.county: got '\+2'"):
        counted(table, spelled)
    spelled["categorical"] = {"county": ["4", "1", "01", "2", "002"]}
    products = at_0(counted(table, spelled)).hessian
    assert products[0, 1] > 0
    assert not products[2].any()
    assert not products[4].any()
    assert products[1, 3] == 0


def test_what_does_not_fit_the_table_is_refused(table: tuple[Any, Path]) -> None:
    for options, line in (
        ({**LOGISTIC, "features": {"nothing": [0, 1]}}, r"diagnostics\.features: got 'nothing'; must be a column"),
        (
            {"kind": "logistic_fit", "features": {"tract": [0, 1]}},
            r"diagnostics\.features: got 'tract'; must be of type",
        ),
        (
            {"kind": "logistic_fit", "categorical": {"age": [1, 2]}},
            r"diagnostics\.categorical: got 'age'; must be of type",
        ),
        ({**LINEAR, "categorical": {}, "outcome": "tract"}, r"diagnostics\.outcome: got 'tract'; must be of type"),
    ):
        with pytest.raises(InvalidRequest, match=line):
            counted(table, options)


def test_the_fitted_models_bounds_are_kept_by_scores(table: tuple[Any, Path]) -> None:
    model = {
        "kind": "linear",
        "basis": "differentially_private",
        "intercept": 1.0,
        "coefficients": {"age": 0.5, "2 * wage": -1.0},
        "bounds": {"age": [18, 80]},
        "categorical": {"county": {"1": 0.0, "2": 3.0}},
    }
    asked = asked_of(table, "roc_curve", model=model)
    frame = table[0].read.parquet(str(table[1] / "v1"))
    found = frame.select("age", "wage", "county", fitted_value(frame, asked.needed_model).alias("fitted")).collect()
    seen = 0
    for age, wage, county, fitted in found:
        if age is None or wage is None or math.isnan(age):
            assert fitted is None
        else:
            expected = 1.0 + 0.5 * min(max(age, 18.0), 80.0) - 2 * wage + (3.0 if county == 2 else 0.0)
            assert fitted == pytest.approx(expected, nan_ok=True)
            seen += 1
    assert seen > 100


def test_rules_say_what_becomes_of_values_beyond_their_bounds(table: tuple[Any, Path]) -> None:
    said = " ".join(rules(asked_of(table, LINEAR, LOGISTIC)))
    assert "age from 18 to 80" in said
    assert "wage from 0 to 9" in said
    assert "a county that is null or not among the listed levels is 1." in said
    model = {"kind": "linear", "basis": "public", "coefficients": {"age": 1.0}, "bounds": {"age": [0, 7]}}
    assert "counts as the nearer bound: age from 0 to 7" in " ".join(rules(asked_of(table, "roc_curve", model=model)))
