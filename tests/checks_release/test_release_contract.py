"""A draft that meets the contract passes; every single departure from it is found, and named without a value."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from dp_operators.release_check import ReleaseCheckFailed, check_release
from spark_jobs.contract.release import Release, ReleaseFile
from spark_jobs.contract.results.curves import RocCurve
from spark_jobs.diagnostics import auc
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts

REQUEST = {
    "account": "visits",
    "table": {"format": "parquet", "path": "/lake/visits", "snapshot": {"path_version": "v1"}},
    "label": {"column": "any_visit", "positive": 1, "negative": 0},
    "model": {"kind": "columns", "basis": "public", "score": "score"},
    "diagnostics": [{"kind": "roc_curve"}],
    "budget": {"epsilon": "1", "delta": "0", "rho": None},
    "neighbours": "add_remove",
    "unit": {"column": None, "max_rows": 1},
}
ROC = {
    "fpr": [0.0, 0.25, 0.25, 1.0],
    "tpr": [0.0, 0.5, 0.75, 1.0],
    "thresholds": [None, 0.7, 0.4, 0.0],
    "tpr_lower": [0.0, 0.4, 0.6, 1.0],
    "tpr_upper": [0.2, 0.6, 0.8, 1.0],
    "tpr_lower_everywhere": [0.0, 0.3, 0.5, 1.0],
    "tpr_upper_everywhere": [0.3, 0.7, 0.9, 1.0],
    "tpr_population_lower": [0.0, 0.2, 0.4, 1.0],
    "tpr_population_upper": [0.4, 0.8, 1.0, 1.0],
    "tpr_population_lower_everywhere": [0.0, 0.1, 0.3, 1.0],
    "tpr_population_upper_everywhere": [0.5, 0.9, 1.0, 1.0],
    "auc": 0.7,
    "auc_interval": [0.6, 0.8],
    "auc_population_interval": [0.4, 0.95],
    "auc_privacy_share": 0.3,
    "positives": 61.0,
    "negatives": 58.5,
    "status": "ok",
}
UNDEFINED = {
    **ROC,
    **{name: [None] * 4 for name in RocCurve.figure_names()[4:]},
    **dict.fromkeys(RocCurve.figure_names()[:4]),
    "negatives": -0.5,
    "status": "undefined",
}
LISTS = "roc_curve: thresholds, " + ", ".join(RocCurve.figure_names()[4:])
FILES = {"report.html": b"<html></html>", "roc_curve.parquet": b"PAR1"}


def manifest(**changes: Any) -> dict[str, Any]:
    fields = {
        "key": "airflow/visits/2026-01-01",
        "charge_id": "c1",
        "status": "CHARGED",
        "guarantee": "differentially private",
        "request_sha256": "0" * 64,
        "request": copy.deepcopy(REQUEST),
        "cost": {"epsilon": "1", "delta": "0"},
        "neighbours": "add_remove",
        "unit": {"column": None, "max_rows": 1},
        "statement": "",
        "rules": [],
        "assumptions": [],
        "drawn_at": "2026-01-01T00:00:00Z",
        "results": {"roc_curve": copy.deepcopy(ROC)},
        "files": [ReleaseFile.of(name, content, "text/plain").model_dump() for name, content in FILES.items()],
        "versions": {},
    }
    return fields | changes


def curve(**changes: Any) -> dict[str, Any]:
    return manifest(results={"roc_curve": ROC | changes})


def check(fields: dict[str, Any], files: dict[str, bytes] = FILES) -> None:
    check_release(Release.parse(fields), files.get)


def test_release_within_the_contract_passes() -> None:
    check(manifest())
    check(manifest(cost={"epsilon": "0.999999999999999999999999", "delta": "0"}))


def test_undefined_result_passes_where_every_figure_is_null() -> None:
    check(manifest(results={"roc_curve": UNDEFINED}))


def test_area_without_an_interval_passes_unchecked() -> None:
    rows = ScoreCounts.from_arrays(np.arange(100) % 2, np.linspace(0, 1, 100), cells=64)
    result = auc.release(rows, epsilon=1, method="polynomial", interval=False, noise=SeededNoise(1)).to_dict()
    assert (result["status"], result["interval"]) == ("unchecked", None)
    check(manifest(results={"auc": result}, request={**REQUEST, "diagnostics": [{"kind": "auc", "interval": False}]}))


@pytest.mark.parametrize("figure", RocCurve.figure_names())
def test_undefined_result_publishes_no_figure(figure: str) -> None:
    with pytest.raises(ReleaseCheckFailed, match="roc_curve: every figure of an undefined result is null"):
        check(manifest(results={"roc_curve": UNDEFINED | {figure: ROC[figure]}}))


def test_release_without_files_passes() -> None:
    check(manifest(files=[]))


@pytest.mark.parametrize(
    ("fields", "broken"),
    [
        (curve(fpr=[0.0, 0.25, 0.2, 1.0]), "roc_curve: fpr never falls"),
        (curve(tpr=[0.0, 0.6, 0.5, 1.0], tpr_lower=[0.0] * 4, tpr_upper=[1.0] * 4), "tpr never falls"),
        (curve(fpr=[0.1, 0.25, 0.25, 1.0]), "fpr runs from 0 to 1"),
        (curve(tpr=[0.0, 0.5, 0.75, 0.9], tpr_lower=[0.0] * 4), "tpr runs from 0 to 1"),
        (curve(tpr_upper=[0.2, 0.6, 0.8, 1.01]), "tpr_upper is within [0, 1]"),
        (curve(tpr_lower=[-0.01, 0.4, 0.6, 1.0]), "tpr_lower is within [0, 1]"),
        (curve(tpr_lower=[0.0, 0.51, 0.6, 1.0]), "tpr is not below tpr_lower"),
        (curve(tpr_upper=[0.2, 0.49, 0.8, 1.0]), "tpr_upper is not below tpr"),
        (curve(tpr=[0.0, float("nan"), 0.75, 1.0]), "tpr is a number"),
        (curve(fpr=[0.0, float("inf"), 0.25, 1.0]), "fpr is within [0, 1]"),
        (curve(tpr_lower_everywhere=[0.0, 0.6, 0.5, 1.0]), "tpr_lower is not below tpr_lower_everywhere"),
        (curve(thresholds=[None, 0.4, 0.7, 0.0]), "thresholds never rises"),
        (curve(thresholds=[None, 0.7, 0.4, -0.1]), "thresholds is within [0, 1]"),
        (curve(thresholds=[1.0, 0.7, 0.4, 0.0]), "roc_curve: thresholds is null in the first place and nowhere else"),
        (curve(thresholds=[None, 0.7, 0.0]), f"{LISTS} have the same length"),
        (curve(positives=float("inf")), "positives is finite"),
        (curve(negatives=float("nan")), "negatives is a number"),
        (curve(auc=0.5), "auc is within auc_interval"),
        (curve(auc=0.9), "auc is within auc_interval"),
        (curve(auc_interval=[0.6, 1.2]), "auc_interval is within [0, 1]"),
        (curve(auc_population_interval=[0.71, 0.9]), "auc is within auc_population_interval"),
        (curve(auc_privacy_share=1.5), "auc_privacy_share is within [0, 1]"),
        (curve(fpr=[0.0, 1.0]), f"{LISTS} have the same length"),
        (curve(auc="0.7"), "roc_curve: the result has the form that its kind declares"),
        (manifest(results={"roc_curve": {}}), "roc_curve: the result has the form that its kind declares"),
        (curve(auc=None), "roc_curve: the result has the form that its kind declares"),
        (curve(tpr=[None] * 4), "roc_curve: the result has the form that its kind declares"),
        (
            manifest(results={"roc_curve": UNDEFINED | {"status": "ok"}}),
            "roc_curve: the result has the form that its kind declares",
        ),
        (curve(status="fine"), "roc_curve: status is one of ok, shrunk, unchecked, coarse, weak, undefined"),
        (
            manifest(results={"roc_curve": {k: v for k, v in ROC.items() if k != "status"}}),
            "has the form that its kind declares",
        ),
        (manifest(results={}), "the results are those of the request"),
        (manifest(results={"roc_curve": ROC, "raw_rows": {}}), "raw_rows: no contract is known"),
        (manifest(cost={"epsilon": "1.000000000000000000000001"}), "epsilon is above 0 and within the reservation"),
        (manifest(cost={"epsilon": "0"}), "epsilon is above 0 and within the reservation"),
        (manifest(cost={"epsilon": "1", "delta": "1e-30"}), "delta is within the reservation"),
        (manifest(neighbours="replace_one"), "the neighbours are those of the request"),
        (manifest(unit={"column": "person", "max_rows": 3}), "the unit is that of the request"),
        (manifest(guarantee="NOT PRIVATE"), "its noise is secure"),
        (manifest(status="UNCHARGED", key=None, charge_id=None), "a charge pays for it"),
    ],
)
def test_every_departure_is_named(fields: dict[str, Any], broken: str) -> None:
    with pytest.raises(ReleaseCheckFailed) as failed:
        check(fields)
    assert any(line.endswith(broken) for line in failed.value.broken), failed.value.broken


@pytest.mark.parametrize(
    "files",
    [{}, {**FILES, "report.html": b"<html></htm1>"}, {**FILES, "report.html": b"<html></html>\n"}],
    ids=["missing", "other bytes", "other size"],
)
def test_files_must_be_those_of_the_manifest(files: dict[str, bytes]) -> None:
    with pytest.raises(ReleaseCheckFailed) as failed:
        check(manifest(), files)
    assert failed.value.broken == ("files: every file is as the manifest says",)


def test_two_files_may_not_share_a_name() -> None:
    entry = ReleaseFile.of("a", b"", "text/plain").model_dump()
    with pytest.raises(ReleaseCheckFailed, match="names differ"):
        check(manifest(files=[entry, entry]), {"a": b""})


def test_message_names_no_value() -> None:
    with pytest.raises(ReleaseCheckFailed) as failed:
        check(curve(auc=0.123456))
    assert "123456" not in str(failed.value)
