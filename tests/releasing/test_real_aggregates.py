"""Tables of counts and means by the command line and a real Spark, from an account that says what its columns hold."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import r2_score

from dp_operators import cli
from dp_operators.budget.cli import run
from tests.support.commands import Command

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("command", "shared_java")]

COLUMNS = {
    "person": "string",
    "region": "string in ('north', 'south', 'east')",
    "age": "int between 0 and 120",
    "spend": "double between 0 and 500 step 0.01",
    "fitted": "double between 0 and 500",
    "at": "timestamp between '2025-01-01' and '2026-01-01'",
}
MEASURES = ["spend", {"of": "ABS(spend - fitted)", "bounds": [0, 100], "figures": ["mean"]}]
TABLE = {"snapshot": {"path_version": "v1"}}


def rows() -> pd.DataFrame:
    random = np.random.default_rng(8)
    number = 6000
    spend = np.round(np.clip(random.gamma(2, 40, number), 0, 700), 2)
    return pd.DataFrame(
        {
            "person": [f"p{place // 2}" for place in range(number)],
            "region": random.choice(["north", "south", "east", "west", None], number),
            "age": random.integers(0, 120, number).astype("int32"),
            "spend": np.where(random.random(number) < 0.02, np.nan, spend),
            "fitted": spend + random.normal(0, 20, number),
            "at": pd.Timestamp("2025-01-01", tz="UTC") + pd.to_timedelta(random.integers(0, 365, number), unit="D"),
        }
    )


@pytest.fixture
def account(command: Command, tmp_path: Path) -> Command:
    folder = tmp_path / "lake"
    (folder / "v1").mkdir(parents=True)
    rows().to_parquet(folder / "v1" / "part-0.parquet")
    command.open(str(folder), columns=COLUMNS)
    return command


def test_counts_sums_and_means_by_region_and_quarter(account: Command) -> None:
    by: list[Any] = ["region", {"column": "at", "every": "quarter"}]
    release = account.release(
        TABLE,
        diagnostics=[
            {"kind": "aggregates", "by": by, "measures": MEASURES},
            {"kind": "quantile", "column": "age", "weight": "0.1"},
        ],
        budget={"epsilon": "90"},
    )
    found, table = release.results["aggregates"], rows().dropna(subset=["spend"])
    assert found["keys"] == [["north", "south", "east", "other"], ["2025-Q1", "2025-Q2", "2025-Q3", "2025-Q4", "other"]]
    spend = table["spend"].clip(0, 500)
    residual = (table["spend"] - table["fitted"]).abs().clip(0, 100)
    groups = [
        table["region"].where(table["region"].isin(["north", "south", "east"]), "other"),
        "2025-Q" + table["at"].dt.quarter.astype(str),
    ]
    exact = pd.DataFrame({"spend": spend, "residual": residual}).groupby(groups).agg(["size", "sum", "mean"])
    means = {one["of"]: one for one in found["measures"] if one["name"] == "mean"}
    for region_place, region in enumerate(found["keys"][0]):
        for quarter_place, quarter in enumerate(found["keys"][1][:-1]):
            cell = region_place * 5 + quarter_place
            true = exact.loc[(region, quarter)]
            assert found["status"][cell] == "ok"
            assert found["count"][cell] == pytest.approx(true["spend"]["size"], abs=0.5)
            assert means["spend"]["values"][cell] == pytest.approx(true["spend"]["mean"], abs=0.5)
            assert means["ABS(spend - fitted)"]["values"][cell] == pytest.approx(true["residual"]["mean"], abs=0.2)
    assert found["status"][4] == "weak"
    assert sum(found["incomplete"]) == pytest.approx(len(rows()) - len(table), abs=1)
    (file,) = Path(str(release.request["output"]).removeprefix("file://")).glob("*/aggregates.parquet")
    assert pq.read_table(file).num_rows == 20


def test_errors_of_a_model_by_region(account: Command) -> None:
    errors = {"outcome": "spend", "prediction": "fitted", "largest_error": 60, "figures": ["mae", "rmse", "r2"]}
    within = {"outcome": "spend", "lower": "fitted - 20", "upper": "fitted + 20"}
    release = account.release(
        TABLE,
        diagnostics=[{"kind": "aggregates", "by": ["region"], "measures": [errors, within]}],
        budget={"epsilon": "90"},
    )
    result, table = release.results["aggregates"], rows().dropna(subset=["spend"])
    table["spend"], table["region"] = (
        table["spend"].clip(0, 500),
        table["region"].fillna("other").replace("west", "other"),
    )
    figures = {one["name"]: one["values"] for one in result["measures"]}
    assert list(figures) == ["mae", "rmse", "r2", "interval_coverage", "sd"]
    for place, region in enumerate(["north", "south", "east", "other"]):
        of = table[table["region"] == region]
        error = (of["spend"] - of["fitted"]).clip(-60, 60)
        exact = {
            "mae": error.abs().mean(), "rmse": np.sqrt((error**2).mean()),
            "r2": r2_score(of["spend"], of["spend"] - error), "interval_coverage": (error.abs() <= 20).mean(),
            "sd": of["spend"].std(ddof=0),
        }  # fmt: skip
        for name, value in exact.items():
            assert figures[name][place] == pytest.approx(value, rel=0.01)


def test_rows_of_a_person_are_bounded_as_in_other_kinds(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    (folder / "v1").mkdir(parents=True)
    rows().to_parquet(folder / "v1" / "part-0.parquet")
    command.open(str(folder), columns=COLUMNS, unit={"column": "person", "max_rows": 1})
    release = command.release(TABLE, diagnostics=[{"kind": "aggregates", "by": ["region"]}], budget={"epsilon": "90"})
    assert release.results["aggregates"]["rows"] == pytest.approx(3000, abs=1)


PERSONS = {"of": "person", "figures": ["units"]}


@pytest.mark.parametrize(
    ("measures", "limits"),
    [
        ([PERSONS], {}),
        ([PERSONS, {"of": "spend", "figures": ["mean"]}], {}),
        ([PERSONS], {"max_groups": 2, "max_rows_per_group": 1}),
        ([PERSONS], {"max_groups": 1, "max_rows_per_group": 2}),
    ],
    ids=["rows", "with a mean", "one row of each group", "one group"],
)
def test_distinct_persons_are_those_of_pandas(
    command: Command, tmp_path: Path, measures: list[Any], limits: dict[str, int]
) -> None:
    """Of persons with two rows: all of them where two groups may count, and each in one where one may."""
    folder, table = tmp_path / "lake", rows()
    (folder / "v1").mkdir(parents=True)
    table.to_parquet(folder / "v1" / "part-0.parquet")
    command.open(str(folder), columns=COLUMNS, unit={"column": "person", "max_rows": 3})
    entry = {"kind": "aggregates", "by": ["region"], "measures": measures, **limits}
    release = command.release(TABLE, diagnostics=[entry], budget={"epsilon": "90"})
    found = release.results["aggregates"]
    [persons] = [one for one in found["measures"] if one["name"] == "units"]
    counted = table.dropna(subset=["spend"]) if len(measures) > 1 else table
    region = counted["region"].where(counted["region"].isin(["north", "south", "east"]), "other")
    exact = counted.groupby(region)["person"].nunique()[["north", "south", "east", "other"]]
    if limits.get("max_groups") == 1:
        assert sum(persons["values"]) == pytest.approx(3000, abs=1)
        assert all(value <= most + 1 for value, most in zip(persons["values"], exact, strict=True))
        pairs = counted.groupby(["person", region]).size()
        both = pairs.groupby("person").max()
        assert found["rows"] == pytest.approx(int(both.sum()), abs=1)
        assert "of at most 1 cells of the table and at most 2 in one of them" in " ".join(release.rules)
    else:
        assert persons["values"] == pytest.approx(exact.tolist(), abs=1)
    assert not limits or release.cost.epsilon <= 90


def test_persons_and_bins_are_asked_for_in_sql(command: Command, tmp_path: Path) -> None:
    folder, table = tmp_path / "lake", rows()
    (folder / "v1").mkdir(parents=True)
    table.to_parquet(folder / "v1" / "part-0.parquet")
    command.open(str(folder), columns=COLUMNS, unit={"column": "person", "max_rows": 2})
    text = (
        "SELECT FLOOR(age / 40) * 40 AS age, CASE WHEN region = 'north' THEN 'up' ELSE 'down' END AS side, "
        "COUNT(*) AS n, COUNT(DISTINCT person) AS persons, AVG(spend) AS mean FROM rows VERSION AS OF 'v1' "
        "GROUP BY FLOOR(age / 40) * 40, 2 HAVING age IS NOT NULL AND age < 120 ORDER BY 1, 2"
    )
    places = ["--output", str(command.lab.output), "--private-dir", f"{tmp_path}/private", "--csv", "--yes"]
    command.capture.readouterr()
    assert run(cli.app, ["sql", text, "--epsilon", "90", *places]) == 0
    answered = pd.read_csv(io.StringIO(command.capture.readouterr().out.split("\n\n")[0]))
    side = table["region"].eq("north").map({True: "up", False: "down"})
    groups = table.assign(age=table["age"] // 40 * 40, side=side).groupby(["age", "side"])
    known = groups["spend"].apply(lambda values: values.clip(0, 500).mean())
    assert list(zip(answered["age"], answered["side"], strict=True)) == list(known.index)
    assert answered["n"].to_numpy() == pytest.approx(groups.size().to_numpy(), abs=1)
    assert ((answered["n_lower"] <= answered["n"]) & (answered["n"] <= answered["n_upper"])).all()
    persons = table.assign(age=table["age"] // 40 * 40, side=side).dropna(subset=["spend"]).groupby(["age", "side"])
    assert answered["persons"].to_numpy() == pytest.approx(persons["person"].nunique().to_numpy(), abs=1)
    assert answered["mean"].to_numpy() == pytest.approx(known.to_numpy(), abs=1)


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"by": ["person"]}, "must have exactly one of values, edges, every and lookup"),
        ({"by": ["region"], "measures": ["region"]}, "bounds: is required"),
        ({"by": [{"column": "age", "edges": [0, 50, 50]}]}, "numbers in ascending order"),
        ({"measures": [PERSONS]}, "must be the unit's column, which is not named, if the figure is units"),
        (
            {"max_groups": 2, "max_rows_per_group": 1},
            "must allow a unit at most 1 rows in all its groups together, which is unit.max_rows",
        ),
        ({"measures": [{"outcome": "person", "prediction": "fitted"}]}, "largest_error"),
        ({"measures": [{"of": "region", "bounds": [0, 1]}]}, "name a column of numbers"),
        ({"measures": [{"of": "RAISE_ERROR(region)", "bounds": [0, 1]}]}, "RAISE_ERROR is not allowed"),
        ({"measures": [{"of": "spend / region", "bounds": [0, 1]}]}, "region"),
        (
            {"by": [{"column": "person", "values": [*range(9_999)]}, {"column": "age", "edges": [*range(1_001)]}]},
            "must make at most 1,000,000 cells",
        ),
        ({"measures": [{"outcome": "spend", "prediction": "fitted", "figures": ["mea"]}]}, "did you mean 'mae'?"),
    ],
)
def test_what_the_account_does_not_say_is_refused_in_a_line(account: Command, entry: dict[str, Any], line: str) -> None:
    account.refuses(TABLE, line, diagnostics=[{"kind": "aggregates", **entry}])
