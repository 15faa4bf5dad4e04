"""Bounds on the rows of a unit in Spark: units by their rows as pandas counts them, and tables of fewer rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.application.draft import draft
from spark_jobs.application.run import measure
from spark_jobs.contract.left_out import LEFT_OUT
from spark_jobs.contract.options.rows_per_unit import candidates_up_to
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import UnitRowCounts
from spark_jobs.wording.rules import rules
from tests.application.test_draw import request
from tests.support.noises import worst_loss

pytestmark = pytest.mark.spark

KEYS, LIMIT = ["north", "south"], 12
BY = [{"column": "region", "values": KEYS, "other": False}]


def rows() -> pd.DataFrame:
    """Persons with 1 to 30 rows; some rows have no region or no person."""
    random = np.random.default_rng(5)
    person = np.repeat([f"p{number}" for number in range(600)], np.minimum(random.zipf(1.7, 600), 30))
    return pd.DataFrame(
        {
            "person": np.where(random.random(person.size) < 0.03, None, person),
            "region": random.choice([*KEYS, "west", None], person.size, p=[0.5, 0.3, 0.1, 0.1]),
            "month": random.integers(1, 13, person.size),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    table = rows()
    busiest = table["person"].value_counts().idxmax()
    for version, kept in (("v1", table), ("v2", table[table["person"] != busiest])):
        (folder / version).mkdir()
        kept.to_parquet(folder / version / "part-0.parquet")
    return folder


@pytest.fixture
def counted(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    return lambda made: count(prepare(spark, made), made)


def wanted(lake: Path, kind: str, *, version: str = "v1", epsilon: str = "1", **options: Any) -> ReleaseRequest:
    where = options.pop("where", None)
    made: ReleaseRequest = request(
        table={"path": str(lake), "snapshot": {"path_version": version}},
        diagnostics=[{"kind": kind, "by": BY, **options}], unit={"column": "person", "max_rows": LIMIT},
        budget={"epsilon": epsilon}, where=where,
    )  # fmt: skip
    return made


def rows_of_units(table: pd.DataFrame) -> np.ndarray:
    return table[table["region"].isin(KEYS)].groupby("person").size().to_numpy()


@pytest.mark.parametrize("where", [None, "month <= 6"])
def test_units_are_counted_by_all_their_rows_that_count(lake: Path, counted: Any, where: str | None) -> None:
    made = wanted(lake, "rows_per_unit", largest=LIMIT, units_above=3, where=where)
    table = rows() if where is None else rows().query(where)
    counts, exact = counted(made), rows_of_units(table)
    assert exact.max() > LIMIT
    found = counts[made.statistics[0]]
    above = [int((exact > candidate).sum()) for candidate in candidates_up_to(LIMIT)]
    assert found.counts[::-1].cumsum()[::-1].tolist() == [exact.size, *above]
    units = table["person"].dropna().nunique()
    assert counts[LEFT_OUT].sum() == units - exact.size + table["person"].isna().sum()


def test_a_dataframe_gives_what_arrays_give(spark: Any) -> None:
    table = rows()
    arrays = UnitRowCounts.from_arrays({"region": table["region"]}, table["person"], by=BY, largest=LIMIT)
    found = UnitRowCounts.from_dataframe(spark.createDataFrame(table), "person", by=BY, largest=LIMIT)
    assert found.counts.tolist() == arrays.counts.tolist()


@pytest.mark.parametrize("bound", [1, 3, 12])
def test_a_table_has_so_many_rows_of_a_unit_and_the_noise_of_as_many(lake: Path, counted: Any, bound: int) -> None:
    made = wanted(lake, "aggregates", max_rows=bound)
    counts = counted(made)
    assert counts[made.statistics[0]].rows.sum() == np.minimum(rows_of_units(rows()), bound).sum()
    drawn = measure(made, counts, charge_id=None, noise=SeededNoise(1))
    assert float(drawn.cost.epsilon) == pytest.approx(1)
    release, _ = draft(made, drawn, key=None, rules=rules(made))
    table = release.results["aggregates"]
    assert float(table["epsilon"]) == pytest.approx(1 / bound)
    assert f"at most {bound} row" in " ".join(release.rules)


def test_a_unit_loses_epsilon_in_the_table_and_no_more(lake: Path, counted: Any) -> None:
    """Exactly, with one person's rows and without; a request for fewer rows than were used claims too little."""
    used = [counted(wanted(lake, "aggregates", version=version, max_rows=8)) for version in ("v1", "v2")]

    def loss(bound: int) -> float:
        made = wanted(lake, "aggregates", max_rows=bound)

        def run(counts: Any, noise: Any) -> None:
            of_statistic = {made.statistics[0]: next(value for key, value in counts.items() if key != LEFT_OUT)}
            measure(made, of_statistic, charge_id=None, noise=noise)

        return float(worst_loss(run, *used))

    assert 0.99 < loss(8) <= 1 + 1e-9
    assert loss(4) > 1.9
