"""What an ``ecdf`` or a curve is compared with comes from a release that the ledger has committed, or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dp_operators.releasing import ReleaseFailed, earlier_function, has_references, with_references
from dp_operators.releasing.earlier_releases import earlier_curve, require_as_released
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import EcdfOptions, RocComparisonOptions
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.objects import LocalStore
from spark_jobs.diagnostics import roc_curve
from spark_jobs.diagnostics.ecdf import Ecdf
from spark_jobs.diagnostics.ecdf.earlier import Earlier
from spark_jobs.diagnostics.roc_curve import RocCurve
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.accounts import open_bound
from tests.support.earlier import AMOUNTS, KEY, ROC, TABLE, ecdf_release, released
from tests.support.ledgers import new_ledger
from tests.support.paired_scores import two_models

pytestmark = pytest.mark.slow


class Place:
    """A ledger with an account, and a folder for its releases."""

    def __init__(self, folder: Path, found: Ecdf) -> None:
        self.output = str(folder / "releases")
        self.found = found
        self.ledger = new_ledger(folder / "ledger.db")
        open_bound(self.ledger, "fits", epsilon="3", table=TABLE, output=self.output)

    def write(self, found: Any = None, **changes: Any) -> str:
        return ecdf_release(self.ledger, self.output, found or self.found, **changes)

    def refusal(self, uri: object) -> str:
        with pytest.raises(InvalidRequest) as refused:
            earlier_function(uri, self.ledger)
        assert "\n" not in str(refused.value)
        assert str(refused.value).startswith("diagnostics.compare_with")
        return str(refused.value)


@pytest.fixture(scope="module")
def found() -> Ecdf:
    return released()


@pytest.fixture
def place(tmp_path: Path, found: Ecdf) -> Place:
    return Place(tmp_path, found)


def fields(compare_with: Any) -> dict[str, Any]:
    return {
        "account": "fits",
        "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
        "diagnostics": ["roc_curve", {**AMOUNTS, "compare_with": compare_with}],
        "label": "visited",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
        "budget": {"epsilon": "1"},
    }


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["", "/", "/release.json"])
def test_the_function_is_that_of_the_committed_release(place: Place, ending: str) -> None:
    held = earlier_function(place.write() + ending, place.ledger)
    options = EcdfOptions.parse({**AMOUNTS, "compare_with": held})
    assert options.compare_with is not None
    assert (options.compare_with.released_by, options.compare_with.named) == (KEY, "amount")
    assert Earlier.of(options.compare_with).cdf.tolist() == place.found.cdf.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["uri", "release", "xcom"])
def test_a_request_names_it_in_any_form_and_holds_it(place: Place, form: str) -> None:
    uri = place.write()
    named = {"uri": uri, "release": {"release": uri}, "xcom": {"uri": uri, "key": KEY, "cost": {}}}[form]
    assert has_references(fields(named))
    filled = with_references(fields(named), place.ledger)
    assert not has_references(filled)
    assert with_references(filled, place.ledger) == filled
    request = ReleaseRequest.parse(filled)
    assert ReleaseRequest.from_json(request.to_json()) == request
    assert request.sha256 == ReleaseRequest.parse(with_references(fields(named), place.ledger)).sha256


def test_a_release_that_is_not_committed_is_refused(place: Place) -> None:
    assert "must be a release that this ledger has committed" in place.refusal(place.write(commit=False))


def test_another_ledgers_release_is_refused(place: Place, tmp_path: Path, found: Ecdf) -> None:
    (tmp_path / "other").mkdir()
    assert "has committed" in place.refusal(Place(tmp_path / "other", found).write())


def test_noise_of_a_seed_is_refused(place: Place) -> None:
    assert "has committed" in place.refusal(place.write(released(noise=SeededNoise(1))))


@pytest.mark.parametrize("file", ["release.json", "ecdf.parquet"])
def test_what_was_changed_afterwards_is_refused(place: Place, file: str) -> None:
    uri = place.write()
    content = Path(uri, file).read_bytes()
    Path(uri, file).write_bytes(content[:-9] + content[-8:])
    told = {"release.json": "has committed", "ecdf.parquet": "must hold ecdf.parquet as its manifest says"}[file]
    assert told in place.refusal(uri)


def test_a_file_that_is_gone_is_refused(place: Place) -> None:
    uri = place.write()
    Path(uri, "ecdf.parquet").unlink()
    assert "must hold ecdf.parquet as its manifest says" in place.refusal(uri)
    without = place.write(key="test/april/1", files=())
    assert "must hold ecdf.parquet as its manifest says" in place.refusal(without)


def test_a_release_of_something_else_is_refused(place: Place) -> None:
    uri = place.write(results={"roc_curve": {"auc": 0.5}})
    assert "must hold a distribution function; name a release of ecdf" in place.refusal(uri)


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"grid": None}, {"tree": {"cells": 7}}, {"bounds_found": True}])
def test_a_result_of_another_form_is_refused(place: Place, change: dict[str, Any]) -> None:
    uri = place.write(results={"ecdf": {**place.found.to_dict(), **change}})
    told = "with public bounds" if "bounds_found" in change else "in a form that this version reads"
    assert told in place.refusal(uri)


@pytest.mark.parametrize("uri", [None, 7, "", "/nowhere/at/all", "relative"])
def test_what_is_no_folder_of_a_release_is_refused(place: Place, uri: object) -> None:
    place.refusal(uri)


def test_another_grid_is_refused_for_the_request(place: Place) -> None:
    filled = with_references(fields(place.write()), place.ledger)
    filled["diagnostics"][1]["bounds"] = [0, 200]
    with pytest.raises(InvalidRequest, match="must be on the grid of this release"):
        ReleaseRequest.parse(filled)


def test_a_store_that_fails_may_be_tried_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = place.write()
    read = LocalStore.read

    def fail(store: LocalStore, name: str, **limit: int) -> bytes | None:
        if name.endswith(".parquet"):
            raise OSError("away")
        return read(store, name, **limit)

    monkeypatch.setattr(LocalStore, "read", fail)
    with pytest.raises(ReleaseFailed):
        earlier_function(uri, place.ledger)


def test_a_function_that_is_signed_with_the_key_of_a_release_is_compared_with_it(place: Place) -> None:
    held = earlier_function(place.write(), place.ledger)
    head = place.ledger.head()
    require_as_released(ReleaseRequest.parse(fields(held)), place.ledger)
    for changes in ({"noise_scale": held["noise_scale"] * 2}, {"released_by": "test/other/1"}, {"release": None}):
        with pytest.raises(
            InvalidRequest, match=r"diagnostics.compare_with: got .*; must be as in the release that the request names"
        ):
            require_as_released(ReleaseRequest.parse(fields({**held, **changes})), place.ledger)
    assert place.ledger.head() == head


CURVE = {"kind": "roc_comparison"}


@pytest.fixture(scope="module")
def curve() -> RocCurve:
    labels, _, scores = two_models(4000, 1)
    return roc_curve.release(ScoreCounts.from_arrays(labels, scores), epsilon=1, noise=SecureNoise())


def of_scores(compare_with: Any) -> dict[str, Any]:
    return {
        **fields(None),
        "label": "visited",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
        "diagnostics": [{**CURVE, "compare_with": compare_with}],
    }


def test_the_curve_is_that_of_the_committed_manifest(place: Place, curve: RocCurve) -> None:
    uri = place.write(curve, kind="roc_curve", diagnostic=ROC)
    held = earlier_curve(uri, place.ledger)
    assert (held["released_by"], held["curve"]["auc"]) == (KEY, curve.auc.value)
    for named in (uri, {"release": uri}):
        assert has_references(of_scores(named))
        filled = with_references(of_scores(named), place.ledger)
        assert not has_references(filled)
        request = ReleaseRequest.parse(filled)
        require_as_released(request, place.ledger)
        options = request.diagnostics[0]
        assert isinstance(options, RocComparisonOptions)
        assert options.compare_with is not None
        assert options.compare_with.curve.tpr == tuple(curve.tpr.value.tolist())


def test_a_curve_that_the_release_does_not_hold_is_refused(place: Place, curve: RocCurve) -> None:
    held = earlier_curve(place.write(curve, kind="roc_curve", diagnostic=ROC), place.ledger)
    for changes in ({"positives": 9.0}, {"confidence": 0.8}):
        forged = {**held, "curve": {**held["curve"], **changes}}
        request = ReleaseRequest.parse(of_scores(forged))
        with pytest.raises(InvalidRequest, match="must be as in the release that the request names"):
            require_as_released(request, place.ledger)


def test_a_release_without_a_curve_is_refused(place: Place) -> None:
    with pytest.raises(InvalidRequest, match=r"diagnostics.compare_with: got .*; must hold a ROC curve") as refused:
        earlier_curve(place.write(), place.ledger)
    assert "\n" not in str(refused.value)
