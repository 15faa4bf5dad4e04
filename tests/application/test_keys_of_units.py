"""Discovered keys of which a unit is in few: its keys, its one row in each, and what one unit changes of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.contract.left_out import LEFT_OUT
from spark_jobs.wording.rules import rules as stated_rules
from tests.application.test_draw import request

pytestmark = pytest.mark.spark

SPEND = {"of": "spend", "bounds": [0, 100], "step": 1, "figures": ["mean"]}


def rows() -> pd.DataFrame:
    """Persons with up to 40 rows on a dozen pages; some rows have no value, no page or no person."""
    random = np.random.default_rng(5)
    person = np.repeat([f"p{number}" for number in range(200)], random.integers(1, 40, 200))
    return pd.DataFrame(
        {
            "person": np.where(random.random(person.size) < 0.03, None, person),
            "page": random.choice([*(f"/{number}" for number in range(12)), None, ""], person.size),
            "spend": np.where(random.random(person.size) < 0.3, np.nan, random.integers(-20, 130, person.size)),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    table = rows()
    busiest = table.groupby("person")["page"].nunique().idxmax()
    for version, kept in (("v1", table), ("v2", table[table["person"] != busiest])):
        (folder / version).mkdir()
        kept.to_parquet(folder / version / "part-0.parquet")
    return folder


@pytest.fixture
def counted(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    return lambda made: count(prepare(spark, made), made)


def wanted(lake: Path, *, groups: int | None, version: str = "v1") -> Any:
    by = [{"column": "page", "keys": "discover", "min_units": 2}]
    entry = {"kind": "aggregates", "by": by, "measures": [SPEND]}
    return request(
        table={"path": str(lake), "snapshot": {"path_version": version}},
        diagnostics=[entry if groups is None else {**entry, "max_groups": groups}],
        unit={"column": "person", "max_rows": 12}, budget={"epsilon": "1", "delta": "1e-6"},
    )  # fmt: skip


def numbers(counts: Any, made: Any) -> pd.DataFrame:
    """Complete rows, incomplete rows and sums, by key."""
    batches = list(counts[made.statistics[0]].batches())
    columns = {"rows": [one.rows for one in batches], "incomplete": [one.incomplete for one in batches]}
    columns["sum"] = [one.sums[0] for one in batches]
    index = [key for one in batches for key in one.keys]
    return pd.DataFrame({name: np.concatenate(values) for name, values in columns.items()}, index=index).sort_index()


def test_with_room_for_all_keys_each_person_counts_once_in_each_with_a_value_if_there_is_one(
    lake: Path, counted: Any
) -> None:
    made = wanted(lake, groups=12)
    counts = counted(made)
    found = numbers(counts, made)
    table = rows()
    known = table[table["person"].notna() & table["page"].notna() & (table["page"] != "")]
    persons = known.groupby(["page", "person"])["spend"].max().reset_index()
    by_page = persons.groupby("page")["spend"]
    assert found["rows"].to_dict() == by_page.count().to_dict()
    assert (found["rows"] + found["incomplete"]).to_dict() == by_page.size().to_dict()
    assert counts[LEFT_OUT].sum() > 0


def test_a_person_is_in_so_many_keys(lake: Path, counted: Any) -> None:
    table = rows()
    known = table[table["person"].notna() & table["page"].notna() & (table["page"] != "")]
    pages = known.groupby("person")["page"].nunique()
    for groups in (1, 3):
        made = wanted(lake, groups=groups)
        found = numbers(counted(made), made)
        assert (found["rows"] + found["incomplete"]).sum() == pages.clip(upper=groups).sum()
    (rule,) = [one for one in stated_rules(made) if "person" in one]
    assert "of at most 3 keys of page, with one row in each" in rule


def test_one_person_changes_one_row_of_so_many_keys(lake: Path, counted: Any) -> None:
    """Of the sums by the row's place on the lattice; of the other keys nothing."""
    made = [wanted(lake, groups=3, version=version) for version in ("v1", "v2")]
    first, second = (numbers(counted(one), one) for one in made)
    change = first - second
    changed = change[(change != 0).any(axis=1)]
    assert len(changed) == 3
    assert ((changed["rows"] + changed["incomplete"]) == 1).all()
    assert changed["sum"].between(0, 100).all()
