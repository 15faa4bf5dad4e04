"""The contract of stores against a folder, and against S3, Google and Azure on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.objects import check_store, open_store
from tests.suites.stores import StoreContract
from tests.support.object_stores import CLOUDS, Cloud, Request, azurite, cloud, signed_in


@pytest.fixture(scope="module", params=[pytest.param(kind, marks=pytest.mark.slow) for kind in CLOUDS])
def server(request, tmp_path_factory):
    if request.param == "azurite" and azurite() is None:
        pytest.skip("Azurite is not installed: npm install azurite")
    with cloud(request.param, tmp_path_factory.mktemp(request.param)) as started:
        yield started


@pytest.fixture
def place(server: Cloud, monkeypatch, request):
    server.proxy.before = server.proxy.after = lambda _: True
    server.proxy.requests.clear()
    with signed_in(server, monkeypatch):
        yield server


class TestFolder(StoreContract):
    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}/releases"


@pytest.fixture
def root(place: Cloud, request) -> str:
    return f"{place.folder}/{request.node.name.partition('[')[0]}"


class TestCloud(StoreContract):
    pass


def creates(request: Request) -> bool:
    return request["method"] in ("PUT", "POST")


@pytest.fixture
def impatient(monkeypatch):
    """Clients that repeat at once what they would repeat after seconds."""
    from azure.storage.blob._shared import policies_async

    monkeypatch.setattr(policies_async.ExponentialRetry, "get_backoff_time", lambda *_: 0.01)


def test_create_whose_response_is_lost_is_not_taken_for_anothers(root: str, place: Cloud, impatient) -> None:
    lost = []

    def lose_the_first(request: Request) -> bool:
        if lost or not creates(request):
            return True
        lost.append(request)
        return False

    place.proxy.after = lose_the_first
    assert open_store(root).create(f"{root}/draw.json", b"mine")
    assert len([request for request in place.proxy.requests if creates(request)]) > 1
    assert open_store(root).read(f"{root}/draw.json") == b"mine"


def test_create_that_lost_its_response_and_its_race_is_refused(root: str, place: Cloud, impatient) -> None:
    """The first request never arrives; before it is repeated, another writer's object is there."""
    others = []

    def overtake(request: Request) -> bool:
        if not creates(request) or others:
            return True
        others.append(request)
        assert open_store(root).create(f"{root}/draw.json", b"another's")
        return False

    place.proxy.before = overtake
    assert not open_store(root).create(f"{root}/draw.json", b"mine")
    assert open_store(root).read(f"{root}/draw.json") == b"another's"


def test_store_that_fails_is_an_oserror_and_leaves_no_object(root: str, place: Cloud, impatient, monkeypatch) -> None:
    store = open_store(root)
    place.proxy.before = lambda request: not creates(request)
    monkeypatch.setattr("asyncio.sleep", _at_once)
    with pytest.raises(OSError):  # noqa: PT011
        store.create(f"{root}/draw.json", b"mine")
    place.proxy.before = lambda _: True
    assert list(store.names(root)) == []


def test_store_that_is_away_during_the_checks_is_no_bad_request(root: str, place: Cloud, monkeypatch) -> None:
    monkeypatch.setattr("asyncio.sleep", _at_once)
    place.proxy.before = lambda _: False
    with pytest.raises(OSError):  # noqa: PT011 - whatever the client says, it is no InvalidRequest
        check_store(root)
    place.proxy.before = lambda _: True
    check_store(root)


def test_checks_delete_nothing(root: str, place: Cloud) -> None:
    for _ in range(3):
        check_store(root)
    assert [request["method"] for request in place.proxy.requests if request["method"] == "DELETE"] == []
    assert list(open_store(root).names(root)) == [".probe"]


async def _at_once(*_: object) -> None:
    return None


def test_store_that_ignores_the_precondition_is_refused(root: str, place: Cloud, request) -> None:
    if "azurite" in request.node.callspec.params.values():
        pytest.skip("Azurite checks signatures, of which the precondition is a part")

    def strip(request: Request) -> bool:
        request["headers"].pop("If-None-Match", None)
        request["path"] = request["path"].replace("ifGenerationMatch=0", "")
        return True

    place.proxy.before = strip
    with pytest.raises(InvalidRequest, match="must be in a store that refuses to create the same object twice"):
        check_store(root)


def test_each_create_is_one_conditional_request(root: str, place: Cloud) -> None:
    """Also of an object that clients would upload in parts, whose commit some of them send without the condition."""
    content = bytes(60 << 20)
    store = open_store(root)
    assert store.create(f"{root}/large", content)
    assert not store.create(f"{root}/large", b"small")
    assert not store.create(f"{root}/large", content[1:])
    sent = [request for request in place.proxy.requests if creates(request)]
    assert len(sent) == 3
    for request in sent:
        condition = {name.lower(): value for name, value in request["headers"].items()}.get("if-none-match")
        assert condition == "*" or "ifGenerationMatch=0" in request["path"]
