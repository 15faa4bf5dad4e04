"""Groups of rows as parts of the measurement of all rows: one set of numbers, sums that add up, and their noise."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.draft import results_of
from spark_jobs.application.draw import ReleaseDraw
from spark_jobs.application.run import measure
from spark_jobs.contract import ReleaseRequest
from spark_jobs.contract.options import ByGroupOptions, CalibrationOptions, RocCurveOptions
from spark_jobs.contract.options.by_group import KINDS_BY_GROUP, MAX_SUMMED
from spark_jobs.contract.privacy import Neighbours, exact_sum
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups, measure_shared
from spark_jobs.diagnostics._simulation import tree_errors
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance
from spark_jobs.score_grid import cells_of, middles_of
from spark_jobs.statistics import GroupedScoreCounts, PairedScoreCounts, ScoreCounts
from tests.application.test_draw import request

KEYS = ("north", "south", "west")
MATRIX = {"kind": "confusion_matrix", "thresholds": [0.3, 0.5]}
BY_GROUP = {"kind": "by_group", "group_by": "region", "groups": list(KEYS), "kinds": ["roc_curve", MATRIX]}
COMPARED = {"kind": "roc_comparison", "other": {"kind": "columns", "score": "second", "basis": "public"}}


class Table:
    """Rows of three listed groups and others, with the scores of two models."""

    def __init__(self, seed: int, rows: int) -> None:
        random = np.random.default_rng(seed)
        self.group = random.choice(np.array([*KEYS, "east"], dtype=object), rows, p=[0.4, 0.3, 0.2, 0.1])
        self.labels = random.random(rows) < 0.3
        signal = random.normal(0, 1, rows) + 1.3 * self.labels
        self.scores, self.second = (
            1 / (1 + np.exp(1 - signal - noise * random.normal(0, 1, rows))) for noise in (0, 0.5)
        )
        self.grouped = GroupedScoreCounts.from_arrays(self.labels, self.scores, self.group, keys=KEYS)

    def counts(self, wanted: ReleaseRequest) -> dict[Any, Any]:
        made = {
            "scores": ScoreCounts.from_arrays(self.labels, self.scores),
            "grouped_scores": self.grouped,
            "paired_scores": PairedScoreCounts.from_arrays(self.labels, self.scores, self.second),
        }
        return {statistic: made[statistic.kind] for statistic in wanted.statistics}

    def released(self, wanted: ReleaseRequest, seed: int = 1) -> tuple[ReleaseDraw, dict[str, Any], Any]:
        draw = measure(wanted, self.counts(wanted), charge_id=None, noise=SeededNoise(seed))
        return draw, *results_of(wanted, draw)


def shared(table: Table, *, epsilon: Any = 1, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> SharedGroups:
    terms = Terms(epsilon=epsilon, neighbours=neighbours, noise=SeededNoise(1))
    readers = RocCurveOptions(), CalibrationOptions(), ByGroupOptions.parse(BY_GROUP)
    return measure_shared(table.grouped, readers, terms)


def test_a_release_states_one_number_of_positives_and_one_area() -> None:
    wanted = request(diagnostics=["roc_curve", "auc", MATRIX, "calibration", BY_GROUP, COMPARED])
    draw, results, sizes = Table(1, 20_000).released(wanted)
    assert [part.kinds for part in draw.parts] == [
        ("roc_curve", "auc", "confusion_matrix", "calibration", "by_group", "roc_comparison"),
        ("roc_comparison",),
    ]
    areas = {results["roc_curve"].area.value, results["auc"].area.value, results["roc_comparison"].area.value}
    assert len(areas) == 1
    groups, matrix = results["by_group"], results["confusion_matrix"]
    overall = {(one.figure, one.threshold): one.overall.value for one in groups.comparisons}
    stated = {results[kind].positives for kind in ("roc_curve", "auc", "confusion_matrix", "calibration")}
    assert stated == {sizes.shown["positives"]}
    assert sum(groups.positives) == pytest.approx(sizes.positives)
    assert overall["positive_rate", None] == pytest.approx(
        sizes.positives / (sizes.positives + sizes.negatives), abs=1e-6
    )
    # the counts of all rows are sums of the groups' counts
    for place, threshold in enumerate(matrix.thresholds):
        assert overall["recall", threshold] == pytest.approx(matrix.recall.value[place], abs=1e-6)


def test_groups_have_all_that_is_shared_or_half_of_it_and_a_second_model_as_much() -> None:
    many = {**BY_GROUP, "groups": [str(key) for key in range(MAX_SUMMED + 1)]}
    for groups, parts in ((BY_GROUP, ["0.5", "0.5"]), (many, ["0.25", "0.25", "0.5"])):
        wanted = request(diagnostics=["roc_curve", "auc", groups, COMPARED])
        table = Table(1, 3000)
        counts = table.counts(wanted)
        if groups is many:
            table.grouped = GroupedScoreCounts.from_arrays(
                table.labels, table.scores, table.group, keys=tuple(many["groups"])
            )
            counts = table.counts(wanted)
        draw = measure(wanted, counts, charge_id=None, noise=SeededNoise(1))
        assert [str(part.cost.epsilon) for part in draw.parts] == parts


def test_with_a_weight_groups_are_measured_apart() -> None:
    wanted = request(diagnostics=["roc_curve", "auc", {**BY_GROUP, "weight": 1}])
    draw, results, _ = Table(1, 5000).released(wanted)
    assert [part.kinds for part in draw.parts] == [("roc_curve", "auc"), ("by_group",)]
    assert results["by_group"].epsilon == draw.parts[1].cost.epsilon


@pytest.mark.parametrize("neighbours", Neighbours)
def test_the_numbers_of_all_rows_are_sums_and_their_noise_adds_up(neighbours: Neighbours) -> None:
    made = shared(Table(2, 20_000), neighbours=neighbours)
    assert exact_sum(*(spending.epsilon for spending in made.spendings)) == Decimal(1)
    assert made.by_key is not None
    for name in ("positives", "negatives", "centred"):
        total = np.sum([getattr(one, name) for one in made.by_key], axis=0)
        assert np.array_equal(getattr(made.groups, name), total)
    of_one, of_all = (made.of_keys[0], made), made.groups
    one, together = (of.trees[0].scale for of in of_one)
    assert laplace_variance(together) == pytest.approx(4 * laplace_variance(one))
    simulated = of_all.errors(4000, SeededNoise(3))[:, :2].var(axis=0)
    assert np.allclose(simulated, laplace_variance(together), rtol=0.2)
    copies = tree_errors(
        made.trees[0], epsilon=made.spendings[-1].epsilon, neighbours=neighbours, copies=4000, noise=SeededNoise(4)
    )
    assert np.allclose(copies.var(axis=0), laplace_variance(together), rtol=0.2)
    assert of_all.size_variance() == pytest.approx(4 * made.by_key[0].size_variance())


def test_with_little_noise_groups_and_all_rows_are_counted_exactly() -> None:
    table = Table(3, 8000)
    made = shared(table, epsilon=1000)
    cuts, grid = made.groups.cuts, made.groups.grid
    place = np.searchsorted(cuts, cells_of(table.scores, grid), side="right") - 1
    for key, one in zip([*KEYS, "east"], made.of_keys, strict=True):
        kept = table.labels & (table.group == key)
        assert np.array_equal(one.groups.positives, np.bincount(place[kept], minlength=cuts.size - 1))
    sums = np.bincount(place, middles_of(grid)[cells_of(table.scores, grid)], minlength=cuts.size - 1)
    assert np.allclose(made.groups.values()[2], sums, atol=0.05 * np.diff(cuts).max() / grid * 8000)


@pytest.mark.slow
def test_intervals_of_all_rows_hold() -> None:
    """Of 80 intervals of 90%, 61 or fewer hold with chance 0.0003; by the noise of one group, half do."""
    wanted = request(diagnostics=["auc", MATRIX, BY_GROUP])
    held = []
    for seed in range(40):
        table = Table(100 + seed, 8000)
        _, results, _ = table.released(wanted, seed)
        matrix = results["confusion_matrix"]
        for place, threshold in enumerate(matrix.thresholds):
            low, high = (ends[place] for ends in matrix.recall.ends())
            held.append(low <= (table.scores[table.labels] >= threshold).mean() <= high)
    assert sum(held) > 61


def test_a_draw_survives_storage() -> None:
    made = shared(Table(4, 3000))
    stored = codec.decode(SharedGroups, json.loads(json.dumps(made.to_dict())))
    assert stored.to_dict() == made.to_dict()
    wanted = request(diagnostics=["roc_curve", "calibration", BY_GROUP])
    draw, results, _ = Table(4, 3000).released(wanted)
    again, _ = results_of(wanted, ReleaseDraw.from_json(draw.to_json(), charge_id=None, request_sha256=wanted.sha256))
    assert {kind: one.to_dict() for kind, one in again.items()} == {k: one.to_dict() for k, one in results.items()}


def test_without_groups_nothing_is_stored_of_them() -> None:
    made = measure_shared(
        ScoreCounts.from_arrays([0, 1] * 50, [0.2, 0.8] * 50), (RocCurveOptions(),), Terms(epsilon=1)
    ).to_dict()
    assert "by_key" not in made
    assert "summed" not in made["groups"]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [12, 4000])
def test_every_kind_can_be_read_of_groups_that_are_parts(rows: int) -> None:
    kinds = [kind if kind != "confusion_matrix" else MATRIX for kind in KINDS_BY_GROUP]
    wanted = request(diagnostics=["calibration", "auc", {**BY_GROUP, "kinds": kinds}])
    _, results, _ = Table(5, rows).released(wanted)
    groups = results["by_group"].to_dict()
    assert ByGroupOptions.result.violations(groups) == []
    assert [list(of) for of in groups["results"]] == [list(KINDS_BY_GROUP)] * 4
    assert set(groups["status"]) == ({"undefined"} if rows == 12 else {"ok"})
