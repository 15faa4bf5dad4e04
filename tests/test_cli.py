"""``dp-budget run`` and ``give-back``: a release without Airflow, told in exit codes and single lines."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import dp_operators.releasing
from dp_operators import cli, command_tools, release_check
from dp_operators.budget.cli import run
from dp_operators.releasing import LocalRunner
from tests.support import fake_application
from tests.support.release_lab import Lab, accept, judge

pytestmark = pytest.mark.slow

FAKE = (sys.executable, fake_application.__file__)


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


@pytest.fixture
def dp_budget(lab, monkeypatch, capsys):
    """Runs a command line beside the fake application; gives its exit code, output and errors."""
    runner = functools.partial(LocalRunner, command=FAKE)
    monkeypatch.setattr(dp_operators.releasing, "LocalRunner", runner)
    monkeypatch.setattr(release_check, "check_release", accept)
    monkeypatch.setenv("DP_LEDGER_URL", lab.url)
    monkeypatch.chdir(lab.folder)

    def call(*arguments):
        capsys.readouterr()
        words = [str(word) for word in arguments]
        private = ["--private-dir", f"{lab.folder}/private"] if words[0] == "run" else []
        status = run(cli.app, [*words, *private])
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


def request_file(lab, **changes) -> Path:
    fields = {**lab.request.to_dict(), "output": None, **changes}
    path = lab.folder / "request.json"
    path.write_text(json.dumps(fields))
    return path


@pytest.mark.slow
def test_run_publishes_and_says_where(lab, dp_budget):
    status, out, err = dp_budget("run", request_file(lab), "--output", lab.output)
    assert status == 0
    [charge] = lab.charges()
    folder = Path(out.strip())
    assert folder.parent == Path(lab.output)
    assert (folder / "release.json").exists()
    assert charge.release == f"cli/{lab.request.sha256}"
    assert charge.actor
    assert fake_application.SECRET_ROW not in out + err
    assert "counting" in err.splitlines()


@pytest.mark.slow
def test_same_request_again_is_the_same_release_and_pays_once(lab, dp_budget):
    first = dp_budget("run", request_file(lab), "--output", lab.output)
    again = dp_budget("run", request_file(lab), "--output", "releases")
    assert (again[0], again[1]) == (0, first[1])
    [charge] = lab.charges()
    made = f"found: this release was made at {charge.settled_at} for epsilon 1; nothing is charged now"
    assert again[2].splitlines()[-2] == made
    assert lab.states() == ["committed"]


@pytest.mark.slow
@pytest.mark.verify
def test_another_key_is_another_release(lab, dp_budget):
    one = dp_budget("run", request_file(lab), "--output", lab.output)
    other = dp_budget("run", request_file(lab), "--output", lab.output, "--key", "monday")
    assert one[1] != other[1]
    assert lab.states() == ["committed", "committed"]


@pytest.mark.slow
@pytest.mark.verify
def test_output_of_the_request_needs_no_option(lab, dp_budget):
    status, out, _ = dp_budget("run", request_file(lab, output=lab.output))
    assert status == 0
    assert out.startswith(lab.output)


BAD = {
    "request that is not JSON": (b"{", [], "must be a JSON document"),
    "no budget": ({"budget": {"epsilon": "0"}}, [], "must be above 0"),
    "negative budget": ({"budget": {"epsilon": "-1"}}, [], "must be above 0"),
    "budget that is no number": ({"budget": {"epsilon": "lots"}}, [], "finite decimal number"),
    "infinite budget": ({"budget": {"epsilon": "inf"}}, [], "finite decimal number"),
    "budget above the cap": ({"budget": {"epsilon": "11"}}, [], "10 of 10 left"),
    "no rows per unit": ({"unit": {"column": "person", "max_rows": 0}}, [], "whole number from 1"),
    "unknown diagnostic": ({"diagnostics": ["crystal_ball"]}, [], "must be one of roc_curve"),
    "unknown account": ({"account": "nobody"}, [], "account"),
    "no account": ({"account": None}, [], "account: is required"),
    "unbound table": (
        {"table": {"path": "/x", "snapshot": {"path_version": "v1"}}},
        [],
        "bound to an account",
    ),
    "store of an unknown kind": ({}, ["--output", "memory://x"], "must be a path or a URI of"),
    "store without conditional put": ({}, ["--output", "hdfs://x/releases"], "conditional put"),
    "folder that is not the account's": (
        {},
        ["--output", "/proc/nowhere"],
        "within a folder of account people",
    ),
    "unknown option": ({}, ["--no-such-option"], "No such option"),
}


@pytest.mark.slow
@pytest.mark.parametrize("dry", [False, True], ids=["run", "dry run"])
@pytest.mark.parametrize("case", BAD)
def test_bad_request_ends_with_2_one_line_and_an_unchanged_ledger(lab, dp_budget, case, dry):
    changes, options, words = BAD[case]
    path = request_file(lab, **(changes if isinstance(changes, dict) else {}))
    if isinstance(changes, bytes):
        path.write_bytes(changes)
    before = lab.ledger().head()
    arguments = [path, *(options or ["--output", lab.output]), *(["--dry-run"] if dry else [])]
    status, out, err = dp_budget("run", *arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err
    assert lab.ledger().head() == before
    assert not list(Path(lab.output).glob("*/release.json"))


def test_request_that_is_not_there_ends_with_2(lab, dp_budget):
    status, _, err = dp_budget("run", lab.folder / "none.json", "--output", lab.output)
    assert status == 2
    assert "must be a file that can be read" in err


def test_private_folder_open_to_others_ends_with_2(lab, dp_budget):
    (lab.folder / "private").mkdir(mode=0o755)
    status, _, err = dp_budget("run", request_file(lab), "--output", lab.output)
    assert status == 2
    assert "private_dir" in err
    assert lab.states() == []


def test_request_that_the_application_refuses_ends_with_2_and_is_paid_back(lab, dp_budget, monkeypatch):
    monkeypatch.setenv("DP_FAKE", "refuse")
    status, out, err = dp_budget("run", request_file(lab), "--output", lab.output)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == f"dp-budget: {fake_application.REFUSAL}"
    assert lab.states() == ["void"]
    judge(lab)


@pytest.mark.verify
def test_application_that_fails_ends_with_1_and_the_same_command_goes_on(lab, dp_budget, monkeypatch):
    monkeypatch.setenv("DP_FAKE", "fail")
    status, out, err = dp_budget("run", request_file(lab), "--output", lab.output)
    assert (status, out) == (1, "")
    assert fake_application.SECRET_ROW not in err
    assert lab.states() == ["reserved"]
    monkeypatch.delenv("DP_FAKE")
    assert dp_budget("run", request_file(lab), "--output", lab.output)[0] == 0
    assert lab.states() == ["committed"]


def test_ledger_out_of_reach_ends_with_3_which_is_no_refusal(lab, dp_budget, monkeypatch):
    from dp_operators.budget import PrivacyLedger

    monkeypatch.setattr(command_tools, "open_ledger", lambda url: PrivacyLedger(url, patience=0.1))
    with closing(sqlite3.connect(f"{lab.folder}/ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        status, out, err = dp_budget("run", request_file(lab), "--output", lab.output)
    assert (status, out) == (3, "")
    assert err.count("\n") == 1
    assert not Path(lab.output).exists()


def test_dry_run_says_the_price_and_changes_nothing(lab, dp_budget):
    before = lab.ledger().head()
    status, out, _ = dp_budget("run", request_file(lab), "--output", lab.output, "--dry-run")
    assert status == 0
    assert out == "would charge epsilon 1 to people, which has 10 left\n"
    assert lab.ledger().head() == before
    assert not Path(lab.output).exists()


@pytest.mark.verify
def test_dry_run_forecasts_widths_from_what_the_caller_states(lab, dp_budget):
    arguments = ("run", request_file(lab), "--output", lab.output, "--dry-run", "--rows", "45000")
    status, out, _ = dp_budget(*arguments, "--positive-rate", "0.06")
    assert status == 0
    price, heading, *widths = out.splitlines()
    assert price == "would charge epsilon 1 to people, which has 10 left"
    assert heading == "expected widths of intervals, simulated from what you stated; no table was read:"
    assert any(re.fullmatch(r"  roc_curve: auc_interval: 0\.00\d+", line) for line in widths)
    shares = ("--positive-rate", "0.06", "--flagged", "0.1=0.2", "--recalls", "0.1=0.7")
    status, nearer, _ = dp_budget(*arguments, *shares)
    assert status == 0
    assert nearer != out
    status, out, err = dp_budget(*arguments)
    assert (status, out) == (2, "")
    assert "positive_rate: is required" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rows", "10"], "rows: may be given only with --dry-run"),
        (["--dry-run", "--auc", "0.9"], "auc: may be given only with --dry-run and --rows"),
        (["--dry-run", "--rows", "10", "--flagged", "0.5"], "must have the form THRESHOLD=SHARE"),
        (["--flagged", "0.5=0.1"], "flagged: may be given only with --dry-run and --rows"),
        (
            ["--dry-run", "--rows", "10", "--recalls", "0.5=0.9"],
            "recalls: got [0.5]; must be stated for the same thresholds",
        ),
        (["--dry-run", "--rows", "10", "--recalls", "0.5=x"], "recalls.0.5: got 'x'"),
        (["--dry-run", "--rows", "10", "--values", "age"], "must have the form NAME=LOW:HIGH"),
        (["--dry-run", "--rows", "10", "--values", "age=1:x"], "values.age"),
    ],
)
def test_statements_that_no_forecast_can_use_are_refused(lab, dp_budget, options, words):
    status, out, err = dp_budget("run", request_file(lab), "--output", lab.output, *options)
    assert (status, out) == (2, "")
    assert words in err


def test_dry_run_says_how_narrow_an_interval_can_be_with_more_values_than_cells(lab, dp_budget):
    amounts = {"kind": "quantile", "column": "amount", "bounds": [0, 1000], "step": 1, "cells": 256}
    file = request_file(lab, diagnostics=[amounts], label=None, model=None)
    status, out, _ = dp_budget("run", file, "--output", lab.output, "--dry-run")
    assert status == 0
    assert "quantile: amount has more values than cells: no interval is narrower than 4" in out.splitlines()


def test_dry_run_says_what_each_part_of_the_budget_pays_for(lab, dp_budget):
    kinds = ["roc_curve", {"kind": "auc", "weight": 2}, {"kind": "calibration", "share": False}]
    _, out, _ = dp_budget("run", request_file(lab, diagnostics=kinds), "--output", lab.output, "--dry-run")
    assert out.splitlines()[1:] == [
        "  epsilon 0.75 for one measurement, from which 2 are read: roc_curve, auc",
        "  epsilon 0.25 for calibration",
    ]


def test_dry_run_says_that_a_comparison_takes_its_first_curve_from_others(lab, dp_budget):
    other = {"kind": "columns", "basis": "public", "score": "other"}
    kinds = [{"kind": "roc_comparison", "other": other}, {"kind": "roc_curve", "weight": 3}]
    _, out, err = dp_budget("run", request_file(lab, diagnostics=kinds), "--output", lab.output, "--dry-run")
    assert err == ""
    assert out.splitlines()[1:] == [
        "  epsilon 0.5 for one measurement, from which 2 are read: roc_curve, roc_comparison",
        "  epsilon 0.5 for the rest of roc_comparison",
    ]


@pytest.mark.verify
def test_dry_run_of_a_release_that_is_paid_for_says_that_it_costs_no_more(lab, dp_budget, monkeypatch):
    path = request_file(lab, budget={"epsilon": "6"})  # of 10: a second one would exceed the cap
    monkeypatch.setenv("DP_FAKE", "fail")
    dp_budget("run", path, "--output", lab.output)
    status, out, err = dp_budget("run", path, "--output", lab.output, "--dry-run")
    assert (status, out) == (
        0,
        "would charge nothing to people: it would continue with its charge of epsilon 6\n",
    )
    monkeypatch.delenv("DP_FAKE")
    dp_budget("run", path, "--output", lab.output)
    status, out, _ = dp_budget("run", path, "--output", lab.output, "--dry-run")
    assert (status, out) == (
        0,
        "would charge nothing to people: the release exists, or only has to be published, for epsilon 6\n",
    )
    status, out, err = dp_budget("run", path, "--output", lab.output, "--dry-run", "--key", "another look")
    assert (status, out) == (2, "")
    assert "4 of 10 left" in err


@pytest.mark.sampled
@pytest.mark.parametrize(("behaviour", "became"), [("fail early", "void"), ("fail", "burnt")])
def test_give_back_frees_a_reservation_or_burns_it_and_says_so(lab, dp_budget, monkeypatch, behaviour, became):
    monkeypatch.setenv("DP_FAKE", behaviour)
    dp_budget("run", request_file(lab), "--output", lab.output)
    status, out, _ = dp_budget("give-back", request_file(lab), "--output", lab.output, "--reason", "not needed")
    assert status == 0
    assert out == f"charge {lab.charges()[0].id} of epsilon 1 is {became}\n"
    judge(lab)


def test_give_back_of_nothing_ends_with_2(lab, dp_budget):
    status, _, err = dp_budget("give-back", request_file(lab), "--output", lab.output, "--reason", "not needed")
    assert status == 2
    assert "must be the key of a reservation" in err


def test_ledgers_own_commands_are_there_too(lab, dp_budget):
    dp_budget("run", request_file(lab), "--output", lab.output)
    assert "people" in dp_budget("show")[1]
    assert "committed" in dp_budget("history", "people")[1]
    assert dp_budget("verify")[0] == 0


@pytest.mark.sampled
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_application_too_and_the_same_command_goes_on(lab, dp_budget, number):
    program = (
        "import functools, dp_operators.releasing as r; from dp_operators import cli; "
        f"r.LocalRunner = functools.partial(r.LocalRunner, command={FAKE!r}); cli.main()"
    )
    gate = lab.folder / "never"
    command = [sys.executable, "-c", program, "run", str(request_file(lab)), "--output", lab.output]
    process = subprocess.Popen(
        [*command, "--private-dir", str(lab.folder / "private")],
        env={**os.environ, "DP_FAKE": f"wait:{gate}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    said = iter(process.stderr.readline, "")
    assert any(line == "counting\n" for line in said)
    process.send_signal(number)
    assert "interrupted; what is reserved stays reserved" in "".join(said).splitlines()[-1]
    assert process.wait(timeout=60) == 128 + number
    process.stderr.close()
    wait_until_nobody_mentions(str(lab.output))
    assert lab.states() == ["reserved"]
    assert dp_budget("run", request_file(lab), "--output", lab.output)[0] == 0
    judge(lab)


def wait_until_nobody_mentions(text: str) -> None:
    """Wait until no process of this machine has ``text`` on its command line."""
    deadline = time.monotonic() + 30
    while any(text.encode() in _command_line(path) for path in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline, "the application outlived its caller"
        time.sleep(0.05)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
