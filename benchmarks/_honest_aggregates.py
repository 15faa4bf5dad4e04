"""One release of a table of aggregates, and the intervals that it shows of one of its cells.

Each function draws a table with a stated number of rows times epsilon in the cell that is shown. Intervals of weak
cells count, too, as they are published; they have no figure, whose place the middle of the interval takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._shown import LEVEL, Intervals, Shown, in_cells, noise_of
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.results.aggregates import AggregateTable
from spark_jobs.diagnostics import aggregates
from spark_jobs.statistics import AggregateSums

ROWS = (10, 100, 1_000, 10_000)
"""Rows of a cell times epsilon."""
GROUPS, HIGHEST_VALUE = 5, 100.0
SPREAD = ("mean", "sum", "variance", "sd")
QUANTILES = (("p1", 0.01), ("p25", 0.25), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
ERRORS = ("mae", "rmse", "bias", "r2", "pinball_0.9", "pinball_0.25")


def of_tables(random: np.random.Generator, signal: float) -> Intervals:
    """Counts, sums, means and deviations of a group, and the mean of the population that its rows are drawn from."""
    epsilon = float(random.choice([0.5, 1.0, 2.0]))
    shape = random.choice(np.array([0.4, 2.0, 5.0, 40.0]), 2)
    group, of_group = _groups(random, signal / epsilon)
    values = HIGHEST_VALUE * random.beta(shape[0], shape[1], group.size)
    measure: dict[str, Any] = {"of": "v", "bounds": [0, HIGHEST_VALUE], "figures": list(SPREAD)}
    if random.random() < 0.5:
        values, measure = np.round(values), {**measure, "step": 1}
    released = _released(random, {"g": group, "v": values}, [measure], epsilon)
    own = values[group == of_group]
    exact = {"mean": own.mean(), "sum": own.sum(), "variance": own.var(), "sd": own.std()}
    shown: Intervals = {f"aggregates: {name}": _shown(released, name, "v", of_group, exact[name]) for name in SPREAD}
    rows = released.count.at(of_group)
    shown["aggregates: count"] = Shown(
        value=rows.number, low=rows.ends().lower, high=rows.ends().upper, exact=float(own.size)
    )
    ends = released.of("mean", "v").values.population
    true = float(HIGHEST_VALUE * shape[0] / shape.sum())
    known = ends is not None and not np.isnan(ends.lower[of_group])
    shown["aggregates: mean, population"] = (
        Shown(
            value=float(released.of("mean", "v").values.value[of_group]), low=float(ends.lower[of_group]),
            high=float(ends.upper[of_group]), exact=true,
        )
        if known and ends is not None and "step" not in measure
        else None
    )  # fmt: skip
    return shown


def of_errors(random: np.random.Generator, signal: float) -> Intervals:
    """Errors of predictions in a group, with heavy or light tails, and coverage of their intervals."""
    epsilon = float(random.choice([0.5, 1.0, 2.0]))
    group, of_group = _groups(random, signal / epsilon)
    shape = random.choice(np.array([0.7, 2.0, 5.0]), 2)
    outcome = HIGHEST_VALUE * random.beta(shape[0], shape[1], group.size)
    largest = float(random.choice([10.0, 25.0, 100.0]))
    noise = random.standard_t(float(random.choice([2.5, 30.0])), group.size)
    fitted = outcome + largest * random.uniform(0.02, 0.3) * (noise + random.normal(0, 0.5))
    half = largest * random.uniform(0.05, 0.5)
    columns = {"g": group, "y": outcome, "f": fitted, "low": fitted - half, "high": fitted + half}
    measures: list[dict[str, Any]] = [
        {
            "outcome": "y", "prediction": "f", "largest_error": largest, "bounds": [0, HIGHEST_VALUE],
            "figures": list(ERRORS),
        },
        {"outcome": "y", "lower": "low", "upper": "high"},
    ]  # fmt: skip
    released = _released(random, columns, measures, epsilon)
    own = group == of_group
    errors = np.clip((outcome - fitted)[own], -largest, largest)
    exact = {
        "mae": np.abs(errors).mean(),
        "rmse": np.sqrt((errors**2).mean()),
        "bias": errors.mean(),
        "r2": max(1 - (errors**2).mean() / outcome[own].var(), -1.0) if own.sum() > 1 else -1.0,
        "pinball_0.9": np.maximum(0.9 * errors, -0.1 * errors).mean(),
        "pinball_0.25": np.maximum(0.25 * errors, -0.75 * errors).mean(),
    }
    shown: Intervals = {
        f"aggregates: {name}": _shown(released, name, "y - f", of_group, exact[name]) for name in ERRORS
    }
    inside = (np.abs(outcome - fitted)[own] <= half).mean()
    shown["aggregates: interval_coverage"] = _shown(
        released, "interval_coverage", "y BETWEEN low AND high", of_group, inside
    )
    return shown


def of_quantiles(random: np.random.Generator, signal: float) -> Intervals:
    """A quantile of a group, of whole numbers or of values without a step, of the raw rows."""
    epsilon = float(random.choice([0.5, 1.0, 2.0]))
    shape = random.choice(np.array([0.4, 2.0, 5.0, 40.0]), 2)
    name, level = QUANTILES[int(random.integers(len(QUANTILES)))]
    group, of_group = _groups(random, signal / epsilon)
    values = HIGHEST_VALUE * random.beta(shape[0], shape[1], group.size)
    measure: dict[str, Any] = {"of": "v", "bounds": [0, HIGHEST_VALUE], "figures": [name]}
    starts = np.linspace(0, HIGHEST_VALUE, 2**15, endpoint=False)
    if random.random() < 0.5:
        values, starts, measure = np.round(values), np.arange(HIGHEST_VALUE + 1), {**measure, "step": 1}
    figure = _released(random, {"g": group, "v": values}, [measure], epsilon).of(name, "v").values.at(of_group)
    exact = float(np.quantile(values[group == of_group], level, method="inverted_cdf"))
    low, high = (float(end) for end in figure.ends())
    value = (low + high) / 2 if np.isnan(figure.number) else float(figure.number)
    return {"aggregates: a quantile": in_cells(starts, value, (low, high), exact)}


def _groups(random: np.random.Generator, rows: float) -> tuple[FloatArray, int]:
    """The group of each row, and the one that is shown, which has about so many."""
    of_group = int(random.integers(GROUPS))
    sizes = random.integers(1, 2_000, GROUPS)
    sizes[of_group] = max(1, int(rows * np.exp(random.uniform(0, 0.7))))
    return np.repeat(np.arange(GROUPS), sizes), of_group


def _released(
    random: np.random.Generator, columns: dict[str, Any], measures: list[dict[str, Any]], epsilon: float
) -> AggregateTable:
    sums = AggregateSums.from_arrays(
        columns, by=[{"column": "g", "values": list(range(GROUPS)), "other": False}], measures=measures
    )
    marginals: tuple[tuple[str, ...], ...] = ((),) if random.random() < 0.25 else ()
    table: AggregateTable = aggregates.release(
        sums, epsilon=epsilon, confidence=LEVEL, marginals=marginals, noise=noise_of(random)
    )
    return table


def _shown(table: AggregateTable, name: str, of: str, cell: int, exact: float) -> Shown:
    figure = table.of(name, of).values.at(cell)
    low, high = (float(end) for end in figure.ends())
    value = float(figure.number)
    ranges = {"r2": (-1.0, 1.0), "interval_coverage": (0.0, 1.0)}
    whole = (low, high) == ranges.get(name)
    return Shown(
        value=(low + high) / 2 if np.isnan(value) else value, low=low, high=high, exact=float(exact), whole=float(whole)
    )
