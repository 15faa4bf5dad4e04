"""Errors of a model's predictions by group: equal to scikit-learn without noise, with intervals that hold."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, mean_squared_error, r2_score

from spark_jobs.contract.figures import OK
from spark_jobs.contract.results.aggregates import AggregateTable
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums

LARGEST, BOUNDS = 20, (0, 100)
ERRORS = ["mae", "rmse", "bias", "r2", "pinball_0.9", "pinball_0.25"]
OF = "y - fitted"


def predicted(rows, groups, seed=1):
    random = np.random.default_rng(seed)
    outcome = np.clip(random.gamma(3, 10, rows), *BOUNDS)
    fitted = outcome + 4 * random.standard_t(3, rows)
    return pd.DataFrame(
        {"g": random.integers(0, groups, rows), "y": outcome, "fitted": fitted, "low": fitted - 5, "high": fitted + 9}
    )


def summed(table, groups, figures=ERRORS):
    return AggregateSums.from_arrays(
        {name: table[name].to_numpy() for name in table},
        by=[{"column": "g", "values": list(range(groups)), "other": False}],
        measures=[
            {
                "outcome": "y", "prediction": "fitted", "largest_error": LARGEST, "bounds": list(BOUNDS),
                "figures": figures,
            },
            {"outcome": "y", "lower": "low", "upper": "high"},
        ],
    )  # fmt: skip


def by_scikit_learn(table):
    """Of predictions that are moved until their errors are clipped."""
    y = table["y"]
    fitted = y - (y - table["fitted"]).clip(-LARGEST, LARGEST)
    return {
        "mae": mean_absolute_error(y, fitted),
        "rmse": np.sqrt(mean_squared_error(y, fitted)),
        "bias": (y - fitted).mean(),
        "r2": r2_score(y, fitted) if len(y) > 1 else np.nan,
        "pinball_0.9": mean_pinball_loss(y, fitted, alpha=0.9),
        "pinball_0.25": mean_pinball_loss(y, fitted, alpha=0.25),
        "interval_coverage": y.between(table["low"], table["high"]).mean(),
        "sd": y.std(ddof=0),
    }


def of(name):
    return {"interval_coverage": "y BETWEEN low AND high", "sd": "y"}.get(name, OF)


@pytest.mark.parametrize("marginals", [[], [[]]], ids=["cells", "with the total"])
def test_without_noise_they_are_those_of_scikit_learn(marginals):
    table = predicted(9000, 4)
    released = aggregates.release(summed(table, 4), epsilon=1e8, marginals=marginals, noise=SeededNoise(1))
    exact = {group: by_scikit_learn(one) for group, one in table.groupby("g")}
    for name in exact[0]:
        figure = released.of(name, of(name)).values
        true = np.array([exact[group][name] for group in range(4)])
        assert figure.value == pytest.approx(true, abs=5e-5)
        assert (figure.lower - 5e-5 <= true).all()
        assert (true <= figure.upper + 5e-5).all()
    for one in released.marginals:
        for name, true in by_scikit_learn(table).items():
            assert one.of(name, of(name)).values.value[0] == pytest.approx(true, abs=5e-5)


SIZES, COPIES = (1, 3, 10, 30, 100, 1000), 300


@pytest.mark.parametrize("epsilon", [1, 0.2])
def test_intervals_hold_for_groups_of_every_size(epsilon):
    """At 90%, over 300 groups of each size; four standard errors around 0.88 to 0.95, and more where few can miss."""
    groups = COPIES * len(SIZES)
    table = predicted(COPIES * sum(SIZES), 1, seed=3)
    table["g"] = np.repeat(np.arange(groups), np.tile(SIZES, COPIES))
    released = aggregates.release(summed(table, groups), epsilon=epsilon, noise=SeededNoise(5))
    exact = pd.DataFrame([by_scikit_learn(one) for _, one in table.groupby("g")])
    held_together = []
    for name in exact:
        figure = released.of(name, of(name)).values
        # an R-squared below -1 counts as -1; of one row, or of one value, there is none
        true = exact[name].clip(-1, None).to_numpy() if name == "r2" else exact[name].to_numpy()
        inside = (figure.lower - 1e-9 <= true) & (true <= figure.upper + 1e-9)
        share = inside.reshape(COPIES, -1)[:, (1 if name == "r2" else 0) :].mean(axis=0)
        assert (share >= 0.83).all(), (name, share)
        if name != "r2":
            assert (share <= 0.98).all(), (name, share)
        held_together.append(share.mean())
    assert 0.88 <= np.mean(held_together) <= 0.95


def test_mean_errors_have_intervals_for_the_population_where_squares_are_summed():
    table = predicted(COPIES * 200, 1, seed=4)
    table["g"] = np.repeat(np.arange(COPIES), 200)
    released = aggregates.release(summed(table, COPIES), epsilon=1, noise=SeededNoise(5))
    everyone = by_scikit_learn(predicted(400_000, 1, seed=6))
    for name in ("mae", "bias"):
        figure = released.of(name, OF).values
        lower, upper = figure.population
        held = ((lower <= everyone[name]) & (everyone[name] <= upper)).mean()
        assert 0.83 <= held <= 0.97, (name, held)
        assert (lower <= figure.lower).all()
        assert (figure.upper <= upper).all()
    assert released.of("rmse", OF).values.population is None
    alone = aggregates.release(summed(table, COPIES, ["mae", "bias"]), epsilon=1, noise=SeededNoise(5))
    assert alone.of("mae", OF).values.population is None


def test_an_outcome_that_does_not_vary_has_no_r_squared():
    table = predicted(3000, 2)
    table.loc[table["g"] == 1, "y"] = 40.0
    released = aggregates.release(summed(table, 2), epsilon=1, noise=SeededNoise(2))
    assert released.status == (OK, OK)
    figure = released.of("r2", OF).values
    assert np.isnan(figure.value).tolist() == [False, True]
    assert (figure.lower[1], figure.upper[1]) == (-1, 1)
    content = json.loads(json.dumps(released.to_dict(), allow_nan=False))
    assert AggregateTable.violations(content) == []
    [mae] = [one for one in content["measures"] if one["name"] == "mae"]
    assert AggregateTable.violations({**content, "measures": [{**mae, "values": [mae["values"][0], None]}]}) != []


def test_a_row_without_a_prediction_has_no_error():
    table = predicted(2000, 1)
    table.loc[::4, "fitted"] = np.nan
    table.loc[1::4, "high"] = np.nan
    known = table.dropna()
    released = aggregates.release(summed(table, 1), epsilon=1e8, noise=SeededNoise(2))
    # what is above no upper end, and below the lower one, is known to be outside
    outside = table["fitted"].notna() & table["high"].isna() & (table["y"] < table["low"])
    assert released.count.value[0] == pytest.approx(len(known) + outside.sum(), abs=1e-3)
    assert released.rows == pytest.approx(2000, abs=1e-3)


def test_one_figure_costs_what_a_mean_does():
    """The noise of one sum and of the rows is drawn as halves, with 2 / epsilon each."""
    errors = {"outcome": "y", "prediction": "fitted", "largest_error": LARGEST}
    for figures, numbers in ((["mae"], 2), (["rmse"], 2), (["mae", "bias"], 3), (["mae", "rmse", "pinball_0.9"], 4)):
        sums = AggregateSums.from_arrays({"y": [1.0], "fitted": [2.0]}, measures=[{**errors, "figures": figures}])
        drawn = aggregates.measure(sums, epsilon=1, noise=SeededNoise(1))
        assert drawn.cells.numbers.shape == (1, numbers)
