from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import URL_VARIABLE, Exit, app, run
from tests.support.ledgers import commit, execute, new_ledger


class Said:
    def __init__(self, status: int, capsys: pytest.CaptureFixture[str]) -> None:
        self.status = status
        self.out, self.err = capsys.readouterr()


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setenv(URL_VARIABLE, url)
    return url


@pytest.fixture
def dp_budget(url: str, capsys: pytest.CaptureFixture[str]):
    return lambda *arguments: Said(run(app, arguments), capsys)


@pytest.fixture
def ledger(url: str) -> PrivacyLedger:
    ledger = new_ledger(Path(url.removeprefix("sqlite:///")))
    ledger.open_account("visits", epsilon="2", tables=["/lake/visits"], actor="admin")
    charges = [ledger.reserve("visits", release=f"r{i}", epsilon="0.25", actor="dag/task") for i in range(4)]
    commit(ledger, charges[0].id, "ab")
    ledger.burn(charges[1].id)
    ledger.void(charges[2].id, reason="given up")
    return ledger


def test_ledger_is_made_and_opened_from_the_command_line(dp_budget, url: str) -> None:
    made = dp_budget("migrate")
    assert (made.status, made.out, made.err) == (0, f"the ledger {url} is ready\n", "")
    assert dp_budget("migrate").status == 0

    opened = dp_budget(
        *("open", "visits", "--epsilon", "2.50", "--table", "/lake/a", "--table", "/lake/b"),
        *("--neighbours", "replace_one", "--unit-column", "person", "--max-rows", "3", "--actor", "admin"),
        *("--output", "s3a://releases/visits", "--output", "/releases"),
    )
    assert opened.status == 0
    said = "account visits is open: epsilon 2.5 in all, for file:///lake/a, file:///lake/b; its releases go to "
    more = "; before the first charge, bind the columns of file:///lake/a, file:///lake/b: `dp-budget bind`"
    assert opened.out == f"{said}file:///releases, s3://releases/visits{more}\n"
    account = PrivacyLedger(url).account("visits")
    assert account.outputs == ("file:///releases", "s3://releases/visits")
    assert (account.neighbours.value, account.unit.column, account.unit.max_rows) == ("replace_one", "person", 3)
    assert account.opened_by == "admin"


def test_show_prints_a_table(dp_budget, ledger: PrivacyLedger) -> None:
    said = dp_budget("show")
    assert said.status == 0
    assert said.out.splitlines() == [
        "account  cap  committed  burnt  reserved  remaining  protects  tables",
        "visits   2    0.25       0.25   0.25      1.25       a row     file:///lake/visits",
    ]
    assert dp_budget("show", "visits").out == said.out


def test_show_prints_json(dp_budget, ledger: PrivacyLedger) -> None:
    [account] = json.loads(dp_budget("show", "--json").out)
    assert account == json.loads(dp_budget("show", "visits", "--json").out)
    assert account["cap"] == {"epsilon": "2", "delta": "0"}
    assert account["blocks"] == {
        "all": {
            "reserved": {"epsilon": "0.25", "delta": "0"},
            "committed": {"epsilon": "0.25", "delta": "0"},
            "burnt": {"epsilon": "0.25", "delta": "0"},
            "remaining": {"epsilon": "1.25", "delta": "0"},
        }
    }
    assert account["tables"] == ["file:///lake/visits"]


def test_history_prints_charges_and_the_log(dp_budget, ledger: PrivacyLedger) -> None:
    lines = dp_budget("history", "visits").out.splitlines()
    assert [line.split()[2:6] for line in lines[1:]] == [
        ["committed", "epsilon", "0.25", "r0"],
        ["burnt", "epsilon", "0.25", "r1"],
        ["void", "epsilon", "0.25", "r2"],
        ["reserved", "epsilon", "0.25", "r3"],
    ]
    charges = json.loads(dp_budget("history", "visits", "--json").out)
    assert [charge["state"] for charge in charges] == ["committed", "burnt", "void", "reserved"]
    assert charges[0]["cost"] == {"epsilon": "0.25", "delta": "0"}
    assert charges[0]["manifest_sha256"] == "ab"

    log = dp_budget("history", "visits", "--log").out
    assert "given up" in log
    assert len(log.splitlines()) == 1 + 9
    entries = json.loads(dp_budget("history", "visits", "--log", "--json").out)
    assert entries[-1]["hash"] == ledger.head().hash


def test_verify_says_what_differs(dp_budget, ledger: PrivacyLedger, url: str) -> None:
    head = ledger.head()
    sound = dp_budget("verify")
    assert (sound.status, sound.out) == (Exit.DONE, f"the ledger is sound up to entry {head.seq}, {head.hash}\n")

    execute(url, "UPDATE block_totals SET epsilon = '0'")
    differs = dp_budget("verify")
    assert differs.status == Exit.FAILED
    assert differs.out == "total visits, all: epsilon is 0, the log says 0.75\n"
    told = json.loads(dp_budget("verify", "--json").out)
    assert told == {
        "sound": False,
        "head": {"seq": head.seq, "hash": head.hash},
        "findings": ["total visits, all: epsilon is 0, the log says 0.75"],
    }


def test_no_command_shows_the_help(dp_budget) -> None:
    said = dp_budget()
    assert said.status == 0
    for command in ("migrate", "open", "show", "history", "verify"):
        assert command in said.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nobody"], "account: got 'nobody'; must be an open account"),
        (["history", "nobody"], "account: got 'nobody'; must be an open account"),
        (["open", "new", "--epsilon", "0"], "epsilon: got '0'; must be above 0"),
        (["open", "new", "--epsilon", "-1"], "epsilon: got '-1'; must be above 0"),
        (["open", "new", "--epsilon", "nan"], "epsilon: got 'nan'; must be a finite decimal number"),
        (["open", "new", "--epsilon", "plenty"], "epsilon: got 'plenty'; must be a finite decimal number"),
        (["open", "new", "--epsilon", "1", "--delta", "1e-6"], "delta: got '1e-6'; cannot be used"),
        (["open", "new", "--epsilon", "1", "--composition", "zcdp"], "delta: got '0'; must be above 0"),
        (["open", "new", "--epsilon", "1", "--neighbours", "few"], "neighbours: got 'few'; must be one of"),
        (
            ["open", "new", "--epsilon", "1", "--unit-column", "p", "--max-rows", "0"],
            "max_rows: got 0; must be a whole number",
        ),
        (["open", "new", "--epsilon", "1", "--table", "/lake/visits"], "is bound to account visits"),
        (["open", "visits", "--epsilon", "3"], "is already open with another cap"),
        (["open", "new"], "epsilon: must be a finite decimal number"),
        (["open", "new", "--epsilon", "1", "--max-rows", "many"], "Invalid value for '--max-rows'"),
        (["spend"], "No such command 'spend'"),
        (["show", "--ledger", "mysql://u:secret@h/d"], "must be a PostgreSQL database or a SQLite file"),
        (["show", "--ledger", ""], "ledger: must be given; set DP_LEDGER_URL or use --ledger"),
    ],
)
def test_bad_input_ends_in_one_line_and_code_2(
    dp_budget, ledger: PrivacyLedger, arguments: list[str], message: str
) -> None:
    head = ledger.head()
    said = dp_budget(*arguments)
    assert said.status == Exit.REFUSED == 2
    assert said.out == ""
    assert said.err.startswith("dp-budget: ")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert "secret" not in said.err
    assert ledger.head() == head


def test_database_without_a_ledger_ends_in_one_line_and_code_2(dp_budget, url: str) -> None:
    said = dp_budget("show")
    assert said.status == Exit.REFUSED
    assert said.err == f"dp-budget: ledger: got '{url}'; has no privacy ledger; run `dp-budget migrate`\n"


def test_unreachable_ledger_ends_in_one_line_and_a_code_that_is_no_refusal(dp_budget) -> None:
    said = dp_budget("show", "--ledger", "postgresql://dp:secret@127.0.0.1:1/ledger")
    assert said.status == Exit.UNAVAILABLE == 3
    assert said.out == ""
    assert said.err.startswith("dp-budget: the ledger postgresql://dp@127.0.0.1:1/ledger cannot be used: ")
    assert said.err.count("\n") == 1
    assert "secret" not in said.err


def test_ledger_may_be_named_on_the_command_line(dp_budget, ledger: PrivacyLedger, url: str, monkeypatch) -> None:
    monkeypatch.delenv(URL_VARIABLE)
    assert "must be given" in dp_budget("show").err
    assert "visits" in dp_budget("show", "--ledger", url).out


@pytest.mark.slow
def test_program_ends_with_the_command_s_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dp_operators.cli", "show", "--ledger", f"sqlite:///{tmp_path}/none.db"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1


def test_show_tells_what_remains_for_a_kind_of_charge(dp_budget, ledger: PrivacyLedger) -> None:
    ledger.open_account("noisy", composition="zcdp", rho="0.5", delta="1e-6")
    ledger.reserve("noisy", release="r", rho="0.18")
    assert "rho 0.32" in dp_budget("show", "noisy").out
    assert " 0.8 " in dp_budget("show", "noisy", "--kind", "pure").out
    assert "rho 0.32" in dp_budget("show", "noisy", "--kind", "gaussian").out
    shown = json.loads(dp_budget("show", "noisy", "--kind", "pure", "--json").out)
    assert shown["blocks"]["all"]["remaining"] == {"epsilon": "0.8", "delta": "0", "rho": "0.32"}
    assert "kind: got 'many'; must be one of pure, gaussian, approximate" in dp_budget("show", "--kind", "many").err


def test_show_tells_what_charges_cost_if_decided_beforehand_only_if_asked(dp_budget, ledger: PrivacyLedger) -> None:
    assert "beforehand" not in dp_budget("show").out
    assert "0.75 at 0.000001" in dp_budget("show", "--tight").out
    shown = json.loads(dp_budget("show", "visits", "--tight", "--json").out)
    assert shown["blocks"]["all"]["if_decided_beforehand"]["delta"] == "0.000001"
