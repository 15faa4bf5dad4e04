"""The figures of a release by name: lines, gates, and what never passes one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure_names import LIMIT, figure_columns, figure_named, groups_of, parse_name
from spark_jobs.contract.gates import Gate, gate_of
from spark_jobs.contract.headlines import figure_text, figures_text, headlines, recorded_text
from spark_jobs.contract.left_out import LeftOut
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import auc, by_group, linear_regression, roc_curve
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import GroupedScoreCounts, Moments, ScoreCounts
from tests.support.kinds import EXAMPLES, tables, times

LABELS, SCORES = [0, 1] * 4000, [0.2, 0.6, 0.7, 0.8] * 2000


def of(result: Any) -> dict[str, Any]:
    return json.loads(json.dumps(result.to_dict(), allow_nan=False))


def curve(epsilon: str = "1") -> dict[str, Any]:
    counts = ScoreCounts.from_arrays(LABELS, SCORES)
    return of(roc_curve.release(counts, epsilon=epsilon, noise=SeededNoise(1)))


def measured(kind: str, *, few: bool) -> dict[str, Any]:
    """A result of a kind; of a table with too few rows for its noise, or with many."""
    options = DIAGNOSTICS[kind].parse({"kind": kind, **EXAMPLES[kind][-1]})
    table = tables(options, Neighbours.ADD_REMOVE)[few]
    terms = Terms(epsilon=0.01 if few else 50, delta=1e-6 if options.accepts_delta else 0, noise=SeededNoise(1))
    drawn = diagnostic(kind).measurement.measure(table if few else times(table, 100), options, terms)
    return of(diagnostic(kind).summarise(drawn, seed=1))


def test_a_line_has_each_figure_with_its_interval() -> None:
    result = curve()
    low, high = result["auc_interval"]
    [one] = headlines({"roc_curve": result})
    assert str(one) == f"AUC {result['auc']:.3f} ({low:.3f} to {high:.3f})"
    assert one.to_dict() == {
        "name": "roc_curve.auc", "value": result["auc"], "interval": [low, high],
        "population": result["auc_population_interval"], "status": "ok",
    }  # fmt: skip
    assert figures_text({"roc_curve": result}) == str(one)


def test_an_undefined_figure_says_what_may_be_behind_it() -> None:
    few = ScoreCounts.from_arrays([0, 1] * 20, [0.2, 0.8] * 20)
    result = of(roc_curve.release(few, epsilon="0.01", noise=SeededNoise(1)))
    assert result["status"] == "undefined"
    [one] = headlines({"roc_curve": result})
    sizes = f"about {result['positives']:,.0f} positives, about {result['negatives']:,.0f} negatives"
    assert str(one) == f"AUC undefined (too few rows for this noise: {sizes})"
    assert (one.value, one.status) == (None, "undefined")


@pytest.mark.parametrize("name", ["auc", "auc.lower", "auc.upper", "auc.population.lower", "auc.population.upper"])
def test_every_end_has_a_name(name: str) -> None:
    result = curve()
    fields = {
        "auc": result["auc"],
        "auc.lower": result["auc_interval"][0],
        "auc.upper": result["auc_interval"][1],
        "auc.population.lower": result["auc_population_interval"][0],
        "auc.population.upper": result["auc_population_interval"][1],
    }
    assert figure_named({"roc_curve": result}, f"roc_curve.{name}") == fields[name]


def test_groups_have_names_of_their_own() -> None:
    regions = np.array(["north.east", "south"], dtype=object).repeat(4000)
    counts = GroupedScoreCounts.from_arrays(LABELS, SCORES, regions, keys=("north.east", "south"))
    result = of(by_group.release(counts, epsilon=4, kinds=("roc_curve",), noise=SeededNoise(1)))
    found = figure_named({"by_group": result}, "roc_curve.north.east.auc.lower")
    assert found == result["results"][0]["roc_curve"]["auc_interval"][0]
    with pytest.raises(InvalidRequest, match="west is none of"):
        figure_named({"by_group": result}, "roc_curve.west.auc")
    points = Moments.from_arrays([0.1, 0.9] * 500, [0.2, 0.8] * 500, groups=[1, 2] * 500, keys=(1, 2), cells=64)
    lines = of(linear_regression.release(points, epsilon=8, noise=SeededNoise(1)))
    assert figure_named({"linear_regression": lines}, "linear_regression.2.slope") == lines["slope"][1]


def test_a_gate_holds_only_for_what_is_defined_and_sure() -> None:
    results = {"roc_curve": curve()}
    assert Gate.parse("roc_curve.auc.lower >= 0.1").holds(results)
    assert Gate.parse("roc_curve.auc<1e0").holds(results)
    assert not Gate.parse("roc_curve.auc.lower >= 0.9999").holds(results)
    undefined = {"roc_curve": {**results["roc_curve"], "status": "undefined", "auc": None, "auc_interval": None}}
    for condition in ("roc_curve.auc >= 0", "roc_curve.auc.lower <= 1"):
        assert not Gate.parse(condition).holds(undefined)
    unchecked = of(auc.release(ScoreCounts.from_arrays(LABELS, SCORES), epsilon=1, interval=False,
                               method="polynomial", noise=SeededNoise(1)))  # fmt: skip
    assert unchecked["status"] == "unchecked"
    assert not Gate.parse("auc.value >= 0").holds({"auc": unchecked})


@pytest.mark.parametrize(
    "wrong",
    ["", "roc_curve.auc", "roc_curve.auc >= high", "roc_curve.auc = 0.7", "auc.value > 0", "roc_curve.tpr > 0",
     "roc_curve.auc.middle > 0", "roc_curve.aux > 0", "roc_curve.auc. > 0", "roc_curve > 0",
     "roc_curve.positives.lower > 0", "roc_curve.north.auc > 0", "roc_curve.auc > 1_0", "roc_curve.auc > nan", ". > 0"],
)  # fmt: skip
def test_a_gate_on_what_a_release_lacks_is_refused_in_one_line(wrong: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        gate_of(wrong, [DIAGNOSTICS["roc_curve"].parse({"kind": "roc_curve"})])
    assert str(refused.value).startswith("gate: ")
    assert "\n" not in str(refused.value)


def test_every_headline_is_a_figure_that_a_gate_can_name() -> None:
    named = 0
    for kind, options in DIAGNOSTICS.items():
        for spec in options.result.specs().values():
            if spec.headline:
                Gate.parse(f"{kind}.{spec.value} > 0").check({kind: (None,)})
                named += 1
    assert named >= 14


def grouped(keys: tuple[str, ...]) -> dict[str, Any]:
    regions = np.array(keys, dtype=object).repeat(8000 // len(keys))
    counts = GroupedScoreCounts.from_arrays(LABELS, SCORES, regions, keys=keys)
    return of(by_group.release(counts, epsilon=4, kinds=("roc_curve",), noise=SeededNoise(1)))


def test_a_group_whose_name_begins_like_another_is_named_in_full() -> None:
    results = {"by_group": grouped(("north", "north.east")), "roc_curve": curve()}
    for name, place in (("north", 0), ("north.east", 1), ("other", 2)):
        own = results["by_group"]["results"][place]["roc_curve"]
        assert figure_named(results, f"roc_curve.{name}.auc.upper") == (own["auc_interval"] or [None, None])[1]
    assert figure_named(results, "roc_curve.auc") == results["roc_curve"]["auc"]


def test_a_figure_of_all_rows_is_none_of_groups_alone() -> None:
    options = {"kind": "by_group", "group_by": "region", "groups": ["north", "south"], "kinds": ["roc_curve"]}
    with pytest.raises(InvalidRequest, match="must name a figure of the release: auc is none of north, south, other"):
        gate_of("roc_curve.auc > 0", [DIAGNOSTICS["by_group"].parse(options)])
    with pytest.raises(InvalidRequest, match="auc is none of north, north.east, other"):
        figure_named({"by_group": grouped(("north", "north.east"))}, "roc_curve.auc")


def test_sizes_have_names_too() -> None:
    result = curve()
    assert figure_named({"roc_curve": result}, "roc_curve.positives") == result["positives"]
    assert Gate.parse("roc_curve.positives >= 100").holds({"roc_curve": result})


def test_names_with_spaces_are_those_of_groups() -> None:
    gate = Gate.parse("roc_curve.New York.auc.lower>=0.7")
    gate.check({"roc_curve": ("New York",)})
    assert (gate.name, str(gate)) == ("roc_curve.New York.auc.lower", "roc_curve.New York.auc.lower >= 0.7")


def test_a_bound_keeps_its_digits() -> None:
    assert Gate.parse(str(Gate.parse("roc_curve.auc >= 0.70000001"))).bound == 0.70000001


def status_group(name: str) -> str:
    """The beginning of a headline's name whose status is the figure's."""
    kind, *groups, _ = name.split(".")
    if kind == "aggregates" and groups:  # group and count, or group, figure and what it is of
        return f"{kind}.{groups[0]}"
    return name.rpartition(".")[0]


@pytest.mark.slow
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("kind", DIAGNOSTICS)
def test_every_name_of_a_column_is_one_that_a_gate_takes(kind: str, few: bool) -> None:
    results = {kind: measured(kind, few=few)}
    columns, groups = figure_columns(results), groups_of(results)
    for column in columns:
        if not column.endswith(".status"):
            assert str(parse_name(column, groups)) == column
            assert figure_named(results, column) == columns[column]
    for one in headlines(results):
        assert columns[one.name] == one.value
        assert columns[f"{status_group(one.name)}.status"] == one.status
        assert json.loads(json.dumps(one.to_dict(), allow_nan=False)) == one.to_dict()
    assert all(value is None or isinstance(value, (str, float)) for value in columns.values())


def test_rows_that_did_not_count_may_be_behind_an_undefined_figure() -> None:
    few = of(roc_curve.release(ScoreCounts.from_arrays([0, 1] * 5, [0.2, 0.8] * 5), epsilon="1", noise=SeededNoise(1)))
    left_out = LeftOut.of_counts({"not_parsed": 0, "null": 800, "outside": 4000}, scale=10, max_rows=1, by_unit=False)
    [one] = headlines({"roc_curve": few}, left_out)
    assert one.value is None
    assert one.cause.endswith("negatives; about 4,800 rows did not count")
    assert figures_text({"roc_curve": few}, left_out) == str(one) == f"AUC undefined ({one.cause})"
    nothing = LeftOut.of_counts({"not_parsed": 0, "null": 8, "outside": 4}, scale=10, max_rows=1, by_unit=False)
    assert headlines({"roc_curve": few}, nothing) == headlines({"roc_curve": few})
    [defined] = headlines({"roc_curve": curve()}, left_out)
    assert defined.cause == "", "it is said in a line of its own"


def test_a_coarse_area_says_that_scores_at_the_ends_hide_it() -> None:
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 20_000)
    scores = np.clip(labels + random.normal(0, 3, 20_000), 0, 1)
    result = of(roc_curve.release(ScoreCounts.from_arrays(labels, scores), epsilon=8, noise=SeededNoise(1)))
    assert result["status"] == "coarse"
    [one] = headlines({"roc_curve": result})
    share = f"about {result['at_ends']:.0%} of the rows have scores at 0 or 1, or beyond, and no order"
    assert str(one).endswith(f") (coarse: {share})")


def test_an_undefined_line_of_a_group_states_the_rows_of_that_group() -> None:
    points = Moments.from_arrays([0.1, 0.9] * 500, [0.2, 0.8] * 500, groups=[1] * 998 + [2] * 2, keys=(1, 2), cells=64)
    lines = of(linear_regression.release(points, epsilon=0.5, noise=SeededNoise(3)))
    assert lines["status"] == ["ok", "undefined"]
    defined, undefined = headlines({"linear_regression": lines})
    assert (defined.status, undefined.status, defined.cause) == ("ok", "undefined", "")
    assert undefined.cause == f"too few rows for this noise: about {lines['rows'][1]:,.0f} rows"


@pytest.mark.slow
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("kind", DIAGNOSTICS)
def test_what_the_ledger_recorded_reads_like_the_release(kind: str, few: bool) -> None:
    found = headlines({kind: measured(kind, few=few)})
    labels = {"median": "quantile"}  # the level is in the release alone
    shown = [figure_text(labels.get(one.label, one.label), one.value, one.interval) for one in found[:3]]
    recorded = json.loads(json.dumps([one.to_dict() for one in found]))
    assert recorded_text(recorded) == ", ".join([*shown, *([f"{len(found) - 3} more"] if len(found) > 3 else [])])


def test_rows_of_a_table_of_aggregates_have_the_status_of_the_whole() -> None:
    table = measured("aggregates", few=False)
    table["status"][0] = "weak"
    assert Gate.parse("aggregates.rows >= 1").holds({"aggregates": table})


def test_thousands_of_lines_are_listed_up_to_a_number_and_each_can_be_named() -> None:
    groups = 100_000
    lines = {
        "keys": list(range(groups)), "status": ["ok"] * groups, "rows": [5.0] * groups,
        "slope": [0.5] * groups, "slope_lower": [0.4] * groups, "slope_upper": [0.6] * groups,
        "intercept": [0.0] * groups, "intercept_lower": [0.0] * groups, "intercept_upper": [0.0] * groups,
    }  # fmt: skip
    results = {"linear_regression": lines}
    assert len(headlines(results)) == LIMIT
    assert figures_text(results).endswith(", 99,997 more")
    assert len(figure_columns(results)) == 8 * LIMIT
    assert figure_named(results, "linear_regression.99999.slope.lower") == 0.4
