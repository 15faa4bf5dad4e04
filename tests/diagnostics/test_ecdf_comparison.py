"""A release held against an earlier one: what is compared, on which grid, and that it is the comparison of both."""

import json

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import EarlierFunction
from spark_jobs.diagnostics import ecdf
from spark_jobs.diagnostics.ecdf.earlier import Earlier
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts, ValueCounts

GRIDS = {
    "linear": {"lower": 0.0, "upper": 50.0, "cells": 256},
    "log": {"lower": 0.0, "upper": 1e4, "cells": 256, "scale": "log"},
    "log with a unit": {"lower": -100.0, "upper": 1e4, "cells": 512, "scale": "log", "unit": 0.5},
}


def released(grid="linear", *, rows=2000, mean=3.0, seed=1, epsilon=1, **options):
    values = np.random.default_rng(seed).lognormal(mean, 0.6, rows)
    statistic = ValueCounts.from_arrays(values, **GRIDS[grid])
    return ecdf.release(statistic, epsilon=epsilon, noise=SeededNoise(seed), named="amount", **options)


def as_released(found, key="march"):
    """What a request holds of a release: from its manifest and its data file."""
    return EarlierFunction.of(json.loads(json.dumps(found.to_dict())), found.cdf.tolist(), released_by=key)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("smoothing", ["2-norm", "1-norm"])
def test_a_request_holds_the_very_function(grid, smoothing):
    found = released(grid, smoothing=smoothing)
    held = EarlierFunction.parse(json.loads(json.dumps(as_released(found).model_dump(mode="json"))))
    back = Earlier.of(held)
    np.testing.assert_array_equal(back.cdf, found.cdf)
    np.testing.assert_array_equal(back.cuts, found.cuts)
    assert (back.grid, back.noise.tree, back.noise.scale) == (found.grid, found.noise.tree, found.noise.scale)
    assert back.rows == found.rows == pytest.approx(found.noise.rows)
    assert (back.smoothing, back.status) == (smoothing, "ok")


@pytest.mark.slow
@pytest.mark.parametrize("grid", GRIDS)
def test_the_comparison_is_that_of_the_two_releases(grid):
    march, april = released(grid), released(grid, mean=3.1, seed=2)
    draw = ecdf.measure(
        ValueCounts.from_arrays(np.random.default_rng(2).lognormal(3.1, 0.6, 2000), **GRIDS[grid]),
        epsilon=1, noise=SeededNoise(2), named="amount", compare_with=as_released(march),
    )  # fmt: skip
    found = ecdf.summarise(ecdf.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(draw.to_dict()))), seed=7)
    np.testing.assert_array_equal(found.cdf, april.cdf)
    assert found.comparison.distance == ecdf.distance_between(april, march, seed=7)
    assert (found.comparison.released_by, found.comparison.named) == ("march", "amount")
    np.testing.assert_array_equal(found.comparison.cdf, march.cdf)
    assert found.epsilon == 1, "both releases are public: holding one against the other costs nothing"


def test_the_place_of_the_largest_difference_is_where_it_is():
    march, april = released(), released(mean=3.2, seed=2)
    found = ecdf.distance_between(april, march)
    cell = int(np.searchsorted(april.values, found.at))
    assert april.values[cell] == found.at
    assert abs(april.cdf[cell] - march.cdf[cell]) == pytest.approx(found.value, abs=1e-8)


@pytest.mark.slow
def test_a_change_is_found_and_none_is_not():
    march = as_released(released(rows=4000))
    same, other = (released(rows=4000, mean=mean, seed=6, compare_with=march) for mean in (3.0, 3.15))
    assert same.comparison.distance.p_value > 0.05
    assert other.comparison.distance.p_value < 0.01
    assert other.comparison.distance.interval[0] > 0.05
    assert np.abs(other.earlier_quantile([0.25, 0.5]) - released(rows=4000).quantile([0.25, 0.5])).max() == 0


def test_the_p_value_knows_the_noise_of_both():
    """Two samples of one distribution, one of them hidden in noise: as far apart as they are, that says nothing."""
    values = np.random.default_rng(3).lognormal(3.0, 0.6, 800)
    noisy = ecdf.release(
        ValueCounts.from_arrays(values, **GRIDS["linear"]), epsilon="0.1", noise=SeededNoise(3), named="amount"
    )
    found = released(rows=800, seed=4, compare_with=as_released(noisy)).comparison.distance
    assert found.value > 0.1
    assert found.p_value > 0.05
    assert found.interval[0] < 0.05


@pytest.fixture(scope="module")
def nothing():
    """A release of no rows, by whose noise there are none."""
    releases = (released(rows=0, epsilon="0.01", seed=seed) for seed in range(20))
    return next(found for found in releases if found.status == "undefined")


@pytest.mark.parametrize("which", ["earlier", "later", "both"])
def test_a_release_that_tells_nothing_is_compared_without_a_word(nothing, which):
    earlier = as_released(released() if which == "later" else nothing)
    few = {} if which == "earlier" else {"rows": 0, "epsilon": "0.01"}
    found = released(seed=8, compare_with=earlier, **few).comparison
    assert (found.distance.value, found.distance.interval, found.distance.p_value) == (None, None, None)
    assert found.status == ("ok" if which == "later" else "undefined")
    assert np.isnan(found.cdf).all() == (which != "later")


def test_a_comparison_is_read_back_from_its_release():
    found = released(seed=2, compare_with=as_released(released()))
    columns = {"value": found.values, "earlier_cdf": found.comparison.cdf}
    columns |= found.specs()["function"].write(found.function)
    back = ecdf.Ecdf.from_release(json.loads(json.dumps(found.to_dict())), columns)
    assert back.comparison.to_dict() == found.comparison.to_dict()
    np.testing.assert_array_equal(back.comparison.cdf, found.comparison.cdf)
    with pytest.raises(ValueError, match="not compared with an earlier one"):
        released().earlier_quantile(0.5)


class NoNoise(SeededNoise):
    """Fails the test where anything is drawn."""

    def words(self, count):
        raise AssertionError("drawn")


@pytest.mark.parametrize("kind", ["another grid", "found bounds", "scores"])
def test_another_grid_is_refused_before_anything_is_drawn(kind):
    earlier = as_released(released("log"))
    values = np.random.default_rng(1).random(100)
    wide = {"lower": -(2.0**44), "upper": 2.0**44, "scale": "log", "unit": 2.0**-20, "cells": 2**17}
    statistic, options = {
        "another grid": (ValueCounts.from_arrays(values, **GRIDS["linear"]), {}),
        "found bounds": (ValueCounts.from_arrays(values, **wide), {"find_bounds": "log"}),
        "scores": (ScoreCounts.from_arrays(np.ones(100), values), {}),
    }[kind]
    with pytest.raises(InvalidRequest, match="must be on this release's own grid"):
        ecdf.measure(statistic, epsilon=1, noise=NoNoise(1), compare_with=earlier, **options)


def test_a_function_beyond_its_grid_is_refused():
    held = as_released(released("log"))
    assert Earlier.of(held).grid.size < 256
    beyond = held.model_copy(update={"starts": (255,), "cdf": (1.0,)})
    with pytest.raises(InvalidRequest, match="must be starts of cells of the grid"):
        Earlier.of(beyond)


def test_bounds_that_were_found_are_on_a_grid_of_their_own():
    wide = {"lower": -(2.0**44), "upper": 2.0**44, "scale": "log", "unit": 2.0**-20, "cells": 2**17}
    statistic = ValueCounts.from_arrays(np.random.default_rng(1).lognormal(6, 2, 3000), **wide)
    found = ecdf.release(statistic, epsilon=1, noise=SeededNoise(1), find_bounds="log")
    with pytest.raises(InvalidRequest, match="must be a release with public bounds"):
        as_released(found)
