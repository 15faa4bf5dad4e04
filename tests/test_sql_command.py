"""``dp-budget sql``: it shows and asks before it charges, answers from the release, and finds it again for nothing."""

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
from spark_jobs.contract.sql.statement import SqlStatement
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums
from tests.support import fake_application
from tests.support.release_lab import Lab, accept

pytestmark = pytest.mark.slow

ADULT = "CASE WHEN age >= 18 THEN 1 ELSE 0 END"
TEXT = f"SELECT COUNT(*) AS n, AVG({ADULT}) AS adult FROM people VERSION AS OF 'v1'"
Sql = Callable[..., tuple[int, list[str], list[str]]]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def sql(lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sql:
    """Asks a statement; gives exit code, lines of output and lines of errors."""
    sums = AggregateSums.from_arrays(
        {ADULT: np.repeat([0.0, 1.0], [100, 300])},
        by=[],
        measures=[{"of": ADULT, "bounds": [0, 1], "figures": ["mean"]}],
    )
    result = aggregates.release(sums, epsilon="1", noise=SeededNoise(1)).to_dict()
    found = lab.folder / "found.json"
    found.write_text(json.dumps({"results": {"aggregates": result}}, allow_nan=False))
    monkeypatch.setenv("DP_FAKE_FOUND", str(found))
    command = (sys.executable, fake_application.__file__)
    monkeypatch.setattr(dp_operators.releasing, "LocalRunner", functools.partial(LocalRunner, command=command))
    monkeypatch.setattr(release_check, "check_release", accept)

    def ask(text: str, *options: str) -> tuple[int, list[str], list[str]]:
        capsys.readouterr()
        private = ("--private-dir", f"{lab.folder}/private", "--ledger", lab.url)
        status = run(cli.app, ["sql", text, "--epsilon", "1", *private, *options])
        printed = capsys.readouterr()
        return status, printed.out.splitlines(), printed.err.splitlines()

    return ask


def test_without_an_answer_it_shows_the_request_and_its_price_and_charges_nothing(lab: Lab, sql: Sql) -> None:
    status, out, errors = sql(TEXT)
    assert (status, out) == (0, [])
    assert f"  - of: {ADULT}" in errors
    assert any(line.startswith("would charge epsilon 1 to people") for line in errors)
    assert f"  from the account: diagnostics.aggregates.measures.{ADULT}.bounds [0.0, 1.0]" in errors
    assert any("aggregates: mean of" in line for line in errors), "the width that it would buy"
    assert errors[-1] == "nothing was charged; add --yes to release it"
    assert lab.charges() == ()


def test_it_answers_from_the_release_and_another_order_of_it_costs_nothing(lab: Lab, sql: Sql) -> None:
    status, out, _ = sql(TEXT, "--yes", "--csv")
    assert status == 0
    assert out[0] == "n,n_lower,n_upper,adult,adult_lower,adult_upper"
    n, _, _, adult, lower, upper = (float(cell or "nan") for cell in out[1].split(","))
    assert n == pytest.approx(400, abs=20)
    assert lower <= 0.75 <= upper
    status, out, errors = sql(f"SELECT AVG({ADULT}) * 100 AS percent, COUNT(*) FROM people VERSION AS OF 'v1' LIMIT 1")
    assert status == 0
    assert float(out[1].split()[0]) == pytest.approx(100 * adult, rel=1e-4)
    assert any(line.startswith("found: this release was made") for line in errors)
    [charge] = lab.charges()
    assert str(charge.cost.epsilon) == "1"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SELECT MAX(age) FROM people VERSION AS OF 'v1'", "the function MAX"),
        ("SELECT region, COUNT(*) FROM people VERSION AS OF 'v1' GROUP BY region", "region"),
        ("SELECT AVG(age) FROM people VERSION AS OF 'v1'", "age.bounds"),
        ("SELECT COUNT(*) FROM others VERSION AS OF 'v1'", "others"),
        ("SELECT COUNT(*) FROM people", "snapshot"),
        ("SELECT COUNT(DISTINCT age) FROM people VERSION AS OF 'v1'", "must be the unit's column"),
        (
            "SELECT COUNT(*) FROM people VERSION AS OF 'v1' GROUP BY FLOOR(age / 10) * 10",
            "the account declares a range of numbers",
        ),
        ("SELECT AVG(CASE WHEN nobody > 1 THEN 1 ELSE 0 END) FROM people VERSION AS OF 'v1'", "nobody"),
    ],
)
def test_what_cannot_be_answered_costs_nothing(lab: Lab, sql: Sql, text: str, named: str) -> None:
    status, out, errors = sql(text, "--yes")
    assert (status, out) == (2, [])
    assert named in errors[-1]
    assert lab.charges() == ()


def test_the_request_of_a_statement_is_the_same_in_every_spelling() -> None:
    fields = SqlStatement.parse(TEXT).fields(epsilon="1")
    assert SqlStatement.parse(TEXT.replace("SELECT", "select").replace(" AS n", " total")).fields(epsilon="1") == fields
