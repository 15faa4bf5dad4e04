"""Mistakes in a DAG's constants are import errors; what is rendered later is left alone until it is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, XComArg
from airflow.sdk.definitions.mappedoperator import MappedOperator

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest

GIVEN: dict[str, Any] = {
    "account": "visits",
    "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
    "label": "any_visit",
    "model": {"kind": "columns", "score": "score", "basis": "public"},
    "diagnostics": "roc_curve",
    "epsilon": "1",
    "output": "/releases",
}
LINES = {"kind": "linear_regression", "x": "a", "y": "b", "x_bounds": [0, 1], "y_bounds": [0, 1]}
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "epsilon that is no number": ({"epsilon": "abc"}, "budget.epsilon: got 'abc'; must be a finite decimal number"),
    "epsilon below 0": ({"epsilon": "-1"}, "budget.epsilon: got '-1'; must be above 0"),
    "no epsilon": ({"epsilon": None}, "budget: is required"),
    "delta without epsilon": ({"epsilon": None, "delta": "1e-6"}, "budget.epsilon: is required"),
    "unknown kind": ({"diagnostics": "crystal_ball"}, "diagnostics.kind: got 'crystal_ball'; must be one of roc_curve"),
    "unknown option": ({"diagnostics": [{"kind": "auc", "bins": 3}]}, "diagnostics.bins: is not a field"),
    "no account": ({"account": None}, "account: is required"),
    "table without a snapshot": ({"table": {"path": "/lake/visits"}}, "table.snapshot: is required"),
    "table of the account without a snapshot": ({"table": {"format": "csv"}}, "table.snapshot: is required"),
    "number where a text is meant": (
        {"table": {"snapshot": {"path_version": 20240131}}},
        "table.snapshot.path_version: got 20240131; must be a text, and is written as a number, true or false; write",
    ),
    "unknown relation": ({"neighbours": "cousins"}, "neighbours: got 'cousins'"),
    "filter outside the allow-list": ({"where": "rand() > 0.5"}, "where"),
    "label that is needed": ({"label": None}, "label: is required by roc_curve"),
    "delta that is needed": ({"diagnostics": [{"kind": "auc", "method": "laplace"}]}, "budget.delta"),
    "too little epsilon a row": (
        {"epsilon": "0.1", "unit": {"column": "person", "max_rows": 1_000_000}},
        "budget.epsilon: got '1.00e-7 per row for roc_curve'; must be at least 0.000001 for each row",
    ),
    "too many counts": (
        {
            "diagnostics": [
                {**LINES, "method": "dp_grad_descent", "group_by": "tract", "groups": [f"{i:03}" for i in range(99)]}
            ]
        },
        "diagnostics: got '103,809,123 counts'; must need at most 67,108,864 counts; ask for fewer cells",
    ),
    "model without its basis": ({"model": {"kind": "columns", "score": "score"}}, "model.basis: is required"),
    "scale of scores that makes no map": (
        {"model": {**GIVEN["model"], "bounds": [850, 300]}},
        "model.bounds: got [850, 300]; must be two numbers in ascending order",
    ),
    "unknown runner": ({"runner": "abacus"}, "runner: got 'abacus'; must be one of local, spark_submit"),
    "master of another runner": (
        {"runner": "spark_submit", "master": "local"},
        "master: got 'local'; is for the local",
    ),
}


def operator(**fields: Any) -> ReleaseDiagnosticsOperator:
    return ReleaseDiagnosticsOperator(task_id="release", **{**GIVEN, **fields})


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_constant_is_an_import_error_of_one_line(mistake: str) -> None:
    fields, line = MISTAKES[mistake]
    with pytest.raises(InvalidRequest) as refused:
        operator(**fields)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("mistake", ["epsilon that is no number", "unknown kind", "no account", "unknown relation"])
def test_a_template_elsewhere_hides_no_mistake(mistake: str) -> None:
    fields, line = MISTAKES[mistake]
    table = {"path": "/lake/visits", "snapshot": {"path_version": "{{ ds }}"}}
    with pytest.raises(InvalidRequest) as refused:
        operator(**{"table": table, "title": "{{ dag.dag_id }}", **fields})
    assert line in str(refused.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"epsilon": "{{ params.epsilon }}"},
        {"diagnostics": ["{{ params.kind }}"]},
        {"diagnostics": [{"kind": "auc", "method": "{{ params.method }}"}]},
        {"table": {"path": "{{ params.path }}", "snapshot": {"path_version": "{{ ds }}"}}},
        {"neighbours": "{% if params.fixed %}replace_one{% else %}add_remove{% endif %}"},
        {"model": "a model's file that only the worker has.json"},
        {"model": {"release": "/releases/of/the/fit", "kind": "logistic"}},
        {"runner": "{{ params.runner }}", "conf": {"spark.driver.memory": "{{ params.memory }}"}},
        {"table": {"snapshot": {"path_version": "v1"}}, "output": None},
        {"epsilon": 1},
        {"blocks": "interval"},
        {
            "model": {**GIVEN["model"], "bounds": [300, 850], "step": 1},
            "diagnostics": [{"kind": "confusion_matrix", "thresholds": [620]}],
        },
        {"model": {**GIVEN["model"], "step": 5}},
    ],
)
def test_what_is_known_later_is_left_alone(fields: dict[str, Any]) -> None:
    assert operator(**fields).task_id == "release"


def test_what_another_task_returns_is_left_alone() -> None:
    with DAG("dag"):
        fit = ReleaseDiagnosticsOperator(task_id="fit", **GIVEN)
        assert operator(model=fit.output, epsilon=XComArg(fit)).task_id == "release"


def test_a_whole_request_is_checked_too(tmp_path: Path) -> None:
    whole = {**GIVEN, "budget": {"epsilon": GIVEN["epsilon"]}}
    del whole["epsilon"]
    make: Callable[..., ReleaseDiagnosticsOperator] = ReleaseDiagnosticsOperator
    assert make(task_id="release", request=whole).task_id == "release"
    complete = ReleaseRequest.parse(whole).to_dict()
    assert make(task_id="release", request=complete).request == complete
    with pytest.raises(InvalidRequest, match="epsilon: is not a field"):
        make(task_id="release", request={**whole, "epsilon": "1"})
    # a file is the worker's to read
    assert make(task_id="release", request=str(tmp_path / "later.json")).task_id == "release"


def test_a_mapped_task_is_checked_when_it_runs() -> None:
    with DAG("dag"):
        rest = {name: value for name, value in GIVEN.items() if name != "epsilon"}
        mapped = ReleaseDiagnosticsOperator.partial(task_id="release", **rest).expand(epsilon=["1", "abc"])
    assert isinstance(mapped, MappedOperator)
    unmapped = mapped.unmap({**rest, "task_id": "release", "epsilon": "abc"})
    assert unmapped.request["budget"] == {"epsilon": "abc"}
