# ruff: noqa: E501 - tables of cases read best one to a line
from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from spark_jobs.contract import InvalidRequest, Neighbours, Release, ReleaseRequest
from spark_jobs.contract.request_documents import load_model
from spark_jobs.contract.tables import MODEL_KINDS, Model

LOGISTIC = {
    "kind": "logistic",
    "basis": "public",
    "intercept": -0.25,
    "coefficients": {"age": 0.5, "ln(income + 1)": 0.1},
    "categorical": {"sex": {"f": 0.3}},
}


def fields(**changes: Any) -> dict[str, Any]:
    request = {
        "account": "visits",
        "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        "where": "age >= 18",
        "label": "visited",
        "model": LOGISTIC,
        "diagnostics": ["roc_curve"],
        "budget": {"epsilon": "0.1"},
        "output": "/releases",
    }
    return {name: value for name, value in {**request, **changes}.items() if value is not None}


def test_a_request_survives_json_and_yaml() -> None:
    request = ReleaseRequest.parse(fields())
    assert ReleaseRequest.from_json(request.to_json()) == request
    assert ReleaseRequest.from_yaml(request.to_yaml()) == request
    assert request.neighbours is Neighbours.ADD_REMOVE


def test_the_hash_ignores_spelling_and_covers_meaning() -> None:
    request = ReleaseRequest.parse(fields())
    respelt = ReleaseRequest.parse(
        dict(reversed(fields(budget={"epsilon": 0.1}, diagnostics=[{"kind": "roc_curve"}]).items()))
    )
    assert respelt.sha256 == request.sha256
    for changed in (
        {"budget": {"epsilon": "0.2"}},
        {"table": {"path": "/lake/visits", "snapshot": {"path_version": "v2"}}},
        {"where": "age >= 19"},
        {"model": {**LOGISTIC, "intercept": -0.26}},
        {"output": "/elsewhere"},
        {"neighbours": "replace_one"},
        {"scoring": {"outside": "drop"}},
    ):
        assert ReleaseRequest.parse(fields(**changed)).sha256 != request.sha256


def test_numbers_in_json_keep_every_digit() -> None:
    text = json.dumps(fields()).replace('"0.1"', "0.1000000000000000000000000001")
    assert str(ReleaseRequest.from_json(text).budget.epsilon) == "0.1000000000000000000000000001"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"budget": {"epsilon": 0}}, r"^budget\.epsilon: got '0'; must be above 0; "),
        ({"budget": {"epsilon": "-1"}}, r"^budget\.epsilon: got '-1'; must be above 0"),
        ({"budget": {"epsilon": "a lot"}}, r"^budget\.epsilon: got 'a lot'; must be a finite decimal number"),
        ({"budget": {}}, r"^budget\.epsilon: "),
        ({"unit": {"column": "user", "max_rows": 0}}, r"^unit\.max_rows: got 0; "),
        ({"row_id": "visit"}, r"^row_id: got 'visit'; must be left out where every row is a unit of its own; name the"),
        ({"unit": {"column": "user"}, "row_id": ""}, r"^row_id: "),
        ({"diagnostics": ["heat_map"]}, r"^diagnostics\.kind: got 'heat_map'; must be one of roc_curve"),
        ({"diagnostics": []}, r"^diagnostics: "),
        ({"diagnostics": ["roc_curve", "roc_curve"]}, r"must be requested only once"),
        ({"diagnostics": [{"kind": "roc_curve", "thresholds": 1}]}, r"thresholds: got 1; "),
        ({"diagnostics": [{"kind": "roc_curve", "colour": "red"}]}, r"colour: is not a field"),
        ({"model": {"kind": "oracle"}}, r"^model: "),
        ({"model": {**LOGISTIC, "basis": None}}, r"^model\.basis: "),
        ({"model": {**LOGISTIC, "intercept": float("nan")}}, r"^model\.intercept: "),
        ({"model": {**LOGISTIC, "coefficients": {}, "categorical": {}}}, r"^model\.coefficients: must name at least one"),
        ({"model": {**LOGISTIC, "coefficients": {"rand()": 1.0}}}, r"^model\.coefficients|^coefficients|rand"),
        ({"where": "age > (select 1)"}, r"^where: "),
        ({"table": {"path": "/lake/visits"}}, r"^table\.snapshot: is required"),
        ({"table": {"path": "/lake/visits", "snapshot": {"path_version": "../other"}}}, r"^table\.snapshot\.path_version: "),
        ({"table": {"path": "/lake/visits", "snapshot": {"path_version": "v1", "table_version": 1}}}, r"exactly one"),
        ({"table": {"format": "catalog", "path": "/x", "snapshot": {"table_version": 1}}}, r"^table\.name: "),
        ({"table": {"format": "csv", "path": "/x", "snapshot": {"path_version": "v1"}}}, r"^table\.columns: "),
        ({"label": {"column": "visited", "positive": 1, "negative": 1}}, r"^label\.negative: got 1; must differ"),
        ({"scoring": {"outside": "explode"}}, r"^scoring\.outside: got 'explode'"),
        ({"neighbours": "friends"}, r"^neighbours: "),
        ({"purpose": "fun"}, r"^purpose: is not a field"),
    ],
)  # fmt: skip
def test_a_bad_request_is_refused_in_one_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest, match=line) as caught:
        ReleaseRequest.parse({**fields(), **changes})
    assert "\n" not in str(caught.value)


COLUMN = {"kind": "ecdf", "column": "amount", "bounds": [0, 1]}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"label": None}, "label: is required by roc_curve; name the column"),
        ({"model": None}, "model: is required by roc_curve; name the source of scores"),
        ({"label": None, "diagnostics": [COLUMN, "calibration"]}, "label: is required by calibration; "),
        ({"model": None, "diagnostics": ["ecdf"]}, "model: is required by ecdf; "),
    ],
)
def test_what_a_diagnostic_needs_is_required(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ReleaseRequest.parse(fields(**changes))
    assert str(refused.value).startswith(line)


def test_a_label_and_a_model_may_be_left_out_where_nothing_needs_them() -> None:
    request = ReleaseRequest.parse(fields(label=None, model=None, diagnostics=[COLUMN]))
    assert not request.uses_label
    assert not request.uses_model
    assert ReleaseRequest.from_yaml(request.to_yaml()) == request
    spoken_of = ReleaseRequest.parse(fields(diagnostics=[COLUMN]))
    assert not spoken_of.uses_label
    assert spoken_of.sha256 != request.sha256


@pytest.mark.parametrize("text", ["", "{", "[]", '"request"', "null"])
def test_text_that_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="^request: "):
        ReleaseRequest.from_json(text)


def test_yaml_that_is_no_request_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="must be a YAML document"):
        ReleaseRequest.from_yaml("a: [")


def test_files_are_read_by_their_suffix(tmp_path: Any) -> None:
    request = ReleaseRequest.parse(fields())
    (tmp_path / "request.yaml").write_text(request.to_yaml())
    (tmp_path / "request.json").write_text(request.to_json())
    assert (
        ReleaseRequest.from_file(tmp_path / "request.yaml")
        == ReleaseRequest.from_file(tmp_path / "request.json")
        == request
    )
    (tmp_path / "gated.yaml").write_text(f"{request.to_yaml()}\ngate: roc_curve.auc >= 0.7\n")
    assert ReleaseRequest.from_file(tmp_path / "gated.yaml") == request
    with pytest.raises(InvalidRequest, match="can be read"):
        ReleaseRequest.from_file(tmp_path / "none.json")


def test_a_model_file_becomes_the_requests_model(tmp_path: Any) -> None:
    (tmp_path / "model.json").write_text(json.dumps(LOGISTIC))
    assert ReleaseRequest.parse(fields(model=load_model(tmp_path / "model.json"))) == ReleaseRequest.parse(fields())
    with pytest.raises(InvalidRequest, match="^model: "):
        load_model(tmp_path / "none.json")


@pytest.mark.parametrize(
    "content", [{"type": "service_account", "private_key": "K0"}, {"kind": "Config", "token": "K0"}, {"kind": ["K0"]}]
)
def test_no_message_shows_what_is_in_a_file_that_holds_no_model(tmp_path: Any, content: dict[str, Any]) -> None:
    """Whoever writes a request names a file that the worker can read, and that they may not."""
    (tmp_path / "secret.json").write_text(json.dumps(content))
    with pytest.raises(InvalidRequest, match="must be a file with a model") as refused:
        load_model(tmp_path / "secret.json")
    assert "K0" not in str(refused.value)


def test_every_kind_of_model_may_be_in_a_file() -> None:
    kinds = [get_args(model.model_fields["kind"].annotation)[0] for model in get_args(get_args(Model)[0])]
    assert kinds == list(MODEL_KINDS)


def test_a_manifest_survives_json_and_yaml() -> None:
    request = ReleaseRequest.parse(fields())
    release = Release(
        key="k", charge_id="c", status="CHARGED", guarantee="NOT PRIVATE", request_sha256=request.sha256,
        request=request.to_dict(), cost=request.budget, neighbours=request.neighbours, unit=request.unit,
        statement="s", rules=("r",), assumptions=(), drawn_at="2026-01-01T00:00:00Z", results={"roc_curve": {"auc": 0.5}},
        versions={},
    )  # fmt: skip
    assert Release.from_json(release.to_json()) == release
    assert Release.from_yaml(release.to_yaml()) == release
    assert release.to_json() == Release.from_json(release.to_json()).to_json()


@pytest.mark.parametrize(
    ("changes", "suggestion"),
    [
        ({"diagnostics": ["roc_curv"]}, "did you mean 'roc_curve'?"),
        ({"diagnostics": [{"kind": "roc_curve", "confidnce": 0.9}]}, "did you mean 'confidence'?"),
        ({"tabel": {}}, "did you mean 'table'?"),
        ({"unit": {"colum": "person"}}, "did you mean 'column'?"),
    ],
)
def test_a_name_with_a_slip_gets_a_suggestion(changes: dict, suggestion: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ReleaseRequest.parse(fields(**changes))
    assert str(refused.value).endswith(suggestion)


@pytest.mark.parametrize("value", ["1_0", True, "0_9"])
@pytest.mark.parametrize("field", ["thresholds", "confidence"])
def test_what_nobody_writes_for_a_number_is_none(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest, match=rf"^diagnostics\.{field}: got .*; must be a number"):
        ReleaseRequest.parse(fields(diagnostics=[{"kind": "roc_curve", field: value}]))


@pytest.mark.parametrize("record", ["person-year", "visit", "Fall 2", "Besuch im März", None])
def test_what_a_row_is_called_is_a_short_noun(record: str | None) -> None:
    assert ReleaseRequest.parse(fields(record=record)).record == record


@pytest.mark.parametrize(
    "record",
    [
        "person. Nobody is protected: everything below is exact",
        "person; the promise covers whole households",
        "a  b", "-", "", " person", "person\n", "<b>person</b>", "person”", "x" * 61,
    ],
)  # fmt: skip
def test_a_sentence_is_no_name_of_a_row(record: str) -> None:
    """It stood in the paragraph on who is protected, and could say the opposite of it."""
    with pytest.raises(InvalidRequest, match=r"^record: got .*; must be words of letters and digits"):
        ReleaseRequest.parse(fields(record=record))
