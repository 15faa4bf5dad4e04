"""Backends behind other providers' hooks: the real hook calls a stand-in for the service over HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from dp_operators.backends.databricks import DatabricksJobs
from dp_operators.backends.dataproc import DataprocBatches
from dp_operators.backends.emr_serverless import EmrServerless
from dp_operators.backends.handles import BY_TYPE, look_again
from dp_operators.backends.providers import ProviderBackend
from dp_operators.backends.spark_operator import SparkOperator
from dp_operators.releasing import Handle, RunState
from dp_operators.tasks.runners import make_runner
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE
from tests.suites.backends import SECRET, SUBMISSION, BackendContract, Started
from tests.support.provider_hooks import hook_class
from tests.support.release_lab import make_request
from tests.support.services import (
    DataprocService,
    EmrServerlessService,
    Service,
    SparkOperatorService,
    Workspace,
)

Connect = Callable[..., None]
CONF = {"spark.driver.memory": "1g", "spark.executor.cores": 2}
CLUSTER = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 2}
SETTINGS: dict[str, dict[str, Any]] = {
    "databricks": {
        "application": "/Volumes/dp/launch.py",
        "new_cluster": {**CLUSTER, "spark_env_vars": {"A": "b"}},
        "libraries": [{"whl": "/Volumes/dp/dp.whl"}],
    },
    "aws": {
        "application": "s3://dp/launch.py",
        "application_id": EmrServerlessService.APPLICATION,
        "execution_role": "arn:aws:iam::123456789012:role/dp",
    },
    "google_cloud_platform": {
        "application": "gs://dp/launch.py",
        "project": "p-1",
        "region": "europe-west1",
        "image": "europe-docker.pkg.dev/p-1/dp/spark:1",
        "environment": {"execution_config": {"service_account": "dp@p-1.iam.gserviceaccount.com"}},
    },
    "kubernetes": {
        "application": "local:///opt/launch.py",
        "image": "registry.example.org/dp-spark:1",
        "spark_version": "4.3.0",
        "namespace": "analytics",
        "driver": {"serviceAccount": "spark"},
        "executor": {"instances": 2},
    },
}
"""What each type of connection says of the application."""


class ServicePlace:
    """A service, and backends for it as any worker makes them from a connection."""

    def __init__(self, service: Service, connection_type: str, connect: Connect, **fields: Any) -> None:
        self.service = service
        extra = {**fields.pop("extra", {}), "dp_diagnostics": SETTINGS[connection_type]}
        connect("place", conn_type=connection_type, extra=extra, **fields)

    def backend(self) -> Any:
        return make_runner("cluster", master=None, spark_conn_id="place", conf=CONF, private_dir=None)

    def started(self) -> list[Started]:
        assert self.service.wrong == []
        return self.service.started()

    def end(self, handle: Handle) -> None:
        self.service.end(handle.id)

    def cut(self) -> None:
        self.service.away = True

    def end_all(self) -> None:
        for token in self.service.submitted:
            self.service.states[token] = self.service.OVER


class ServiceContract(BackendContract):
    """What holds for every service, besides the contract of backends."""

    def test_settings_and_application_reach_the_service(self, place: ServicePlace) -> None:
        place.backend().submit(SUBMISSION)
        place.started()
        [submitted] = place.service.submitted.values()
        document = json.dumps(submitted)
        for expected in ('"spark.driver.memory": "1g"', '"spark.executor.cores": "2"'):
            assert expected in document
        settings = SETTINGS[place.backend().connection_type]
        for name in ("application", "image", "execution_role"):
            assert settings.get(name, "") in document

    def test_kept_handle_alone_is_enough_to_look(self, place: ServicePlace) -> None:
        handle = place.backend().submit(SUBMISSION)
        assert look_again(handle) is RunState.RUNNING
        place.end(handle)
        assert look_again(handle) is RunState.ENDED

    def test_misspelt_field_is_caught_at_every_level_of_what_is_submitted(self, place: ServicePlace) -> None:
        place.backend().submit(SUBMISSION)
        [document] = place.service.submitted.values()
        place.service.check(document)
        levels = set()
        for path, misspelt in misspellings(document, place.service.MAPS):
            levels.add(len(path))
            with pytest.raises(Exception, match=f"{path[-1]}_"):
                place.service.check(misspelt)
        assert {1, 2, 3} <= levels

    def test_secret_is_in_no_log_even_at_the_level_debug(
        self, place: ServicePlace, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with caplog.at_level(logging.DEBUG):
            backend = place.backend()
            handle = backend.submit(SUBMISSION)
            assert backend.look(handle) is RunState.RUNNING
            backend.kill(handle)
        printed = "".join(capfd.readouterr())
        assert SECRET.hex() in json.dumps(place.service.submitted)
        assert SECRET.hex() not in caplog.text + printed


def misspellings(document: Any, maps: tuple[str, ...]) -> Iterator[tuple[list[str], Any]]:
    """The document with each of its fields misspelt in turn, and the path to it; names in ``maps`` are free."""
    if isinstance(document, list):
        for place, member in enumerate(document):
            for path, changed in misspellings(member, maps):
                yield path, [*document[:place], changed, *document[place + 1 :]]
    elif isinstance(document, dict):
        for name, value in document.items():
            yield [name], {f"{name}_" if other == name else other: document[other] for other in document}
            for path, changed in misspellings(value, maps) if name not in maps else ():
                yield [name, *path], {**document, name: changed}


class TestDatabricksJobs(ServiceContract):
    @pytest.fixture
    def place(self, connect: Connect) -> Iterator[ServicePlace]:
        hook_class(DatabricksJobs.hook)
        pytest.importorskip(
            "databricks.sdk.service.jobs", reason="Databricks' SDK, which has its API, is not installed"
        )
        service = Workspace()
        host, _, port = service.url.removeprefix("http://").partition(":")
        yield ServicePlace(
            service, "databricks", connect, host=host, port=int(port), schema="http", login="token", password="t"
        )
        service.close()

    def test_run_has_the_cluster_of_the_connection_and_is_never_retried_by_databricks(
        self, place: ServicePlace
    ) -> None:
        place.backend().submit(SUBMISSION)
        [run] = place.service.submitted.values()
        [task] = run["tasks"]
        assert {name: task["new_cluster"][name] for name in CLUSTER} == CLUSTER
        assert task["new_cluster"]["spark_env_vars"]["A"] == "b"
        assert (task["max_retries"], task["libraries"]) == (0, [{"whl": "/Volumes/dp/dp.whl"}])

    @pytest.mark.parametrize(
        ("field", "value"), [("num_workers", "2"), ("spark_conf", {"spark.a": 1}), ("runtime_engine", "WARP")]
    )
    def test_field_of_the_wrong_type_or_value_is_caught(self, place: ServicePlace, field: str, value: Any) -> None:
        place.backend().submit(SUBMISSION)
        [run] = place.service.submitted.values()
        run["tasks"][0]["new_cluster"][field] = value
        with pytest.raises((AssertionError, ValueError), match=r"."):
            place.service.check(run)


class EmrPlace(ServicePlace):
    """EMR Serverless behind the hook of the Amazon provider, or behind botocore alone where that is not installed."""

    def backend(self) -> Any:
        made = super().backend()
        try:
            import airflow.providers.amazon  # noqa: F401
        except ImportError:
            made.__dict__["_hook"] = SimpleNamespace(conn=_botocore_client(self.service.url))
        return made


def _botocore_client(url: str) -> Any:
    from botocore.session import get_session

    return get_session().create_client(
        "emr-serverless",
        region_name="eu-west-1",
        endpoint_url=url,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )


class TestEmrServerless(ServiceContract):
    @pytest.fixture
    def place(self, connect: Connect) -> Iterator[ServicePlace]:
        service = EmrServerlessService()
        extra = {"region_name": "eu-west-1", "endpoint_url": service.url}
        yield EmrPlace(service, "aws", connect, login="key", password="secret", extra=extra)
        service.close()

    def test_kept_handle_alone_is_enough_to_look(self, place: ServicePlace) -> None:
        hook_class(EmrServerless.hook)
        super().test_kept_handle_alone_is_enough_to_look(place)

    def test_secret_is_in_no_log_even_at_the_level_debug(
        self, place: ServicePlace, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        hook_class(EmrServerless.hook)
        super().test_secret_is_in_no_log_even_at_the_level_debug(place, caplog, capfd)

    def test_service_keeps_no_log_unless_the_connection_says_where(self, place: ServicePlace) -> None:
        place.backend().submit(SUBMISSION)
        [run] = place.service.submitted.values()
        kept = run["configurationOverrides"]["monitoringConfiguration"]
        assert kept == {"managedPersistenceMonitoringConfiguration": {"enabled": False}}
        assert run["retryPolicy"] == {"maxAttempts": 1}


class TestDataprocBatches(ServiceContract):
    @pytest.fixture
    def place(self, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServicePlace]:
        hook = hook_class(DataprocBatches.hook)
        from airflow.providers.google.cloud.hooks import dataproc
        from google.auth.credentials import AnonymousCredentials

        service = DataprocService()
        # the real client speaks gRPC over TLS; its other transport speaks HTTP, with the same messages
        monkeypatch.setattr(
            dataproc, "BatchControllerClient", partial(dataproc.BatchControllerClient, transport="rest")
        )
        monkeypatch.setattr(hook, "_get_api_endpoint", lambda self, region: service.url)
        monkeypatch.setattr(hook, "get_credentials", lambda self: AnonymousCredentials())
        yield ServicePlace(service, "google_cloud_platform", connect)
        service.close()

    def test_batch_of_an_earlier_submission_is_found_by_its_name(self, place: ServicePlace) -> None:
        handle = place.backend().submit(SUBMISSION)
        assert handle.id == f"projects/p-1/locations/europe-west1/batches/{SUBMISSION.token}"
        place.service.states[SUBMISSION.token] = "CANCELLING"
        assert place.backend().look(handle) is RunState.RUNNING


class TestSparkOperator(ServiceContract):
    @pytest.fixture
    def place(self, connect: Connect) -> Iterator[ServicePlace]:
        hook_class(SparkOperator.hook)
        service = SparkOperatorService()
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": service.url}}],
            "users": [{"name": "u", "user": {}}],
        }
        yield ServicePlace(service, "kubernetes", connect, extra={"kube_config": json.dumps(kubeconfig)})
        service.close()

    def test_operator_never_starts_it_again(self, place: ServicePlace) -> None:
        place.backend().submit(SUBMISSION)
        [resource] = place.service.submitted.values()
        assert resource["spec"]["restartPolicy"] == {"type": "Never"}
        assert resource["spec"]["driver"] == {"serviceAccount": "spark"}

    @pytest.mark.parametrize("state", ["", "SUBMITTED", "SUBMISSION_FAILED", "FAILING", "SUCCEEDING", "PENDING_RERUN"])
    def test_state_on_the_way_is_running(self, place: ServicePlace, state: str) -> None:
        handle = place.backend().submit(SUBMISSION)
        place.service.states[SUBMISSION.token] = state
        assert place.backend().look(handle) is RunState.RUNNING

    def test_state_that_the_operator_does_not_know_is_unknown(self, place: ServicePlace) -> None:
        handle = place.backend().submit(SUBMISSION)
        place.service.states[SUBMISSION.token] = "UNKNOWN"
        assert place.backend().look(handle) is RunState.UNKNOWN


def make(kind: str = "cluster", **fields: Any) -> Any:
    return make_runner(kind, **{"master": None, "spark_conn_id": "place", "conf": None, "private_dir": None, **fields})


@pytest.mark.parametrize("connection_type", BY_TYPE)
def test_connection_is_routed_by_its_type_and_never_to_spark_submit(connect: Connect, connection_type: str) -> None:
    settings = {**SETTINGS[connection_type], "conf": {"spark.a": "1", "spark.executor.cores": "1"}}
    connect("place", conn_type=connection_type, host="https://example.org", extra={"dp_diagnostics": settings})
    expected = BY_TYPE[connection_type](
        connection="place", settings=SETTINGS[connection_type], conf={"spark.a": "1", "spark.executor.cores": "2"}
    )
    assert make(conf={"spark.executor.cores": "2"}) == expected
    with pytest.raises(InvalidRequest) as refused:
        make("spark_submit")
    assert str(refused.value) == (
        f"connection place: got 'the type {connection_type}'; must be of type spark for the runner spark_submit; "
        "name another connection, or set the runner to cluster"
    )


@pytest.mark.parametrize("connection_type", BY_TYPE)
@pytest.mark.parametrize(
    "change",
    [
        lambda settings: None,
        lambda settings: {},
        lambda settings: {name: value for name, value in settings.items() if name != "application"},
        lambda settings: {**settings, "application": 1},
        lambda settings: {**settings, "deploy-mode": "client"},
    ],
    ids=["none", "empty", "lacking", "mistyped", "unknown"],
)
def test_connection_that_does_not_say_how_to_run_is_refused_in_one_line(
    connect: Connect, connection_type: str, change: Callable[[Any], Any]
) -> None:
    connect("place", conn_type=connection_type, extra={"dp_diagnostics": change(SETTINGS[connection_type])})
    with pytest.raises(
        InvalidRequest, match=r"must have the extra dp_diagnostics with application \(text\)"
    ) as refused:
        make()
    assert "\n" not in str(refused.value)


def of_type(connection_type: str, conf: dict[str, Any]) -> ProviderBackend:
    return BY_TYPE[connection_type](connection="place", settings=SETTINGS[connection_type], conf=conf)


@pytest.mark.parametrize("connection_type", BY_TYPE)
@pytest.mark.parametrize(
    ("conf", "line"),
    [
        ({"memory": "1g"}, "conf: got 'memory'; must begin with 'spark.'"),
        ({"spark.submit.deployMode": "client"}, "spark.submit.deployMode: got 'client'; must be 'cluster' with a con"),
    ],
)
def test_setting_that_the_service_lacks_is_refused_before_anything_is_charged(
    connection_type: str, conf: dict[str, str], line: str, tmp_path: Any
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        of_type(connection_type, conf).check(make_request(str(tmp_path)))
    assert str(refused.value).startswith(line)


@pytest.mark.parametrize("connection_type", BY_TYPE)
def test_connection_of_client_mode_is_refused_in_one_line(connect: Connect, connection_type: str) -> None:
    extra = {"dp_diagnostics": SETTINGS[connection_type], "deploy-mode": "client"}
    connect("place", conn_type=connection_type, extra=extra)
    with pytest.raises(InvalidRequest) as refused:
        make()
    assert str(refused.value) == (
        f"deploy-mode: got 'client'; must be 'cluster' with a connection of type {connection_type}; leave it out"
    )


@pytest.mark.parametrize(("connection_type", "extra"), [(kind, BY_TYPE[kind].extra) for kind in BY_TYPE])
def test_missing_provider_is_refused_in_one_line(
    connection_type: str, extra: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, BY_TYPE[connection_type].hook.rpartition(".")[0], None)
    with pytest.raises(InvalidRequest) as refused:
        of_type(connection_type, {}).check(make_request(str(tmp_path)))
    assert str(refused.value).startswith("spark_conn_id: needs the provider of ")
    assert str(refused.value).endswith(f"install airflow-provider-dp-diagnostics[{extra}]")


def test_variables_of_the_run_are_settings_of_the_driver_alone() -> None:
    for connection_type, backend in BY_TYPE.items():
        settings = of_type(connection_type, {}).spark_settings(SUBMISSION)
        assert f"{backend.environment_prefix}.{RUN_SECRET_VARIABLE}" in settings
        assert not any(name.startswith("spark.executorEnv") for name in settings)


def test_type_without_a_backend_is_refused_in_one_line(connect: Connect) -> None:
    connect("ssh", conn_type="ssh", host="edge.example.org")
    with pytest.raises(InvalidRequest) as refused:
        make(spark_conn_id="ssh")
    assert str(refused.value) == (
        "connection ssh: got 'the type ssh'; must be of type aws, databricks, google_cloud_platform, kubernetes, spark "
        "or spark_connect; name another connection"
    )
