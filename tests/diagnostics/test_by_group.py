"""Results by group: those of each group's rows, at the cost of one release, and tests of whether groups are equal."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import PARTLY, status_of
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.options import ByGroupOptions, score_figures, scores
from spark_jobs.contract.options.base import SharingOptions
from spark_jobs.contract.options.by_group import KINDS_BY_GROUP
from spark_jobs.contract.privacy import Neighbours, exact_sum
from spark_jobs.diagnostics import by_group
from spark_jobs.diagnostics._score_groups import pools
from spark_jobs.diagnostics._shared_groups.measurement import measure_shared
from spark_jobs.diagnostics.by_group import equality
from spark_jobs.diagnostics.by_group.equality import adjusted, largest_difference
from spark_jobs.diagnostics.by_group.estimates import NOTHING, Noisy, rate
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.diagnostics.roc_curve import bands
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.publishing.rendering import known
from spark_jobs.score_grid import cells_of, middles_of
from spark_jobs.statistics import GroupedScoreCounts, ScoreCounts
from tests.support.sharing import read_as

KEYS = ("north", "south")
KINDS = ("roc_curve", "calibration", {"kind": "confusion_matrix", "thresholds": (0.3, 0.5)})
ENTRY: dict[str, Any] = {"kind": "by_group", "group_by": "region", "groups": list(KEYS), "kinds": list(KINDS)}


def rows(seed: int, sizes: tuple[int, ...] = (1500, 1500, 12), slopes: tuple[float, ...] = (1.3, 1.3, 1.3)) -> Any:
    """Labels, scores and groups; the scores of each group separate the classes by its slope."""
    random = np.random.default_rng(seed)
    group = np.repeat(np.array([*KEYS, "west"], dtype=object), sizes)
    labels = random.random(group.size) < 0.35
    apart = np.repeat(slopes, sizes)
    return labels, 1 / (1 + np.exp(-(random.normal(0, 1, group.size) + apart * (labels - 0.5)))), group


def statistic(seed: int = 1, **changes: Any) -> GroupedScoreCounts:
    return GroupedScoreCounts.from_arrays(*rows(seed, **changes), keys=KEYS)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"groups": ["north"]}, "groups: got 1; must be from 2 to 50 keys"),
        ({"groups": [str(number) for number in range(51)]}, "groups: got 51; must be from 2 to 50 keys"),
        ({"groups": ["north", "other"]}, "groups: got 'other'; must not be listed"),
        ({"groups": ["north", "north"]}, "groups: got 'north'; must be listed once"),
        ({"kinds": ["ecdf"]}, "kinds.kind: got 'ecdf'; must be one of roc_curve"),
        ({"kinds": ["roc_comparison"]}, "kinds.kind: got 'roc_comparison'; must be one of roc_curve"),
        (
            {"kinds": [{"kind": "auc", "method": "polynomial"}]},
            "kinds.auc: must be computed from the counts of its group",
        ),
        ({"kinds": [{"kind": "auc", "weight": 2}]}, "kinds.auc: must be computed from the counts of its group"),
        ({"kinds": []}, "kinds: got []; must name a kind"),
    ],
)
def test_what_cannot_be_released_is_refused_in_one_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ByGroupOptions.parse({**ENTRY, **changes})
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_each_group_is_what_a_request_for_its_rows_alone_would_release(neighbours: Neighbours) -> None:
    """The same noise, drawn for one filtered table after the other, gives the same draws and results."""
    labels, scores, group = rows(2)
    options = ByGroupOptions.parse(ENTRY)
    draw = by_group.measure(statistic(2), epsilon=1, neighbours=neighbours, noise=SeededNoise(3), kinds=KINDS)
    result, noise = by_group.summarise(draw, seed=5), SeededNoise(3)
    for place, kept in enumerate((group == "north", group == "south", group == "west")):
        filtered = ScoreCounts.from_arrays(labels[kept], scores[kept])
        alone = measure_shared(filtered, options.kinds, Terms(epsilon=1, neighbours=neighbours, noise=noise))
        assert alone.to_dict() == draw.groups[place].to_dict()
        assert exact_sum(*(spent.epsilon for spent in alone.spendings)) == draw.epsilon == Decimal(1)
        for kind in options.kinds:
            summarise = getattr(__import__("spark_jobs.diagnostics", fromlist=[kind.kind]), kind.kind).summarise
            assert summarise(read_as(kind, alone), seed=5).to_dict() == result.results[place][kind.kind].to_dict()


def test_every_kind_that_shares_counts_of_scores_can_be_released_by_group() -> None:
    sharing = {one for one in (*scores.KINDS, *score_figures.KINDS) if issubclass(one, SharingOptions)}
    assert set(KINDS_BY_GROUP.values()) == sharing


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_BY_GROUP)
def test_a_draw_survives_storage_and_meets_its_contract(kind: str) -> None:
    draw = by_group.measure(statistic(), epsilon=1, noise=SeededNoise(2), kinds=(kind,))
    stored = by_group.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(draw.to_dict())))
    one, other = (by_group.summarise(each, seed=3).to_dict() for each in (draw, stored))
    assert json.dumps(one, allow_nan=False) == json.dumps(other)
    assert ByGroupOptions.result.violations(one) == []
    assert one["status"] == ["ok", "ok", "undefined"]
    assert status_of(one) == PARTLY


def test_rules_of_kinds_hold_in_every_group() -> None:
    one = by_group.release(statistic(), epsilon=1, noise=SeededNoise(2), kinds=KINDS).to_dict()
    broken = {**one, "results": [{"roc_curve": {**one["results"][0]["roc_curve"], "auc": 2}}] * 3}
    assert "roc_curve: auc is within [0, 1]" in ByGroupOptions.result.violations(broken)


def test_figures_say_what_the_kinds_of_their_group_say() -> None:
    result = by_group.release(statistic(), epsilon=1, noise=SeededNoise(4), kinds=KINDS)
    by_name = {(one.figure, one.threshold): one for one in result.comparisons}
    for place in range(2):
        of_group = result.results[place]
        matrix, at = of_group["confusion_matrix"], of_group["confusion_matrix"].thresholds[1]
        assert by_name["auc", None].values.value[place] == of_group["roc_curve"].auc.value
        assert by_name["recall", at].values.value[place] == pytest.approx(matrix.recall.value[1])
        assert by_name["precision", at].values.value[place] == pytest.approx(matrix.precision.value[1])
        assert by_name["false_positive_rate", at].values.value[place] == pytest.approx(1 - matrix.specificity.value[1])
    assert by_name["auc", None].values.value[2] is None
    sizes = by_group.measure(statistic(), epsilon=1, noise=SeededNoise(4), kinds=KINDS).class_sizes
    assert sizes is not None
    assert sizes.positives == pytest.approx(sum(result.positives), abs=40)


def test_without_noise_the_figures_of_all_rows_are_those_of_the_table() -> None:
    labels, scores, _ = rows(5)
    result = by_group.release(statistic(5), epsilon=1e6, noise=SeededNoise(1), kinds=KINDS)
    by_name = {(one.figure, one.threshold): one.overall.value for one in result.comparisons}
    at = next(threshold for _, threshold in by_name if threshold is not None)
    cells = middles_of(SCORE_CELLS)[cells_of(scores, SCORE_CELLS)]
    above = cells >= at
    exact = {
        ("positive_rate", None): labels.mean(),
        ("mean_residual", None): labels.mean() - cells.mean(),
        ("predicted_positive_rate", at): above.mean(),
        ("recall", at): above[labels].mean(),
        ("false_positive_rate", at): above[~labels].mean(),
        ("precision", at): labels[above].mean(),
    }
    assert {figure: by_name[figure] for figure in exact} == pytest.approx(exact, abs=1e-4)
    assert by_name["auc", None] is None
    assert len(by_name) == 11


@pytest.mark.parametrize("sizes", [(1500, 1500, 12), (700, 700, 700)])
def test_of_all_rows_every_row_of_no_listed_group_counts_too(sizes: tuple[int, ...]) -> None:
    labels, _, _ = rows(6, sizes=sizes)
    result = by_group.release(statistic(6, sizes=sizes), epsilon=10, noise=SeededNoise(2), kinds=("calibration",))
    for one in result.comparisons:
        assert one.overall.value is not None
        assert one.overall.interval is not None
        widths = [known(high) - known(low) for low, high in zip(*one.values.ends(), strict=True)][:2]
        low, high = one.overall.interval
        assert high - low < min(widths)
    assert result.comparisons[0].overall.value == pytest.approx(labels.mean(), abs=0.01)


def test_the_share_of_positives_of_all_rows_follows_the_class_sizes_of_a_request() -> None:
    result = by_group.release(statistic(), epsilon=1, noise=SeededNoise(4), kinds=KINDS)
    moved = result.with_class_sizes(negatives=2000, positives=1000)
    (before, *others), (after, *kept) = result.comparisons, moved.comparisons
    assert after.overall.value == pytest.approx(1 / 3)
    assert np.diff(after.overall.interval) == pytest.approx(np.diff(before.overall.interval))
    assert others == kept
    assert result.with_class_sizes(negatives=0, positives=0) == result
    hidden = replace(result, comparisons=(replace(before, overall=Figure(value=None)),))
    assert hidden.with_class_sizes(negatives=3, positives=1) == hidden


def test_without_noise_a_rate_has_wilsons_interval() -> None:
    for part, rest in ((30, 70), (1, 400), (399, 1)):
        low, high = proportion_confint(part, part + rest, alpha=0.1, method="wilson")
        found = rate(Noisy(part, 0), Noisy(rest, 0), 0.9)
        assert (found.value, *found.ends()) == pytest.approx((part / (part + rest), low, high))


def test_with_noise_alone_a_rate_has_fiellers_interval() -> None:
    """Sampling is negligible among so many rows: the ends are 1.645 standard errors of noise away."""
    part, rest = Noisy(4e9, 1e14), Noisy(6e9, 1e14)
    low, high = rate(part, rest, 0.9).ends()
    for end in (low, high):
        off = part.rows * (1 - end) - rest.rows * end
        error = math.sqrt(part.variance * (1 - end) ** 2 + rest.variance * end**2)
        assert abs(off) / error == pytest.approx(norm.ppf(0.95), rel=1e-3)
    assert math.isnan(rate(Noisy(5, 4), Noisy(-1, 4), 0.9).value)


def test_two_groups_are_compared_by_the_normal_law() -> None:
    reach = norm.ppf(0.95)
    estimates = [
        Figure(value=value, interval=Ends(value - reach * se, value + reach * se))
        for value, se in ((0.5, 0.03), (0.6, 0.04))
    ]
    found = largest_difference(estimates, confidence=0.9, noise=SeededNoise(1))
    assert found is not None
    assert (found.highest, found.lowest, round(found.difference, 9)) == (1, 0, 0.1)
    assert found.p_value == pytest.approx(2 * norm.sf(0.1 / 0.05), abs=0.01)
    assert found.interval == pytest.approx((0.1 - reach * 0.05, 0.1 + reach * 0.05), abs=0.005)
    assert largest_difference([NOTHING, estimates[0]], confidence=0.9, noise=SeededNoise(1)) is None


def test_p_values_are_adjusted_as_by_holm() -> None:
    p_values = [0.04, 0.001, None, 0.03, 0.5]
    expected = multipletests([p for p in p_values if p is not None], method="holm")[1]
    assert [p for p in adjusted(p_values) if p is not None] == pytest.approx(expected)
    assert adjusted(p_values)[2] is None


def released(seed: int, **changes: Any) -> Any:
    return by_group.release(
        statistic(seed, **changes), epsilon=1, noise=SeededNoise(seed), kinds=("auc", "binned_residuals", KINDS[2])
    )


def test_groups_that_differ_are_found() -> None:
    result = released(7, slopes=(0.6, 2.0, 1.0))
    area = next(one for one in result.comparisons if one.figure == "auc")
    assert (area.highest, area.lowest) == ("south", "north")
    assert area.adjusted_p_value < 0.01
    assert area.difference.interval[0] > 0


@pytest.mark.verify
def test_equal_groups_are_called_different_at_the_nominal_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """70 tables of two equal groups; 11 figures of each, which are not independent; a quarter of the usual copies."""
    for module, copies in ((equality, 1000), (pools, 500), (bands, 100)):
        monkeypatch.setattr(module, "COPIES", copies)
    p_values = np.array([[one.p_value for one in released(seed).comparisons] for seed in range(70)], dtype=float)
    # nominal 5 %; a standard error of one figure's share is 2.6 %, and of the mean over figures at least 0.8 %
    assert 0.025 <= (p_values <= 0.05).mean() <= 0.075
    assert ((p_values <= 0.05).mean(axis=0) <= 0.15).all()


@pytest.mark.parametrize("sizes", [(0, 0, 0), (3, 2, 0), (600, 0, 0)])
def test_few_rows_give_a_release_of_the_same_shape(sizes: tuple[int, ...]) -> None:
    few, usual = (by_group.release(statistic(1, **changes), epsilon=1, noise=SeededNoise(6), kinds=("auc",)).to_dict()
                  for changes in ({"sizes": sizes}, {}))  # fmt: skip
    assert few.keys() == usual.keys()
    assert [one["figure"] for one in few["comparisons"]] == [one["figure"] for one in usual["comparisons"]]
    assert all(one["p_value"] is None for one in few["comparisons"])
    assert ByGroupOptions.result.violations(few) == []
