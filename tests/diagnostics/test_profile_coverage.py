"""How often the intervals of a profile hold the exact figures of the raw rows, over a law of small tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from spark_jobs.contract.figure import Figure
from spark_jobs.diagnostics import profile
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ProfileCounts

SIZES = (1, 3, 10, 30, 100, 300, 1000, 3000)
OF = [
    {"column": "age", "bounds": [0, 120], "step": 1},
    {"column": "spend", "bounds": [0, 1000]},
    {"column": "plan", "values": ["a", "b", "c"]},
]
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def rows(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(1000 + seed)
    count = int(rng.choice(SIZES))
    ages = np.where(rng.random(count) < 0.1, np.nan, rng.integers(18, 80, count).astype(float))
    plans = rng.choice(np.array(["a", "b", "c", "x", None], dtype=object), count, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    return {"age": ages, "spend": rng.lognormal(3, 1, count), "plan": plans}


def figures(seed: int, table: dict[str, Any]) -> Iterator[tuple[str, Figure[Any], float]]:
    """The figures of a release at epsilon 1, with their values by NumPy of the raw rows."""
    counts = ProfileCounts.from_arrays(table, of=OF)
    result = profile.release(counts, epsilon=1, quantiles=QUANTILES, noise=SeededNoise(seed))
    age, spend, plan = result.columns
    ages, plans = table["age"], table["plan"]
    yield "rows", result.rows, ages.size
    yield "share missing", age.missing, np.isnan(ages).mean()
    yield "share outside", plan.outside, np.mean(plans == "x")
    for place, name in enumerate("abc"):
        yield "share", plan.shares.at(place), np.mean(plans == name)
        yield "count", plan.count.at(place), np.sum(plans == name)
    known = ages[~np.isnan(ages)]
    for name, one, values in (("age", age, known), ("spend", spend, table["spend"].clip(0, 1000))):
        if values.size:
            yield f"mean of {name}", one.mean, values.mean()
            exact = np.quantile(values, QUANTILES, method="inverted_cdf")
            yield from (("quantile", one.quantiles.at(place), value) for place, value in enumerate(exact))


def held_of(seeds: range) -> dict[tuple[str, str], list[bool]]:
    """Whether each interval held, by figure and by whether the table has at most 30 rows."""
    held: dict[tuple[str, str], list[bool]] = {}
    for seed in seeds:
        table = rows(seed)
        size = "up to 30 rows" if table["age"].size <= 30 else "more"
        for name, figure, exact in figures(seed, table):
            held.setdefault((name, size), []).append(bool(figure.lower - 1e-9 <= exact <= figure.upper + 1e-9))
    return held


@pytest.mark.slow
@pytest.mark.verify
def test_intervals_hold_the_figures_of_raw_rows() -> None:
    for cell, held in held_of(range(300)).items():
        # quantiles of one release fall together
        releases = len(held) / (10 if cell[0] == "quantile" else 3 if cell[0] in ("share", "count") else 1)
        assert np.mean(held) > 0.9 - 4 * np.sqrt(0.09 / releases), cell
        assert cell[0] == "quantile" or np.mean(held) < 0.99, cell
