"""Quantiles by group: those of numpy without noise, intervals that hold for groups of any size, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.contract.options.aggregates import ALL_VALUE_CELLS, MAX_VALUE_CELLS
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.aggregates import AggregateTable
from spark_jobs.diagnostics import aggregates
from spark_jobs.diagnostics.aggregates.page import render
from spark_jobs.forecast import expected_widths
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums

LEVELS = {"p1": 0.01, "p25": 0.25, "p50": 0.5, "p99.9": 0.999}
REGIONS, BOUNDS = ["north", "south", "east"], (0.0, 200.0)
MEASURES = {
    "a step": {"of": "spend", "bounds": BOUNDS, "step": 1},
    "cells of several steps": {"of": "spend", "bounds": BOUNDS, "step": 0.005},
    "no step": {"of": "spend", "bounds": BOUNDS},
}
WIDTHS = {"a step": 0.0, "cells of several steps": 0.01, "no step": 200 / 32768}
"""How far a value may be from those that it shares a cell with."""


def columns_of(number: int = 2999, seed: int = 1) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    spend = np.where(random.random(number) < 0.03, np.nan, np.round(random.lognormal(3, 1.2, number)))
    region, year = random.choice([*REGIONS, "west"], number), random.integers(2024, 2026, number)
    return {"region": region, "year": year, "spend": spend}


def summed(columns: dict[str, Any], *measures: dict[str, Any], by: tuple[str, ...] = ("region", "year")) -> Any:
    values = {"region": REGIONS, "year": [2024, 2025]}
    dimensions = [{"column": name, "values": values[name], "other": name == "region"} for name in by]
    return AggregateSums.from_arrays(columns, by=dimensions, measures=measures)


def quantile_ends(values: np.ndarray, level: float) -> tuple[float, float]:
    """The values between which every one is a quantile: at most so many rows are below it, and so many above."""
    ordered, goal = np.sort(values), round(level * values.size, 9)
    first = int(np.ceil(goal)) - 1
    return ordered[max(first, 0)], ordered[min(int(np.floor(goal)), values.size - 1)]


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("name", MEASURES)
def test_without_noise_they_are_numpys_of_clipped_values(name: str, neighbours: Neighbours) -> None:
    columns, width = columns_of(), WIDTHS[name] + 1e-9
    measure = {**MEASURES[name], "figures": [*LEVELS, "mean"]}
    released = aggregates.release(
        summed(columns, measure), epsilon=1e8, marginals=[["year"], []], neighbours=neighbours, noise=SeededNoise(1)
    )
    known = ~np.isnan(columns["spend"])
    clipped = np.clip(columns["spend"], *BOUNDS)
    of_region = np.where(np.isin(columns["region"], REGIONS), columns["region"], "other")
    cells = {
        released: [
            known & (of_region == r) & (columns["year"] == y) for r in [*REGIONS, "other"] for y in (2024, 2025)
        ],
        released.marginals[0]: [known & (columns["year"] == year) for year in (2024, 2025)],
        released.marginals[1]: [known],
    }
    for table, groups in cells.items():
        for figure, level in LEVELS.items():
            found = table.of(figure, "spend").values
            for cell, rows in enumerate(groups):
                low, high = quantile_ends(clipped[rows], level)
                assert low - width <= found.value[cell] <= high
                lower, upper = (ends[cell] for ends in found.ends())
                for method in ("inverted_cdf", "linear"):
                    assert lower - 1e-9 <= np.quantile(clipped[rows], level, method=method) <= upper + 1e-9


SIZES, COPIES = (0, 1, 2, 3, 10, 100, 1000), 300


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(("figure", "level"), [("p50", 0.5), ("p90", 0.9)])
@pytest.mark.parametrize("method", ["inverted_cdf", "linear"])
def test_intervals_hold_for_groups_of_every_size(
    figure: str, level: float, method: Any, neighbours: Neighbours
) -> None:
    """At 90%, over 300 groups of each size: at least 0.85, three standard errors below; of no row, of any value."""
    random = np.random.default_rng(3)
    group = np.repeat(np.arange(COPIES * len(SIZES)), np.tile(SIZES, COPIES))
    values = np.round(100 * random.beta(0.8, 3, group.size))
    sums = AggregateSums.from_arrays(
        {"g": group, "v": values},
        by=[{"column": "g", "values": list(range(COPIES * len(SIZES))), "other": False}],
        measures=[{"of": "v", "bounds": [0, 100], "step": 1, "figures": [figure]}],
    )
    epsilon = 2 if neighbours is Neighbours.ADD_REMOVE else 4
    released = aggregates.release(sums, epsilon=epsilon, neighbours=neighbours, noise=SeededNoise(4))
    lower, upper = released.of(figure, "v").values.ends()
    starts = np.searchsorted(group, np.arange(COPIES * len(SIZES) + 1))
    held = np.array(
        [
            lower[cell] <= 17 <= upper[cell]
            if first == last
            else lower[cell] <= np.quantile(values[first:last], level, method=method) <= upper[cell]
            for cell, (first, last) in enumerate(pairwise(starts))
        ]
    )
    shares = held.reshape(COPIES, -1).mean(axis=0)
    assert (shares >= 0.85).all(), shares
    status = np.array(released.status).reshape(COPIES, -1)
    assert (status[:, 0] == WEAK).all()
    assert (status[:, -2:] == OK).all()
    wide = (upper - lower).reshape(COPIES, -1).mean(axis=0)
    assert wide[-1] < 10 < 60 < wide[0], wide


def test_each_quantile_has_a_share_as_large_as_that_of_rows_and_sums() -> None:
    sums = summed(columns_of(), {**MEASURES["a step"], "figures": ["p50", "mean"]}, by=("region",))
    drawn = aggregates.measure(sums, epsilon=1, marginals=[[]], noise=SeededNoise(1))
    assert [(one.label, one.epsilon) for one in drawn.spendings] == [
        ("p50 of spend by region", Decimal("0.125")),
        ("counts around p50 of spend by region, for the interval", Decimal("0.125")),
        ("rows and sums by region", Decimal("0.25")),
        ("p50 of spend", Decimal("0.125")),
        ("counts around p50 of spend, for the interval", Decimal("0.125")),
        ("rows and sums", Decimal("0.25")),
    ]
    again = aggregates.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(drawn.to_dict())))
    assert aggregates.summarise(again, seed=3).to_dict() == aggregates.summarise(drawn, seed=3).to_dict()
    without = aggregates.measure(summed(columns_of(), MEASURES["a step"]), epsilon=1, noise=SeededNoise(1))
    assert "quantiles" not in without.to_dict()


def test_rows_without_a_value_are_counted_apart_also_where_nothing_is_summed() -> None:
    columns = columns_of()
    sums = summed(columns, {**MEASURES["a step"], "figures": ["p50"]}, by=("region",))
    released = aggregates.release(sums, epsilon=1e8, noise=SeededNoise(2))
    lacking = np.isnan(columns["spend"])
    wanted = [(lacking & (columns["region"] == region)).sum() for region in [*REGIONS, "west"]]
    assert released.incomplete is not None
    assert released.incomplete.tolist() == wanted
    assert released.count.value.sum() == (~lacking).sum()
    assert AggregateTable.violations(json.loads(json.dumps(released.to_dict()))) == []


def test_parts_of_a_table_add_up() -> None:
    measures = [{**MEASURES["no step"], "figures": ["p50"]}]
    columns = columns_of()
    parts = [{name: values[place::2] for name, values in columns.items()} for place in range(2)]
    assert summed(parts[0], *measures) + summed(parts[1], *measures) == summed(columns, *measures)


def parsed(**changes: Any) -> AggregatesOptions:
    return AggregatesOptions.parse(
        {"kind": "aggregates", "measures": [{**MEASURES["no step"], "figures": ["p50"]}], **changes}
    )


def listed(number: int, name: str = "g") -> dict[str, Any]:
    return {"column": name, "values": list(range(number)), "other": False}


@pytest.mark.parametrize(("cells", "of_values"), [(1, 32768), (256, 32768), (1000, 8192), (44_000, 128)])
def test_values_have_as_many_cells_as_a_public_bound_leaves_room_for(cells: int, of_values: int) -> None:
    by = [listed(cells)] if cells <= 1000 else [listed(cells // 100), listed(100, "h")]
    statistic = parsed(by=by).statistic
    [line] = statistic.value_lines
    assert line.cells == of_values <= MAX_VALUE_CELLS
    assert statistic.value_keys == cells * of_values <= ALL_VALUE_CELLS
    assert statistic.max_keys == cells * (2 + of_values)


SPENDS = [{"of": f"v{number}", "bounds": [0, 1], "figures": ["p50"]} for number in range(5)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"by": [listed(900), listed(50, "h")]}, "got '45,000 cells'; must make at most 44,444 cells with 9 figures"),
        (
            {"by": [listed(250), listed(50, "h")], "measures": SPENDS},
            "must make at most .* cells with 41 figures in each, each quantile counting as 8",
        ),
        ({"measures": [{**SPENDS[0], "figures": ["p0"]}]}, "got 'p0'; must be one of mean, sum"),
        ({"measures": [{**SPENDS[0], "figures": ["p100"]}]}, "got 'p100'; must be one of mean, sum"),
        ({"measures": [{**SPENDS[0], "figures": ["p50.0"]}]}, "got 'p50.0'; must be one of mean, sum"),
        ({"measures": [{**SPENDS[0], "figures": ["quantile"]}]}, "got 'quantile'; must be one of mean, sum"),
        ({"by": [{"column": "page", "keys": "discover"}]}, "must have no figures other than mean and sum"),
    ],
    ids=["too many cells", "too many numbers", "smallest", "largest", "two spellings", "no level", "keys"],
)  # fmt: skip
def test_what_cannot_be_released_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        parsed(**changes)


def test_silos_are_refused_quantiles() -> None:
    with pytest.raises(InvalidRequest, match="p50 of spend.*must not be a quantile in a federation"):
        parsed().check_for_silos()


def test_the_page_and_the_forecast_have_them() -> None:
    measure = {**MEASURES["a step"], "figures": ["p50", "p99.9"]}
    diagnostic = {"kind": "aggregates", "by": [{"column": "region", "values": REGIONS}], "measures": [measure]}
    request = ReleaseRequest.parse(
        {
            "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
            "diagnostics": [diagnostic],
            "budget": {"epsilon": "1"},
        }
    )
    released = aggregates.release(summed(columns_of(), measure, by=("region",)), epsilon=1, noise=SeededNoise(1))
    page = render(released, request)
    assert [text for text, _, _ in page.multiples[0].plots] == ["Median of spend", "Quantile 0.999 of spend"]
    assert {"p50_spend", "p50_spend_lower", "p99_9_spend_upper"} <= set(page.columns)
    assert any("Each quantile has a share" in note for note in page.section.notes)
    [near, far] = [
        expected_widths(request, ExpectedTable(rows=rows, values={"spend": (5, 90)}))[0].widths["p50 of spend"]
        for rows in (100_000, 4_000)
    ]
    assert 0 < near < far < 100
