"""One noisy release for several diagnostics: each as good as alone with all of the budget, or nearly."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks._scored_tables import real_tables
from spark_jobs.application.draft import draft, results_of
from spark_jobs.application.draw import ReleaseDraw
from spark_jobs.application.run import measure
from spark_jobs.contract import Neighbours
from spark_jobs.contract.options import DIAGNOSTICS, ScoreCells
from spark_jobs.contract.privacy import exact_sum
from spark_jobs.diagnostics import (
    auc,
    average_precision,
    binned_residuals,
    binormal_roc,
    calibration,
    confusion_matrix,
    ranking_figures,
    recalibration,
    roc_curve,
)
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.score_grid import cells_of, threshold_cells
from spark_jobs.statistics import ScoreCounts
from tests.application.test_draw import request
from tests.support.sharing import measure_shared, read_as

MODULES = {
    module.DIAGNOSTIC.kind: module
    for module in (
        roc_curve,
        auc,
        average_precision,
        binormal_roc,
        confusion_matrix,
        calibration,
        binned_residuals,
        ranking_figures,
        recalibration,
    )
}
RNG = np.random.default_rng(17)
LABELS = RNG.random(2000) < 0.5
SCORES = 1 / (1 + np.exp(-(RNG.normal(0, 1, 2000) + 1.3 * LABELS - 0.6)))
STATISTIC = ScoreCounts.from_arrays(LABELS, SCORES)
EXACT = roc_auc_score(LABELS, cells_of(SCORES, STATISTIC.cells))


def shared(seed: int = 1, **changes: Any) -> SharedGroups:
    options: dict[str, Any] = {"epsilon": 1, "kinds": MODULES, "neighbours": Neighbours.ADD_REMOVE, **changes}
    return measure_shared(options.pop("statistic", STATISTIC), **{"noise": SeededNoise(seed), **options})


def read(kind: str, made: SharedGroups, **options: Any) -> Any:
    return MODULES[kind].summarise(read_as(DIAGNOSTICS[kind](kind=kind, **options), made), seed=5)


def area(made: SharedGroups) -> float:
    return trace(read_as(DIAGNOSTICS["roc_curve"](kind="roc_curve"), made)).auc


def test_every_diagnostic_that_may_share_can_read_a_shared_release() -> None:
    sharing = {kind for kind, options in DIAGNOSTICS.items() if "share" in options.model_fields}
    reading = {kind for kind in DIAGNOSTICS if diagnostic(kind).read_shared is not None}
    assert sharing == {*MODULES, "roc_comparison"}
    assert reading == {*sharing, "by_group"}


@pytest.mark.slow
def test_area_from_a_shared_release_is_near() -> None:
    """The target of 0.004 for 1,000 rows a class and epsilon 1."""
    errors = [abs(area(shared(seed)) - EXACT) for seed in range(40)]
    assert np.mean(errors) < 0.004


@pytest.mark.verify
def test_intervals_and_bands_from_a_shared_release_cover() -> None:
    curves = [read("roc_curve", shared(seed)) for seed in range(30)]
    covered = np.mean([curve.auc.interval[0] <= EXACT <= curve.auc.interval[1] for curve in curves])
    # 30 curves at a nominal 90 %
    assert covered >= 0.73


@pytest.mark.slow
def test_sharing_is_nearer_than_splitting() -> None:
    def error(part: float, made: Any) -> float:
        return float(np.mean([abs(made(part, seed) - EXACT) for seed in range(40)]))

    together = error(1, lambda part, seed: area(shared(seed, epsilon=part)))
    apart = error(
        1 / 3, lambda part, seed: trace(roc_curve.measure(STATISTIC, epsilon=part, noise=SeededNoise(seed))).auc
    )
    assert together < apart


def published_sizes(value: Any, name: str) -> set[float]:
    """Every number of this name at any depth of the results."""
    if isinstance(value, dict):
        own = {value[name]} if name in value else set()
        return own.union(*(published_sizes(part, name) for part in value.values()))
    return set()


NINE = [
    *(kind for kind in MODULES if kind != "confusion_matrix"),
    {"kind": "confusion_matrix", "thresholds": (0.2, 0.6)},
]


@pytest.mark.slow
@pytest.mark.parametrize("table", ["synthetic", pytest.param("bank", marks=pytest.mark.verify)])
def test_nine_kinds_say_one_thing(table: str) -> None:
    statistic = STATISTIC
    if table != "synthetic":
        real = real_tables()
        if table not in real:
            pytest.skip(f"SKIPPED: the data of {table} are not here, so nothing is tested on them")
        statistic = ScoreCounts.from_arrays(*real[table])
    asked = request(diagnostics=NINE)
    drawn = measure(asked, {ScoreCells(): statistic}, charge_id="c", noise=SeededNoise(2))
    (part,) = drawn.parts
    assert part.cost.epsilon == exact_sum(*(spent.epsilon for spent in part.spendings)) == Decimal(1)
    released, sizes = results_of(asked, drawn)
    results = {kind: result.to_dict() for kind, result in released.items()}
    for name in ("positives", "negatives"):
        assert published_sizes(results, name) == {sizes.shown[name]}
    curve, figure, normal, matrix = (results[kind] for kind in ("roc_curve", "auc", "binormal_roc", "confusion_matrix"))
    assert curve["auc"] == figure["value"] == normal["auc"]
    assert curve["auc_interval"] == figure["interval"] == normal["auc_interval"]
    assert_adds_up(matrix)


def assert_adds_up(matrix: dict[str, Any]) -> None:
    for size, parts in {
        "positives": ("true_positives", "false_negatives"),
        "negatives": ("true_negatives", "false_positives"),
    }.items():
        assert np.allclose(np.add(*(matrix[part] for part in parts)), matrix[size], atol=1e-8)


def test_separate_measurements_are_reconciled_to_one_number() -> None:
    """A share that was refused, and a method that measures on its own, bring a number of positives of their own."""
    alone = {"kind": "confusion_matrix", "share": False, "weight": "0.05"}
    asked = request(diagnostics=["roc_curve", "calibration", {"kind": "auc", "method": "polynomial"}, alone])
    drawn = measure(asked, {ScoreCells(): STATISTIC}, charge_id="c", noise=SeededNoise(4))
    released, sizes = results_of(asked, drawn)
    results = {kind: result.to_dict() for kind, result in released.items()}
    for name in ("positives", "negatives"):
        assert published_sizes(results, name) == {sizes.shown[name]}
    assert_adds_up(results["confusion_matrix"])
    own = [confusion_matrix.DIAGNOSTIC.measurement.decode(drawn.measurements["confusion_matrix"]).class_sizes]
    own += [auc.DIAGNOSTIC.measurement.decode(drawn.measurements["auc"]).class_sizes]
    assert len({one.positives for one in own} | {sizes.positives}) == 3
    assert sizes.variance < min(one.variance for one in own)
    assert abs(sizes.positives - LABELS.sum()) < 4 * np.sqrt(sizes.variance)


def test_the_combined_size_has_the_smallest_variance() -> None:
    near, far = (ClassSizes(negatives=10 * size, positives=size, variance=v) for size, v in ((100, 1), (110, 9)))
    both = ClassSizes.combined((near, None, far))
    assert (both.negatives, both.positives, both.variance) == pytest.approx((1010, 101, 0.9))
    assert ClassSizes.combined((None, near)) is near
    assert ClassSizes.combined(()) is None
    with np.errstate(all="raise"):
        exact = ClassSizes.combined((replace(near, variance=0.0), far))
    assert exact.positives == pytest.approx(100)


@pytest.mark.parametrize("kind", MODULES)
def test_every_kind_reads_the_same_class_sizes(kind: str) -> None:
    made = shared()
    of_kind = read_as(DIAGNOSTICS[kind](kind=kind), made).class_sizes
    assert of_kind.shown == made.class_sizes.shown
    assert of_kind.variance == pytest.approx(made.class_sizes.variance)


@pytest.mark.verify
def test_intervals_of_class_sizes_cover() -> None:
    made = [shared(seed).class_sizes.published() for seed in range(300)]
    for name, exact in (("positives", LABELS.sum()), ("negatives", (~LABELS).sum())):
        ends = np.array([getattr(one, f"{name}_interval") for one in made])
        covered = ((ends[:, 0] <= exact) & (exact <= ends[:, 1])).mean()
        # nominal 90 % of 300: a standard error is 1.7 %
        assert 0.85 <= covered <= 0.95


def test_thresholds_are_edges_of_the_groups_and_hardly_add_any() -> None:
    asked = DIAGNOSTICS["confusion_matrix"](kind="confusion_matrix", thresholds=(0.0, 0.3, 0.31, 0.5, 1.0))
    made, without = shared(diagnostics=(asked,)), shared()
    at = threshold_cells(asked.thresholds, STATISTIC.cells)
    assert np.isin(at, made.groups.cuts).all()
    assert made.groups.cuts.size <= without.groups.cuts.size + 3
    tree = read_as(asked, made).positives
    above = tree.counts()[np.searchsorted(made.groups.cuts, at[1]) :].sum()
    assert above == pytest.approx(STATISTIC.positives[at[1] :].sum(), abs=60)


@pytest.mark.parametrize("kind", ["calibration", "binned_residuals"])
@pytest.mark.parametrize("bins", [2, 7, 40])
def test_groups_are_joined_or_split_into_as_many_bins_as_were_asked_for(kind: str, bins: int) -> None:
    made = shared()
    found = read(kind, made, bins=bins)
    assert found.lower.size == found.upper.size == bins
    assert found.lower[0] == 0
    assert found.upper[-1] == 1
    assert (found.lower[1:] == found.upper[:-1]).all()
    assert (found.upper > found.lower).all()
    groups = read_as(DIAGNOSTICS[kind](kind=kind, bins=bins), made).groups
    assert np.allclose(groups.values().sum(axis=-1), made.groups.values().sum(axis=-1))


def test_joined_groups_have_the_noise_of_their_parts() -> None:
    made = shared()
    joined = read_as(DIAGNOSTICS["calibration"](kind="calibration", bins=2), made).groups
    spread = joined.errors(4000, SeededNoise(3)).std(axis=0)
    parts = made.groups.errors(4000, SeededNoise(4)).var(axis=0)
    starts = joined.starts
    assert np.allclose(spread, np.sqrt(np.add.reduceat(parts, starts, axis=-1)), rtol=0.1)


@pytest.mark.sampled("neighbours")
@pytest.mark.slow
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("epsilon", ["0.01", "1", "20"])
def test_all_of_the_budget_is_spent_once_and_a_draw_survives_storage(neighbours: Neighbours, epsilon: str) -> None:
    made = shared(epsilon=epsilon, neighbours=neighbours, noise=SecureNoise())
    assert exact_sum(*(spending.epsilon for spending in made.spendings)) == Decimal(epsilon)
    stored = codec.decode(SharedGroups, json.loads(json.dumps(made.to_dict())))
    for kind in ("confusion_matrix", "calibration"):
        assert json.dumps(read(kind, made).to_dict()) == json.dumps(read(kind, stored).to_dict())


def test_without_sums_counts_get_all() -> None:
    assert len(shared(kinds=("roc_curve",)).spendings) == len(shared().spendings) - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "table", [([], []), ([1] * 50, [0.3] * 50), ([0] * 50, [0.0] * 50)], ids=["none", "positives", "negatives"]
)
def test_degenerate_tables_get_a_release_of_the_same_shape(table: Any) -> None:
    made = shared(statistic=ScoreCounts.from_arrays(*table))
    for kind in MODULES:
        found = read(kind, made).to_dict()
        assert json.dumps(found, allow_nan=False)
        other = read(kind, shared()).to_dict()
        assert found.keys() == other.keys()
        # what is undefined is nothing, whatever its shape
        defined = {name for name, value in found.items() if value is not None}
        assert {name: np.shape(found[name]) for name in defined} == {name: np.shape(other[name]) for name in defined}


@pytest.mark.slow
def test_a_release_says_what_was_shared_and_adds_up() -> None:
    direct = {"kind": "auc", "method": "polynomial"}
    asked = request(diagnostics=["roc_curve", direct, "calibration", {"kind": "binned_residuals", "share": False}])
    drawn = measure(asked, {ScoreCells(): STATISTIC}, charge_id="c", noise=SecureNoise())
    again = ReleaseDraw.from_json(drawn.to_json(), charge_id="c", request_sha256=asked.sha256)
    assert again == drawn
    manifest, files = draft(asked, again, key="k", rules=())
    assert [part.kinds for part in manifest.parts] == [("roc_curve", "calibration"), ("auc",), ("binned_residuals",)]
    assert [part.cost.epsilon for part in manifest.parts] == [Decimal("0.5"), Decimal("0.25"), Decimal("0.25")]
    assert manifest.cost.epsilon == 1
    assert list(manifest.results) == ["roc_curve", "auc", "calibration", "binned_residuals"]
    page = files["report.html"].decode()
    assert "computed from the same noisy counts" in page


@pytest.mark.slow
@pytest.mark.verify
def test_ample_budgets_are_not_shared() -> None:
    asked = request(diagnostics=["roc_curve", "calibration"], budget={"epsilon": "1000000000"})
    drawn = measure(asked, {ScoreCells(): STATISTIC}, charge_id="c", noise=SeededNoise(1))
    assert drawn.shared is None
    manifest, _ = draft(asked, drawn, key="k", rules=())
    assert manifest.results["roc_curve"]["auc"] == pytest.approx(EXACT, abs=1e-6)
