"""Every kind declares what its results meet, in fields that its results have; every rule sees what breaks it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from dp_operators.release_check import broken_rules
from spark_jobs.contract import result_checks as rules
from spark_jobs.contract.options import (
    DIAGNOSTICS,
    AggregatesOptions,
    EarlierFunction,
    LinearFitOptions,
    LogisticFitOptions,
    ReferenceDistribution,
    ScoreCells,
)
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.result_checks import EXPECTED_FORM, violations
from spark_jobs.diagnostics import aggregates, by_group, ecdf, linear_fit, logistic_fit, roc_comparison
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import CrossProducts, GroupedScoreCounts, LabelledRows, PairedScoreCounts, ScoreCounts
from tests.support import linear_results
from tests.support.earlier import released
from tests.support.kinds import EXAMPLES, statistic_of, tables, times
from tests.support.paired_scores import two_models

FIT = {"features": {"age": [18, 80]}, "categorical": {"region": ["north", "south"]}}


def scores(seed: int) -> ScoreCounts:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, 2000)
    return ScoreCounts.from_arrays(labels, random.beta(2 + labels, 3 - labels), cells=256)


def grouped_scores() -> GroupedScoreCounts:
    random = np.random.default_rng(1)
    labels, region = random.integers(0, 2, 4000), random.choice(np.array(["north", "south"], dtype=object), 4000)
    return GroupedScoreCounts.from_arrays(labels, random.beta(2 + labels, 3 - labels), region, keys=("north", "south"))


def fit(kind: str) -> Any:
    random = np.random.default_rng(3)
    columns = {"age": random.uniform(18, 80, 2000), "region": random.choice(np.array(["north", "south"]), 2000)}
    if kind == "logistic_fit":
        design = LogisticFitOptions.parse({"kind": kind, **FIT}).statistic
        statistic = LabelledRows.from_arrays(columns, random.integers(0, 2, 2000), design=design)
        return logistic_fit.release(statistic, epsilon=100, noise=SeededNoise(2))
    outcome = {"outcome": "hours", "outcome_bounds": [0, 60]}
    wanted = LinearFitOptions.parse({"kind": kind, **FIT, **outcome}).statistic
    statistic = CrossProducts.from_arrays(columns, random.uniform(0, 60, 2000), design=wanted)
    return linear_fit.release(statistic, epsilon=100, noise=SeededNoise(2))


def distribution() -> Any:
    march = released(noise=SeededNoise(1))
    earlier = EarlierFunction.of(march.to_dict(), march.cdf.tolist(), released_by="march")
    normal = ReferenceDistribution(distribution="normal", parameters=(40.0, 12.0))
    april = released(noise=SeededNoise(2), compare_with=earlier, reference=normal)
    assert isinstance(april, ecdf.Ecdf)
    return april


@cache
def stored(kind: str) -> str:
    """The JSON form of a result of the kind that is defined, with all that the kind may release."""
    match kind:
        case "roc_comparison":
            found: Any = roc_comparison.release(
                PairedScoreCounts.from_arrays(*two_models(2000, 1)), epsilon=10, noise=SeededNoise(1)
            )
        case "ecdf":
            found = distribution()
        case "aggregates":
            cells = AggregatesOptions(**EXAMPLES[kind][2]).statistic
            found = aggregates.release(statistic_of(cells, 0, sizes=None), epsilon=10, marginals=[[]])
        case "by_group":
            found = by_group.release(grouped_scores(), epsilon=10, kinds=("roc_curve",), noise=SeededNoise(1))
        case "residual_plot":
            found = linear_results.residual_plot()
        case "linear_regression":
            found = linear_results.linear_fit(4)
        case "linear_fit" | "logistic_fit":
            found = fit(kind)
        case _:
            options = DIAGNOSTICS[kind].parse({"kind": kind, **EXAMPLES[kind][0]})
            table = (
                scores(1)
                if options.statistics == (ScoreCells(),)
                else times(tables(options, Neighbours.ADD_REMOVE)[0], 9)
            )
            terms = Terms(epsilon=10, noise=SeededNoise(1))
            draw = diagnostic(kind).measurement.measure(table, options, terms)
            found = diagnostic(kind).summarise(draw, seed=1)
    return json.dumps(found.to_dict(), allow_nan=False)


def names_of(kind: str) -> set[str]:
    options = DIAGNOSTICS[kind]
    return {
        "status",
        *options.result.figure_names(),
        *(name for check in options.result.checks() for name in check.names),
    }


def has(value: Any, name: str) -> bool:
    first, _, rest = name.partition(".")
    if isinstance(value, list):
        return bool(value) and all(has(each, name) for each in value)
    return isinstance(value, dict) and first in value and (not rest or has(value[first], rest))


@pytest.mark.slow
@pytest.mark.parametrize("kind", DIAGNOSTICS)
def test_results_have_every_field_that_their_kind_declares_and_meet_its_rules(kind: str) -> None:
    result = json.loads(stored(kind))
    assert DIAGNOSTICS[kind].result.checks()
    assert [name for name in sorted(names_of(kind)) if not has(result, name)] == []
    assert broken_rules(kind, result) == []


def test_a_field_that_a_result_has_not_is_seen() -> None:
    result = json.loads(stored("ecdf"))
    assert has(result, "quantiles.level")
    assert has(result, "comparison.distance.value")
    assert not has(result, "quantiles.levels")
    assert not has(result, "comparison.distanse.value")


@pytest.mark.parametrize("kind", DIAGNOSTICS)
def test_a_field_that_is_missing_or_holds_something_else_is_found(kind: str) -> None:
    for name in {name.partition(".")[0] for name in names_of(kind)}:
        result = json.loads(stored(kind))
        assert broken_rules(kind, {**result, name: "something else"}), name
        del result[name]
        assert broken_rules(kind, result), name


def test_a_curve_inside_a_comparison_meets_the_rules_of_curves() -> None:
    result = json.loads(stored("roc_comparison"))
    result["first"]["tpr"][0] = 0.5
    result["second"]["status"] = "undefined"
    assert broken_rules("roc_comparison", result) == [
        "roc_comparison: first: tpr never falls",
        "roc_comparison: first: tpr runs from 0 to 1",
        "roc_comparison: first: tpr_upper is not below tpr",
        "roc_comparison: first: tpr_population_upper is not below tpr",
        "roc_comparison: second: every figure of an undefined result is null",
    ]


def test_a_status_for_all_lines_at_once_is_another_form() -> None:
    result = json.loads(stored("linear_regression")) | {"status": "undefined"}
    assert broken_rules("linear_regression", result) != []


NAN = float("nan")
BROKEN = [
    (rules.within("a"), {"a": [0, 1]}, {"a": [0, 1.1]}, "a is within [0, 1]"),
    (rules.within("a"), {"a": 1}, {"a": NAN}, "a is a number"),
    (rules.within("a"), {"a": 0}, {"a": None}, EXPECTED_FORM),
    (rules.within("a"), {"a": 0}, {"a": True}, EXPECTED_FORM),
    (rules.within("a", nullable=True), {"a": [None, 0]}, {"a": [None, -1]}, "a is within [0, 1]"),
    (rules.within("a.b"), {"a": {"b": 0}}, {"a": {}}, EXPECTED_FORM),
    (rules.finite("a"), {"a": -1}, {"a": float("inf")}, "a is finite"),
    (rules.finite("a", low=0), {"a": 0}, {"a": -1}, "a is finite and not below 0"),
    (rules.positive("a"), {"a": [1]}, {"a": [0]}, "a is above 0"),
    (rules.whole("a"), {"a": [1, 2.0]}, {"a": [1, 2.5]}, "a is whole"),
    (rules.never_falls("a"), {"a": [1, 1, 2]}, {"a": [2, 1]}, "a never falls"),
    (rules.never_rises("a"), {"a": [2, 1, 1]}, {"a": [1, 2]}, "a never rises"),
    (rules.always_rises("a"), {"a": [1, 2]}, {"a": [1, 1]}, "a always rises"),
    (rules.counts_up("a"), {"a": [0, 0, 1]}, {"a": [0, 2]}, "a goes up by 0 or 1 at a time"),
    (rules.ends("a", first=0, last=1), {"a": [0, 3, 1]}, {"a": [0, 3]}, "a runs from 0 to 1"),
    (rules.ends("a", first=0, last=1), {"a": [0, 1]}, {"a": []}, EXPECTED_FORM),
    (rules.interval("a"), {"a": [1, 1]}, {"a": [2, 1]}, "a is an interval"),
    (rules.interval("a"), {"a": [1, 2]}, {"a": [1]}, "a is an interval"),
    (rules.among("a", values=("x", "y")), {"a": ["x"]}, {"a": ["z"]}, "a is one of x, y"),
    (rules.null_first("a"), {"a": [None, 1]}, {"a": [None, None]}, "a is null in the first place and nowhere else"),
    (rules.ascending("a", "b"), {"a": [0], "b": [0]}, {"a": [1], "b": [0]}, "b is not below a"),
    (rules.ascending("a", "b"), {"a": [0], "b": [0]}, {"a": [0], "b": [0, 1]}, EXPECTED_FORM),
    (rules.inside("a", "b"), {"a": [1, 2], "b": [1, 2]}, {"a": 3, "b": [1, 2]}, "a is within b"),
    (rules.inside("a", "b"), {"a": 1, "b": [1, 2]}, {"a": 1, "b": None}, EXPECTED_FORM),
    (rules.inside("a", "b", nullable=True), {"a": 1, "b": None}, {"a": 3, "b": [1, 2]}, "a is within b"),
    (
        rules.adjoining("a", "b", first=0, last=1),
        {"a": [0, 0.5], "b": [0.5, 1]},
        {"a": [0, 0.6], "b": [0.5, 1]},
        "a and b follow each other from 0 to 1",
    ),
    (rules.same_length("a", "b"), {"a": [1], "b": [2]}, {"a": [1], "b": []}, "a, b have the same length"),
    (rules.shape("a", sizes=("n", "k")), {"a": [[1, 2]], "n": None, "k": [3, 4]}, {"a": [[1]], "n": 1, "k": 2},
     "the size of a is n by k"),
    (rules.shape("a", sizes=("n",), more=1), {"a": [1, 2], "n": 1}, {"a": [1], "n": 1}, "the size of a is n + 1"),
    (rules.add_up("a", "b", total="c"), {"a": [1, 2], "b": 3, "c": 6}, {"a": 1, "b": 1, "c": 3}, "a, b add up to c"),
    (rules.null_together("a", "b"), {"a": None, "b": None}, {"a": None, "b": 1}, "a, b are null together"),
    (rules.null_together("a", "b"), {"a": [None, 1], "b": [None, 2]}, {"a": [None, 1], "b": [1, None]},
     "a, b are null together"),
    (rules.null_where("a", by="b", value="x"), {"a": [None, 1], "b": ["x", "y"]}, {"a": [None], "b": ["y"]},
     "a are null where b is x and nowhere else"),
    (rules.null_where("a", by="b", value="x", only=False), {"a": [None], "b": ["y"]}, {"a": [1], "b": ["x"]},
     "a are null where b is x"),
    (rules.rows("a", rules.within("b")), {"a": [{"b": 1}]}, {"a": [{"b": 1}, {"b": 2}]}, "a: b is within [0, 1]"),
    (rules.rows("a", rules.within("b")), {"a": []}, {"a": {"b": 1}}, EXPECTED_FORM),
]  # fmt: skip


@pytest.mark.parametrize(("check", "kept", "broken", "line"), BROKEN)
def test_every_rule_passes_what_meets_it_and_names_what_breaks_it(
    check: rules.ResultCheck, kept: dict[str, Any], broken: dict[str, Any], line: str
) -> None:
    for fields, lines in ((kept, []), (broken, [line])):
        assert violations({"status": "ok", **fields}, figures=(), checks=(check,)) == lines
