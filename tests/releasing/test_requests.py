"""Bad requests: one clear line, nothing charged, nothing written, nothing run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from dp_operators.budget import BudgetExceeded, LedgerUnavailable, PrivacyLedger
from dp_operators.releasing import account_state, check_request, price
from spark_jobs.contract import Budget, InvalidRequest, Neighbours, PrivacyUnit
from tests.support.accounts import bound
from tests.support.release_lab import ForkRunner, make_request

BAD = {
    "no account": ({"account": None}, "account: is required"),
    "unknown account": ({"account": "nobody"}, "account"),
    "table bound to none": (
        {"table": {"path": "/lake/other", "snapshot": {"path_version": "v1"}}},
        "must be bound to an account",
    ),
    "table bound to another account": (
        {"table": {"path": "/lake/theirs", "snapshot": {"path_version": "v1"}}},
        "is bound to account others",
    ),
    "text of one table, rows of another": (
        {"table": {"format": "parquet", "path": "/lake/visits#/../theirs", "snapshot": {"path_version": "v1"}}},
        "table.path: got '/lake/visits#/../theirs'; must not contain any of",
    ),
    "version of another table": (
        {"table": {"format": "parquet", "path": "/lake/visits", "snapshot": {"path_version": "../theirs"}}},
        "table.snapshot.path_version: got '../theirs'; must be a plain relative path below",
    ),
    "relative path": (
        {"table": {"format": "parquet", "path": "lake/visits", "snapshot": {"path_version": "v1"}}},
        "table.path: got 'lake/visits'; must be an absolute path or a URI",
    ),
    "folder around the bound table": (
        {"table": {"format": "parquet", "path": "/lake", "snapshot": {"path_version": "visits"}}},
        "must be bound to an account",
    ),
    "folder within the bound table": (
        {"table": {"format": "parquet", "path": "/lake/visits/v1", "snapshot": {"path_version": "day=1"}}},
        "must be bound to an account",
    ),
    "another relation": ({"neighbours": "replace_one"}, "which is add_remove"),
    "another unit": ({"unit": {"column": "person", "max_rows": 3}}, "which is one row of the table"),
    "unknown block": ({"blocks": ["2026-11"]}, "block"),
    "above the cap": ({"budget": {"epsilon": "10.5"}}, "has 10 of 10 left"),
    "store without exclusive create": ({"output": "memory://releases"}, "must be a path or a URI of"),
    "folder that is not its": ({"output": "/proc/no/such"}, "must lie within a folder of account people"),
}


@pytest.fixture
def ledger(lab):
    ledger = lab.ledger()
    lab.open_account("others", "/lake/theirs")
    yield ledger
    ledger.close()


@pytest.mark.parametrize("case", BAD)
def test_bad_request_is_refused_in_one_line_and_leaves_no_trace(lab, ledger, case):
    changes, words = BAD[case]
    before = ledger.head()
    runner = ForkRunner()
    with pytest.raises(InvalidRequest, match=words) as refused:
        lab.release(request=make_request(**{"output": lab.output, **changes}), runner=runner)
    assert "\n" not in str(refused.value)
    assert ledger.head() == before
    assert runner.runs == 0
    assert not list(Path(lab.output).rglob("*.json"))


def test_folder_that_cannot_be_written_costs_nothing(lab, ledger):
    ledger.bind_outputs("people", ["/proc/no/such/folder"], actor="admin", reason="by mistake")
    before = ledger.head()
    with pytest.raises(InvalidRequest, match="must be a folder that can be written"):
        lab.release(request=make_request("/proc/no/such/folder"), runner=ForkRunner())
    assert ledger.head() == before


OUTPUTS = {
    "a folder that its author can write": ("{folder}/mine", "must lie within a folder of account people"),
    "above the account's": ("{folder}", "must lie within a folder of account people"),
    "beside it": ("{output}2", "must lie within a folder of account people"),
    "out of it again": ("{output}/../mine", "must not contain '.' or '..' as the name of a folder"),
    "another account's table": ("/lake/theirs/v2", "must lie within a folder of account people"),
    "a link out of it": ("{output}/link", "must not lead through a symbolic link"),
    "another store": ("s3://releases", "must lie within a folder of account people"),
    "with a fragment": ("{output}/x#", "must not contain any of"),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_releases_go_where_their_account_says_and_nowhere_else(lab, ledger, case):
    where, words = OUTPUTS[case]
    Path(lab.output).mkdir()
    (Path(lab.output) / "link").symlink_to(lab.folder)
    before, runner = ledger.head(), ForkRunner()
    with pytest.raises(InvalidRequest, match=words) as refused:
        lab.release(request=make_request(where.format(folder=lab.folder, output=lab.output)), runner=runner)
    assert refused.value.field == "output"
    assert "\n" not in str(refused.value)
    assert (ledger.head(), runner.runs) == (before, 0)
    assert not list(lab.folder.rglob("*.json"))


@pytest.mark.parametrize("below", ["", "/", "/2026/11", "//2026"])
def test_a_release_goes_to_its_accounts_folder_or_below_it(lab, below):
    published = lab.release(request=make_request(f"file://{lab.output}{below}"))
    assert published.uri.startswith(f"{lab.output}{below.rstrip('/').replace('//', '/')}/prod-dag")
    assert Path(published.uri, "release.json").exists()


def test_account_that_was_opened_without_outputs_is_charged_for_nothing(lab, ledger):
    ledger.open_account("earlier", epsilon=1, tables=[bound("/lake/earlier")])
    table = {"path": "/lake/earlier", "snapshot": {"path_version": "v1"}}
    request = make_request(f"{lab.folder}/earlier", account="earlier", table=table)
    before, runner = ledger.head(), ForkRunner()
    with pytest.raises(InvalidRequest, match="has no folder for its releases yet; .*`dp-budget bind-outputs earlier /"):
        lab.release(request=request, runner=runner)
    assert (ledger.head(), runner.runs) == (before, 0)
    ledger.bind_outputs("earlier", [f"{lab.folder}/earlier"], actor="admin", reason="opened before")
    assert lab.release(request=request).cost.epsilon == 1


def test_exceeded_budget_is_told_as_such(lab):
    with pytest.raises(BudgetExceeded):
        lab.release(request=make_request(lab.output, budget={"epsilon": "11"}))


def test_runner_that_is_not_configured_right_costs_nothing(lab, ledger):
    class Broken(ForkRunner):
        def check(self, request):
            raise InvalidRequest("binary", None, "must be there", "install it")

    before = ledger.head()
    with pytest.raises(InvalidRequest, match="binary"):
        lab.release(runner=Broken())
    assert ledger.head() == before


def test_ledger_out_of_reach_fails_closed(lab):
    runner = ForkRunner()
    with closing(sqlite3.connect(f"{lab.folder}/ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerUnavailable):
            lab.release(ledger=PrivacyLedger(lab.url, patience=0.1), runner=runner)
    assert runner.runs == 0
    assert not Path(lab.output).exists()


def test_database_without_a_ledger_is_refused(lab):
    with pytest.raises(InvalidRequest, match="ledger"):
        lab.release(ledger=PrivacyLedger(f"sqlite:///{lab.folder}/empty.db"))
    assert not Path(lab.output).exists()


def test_check_request_gives_the_account_and_touches_nothing(lab, ledger):
    before = ledger.head()
    assert check_request(lab.request, ledger).name == "people"
    assert ledger.head() == before
    assert not Path(lab.output).exists()


def test_a_link_to_another_table_is_refused_before_anything_is_charged(lab, ledger, tmp_path):
    (tmp_path / "secret" / "v1").mkdir(parents=True)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "v1").symlink_to(tmp_path / "secret" / "v1")
    output = lab.open_account("toy", f"{tmp_path}/toy")
    table = {"path": f"{tmp_path}/toy", "snapshot": {"path_version": "v1"}}
    before, runner = ledger.head(), ForkRunner()
    with pytest.raises(InvalidRequest, match=r"^table.path: got .* must not lead through a symbolic link"):
        lab.release(request=make_request(output, account="toy", table=table), runner=runner)
    assert ledger.head() == before
    assert runner.runs == 0


@pytest.mark.parametrize("path", ["/lake/visits", "file:///lake//visits/", "FILE://localhost/lake/visits"])
def test_check_request_knows_a_table_by_any_spelling(lab, ledger, path):
    table = {"path": path, "snapshot": {"path_version": "v1"}}
    assert check_request(make_request(lab.output, table=table), ledger).name == "people"


def test_price_is_the_whole_budget_whatever_a_unit_owns(lab):
    request = make_request(lab.output, unit={"column": "person", "max_rows": 5}, budget={"epsilon": "0.7"})
    assert price(request) == Budget("0.7")


def test_account_of_another_unit_and_relation_is_charged_for_its_own(lab, ledger):
    unit = PrivacyUnit(column="person", max_rows=2)
    output = lab.open_account("units", "/lake/u", unit=unit, neighbours=Neighbours.REPLACE_ONE)
    table = {"path": "/lake/u", "snapshot": {"path_version": "v1"}}
    request = make_request(output, account="units", table=table, unit=unit, neighbours="replace_one")
    assert lab.release(request=request).cost.epsilon == 1


LINE = {"kind": "linear_regression", "x": "a", "y": "b", "x_bounds": [0, 1], "y_bounds": [0, 1], "public_sizes": True}


def test_sizes_that_are_never_public_may_be_declared_in_vain(lab, ledger):
    """Where rows are added and removed the word means nothing, in the request or in the account."""
    request = make_request(lab.output, label=None, model=None, diagnostics=[LINE])
    assert check_request(request, ledger).name == "people"


def test_account_state_adds_up(lab, ledger):
    ledger.reserve("people", release="earlier", epsilon="2.5")
    charge = ledger.reserve("people", release="this", epsilon="1")
    ledger.reserve("people", release="later", epsilon="0.25")
    state = account_state(ledger, charge)
    assert state.cap == Budget("10")
    assert state.charged == Budget("1")
    assert state.remaining == Budget("6.25")
    assert state.spent_before == Budget("2.75")


def test_account_state_of_costs_with_many_digits_can_be_read_back(lab, ledger):
    charge = ledger.reserve("people", release="this", epsilon="0." + "1" * 29)
    state = account_state(ledger, charge)
    assert type(state).parse(state.model_dump(mode="json")) == state
    assert state.remaining.epsilon + state.charged.epsilon + state.spent_before.epsilon == Decimal(10)


def test_account_state_of_a_charge_given_back_meanwhile_is_not_below_zero(lab, ledger):
    charge = ledger.reserve("people", release="this", epsilon="1")
    ledger.void(charge.id)
    assert account_state(ledger, charge).spent_before == Budget("0")
