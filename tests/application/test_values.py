"""A request for the distribution of a column: from the table to the draft, beside a classifier's diagnostics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.application.draft import draft
from spark_jobs.application.draw import ReleaseDraw
from spark_jobs.application.run import measure
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.left_out import LEFT_OUT
from spark_jobs.contract.options import EcdfOptions, ScoreCells
from spark_jobs.contract.privacy import PrivacyUnit
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import SALT_VARIABLE
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts, ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid
from spark_jobs.wording.rules import rules
from tests.application.test_draw import counts, request

AMOUNTS = [12.5, 0.0, None, 99_999.0, -3.0, float("nan"), float("inf"), 12.5]
LOG = {"kind": "ecdf", "column": "amount", "bounds": [0, 1e5], "scale": "log"}
FOUND = {"kind": "ecdf", "column": "amount"}


def options(asked: ReleaseRequest) -> EcdfOptions:
    (found,) = (entry for entry in asked.diagnostics if isinstance(entry, EcdfOptions))
    return found


def exact(asked: ReleaseRequest, values: list[float | None]) -> ValueCounts:
    statistic: Any = options(asked).statistic
    fields = {name: getattr(statistic, name) for name in ("lower", "upper", "cells", "scale", "unit")}
    return ValueCounts.from_arrays(np.array(values, dtype=object), **fields)


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("lake") / "table"
    rows = [(i % 2, 0.1 * i, amount, "text") for i, amount in enumerate(AMOUNTS)]
    spark.createDataFrame(rows, "visited int, score double, amount double, word string").write.parquet(
        str(folder / "v1")
    )
    return spark, folder


def asked_of(table: tuple[Any, Path], *diagnostics: Any) -> ReleaseRequest:
    return request(table={"path": str(table[1]), "snapshot": {"path_version": "v1"}}, diagnostics=list(diagnostics))


@pytest.mark.spark
@pytest.mark.parametrize("diagnostic", [LOG, FOUND], ids=["log", "found"])
def test_values_and_scores_are_counted_in_one_pass(table: tuple[Any, Path], diagnostic: Any) -> None:
    asked = asked_of(table, "roc_curve", diagnostic)
    made = count(prepare(table[0], asked), asked)
    assert made[options(asked).statistic] == exact(asked, AMOUNTS)
    assert made[ScoreCells()] == ScoreCounts.from_arrays([i % 2 for i in range(8)], [0.1 * i for i in range(8)])


@pytest.mark.spark
@pytest.mark.parametrize("max_rows", [None, 1, 3])
def test_rows_are_counted_again_between_released_bounds(
    table: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch, max_rows: int | None
) -> None:
    monkeypatch.setenv(SALT_VARIABLE, "a salt of thirty-two bytes or more, secret")
    asked = asked_of(table, "roc_curve", FOUND)
    if max_rows is not None:
        asked = asked.model_copy(update={"unit": PrivacyUnit(column="word", max_rows=max_rows)})
    made = count(prepare(table[0], asked), asked)[options(asked).statistic]
    every = exact(asked, AMOUNTS)
    between = ValueGrid(lower=0.0, upper=16.0, cells=2**20)
    if max_rows is None:
        assert np.array_equal(made.finer(between), every.finer(between))
    else:  # the same rows of the unit as in the first pass
        assert made.total <= max_rows
        assert (made.finer(between) <= every.finer(between)).all()
    assert np.array_equal(made.finer(made.grid), made.counts)


@pytest.mark.spark
def test_scores_are_counted_once_for_all_diagnostics(table: tuple[Any, Path]) -> None:
    asked = asked_of(table, "roc_curve", "ecdf")
    assert asked.statistics == (ScoreCells(),)
    assert set(count(prepare(table[0], asked), asked)) == {ScoreCells(), LEFT_OUT}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("column", "line"),
    [("nothing", "must be a column of the table"), ("word", "must be of type integer, number or boolean, not string")],
)
def test_columns_that_do_not_fit_are_refused_for_the_schema(table: tuple[Any, Path], column: str, line: str) -> None:
    asked = asked_of(table, {"kind": "ecdf", "column": column, "bounds": [0, 1]})
    with pytest.raises(InvalidRequest, match=line):
        prepare(table[0], asked)


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.parametrize("diagnostic", ["ecdf", LOG, FOUND], ids=["scores", "log", "found"])
def test_a_draw_makes_the_same_draft_again_and_again(diagnostic: Any) -> None:
    asked = request(diagnostics=["roc_curve", diagnostic])
    values = np.random.default_rng(1).lognormal(5, 2, 3000).tolist()
    known = counts() if diagnostic == "ecdf" else counts() | {options(asked).statistic: exact(asked, values)}
    drawn = measure(asked, known, charge_id=None, noise=SecureNoise())
    assert drawn.cost.epsilon <= asked.budget.epsilon
    again = ReleaseDraw.from_json(drawn.to_json(), charge_id=None, request_sha256=asked.sha256)
    drafts = [draft(asked, one, key=None, rules=rules(asked)) for one in (drawn, again)]
    assert drafts[0] == drafts[1]
    release, files = drafts[0]
    assert {"ecdf.parquet", "ecdf.svg", "ecdf.png"} <= set(files)
    assert len(release.to_json()) < 300_000
    json.dumps(release.results["ecdf"], allow_nan=False)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("diagnostic", [LOG, FOUND], ids=["log", "found"])
def test_no_value_at_all_gives_a_draft_of_the_same_form(diagnostic: Any) -> None:
    asked = request(diagnostics=[diagnostic])
    forms = []
    for values in ([], [5.0] * 3000):
        known = {options(asked).statistic: exact(asked, values)}
        release, files = draft(
            asked,
            measure(asked, known, charge_id=None, noise=SeededNoise(2)),
            key=None,
            rules=rules(asked),
        )
        forms.append((sorted(files), {name: np.shape(value) for name, value in release.results["ecdf"].items()}))
    assert forms[0] == forms[1]


def test_rules_tell_what_becomes_of_values_and_of_nothing_else() -> None:
    told = " ".join(rules(request(diagnostics=[LOG])))
    assert "a value below 0 counts as 0, a value above 100000 as 100000" in told
    assert "score" not in told.replace("label and score", "")
    both = " ".join(rules(request(diagnostics=["roc_curve", LOG])))
    assert "A score below 0 counts as 0" in both


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"bounds": [0, 1]}, "diagnostics.bounds: got"),
        ({"scale": "log"}, "diagnostics.scale: got 'log'; may be given only with a column"),
        (
            {"column": "a", "bounds": [1, 0]},
            "diagnostics.bounds: got [1.0, 0.0]; must be two numbers in ascending",
        ),
        ({"column": "a", "bounds": [0, "inf"]}, "diagnostics.bounds: got"),
        ({"column": "a", "bounds": [0, 1], "unit": 1}, "diagnostics.unit: got 1.0; may be given only with scale: log"),
        ({"column": "a", "cells": 1000}, "diagnostics.cells: got 1000"),
        ({"column": "a", "colour": "red"}, "diagnostics.colour: is not a field"),
        ({"reference": {"distribution": "normal", "parameters": [0]}}, "diagnostics.reference.parameters: got [0.0]"),
        ({"column": "a", "unit": -1}, "diagnostics.unit: got -1"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_line(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        request(diagnostics=[{"kind": "ecdf", **fields}])
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)
