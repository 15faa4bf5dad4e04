"""Real points in groups to draw lines through, where they lie beside the repository.

The data sets of Alabi, McMillan, Sarathy, Smith, Vadhan (2022), as far as they are public: simulated incomes of
Opportunity Insights by cell, bicycles on loan by temperature for each month and hour, calculated against initial
atomic coordinates, and two stock indices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.statistics import PointCounts

FOLDER = Path(__file__).parents[2] / "shared" / "data"
MISSING = f"SKIPPED: no {FOLDER.name} folder is beside the repository; what needs real points is left out"


@dataclass(frozen=True, kw_only=True)
class PointTable:
    """Points in groups, with public bounds.

    Attributes:
        name: the table's name in reports.
        group: the index of each row's group.
        x, y: the points.
        lower, upper: public bounds (x, y).
    """

    name: str
    group: Int64Array
    x: FloatArray
    y: FloatArray
    lower: tuple[float, float]
    upper: tuple[float, float]

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.group.max()) + 1

    def counted(self) -> PointCounts:
        """The table as a statistic."""
        return PointCounts.from_arrays(
            self.x, self.y, groups=self.group, keys=range(self.groups), lower=self.lower, upper=self.upper
        )

    def unit_rows(self, group: int) -> tuple[FloatArray, FloatArray]:
        """The points of one group in units of the box, clipped to it."""
        own = self.group == group
        scaled = (
            (values[own] - low) / (high - low)
            for values, low, high in zip((self.x, self.y), self.lower, self.upper, strict=True)
        )
        x, y = (np.clip(values, 0.0, 1.0) for values in scaled)
        return x, y


def _incomes() -> PointTable:
    table = pd.read_csv(FOLDER / "oi_private_data_by_cells.csv.gz")
    return _table("incomes", table["cell"], table["parent_rank"], table["kid_rank"], (0, 0), (1, 1))


def _bicycles() -> PointTable:
    table = pd.read_csv(FOLDER / "bike_hour.csv.gz")
    return _table("bicycles", table["mnth"] * 100 + table["hr"], table["temp"], table["cnt"], (0, 0), (1, 1000))


def _nanotubes() -> PointTable:
    table = pd.read_csv(FOLDER / "carbon_nanotubes.csv.gz")
    return _table("nanotubes", table["u0"] * 0, table["u0"], table["u1"], (0, 0), (1, 1))


def _stocks() -> PointTable:
    table = pd.read_csv(FOLDER / "istanbul_stock.csv.gz")
    return _table("stocks", table["EM"] * 0, table["EM"], table["ISE_USD"], (-0.1, -0.1), (0.1, 0.1))


def _wages() -> PointTable:
    """Log wages by experience, for women and men of each region and schooling."""
    table = pd.read_csv(FOLDER / "cps2012.csv.gz")
    levels = table[["female", "mw", "so", "we", "hsd08", "hsd911", "hsg", "cg", "ad"]].to_numpy(dtype=np.int64)
    group = pd.Series(levels @ (2 ** np.arange(levels.shape[1])))
    return _table("wages", group, table["exp1"], table["lnw"], (0, 0), (60, 6))


def _flights() -> PointTable:
    """Delays at arrival by delays at departure, for each carrier and day of a month."""
    table = pd.read_csv(FOLDER / "nycflights13.csv.gz", usecols=["month", "day", "carrier", "dep_delay", "arr_delay"])
    table = table[table["month"] == 1].dropna()
    group = table["carrier"].astype("category").cat.codes * 100 + table["day"]
    return _table("flights", group, table["dep_delay"], table["arr_delay"], (-60, -100), (600, 600))


def _table(
    name: str, group: pd.Series, x: pd.Series, y: pd.Series, lower: tuple[float, float], upper: tuple[float, float]
) -> PointTable:
    _, place = np.unique(group.to_numpy(), return_inverse=True)
    columns = (values.to_numpy(dtype=np.float64) for values in (x, y))
    return PointTable(name=name, group=place, x=next(columns), y=next(columns), lower=lower, upper=upper)


TABLES: tuple[Callable[[], PointTable], ...] = (_incomes, _bicycles, _nanotubes, _stocks)
HELD_OUT: tuple[Callable[[], PointTable], ...] = (_wages, _flights)
"""What no rule was made from."""


def point_tables() -> list[PointTable]:
    """The papers' tables; empty if the files are missing (see ``MISSING``)."""
    return [read() for read in TABLES] if FOLDER.is_dir() else []


def held_out_tables() -> list[PointTable]:
    """Tables that were not used to design the rules; empty if the files are missing."""
    return [read() for read in HELD_OUT] if FOLDER.is_dir() else []
