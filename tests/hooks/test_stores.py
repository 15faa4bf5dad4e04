"""Stores of releases by Airflow's connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dp_operators.hooks import by_connection
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.conditional_put import ConditionalPutStore
from spark_jobs.contract.store.objects import check_store, open_store
from tests.support.object_stores import Cloud, cloud

OPTION = "AIRFLOW__PRIVACY_DIAGNOSTICS__STORE_CONN_IDS"


@pytest.mark.parametrize(
    ("uri", "connection"),
    [
        ("s3://releases/x", "wide"),
        ("s3a://releases", "wide"),
        ("s3://releases/eu/x", "narrow"),
        ("s3://releases/europe", "wide"),
        ("s3://releases-of-others/x", None),
        ("gs://releases/x", None),
        ("/srv/releases", None),
    ],
)
def test_longest_folder_names_the_connection(
    uri: str, connection: str | None, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, '{"s3://releases/eu": "narrow", "s3://releases/": "wide"}')
    monkeypatch.setattr("dp_operators.hooks.stores.by_environment", lambda uri: None)
    monkeypatch.setattr("airflow.sdk.io.get_fs", lambda scheme, name, options: name)
    monkeypatch.setattr("airflow.sdk.io.has_fs", lambda scheme: True)
    for name in ("wide", "narrow"):
        connect(name, conn_type="aws")
    assert by_connection(uri) == connection


@pytest.mark.parametrize("text", ["aws", "[]", '["aws"]', '{"releases": "aws"}', '{"ftp://x/y": "aws"}', "{"])
def test_option_that_is_no_list_of_folders_is_one_line(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTION, text)
    with pytest.raises(InvalidRequest, match="must be a JSON object of folders and ids of connections"):
        open_store("s3://releases/x")


def test_file_system_is_that_of_airflows_connection(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    connect("aws_releases", conn_type="aws")
    opened: list[tuple[str | None, Any]] = []

    class FileSystem:
        protocol = ("s3", "s3a")

    def get_fs(connection: str | None, options: Any) -> FileSystem:
        opened.append((connection, options))
        return FileSystem()

    monkeypatch.setattr("airflow.sdk.io.fs._register_filesystems", lambda: {"s3": get_fs})
    monkeypatch.setenv(OPTION, '{"s3://releases": "aws_releases"}')
    assert isinstance(open_store("s3://releases/churn"), ConditionalPutStore)
    assert opened == [("aws_releases", {})]


def test_store_whose_provider_is_missing_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow.sdk.io.fs._register_filesystems", dict)
    monkeypatch.setenv(OPTION, '{"gs://releases": "google"}')
    with pytest.raises(InvalidRequest, match="install apache-airflow-providers-google"):
        open_store("gs://releases/churn")


def s3_connection(place: Cloud) -> dict[str, Any]:
    endpoint = place.variables["AWS_ENDPOINT_URL"]
    return {"conn_type": "aws", "login": "x", "password": "x", "extra": {"endpoint_url": endpoint, "region_name": "x"}}


def google_connection(place: Cloud) -> dict[str, Any]:
    extra = {"is_anonymous": True, "project": "p", "gcs.endpoint": place.variables["STORAGE_EMULATOR_HOST"]}
    return {"conn_type": "google_cloud_platform", "extra": extra}


def azure_connection(place: Cloud) -> dict[str, Any]:
    return {"conn_type": "wasb", "extra": {"connection_string": place.variables["AZURE_STORAGE_CONNECTION_STRING"]}}


PROVIDERS: dict[str, tuple[str, Callable[[Cloud], dict[str, Any]]]] = {
    "s3": ("airflow.providers.amazon", s3_connection),
    "gcs": ("airflow.providers.google", google_connection),
    "azure": ("airflow.providers.microsoft.azure", azure_connection),
}


@pytest.fixture(params=PROVIDERS)
def named(request: Any, connect: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A store for which there is a connection of Airflow's, and nothing in the environment."""
    provider, connection = PROVIDERS[request.param]
    pytest.importorskip(provider)
    with cloud(request.param, tmp_path) as started:
        connect("store", **connection(started))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv(OPTION, f'{{"{started.folder}": "store"}}')
        yield started


def test_store_is_used_through_the_providers_file_system(named: Cloud) -> None:
    check_store(named.uri)
    assert open_store(named.uri).create(f"{named.uri}/object", b"one")
    assert not open_store(named.uri).create(f"{named.uri}/object", b"two")
    assert open_store(named.uri).read(f"{named.uri}/object") == b"one"
    assert list(open_store(named.uri).names(named.uri)) == ["object"]
    assert open_store(named.uri).first(named.uri) == "object"


def test_connection_that_does_not_exist_is_one_line(named: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTION, f'{{"{named.folder}": "none"}}')
    with pytest.raises(InvalidRequest, match="got 'none'; must name connections that exist"):
        open_store(named.uri)
