from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.columns import ColumnNeed, label_need, needs
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.tables import Label
from tests.support.requests import a_logistic_request, a_request


def test_the_needs_of_a_request_follow_its_fields() -> None:
    request = a_request(where="age > 3 and region = 'x'", unit={"column": "person"})
    named = [(need.field, need.name) for need in needs(request, [])]
    assert named == [
        ("where", "age"),
        ("where", "region"),
        ("label.column", "y"),
        ("model.score", "score"),
        ("unit.column", "person"),
    ]


def test_a_feature_spelled_like_a_column_is_that_column() -> None:
    request = a_logistic_request(coefficients={"hours-per-week": 1})
    assert [need.name for need in needs(request, ["hours-per-week"])] == ["y", "hours-per-week"]
    assert [need.name for need in needs(request, ["hours"])] == ["y", "hours", "per", "week"]


def test_what_nothing_asks_for_is_not_needed() -> None:
    diagnostics = [{"kind": "ecdf", "column": "amount", "bounds": [0, 1]}]
    assert [need.name for need in needs(a_request(diagnostics=diagnostics), [])] == ["amount"]


@pytest.mark.parametrize(
    ("columns", "found"),
    [(["a"], "a"), (["A"], "A"), (["A", "a"], "a"), (["AB", "aB", "x"], None), (["b"], None), ([], None)],
)
def test_columns_are_found_by_spelling_then_whatever_their_case(columns: list[str], found: str | None) -> None:
    name = "ab" if "AB" in columns else "a"
    assert ColumnNeed(name=name, field="where").spelling_in(columns) == found


@pytest.mark.parametrize(
    ("positive", "negative", "kinds"),
    [
        (1, 0, {Kind.BOOLEAN, Kind.INTEGER, Kind.NUMBER}),
        (False, True, {Kind.BOOLEAN, Kind.INTEGER, Kind.NUMBER}),
        (2, 1, {Kind.INTEGER, Kind.NUMBER}),
        ("yes", "no", {Kind.STRING}),
    ],
)
def test_the_classes_of_a_label_decide_what_its_column_holds(positive: Any, negative: Any, kinds: set[Kind]) -> None:
    assert set(label_need(Label(column="y", positive=positive, negative=negative)).kinds) == kinds


def test_classes_of_two_types_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="same type"):
        label_need(Label(column="y", positive="1", negative=0))


def test_a_refusal_lists_some_columns_at_most() -> None:
    line = str(ColumnNeed(name="z", field="where").missing([f"c{place}" for place in range(500)]))
    assert "c29" in line
    assert "c30" not in line
    assert line.count("...") == 1
