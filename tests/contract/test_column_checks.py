"""A request against a table's columns and types alone: what does not fit is known before anything is charged."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.contract.column_checks import check_columns
from spark_jobs.contract.errors import InvalidRequest
from tests.application.test_draw import request

TYPES = {
    "visited": "int", "score": "double", "age": "int", "wage": "decimal(10,2)", "name": "string", "day": "date",
    "at": "timestamp", "insured": "boolean", "county": "bigint", "tags": "array<string>",
}  # fmt: skip
LINE = {"kind": "linear_regression", "x": "age", "y": "wage", "x_bounds": [0, 1], "y_bounds": [0, 1]}
LINEAR = {"kind": "linear", "basis": "public"}
FIT = {"kind": "linear_fit", "outcome": "wage", "outcome_bounds": [0, 1]}

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no such column": ({"label": "no_such"}, "label.column: got 'no_such'; must be a column of the table"),
    "label of another type": (
        {"label": {"column": "name", "positive": 1, "negative": 0}},
        "label.column: got 'name'; must be of type boolean, integer or number, not string",
    ),
    "classes that are text": (
        {"label": {"column": "visited", "positive": "yes", "negative": "no"}},
        "label.column: got 'visited'; must be of type string, not int",
    ),
    "class beyond any column": (
        {"label": {"column": "visited", "positive": 10**400, "negative": 0}},
        "label.positive: got 1000",
    ),
    "score of another type": (
        {"model": {"kind": "columns", "score": "day", "basis": "public"}},
        "model.score: got 'day'; must be of type integer or number, not date",
    ),
    "column that cannot be read": (
        {"diagnostics": [{"kind": "ecdf", "column": "tags"}]},
        "diagnostics.column: got 'tags'; must be of type integer, number or boolean, not array",
    ),
    "filter of a number and a text": ({"where": "age = 'old'"}, "where: got \"age = 'old'\"; must not combine"),
    "filter that is no condition": ({"where": "age + 1"}, "where: got 'age + 1'; must be of type boolean, not integer"),
    "filter of another column": ({"where": "height > 2"}, "where: got 'height'; must be a column of the table"),
    "cast of text to a time": (
        {"where": "try_cast(name as timestamp) > timestamp '2026-01-31 12:00:00'"},
        "cannot cast type string to TIMESTAMP, which accepts date, timestamp",
    ),
    "feature that is text": (
        {"model": {**LINEAR, "coefficients": {"lower(name)": 1.0}}},
        "model.coefficients: got 'lower(name)'; must be of type number or boolean, not string",
    ),
    "level that is no number": (
        {"model": {**LINEAR, "categorical": {"county": {"north": 1.0}}}},
        "model.categorical.county: got 'north'; must be a value that a column of type integer",
    ),
    "level of a fit": (
        {"diagnostics": [{**FIT, "categorical": {"insured": ["yes", "no"]}}]},
        "diagnostics.categorical.insured: got 'yes'; must be a value that a column of type boolean",
    ),
    "outcome that is text": (
        {"diagnostics": [{**LINE, "y": "upper(name)"}]},
        "diagnostics.y: got 'upper(name)'; must be of type number or boolean, not string",
    ),
    "group that is a number": (
        {"diagnostics": [{**LINE, "group_by": "wage", "groups": ["1"]}]},
        "diagnostics.group_by: got 'wage'; must be of type string or integer, not decimal(10,2)",
    ),
    "key with leading zeros": (
        {"diagnostics": [{**LINE, "group_by": "county", "groups": ["01"]}]},
        "diagnostics.groups: got '01'; must be a whole number, because the column county holds whole numbers",
    ),
    "unit that is missing": ({"unit": {"column": "person"}}, "unit.column: got 'person'; must be a column of the"),
    "row id that is missing": (
        {"unit": {"column": "name"}, "row_id": "visit"},
        "row_id: got 'visit'; must be a column of the table, which has",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_in_one_line(case: str) -> None:
    changes, line = WRONG[case]
    with pytest.raises(InvalidRequest) as refused:
        check_columns(request(**changes), TYPES)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"label": {"column": "insured"}},
        {"label": {"column": "name", "positive": "yes", "negative": "no"}},
        {"where": "age >= 18 and (name like 'a%' or day > date '2026-01-31') and at is not null"},
        {"where": "year(at) = 2026 and case when insured then wage else age end > 3"},
        {"model": {**LINEAR, "coefficients": {"ln(wage)": 1, "AGE": 2}, "categorical": {"insured": {"true": 1}}}},
        {"diagnostics": [LINE, {**FIT, "features": {"age / 2": [0, 1]}, "categorical": {"county": [1, "02"]}}]},
        {"diagnostics": [{**LINE, "group_by": "name", "groups": ["01"]}]},
        {"unit": {"column": "NAME", "max_rows": 3}},
        {"unit": {"column": "NAME"}, "row_id": "At"},
    ],
)
def test_what_fits_is_let_through(changes: dict[str, Any]) -> None:
    check_columns(request(**changes), TYPES)
