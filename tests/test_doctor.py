"""``dp-budget doctor``: each fault of a machine has its line, a sound one has none, and nothing changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dp_operators import cli
from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.doctor import Check, Finding, Machine, examine
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.places import Place
from spark_jobs.embedded import installed
from tests.support.ledgers import new_ledger
from tests.support.s3_server import s3_server

VERSION = {"by": "path_version"}
SALT = {"DP_DIAGNOSTICS_SALT": "0123456789abcdef"}


@pytest.fixture
def ledger(tmp_path: Path) -> PrivacyLedger:
    ledger = new_ledger(tmp_path / "ledger.db")
    open_bound(ledger, "customers", "/lake/churn", unit={"column": "customer", "max_rows": 1})
    return ledger


def open_bound(ledger: PrivacyLedger, name: str, table: str, **settings: Any) -> None:
    """An account that lacks nothing."""
    columns = {"customer": "string", "churned": "string", "propensity": "double"}
    binding = TableBinding.parse(
        {"table": Place.parse(table).identity, "format": "parquet", "columns": columns, "version": VERSION}
    )
    ledger.open_account(name, epsilon=1, tables=[binding], outputs=[f"s3://releases/{name}"], **settings)


@pytest.fixture
def sound(tmp_path: Path, ledger: PrivacyLedger) -> dict[str, Any]:
    """A machine with nothing wrong: it has all that a release of this account needs."""
    for name in ("dags", "releases", "home/bin", "spark/jars", "conf"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home" / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\"' >&2\n")
    (tmp_path / "home" / "bin" / "java").chmod(0o755)
    (tmp_path / "spark" / "jars" / "hadoop-client-api-3.5.0.jar").touch()
    environ = {"JAVA_HOME": f"{tmp_path}/home", "SPARK_HOME": f"{tmp_path}/spark", "PATH": os.environ["PATH"], **SALT}
    return {
        "ledger": f"sqlite:///{tmp_path}/ledger.db",
        "output": f"{tmp_path}/releases",
        "dags": tmp_path / "dags",
        "environ": environ,
    }


def test_the_embedded_engine_has_a_line_and_is_no_fault_where_it_is_missing(
    sound: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def line() -> Check:
        (found,) = (check for check in examine(Machine(**sound)) if check.name == "embedded")
        return found

    assert line().finding is Finding.GOOD
    assert "pysail 0.7.2" in line().message
    monkeypatch.setattr(installed, "_version", {"pyspark": "4.3.0"}.get)
    assert line().finding is Finding.UNKNOWN
    assert "needs pysail 0.7.2, and this machine has none; install dp-diagnostics[embedded]" in line().message
    monkeypatch.setattr(installed, "_version", {"pyspark": "4.3.0", "pyspark-client": "4.2.0"}.get)
    assert line().finding is Finding.BAD
    assert "pyspark: got 'pyspark 4.3.0 and pyspark-client 4.2.0'; must be only one of the two" in line().message
    monkeypatch.setattr(installed, "_version", {"pysail": "0.7.2", "pyspark": "4.1.3"}.get)
    assert line().finding is Finding.UNKNOWN
    assert "needs PySpark 4.2.x or 4.3.x with its client, and this machine has 4.1.3; install" in line().message


def bad(fields: dict[str, Any]) -> list[str]:
    """The lines of what is wrong."""
    checks = examine(Machine(**fields))
    assert all("\n" not in str(check) for check in checks)
    return [str(check) for check in checks if check.finding is Finding.BAD]


def line_about(name: str, fields: dict[str, Any]) -> str:
    [line] = bad(fields)
    assert line.split()[1] == name
    return line


def snapshot(folder: Path) -> dict[str, object]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def test_sound_machine_has_nothing_wrong_and_is_left_as_it_was(sound: dict[str, Any], tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    checks = examine(Machine(**sound))
    assert [check.name for check in checks] == [
        "java",
        "spark",
        "dags",
        "ledger",
        "account",
        "salt",
        "output",
        "s3",
        "embedded",
    ]
    assert [check.finding for check in checks] == [Finding.GOOD] * 7 + [Finding.UNKNOWN, Finding.GOOD]
    assert snapshot(tmp_path) == before


def test_old_or_missing_java(sound: dict[str, Any], tmp_path: Path) -> None:
    sound["environ"]["DP_DIAGNOSTICS_MASTER"] = "local[*]"
    (tmp_path / "home" / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    assert "Java 11" in line_about("java", sound)
    (tmp_path / "home" / "bin" / "java").unlink()
    assert "no Java there" in line_about("java", sound)
    del sound["environ"]["DP_DIAGNOSTICS_MASTER"]
    assert bad(sound) == []
    (line,) = (check for check in examine(Machine(**sound)) if check.name == "java")
    assert "; only what the embedded engine does not take needs it" in str(line)


def test_missing_spark(sound: dict[str, Any], tmp_path: Path) -> None:
    sound["environ"] |= {"SPARK_HOME": f"{tmp_path}/none", "DP_DIAGNOSTICS_MASTER": "local[*]"}
    assert "install dp-diagnostics[spark], or set SPARK_HOME" in line_about("spark", sound)


@pytest.mark.parametrize("name", ["spark_jobs", "dp_operators/__init__.py", "spark_jobs.py"])
def test_package_in_the_dags_folder_that_hides_ours(sound: dict[str, Any], tmp_path: Path, name: str) -> None:
    path = tmp_path / "dags" / name
    path.parent.mkdir(exist_ok=True)
    path.touch() if path.suffix else path.mkdir()
    assert "hides this package from every task; remove it" in line_about("dags", sound)


def test_ledger_that_is_not_named_not_there_or_not_migrated(sound: dict[str, Any], tmp_path: Path) -> None:
    sound["environ"] = {name: value for name, value in sound["environ"].items() if name not in SALT}
    assert "set DP_LEDGER_URL" in line_about("ledger", {**sound, "ledger": None})
    assert "dp-budget migrate" in line_about("ledger", {**sound, "ledger": f"sqlite:///{tmp_path}/another.db"})
    assert not (tmp_path / "another.db").exists()
    assert bad({**sound, "ledger": "postgresql://nobody@127.0.0.1:1/none"})


def test_frozen_ledger_says_why(sound: dict[str, Any], ledger: PrivacyLedger) -> None:
    ledger.freeze(reason="restored on Sunday", actor="dora")
    line = line_about("ledger", sound)
    assert "is frozen: restored on Sunday" in line
    assert "dp-budget thaw" in line


def test_account_that_is_missing_or_pays_for_no_table(sound: dict[str, Any], ledger: PrivacyLedger) -> None:
    assert bad({**sound, "account": "customers"}) == []
    assert "must be an open account" in line_about("ledger", {**sound, "account": "custmers"})
    ledger.open_account("empty", epsilon=1)
    assert "empty pays for no table; dp-budget bind" in line_about("account", sound)


def test_account_whose_columns_are_not_bound(sound: dict[str, Any], ledger: PrivacyLedger) -> None:
    ledger.open_account("old", epsilon=1, tables=["/lake/old"])
    assert "the columns of file:///lake/old are not bound; dp-budget bind" in line_about("account", sound)


def test_account_without_a_folder_for_its_releases(sound: dict[str, Any], ledger: PrivacyLedger) -> None:
    open_bound(ledger, "new", "/lake/new")
    assert bad(sound) == []
    binding = TableBinding.parse(
        {"table": "file:///lake/other", "format": "parquet", "columns": {"a": "int"}, "version": VERSION}
    )
    ledger.open_account("homeless", epsilon=1, tables=[binding])
    assert "homeless has no folder for its releases; dp-budget bind-outputs" in line_about("account", sound)


def test_account_has_to_be_there(sound: dict[str, Any], tmp_path: Path) -> None:
    new_ledger(tmp_path / "new.db")
    assert "the ledger has no account; dp-budget open" in line_about(
        "account", {**sound, "ledger": f"sqlite:///{tmp_path}/new.db"}
    )


def test_salt_is_needed_where_the_unit_is_a_column(sound: dict[str, Any], ledger: PrivacyLedger) -> None:
    del sound["environ"]["DP_DIAGNOSTICS_SALT"]
    assert "DP_DIAGNOSTICS_SALT" in line_about("salt", sound)
    open_bound(ledger, "rows", "/lake/rows")
    assert bad({**sound, "account": "rows"}) == []
    sound["environ"]["DP_DIAGNOSTICS_SALT"] = "short"
    line = line_about("salt", sound)
    assert "at least 16 bytes" in line
    assert "short" not in line.replace("shorter", "")


def test_folder_of_releases_is_tried_and_never_made(sound: dict[str, Any], tmp_path: Path) -> None:
    missing = {**sound, "output": f"{tmp_path}/none"}
    # a release makes the folder, so that its absence is no fault
    assert [line for line in bad(missing) if "none" in line] == []
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").touch()
    assert "must be a folder that can be written" in line_about("output", {**sound, "output": f"{tmp_path}/file/none"})
    assert "conditional put" in line_about("output", {**sound, "output": "memory://releases"})


def test_store_that_creates_twice(sound: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    for name, value in {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "NO_PROXY": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    for honours in (True, False):
        with s3_server(honours_condition=honours) as server:
            monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
            fsspec.filesystem("s3").clear_instance_cache()
            found = bad({**sound, "output": "s3://releases/churn"})
            assert [name.rpartition("/")[2] for name in server.objects] == [".probe"]
        assert len(found) == (not honours)
    assert "refuses to create the same object twice" in found[0]


def test_connector_is_needed_where_a_table_is_in_s3(
    sound: dict[str, Any], ledger: PrivacyLedger, tmp_path: Path
) -> None:
    open_bound(ledger, "far", "s3://lake/churn")
    assert "hadoop-aws-3.5.0.jar is neither in" in line_about("s3", sound)
    assert bad({**sound, "account": "customers"}) == []
    sound["environ"]["SPARK_CONF_DIR"] = f"{tmp_path}/conf"
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.jars.packages org.apache.hadoop:hadoop-aws:3.5.0\n")
    assert bad(sound) == []


def test_command_ends_with_1_if_something_is_bad(
    sound: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ledger: PrivacyLedger
) -> None:
    for name, value in sound["environ"].items():
        monkeypatch.setenv(name, value)
    words = ["doctor", "--ledger", sound["ledger"], "--output", sound["output"], "--dags", str(sound["dags"])]
    assert run(cli.app, words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert lines[0].startswith("ok          java      Java 17 in ")
    head = ledger.head()
    monkeypatch.delenv("DP_DIAGNOSTICS_SALT")
    assert run(cli.app, words) == 1
    assert "bad         salt" in capsys.readouterr().out
    assert ledger.head() == head


def test_a_check_is_one_line() -> None:
    check = Check(name="java", finding=Finding.BAD, message="none", remedy="install only one")
    assert str(check) == "bad         java      none; install only one"
