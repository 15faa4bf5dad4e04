"""Keys that are not public by the command line and a real Spark: destinations of flights, and a page of one person."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_jobs.contract import Release
from tests.support.commands import Command
from tests.support.real_tables import real_table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("command", "shared_java")]

TABLE = {"snapshot": {"path_version": "v1"}}
COLUMNS = {"person": "string", "page": "string", "spend": "double between 0 and 500"}
PAGE = {"column": "page", "keys": "discover", "min_units": 20}
DELTA = {"composition": "approximate", "delta": "0.5"}
ENTRY = {"kind": "aggregates", "by": [PAGE], "measures": ["spend"]}


def written(folder: Path, table: pd.DataFrame) -> str:
    (folder / "v1").mkdir(parents=True)
    table.to_parquet(folder / "v1" / "part-0.parquet")
    return str(folder)


def visits() -> pd.DataFrame:
    """Persons with four rows each; one of them alone has a page, in many rows."""
    random = np.random.default_rng(8)
    pages = np.char.add("/", random.zipf(1.7, 8000).astype(str)).astype(object)
    table = pd.DataFrame({"person": [f"p{place // 4}" for place in range(8000)], "page": pages})
    table["spend"] = random.gamma(2, 40, 8000)
    alone = pd.DataFrame({"person": ["p1"] * 900, "page": ["/secret"] * 900, "spend": [50.0] * 900})
    return pd.concat([table, alone], ignore_index=True)


@pytest.mark.parametrize("max_rows", [1, 3])
def test_a_page_of_one_person_is_never_released_and_others_have_their_persons(
    command: Command, tmp_path: Path, max_rows: int
) -> None:
    """Of the rows that are kept, a person counts once in each page, so that there are fewer than rows."""
    command.open(
        written(tmp_path / "lake", visits()), columns=COLUMNS, unit={"column": "person", "max_rows": max_rows}, **DELTA
    )
    status, lines, errors = command.run(TABLE, diagnostics=[ENTRY], budget={"epsilon": "6", "delta": "1e-3"})
    assert status == 0, errors
    assert "secret" not in "".join((*lines, *errors))
    [charge] = command.lab.ledger().history("rows")
    assert (charge.cost.epsilon, charge.cost.delta) == (6, Decimal("1e-3"))
    folder = Path(lines[-1])
    assert not any(b"/secret" in file.read_bytes() for file in folder.rglob("*") if file.is_file())
    release = Release.from_json((folder / "release.json").read_bytes())
    result = release.results["aggregates"]
    assert {"/1", "/2"} < set(result["keys"][0])
    assert (release.cost.epsilon, release.cost.delta) == (6, Decimal("1e-3"))
    counts = dict(zip(result["keys"][0], result["count"], strict=True))
    persons = visits()["person"].nunique()
    noise = 12 * max_rows / 6
    assert counts["/1"] < persons + noise
    if max_rows == 1:
        assert result["rows"] < persons + noise * len(counts)
    else:  # 48% of the rows are of page /1: three of four rows are kept, and 86% of persons have one of it
        assert 0.7 * persons < counts["/1"]


def test_destinations_of_all_flights_are_those_that_pandas_counts(command: Command, tmp_path: Path) -> None:
    flights = real_table("nycflights13", usecols=["tailnum", "dest", "arr_delay"]).dropna(subset=["tailnum"])
    command.open(
        written(tmp_path / "lake", flights),
        columns={"tailnum": "string", "dest": "string", "arr_delay": "double between -60 and 300 step 1"},
        **DELTA,
    )
    entry = {"kind": "aggregates", "by": [{**PAGE, "column": "dest"}], "measures": ["arr_delay"]}
    release = command.release(TABLE, diagnostics=[entry], budget={"epsilon": "90", "delta": "1e-9"})
    found = release.results["aggregates"]
    complete = flights.dropna()
    exact = (
        complete.assign(arr_delay=complete["arr_delay"].clip(-60, 300))
        .groupby("dest")["arr_delay"]
        .agg(["size", "mean"])
    )
    exact = exact[exact["size"] > 22]
    assert 95 <= len(exact) <= len(found["keys"][0])
    [mean] = [one for one in found["measures"] if one["name"] == "mean"]
    place = {key: number for number, key in enumerate(found["keys"][0])}
    for dest, true in exact.iterrows():
        assert found["count"][place[dest]] == pytest.approx(true["size"], abs=1)
        assert mean["values"][place[dest]] == pytest.approx(true["mean"], abs=3)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"budget": {"epsilon": "1"}}, "budget.delta: got '0'; must be above 0 for aggregates with these options"),
        ({"diagnostics": [{**ENTRY, "by": [{**PAGE, "min_units": 1}]}]}, "min_units: got 1; must be at least 2"),
        (
            {"diagnostics": [{**ENTRY, "by": [PAGE, {**PAGE, "column": "person"}]}]},
            "by: got ['page', 'person']; must be a single dimension, without marginals, if its keys are discovered",
        ),
        (
            {"budget": {"epsilon": "0.001", "delta": "0.01"}},
            "budget.delta: got '0.01 per row for aggregates'; must be at most",
        ),
        ({"diagnostics": [{**ENTRY, "by": ["page"]}]}, "keys: discover}]`, which needs a delta"),
    ],
)
def test_what_cannot_be_discovered_is_refused_and_nothing_charged(
    command: Command, tmp_path: Path, changes: dict[str, Any], line: str
) -> None:
    command.open(written(tmp_path / "lake", visits()), columns=COLUMNS, **DELTA)
    command.refuses(TABLE, line, **{"diagnostics": [ENTRY], "budget": {"epsilon": "1", "delta": "1e-6"}, **changes})
