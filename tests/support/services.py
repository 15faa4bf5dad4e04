"""Stand-ins, over HTTP, for services that run Spark drivers: every call is checked against what is published of them.

They know an application by the caller's token, remember what was submitted, and can be cut off.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qs, urlsplit

import jsonschema
import pytest

from tests.suites.backends import Started
from tests.support.http_places import Server


class Service(ABC):
    """One service; a call is checked by ``answer``, and what it finds wrong is raised when the test asks for it."""

    OVER: str
    """The state of an application that has done its work."""
    MAPS: tuple[str, ...]
    """The fields of a submission in which names are the caller's own."""

    def __init__(self) -> None:
        self.submitted: dict[str, dict[str, Any]] = {}
        self.states: dict[str, str] = {}
        self.wrong: list[str] = []
        self.away = False
        self.server = Server(self._answer)
        self.url = self.server.url

    def _answer(self, method: str, path: str, asked: Any) -> tuple[int, Any]:
        if self.away:
            return 403, {"message": "away", "error": {"code": 403, "message": "away", "status": "PERMISSION_DENIED"}}
        place = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(place.query).items()}
        try:
            return self.answer(method, place.path, query, asked)
        except Exception as error:
            self.wrong.append(f"{method} {path}: {error!r}")
            return 400, {"message": "wrong", "error": {"code": 400, "message": "wrong", "status": "INVALID_ARGUMENT"}}

    @abstractmethod
    def answer(self, method: str, path: str, query: dict[str, str], asked: Any) -> tuple[int, Any]:
        """Status and document; raises for a call that the service does not have."""

    @abstractmethod
    def check(self, document: Any) -> Any:
        """The document of a submission, as the service reads it; raises for a field, at any level, that it lacks."""

    @abstractmethod
    def started(self) -> list[Started]:
        """The applications that were submitted, in order."""

    def close(self) -> None:
        self.server.close()
        assert self.wrong == []


def without_prefix(prefix: str, settings: dict[str, str]) -> dict[str, str]:
    """The variables of a driver's environment among Spark settings."""
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


class Workspace(Service):
    """Databricks' jobs, version 2.2: it knows a run by its idempotency token, and takes what Databricks' SDK sends."""

    OVER = "TERMINATED"
    MAPS = ("spark_conf", "spark_env_vars")

    def answer(self, method: str, path: str, query: dict[str, str], asked: Any) -> tuple[int, Any]:
        called = re.fullmatch(r"/api/2\.\d/jobs/runs/(submit|get|cancel)", path)
        assert called is not None
        verb = called[1]
        assert method == {"submit": "POST", "get": "GET", "cancel": "POST"}[verb]
        if verb == "submit":
            self.check(asked)
            assert set(asked) == {"run_name", "idempotency_token", "tasks"}
            assert 0 < len(asked["idempotency_token"]) <= 64
            token = asked["idempotency_token"]
            self.submitted.setdefault(token, asked)
            self.states.setdefault(token, "RUNNING")
            return 200, {"run_id": list(self.submitted).index(token) + 1}
        token = list(self.submitted)[int((query or asked)["run_id"]) - 1]
        if verb == "cancel":
            self.states[token] = "TERMINATED"
            return 200, {}
        return 200, {"state": {"life_cycle_state": self.states[token], "state_message": ""}}

    def check(self, document: Any) -> Any:
        from databricks.sdk.service.jobs import JobsAPI

        check_fields(get_type_hints(JobsAPI.submit), document, "submission")
        return document

    def end(self, identity: str) -> None:
        self.states[list(self.submitted)[int(identity) - 1]] = "INTERNAL_ERROR"

    def started(self) -> list[Started]:
        tasks = [task for run in self.submitted.values() for task in run["tasks"]]
        return [
            Started(arguments=task["spark_python_task"]["parameters"], variables=task["new_cluster"]["spark_env_vars"])
            for task in tasks
        ]


def check_fields(fields: Mapping[str, Any], document: Any, path: str) -> None:
    """Check an object against the names and types of its fields, as Databricks' SDK has them."""
    assert isinstance(document, dict), f"{path} is {document!r}"
    assert set(document) <= set(fields), f"{path} has {sorted(set(document) - set(fields))}"
    for name, value in document.items():
        check_type(fields[name], value, f"{path}.{name}")


def check_type(kind: Any, value: Any, path: str) -> None:
    """Check a value against the type of a field: a class of the SDK or a plain one, optional, or in a list or a map."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    if get_origin(kind) is Union:
        check_type(parts[0], value, path)
    elif get_origin(kind) is list:
        assert isinstance(value, list), f"{path} is {value!r}"
        for member in value:
            check_type(parts[0], member, f"{path}[]")
    elif get_origin(kind) is dict:
        check_fields(dict.fromkeys(value, parts[1]), value, path)
    elif is_dataclass(kind):
        check_fields(get_type_hints(kind), value, path)
    elif issubclass(kind, Enum):
        kind(value)
    else:
        assert type(value) is kind, f"{path} is {value!r}"


class EmrServerlessService(Service):
    """EMR Serverless, whose requests are checked against the service model that botocore publishes."""

    APPLICATION = "00fapplication01"
    OVER = "SUCCESS"
    MAPS = ("properties",)

    def answer(self, method: str, path: str, query: dict[str, str], asked: Any) -> tuple[int, Any]:
        called = re.fullmatch(r"/applications/([0-9a-z]+)/jobruns(?:/([0-9a-z]+))?", path)
        assert called is not None
        names = {"applicationId": called[1]} | ({"jobRunId": called[2]} if called[2] else {})
        operation = {("POST", False): "StartJobRun", ("GET", True): "GetJobRun", ("DELETE", True): "CancelJobRun"}
        name = operation[method, called[2] is not None]
        check_shape(emr_shape(name), {**names, **(asked or {})}, name)
        if name == "StartJobRun":
            token = asked["clientToken"]
            assert self.submitted.setdefault(token, asked) == asked, "a token is for one request"
            self.states.setdefault(token, "RUNNING")
            run = f"00frun{list(self.submitted).index(token)}"
            return 200, {"applicationId": called[1], "jobRunId": run, "arn": "arn:aws:emr-serverless:run"}
        token = self.token(called[2])
        if name == "GetJobRun":
            run = {"applicationId": called[1], "jobRunId": called[2], "state": self.states[token]}
            return 200, {"jobRun": run}
        if self.states[token] != "RUNNING":
            return 400, {"message": "the job run has ended"}
        self.states[token] = "CANCELLED"
        return 200, names

    def check(self, document: Any) -> Any:
        check_shape(emr_shape("StartJobRun"), {"applicationId": self.APPLICATION, **document}, "StartJobRun")
        return document

    def token(self, run: str) -> str:
        return list(self.submitted)[int(run.removeprefix("00frun"))]

    def end(self, identity: str) -> None:
        self.states[self.token(identity.split("/")[1])] = self.OVER

    def started(self) -> list[Started]:
        prefix = "spark.emr-serverless.driverEnv."
        return [
            Started(
                arguments=run["jobDriver"]["sparkSubmit"]["entryPointArguments"],
                variables=without_prefix(
                    prefix, run["configurationOverrides"]["applicationConfiguration"][0]["properties"]
                ),
            )
            for run in self.submitted.values()
        ]


@cache
def emr_shape(operation: str) -> Any:
    """What an operation takes, in the published service model of EMR Serverless."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    model = ServiceModel(Loader().load_service_model("emr-serverless", "service-2"), "emr-serverless")
    return model.operation_model(operation).input_shape


def check_shape(shape: Any, value: Any, path: str) -> None:
    """Check a value against a shape of a service model, with the bounds and patterns that botocore leaves to AWS."""
    bounds = shape.metadata
    if shape.type_name == "structure":
        assert set(value) <= set(shape.members), f"{path} has {sorted(set(value) - set(shape.members))}"
        assert set(shape.required_members) <= set(value), f"{path} lacks a member"
        for name, member in value.items():
            check_shape(shape.members[name], member, f"{path}.{name}")
    elif shape.type_name == "list":
        for member in value:
            check_shape(shape.member, member, f"{path}[]")
    elif shape.type_name == "map":
        for name, member in value.items():
            check_shape(shape.key, name, f"{path}: key")
            check_shape(shape.value, member, f"{path}.{name}")
    size = len(value) if isinstance(value, (str, list, dict)) else value
    assert bounds.get("min", size) <= size <= bounds.get("max", size), f"{path} has the size {size}"
    if shape.type_name == "string":
        assert not shape.enum or value in shape.enum, f"{path} is {value}"
        assert re.fullmatch(bounds.get("pattern", r".*"), value, re.DOTALL), f"{path} is {value!r}"


class DataprocService(Service):
    """Dataproc's batch controller, whose batches are parsed as the messages that Google publishes: an unknown field is
    an error.
    """

    OVER = "SUCCEEDED"
    MAPS = ("properties",)

    def answer(self, method: str, path: str, query: dict[str, str], asked: Any) -> tuple[int, Any]:
        cancelled = re.fullmatch(r"/v1/projects/p-1/regions/europe-west1/operations/(.+):cancel", path)
        if cancelled:
            assert method == "POST"
            self.states[cancelled[1]] = "CANCELLED"
            return 200, {}
        parent = "/v1/projects/p-1/locations/europe-west1/batches"
        if path == parent:
            assert method == "POST"
            batch = self.check(asked)
            name = query["batchId"]
            assert re.fullmatch(r"[a-z0-9-]{4,63}", name)
            assert re.fullmatch(r"[\w-]{1,40}", query["requestId"])
            if name in self.submitted:
                error = {"code": 409, "message": "it exists", "status": "ALREADY_EXISTS"}
                return 409, {"error": error}
            self.submitted[name] = batch
            self.states[name] = "RUNNING"
            return 200, {"name": operation_of(name), "done": False}
        name = path.removeprefix(f"{parent}/")
        assert method == "GET"
        if name not in self.submitted:
            return 404, {"error": {"code": 404, "message": "no such batch", "status": "NOT_FOUND"}}
        found = {"name": path.removeprefix("/v1/"), "state": self.states[name], "operation": operation_of(name)}
        return 200, found

    def end(self, identity: str) -> None:
        self.states[identity.rpartition("/")[2]] = self.OVER

    def check(self, document: Any) -> dict[str, Any]:
        dataproc = pytest.importorskip("google.cloud.dataproc_v1")
        from google.protobuf import json_format

        message = json_format.ParseDict(document, dataproc.Batch.pb(dataproc.Batch()))
        return dict(json_format.MessageToDict(message))

    def started(self) -> list[Started]:
        prefix = "spark.dataproc.driverEnv."
        return [
            Started(
                arguments=batch["pysparkBatch"]["args"],
                variables=without_prefix(prefix, batch["runtimeConfig"]["properties"]),
            )
            for batch in self.submitted.values()
        ]


def operation_of(batch: str) -> str:
    return f"projects/p-1/regions/europe-west1/operations/{batch}"


TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
POD = {
    "type": "object",
    "properties": {
        "cores": {"type": "integer", "minimum": 1},
        "memory": {"type": "string"},
        "serviceAccount": {"type": "string"},
    },
    "additionalProperties": False,
}
SPARK_APPLICATION = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "sparkoperator.k8s.io/v1beta2"},
        "kind": {"const": "SparkApplication"},
        "metadata": {
            "type": "object",
            "properties": {"name": {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}},
            "additionalProperties": False,
        },
        "spec": {
            "type": "object",
            "required": ["type", "sparkVersion", "mainApplicationFile", "driver", "executor"],
            "properties": {
                "type": {"enum": ["Java", "Python", "Scala", "R"]},
                "pythonVersion": {"enum": ["2", "3"]},
                "mode": {"enum": ["cluster", "client"]},
                "sparkVersion": {"type": "string"},
                "image": {"type": "string"},
                "mainApplicationFile": {"type": "string"},
                "arguments": {"type": "array", "items": {"type": "string"}},
                "restartPolicy": {
                    "type": "object",
                    "properties": {"type": {"enum": ["Never", "Always", "OnFailure"]}},
                    "additionalProperties": False,
                },
                "driver": POD,
                "executor": {
                    **POD,
                    "properties": {**POD["properties"], "instances": {"type": "integer", "minimum": 1}},
                },
                "sparkConf": TEXTS,
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
"""What version v1beta2 of the Spark operator's resource takes, of the fields that are used here."""


class SparkOperatorService(Service):
    """Kubernetes' API server with the Spark operator's resource."""

    OVER = "COMPLETED"
    MAPS = ("sparkConf",)

    def answer(self, method: str, path: str, query: dict[str, str], asked: Any) -> tuple[int, Any]:
        place = r"/apis/sparkoperator\.k8s\.io/v1beta2/namespaces/analytics/sparkapplications(?:/([a-z0-9-]+))?"
        called = re.fullmatch(place, path)
        assert called is not None
        if called[1] is None:
            assert method == "POST"
            self.check(asked)
            name = asked["metadata"]["name"]
            if name in self.states:
                return 409, {"kind": "Status", "code": 409, "reason": "AlreadyExists"}
            self.submitted[name] = asked
            self.states[name] = "RUNNING"
            return 201, asked
        if called[1] not in self.states:
            return 404, {"kind": "Status", "code": 404, "reason": "NotFound"}
        if method == "DELETE":
            del self.states[called[1]]
            return 200, {"kind": "Status", "status": "Success"}
        assert method == "GET"
        state = {"applicationState": {"state": self.states[called[1]]}}
        return 200, {**self.submitted[called[1]], "status": state}

    def end(self, identity: str) -> None:
        self.states[identity.split("/")[1]] = "FAILED"

    def check(self, document: Any) -> Any:
        jsonschema.validate(document, SPARK_APPLICATION)
        return document

    def started(self) -> list[Started]:
        prefix = "spark.kubernetes.driverEnv."
        return [
            Started(
                arguments=resource["spec"]["arguments"],
                variables=without_prefix(prefix, resource["spec"]["sparkConf"]),
            )
            for resource in self.submitted.values()
        ]
