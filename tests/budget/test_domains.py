"""An account binds what the columns of its tables may hold, and every change is an entry of its log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import URL_VARIABLE, run
from dp_operators.cli import app
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.binding import TableBinding
from tests.support.ledgers import new_ledger, tamper

TABLE = "file:///lake/customers"
BINDING = {
    "table": TABLE,
    "format": "parquet",
    "columns": {"age": "int between 0 and 120", "churned": "string", "region": "string"},
    "version": {"by": "path_version"},
}
WHO = {"actor": "dpo", "reason": "the questionnaire"}


def domains(ledger: PrivacyLedger) -> dict[str, str | None]:
    binding = TableBinding.parse(ledger.account("customers").bindings[TABLE])
    return {column.name: None if column.domain is None else str(column.domain) for column in binding.columns}


def test_a_change_of_domains_is_an_entry_of_the_log(ledger: PrivacyLedger) -> None:
    ledger.open_account("customers", epsilon="1", tables=[BINDING], actor="admin")
    changes = {"churned": "in ('yes', 'no')", "age": None}
    changed = ledger.change_domains("customers", "/lake/customers", changes, **WHO)
    assert changed == ledger.account("customers") == ledger.change_domains("customers", TABLE, changes, **WHO)
    assert domains(ledger) == {"age": None, "churned": "in ('yes', 'no')", "region": None}
    entry = ledger.log()[-1]
    assert (entry.action, entry.actor, entry.reason) == ("domains changed", "dpo", "the questionnaire")
    assert json.loads(entry.details) == {"table": TABLE, "domains": changes}
    assert len(ledger.log()) == 2
    assert ledger.verification().findings == ()


def test_a_domain_that_was_changed_beside_the_log_is_found(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.open_account("customers", epsilon="1", tables=[BINDING], actor="admin")
    ledger.change_domains("customers", TABLE, {"churned": "in ('yes', 'no')"}, **WHO)
    text = "UPDATE account_tables SET binding = replace(binding, '0 and 120', '0 and 99')"
    tamper(f"sqlite:///{tmp_path}/ledger.db", text)
    assert ledger.verification().findings != ()


def test_what_cannot_be_a_domain_there_changes_nothing(ledger: PrivacyLedger) -> None:
    ledger.open_account("customers", epsilon="1", tables=[BINDING], actor="admin")
    head = ledger.head()
    for table, changes, said in (
        (TABLE, {"region": "in @regions"}, "must name a key list that is registered"),
        (TABLE, {"age": "in ('a')"}, "must be a domain of values of"),
        (TABLE, {"aeg": "logit"}, "did you mean 'age'"),
        (TABLE, {"age": "banana"}, "domain of age: got 'banana'"),
        (TABLE, {}, "must name at least one column"),
        ("/lake/others", {"age": None}, "must have its columns bound to account customers"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            ledger.change_domains("customers", table, changes, **WHO)
    with pytest.raises(InvalidRequest, match="reason"):
        ledger.change_domains("customers", TABLE, {"age": None}, actor="dpo", reason="")
    assert ledger.head() == head
    ledger.register_keys("customers", "regions", ["north", "south"], actor="dpo")
    ledger.change_domains("customers", TABLE, {"region": "in @regions"}, **WHO)
    assert domains(ledger)["region"] == "in @regions"


@pytest.mark.parametrize(
    "columns", [[{"name": "g", "type": "string banana"}], {"g": "string banana"}, {"g": "banana"}]
)  # fmt: skip
def test_a_type_that_no_engine_knows_is_bound_by_no_way(ledger: PrivacyLedger, columns: object) -> None:
    with pytest.raises(InvalidRequest, match="columns"):
        ledger.open_account("customers", epsilon="1", tables=[{**BINDING, "columns": columns}])


@pytest.fixture
def dp_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv(URL_VARIABLE, f"sqlite:///{tmp_path}/ledger.db")
    new_ledger(tmp_path / "ledger.db").close()

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(app, list(arguments))
        return (int(status), *capsys.readouterr())

    return call


def test_the_command_line_writes_shows_and_changes_domains(dp_budget) -> None:
    columns = "age int between 0 and 120, churned string in ('yes', 'no') public, `net, USD` double"
    opened = dp_budget(
        "open", "customers", "--epsilon", "1", "--table", "/lake/customers", "--columns", columns, "--yes"
    )
    assert opened[0] == 0
    assert "  churned   string in ('yes', 'no')  public" in opened[2]
    shown = dp_budget("domains", "customers")
    assert shown[1].splitlines() == [
        f"table {TABLE}",
        "  age       int between 0 and 120",
        "  churned   string in ('yes', 'no')  public",
        "  net, USD  double",
    ]  # fmt: skip
    status, _, err = dp_budget("domains", "customers", "--set", "age between 0 and 100")
    assert (status, "reason" in err) == (2, True)
    why = ("--reason", "the new form", "--actor", "dpo")
    status, out, _ = dp_budget(
        "domains", "customers", "--set", "age between 0 and 100", "--set", "`net, USD` between 0 and 9 log", *why
    )
    assert (status, "  age       int between 0 and 100" in out, "double between 0 and 9 log" in out) == (0, True, True)
    assert "age       int\n" in dp_budget("domains", "customers", "--drop", "age", *why)[1]
    # a later binding keeps the domains of which it says nothing
    status, _, err = dp_budget("bind", "customers", "--rows-per-unit", "3", "--yes", *why)
    assert (status, "double between 0 and 9 log" in err) == (0, True)
    status, _, err = dp_budget(
        "bind", "customers", "--columns", "age int, churned string, `net, USD` double, g int in (1, 2)", "--yes", *why
    )
    assert (status, "string in ('yes', 'no')" in err, "g         int in (1, 2)" in err) == (0, True, True)
    assert dp_budget("verify")[0] == 0


def test_words_that_are_no_type_are_refused_with_exit_2(dp_budget) -> None:
    for columns in (
        "g string banana, v double",
        "g string, v double not null comment 'x'",
        "v double between 0 and 1 step 3",
    ):
        status, out, err = dp_budget("open", "c", "--epsilon", "1", "--table", "/lake/c", "--columns", columns, "--yes")
        assert (status, out, err.count("\n")) == (2, "", 1)
    assert "customers" not in dp_budget("show")[1]
