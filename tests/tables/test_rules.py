from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.wording.rules import rules
from tests.support.requests import a_request

PIPELINE = {"kind": "spark_ml", "basis": "public", "path": "/m"}
LINEAR = {"kind": "linear", "basis": "public", "coefficients": {"x": 1}, "categorical": {"c": {"a": 1}}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "y is 1 and as negative if it is 0; a row with any other value there, or none, is left out"),
        ({"label": {"column": "out", "positive": "yes", "negative": "no"}}, 'out is "yes"'),
        ({}, "A row whose score is null or NaN is left out."),
        ({}, "A score below 0 counts as 0 and a score above 1 as 1."),
        ({"scoring": {"outside": "drop"}}, "A row whose score is below 0 or above 1 is left out."),
        ({"where": "age > 30"}, "Only rows for which this condition is true are used: age > 30."),
        ({"model": LINEAR}, "A row with a feature that is null or NaN is left out."),
        ({"model": LINEAR}, "A level of c that the model does not list, or null, adds nothing to the score."),
        ({"model": PIPELINE}, "a row that they skip is left out"),
        ({"unit": {"column": "person", "max_rows": 3}}, "person, at most 3 rows are used"),
        ({"unit": {"column": "person"}}, "a row without person is left out"),
        (
            {"unit": {"column": "person"}, "row_id": "visit"},
            "by a secret order, in which visit distinguishes them; a row",
        ),
    ],
)
def test_every_rule_of_a_request_is_told(changes: dict[str, Any], told: str) -> None:
    assert any(told in rule for rule in rules(a_request(**changes)))


def test_rules_that_do_not_apply_are_not_told() -> None:
    told = " ".join(rules(a_request(model={**LINEAR, "kind": "logistic"})))
    assert "below 0" not in told
    assert "at most" not in told
    assert "condition" not in told


def test_a_label_and_a_model_that_nothing_reads_are_said_to_be_unread() -> None:
    distribution = {"kind": "ecdf", "column": "amount", "bounds": [0, 1]}
    told = rules(a_request(diagnostics=[distribution]))
    assert told[0] == "No requested diagnostic needs a label or a model, so that part of the request is ignored."
    assert "score" not in " ".join(told)
    assert "ignored" not in " ".join(rules(a_request(label=None, model=None, diagnostics=[distribution])))
    assert "ignored" not in " ".join(rules(a_request(diagnostics=["roc_curve", distribution])))


def test_rules_are_sentences() -> None:
    everything = a_request(model=LINEAR, where="a > 1", unit={"column": "person", "max_rows": 3})
    assert all(rule[0].isupper() and rule.endswith(".") for rule in rules(everything))
