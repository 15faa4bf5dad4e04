"""A request's model is taken from a release that the ledger has committed, byte for byte, or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dp_operators.releasing import (
    ReleaseFailed,
    check_request,
    fitted_model,
    has_references,
    is_reference,
    with_references,
)
from dp_operators.releasing.earlier_releases import require_as_released
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from tests.support.accounts import open_bound
from tests.support.fitted import KEY, LOGISTIC, fitted_release
from tests.support.ledgers import new_ledger
from tests.support.requests import a_request

pytestmark = pytest.mark.slow

LINEAR = {**LOGISTIC, "kind": "linear"}


class Place:
    """A ledger with an account, and a folder for its releases."""

    def __init__(self, folder: Path) -> None:
        self.output = str(folder / "releases")
        self.ledger = new_ledger(folder / "ledger.db")
        open_bound(self.ledger, "fits", epsilon="3", table="/lake/visits", output=self.output)

    def write(self, **changes: Any) -> str:
        return fitted_release(self.ledger, self.output, **changes)

    def refusal(self, uri: object, **options: Any) -> str:
        with pytest.raises(InvalidRequest) as refused:
            fitted_model(uri, self.ledger, **options)
        assert "\n" not in str(refused.value)
        return str(refused.value)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("ending", ["", "/", "/release.json"])
def test_the_model_is_that_of_the_committed_manifest(place: Place, ending: str) -> None:
    uri = place.write()
    assert fitted_model(uri + ending, place.ledger) == {**LOGISTIC, "fitted_by": KEY, "release": f"file://{uri}"}


def test_a_request_takes_it_and_its_hash_covers_where_it_comes_from(place: Place) -> None:
    first, second = (
        with_references(
            {**a_request().to_dict(), "model": {"uri": place.write(key=key), "key": key, "cost": {}}}, place.ledger
        )
        for key in ("test/fit/1", "test/fit/2")
    )
    one, other = ReleaseRequest.parse(first), ReleaseRequest.parse(second)
    assert one.model is not None
    assert one.model.basis == "differentially_private"
    assert one.sha256 != other.sha256
    assert ReleaseRequest.from_json(one.to_json()) == one


def test_a_model_itself_is_left_alone(place: Place) -> None:
    for model in (
        LOGISTIC,
        {**LOGISTIC, "fitted_by": KEY, "release": "/r"},
        None,
        {"kind": "columns", "basis": "public", "score": "s"},
    ):
        assert not is_reference(model)
        assert with_references({"model": model}, place.ledger) == {"model": model}


@pytest.mark.slow
def test_a_release_with_both_fits_is_asked_for_one(place: Place) -> None:
    uri = place.write(results={"logistic_fit": {"model": LOGISTIC}, "linear_fit": {"model": LINEAR}})
    assert "holds several fitted models; give its kind" in place.refusal(uri)
    assert fitted_model(uri, place.ledger, kind="linear")["kind"] == "linear"
    assert with_references({"model": {"release": uri, "kind": "logistic"}}, place.ledger)["model"] == {
        **LOGISTIC,
        "fitted_by": KEY,
        "release": f"file://{uri}",
    }
    assert "must be one of linear, logistic, recalibrated" in place.refusal(uri, kind="forest")


def test_what_was_not_committed_is_refused(place: Place) -> None:
    uri = place.write(commit=False)
    assert "must be a release that this ledger has committed" in place.refusal(uri)
    [charge] = place.ledger.history("fits")
    place.ledger.void(charge.id)
    assert "must be a release that this ledger has committed" in place.refusal(uri)


def test_a_manifest_that_was_changed_is_refused(place: Place) -> None:
    """Whoever can write to the store could otherwise put a model there that was fitted without noise."""
    uri = place.write()
    file = Path(uri) / "release.json"
    manifest = json.loads(file.read_text())
    manifest["results"]["logistic_fit"]["model"]["coefficients"]["age"] = 0.251
    file.write_text(json.dumps(manifest, indent=2))
    assert "must be a release that this ledger has committed" in place.refusal(uri)


def test_another_ledgers_release_is_refused(place: Place, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    assert "must be a release that this ledger has committed" in place.refusal(other.write())


def test_seeded_noise_and_drafts_are_refused(place: Place) -> None:
    assert "has committed" in place.refusal(place.write(key="test/seeded/1", guarantee="NOT PRIVATE"))
    assert "has committed" in place.refusal(place.write(key="test/draft/1", charge_id=None, status="UNCHARGED"))


def test_a_release_without_a_fit_is_refused(place: Place) -> None:
    uri = place.write(results={"roc_curve": {"auc": 0.5}})
    assert "must hold a fitted model; name a release of linear_fit or logistic_fit" in place.refusal(uri)


@pytest.mark.parametrize("uri", [None, 7, ""])
def test_no_uri_is_refused(place: Place, uri: object) -> None:
    assert "must be the URI of a release" in place.refusal(uri)


def test_a_folder_without_a_release_is_refused(place: Place, tmp_path: Path) -> None:
    assert "must be a folder that holds release.json" in place.refusal(str(tmp_path / "nothing"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "release.json").write_text("{")
    assert "has committed" in place.refusal(str(tmp_path / "broken"))


def test_a_store_that_fails_may_be_tried_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = place.write()

    def fail(*_: object, **__: object) -> bytes:
        raise OSError("away")

    monkeypatch.setattr("spark_jobs.contract.store.objects.LocalStore.read", fail)
    with pytest.raises(ReleaseFailed):
        fitted_model(uri, place.ledger)


def test_the_model_of_a_comparison_may_be_another_release(place: Place) -> None:
    one, other = place.write(key="test/fit/1"), place.write(key="test/fit/2")
    compared = {"kind": "roc_comparison", "other": {"release": other}}
    fields = {**a_request().to_dict(), "model": {"release": one}, "diagnostics": ["roc_curve", compared]}
    assert has_references(fields)
    filled = with_references(fields, place.ledger)
    assert not has_references(filled)
    assert filled["diagnostics"][0] == "roc_curve"
    assert filled["diagnostics"][1]["other"] == {
        **LOGISTIC,
        "fitted_by": "test/fit/2",
        "release": f"file://{other}",
    }
    made = ReleaseRequest.parse(filled)
    assert made.to_dict()["diagnostics"][1]["other"]["fitted_by"] == "test/fit/2"


def forged(model: dict[str, Any]) -> ReleaseRequest:
    return ReleaseRequest.parse({**a_request(account="fits").to_dict(), "model": model})


def test_a_model_that_is_signed_with_the_key_of_a_release_is_compared_with_it(place: Place) -> None:
    """A request could say that a release had fitted its model privately, and carry the rows in its coefficients."""
    uri, head = place.write(), place.ledger.head()
    true = fitted_model(uri, place.ledger)
    require_as_released(forged(true), place.ledger)
    for changes in ({"coefficients": {"age": 0.26}}, {"intercept": 0.0}, {"fitted_by": "test/fit/9"}, {"bounds": {}}):
        for model in ({**true, **changes},):
            with pytest.raises(
                InvalidRequest,
                match="model: got .*; must be as in the release that the request names; give only the release",
            ):
                require_as_released(forged(model), place.ledger)
    other = {"kind": "roc_comparison", "other": {**true, "intercept": 0.0}}
    compared = ReleaseRequest.parse({**a_request().to_dict(), "diagnostics": [other]})
    with pytest.raises(InvalidRequest, match="must be as in the release that the request names"):
        require_as_released(compared, place.ledger)
    nowhere = forged({**true, "release": "/elsewhere/d"})
    with pytest.raises(InvalidRequest, match="must be a folder that holds release.json"):
        require_as_released(nowhere, place.ledger)
    assert place.ledger.head() == head


def test_a_forged_model_is_refused_before_the_charge(place: Place) -> None:
    """By the very check that stands before every reservation and in every dry run."""
    true, head = fitted_model(place.write(), place.ledger), place.ledger.head()
    asked = ReleaseRequest.parse(
        {**forged({**true, "intercept": 0.0}).to_dict(), "output": place.output, "account": "fits"}
    )
    with pytest.raises(InvalidRequest, match="must be as in the release that the request names"):
        check_request(asked, place.ledger)
    assert place.ledger.head() == head


def test_a_copy_elsewhere_is_not_the_release(place: Place, tmp_path: Path) -> None:
    uri = place.write()
    copy = shutil.copytree(uri, tmp_path / "copy")
    assert "must lie where account fits releases" in place.refusal(str(copy))


MAP = {"intercept": -0.2, "slope": 0.6, "clip": 0.001}
COLUMN = {"kind": "columns", "basis": "public", "score": "propensity"}


def recalibrated(place: Place, *, score_map: Any = MAP, model: Any = COLUMN, **changes: Any) -> str:
    """The release of a recalibration."""
    asked = {**a_request(account="fits", output=place.output).to_dict(), "model": model}
    return place.write(request=asked, results={"recalibration": {"map": score_map}}, **changes)


def test_the_map_of_a_recalibration_comes_with_the_model_that_it_is_for(place: Place) -> None:
    uri = recalibrated(place)
    filled = with_references({**a_request(account="fits").to_dict(), "model": {"release": uri}}, place.ledger)
    assert filled["model"] == {**COLUMN, "recalibrated": {**MAP, "fitted_by": KEY, "release": f"file://{uri}"}}
    made = ReleaseRequest.parse(filled)
    assert ReleaseRequest.from_json(made.to_json()) == made
    assert made.sha256 != forged(COLUMN).sha256
    require_as_released(made, place.ledger)


def test_a_map_or_a_model_below_it_that_differs_from_the_release_is_refused(place: Place) -> None:
    true = fitted_model(recalibrated(place), place.ledger)
    for changes in (
        {"score": "other"},
        {"recalibrated": {**true["recalibrated"], "slope": 0.61}},
        {"recalibrated": {**true["recalibrated"], "clip": 0.01}},
        {"recalibrated": {**true["recalibrated"], "fitted_by": "test/fit/9"}},
    ):
        with pytest.raises(InvalidRequest, match="must be as in the release that the request names"):
            require_as_released(forged({**true, **changes}), place.ledger)
    with pytest.raises(InvalidRequest, match="must be as in the release that the request names"):
        require_as_released(forged({**LOGISTIC, "recalibrated": true["recalibrated"]}), place.ledger)


def test_a_fitted_model_with_a_map_of_its_own_is_still_compared_with_its_release(place: Place) -> None:
    true = {**fitted_model(place.write(), place.ledger), "recalibrated": MAP}
    require_as_released(forged(true), place.ledger)
    with pytest.raises(InvalidRequest, match="must be as in the release that the request names"):
        require_as_released(forged({**true, "intercept": 0.0}), place.ledger)


def test_a_map_of_a_map_and_one_that_is_undefined_are_refused(place: Place) -> None:
    twice = recalibrated(place, model={**COLUMN, "recalibrated": MAP}, key="test/fit/2")
    assert "recalibrated already; name a release of recalibration" in place.refusal(twice)
    assert "holds no model" in place.refusal(recalibrated(place, score_map=None, key="test/fit/3"))


def test_a_model_without_a_map_keeps_its_form() -> None:
    assert forged(COLUMN).to_dict()["model"] == COLUMN
