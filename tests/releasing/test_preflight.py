"""What can be known before a charge is refused before it, by a dry run as by a release; the ledger stays as it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import ChargeConflict, PrivacyLedger
from dp_operators.releasing import ChargedRequest, LocalRunner, ReleaseClosed, SparkSubmitRunner, forecast, release
from dp_operators.releasing.charged_terms import complete
from dp_operators.releasing.clusters import YarnCluster
from spark_jobs.contract import InvalidRequest, PrivacyUnit
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import SALT_FILE_VARIABLE, SALT_VARIABLE
from tests.support.release_lab import ForkRunner, accept, make_request

FAINT = {"kind": "auc", "method": "cauchy", "weight": "0.00001"}
LINE = {"kind": "linear_regression", "x": "a", "y": "b", "x_bounds": [0, 1], "y_bounds": [0, 1]}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a second diagnostic that cannot take its share": (
        {"diagnostics": ["roc_curve", FAINT]},
        "must be at least 0.0001 for each row of a unit",
    ),
    "a fit at a small epsilon": (
        {
            "diagnostics": [
                {"kind": "linear_fit", "features": {"x": [0, 1]}, "outcome": "y", "outcome_bounds": [0, 1]}
            ],
            "budget": {"epsilon": "1e-7"},
        },
        "must be at least 0.000001 for each row of a unit",
    ),
    "more points than a driver holds": (
        {
            "diagnostics": [
                {**LINE, "method": "dp_grad_descent", "group_by": "tract", "groups": [str(key) for key in range(64)]}
            ]
        },
        "must need at most 67,108,864 counts",
    ),
}


@pytest.fixture
def ledger(lab: Any) -> Any:
    ledger = lab.ledger()
    yield ledger
    ledger.close()


def both(request: ReleaseRequest, ledger: PrivacyLedger, runner: Any, key: str = "k") -> tuple[str, str]:
    """The lines by which a release and a dry run refuse; the ledger is what it was."""
    before, lines = ledger.head(), []
    for ask in (
        lambda: release(ChargedRequest.of(request, ledger, key), runner=runner, check=accept),
        lambda: forecast(ChargedRequest.of(request, ledger, key), runner=runner),
    ):
        with pytest.raises(InvalidRequest) as refused:
            ask()
        lines.append(str(refused.value))
    assert ledger.head() == before
    assert "\n" not in "".join(lines)
    return lines[0], lines[1]


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_request_alone_says_is_refused_before_the_charge(lab: Any, ledger: PrivacyLedger, case: str) -> None:
    changes, words = REFUSED[case]
    runner = ForkRunner()
    charged, dry = both(make_request(lab.output, **changes), ledger, runner)
    assert words in charged
    assert charged == dry
    assert runner.runs == 0


def test_a_dry_run_tells_what_the_key_stands_for(lab: Any, ledger: PrivacyLedger) -> None:
    request, runner = make_request(lab.output), ForkRunner()
    told = forecast(ChargedRequest.of(request, ledger, "k"), runner=runner)
    assert (told.charged.account, told.cost, told.charge) == ("people", request.budget, None)
    assert list(told.left) == ["all"]
    charge = ledger.reserve("people", release="k", epsilon=1, request_sha256=complete(request, ledger).sha256)
    again = forecast(ChargedRequest.of(request, ledger, "k"), runner=runner)
    assert (again.charge, again.left) == (charge, {})
    with pytest.raises(ChargeConflict, match="is reserved for another request"):
        forecast(ChargedRequest.of(make_request(lab.output, title="another"), ledger, "k"), runner=runner)
    ledger.burn(charge.id)
    with pytest.raises(ReleaseClosed, match="is spent and never published"):
        forecast(ChargedRequest.of(request, ledger, "k"), runner=runner)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (SALT_VARIABLE, SALT_FILE_VARIABLE, "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    folder = tmp_path / "lake" / "visits"
    (folder / "v1").mkdir(parents=True)
    (folder / "v1" / "part-0.parquet").touch()
    return {"path": str(folder), "snapshot": {"path_version": "v1"}}


@pytest.mark.usefixtures("bare")
class TestMachine:
    """What a release needs of the machine that makes it."""

    @pytest.fixture
    def runner(self, tmp_path: Path) -> LocalRunner:
        return LocalRunner(private_dir=tmp_path / "private", environment={"JAVA_HOME": self.java(tmp_path, 17)})

    @staticmethod
    def java(tmp_path: Path, version: int) -> str:
        program = tmp_path / f"java-{version}" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}.0.1\"' >&2\n")
        program.chmod(0o755)
        return str(program.parents[1])

    def test_one_that_has_it_all_is_let_through(self, lab: Any, runner: LocalRunner, table: dict[str, Any]) -> None:
        runner.check(make_request(lab.output, table=table))

    def test_no_salt(self, lab: Any, ledger: PrivacyLedger, runner: LocalRunner, table: dict[str, Any]) -> None:
        unit = PrivacyUnit(column="person", max_rows=2)
        output = lab.open_account("persons", table["path"], unit=unit)
        request = make_request(output, account="persons", table=table, unit=unit.model_dump())
        charged, dry = both(request, ledger, runner)
        assert "exactly one of DP_DIAGNOSTICS_SALT and DP_DIAGNOSTICS_SALT_FILE must be set" in charged
        assert charged == dry
        LocalRunner(private_dir=runner.private_dir, environment={**runner.environment, SALT_VARIABLE: "0" * 32}).check(
            request
        )
        # the driver of a client is here, that of a cluster is not
        client = SparkSubmitRunner(master="yarn", private_dir=runner.private_dir)
        with pytest.raises(InvalidRequest, match="must be set"):
            client.check(request)
        YarnCluster(resource_manager="rm:8088", private_dir=runner.private_dir).check(request)

    def test_old_java(
        self, lab: Any, ledger: PrivacyLedger, tmp_path: Path, runner: LocalRunner, table: dict[str, Any]
    ) -> None:
        output = lab.open_account("visits", table["path"])
        old = LocalRunner(private_dir=runner.private_dir, environment={"JAVA_HOME": self.java(tmp_path, 11)})
        charged, dry = both(make_request(output, account="visits", table=table), ledger, old)
        assert "Java 11" in charged
        assert charged == dry

    @pytest.mark.parametrize("state", ["missing", "empty", "a file"])
    def test_no_snapshot(
        self, lab: Any, ledger: PrivacyLedger, runner: LocalRunner, table: dict[str, Any], state: str
    ) -> None:
        output = lab.open_account("visits", table["path"])
        version = Path(table["path"]) / "v2"
        if state == "empty":
            version.mkdir()
        elif state == "a file":
            version.touch()
        later = {**table, "snapshot": {"path_version": "v2"}}
        charged, dry = both(make_request(output, account="visits", table=later), ledger, runner)
        assert charged == f"table.path: got '{version}'; must be a table that exists; check the path and its version"
        assert charged == dry

    def test_a_partition_that_is_not_there_is_nobodys_business(
        self, lab: Any, runner: LocalRunner, table: dict[str, Any]
    ) -> None:
        runner.check(make_request(lab.output, table={**table, "snapshot": {"partition": {"day": "2026-01-31"}}}))


def test_a_dry_run_leaves_no_folder(lab: Any, ledger: PrivacyLedger) -> None:
    forecast(ChargedRequest.of(make_request(lab.output), ledger, "k"), runner=ForkRunner())
    assert not os.path.lexists(lab.output)
    Path(lab.output).touch()
    with pytest.raises(InvalidRequest, match="must be a folder that can be written"):
        forecast(ChargedRequest.of(make_request(lab.output), ledger, "k"), runner=ForkRunner())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"label": "no_such_column"}, "label.column: got 'no_such_column'; must be a column of the table"),
        ({"where": "score = 'high'"}, "where: got \"score = 'high'\"; must not combine"),
    ],
)
def test_what_the_account_binds_is_looked_at(
    lab: Any, ledger: PrivacyLedger, changes: dict[str, Any], words: str
) -> None:
    runner = ForkRunner()
    charged, dry = both(complete(make_request(lab.output, **changes), ledger), ledger, runner)
    assert words in charged
    assert charged == dry
    assert runner.runs == 0
