"""Variances and standard deviations of cells: equal to pandas without noise, with intervals for groups of any size."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from spark_jobs.contract.figures import WEAK
from spark_jobs.contract.results.aggregates import AggregateTable
from spark_jobs.diagnostics import aggregates
from spark_jobs.diagnostics.sampling import Sampling
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums

EVERY = ["mean", "sum", "variance", "sd"]
MEASURES = {
    "a step": {"of": "v", "bounds": [0, 120], "step": 1},
    "a fine step": {"of": "v", "bounds": [0, 4096], "step": 0.0625},
    "no step": {"of": "v", "bounds": [-3, 12]},
}


def summed(table, measures, groups):
    by = [{"column": "g", "values": groups, "other": False}]
    return AggregateSums.from_arrays({name: table[name].to_numpy() for name in table}, by=by, measures=measures)


@pytest.mark.parametrize("name", list(MEASURES))
@pytest.mark.parametrize("marginals", [[], [[]]], ids=["cells", "with the total"])
def test_without_noise_it_is_the_variance_of_clipped_values_of_pandas(name, marginals):
    random, measure = np.random.default_rng(2), MEASURES[name]
    low, high = measure["bounds"]
    values = random.normal((low + high) / 2, (high - low) / 3, 6000)
    step = measure.get("step")
    values = values if step is None else np.round(values / step) * step
    table = pd.DataFrame({"g": random.integers(0, 6, 6000), "v": values, "w": random.random(6000)})
    other = {"of": "w", "bounds": [0, 1], "figures": ["mean", "sd"]}
    exact = table.assign(v=table["v"].clip(low, high)).groupby("g")
    released = aggregates.release(
        summed(table, [{**measure, "figures": EVERY}, other], list(range(6))),
        epsilon=1e8, marginals=marginals, noise=SeededNoise(1),
    )  # fmt: skip
    close = (high - low) * 1e-6
    for figure, true in (("mean", exact["v"].mean()), ("sd", exact["v"].std(ddof=0)), ("sum", exact["v"].sum())):
        assert released.of(figure, "v").values.value == pytest.approx(true.to_numpy(), abs=close, rel=1e-6)
    assert released.of("variance", "v").values.value == pytest.approx(exact["v"].var(ddof=0).to_numpy(), rel=1e-5)
    assert released.of("sd", "w").values.value == pytest.approx(exact["w"].std(ddof=0).to_numpy(), abs=1e-6)
    if marginals:
        total = released.marginals[0].of("sd", "v").values.value[0]
        assert total == pytest.approx(table["v"].clip(low, high).std(ddof=0), abs=close)


SIZES, COPIES = (1, 3, 10, 30, 100, 1000), 300


def of_sizes(shape, effect=1):
    """Groups of beta-distributed values, and what pandas says of each."""
    random = np.random.default_rng(3)
    keys = np.arange(COPIES * len(SIZES))
    group = np.repeat(keys, np.tile(SIZES, COPIES))
    values = 100 * np.repeat(random.beta(*shape, group.size // effect + 1), effect)[: group.size]
    table = pd.DataFrame({"g": group, "v": values})
    exact = table.groupby("g")["v"].agg(["mean", "sum", lambda one: one.var(ddof=0), lambda one: one.std(ddof=0)])
    exact.columns = EVERY
    measure = {"of": "v", "bounds": [0, 100], "figures": EVERY}
    return summed(table, [measure], keys.tolist()), exact


@pytest.mark.parametrize("shape", [(2, 5), (0.4, 0.4), (40, 60)], ids=["skewed", "at both ends", "narrow"])
def test_intervals_hold_for_groups_of_every_size(shape):
    """At 90%, over 300 groups of each size; four standard errors around 0.88 to 0.95."""
    sums, exact = of_sizes(shape)
    released = aggregates.release(sums, epsilon=1, noise=SeededNoise(5))
    for name in EVERY:
        figure = released.of(name, "v").values
        inside = (figure.lower - 1e-9 <= exact[name]) & (exact[name] <= figure.upper + 1e-9)
        share = inside.to_numpy().reshape(COPIES, -1).mean(axis=0)
        assert (share >= 0.83).all(), (name, share)
        assert (share <= 0.98).all(), (name, share)
        shown = ~np.isnan(figure.value)
        assert (shown | (name == "sum")).tolist() == [name == "sum" or one != WEAK for one in released.status]


@pytest.mark.parametrize("effect", [1, 3])
def test_a_mean_has_an_interval_for_the_population_where_its_variance_is_released(effect):
    """Of units with three equal rows each, the sampling of units makes a mean vary three times as much."""
    sums, _ = of_sizes((2, 5), effect)
    drawn = aggregates.measure(sums, epsilon=1, noise=SeededNoise(6))
    released = aggregates.summarise(drawn, seed=1, sampling=Sampling(max_rows=effect))
    figure, true = released.of("mean", "v").values, 100 * 2 / 7
    lower, upper = figure.population
    known = ~np.isnan(lower).reshape(COPIES, -1)
    assert not known[:, :3].any()
    assert known[:, 4:].all()
    held = ((lower <= true) & (true <= upper)).reshape(COPIES, -1)[:, 4:].mean(axis=0)
    assert (held >= 0.83).all(), held
    assert (held <= 0.97).all(), held
    some = ~np.isnan(lower)
    assert (lower <= figure.lower)[some].all()
    assert (figure.upper <= upper)[some].all()


def test_without_a_variance_nothing_is_said_of_a_population():
    sums, _ = of_sizes((2, 5))
    both = aggregates.release(sums, epsilon=1, noise=SeededNoise(6)).to_dict()
    assert [set(one) - {"population_lower", "population_upper"} == set(one) for one in both["measures"]] == [
        False, True, True, True,
    ]  # fmt: skip
    assert AggregateTable.violations(json.loads(json.dumps(both))) == []
    alone = {"of": "v", "bounds": [0, 1]}
    table = pd.DataFrame({"g": [0] * 40, "v": [0.5] * 40})
    means = aggregates.release(summed(table, [alone], [0]), epsilon=1, noise=SeededNoise(6)).to_dict()
    assert not any("population" in name for one in means["measures"] for name in one)
    narrow = {**both["measures"][0], "population_lower": both["measures"][0]["upper"]}
    assert AggregateTable.violations({**both, "measures": [narrow]}) != []


def test_a_cell_is_shown_from_a_number_of_rows_that_noise_alone_seldom_reaches():
    """By the law of the cube, whose tails are above those of the noise: not by that law made as narrow as the noise."""
    empty = pd.DataFrame({"g": [0], "v": [0.5]})
    sums = summed(empty, [{"of": "v", "bounds": [0, 1], "figures": ["sd"]}], list(range(2000)))
    drawn = aggregates.measure(sums, epsilon=1, noise=SeededNoise(6))
    released = aggregates.summarise(drawn, seed=1)
    assert released.ok_from == pytest.approx(drawn.cells.law.count_above(0.05 / 2000), rel=1e-9)
