"""Runners: what the application prints stays private, only its stages come out, and it ends when it is told to."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import spark_jobs
from dp_operators.releasing import LocalRunner, RunState, SparkSubmitRunner, Submission
from dp_operators.releasing.following import StageReader, follow
from dp_operators.releasing.processes import PrivateFolder
from dp_operators.releasing.spark_submit import LAUNCH, properties
from dp_operators.task_settings import TASK_SETTINGS
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.layout import STAGE_NONCE_VARIABLE, ApplicationStage, stage_line
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE
from tests.support import fake_application
from tests.support.release_lab import make_request
from tests.support.repository import ROOT

FAKE = (sys.executable, fake_application.__file__)
SECRET = bytes(range(32))
SUBMISSION = Submission(
    request_uri="/out/request.json", request_sha256="0f" * 32, charge_id="c1", key="-a key/with spaces", output="/out",
    run=3, secret=SECRET,
)  # fmt: skip

REPORT = """
import json, os, sys
with open(os.environ["PROBE"], "w") as file:
    json.dump({"argv": sys.argv, "environ": dict(os.environ)}, file)
"""

SUBMIT_REPORT = """
import json, os, sys
[settings] = [word.partition("=")[2] for word in sys.argv if word.startswith("--properties-file=")]
report = {"argv": sys.argv, "environ": dict(os.environ), "mode": os.stat(settings).st_mode}
with open(os.environ["PROBE"], "w") as file:
    json.dump({**report, "settings": open(settings).read()}, file)
"""

FAMILY = """
import os, signal, subprocess, sys, time
if STUBBORN:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) < 3:
    child = subprocess.Popen([sys.executable, __file__, "child", "of"])
    open(os.environ["PROBE"], "w").write(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""


@pytest.fixture
def private(tmp_path):
    return tmp_path / "private"


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def run(backend, progress=lambda line: None, **options):
    """Submit, and wait for the end."""
    follow(backend, backend.submit(SUBMISSION), nonce=SUBMISSION.nonce, progress=progress, **options)


def probe(tmp_path, runner_of) -> dict:
    """What the application of a runner is started with."""
    report = tmp_path / "report.json"
    runner = runner_of(script(tmp_path / "probe.py", REPORT), {"PROBE": str(report)})
    run(runner)
    return json.loads(report.read_text())


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_local_runner_tells_stages_and_nothing_else(lab, private):
    lines = []
    published = lab.release(runner=LocalRunner(command=FAKE, private_dir=private), progress=lines.append)
    assert published.adopted is False
    stages = [line for line in lines if line in set(ApplicationStage)]
    assert stages == ["starting", "reading", "counting", "drawing", "writing", "done"]
    assert fake_application.SECRET_ROW not in "".join(lines)
    [output] = private.iterdir()
    assert fake_application.SECRET_ROW in output.read_text()
    assert sum(str(output) in line for line in lines) == 1


@pytest.mark.slow
def test_local_runner_keeps_what_a_failing_application_prints(lab, private, monkeypatch):
    from dp_operators.releasing import ReleaseFailed

    monkeypatch.setenv("DP_FAKE", "fail")
    lines = []
    with pytest.raises(ReleaseFailed) as failed:
        lab.release(runner=LocalRunner(command=FAKE, private_dir=private), progress=lines.append)
    assert fake_application.SECRET_ROW not in "".join([*lines, str(failed.value)])
    assert lab.states() == ["reserved"]


@pytest.mark.slow
def test_private_files_are_readable_by_their_owner_alone(lab, private):
    lab.release(runner=LocalRunner(command=FAKE, private_dir=private))
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in private.iterdir()} == {0o600}


def test_local_runner_starts_the_application_with_its_arguments(tmp_path, private):
    started = probe(
        tmp_path,
        lambda program, environment: LocalRunner(
            command=[str(program)], environment=environment, private_dir=private, master="local[2]"
        ),
    )
    assert started["argv"][1:] == [
        "/out/request.json",
        f"--request-sha256={'0f' * 32}",
        "--charge=c1",
        "--key=-a key/with spaces",
        "--output=/out",
        "--run=3",
        "--master=local[2]",
    ]
    assert started["environ"]["PYSPARK_PYTHON"] == sys.executable


def test_local_runner_runs_the_installed_application_by_default():
    assert LocalRunner().command == (sys.executable, "-P", "-m", "spark_jobs")
    assert LocalRunner().master == "auto"


def test_secrets_travel_in_the_environment_and_are_shown_nowhere(tmp_path, private):
    def runner(program, environment):
        made = LocalRunner(
            command=[str(program)],
            environment={**environment, "DP_DIAGNOSTICS_SALT": "pepper"},
            private_dir=private,
        )
        assert "pepper" not in repr(made)
        return made

    started = probe(tmp_path, runner)
    assert started["environ"]["DP_DIAGNOSTICS_SALT"] == "pepper"
    assert "pepper" not in "".join(started["argv"])


def test_secret_of_a_run_travels_in_the_environment_and_nothing_configured_takes_its_place(tmp_path, private):
    started = probe(
        tmp_path,
        lambda program, environment: LocalRunner(
            command=[str(program)], environment={**environment, RUN_SECRET_VARIABLE: "another"}, private_dir=private
        ),
    )
    assert started["environ"][RUN_SECRET_VARIABLE] == SECRET.hex()
    assert SECRET.hex() not in "".join(started["argv"])
    assert SECRET.hex() not in repr(SUBMISSION)
    assert repr(SECRET) not in repr(SUBMISSION)


def test_application_is_told_the_draw_that_the_ledger_knows():
    assert "--draw=aa" in replace(SUBMISSION, draw_sha256="aa").arguments()
    assert not any(argument.startswith("--draw") for argument in SUBMISSION.arguments())


def test_variables_of_airflow_and_the_ledger_stay_with_them(tmp_path, private, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", "postgresql://user:secret@host/db")
    monkeypatch.setenv("DP_LEDGER_URL", "postgresql://user:secret@host/ledger")
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://user:secret@host/airflow")
    started = probe(
        tmp_path,
        lambda program, environment: LocalRunner(command=[str(program)], environment=environment, private_dir=private),
    )
    assert "secret" not in "".join(started["environ"].values())


def test_each_run_has_a_nonce_of_its_own_that_only_the_application_is_told(tmp_path, private):
    started = probe(
        tmp_path,
        lambda program, environment: LocalRunner(command=[str(program)], environment=environment, private_dir=private),
    )
    assert started["environ"][STAGE_NONCE_VARIABLE] == SUBMISSION.nonce
    assert SUBMISSION.nonce not in "".join(started["argv"])
    others = (replace(SUBMISSION, run=4), replace(SUBMISSION, secret=bytes(32)))
    assert len({SUBMISSION.nonce, *(other.nonce for other in others)}) == 3
    assert len(SUBMISSION.nonce) == 32


def test_token_of_a_run_is_the_same_whenever_it_is_submitted_and_suits_every_backend():
    assert SUBMISSION.token == replace(SUBMISSION, draw_sha256="aa").token
    others = [replace(SUBMISSION, **{name: value}) for name, value in (("run", 4), ("charge_id", "c2"))]
    assert len({SUBMISSION.token, *(other.token for other in others)}) == 3
    assert len(SUBMISSION.token) <= 63
    assert SUBMISSION.token.replace("-", "").isalnum()
    assert SUBMISSION.token == SUBMISSION.token.lower()


def test_heartbeats_come_at_fixed_intervals_and_name_the_stage(tmp_path, private):
    nap = script(
        tmp_path / "nap.py",
        "import os, time\n"
        f"print('{stage_line(ApplicationStage.COUNTING, 'x')}'"
        f".replace(' x ', ' ' + os.environ['{STAGE_NONCE_VARIABLE}'] + ' '),"
        " flush=True)\ntime.sleep(1.3)\n",
    )
    lines = []
    run(LocalRunner(command=[str(nap)], private_dir=private), lines.append, interval=0.5)
    assert lines[-3:] == ["counting", "counting ... 0 s", "counting ... 1 s"]


@pytest.mark.parametrize("stubborn", [False, True])
def test_kill_ends_the_application_and_its_children(tmp_path, private, stubborn):
    report = tmp_path / "pids"
    program = script(tmp_path / "family.py", FAMILY.replace("STUBBORN", str(stubborn)))
    runner = LocalRunner(
        command=[str(program)], environment={"PROBE": str(report)}, private_dir=private, grace=0.5 if stubborn else 10
    )
    handle = runner._start([str(program)], {})  # the arguments of a submission would make it take itself for the child
    wait_until(lambda: report.exists() and len(report.read_text().split()) == 2)
    pids = [int(pid) for pid in report.read_text().split()]
    time.sleep(0.3)
    assert all(alive(pid) for pid in pids)
    assert runner.look(handle) is RunState.RUNNING
    runner.kill(handle)
    assert not any(alive(pid) for pid in pids)
    assert runner.look(handle) is RunState.ENDED


def test_another_worker_of_the_machine_sees_and_ends_the_process_and_no_other_machine_does(private):
    first, second = (LocalRunner(command=["/bin/sleep", "600"], private_dir=private) for _ in range(2))
    handle = first._start(["/bin/sleep", "600"], {})
    assert second.look(handle) is RunState.RUNNING
    assert second.look(replace(handle, place="another machine")) is RunState.UNKNOWN
    second.kill(replace(handle, place="another machine"))
    pid, started = handle.id.split()
    reused = replace(handle, id=f"{pid} {float(started) - 60}")
    assert second.look(reused) is RunState.ENDED
    second.kill(reused)
    assert second.look(handle) is RunState.RUNNING
    second.kill(handle)
    assert (first.look(handle), second.look(handle)) == (RunState.ENDED, RunState.ENDED)


def test_wait_that_is_told_to_stop_ends_the_application(private):
    backend = LocalRunner(private_dir=private)
    handle = backend._start(["/bin/sleep", "600"], {})
    follow(backend, handle, nonce="n", progress=[].append, stopped=lambda: True)
    assert backend.look(handle) is RunState.ENDED


def test_time_limit_that_interrupts_the_wait_leaves_no_process_behind(tmp_path, private):
    report = tmp_path / "pids"
    program = script(tmp_path / "family.py", FAMILY.replace("STUBBORN", "False"))
    runner = LocalRunner(command=[str(program)], environment={"PROBE": str(report)}, private_dir=private)

    class TimeLimit(BaseException):
        pass

    def interrupt(*_):
        raise TimeLimit

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(TimeLimit):
            follow(runner, runner._start([str(program)], {}), nonce="n", progress=[].append)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not any(alive(int(pid)) for pid in report.read_text().split())


def test_missing_program_fails_as_an_oserror(private):
    with pytest.raises(OSError, match="No such file"):
        LocalRunner(command=["/no/such/program"], private_dir=private).submit(SUBMISSION)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_private_folder_that_others_may_enter_is_refused(private, mode):
    private.mkdir()
    private.chmod(mode)
    with pytest.raises(InvalidRequest, match="private_dir"):
        LocalRunner(private_dir=private).check(make_request(str(private)))


def test_private_folder_that_is_a_link_or_a_file_is_refused(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch(mode=0o600)
    for path in (tmp_path / "link", tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidRequest, match="private_dir"):
            PrivateFolder(path=path).open()


def test_private_folder_is_the_platforms_own_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert PrivateFolder().open() == tmp_path / "dp-diagnostics" / "private"


def test_old_private_files_are_removed_and_others_left(private):
    private.mkdir(mode=0o700)
    week_ago = time.time() - 8 * 86400
    for name in ("application-old.log", "application-new.log", "somebody-elses"):
        (private / name).touch()
        if name != "application-new.log":
            os.utime(private / name, (week_ago, week_ago))
    PrivateFolder(path=private).open()
    assert {path.name for path in private.iterdir()} == {"application-new.log", "somebody-elses"}


def test_stage_reader_finds_stages_in_pieces_and_among_garbage(tmp_path):
    path = tmp_path / "output"
    path.touch()
    reader = StageReader(path, "n")
    with path.open("ab", buffering=0) as output:
        line = stage_line(ApplicationStage.READING, "n").encode()
        output.write(b"\xff\xfe garbage" + b"x" * 5000 + line + b"\n" + line[:10])
        assert reader.new_stages() == []
        output.write(line[10:] + b"\n" + stage_line(ApplicationStage.COUNTING, "m").encode() + b"\n")
        assert reader.new_stages() == [ApplicationStage.READING]
        output.write(b"y" * 3_000_000)
        output.write(b"\n" + stage_line(ApplicationStage.DONE, "n").encode() + b"\n")
        assert reader.new_stages() == [ApplicationStage.DONE]
    reader.close()


# --- spark-submit


def submit(tmp_path, private, **changes) -> dict:
    """What a stand-in for spark-submit is started with, and the settings file it finds."""
    report = tmp_path / "report.json"
    program = script(tmp_path / "spark-submit", SUBMIT_REPORT)
    runner = SparkSubmitRunner(
        **{"master": "spark://host:7077", "binary": str(program), "environment": {"PROBE": str(report)}}
        | {"private_dir": private}
        | changes
    )
    runner.check(make_request(str(private)))
    run(runner)
    return json.loads(report.read_text())


def test_spark_submit_is_given_the_launcher_and_the_applications_arguments(tmp_path, private):
    started = submit(tmp_path, private)
    arguments = [a for a in started["argv"][1:] if not a.startswith("--properties-file=")]
    assert arguments == [
        "--master=spark://host:7077",
        "--deploy-mode=client",
        "--name=dp-diagnostics-c1",
        "--load-spark-defaults",
        str(LAUNCH),
        *SUBMISSION.arguments(),
    ]
    assert started["environ"]["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_spark_submit_gets_its_settings_in_a_private_file_that_is_removed(tmp_path, private):
    started = submit(tmp_path, private, conf={"spark.hadoop.fs.s3a.secret.key": "pepper", "spark.x": "a b"})
    assert "pepper" not in "".join(started["argv"])
    assert started["settings"] == "spark.hadoop.fs.s3a.secret.key=pepper\nspark.x=a b\n"
    assert stat.S_IMODE(started["mode"]) == 0o600
    assert not list(private.glob("*.conf"))


def test_secret_of_a_run_reaches_a_driver_of_this_machine_through_its_environment(tmp_path, private):
    started = submit(tmp_path, private)
    assert started["environ"][RUN_SECRET_VARIABLE] == SECRET.hex()
    assert SECRET.hex() not in started["settings"]
    assert SECRET.hex() not in "".join(started["argv"])


def test_spark_submit_keeps_the_executors_python_that_is_set(tmp_path, private, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert submit(tmp_path, private)["environ"]["PYSPARK_PYTHON"] == "/opt/python"
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert submit(tmp_path, private)["environ"]["PYSPARK_PYTHON"] == sys.executable


def test_spark_submit_refuses_what_is_wrong_before_anything_is_reserved(private):
    request = make_request(str(private))
    with pytest.raises(InvalidRequest, match="binary"):
        SparkSubmitRunner(master="yarn", binary="/no/such/spark-submit", private_dir=private).check(request)
    with pytest.raises(InvalidRequest, match=r"conf: got 'executor\.memory'"):
        SparkSubmitRunner(master="yarn", binary="true", conf={"executor.memory": "1g"}, private_dir=private).check(
            request
        )


def test_properties_escape_what_java_would_read_otherwise():
    written = properties({"spark.a b": " x=y:z", "spark.path": "C:\\dir\nnext"})
    assert written == "spark.a\\ b=\\ x=y:z\nspark.path=C:\\\\dir\\nnext\n"


def test_launcher_lies_in_a_folder_without_modules_that_hide_the_standard_librarys():
    assert Path(spark_jobs.__file__).parent / "submit" / "launch.py" == LAUNCH
    beside = {path.stem for path in LAUNCH.parent.iterdir() if path.suffix == ".py"}
    assert beside == {"__init__", "launch"}
    assert beside.isdisjoint(sys.stdlib_module_names)


@pytest.mark.parametrize(
    "name",
    [
        "driver.memory",
        "spark.executorEnv.A",
        "spark.hadoop.fs.s3a.endpoint",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.javax.jdo.option.ConnectionURL",
        "spark.jars",
        "spark.kubernetes.container.image",
        "spark.metrics.conf.*.sink.csv.directory",
        "spark.sql.catalog.lake.credential",
        "spark.sql.catalogImplementation",
        "spark.Driver.Memory",
        "spark.driver.memory ",
        "spark.driver.extraJavaOptions",
    ],
)
def test_what_is_read_and_where_it_goes_is_no_setting_of_a_task(name, tmp_path):
    with pytest.raises(InvalidRequest) as refused:
        LocalRunner(conf={name: "x"}, command=FAKE, private_dir=tmp_path / "private").check(make_request(str(tmp_path)))
    assert str(refused.value) == (
        f"conf: got '{name}'; must be a setting of memory, cores, executors or partitions, such as "
        "spark.driver.memory; let an administrator put others into the connection's conf or into spark-defaults.conf"
    )


@pytest.mark.parametrize("name", sorted(TASK_SETTINGS))
def test_how_large_a_release_is_is_a_setting_of_a_task(name, tmp_path):
    runner = LocalRunner(conf={name: "1"}, command=FAKE, private_dir=tmp_path / "private")
    runner.check(make_request(str(tmp_path)))
    assert not re.search(
        "class|conf|credential|dir|endpoint|env|image|jar|key|options|path|plugin|sink|url", name, re.I
    )


def test_the_page_on_clusters_names_the_settings_of_a_task():
    page = (ROOT / "docs" / "how-to" / "spark-cluster.md").read_text()
    section = page.partition("## Settings of a task\n")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`(spark\.[^`]+)`", section)) == sorted(TASK_SETTINGS)


@pytest.mark.parametrize("master", ["spark://attacker.example:7077", "yarn", "local[2]:x", "local-cluster[1,1,1024]"])
def test_a_local_runner_has_its_master_on_this_machine(master, tmp_path):
    with pytest.raises(
        InvalidRequest, match=r"^master: got .*; must be on this machine, like local\[4\]; for a master"
    ):
        LocalRunner(master=master, command=FAKE, private_dir=tmp_path / "private").check(make_request(str(tmp_path)))


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,3]", "local[*, 3]"])
def test_a_local_master_is_taken(master, tmp_path):
    LocalRunner(master=master, command=FAKE, private_dir=tmp_path / "private").check(make_request(str(tmp_path)))


MEMORY = """
import json, os
from spark_jobs.application.session import open_session
spark = open_session("local[1]")
java = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
seen = {name: spark.conf.get(name) for name in ("spark.ui.enabled", "spark.sql.shuffle.partitions", "spark.x")}
with open(os.environ["PROBE"], "w") as file:
    json.dump({"bytes": java.maxMemory(), **seen}, file)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_local_driver_has_the_memory_that_it_is_given(tmp_path):
    runner = LocalRunner(
        conf={
            "spark.driver.memory": "640m",
            "spark.ui.enabled": "true",
            "spark.sql.shuffle.partitions": 3,
            "spark.x": "a b",
        },
        command=(sys.executable, "-c", MEMORY),
        environment={"PROBE": str(tmp_path / "seen")},
        private_dir=tmp_path / "private",
    )
    handle = runner.submit(SUBMISSION)
    deadline = time.monotonic() + 300
    while runner.look(handle) is RunState.RUNNING and time.monotonic() < deadline:
        time.sleep(0.1)
    seen = json.loads((tmp_path / "seen").read_text())
    assert 600 < seen["bytes"] / 2**20 <= 640
    # the boundary's own settings stay
    assert seen["spark.ui.enabled"] == "false"
    assert (seen["spark.sql.shuffle.partitions"], seen["spark.x"]) == ("3", "a b")
