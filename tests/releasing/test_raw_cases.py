"""Values as people have them, through Python and the command line: intervals hold the figures of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from spark_jobs.contract.options import DIAGNOSTICS, ValueCells
from spark_jobs.contract.stated_scale import with_stated_scale
from spark_jobs.contract.tables import ColumnsModel
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts, ValueCounts
from tests.support import raw_cases
from tests.support.commands import Command
from tests.support.raw_cases import EPSILON, QUESTIONS, Question

VERSION = {"snapshot": {"path_version": "v1"}}
QUESTION = pytest.mark.parametrize(
    "question", [pytest.param(one, id=f"{name}, {one.entry['kind']}") for name, one in raw_cases.one_by_one()]
)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return raw_cases.raw_table()


@pytest.fixture
def table(tmp_path: Path, rows: pd.DataFrame) -> str:
    return raw_cases.write_rows(tmp_path / "visits", rows)


@QUESTION
def test_python_holds_the_figures_of_rows(question: Question, rows: pd.DataFrame) -> None:
    model = {"kind": "columns", "basis": "public", "score": question.score, **question.stated}
    stated = with_stated_scale({"model": model, "diagnostics": [dict(question.entry)]})
    options = DIAGNOSTICS[question.entry["kind"]].parse(stated["diagnostics"][0])
    scale = ColumnsModel.parse(stated["model"]).scale
    [of_request] = options.statistics
    values = rows[question.column].to_numpy(float)
    statistic: Any
    if isinstance(of_request, ValueCells):
        statistic = ValueCounts.from_arrays(values, **of_request.grid)
    else:
        statistic = ScoreCounts.from_arrays(rows["visit"] == "yes", values, scale=scale)
    kind = diagnostic(options.kind)
    draw = kind.measurement.measure(statistic, options, Terms(epsilon=EPSILON, noise=SeededNoise(3)))
    # no account says on which scale the scores are
    status = "coarse" if question.column in raw_cases.OTHER_SCALES else "ok"
    question.check(kind.summarise(draw, seed=1).to_dict(), rows, status=status)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.usefixtures("command", "shared_java")
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_command_line_holds_the_figures_of_rows(
    name: str, command: Command, table: str, rows: pd.DataFrame
) -> None:
    command.open(table, columns=raw_cases.COLUMNS)
    release = command.release(VERSION, budget={"epsilon": EPSILON}, **raw_cases.request_of(QUESTIONS[name]))
    for question in QUESTIONS[name]:
        question.check(release.results[question.entry["kind"]], rows)


def test_the_command_line_refuses_a_word_that_no_row_holds(command: Command, table: str) -> None:
    command.open(table, columns=raw_cases.COLUMNS)
    asked = {**raw_cases.request_of(QUESTIONS["tiny"]), "label": raw_cases.WRONG_LABEL}
    command.refuses(VERSION, "did you mean 'yes'?", **asked)
