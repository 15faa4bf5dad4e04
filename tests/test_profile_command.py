"""``dp-budget profile``: it shows and asks before it charges, prints each column, and finds its release again."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dp_operators.releasing
from dp_operators import cli, release_check
from dp_operators.budget.cli import run
from dp_operators.releasing import LocalRunner
from spark_jobs.diagnostics import profile
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ProfileCounts
from tests.support import fake_application
from tests.support.release_lab import Lab, accept

pytestmark = pytest.mark.slow

Command = Callable[..., tuple[int, list[str], list[str]]]
DOMAINS = ("age between 0 and 120", "region in ('north', 'south')")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def command(lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Asks for a profile; gives exit code, lines of output and lines of errors."""
    counts = ProfileCounts.from_arrays(
        {"age": np.repeat([20.0, 40.0, np.nan], 200), "region": np.repeat(["north", "south"], [450, 150])},
        of=[
            {"column": "age", "bounds": [0, 120], "step": 1},
            {"column": "region", "values": ["north", "south"]},
        ],
    )
    result = profile.release(counts, epsilon="1e6", noise=SeededNoise(1)).to_dict()
    found = lab.folder / "found.json"
    found.write_text(json.dumps({"results": {"profile": result}}, allow_nan=False))
    monkeypatch.setenv("DP_FAKE_FOUND", str(found))
    fake = (sys.executable, fake_application.__file__)
    monkeypatch.setattr(dp_operators.releasing, "LocalRunner", functools.partial(LocalRunner, command=fake))
    monkeypatch.setattr(release_check, "check_release", accept)

    def ask(*options: str, account: str = "people") -> tuple[int, list[str], list[str]]:
        capsys.readouterr()
        private = ("--private-dir", f"{lab.folder}/private", "--ledger", lab.url, "--version", "v1")
        status = run(cli.app, ["profile", account, "--epsilon", "1", *private, *options])
        printed = capsys.readouterr()
        return status, printed.out.splitlines(), printed.err.splitlines()

    return ask


@pytest.fixture
def domains(lab: Lab) -> None:
    changes = [*(f"--set={one}" for one in DOMAINS), "--reason", "the questionnaire", "--actor", "dora"]
    assert run(cli.app, ["domains", "people", *changes, "--ledger", lab.url]) == 0


@pytest.mark.usefixtures("domains")
def test_without_an_answer_it_shows_the_request_its_price_and_widths_and_charges_nothing(
    lab: Lab, command: Command
) -> None:
    status, out, errors = command("--pairs", "age,region", "--rows", "5000")
    assert (status, out) == (0, [])
    assert "- kind: profile" in errors
    assert any(line.startswith("would charge epsilon 1 to people") for line in errors)
    assert any(line.startswith("  profile: mean of age: ") for line in errors), "the width that it would buy"
    assert errors[-1] == "nothing was charged; add --yes to release it"
    assert lab.charges() == ()


@pytest.mark.usefixtures("domains")
def test_it_prints_each_column_and_the_same_request_costs_nothing_more(lab: Lab, command: Command) -> None:
    status, out, _ = command("--yes")
    assert status == 0
    assert out[0] == ("age: 33.3% missing, 0.0% not readable, 0.0% other, mean 30 (30 to 30), median 20 (20 to 20)")
    assert out[1] == "region: 0.0% missing, 0.0% not readable, 0.0% other, north 75.0%, south 25.0%"
    status, again, errors = command()
    assert (status, again[:2]) == (0, out[:2])
    assert any(line.startswith("found: this release was made") for line in errors)
    assert len(lab.charges()) == 1


@pytest.mark.usefixtures("domains")
@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--column", "visit"), "visit"),
        (("--column", "age", "--pairs", "age,region"), "must be one of the profile's columns: age"),
        (("--pairs", "age"), "must be two columns"),
        (("--partition", "day=1"), "must not be given beside version"),
        (("--epsilon", "0"), "budget.epsilon"),
    ],
)
def test_a_bad_request_costs_nothing(lab: Lab, command: Command, options: tuple[str, ...], named: str) -> None:
    status, out, errors = command(*options, "--yes")
    assert (status, out) == (2, [])
    assert named in errors[-1]
    assert lab.charges() == ()


def test_an_account_without_domains_is_told_how_to_declare_them(lab: Lab, command: Command) -> None:
    status, _, errors = command("--yes")
    assert status == 2
    assert "dp-budget domains ACCOUNT --set" in errors[-1]
    assert lab.charges() == ()
