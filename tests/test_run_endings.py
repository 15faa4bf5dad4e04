"""How ``dp-budget run`` ends: with its figures, with what is unmet, and with the report's address."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dp_operators.releasing
from dp_operators import cli, release_check
from dp_operators.budget.cli import run
from dp_operators.releasing import LocalRunner
from spark_jobs.contract.headlines import headlines
from spark_jobs.contract.left_out import LeftOut
from spark_jobs.diagnostics import roc_curve
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support import fake_application
from tests.support.ledgers import tamper
from tests.support.release_lab import Lab, accept

pytestmark = pytest.mark.slow

DpBudget = Callable[..., tuple[int, list[str], list[str]]]


def curve(epsilon: str = "1", rows: int = 8000) -> dict[str, Any]:
    counts = ScoreCounts.from_arrays([0, 1] * (rows // 2), [0.2, 0.6, 0.7, 0.8] * (rows // 4))
    released = roc_curve.release(counts, epsilon=epsilon, noise=SeededNoise(1)).to_dict()
    return dict(json.loads(json.dumps(released, allow_nan=False)))


def left_out(outside: int) -> dict[str, Any]:
    noisy = {"not_parsed": 0, "null": 2, "outside": outside}
    return LeftOut.of_counts(noisy, scale=10, max_rows=1, by_unit=False).model_dump(mode="json")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Says what the application finds."""
    path = lab.folder / "found.json"
    monkeypatch.setenv("DP_FAKE_FOUND", str(path))

    def says(**fields: Any) -> None:
        path.write_text(json.dumps(fields))

    says(results={"roc_curve": curve()})
    return says


@pytest.fixture
def dp_budget(lab: Lab, found: object, monkeypatch: pytest.MonkeyPatch, command_line: DpBudget) -> DpBudget:
    """Runs the lab's request with options; gives exit code, lines of output and lines of errors."""
    command = (sys.executable, fake_application.__file__)
    monkeypatch.setattr(dp_operators.releasing, "LocalRunner", functools.partial(LocalRunner, command=command))
    monkeypatch.setattr(release_check, "check_release", accept)

    def call(*options: str, **changes: Any) -> tuple[int, list[str], list[str]]:
        file = lab.folder / "request.json"
        file.write_text(json.dumps({**lab.request.to_dict(), **changes}))
        return command_line("run", str(file), "--private-dir", f"{lab.folder}/private", *options)

    return call


@pytest.fixture
def command_line(lab: Lab, capsys: pytest.CaptureFixture[str]) -> DpBudget:
    """Runs any command; gives exit code, lines of output and lines of errors."""

    def call(*words: str) -> tuple[int, list[str], list[str]]:
        capsys.readouterr()
        status = run(cli.app, [*words, "--ledger", lab.url])
        said = capsys.readouterr()
        return status, said.out.splitlines(), said.err.splitlines()

    return call


def test_last_line_has_the_figures_and_ends_with_the_report(dp_budget: DpBudget) -> None:
    status, [uri], errors = dp_budget()
    result = curve()
    low, high = result["auc_interval"]
    assert status == 0
    assert errors[-2:] == [
        "published, for epsilon 1",
        f"AUC {result['auc']:.3f} ({low:.3f} to {high:.3f}), epsilon 1, 9 left, report: {uri}/report.html",
    ]
    again = dp_budget()
    assert (again[0], again[1], again[2][-1]) == (0, [uri], errors[-1]), "a repetition says the same"


def test_rows_that_did_not_count_are_said_where_they_are_many(dp_budget: DpBudget, found: Callable[..., None]) -> None:
    found(results={"roc_curve": curve()}, left_out=left_out(4000))
    status, [uri], errors = dp_budget()
    assert status == 0
    assert errors[-2].startswith("about 4,000 rows (3,977 to 4,023 at 90%) have a label or a value that the request")
    assert errors[-1].endswith(f"report: {uri}/report.html")


def test_few_rows_that_did_not_count_are_no_line(dp_budget: DpBudget, found: Callable[..., None]) -> None:
    found(results={"roc_curve": curve()}, left_out=left_out(5))
    assert not any("left out" in line for line in dp_budget()[2])


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        ((), 0, ""),
        (("--on-undefined", "publish"), 0, ""),
        (("--on-undefined", "fail"), 1, "undefined because of the noise: roc_curve"),
        (("--gate", "roc_curve.auc >= 0"), 4, "the gate roc_curve.auc >= 0 does not hold"),
        (("--gate", "roc_curve.auc <= 1", "--on-undefined", "fail"), 4, "the gate roc_curve.auc <= 1 does not hold"),
    ],
)
def test_an_undefined_release_is_published_whatever_the_command_ends_with(
    lab: Lab, dp_budget: DpBudget, found: Callable[..., None], options: tuple[str, ...], code: int, line: str
) -> None:
    found(results={"roc_curve": curve("0.0001")})
    status, [uri], errors = dp_budget(*options)
    assert status == code
    assert lab.states() == ["committed"]
    assert (Path(uri) / "release.json").exists()
    unmet = [shown for shown in errors if shown.startswith("dp-budget: ")]
    assert unmet[-1:] == ([f"dp-budget: {line}; the release was published and paid for"] if line else [])
    assert errors[-1].startswith("AUC undefined")
    assert errors[-1].endswith(f"report: {uri}/report.html")
    assert dp_budget(*options)[0] == code, "a repetition ends alike"
    assert lab.states() == ["committed"]


@pytest.mark.parametrize("in_file", [True, False])
@pytest.mark.parametrize(("gate", "code"), [("roc_curve.auc.lower >= 0.5", 0), ("roc_curve.auc.lower >= 0.99", 4)])
def test_a_gate_is_an_option_or_stands_in_the_file(
    lab: Lab, dp_budget: DpBudget, gate: str, code: int, in_file: bool
) -> None:
    plain = dp_budget()
    status, published, errors = dp_budget(gate=gate) if in_file else dp_budget("--gate", gate)
    assert status == code
    assert (published, errors[-1]) == (plain[1], plain[2][-1]), "a gate is no part of the request: no second charge"
    assert lab.states() == ["committed"]


@pytest.mark.parametrize("status", ["coarse", "unchecked"])
def test_a_weak_figure_never_passes(dp_budget: DpBudget, found: Callable[..., None], status: str) -> None:
    found(results={"roc_curve": {**curve(), "status": status}})
    assert dp_budget("--gate", "roc_curve.auc >= 0")[0] == 4


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize("gate", ["roc_curve.aux >= 0", "auc.value >= 0", "roc_curve.auc", 0.7])
def test_a_gate_on_what_the_release_lacks_charges_nothing(
    lab: Lab, dp_budget: DpBudget, gate: Any, dry: tuple[str, ...]
) -> None:
    status, out, errors = dp_budget(*dry, gate=gate)
    assert (status, out, len(errors)) == (2, [], 1)
    assert errors[0].startswith("dp-budget: gate: got ")
    assert lab.states() == []


def test_ledger_records_the_figures_with_the_commit(
    lab: Lab, dp_budget: DpBudget, command_line: DpBudget, found: Callable[..., None]
) -> None:
    _, [uri], _ = dp_budget()
    [auc] = [one.to_dict() for one in headlines({"roc_curve": curve()})]
    [charge] = lab.charges()
    assert charge.figures == (auc,)
    head = lab.ledger().head()
    dp_budget()
    assert (lab.charges()[0].figures, lab.ledger().head()) == ((auc,), head), "a repetition records nothing more"
    assert lab.ledger().verification().findings == ()
    assert command_line("check-release", uri)[0] == 0
    tamper(lab.url, "UPDATE charges SET figures = replace(figures, 'roc_curve', 'auc')")
    status, lines, _ = command_line("check-release", uri)
    assert (status, lines) == (1, [f"release.json: the ledger has another figure auc.auc of charge {charge.id}"])


def test_history_follows_a_figure_over_releases(
    lab: Lab, dp_budget: DpBudget, command_line: DpBudget, found: Callable[..., None]
) -> None:
    results = [curve(), curve("0.0001"), {**curve("4"), "status": "coarse"}]
    for number, result in enumerate(results):
        found(results={"roc_curve": result})
        dp_budget("--key", f"week {number}")
    status, lines, _ = command_line("history", "people", "--figure", "roc_curve.auc", "--json")
    history = json.loads("\n".join(lines))
    assert status == 0
    assert [one["value"] for one in history] == [result["auc"] for result in results]
    assert [one["interval"] for one in history] == [result["auc_interval"] for result in results]
    assert [one["status"] for one in history] == ["ok", "undefined", "coarse"]
    assert [one["release"] for one in history] == ["week 0", "week 1", "week 2"]
    _, lines, _ = command_line("history", "people", "--figure", "roc_curve.auc.population.lower", "--json")
    lower = [one["value"] for one in json.loads("\n".join(lines))]
    assert lower == [(result["auc_population_interval"] or [None])[0] for result in results]
    _, lines, _ = command_line("history", "people", "--figure", "roc_curve")
    assert [line.split()[2:4] for line in lines[1:]] == [
        ["roc_curve.auc", f"{result['auc']:.3f}" if result["auc"] else "undefined"] for result in results
    ]
    status, lines, errors = command_line("history", "people", "--figure", "roc_curve.aux")
    assert (status, lines, len(errors)) == (2, [], 1)
    assert "must be a figure that the ledger recorded: roc_curve.auc; " in errors[0]


def test_a_restored_ledger_gets_the_figures_back(lab: Lab, dp_budget: DpBudget, command_line: DpBudget) -> None:
    backup = (lab.folder / "ledger.db").read_bytes()
    dp_budget()
    [before] = lab.charges()
    (lab.folder / "ledger.db").write_bytes(backup)
    assert command_line("reconcile", "--output", lab.output)[0] == 0
    [after] = lab.charges()
    assert (after.id, after.figures) == (before.id, before.figures)
    assert after.figures
    assert lab.ledger().verification().findings == ()
