"""Tables of counts and means by the command line and a real Spark, from an account that says what its columns hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.support.commands import Command

pytestmark = [pytest.mark.spark, pytest.mark.slow]

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


def test_rows_of_a_person_are_bounded_as_in_other_kinds(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    (folder / "v1").mkdir(parents=True)
    rows().to_parquet(folder / "v1" / "part-0.parquet")
    command.open(str(folder), columns=COLUMNS, unit={"column": "person", "max_rows": 1})
    release = command.release(TABLE, diagnostics=[{"kind": "aggregates", "by": ["region"]}], budget={"epsilon": "90"})
    assert release.results["aggregates"]["rows"] == pytest.approx(3000, abs=1)


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"by": ["person"]}, "must have values, edges or every"),
        ({"by": ["region"], "measures": ["region"]}, "bounds: is required"),
        ({"by": [{"column": "age", "edges": [0, 50, 50]}]}, "numbers in ascending order"),
    ],
)
def test_what_the_account_does_not_say_is_refused_in_a_line(account: Command, entry: dict[str, Any], line: str) -> None:
    account.refuses(TABLE, line, diagnostics=[{"kind": "aggregates", **entry}])
