"""Where groups are placed, what that costs, and how they are pooled: shared by binned residuals and calibration."""

from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import BinnedResidualsSettings
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import calibration
from spark_jobs.diagnostics._score_groups import binning
from spark_jobs.diagnostics._score_groups.binning import bins_by_medians, bins_by_noisy_histogram
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw, measure_groups
from spark_jobs.diagnostics._score_groups.pools import either_p_value, p_value, pools
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.noises import worst_loss
from tests.support.scored_rows import GRID, ten_data_sets

DATA_SETS = ten_data_sets()
METHODS = ["auto", "recursive_medians", "fixed_bins"]
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
EVERY_RELATION = pytest.mark.parametrize("neighbours", list(Neighbours))
CELLS = 8
ROWS = list(product((0, 1), (0.0, 0.3, 0.55, 0.99)))
BASE = [(0, 0.3), (1, 0.3), (1, 0.99), (0, 0.7)]


def measured(rows, *, method, noise, epsilon="1", neighbours=Neighbours.ADD_REMOVE, bins=4, cells=CELLS):
    statistic = ScoreCounts.from_arrays([row[0] for row in rows], [row[1] for row in rows], cells=cells)
    options = {"epsilon": epsilon, "neighbours": neighbours, "noise": noise, "method": method, "bins": bins}
    return measured_groups(statistic, **options)


def measured_groups(statistic, *, method, bins, **terms):
    settings = BinnedResidualsSettings(method=method, bins=bins, confidence=0.9)
    return measure_groups(statistic, settings, Terms(**terms))


def neighbouring(neighbours):
    if neighbours is Neighbours.ADD_REMOVE:
        return [([*BASE, row], BASE) for row in ROWS]
    return [([*BASE, one], [*BASE, other]) for one, other in product(ROWS, ROWS)]


@EVERY_RELATION
@pytest.mark.parametrize("method", ["auto", "fixed_bins"])
@pytest.mark.parametrize("epsilon", ["1", "300", "100000"])
def test_no_neighbour_loses_more_than_epsilon(method, epsilon, neighbours):
    def mechanism(rows, noise):
        measured(rows, method=method, noise=noise, epsilon=epsilon, neighbours=neighbours)

    found = [worst_loss(mechanism, *pair) for pair in neighbouring(neighbours)]
    assert max(found) <= Fraction(epsilon)
    assert max(found) > Fraction(epsilon) * Fraction("0.9")


@EVERY_RELATION
def test_medians_and_merging_leave_the_rest_no_more_than_its_share(monkeypatch, neighbours):
    """The medians' own loss is ``private_quantile``'s; with their answers held, all else stays within its budget."""
    monkeypatch.setattr(binning, "private_quantile", lambda cells, **_: cells.size // 2 - 1)

    def mechanism(rows, noise):
        measured(rows, method="recursive_medians", noise=noise, neighbours=neighbours)

    # merging restarts its counts with each group, and is convicted or acquitted by its own audit, not by this bound
    monkeypatch.setattr(binning, "merge_cells", lambda cells, **_: (2, 4))
    found = [worst_loss(mechanism, *pair) for pair in neighbouring(neighbours)]
    assert max(found) <= 1 - Fraction(binning.MEDIANS_SHARE) - Fraction(binning.MERGING_SHARE)


@EVERY_METHOD
@EVERY_RELATION
@pytest.mark.parametrize("name", ["ordinary", "constant scores", "one row", "scores of 0 and 1"])
def test_all_of_the_budget_is_spent_and_no_more(name, method, neighbours):
    for epsilon in ("0.01", "1", "1000000000"):
        measurement = measured_groups(
            ScoreCounts.from_arrays(*DATA_SETS[name], cells=1024),
            epsilon=epsilon,
            neighbours=neighbours,
            noise=SeededNoise(1),
            method=method,
            bins=16,
        )
        assert measurement.epsilon == Decimal(epsilon)
        assert measurement.bins.size == 17
        assert (np.diff(measurement.bins) > 0).all()
        assert measurement.ends[-1] == 16
        assert (np.diff(measurement.ends) > 0).all()
        assert np.array_equal(measurement.groups.cuts[1:], measurement.bins[measurement.ends])


@given(
    cells=st.integers(2, 8).map(lambda power: 2**power),
    levels=st.integers(1, 4),
    rows=st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), max_size=40),
    epsilon=st.sampled_from(["0.001", "0.5", "7", "1000000"]),
    method=st.sampled_from(METHODS),
    neighbours=st.sampled_from(list(Neighbours)),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=60)
def test_no_small_table_breaks_a_draw(cells, levels, rows, epsilon, method, neighbours, seed):
    bins = min(2**levels, cells)
    found = measured(
        rows, method=method, noise=SeededNoise(seed), epsilon=epsilon, neighbours=neighbours, bins=bins, cells=cells
    )
    assert found.bins.size == bins + 1
    assert (np.diff(found.bins) > 0).all()
    made = pools(found, seed=seed)
    assert made.pool_of.size == bins
    assert (np.diff(made.pool_of) >= 0).all()
    assert made.pool_of[-1] == made.released.lower.size - 1


def test_a_draw_survives_its_file():
    found = measured(BASE, method="auto", noise=SecureNoise())
    again = codec.decode(GroupsDraw, found.to_dict())
    assert again.to_dict() == found.to_dict()
    assert np.array_equal(again.groups.values(), found.groups.values())


@pytest.mark.parametrize(("method", "bins"), [("auto", 12), ("fixed_bins", 9), ("recursive_medians", 16)])
def test_more_bins_than_cells_are_refused(method, bins):
    with pytest.raises(InvalidRequest, match="cells of the score grid"):
        measured(BASE, method=method, noise=SeededNoise(1), bins=bins)


def test_recursive_medians_need_a_power_of_two():
    with pytest.raises(InvalidRequest, match="power of two"):
        measured(BASE, method="recursive_medians", noise=SeededNoise(1), bins=6)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ordinary", "nearly perfect", "rare positives"])
@pytest.mark.parametrize("place", [bins_by_noisy_histogram, bins_by_medians])
def test_with_a_large_budget_bins_hold_equal_numbers_of_rows(name, place):
    statistic = ScoreCounts.from_arrays(*DATA_SETS[name])
    counts = statistic.negatives + statistic.positives
    meter = BudgetMeter("1000000000")
    placed = place(counts, 16, meter=meter, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(1))
    below = np.concatenate([[0], np.cumsum(counts)])[placed.bins]
    assert np.diff(below) == pytest.approx(counts.sum() / 16, rel=0.15)
    assert placed.ends.size == 16


def test_few_rows_are_counted_in_few_groups():
    assert [binning.groups_for(signal, 20) for signal in (1, 100, 1000, 3000, 100_000)] == [3, 3, 8, 12, 20]
    assert binning.groups_for(1, 2) == 2


def test_pools_have_rows_enough_for_their_noise():
    labels, scores = DATA_SETS["rare positives"]
    for epsilon in ("0.02", "0.1", "1"):
        found = measured_groups(
            ScoreCounts.from_arrays(labels, scores, cells=GRID),
            epsilon=epsilon,
            neighbours=Neighbours.ADD_REMOVE,
            noise=SeededNoise(3),
            method="fixed_bins",
            bins=10,
        )
        made = pools(found, seed=1, expected=5.0)
        seen = made.released
        if seen.lower.size == 1:
            assert epsilon != "1"  # little can be told of the few high scores, and little is
            continue
        rows, spread = seen.positives + seen.negatives, (made.errors[:, 0] + made.errors[:, 1]).std(axis=0)
        assert (rows >= 2.9 * spread).all()
        assert (np.minimum(seen.scores, rows - seen.scores)[:-1] >= 5).all()


@pytest.mark.slow
def test_p_values_of_several_statistics_are_uniform_under_their_null():
    random = np.random.default_rng(8)
    copies = random.normal(size=(2, 4000))
    copies[1] = copies[0] ** 2 + copies[1]
    drawn = random.normal(size=(2, 1000))
    drawn[1] = drawn[0] ** 2 + drawn[1]
    found = np.sort([either_p_value(each, copies)[0] for each in drawn.T])
    assert np.abs(found - np.arange(1, 1001) / 1001).max() < 0.06
    assert p_value(np.inf, copies[0]) == 1 / 4001
    assert p_value(-np.inf, copies[0]) == 1.0


@pytest.mark.parametrize(
    ("rows", "shares"),
    [(200, ["0.03", "0.12"]), (700, ["0.03", "0.12", "0.08"]), (5000, ["0.03", "0.04"]), (300_000, ["0.03", "0.06"])],
)
def test_fewer_rows_spend_more_on_finding_the_scores(rows, shares):
    random = np.random.default_rng(rows)
    statistic = ScoreCounts.from_arrays(random.random(rows) < 0.3, random.beta(2, 3, rows))
    draw = calibration.measure(statistic, epsilon=1, noise=SeededNoise(2))
    spent = [round(float(spending.epsilon), 2) for spending in draw.spendings[:-1]]
    assert spent == [float(share) for share in shares]
    assert sum(spending.epsilon for spending in draw.spendings) == 1
    scales = [1 / float(spending.epsilon) for spending in draw.spendings[: len(draw.located)]]
    assert [cells.scale for cells in draw.located] == pytest.approx(scales)
