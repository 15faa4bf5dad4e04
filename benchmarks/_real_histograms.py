"""Real histograms to measure on, where they lie beside the repository."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spark_jobs.arrays import Int64Array

FILE = Path(__file__).parents[2] / "shared" / "data" / "hist_bench.npz"
MISSING = f"SKIPPED: {FILE.name} is not beside the repository; what needs real histograms is left out"
NAMES = {
    "adult_capital_loss_4096": "Adult",
    "cps2012_wage_4096": "wages (CPS 2012)",
    "flights_dep_delay_4096": "flight delays",
    "bayarea_trips_2h_4096": "bicycle trips",
}


def real_histograms() -> dict[str, Int64Array]:
    """Name -> 4,096 counts; empty if the file is missing (see ``MISSING``)."""
    if not FILE.is_file():
        return {}
    with np.load(FILE) as arrays:
        return {name: arrays[key].astype(np.int64) for key, name in NAMES.items()}
