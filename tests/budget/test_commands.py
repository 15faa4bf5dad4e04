"""The commands of whoever answers for the ledger."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from dataclasses import asdict
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import URL_VARIABLE, run
from dp_operators.cli import app
from tests.support.ledgers import new_ledger

NOWHERE = "; its releases go to no folder yet\n"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PrivacyLedger:
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setenv(URL_VARIABLE, url)
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.open_account("visits", epsilon="2", blocks="day(at)", actor="admin")
    ledger.reserve("visits", release='a, or "b"', epsilon="0.5", blocks=["2026-11-20", "2026-11-21"])
    return ledger


@pytest.fixture
def dp_budget(ledger: PrivacyLedger, capsys: pytest.CaptureFixture[str]):
    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(app, [str(argument) for argument in arguments])
        return (int(status), *capsys.readouterr())

    return call


def test_cap_is_raised_with_a_reason(dp_budget, ledger: PrivacyLedger) -> None:
    assert dp_budget("raise", "visits", "--epsilon", "3")[0] == 2
    status, out, _ = dp_budget("raise", "visits", "--epsilon", "3", "--reason", "decided", "--actor", "dpo")
    assert (status, out) == (0, "account visits has a cap of epsilon 3\n")
    assert (ledger.log()[-1].actor, ledger.log()[-1].reason) == ("dpo", "decided")


def test_an_account_opened_earlier_is_bound_to_where_its_releases_go(dp_budget, ledger: PrivacyLedger) -> None:
    ledger.open_account("tables", epsilon=1, tables=["/lake/visits"])
    why = ("--reason", "opened before", "--actor", "dpo")
    assert dp_budget("bind-outputs", "visits", "/releases/visits", "s3a://r/v/", *why) == (
        0, "releases of account visits go to file:///releases/visits, s3://r/v\n", "",
    )  # fmt: skip
    assert json.loads(dp_budget("show", "visits", "--json")[1])["outputs"] == ["file:///releases/visits", "s3://r/v"]
    head = ledger.head()
    status, out, err = dp_budget("bind-outputs", "tables", "/lake/visits/out", *why)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(
        "dp-budget: output: got 'file:///lake/visits/out'; must not contain, or lie within, table file:///lake/visits"
    )
    assert ledger.head() == head
    assert ledger.verification().findings == ()


def test_account_says_whether_who_asks_may_approve(dp_budget, ledger: PrivacyLedger) -> None:
    why = ("--reason", "a team of one", "--actor", "dpo")
    assert dp_budget("approvals", "visits", "--by-requester")[0] == 2
    assert dp_budget("approvals", "visits", *why)[0] == 2
    assert not ledger.account("visits").requester_approves
    line = "whoever asks for a higher cap of account visits may approve it\n"
    for _ in range(2):
        assert dp_budget("approvals", "visits", "--by-requester", *why) == (0, line, "")
    assert json.loads(dp_budget("show", "visits", "--json")[1])["requester_approves"] is True
    entry = ledger.log()[-1]
    assert (entry.seq, entry.action, entry.actor, entry.reason) == (3, "approvals set", "dpo", "a team of one")
    assert ledger.open_account("visits", epsilon="2", blocks="day(at)").requester_approves
    assert dp_budget("approvals", "visits", "--not-by-requester", *why)[1].endswith("may not approve it\n")
    assert ledger.verification().findings == ()


def test_a_table_is_bound_when_it_was_confirmed(
    dp_budget, ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    opened = ("open", "tracts", "--epsilon", "1", "--table", "/lake/tracts")
    said = ("--columns", "tract string, a double, v string", "--version-column", "v")
    before = ledger.head()
    status, _, err = dp_budget(*opened, *said)
    assert (status, ledger.head()) == (2, before)
    assert "binding: was not confirmed, and nothing was written" in err
    assert "tract  string" in err
    status, out, err = dp_budget(*opened, *said, "--public-column", "tract", "--yes")
    assert status == 0
    assert out == "account tracts is open: epsilon 1 in all, for file:///lake/tracts" + NOWHERE
    assert "tract  string  public" in err
    binding = json.loads(dp_budget("show", "tracts", "--json")[1])["bindings"]["file:///lake/tracts"]
    assert binding["version"] == {"by": "partition", "columns": ["v"], "folders": 1}
    assert binding["public_columns"] == ["tract"]


def test_accounts_opened_earlier_are_bound_and_gain_public_columns(dp_budget, ledger: PrivacyLedger) -> None:
    assert (
        "bind the columns of file:///lake/t: `dp-budget bind`"
        in dp_budget("open", "t", "--epsilon", "1", "--table", "/lake/t")[1]
    )
    who = ("--reason", "why", "--actor", "dpo", "--yes")
    assert dp_budget("bind", "t", *who)[0] == 2
    assert dp_budget("bind", "t", "--columns", "id int, region string", *who)[0] == 0
    assert dp_budget("bind", "t", "--public-column", "region", *who)[:2] == (
        0,
        "table file:///lake/t is bound to account t with 2 columns\n",
    )
    head = ledger.head()
    assert dp_budget("bind", "t", "--columns", "id double, region string", *who)[0] == 2
    assert dp_budget("bind", "visits", "--columns", "id int", *who)[0] == 2
    assert ledger.head() == head
    assert ledger.account("t").bindings["file:///lake/t"]["public_columns"] == ["region"]


def test_allotment_is_made_and_raised(dp_budget, ledger: PrivacyLedger) -> None:
    assert dp_budget("allot", "visits", "team", "--epsilon", "1")[1] == (
        "sub-budget team of account visits has a cap of epsilon 1\n"
    )
    said = dp_budget("raise", "visits", "--allotment", "team", "--epsilon", "1.5", "--reason", "r")
    assert said[1] == "sub-budget team has a cap of epsilon 1.5\n"
    assert json.loads(dp_budget("show", "visits", "--json")[1])["allotments"] == {
        "team": {"epsilon": "1.5", "delta": "0"}
    }


def test_account_with_blocks_is_opened_and_shown(dp_budget, ledger: PrivacyLedger) -> None:
    said = dp_budget("open", "new", "--epsilon", "1", "--blocks", "value(region: north, south)")
    assert (
        said[1]
        == "account new is open: epsilon 1 in each block of value(region: north, south), for no table yet" + NOWHERE
    )
    lines = dp_budget("show", "visits")[1].splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["visits", "2026-11-20", "2"], ["visits", "2026-11-21", "2"]]
    said = dp_budget("open", "z", "--composition", "zcdp", "--rho", "0.5", "--delta", "1e-6")
    assert "account z is open: rho 0.5 in all" in said[1]
    assert said[0] == 0
    assert dp_budget("show", "z")[1].splitlines()[1].split()[:3] == ["z", "rho", "0.5"]


def test_what_a_replacement_keeps_is_confirmed_and_shown(
    dp_budget, ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("open", "rows", "--epsilon", "1", "--neighbours", "replace_one", "--blocks", "day(at)")
    head = ledger.head()
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    status, _, err = dp_budget(*asked)
    assert status == 2
    assert "replaced by another of the same day(at), which is public. Is that what is meant?" in err
    assert "blocks: was not confirmed, and nothing was written" in err
    assert ledger.head() == head
    status, out, _ = dp_budget(*asked, "--yes")
    assert status == 0
    assert "in each block of day(at), a replacement being by another of the same day(at), which is public" in out
    kept = "the same day(at), which is public"
    assert json.loads(dp_budget("show", "rows", "--json")[1])["replaced_within"] == kept
    assert f"a row, replaced by another of {kept}" in dp_budget("show", "rows")[1]
    assert json.loads(dp_budget("show", "visits", "--json")[1])["replaced_within"] is None
    assert dp_budget("open", "one", "--epsilon", "1", "--neighbours", "replace_one")[0] == 0, "nothing to confirm"


def test_exported_log_reads_back_as_it_was_hashed(dp_budget, ledger: PrivacyLedger, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(dp_budget("export", "--format", "csv")[1])))
    entries = [asdict(entry) for entry in ledger.log()]
    assert [{**row, "seq": int(row["seq"])} for row in rows] == entries
    told = json.loads(dp_budget("export")[1])
    assert told["log"] == entries
    assert told["head"] == asdict(ledger.head())
    assert [charge["release"] for charge in told["charges"]] == ['a, or "b"']
    assert told["accounts"][0]["blocks"]["2026-11-20"]["remaining"] == {"epsilon": "1.5", "delta": "0"}
    assert dp_budget("export", "--output", tmp_path / "log.json")[0] == 0
    assert json.loads((tmp_path / "log.json").read_text()) == told
    assert "must be csv or json" in dp_budget("export", "--format", "xml")[2]
    assert "must be a writable file" in dp_budget("export", "--output", tmp_path / "no" / "log")[2]


def test_ledger_is_frozen_and_thawed(dp_budget, ledger: PrivacyLedger) -> None:
    assert dp_budget("freeze", "--reason", "restored")[0] == 0
    status, _, err = dp_budget("raise", "visits", "--epsilon", "3", "--reason", "r")
    assert (status, err.count("\n")) == (2, 1)
    assert "is frozen (restored) and can only be read" in err
    assert dp_budget("thaw", "--reason", "reconciled")[0] == 0
    assert ledger.frozen() == ""


def test_ledger_is_moved(dp_budget, ledger: PrivacyLedger, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path}/new.db"
    status, out, _ = dp_budget("move", "--to", target)
    assert status == 0
    assert out.startswith(f"the ledger is now {target}, sound up to entry 4, ")
    assert PrivacyLedger(target).history("visits") == ledger.history("visits")


def test_stale_reservations_are_listed_and_given_back(dp_budget, ledger: PrivacyLedger, tmp_path: Path) -> None:
    assert "reserved" not in dp_budget("stale")[1].splitlines()[1:]
    assert "reserved" in dp_budget("stale", "--hours", "0")[1].splitlines()[1]
    give_back = ("release-stale", "--output", tmp_path / "releases", "--reason", "r")
    too_soon = dp_budget(*give_back, "--hours", "0.5")
    assert (too_soon[0], "'--hours'" in too_soon[2]) == (2, True)
    nobody = dp_budget(*give_back, "--actor", "")
    assert (nobody[0], nobody[2]) == (2, "dp-budget: actor: must be given; name yourself with --actor\n")
    slip = dp_budget(*give_back)
    assert (slip[0], "must be a folder of releases, and this folder is empty" in slip[2]) == (2, True)
    (tmp_path / "releases").mkdir()
    (tmp_path / "releases" / "other").touch()
    assert dp_budget(*give_back)[:2] == (0, "")
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        connection.execute("UPDATE charges SET renewed_at = '2020-01-01T00:00:00.000000Z'")
    said = dp_budget(*give_back)
    assert (said[0], "stays reserved: it did not begin in this store" in said[1]) == (0, True)
    assert dp_budget("reconcile", "--output", tmp_path / "releases")[1] == "restored 0 charges, committed 0\n"
    assert "must be a folder that holds release.json" in dp_budget("check-release", tmp_path)[2]
    pruned = dp_budget("prune", "--output", tmp_path / "releases", "--days", "0", "--remove")
    assert pruned[:2] == (0, "0 files were removed\n")


def test_reservation_whose_store_is_lost_is_burnt(dp_budget, ledger: PrivacyLedger) -> None:
    [charge] = ledger.history("visits")
    assert dp_budget("burn", charge.id, "--reason", "lost", "--actor", "")[0] == 2
    said = dp_budget("burn", charge.id, "--reason", "the disk is lost", "--actor", "ops")
    assert said[:2] == (0, f"charge {charge.id} of epsilon 0.5 is burnt\n")
    assert (ledger.log()[-1].actor, ledger.log()[-1].reason) == ("ops", "the disk is lost")
    assert ledger.remaining("visits", "2026-11-20").epsilon == Decimal("1.5")
    assert dp_budget("burn", "none", "--reason", "lost")[0] == 2


def test_version_is_that_of_the_package(dp_budget) -> None:
    assert dp_budget("--version")[:2] == (0, f"dp-budget {version('airflow-provider-dp-diagnostics')}\n")
