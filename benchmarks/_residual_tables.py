"""Real tables under linear models of least squares, where they lie beside the repository."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from spark_jobs.arrays import FloatArray

FOLDER = Path(__file__).parents[2] / "shared" / "data"
NAMES = ("cps2012", "bike_hour", "nycflights13")
MISSING = f"SKIPPED: {', '.join(NAMES)} are not beside the repository; what needs real tables is left out"
Points = tuple[FloatArray, FloatArray]


def real_tables() -> dict[str, tuple[Points, float]]:
    """Name -> fitted values and residuals, and the unit in which they are counted; empty if a file is missing."""
    files = {name: FOLDER / f"{name}.csv.gz" for name in NAMES}
    if not all(file.is_file() for file in files.values()):
        return {}
    wages, rides, flights = (pd.read_csv(files[name]) for name in NAMES)
    people = [
        "female",
        "widowed",
        "divorced",
        "separated",
        "nevermarried",
        "hsd08",
        "hsd911",
        "hsg",
        "cg",
        "ad",
        "exp1",
    ]
    flights = flights.dropna(subset=["arr_delay", "dep_delay", "distance"])
    return {
        "hourly wage (CPS 2012)": (_fitted(wages[people], np.exp(wages["lnw"])), 1.0),
        "logarithm of it": (_fitted(wages[people], wages["lnw"]), 0.01),
        "rides in an hour": (_fitted(rides[["temp", "hum", "windspeed", "hr"]], rides["cnt"]), 1.0),
        "arrival delay": (_fitted(flights[["dep_delay", "distance"]], flights["arr_delay"]), 1.0),
    }


def _fitted(features: pd.DataFrame, outcome: pd.Series) -> Points:
    design = np.column_stack([np.ones(len(features)), features.to_numpy(np.float64)])
    observed = outcome.to_numpy(np.float64)
    fitted = design @ np.linalg.lstsq(design, observed, rcond=None)[0]
    return fitted, observed - fitted
