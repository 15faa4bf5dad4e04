"""``max_rows: auto`` by the command line and a real Spark."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dp_operators import cli
from dp_operators.budget.cli import run
from spark_jobs.contract import Release
from spark_jobs.contract.privacy import PrivacyUnit
from tests.support.commands import Command

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("command", "shared_java")]

COLUMNS = {"person": "string", "region": "string in ('north', 'south')"}
TABLE = {"snapshot": {"path_version": "v1"}}
AUTO = [{"kind": "aggregates", "by": ["region"], "max_rows": "auto"}]


def rows() -> pd.DataFrame:
    """Persons with 1 to 5 rows each, and one with 400."""
    random = np.random.default_rng(8)
    person = np.repeat([f"p{number}" for number in range(1000)], [*random.integers(1, 6, 999), 400])
    return pd.DataFrame({"person": person, "region": random.choice(["north", "south"], person.size)})


@pytest.fixture
def account(command: Command, tmp_path: Path) -> Command:
    (tmp_path / "lake" / "v1").mkdir(parents=True)
    rows().to_parquet(tmp_path / "lake" / "v1" / "part-0.parquet")
    command.open(str(tmp_path / "lake"), columns=COLUMNS, unit=PrivacyUnit(column="person", max_rows=100))
    return command


def test_a_bound_is_chosen_then_used_and_both_are_paid_once(account: Command) -> None:
    status, lines, errors = account.run(TABLE, diagnostics=AUTO)
    assert status == 0, errors
    release = Release.from_json((Path(lines[-1]) / "release.json").read_bytes())
    used = release.request["diagnostics"][0]["max_rows"]
    assert 4 <= used["rows"] <= 8
    chosen = Release.from_json((Path(used["release"].removeprefix("file://")) / "release.json").read_bytes())
    assert chosen.results["rows_per_unit"]["bound"] == used["rows"]
    assert used["epsilon"] == "22.5"
    assert float(release.cost.epsilon + chosen.cost.epsilon) == pytest.approx(50)
    said = f"At most {used['rows']} rows of each person are used, as release {used['released_by']} chose"
    assert said in " ".join(release.assumptions)
    report = (Path(lines[-1]) / "report.html").read_text()
    assert "together they keep the promise of" in report
    kept = rows().groupby("person").size().clip(upper=used["rows"]).sum()
    assert sum(release.results["aggregates"]["count"]) == pytest.approx(kept, abs=20)
    again = account.run(TABLE, diagnostics=AUTO)
    assert again[:2] == (0, lines)
    ledger = account.lab.ledger()
    assert ledger.remaining("rows").epsilon == 50
    assert len(ledger.history("rows")) == 2
    ledger.close()


def test_a_dry_run_says_what_each_of_the_two_costs(account: Command) -> None:
    fields = {"account": "rows", "table": TABLE, "diagnostics": AUTO, "budget": {"epsilon": "2"}}
    file = account.lab.folder / "request.json"
    file.write_text(json.dumps(fields))
    account.capture.readouterr()
    assert run(cli.app, ["run", str(file), "--output", account.lab.output, "--dry-run", "--rows", "4000"]) == 0
    lines = account.capture.readouterr().out.splitlines()
    assert lines[0] == "would charge epsilon 2 to rows, which has 100 left"
    assert "  epsilon 0.9 for the choice of max_rows, 1 to 100, in a release of its own" in lines
    assert any(line.startswith("  epsilon 1.1 for the table") for line in lines)
    ledger = account.lab.ledger()
    assert ledger.history("rows") == ()
    ledger.close()


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"max_rows_limit": 0}, "max_rows_limit: got 0"),
        ({"max_rows_limit": 101}, "must be at most unit.max_rows, which is 100"),
        ({"max_rows_share": 0.7}, "max_rows_share: got '0.7'; must be above 0 and at most 0.5"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_charged(account: Command, entry: dict, line: str) -> None:
    account.refuses(TABLE, line, diagnostics=[{**AUTO[0], **entry}])


def test_an_account_of_one_row_allows_no_choice(command: Command, tmp_path: Path) -> None:
    (tmp_path / "lake" / "v1").mkdir(parents=True)
    rows().to_parquet(tmp_path / "lake" / "v1" / "part-0.parquet")
    command.open(str(tmp_path / "lake"), columns=COLUMNS, unit=PrivacyUnit(column="person", max_rows=1))
    command.refuses(TABLE, "must be left out if the account allows only one row of a unit", diagnostics=AUTO)


def test_an_account_of_rows_allows_no_choice(command: Command, tmp_path: Path) -> None:
    (tmp_path / "lake" / "v1").mkdir(parents=True)
    rows().to_parquet(tmp_path / "lake" / "v1" / "part-0.parquet")
    command.open(str(tmp_path / "lake"), columns=COLUMNS)
    command.refuses(TABLE, "must be left out where every row is a unit of its own", diagnostics=AUTO)
