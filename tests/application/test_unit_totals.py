"""A unit's rows in one cell as one row with their totals: pandas' numbers, what is left out, and the loss of a unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.application.draft import results_of
from spark_jobs.application.run import measure
from spark_jobs.contract.left_out import LEFT_OUT
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.wording.rules import rules as stated_rules
from tests.application.test_draw import request
from tests.support.noises import worst_loss

pytestmark = pytest.mark.spark

KEYS = ["north", "south", "east", "other"]
SPEND = {"of": "spend", "bounds": [-100, 300], "step": 0.5, "figures": ["mean", "sum"]}
BY = [{"column": "region", "values": KEYS[:3]}]


def rows() -> pd.DataFrame:
    """Persons with 1 to 9 rows in several regions; some rows have no value, no region or no person."""
    random = np.random.default_rng(5)
    person = np.repeat([f"p{number}" for number in range(400)], random.integers(1, 10, 400))
    spend = np.round(random.normal(40, 60, person.size) * 2) / 2
    return pd.DataFrame(
        {
            "person": np.where(random.random(person.size) < 0.03, None, person),
            "region": random.choice([*KEYS[:3], "west", None], person.size),
            "spend": np.where(random.random(person.size) < 0.2, np.nan, spend),
            "month": random.integers(1, 13, person.size),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    table = rows()
    for version, kept in (("v1", table), ("v2", table[table["person"] != busiest(table)])):
        (folder / version).mkdir()
        kept.to_parquet(folder / version / "part-0.parquet")
    return folder


def busiest(table: pd.DataFrame) -> str:
    """A person who has totals in four cells."""
    cells = table.assign(region=cell_of(table)).dropna(subset=["person"]).groupby("person")["region"].nunique()
    return str(cells.idxmax())


def cell_of(table: pd.DataFrame) -> pd.Series:
    return table["region"].where(table["region"].isin(KEYS[:3]), "other")


def totals(table: pd.DataFrame) -> pd.DataFrame:
    """The clipped totals of each person and region; NaN where no row has a value."""
    known = table.dropna(subset=["person"])
    return (
        known.assign(region=cell_of(known))
        .groupby(["person", "region"])["spend"]
        .sum(min_count=1)
        .clip(-100, 300)
        .reset_index()
    )


def wanted(
    lake: Path, *, groups: int = 4, version: str = "v1", epsilon: str = "1", more: tuple[str, ...] = (), **changes: Any
) -> Any:
    spend = {**SPEND, "figures": [*SPEND["figures"], *more]}
    entry = {"kind": "aggregates", "by": BY, "measures": [spend], "max_groups": groups, "unit_totals": True}
    return request(
        table={"path": str(lake), "snapshot": {"path_version": version}},
        diagnostics=[entry], unit={"column": "person", "max_rows": 4}, budget={"epsilon": epsilon}, **changes,
    )  # fmt: skip


@pytest.fixture
def counted(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    return lambda made: count(prepare(spark, made), made)


def test_totals_are_those_of_pandas(lake: Path, counted: Any) -> None:
    made = wanted(lake, epsilon="100000000", more=("p50",))
    counts = counted(made)
    exact = totals(rows())
    by_region = exact.groupby("region")["spend"]
    found = counts[made.statistics[0]]
    assert found.rows.tolist() == by_region.count()[KEYS].tolist()
    assert (found.rows + found.incomplete).tolist() == by_region.size()[KEYS].tolist()
    draw = measure(made, counts, charge_id=None, noise=SeededNoise(1))
    table = results_of(made, draw)[0]["aggregates"]
    assert table.of("sum", "spend").values.value == pytest.approx(by_region.sum()[KEYS].to_numpy(), abs=0.01)
    assert table.of("mean", "spend").values.value == pytest.approx(by_region.mean()[KEYS].to_numpy(), abs=1e-4)
    assert table.of("p50", "spend").values.value == pytest.approx(by_region.median()[KEYS].to_numpy(), abs=0.5)


def test_rows_that_do_not_count_are_counted_as_rows(lake: Path, counted: Any) -> None:
    table = rows()
    counts = counted(wanted(lake, where="month <= 6"))
    assert counts[LEFT_OUT].sum() == table[table["month"] <= 6]["person"].isna().sum()
    assert counted(wanted(lake))[LEFT_OUT].sum() == table["person"].isna().sum()
    half = totals(table[table["month"] <= 6])
    found = counts[wanted(lake).statistics[0]]
    assert (found.rows + found.incomplete).sum() == len(half)


def test_a_unit_has_a_total_in_so_many_cells(lake: Path, counted: Any) -> None:
    made = wanted(lake, groups=1)
    found = counted(made)[made.statistics[0]]
    assert (found.rows + found.incomplete).sum() == rows()["person"].nunique()
    every = totals(rows()).groupby("region").size()[KEYS]
    assert ((found.rows + found.incomplete) <= every.to_numpy()).all()


def test_a_unit_loses_epsilon_in_all_its_cells_together(lake: Path, counted: Any) -> None:
    """Exactly, with one person's rows and without; a request for fewer cells than were used claims too little."""
    tables = [counted(wanted(lake, version=version)) for version in ("v1", "v2")]

    def loss(groups: int) -> float:
        made = wanted(lake, groups=groups)

        def run(counts: Any, noise: Any) -> None:
            of_statistic = {made.statistics[0]: counts[made.statistics[0]]}
            measure(made, of_statistic, charge_id=None, noise=noise)

        return float(worst_loss(run, *tables))

    assert 0.5 < loss(4) <= 1 + 1e-9
    assert loss(2) > 1


def test_the_rule_is_stated(lake: Path) -> None:
    (rule,) = [one for one in stated_rules(wanted(lake, groups=2)) if "person" in one]
    assert rule.startswith("The values of rows that share a value of person are added up in each cell of the table")
    assert "those of at most 2 cells are used" in rule
