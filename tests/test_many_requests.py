"""``dp-budget run`` with several requests, beside the fake application: each by itself, whatever the others meet."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import dp_operators.releasing
from dp_operators import cli, many_requests, release_check
from dp_operators.budget import ChargeState, LedgerUnavailable, PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.releasing import LocalRunner, ReleaseFailed
from tests.support import fake_application
from tests.support.release_lab import Lab, accept, judge

pytestmark = pytest.mark.slow

DpBudget = Callable[..., tuple[int, list[str], list[str]]]


class OneByOne(LocalRunner):
    """Stands for the shared application: the fake one, started anew for each request."""

    failed_after_others = False

    def __enter__(self) -> OneByOne:
        return self

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def dp_budget(lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> DpBudget:
    """Runs a command line; gives its exit code, and the lines of its output and errors."""

    def runner(**settings: Any) -> OneByOne:
        return OneByOne(command=(sys.executable, fake_application.__file__), **settings)

    monkeypatch.setattr(dp_operators.releasing, "WarmRunner", runner)
    monkeypatch.setattr(release_check, "check_release", accept)
    monkeypatch.chdir(lab.folder)

    def call(*words: str | Path) -> tuple[int, list[str], list[str]]:
        capsys.readouterr()
        given = ["run", *map(str, words), "--private-dir", f"{lab.folder}/private", "--ledger", lab.url]
        status = run(cli.app, given)
        printed = capsys.readouterr()
        return status, printed.out.splitlines(), printed.err.splitlines()

    return call


def request_file(lab: Lab, name: str, epsilon: str = "1", **changes: Any) -> Path:
    path = lab.folder / "requests" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**lab.request.to_dict(), "budget": {"epsilon": epsilon}, **changes}))
    return path


def spent(lab: Lab) -> Decimal:
    charges = (charge for charge in lab.charges() if charge.state is not ChargeState.VOID)
    return sum((charge.cost.epsilon for charge in charges), Decimal(0))


def test_a_folder_is_released_in_the_order_of_its_names_by_charges_of_their_own(lab: Lab, dp_budget: DpBudget) -> None:
    for name, epsilon in (("c.json", "0.3"), ("a.json", "0.1"), ("b.yaml", "0.2")):
        request_file(lab, name, epsilon)
    (lab.folder / "requests" / "notes.txt").write_text("no request")
    status, uris, errors = dp_budget(lab.folder / "requests")
    assert (status, len(set(uris))) == (0, 3)
    assert [charge.cost.epsilon for charge in lab.charges()] == [Decimal("0.1"), Decimal("0.2"), Decimal("0.3")]
    endings = [line for line in errors if ": published, " in line]
    assert [line.partition(": ")[0].rpartition("/")[2] for line in endings] == ["a.json", "b.yaml", "c.json"]
    assert [line.rpartition("report: ")[2] for line in endings] == [f"{uri}/report.html" for uri in uris]
    assert errors[-1] == "3 of 3 requests are released"
    judge(lab)
    again = dp_budget(lab.folder / "requests")
    assert (again[0], again[1], spent(lab)) == (0, uris, Decimal("0.6"))
    assert sum(": found, " in line for line in again[2]) == 3


def test_what_one_request_meets_changes_no_other(
    lab: Lab, dp_budget: DpBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = request_file(lab, "bad.json", label=None)
    dear = request_file(lab, "dear.json", "11")
    good = request_file(lab, "good.json", "0.5")
    status, uris, errors = dp_budget(bad, lab.folder / "missing.json", dear, good)
    assert (status, len(uris), spent(lab)) == (2, 1, Decimal("0.5"))
    refused = [line for line in errors if line.startswith("dp-budget: ")]
    assert [line.split(": ")[1].rpartition("/")[2] for line in refused] == ["bad.json", "missing.json", "dear.json"]
    assert errors[-1] == "1 of 4 requests are released"
    judge(lab)


def test_a_failure_is_1_and_the_same_command_goes_on(
    lab: Lab, dp_budget: DpBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = request_file(lab, "one.json", "0.1"), request_file(lab, "other.json", "0.2")
    monkeypatch.setenv("DP_FAKE", "fail")
    status, uris, errors = dp_budget(one, other)
    assert (status, uris) == (1, [])
    assert not any(fake_application.SECRET_ROW in line for line in errors)
    assert sum(": failed: the application ended" in line for line in errors) == 2
    monkeypatch.delenv("DP_FAKE")
    status, uris, _ = dp_budget(one, other)
    assert (status, len(uris), spent(lab)) == (0, 2, Decimal("0.3"))
    judge(lab)


@pytest.mark.parametrize(
    ("error", "status"),
    [(LedgerUnavailable("the ledger", "away"), 3), (ReleaseFailed("the store failed"), 1), (KeyError("private"), 1)],
)
def test_the_exit_code_is_the_highest_of_all_requests(
    lab: Lab, dp_budget: DpBudget, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    made = many_requests.run_to_end

    def of_some(charged: Any, *args: Any, **named: Any) -> Any:
        if charged.request.budget.epsilon == Decimal("0.1"):
            raise error
        return made(charged, *args, **named)

    monkeypatch.setattr(many_requests, "run_to_end", of_some)
    files = [request_file(lab, f"{number}.json", f"0.{number}") for number in (1, 2)]
    assert dp_budget(*files)[0] == status
    assert spent(lab) == Decimal("0.2")
    assert dp_budget(*files, request_file(lab, "bad.json", label=None))[0] == max(status, 2)


def test_a_request_that_failed_where_others_had_run_is_tried_once_more(
    lab: Lab, dp_budget: DpBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, tries = many_requests.run_to_end, []

    def failing_first(*args: Any, **named: Any) -> Any:
        tries.append(named["name"])
        if len(tries) in (1, 3):
            raise ReleaseFailed("the engine has ended")
        return made(*args, **named)

    monkeypatch.setattr(many_requests, "run_to_end", failing_first)
    files = [request_file(lab, f"{number}.json", f"0.{number}") for number in (1, 2)]
    assert dp_budget(*files)[0] == 1
    monkeypatch.setattr(OneByOne, "failed_after_others", True)
    assert dp_budget(*files)[0] == 0
    assert [name.rpartition("/")[2] for name in tries] == ["1.json: ", "2.json: ", "1.json: ", "1.json: ", "2.json: "]


def test_a_gate_is_of_each_release(lab: Lab, dp_budget: DpBudget) -> None:
    gated = request_file(lab, "gated.json", "0.1", gate="roc_curve.auc >= 0.99")
    status, uris, errors = dp_budget(gated, request_file(lab, "free.json", "0.2"))
    assert (status, len(uris)) == (4, 2)
    assert errors[-1] == "2 of 2 requests are released"


def test_a_dry_run_prices_each_and_their_sum_and_changes_nothing(lab: Lab, dp_budget: DpBudget) -> None:
    files = [request_file(lab, f"{number}.json", f"{number}") for number in (1, 2, 3)]
    before = lab.ledger().head()
    status, lines, _ = dp_budget(*files, files[0], "--dry-run")
    assert status == 0
    assert [line.rpartition("/")[2] for line in lines[:3]] == [
        f"{number}.json: would charge epsilon {number} to people, which has 10 left" for number in (1, 2, 3)
    ]
    assert lines[-1] == "in all: 3 charges of epsilon 6 in all; account people has 10 left, and 4 after them"
    assert lab.ledger().head() == before
    assert dp_budget(files[0], files[0])[0] == 0
    _, lines, _ = dp_budget(*files, "--dry-run")
    assert lines[0].endswith("1.json: would charge nothing to people: the release exists, or only has to be published, "
                             "for epsilon 1")  # fmt: skip
    assert lines[-1] == "in all: 2 charges of epsilon 5 in all; account people has 9 left, and 4 after them"


def test_a_dry_run_says_that_the_sum_is_too_much(lab: Lab, dp_budget: DpBudget) -> None:
    files = [request_file(lab, f"{number}.json", f"{number}") for number in (5, 6)]
    status, lines, errors = dp_budget(*files, "--dry-run")
    assert (status, len(lines)) == (2, 2)
    assert errors == [
        "dp-budget: in all: 2 charges of epsilon 11 in all; account people has 10 left, which is not enough for all "
        "of them"
    ]


def test_a_sub_budget_has_to_have_room_for_the_sum_too(lab: Lab, dp_budget: DpBudget) -> None:
    ledger: PrivacyLedger = lab.ledger()
    ledger.allot("people", "nightly", epsilon="4", actor="admin")
    files = [request_file(lab, f"{number}.json", f"{number}") for number in (2, 3)]
    status, _, errors = dp_budget(*files, "--dry-run", "--allotment", "nightly")
    assert status == 2
    assert "account people has 4 left, which is not enough" in errors[-1]


@pytest.mark.parametrize("case", ["key", "empty folder"])
def test_what_fits_no_list_of_requests_is_refused(lab: Lab, dp_budget: DpBudget, case: str) -> None:
    files = [request_file(lab, f"{number}.json") for number in (1, 2)]
    (lab.folder / "empty").mkdir()
    words = {"key": [*files, "--key", "mine"], "empty folder": [files[0], lab.folder / "empty"]}
    status, uris, errors = dp_budget(*words[case])
    assert (status, uris, len(errors), spent(lab)) == (2, [], 1, 0)
