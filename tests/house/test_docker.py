"""docker/: the images' recipe, the compose file, and the secrets it asks for."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from spark_jobs.contract import Release, ReleaseRequest
from spark_jobs.contract.release import ReleaseFile
from tests.support.repository import ROOT

DOCKER = ROOT / "docker"
HADOLINT = Path(sys.executable).parent / "hadolint"
VARIABLE = re.compile(r"\$\{(\w+)(:[?-])?([^}]*)\}")
REQUEST = {
    "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}}, "label": "visited",
    "model": {"kind": "columns", "score": "score", "basis": "public"}, "diagnostics": ["roc_curve"],
    "budget": {"epsilon": "1"}, "output": "/releases",
}  # fmt: skip
LATEST_OR_NOTHING = re.compile(r"^[^:@]+$|:latest$")


@pytest.fixture(scope="module")
def text() -> str:
    return (DOCKER / "compose.yaml").read_text()


@pytest.fixture(scope="module")
def compose(text: str) -> dict[str, Any]:
    return dict(yaml.safe_load(text))


def lint(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(HADOLINT), "--failure-threshold", "style", str(path)], capture_output=True, text=True, check=False
    )


def test_dockerfile_passes_its_linter() -> None:
    done = lint(DOCKER / "Dockerfile")
    assert done.returncode == 0, done.stdout


def test_linter_refuses_an_unpinned_image(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:latest\nRUN cd /tmp && pip install numpy\n")
    assert lint(tmp_path / "Dockerfile").returncode != 0


def test_compose_file_fits_the_specification(text: str) -> None:
    from compose_spec import PyOptions

    parsed = PyOptions(apply_merge=True).from_yaml(text)
    parsed.validate()
    assert {"scheduler", "api-server", "dag-processor", "triggerer"} <= set(parsed.service_names())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("healthcheck:", "health_check:"),
        ("condition: service_healthy", "condition: service_well"),
        ("networks: [metadata]", "networks: [elsewhere]"),
    ],
)
def test_specification_refuses_a_broken_compose_file(text: str, old: str, new: str) -> None:
    from compose_spec import PyOptions

    assert old in text
    with pytest.raises(ValueError, match=r"\S"):
        PyOptions(apply_merge=True).from_yaml(text.replace(old, new)).validate()


def test_compose_file_fits_the_specifications_schema(compose: dict[str, Any]) -> None:
    from jsonschema.validators import validator_for

    schema = compose_schema()
    validator = validator_for(schema)(schema)
    assert not list(validator.iter_errors(compose))
    broken = {**compose, "services": {**compose["services"], "more": {"imgae": "postgres:17.6"}}}
    assert list(validator.iter_errors(broken))


def compose_schema() -> dict[str, Any]:
    package = pytest.importorskip("check_jsonschema", reason="ships the compose specification's schema")
    path = Path(package.__file__).parent / "builtin_schemas" / "vendor" / "compose-spec.json"
    return dict(json.loads(path.read_text()))


def test_every_image_has_a_fixed_tag(compose: dict[str, Any]) -> None:
    images = {service["image"] for service in compose["services"].values()}
    bases = re.findall(r"^FROM (\S+)", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    stages = re.findall(r"^FROM \S+ AS (\S+)", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    pulled = images | (set(bases) - set(stages))
    assert len(pulled) >= 5
    assert not [image for image in pulled if LATEST_OR_NOTHING.search(image)]


def test_images_carry_the_projects_version(compose: dict[str, Any]) -> None:
    from dp_operators import __version__

    own = {service["image"] for service in compose["services"].values() if service["image"].startswith("dp-")}
    assert {image.partition(":")[2] for image in own} == {__version__}


def test_no_process_runs_as_root(compose: dict[str, Any]) -> None:
    stages = (DOCKER / "Dockerfile").read_text().split("\nFROM ")
    targets = {service["build"]["target"] for service in compose["services"].values() if "build" in service}
    assert targets == {"airflow", "spark"}
    for target in targets:
        stage = next(stage for stage in stages if stage.splitlines()[0].endswith(f" AS {target}"))
        assert re.findall(r"^USER (\S+)", stage, re.MULTILINE)[-1:] == ["50000:0"], target
    for name, service in compose["services"].items():
        assert "build" in service or service["user"] in ("postgres", "50000:0"), name
        assert not service.get("privileged"), name
        assert service["cap_drop"] == ["ALL"], name


def test_nothing_is_published_beyond_loopback(compose: dict[str, Any]) -> None:
    ports = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert set(ports) == {"api-server", "reports"}
    assert all(str(port).startswith("127.0.0.1:") for each in ports.values() for port in each)


def test_sparks_pages_stay_inside_the_boundary(compose: dict[str, Any]) -> None:
    inside = {name for name, service in compose["services"].items() if "boundary" in service["networks"]}
    assert inside == {"spark-master", "spark-worker", "scheduler"}
    assert compose["networks"]["boundary"] == {"internal": True}
    for name in ("spark-master", "spark-worker"):
        assert compose["services"][name]["networks"] == ["boundary"]


def test_ledger_and_metadata_are_two_servers_apart(compose: dict[str, Any]) -> None:
    services = compose["services"]
    volumes = [services[name]["volumes"][0].partition(":")[0] for name in ("ledger", "metadata")]
    assert volumes == ["ledger", "metadata"]
    assert not set(services["ledger"]["networks"]) & set(services["metadata"]["networks"])


def test_every_service_tells_its_health(compose: dict[str, Any]) -> None:
    without = {name for name, service in compose["services"].items() if "healthcheck" not in service}
    assert without == {"migrate", "setup"}  # they end


def test_services_wait_for_what_can_come(compose: dict[str, Any]) -> None:
    """Each condition can be met, and no two services wait for each other."""
    services = compose["services"]
    waits = {name: service.get("depends_on", {}) for name, service in services.items()}
    for name, others in waits.items():
        for other, wanted in others.items():
            ends = services[other].get("restart") == "no"
            assert wanted["condition"] == ("service_completed_successfully" if ends else "service_healthy"), (
                name,
                other,
            )
            assert ends or "healthcheck" in services[other], (name, other)
    order = list(TopologicalSorter({name: set(others) for name, others in waits.items()}).static_order())
    assert set(order) == set(services)
    for name, service in services.items():  # whoever logs in to a database comes after it
        variables = json.dumps(service.get("environment", {})).replace("\\", "")
        for database in ("metadata", "ledger"):
            if re.search(rf'@{database}[:/]|"host": "{database}"', variables):
                assert database in _upstream(waits, name), (name, database)


def _upstream(waits: dict[str, Any], name: str) -> set[str]:
    return {name}.union(*(_upstream(waits, other) for other in waits[name]))


class _Answers(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("name", ["api-server", "reports", "spark-master", "spark-worker"])
def test_health_check_tells_a_page_that_answers_from_one_that_does_not(compose: dict[str, Any], name: str) -> None:
    """The command of the compose file itself, with another port."""
    kind, program, *words = compose["services"][name]["healthcheck"]["test"]
    assert (kind, program, words[0]) == ("CMD", "python", "-c")
    place = re.search(r"127\.0\.0\.1:\d+", words[1])
    assert place

    def check(port: int) -> int:
        code = words[1].replace(place[0], f"127.0.0.1:{port}")
        return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode

    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        assert check(server.server_port) == 0
        server.RequestHandlerClass = type("Fails", (_Answers,), {"status": 503})
        assert check(server.server_port) != 0
        server.shutdown()
    assert check(server.server_port) != 0


def test_every_secret_is_required_and_has_no_default(text: str) -> None:
    variables = VARIABLE.findall(text)
    optional = {name for name, kind, _ in variables if kind != ":?"}
    assert optional == {"SPARK_WORKER_CORES", "SPARK_WORKER_MEMORY"}
    given = re.findall(r"(?i)\w*(?:password|secret|key|salt)\"?(?::| ) *\"?(\S+)", VARIABLE.sub("<asked for>", text))
    assert given.count("<asked") >= 8
    assert set(given) <= {"<asked", "airflow:<asked"}, "a secret is written out"


def connection(compose: dict[str, Any], service: str, conn_id: str) -> Any:
    """A connection as a service's tasks see it, with every secret filled in."""
    from airflow.sdk import Connection

    text = compose["services"][service]["environment"][f"AIRFLOW_CONN_{conn_id.upper()}"]
    return Connection.from_json(VARIABLE.sub("filled-in", text), conn_id=conn_id)


@pytest.mark.airflow
def test_tasks_find_the_ledger_and_the_cluster(compose: dict[str, Any]) -> None:
    from dp_operators.hooks.ledger import PrivacyLedgerHook, ledger_url
    from dp_operators.tasks.runners import spark_backend

    url = ledger_url(connection(compose, "scheduler", PrivacyLedgerHook.default_conn_name))
    assert url == "postgresql+psycopg://ledger:filled-in@ledger:5432/ledger"
    runner = spark_backend(connection(compose, "scheduler", "spark_default"), conf={}, private_dir=None)
    assert runner.master == "spark://spark-master:7077"
    assert runner.conf["spark.driver.host"] == compose["services"]["scheduler"]["hostname"]


def test_ledger_is_reached_by_those_alone_who_need_it(compose: dict[str, Any]) -> None:
    inside = {name for name, service in compose["services"].items() if "ledger" in service["networks"]}
    assert inside == {"ledger", "setup", "scheduler", "triggerer", "api-server"}


@pytest.mark.airflow
@pytest.mark.parametrize("service", ["api-server", "triggerer"])
def test_others_read_the_ledger_by_the_role_that_setup_lets_view_it(compose: dict[str, Any], service: str) -> None:
    from dp_operators.hooks.ledger import PrivacyLedgerHook, ledger_url

    url = ledger_url(connection(compose, service, PrivacyLedgerHook.default_conn_name))
    assert url == "postgresql+psycopg://ledger_view:filled-in@ledger:5432/ledger"
    assert "ledger_view:view" in compose["services"]["setup"]["command"]


def test_two_workers_count(compose: dict[str, Any]) -> None:
    assert compose["services"]["spark-worker"]["deploy"]["replicas"] == 2


def test_store_is_reached_by_those_alone_who_write_or_serve_releases(compose: dict[str, Any]) -> None:
    inside = {name for name, service in compose["services"].items() if "store" in service["networks"]}
    assert inside == {"store", "setup", "scheduler", "reports"}


def make_env(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", str(DOCKER / "make-env"), str(path)], capture_output=True, text=True, check=False)


def test_make_env_gives_every_secret_the_compose_file_asks_for(text: str, tmp_path: Path) -> None:
    from cryptography.fernet import Fernet

    assert make_env(tmp_path / "env").returncode == 0
    lines = (tmp_path / "env").read_text().splitlines()
    made = dict(line.partition("=")[::2] for line in lines)
    asked = {name for name, kind, _ in VARIABLE.findall(text) if kind == ":?"}
    assert set(made) == asked
    assert all(re.fullmatch(r"[\w-]{43,}=*", value) for value in made.values())
    assert len(set(made.values())) == len(made)
    Fernet(made["AIRFLOW_FERNET_KEY"])
    assert (tmp_path / "env").stat().st_mode & 0o077 == 0


def test_make_env_keeps_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("DP_DIAGNOSTICS_SALT=kept\n")
    assert make_env(tmp_path / "env").returncode != 0
    assert (tmp_path / "env").read_text() == "DP_DIAGNOSTICS_SALT=kept\n"


def test_shell_scripts_parse() -> None:
    bash = shutil.which("bash") or "/bin/bash"
    for script in (DOCKER / "make-env", DOCKER / "build-images", DOCKER / "spark" / "start", ROOT / ".ci" / "run"):
        assert subprocess.run([bash, "-n", str(script)], check=False).returncode == 0, script
        assert script.stat().st_mode & 0o100, script


def test_compose_starts_what_the_cluster_tests_start(compose: dict[str, Any]) -> None:
    dockerfile = (DOCKER / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["/opt/spark/start"]' in dockerfile
    assert "COPY --chmod=755 docker/spark/start /opt/spark/start" in dockerfile
    assert "COPY --chmod=755 docker/airflow/setup docker/airflow/serve-reports /opt/airflow/" in dockerfile
    for script in ("setup", "serve-reports"):
        assert (DOCKER / "airflow" / script).stat().st_mode & 0o100, script
    assert compose["services"]["spark-master"]["command"] == ["master"]
    assert compose["services"]["spark-worker"]["command"] == ["worker"]


def test_reports_are_served_as_their_manifest_lists_them(tmp_path: Path) -> None:
    """Whoever writes to a folder of releases may put links there, to files that the server alone can read."""
    secret, request = tmp_path / "secret", ReleaseRequest.parse(REQUEST)
    secret.write_text("K0")
    listed = ReleaseFile.of("report.html", b"<p>", "text/html")
    release = Release(
        key="k", charge_id="c", status="CHARGED", guarantee="NOT PRIVATE", request_sha256=request.sha256,
        request=request.to_dict(), cost=request.budget, neighbours=request.neighbours, unit=request.unit,
        statement="s", rules=("r",), assumptions=(), drawn_at="2026-01-01T00:00:00Z",
        results={"roc_curve": {"auc": 0.5}}, files=(listed,), versions={"dp-diagnostics": "1"},
    )  # fmt: skip
    for name in ("good", "linked", "forged"):
        (tmp_path / "releases" / name).mkdir(parents=True)
        (tmp_path / "releases" / name / "release.json").write_text(release.to_json())
    (tmp_path / "releases" / "good" / "report.html").write_bytes(b"<p>")
    (tmp_path / "releases" / "linked" / "report.html").symlink_to(secret)
    (tmp_path / "releases" / "forged" / "release.json").unlink()
    (tmp_path / "releases" / "forged" / "release.json").symlink_to(secret)
    reports = runpy.run_path(str(DOCKER / "airflow" / "serve-reports"))["Reports"](str(tmp_path / "releases"))
    assert reports.file("good", "report.html") == b"<p>"
    assert reports.file("good", "release.json") == release.to_json().encode()
    for release_name, name in (("linked", "report.html"), ("forged", "release.json"), ("good", "none.html")):
        assert reports.file(release_name, name) is None


def test_images_run_the_locked_tool_versions() -> None:
    pinned = re.findall(r"\buv==(\S+)", (DOCKER / "Dockerfile").read_text())
    makefile = re.search(r"^UV_VERSION := (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert makefile
    assert pinned == [makefile.group(1)]


START = DOCKER / "spark" / "start"
POD = {
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_HOME": "/opt/pyspark",
    "SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:9",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "256m",
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
    "SPARK_EXECUTOR_POD_NAME": "pod-1",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    **{f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number} of twelve" for number in range(12)},
}
"""What Spark puts into the environment of a pod."""


def start(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **POD, **variables}
    return subprocess.run(
        ["bash", str(START), *words], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    "words", [("driver", "--class", "a b", "local:///x"), ("executor",)], ids=["driver", "executor"]
)
def test_pod_of_kubernetes_starts_what_spark_asks_for(words: tuple[str, ...], tmp_path: Path) -> None:
    for name in ("java", "spark-submit"):
        (tmp_path / name).write_text('#!/usr/bin/env bash\necho "$0"\nprintf "%s\\n" "$@"\n')
        (tmp_path / name).chmod(0o755)
    done = start(*words, PATH=f"{tmp_path}:{os.environ['PATH']}")
    program, *arguments = done.stdout.splitlines()
    if words[0] == "driver":
        assert program == f"{tmp_path}/spark-submit"
        assert arguments == ["--conf", "spark.driver.bindAddress=127.0.0.1", "--deploy-mode", "client", *words[1:]]
        return
    assert program == f"{tmp_path}/java"
    assert arguments[:12] == [POD[f"SPARK_JAVA_OPT_{number}"] for number in range(12)]
    assert arguments[12:16] == ["-Xms256m", "-Xmx256m", "-cp", "/opt/spark/conf::/opt/pyspark/jars/*"]
    named = dict(zip(arguments[17::2], arguments[18::2], strict=True))
    assert named == {
        "--driver-url": POD["SPARK_DRIVER_URL"], "--executor-id": "1", "--cores": "1", "--app-id": "spark-1",
        "--hostname": "127.0.0.1", "--resourceProfileId": "0", "--podName": "pod-1",
    }  # fmt: skip


def test_pod_without_a_variable_of_sparks_says_which() -> None:
    done = start("executor", SPARK_DRIVER_URL="")
    assert done.returncode != 0
    assert "SPARK_DRIVER_URL" in done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_real_spark_starts_in_the_pods(tmp_path: Path) -> None:
    """The driver runs the application's script; the executor looks for its driver, which is not there."""
    import pyspark

    from spark_jobs.application.java import java_home

    bin_folder = Path(sys.executable).parent
    paths = {
        "JAVA_HOME": str(java_home()),
        "PATH": f"{bin_folder}:{java_home()}/bin:{os.environ['PATH']}",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    (tmp_path / "spark.properties").write_text("spark.master=local[1]\nspark.driver.memory=300m\n")
    launch = ROOT / "spark_jobs" / "submit" / "launch.py"
    arguments = ["--properties-file", f"{tmp_path}/spark.properties", "--class", "org.apache.spark.deploy.PythonRunner"]
    driver = start("driver", *arguments, f"local://{launch}", "--help", SPARK_CONF_DIR=str(tmp_path), **paths)
    assert "usage: python -m spark_jobs" in driver.stdout, driver.stderr[-2000:]
    plain = {f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number}" for number in range(12)}
    opened = {"SPARK_JAVA_OPT_0": "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"}
    executor = start("executor", SPARK_CONF_DIR=str(tmp_path), **plain | opened, **paths)
    assert "KubernetesExecutorBackend" in executor.stderr
    assert "127.0.0.1:9" in executor.stderr
