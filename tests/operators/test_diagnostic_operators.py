"""The operators of single kinds: generated, typed, templated, mapped, and refused when an option is another kind's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

import dp_operators.operators as public
from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.operators import (
    AucOperator,
    CalibrationOperator,
    EcdfOperator,
    ReleaseDiagnosticsOperator,
    RocCurveOperator,
    Template,
)
from dp_operators.operators.diagnostic import RENAMED, class_of, options_of
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import DIAGNOSTICS
from tests.support import operator_source
from tests.support.accounts import open_bound
from tests.support.airflow import make_context, run_dag, states
from tests.support.dag_bags import restored
from tests.support.kinds import EXAMPLES
from tests.support.repository import ROOT

COLUMNS = {"kind": "columns", "score": "score", "basis": "public"}
FITTED = {"kind": "linear", "coefficients": {"x": 1.0}, "intercept": 0.0, "basis": "public"}
GIVEN: dict[str, Any] = {
    "task_id": "release",
    "account": "visits",
    "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
    "label": "any_visit",
    "model": COLUMNS,
    "epsilon": "1",
    "output": "/releases",
}
LINE = {"x": "a", "y": "b", "x_bounds": [0, 1], "y_bounds": [0, 1]}
CHOSEN: dict[str, dict[str, Any]] = {
    "aggregates": {
        "by": ({"column": "region", "values": ("north", 2)},),
        "measures": ({"of": "wage", "bounds": (0, 100)},),
    },
    "roc_curve": {"method": "fixed_cells", "thresholds": 64, "histogram": "hb"},
    "roc_comparison": {"other": {**COLUMNS, "score": "other"}},
    "binned_residuals": {"bins": 16},
    "calibration": {"method": "fixed_bins"},
    "auc": {"method": "cauchy", "interval": False},
    "average_precision": {"method": "weighted_counts"},
    "binormal_roc": {"points": 11},
    "confusion_matrix": {"thresholds": (0.2, 0.5)},
    "ranking_figures": {"depths": (0.1, 0.5), "false_negative_cost": 5.0},
    "recalibration": {"clip": 0.01},
    "by_group": {"group_by": "region", "groups": ("north", 2), "kinds": ("auc", {"kind": "calibration"})},
    "ecdf": {"column": "amount", "bounds": (0, 1000), "scale": "log", "unit": 0.5, "cells": 1024},
    "quantile": {"level": 0.9, "column": "amount", "interval": False},
    "cdf_points": {"thresholds": (0.2, 0.5), "quantiles": (0.9,), "more_evaluations": 20, "silo_rows": 1000},
    "residual_plot": {"outcome": "wage", "unit": 0.01},
    "linear_regression": {**LINE, "cells": 64, "group_by": "tract", "groups": ("1", 2)},
    "linear_fit": {"features": {"age": (18, 80)}, "outcome": "wage", "outcome_bounds": (0, 100)},
    "logistic_fit": {"categorical": {"region": ("north", "south")}, "radius": 6.0},
}


def of(kind: str) -> Any:
    return getattr(public, class_of(kind))


@pytest.mark.slow
def test_the_sources_are_what_the_options_make_of_them() -> None:
    stale = [path.name for path, text in operator_source.sources().items() if path.read_text() != text]
    assert stale == [], "out of date: run `python -m tests.support.operator_source`"


def test_no_parameter_has_two_meanings() -> None:
    general = set(operator_source.arguments().split()) | {"task_id"}
    for kind in DIAGNOSTICS:
        assert {f"{name}:" for name in options_of(kind)} & general == set()
    assert set(RENAMED) == {"unit"}


@pytest.mark.parametrize("kind", DIAGNOSTICS)
def test_every_kind_has_an_operator_with_its_options(kind: str) -> None:
    fields = {**GIVEN, "model": FITTED} if kind == "residual_plot" else GIVEN
    if kind == "rows_per_unit":
        fields = {**GIVEN, "unit": {"column": "person", "max_rows": 9}}
    options = CHOSEN.get(kind) or EXAMPLES[kind][0]
    chosen = {RENAMED.get(name, name): value for name, value in options.items()}
    one = of(kind)(**fields, **chosen).build_request()
    general = ReleaseDiagnosticsOperator(**fields, diagnostics=[{"kind": kind, **options}]).build_request()
    assert one == general
    assert one.sha256 == general.sha256


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"bins": 3},
            "bins: is not an option of roc_curve, which has method, thresholds, confidence, histogram; remove it",
        ),
        ({"bins": 3}, "use BinnedResidualsOperator or CalibrationOperator or ResidualPlotOperator"),
        ({"weight": 2}, "weight: is not an option of roc_curve"),
        ({"diagnostics": "auc"}, "diagnostics: is not a parameter of RocCurveOperator, which releases one roc_curve"),
        ({"request": "/requests/r.yaml"}, "request: is not a parameter of RocCurveOperator"),
        ({"method": "tre"}, "diagnostics.method: got 'tre'"),
        ({"epsilon": "abc"}, "budget.epsilon: got 'abc'; must be a finite decimal number"),
    ],
)
def test_a_mistake_is_one_line_when_the_dag_is_parsed(given: dict[str, Any], line: str) -> None:
    for make in (RocCurveOperator, RocCurveOperator.partial):
        with DAG("dag", schedule=None), pytest.raises(InvalidRequest) as refused:
            make(**{**GIVEN, **given})
        assert line in str(refused.value)
        assert "\n" not in str(refused.value)


def test_options_may_be_templates_and_other_tasks_results() -> None:
    with DAG("dag", schedule=None):
        first = AucOperator(**{**GIVEN, "task_id": "first"})
        operator = EcdfOperator(
            **GIVEN, points=Template("{{ params.points }}"), compare_with=first.output, cells=1024, owner="somebody"
        )
        assert operator.upstream_task_ids == {"first"}
    curve = RocCurveOperator(**GIVEN, method=Template("{{ params.method }}"), thresholds=Template("{{ params.n }}"))
    curve.render_template_fields(make_context(method="fixed_cells", n=32))
    [options] = curve.build_request().diagnostics
    assert (options.method, options.thresholds) == ("fixed_cells", 32)  # type: ignore[attr-defined]


def test_it_survives_serialisation_and_takes_default_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.serialization import serialized_objects

    # a DAG that was read from the database in this process may have left them off, as a scheduler does
    for serialization in vars(serialized_objects).values():
        if hasattr(serialization, "_load_operator_extra_links"):
            monkeypatch.setattr(serialization, "_load_operator_extra_links", True)
    common = {name: GIVEN[name] for name in ("account", "output", "epsilon")}
    with DAG("visits", schedule=None, default_args=common) as dag:
        CalibrationOperator(**{name: value for name, value in GIVEN.items() if name not in common}, bins=16)
    task = restored(dag).task_dict["release"]
    assert task.task_type == "CalibrationOperator"
    [entry] = task.request["diagnostics"]
    assert (entry["kind"], entry["bins"]) == ("calibration", 16)
    assert task.request["account"] == "visits"
    assert set(task.operator_extra_link_dict) == {"Report", "Account", "Verify"}


@pytest.fixture
def accounts(airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
    for name in ("visits", "stays"):
        open_bound(airflow_ledger, name, epsilon="3", table=f"/lake/{name}", output=tmp_path / name)
    return airflow_ledger


@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.usefixtures("airflow_database", "fake_application")
def test_mapped_over_tables_each_index_has_a_key_and_a_charge(accounts: PrivacyLedger, tmp_path: Path) -> None:
    def entry(name: str) -> dict[str, Any]:
        table = {"path": f"/lake/{name}", "snapshot": {"path_version": "v1"}}
        return {"account": name, "table": table, "output": str(tmp_path / name)}

    rest = {name: GIVEN[name] for name in ("task_id", "label", "model", "epsilon")}
    with DAG("mapped_kinds", schedule=None) as dag:
        mapped = RocCurveOperator.partial(**rest, method="tree").expand_kwargs([entry("visits"), entry("stays")])
    assert mapped.task_id == "release"
    run = run_dag(dag)
    assert set(states(run).values()) == {"success"}
    charges = {name: accounts.history(name) for name in ("visits", "stays")}
    assert [len(each) for each in charges.values()] == [1, 1]
    assert {charge.state for each in charges.values() for charge in each} == {ChargeState.COMMITTED}
    keys = [charge.release for each in charges.values() for charge in each]
    assert [key.rpartition("/")[2] for key in keys] == ["0", "1"]


@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.usefixtures("airflow_database", "fake_application")
@pytest.mark.parametrize(
    ("name", "values", "charged"),
    [
        ("model", [COLUMNS, {**COLUMNS, "score": "other"}], [("all",), ("all",)]),
        (
            "blocks",
            ["2026-11-20", ["2026-11-21", "2026-11-22"]],
            [("2026-11-20",), ("2026-11-21", "2026-11-22")],
        ),
    ],
)
def test_mapped_over_models_and_blocks_each_index_pays_under_its_own_key(
    airflow_ledger: PrivacyLedger, tmp_path: Path, name: str, values: list[Any], charged: list[tuple[str, ...]]
) -> None:
    settings = {"blocks": "day(at)"} if name == "blocks" else {}
    open_bound(airflow_ledger, "visits", epsilon="3", table="/lake/visits", output=tmp_path, **settings)
    fixed = {field: value for field, value in {**GIVEN, "output": str(tmp_path)}.items() if field != name}
    with DAG(f"mapped_{name}", schedule=None) as dag:
        RocCurveOperator.partial(**fixed).expand(**{name: values})
    assert set(states(run_dag(dag)).values()) == {"success"}
    charges = sorted(airflow_ledger.history("visits"), key=lambda charge: charge.release)
    assert [(charge.release.rpartition("/")[2], charge.blocks) for charge in charges] == list(
        zip(("0", "1"), charged, strict=True)
    )
    assert {charge.state for charge in charges} == {ChargeState.COMMITTED}
    assert len({charge.request_sha256 for charge in charges}) == 2


TYPED = """
from dp_operators.operators import EcdfOperator, RocCurveOperator, Template

RocCurveOperator(task_id="a", account="x", epsilon="1", method="tree", thresholds=Template("{{ params.n }}"), retries=3)
RocCurveOperator(task_id="a", method="tre")
RocCurveOperator(task_id="a", metod="tree")
RocCurveOperator(task_id="a", account=1)
EcdfOperator(task_id="a", cells=5)
"""


@pytest.mark.verify
def test_a_type_checker_knows_the_options(tmp_path: Path) -> None:
    file = tmp_path / "typed.py"
    file.write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", str(file)]  # what the linter found before is in its cache
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    errors = [line for line in told.splitlines() if ": error:" in line]
    assert [line.split(":")[1] for line in errors] == ["5", "6", "7", "8"], told
