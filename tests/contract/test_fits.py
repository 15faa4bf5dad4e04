"""Requests for private fits, and the models that they make: what is accepted, and what is refused in a line."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from spark_jobs.contract.budget_split import split_budget
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import CrossProductCells, LabelledRowCells
from spark_jobs.contract.tables import LinearModel
from spark_jobs.wording.assumptions import assumptions
from tests.support.requests import a_logistic_request, a_request

LINEAR = {
    "kind": "linear_fit",
    "features": {"age": [18, 80], "LN(1 + pay)": [0, 12]},
    "categorical": {"region": ["north", "south"], "member": [False, True], "size": [1, 2, 3]},
    "outcome": "hours",
    "outcome_bounds": [0, 60],
}
LOGISTIC = {"kind": "logistic_fit", "features": {"age": [18, 80]}}


def asked(options: dict[str, Any], **changes: Any) -> Any:
    fields = {"model": None, "label": None if options["kind"] == "linear_fit" else "y", **changes}
    return a_request(diagnostics=[options], **fields)


def test_a_linear_fit_needs_neither_label_nor_model() -> None:
    [statistic] = asked(LINEAR).statistics
    assert isinstance(statistic, CrossProductCells)
    assert [feature.name for feature in statistic.features] == ["age", "LN(1 + pay)"]
    assert [each.levels for each in statistic.categorical] == [("north", "south"), ("false", "true"), ("1", "2", "3")]
    assert (statistic.outcome.name, statistic.outcome.lower, statistic.outcome.upper) == ("hours", 0, 60)
    assert statistic.terms == 2 + 2 + 1 + 1 + 2


def test_a_logistic_fit_needs_the_label() -> None:
    [statistic] = asked(LOGISTIC).statistics
    assert isinstance(statistic, LabelledRowCells)
    with pytest.raises(InvalidRequest, match="label: is required by logistic_fit"):
        asked(LOGISTIC, label=None)


def test_a_request_survives_json() -> None:
    for options in (LINEAR, LOGISTIC):
        request = asked(options)
        again = type(request).from_json(request.to_json())
        assert again == request
        assert again.statistics == request.statistics
        assert again.sha256 == request.sha256


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"features": {}, "categorical": {}}, "must name at least one feature"),
        ({"features": {"age": [80, 18]}}, "ascending order"),
        ({"features": {"age": [18, float("inf")]}}, "ascending order"),
        ({"features": {"age": [18]}}, "features.age"),
        ({"features": {"SUM(age)": [0, 1]}}, "the function SUM"),
        ({"features": {f"x{place}": [0, 1] for place in range(130)}}, "must be at most 128"),
        ({"features": {"region": [0, 1]}}, "must not be in both features and categorical"),
        ({"categorical": {"region": ["north"]}}, "must be two or more different levels"),
        ({"categorical": {"region": ["north", "north"]}}, "must be two or more different levels"),
        ({"outcome": "age"}, "must not be among the features"),
        ({"outcome_bounds": [3, 3]}, "ascending order"),
        ({"outcome": "RAND()"}, "the function RAND"),
        ({"method": "cauchy"}, "method"),
        ({"confidence": 1}, "confidence"),
        ({"radius": 4}, "radius"),
    ],
)
def test_bad_options_are_refused_in_a_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest, match=line) as refused:
        asked({**LINEAR, **changes})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("changes", [{"radius": 0.5}, {"radius": 17}, {"intercept": "none"}, {"outcome": "hours"}])
def test_bad_options_of_a_logistic_fit_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(changes))):
        asked({**LOGISTIC, **changes})


def test_delta_goes_to_a_fit_that_can_use_it() -> None:
    budget = {"epsilon": "1", "delta": "1e-6"}
    for method, delta in (("auto", "1e-6"), ("gaussian", "1e-6"), ("laplace", "0")):
        request = asked({**LOGISTIC, "method": method}, budget=budget)
        [part] = split_budget(request)
        assert part.granted.delta == Decimal(delta), method
    with pytest.raises(InvalidRequest, match=r"budget\.delta"):
        asked({**LOGISTIC, "method": "gaussian"})
    [part] = split_budget(asked(LOGISTIC))
    assert part.granted.delta == 0


def test_a_model_without_bounds_has_the_hash_that_it_had() -> None:
    request = a_logistic_request(coefficients={"age": 0.1})
    assert set(request.to_dict()["model"]) == {"basis", "intercept", "coefficients", "categorical", "kind"}
    assert request.sha256 == a_logistic_request(coefficients={"age": 0.1}, bounds={}).sha256
    assert request.sha256 != a_logistic_request(coefficients={"age": 0.1}, bounds={"age": [0, 9]}).sha256


def test_bounds_of_a_model_are_those_of_its_features() -> None:
    fields = {"kind": "linear", "basis": "public", "coefficients": {"age": 0.1}}
    model = LinearModel.parse({**fields, "bounds": {"age": [0, 9]}, "fitted_by": "a/b/c/d/-1", "release": "/r/b"})
    assert LinearModel.parse(model.model_dump(mode="json")) == model
    with pytest.raises(InvalidRequest, match="must be a feature with a coefficient"):
        LinearModel.parse({**fields, "bounds": {"pay": [0, 9]}})
    for bounds in ([9, 0], [0, 0], [0, float("inf")], [float("nan"), 1]):
        with pytest.raises(InvalidRequest, match="ascending order"):
            LinearModel.parse({**fields, "bounds": {"age": bounds}})


def test_a_release_says_which_release_fitted_its_model() -> None:
    fields = {"coefficients": {"age": 0.1}, "basis": "differentially_private"}
    named = a_logistic_request(**fields, fitted_by="d/dag/run/fit/-1", release="/releases/d")
    fitted = "The model was fitted privately by release d/dag/run/fit/-1, "
    checked = "which a ledger has committed and from which it was read before this one was charged."
    assert f"{fitted}{checked}" in assumptions(named, charged=True)
    assert f"{fitted}as the request says; nothing has checked it." in assumptions(named, charged=False)
    for part in ({"fitted_by": "d"}, {"release": "/releases/d"}):
        with pytest.raises(InvalidRequest, match="is filled in from the release that fitted the model"):
            a_logistic_request(**fields, **part)
    assert "accounted for elsewhere" in assumptions(a_logistic_request(**fields), charged=True)[0]
