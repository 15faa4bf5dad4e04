"""The contract that every release meets before it is paid for and shown, as Great Expectations suites.

What is looked at here is a draft: noised already, so a failed check says nothing about anybody. It means a fault of the
program, and stops the release before its commit.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from dp_operators.releasing import ReleaseRejected
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.release import PRIVATE, Release

ReadFile = Callable[[str], bytes | None]
"""Gives a draft's file by its name below the release's folder; None if there is none."""


class ReleaseCheckFailed(ReleaseRejected):
    """The draft does not meet the contract; trying again would make the same draft.

    Attributes:
        broken: the expectations that do not hold, each as ``table: what``; never a value.
    """

    def __init__(self, broken: Iterable[str]) -> None:
        self.broken = tuple(broken)
        super().__init__(f"the release does not meet its contract ({'; '.join(self.broken)}); it was not published")


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One expectation: in words, its class in ``great_expectations.expectations``, and that class's arguments."""

    what: str
    expectation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns of a draft, all of one length, and what is expected of them."""

    name: str
    columns: Mapping[str, list[Any]]
    expected: tuple[Expected, ...]

    def __post_init__(self) -> None:
        if len({len(values) for values in self.columns.values()}) > 1:
            raise ValueError(f"the columns of {self.name} differ in length")


def check_release(release: Release, read_file: ReadFile) -> None:
    """Check a draft's manifest and files against the contract.

    Raises:
        ReleaseCheckFailed: they do not meet it.
    """
    tables = [manifest_table(release), files_table(release, read_file)]
    broken = []
    for kind, result in release.results.items():
        if kind not in RESULTS:
            broken.append(f"{kind}: no contract is known")
            continue
        try:
            tables += RESULTS[kind](result)
        except (KeyError, TypeError, IndexError, ValueError):
            broken.append(f"{kind}: the result has another form")
    broken += unmet(tables)
    if broken:
        raise ReleaseCheckFailed(broken)


def manifest_table(release: Release) -> Table:
    """What the manifest says of itself: paid for, private, within the reservation, and what was asked for."""
    request = release.request
    reserved = Budget.parse(request["budget"])
    asked = {entry["kind"] for entry in request["diagnostics"]}
    facts = {
        "a charge pays for it": release.status == "CHARGED" and bool(release.key and release.charge_id),
        "its noise is secure": release.guarantee == PRIVATE,
        "epsilon is above 0 and within the reservation": 0 < release.cost.epsilon <= reserved.epsilon,
        "delta is within the reservation": release.cost.delta <= reserved.delta,
        "the neighbours are those asked for": release.neighbours == request["neighbours"],
        "the unit is the one asked for": release.unit.model_dump(mode="json") == request["unit"],
        "the results are those asked for": set(release.results) == asked,
    }
    expected = tuple(_within_set(name, [True], what=name) for name in facts)
    return Table(name="manifest", columns={name: [holds] for name, holds in facts.items()}, expected=expected)


def files_table(release: Release, read_file: ReadFile) -> Table:
    """Every file is there, under a name of its own, with the size and hash that the manifest gives."""
    matches = []
    for file in release.files:
        content = read_file(file.name)
        same = content is not None and (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)
        matches.append(same)
    expected = (
        _within_set("matches", [True], what="every file is as the manifest says"),
        Expected(what="names differ", expectation="ExpectColumnValuesToBeUnique", arguments={"column": "name"}),
    )
    return Table(
        name="files", columns={"name": [file.name for file in release.files], "matches": matches}, expected=expected
    )


BANDS = (("tpr_lower", "tpr_upper"), ("tpr_lower_everywhere", "tpr_upper_everywhere"))


def roc_curve_tables(result: Mapping[str, Any]) -> list[Table]:
    """The curve runs from (0, 0) to (1, 1), never falls, and lies in its bands; the AUC lies in its interval."""
    names = ("fpr", "tpr", *(name for band in BANDS for name in band))
    points = {name: _numbers(result[name]) for name in names}
    first, *cuts = result["thresholds"]
    if first is not None:
        raise ValueError("the first threshold is infinite")
    points["threshold"] = [1.0, *_numbers(cuts)]
    steps = {f"{name} step": _steps(points[name]) for name in ("fpr", "tpr", "threshold")}
    curve = [entry for name in points for entry in _unit_interval(name)]
    curve += [_between(f"{name} step", 0, 1, what=f"{name} never falls") for name in ("fpr", "tpr")]
    curve += [_between("threshold step", -1, 0, what="threshold never rises")]
    for lower, upper in BANDS:
        curve += [_at_least("tpr", lower), _at_least(upper, "tpr")]
    low, high = _numbers(result["auc_interval"])
    scalars = {"auc_lower": low, "auc": _number(result["auc"]), "auc_upper": high}
    sizes = {name: _number(result[name]) for name in ("positives", "negatives")}
    ends = [points[name][end] for name in ("fpr", "tpr") for end in (0, -1)]
    expected = [entry for name in scalars for entry in _unit_interval(name)]
    expected += [_at_least("auc", "auc_lower"), _at_least("auc_upper", "auc")]
    expected += [entry for name in sizes for entry in (_not_null(name), _finite(name))]
    expected += [_within_set("ends", [True], what="it runs from (0, 0) to (1, 1)")]
    columns = {name: [value] for name, value in {**scalars, **sizes, "ends": ends == [0, 1, 0, 1]}.items()}
    return [
        Table(name="roc_curve", columns={**points, **steps}, expected=tuple(curve)),
        Table(name="roc_curve summary", columns=columns, expected=tuple(expected)),
    ]


def binned_residuals_tables(result: Mapping[str, Any]) -> list[Table]:
    """Bins follow each other from 0 to 1, each residual lies in its interval, p-values are probabilities."""
    bins = _bins(result, ("predicted", "residual", "residual_lower", "residual_upper", "zone_lower", "zone_upper"))
    expected = _bins_expected() + _unit_interval("predicted")
    for name in ("residual", "residual_lower", "residual_upper", "zone_lower", "zone_upper"):
        expected += [_not_null(name), _between(name, -1, 1)]
    expected += [_at_least("residual", "residual_lower"), _at_least("residual_upper", "residual")]
    names = ("p_value", "trend_p_value", "scatter_p_value")
    summary = {name: [_number(result[name])] for name in (*names, "positives", "negatives")}
    summed = [entry for name in names for entry in _unit_interval(name)]
    return [
        Table(name="binned_residuals", columns=bins, expected=tuple(expected)),
        Table(name="binned_residuals summary", columns=summary, expected=(*summed, *_sizes_expected())),
    ]


def calibration_tables(result: Mapping[str, Any]) -> list[Table]:
    """Bins follow each other from 0 to 1, shares are shares, each lies in its interval, the test is whole."""
    shares = ("predicted", "observed", "observed_lower", "observed_upper", "zone_lower", "zone_upper")
    expected = _bins_expected() + [entry for name in shares for entry in _unit_interval(name)]
    expected += [_at_least("observed", "observed_lower"), _at_least("observed_upper", "observed")]
    summary = {name: [_number(result[name])] for name in ("p_value", "ece", "ece_calibrated", "statistic")}
    for name in ("ece", "statistic"):
        low, high = _numbers(result[f"{name}_interval"])
        summary |= {f"{name}_lower": [low], f"{name}_upper": [high]}
    summary |= {name: [_number(result[name])] for name in ("positives", "negatives")}
    summed = [entry for name in ("p_value", "ece", "ece_calibrated") for entry in _unit_interval(name)]
    summed += [_not_null("statistic"), _finite("statistic_upper")]
    for name in ("ece", "statistic"):
        summed += [_at_least(name, f"{name}_lower"), _at_least(f"{name}_upper", name)]
    return [
        Table(name="calibration", columns=_bins(result, shares), expected=tuple(expected)),
        Table(name="calibration summary", columns=summary, expected=(*summed, *_sizes_expected())),
    ]


def ecdf_tables(result: Mapping[str, Any]) -> list[Table]:
    """Values ascend, fractions rise to 1 within both bands, quantiles lie in their intervals."""
    bands = ("lower_everywhere", "lower", "cdf", "upper", "upper_everywhere")
    columns: dict[str, list[Any]] = {name: _numbers(result[name]) for name in ("values", *bands)}
    columns |= {f"{name} step": _steps(columns[name]) for name in ("values", *bands)}
    expected = [_not_null("values"), _finite("values"), *(entry for name in bands for entry in _unit_interval(name))]
    expected += [
        _between(f"{name} step", 0, sys.float_info.max, what=f"{name} never falls") for name in ("values", *bands)
    ]
    expected += [_at_least(high, low) for low, high in pairwise(bands)]
    quantiles = {
        "level": [_number(quantile["level"]) for quantile in result["quantiles"]],
        "value": [_number(quantile["value"]) for quantile in result["quantiles"]],
        "lower": [_numbers(quantile["interval"])[0] for quantile in result["quantiles"]],
        "upper": [_numbers(quantile["interval"])[1] for quantile in result["quantiles"]],
    }
    low, high = _numbers(result["bounds"])
    summary: dict[str, list[Any]] = {"lower": [low], "upper": [high], "rows": [_number(result["rows"])]}
    summed = [_not_null("lower"), _not_null("upper"), _at_least("upper", "lower"), _not_null("rows"), _finite("rows")]
    if result["distance"] is not None:
        near, far = _numbers(result["distance"]["interval"])
        summary |= {"near": [near], "distance": [_number(result["distance"]["value"])], "far": [far]}
        summary["p_value"] = [_number(result["distance"]["p_value"])]
        summed += [entry for name in ("near", "distance", "far", "p_value") for entry in _unit_interval(name)]
    return [
        Table(name="ecdf", columns=columns, expected=tuple(expected)),
        Table(
            name="ecdf quantiles",
            columns=quantiles,
            expected=(*_unit_interval("level"), _at_least("value", "lower"), _at_least("upper", "value")),
        ),
        Table(name="ecdf summary", columns=summary, expected=tuple(summed)),
    ]


def _bins(result: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        name: _numbers(result[name]) for name in ("lower", "upper", "pool", "rows", *names)
    }
    columns["pool step"] = _steps(columns["pool"])
    ends = zip([*columns["lower"], 1.0], [0.0, *columns["upper"]], strict=True)
    columns["follows"] = [all(left == right for left, right in ends)] * len(columns["lower"])
    return columns


def _bins_expected() -> list[Expected]:
    return [
        _within_set("follows", [True], what="bins follow each other from 0 to 1"),
        _within_set("pool step", [0.0, 1.0], what="pools follow each other"),
        *(_not_null("rows"), _between("rows", 0, sys.float_info.max, what="rows is finite and not negative")),
    ]


def _sizes_expected() -> list[Expected]:
    return [entry for name in ("positives", "negatives") for entry in (_not_null(name), _finite(name))]


def score_figure_tables(name: str, result: Mapping[str, Any]) -> list[Table]:
    """The figure lies in [0, 1] and in its interval, if it has one; sizes are finite, if they were paid for."""
    value = _number(result["value"])
    columns = {"value": [value]}
    expected = _unit_interval("value")
    if result["interval"] is not None:
        low, high = _numbers(result["interval"])
        columns |= {"lower": [low], "upper": [high]}
        expected += [entry for end in ("lower", "upper") for entry in _unit_interval(end)]
        expected += [_at_least("value", "lower"), _at_least("upper", "value")]
        columns |= {size: [_number(result[size])] for size in ("positives", "negatives")}
        expected += _sizes_expected()
    return [Table(name=name, columns=columns, expected=tuple(expected))]


def binormal_roc_tables(result: Mapping[str, Any]) -> list[Table]:
    """The curve never falls and lies in its band; the AUC lies in its interval."""
    points = {name: _numbers(result[name]) for name in ("fpr", "tpr", "tpr_lower", "tpr_upper")}
    steps = {f"{name} step": _steps(points[name]) for name in ("fpr", "tpr")}
    expected = [entry for name in points for entry in _unit_interval(name)]
    expected += [_between(name, 0, 1, what=f"{name.removesuffix(' step')} never falls") for name in steps]
    expected += [_at_least("tpr", "tpr_lower"), _at_least("tpr_upper", "tpr")]
    area = {"value": result["auc"], "interval": result["auc_interval"]}
    sizes = {name: result[name] for name in ("positives", "negatives")}
    return [
        Table(name="binormal_roc", columns={**points, **steps}, expected=tuple(expected)),
        *score_figure_tables("binormal_roc summary", {**area, **sizes}),
    ]


RATES = ("accuracy", "precision", "recall", "specificity", "f1")


def confusion_matrix_tables(result: Mapping[str, Any]) -> list[Table]:
    """Counts are finite; rates lie in [0, 1] and in their intervals, or are undefined."""
    counts = ("true_positives", "false_positives", "false_negatives", "true_negatives")
    columns = {name: _numbers(result[name]) for name in ("thresholds", *counts)}
    expected = _unit_interval("thresholds") + [e for name in counts for e in (_not_null(name), _finite(name))]
    for name in RATES:
        lower, upper = (_numbers(result[f"{name}_{end}"]) for end in ("lower", "upper"))
        rate = [low if value is None else value for value, low in zip(result[name], lower, strict=True)]
        columns |= {name: _numbers(rate), f"{name}_lower": lower, f"{name}_upper": upper}
        expected += [entry for each in (name, f"{name}_lower", f"{name}_upper") for entry in _unit_interval(each)]
        expected += [_at_least(name, f"{name}_lower"), _at_least(f"{name}_upper", name)]
    return [Table(name="confusion_matrix", columns=columns, expected=tuple(expected))]


RESULTS: dict[str, Callable[[Mapping[str, Any]], list[Table]]] = {
    "roc_curve": roc_curve_tables,
    "auc": partial(score_figure_tables, "auc"),
    "average_precision": partial(score_figure_tables, "average_precision"),
    "binormal_roc": binormal_roc_tables,
    "confusion_matrix": confusion_matrix_tables,
    "binned_residuals": binned_residuals_tables,
    "calibration": calibration_tables,
    "ecdf": ecdf_tables,
}
"""The contract of each diagnostic's result; a kind without one cannot be published."""


def unmet(tables: Iterable[Table]) -> list[str]:
    """The expectations that the tables do not meet, each as ``table: what``."""
    import pandas as pd

    gx = great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False)
    source = context.data_sources.add_pandas("release")
    broken = []
    for table in tables:
        definition = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe("whole")
        suite = gx.ExpectationSuite(
            name=table.name,
            expectations=[
                getattr(gx.expectations, entry.expectation)(**entry.arguments, meta={"what": entry.what})
                for entry in table.expected
            ],
        )
        batch = definition.get_batch({"dataframe": pd.DataFrame(table.columns)})
        results = batch.validate(suite, result_format="BOOLEAN_ONLY").results
        held = {result.expectation_config.meta["what"] for result in results if result.success}
        broken += [f"{table.name}: {entry.what}" for entry in table.expected if entry.what not in held]
    return broken


def great_expectations() -> Any:
    """The library, silent and without telemetry; importing it takes seconds."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # imported into a process that logs already, it would write hundreds of lines
    warnings.filterwarnings("ignore", module="great_expectations")
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations as gx

    logging.getLogger(gx.data_context.types.base.__name__).setLevel(logging.WARNING)
    return gx


def warm_up() -> threading.Thread:
    """Start importing the library beside whatever else is going on."""
    thread = threading.Thread(target=great_expectations, name="warm-up-great-expectations", daemon=True)
    thread.start()
    return thread


def _not_null(column: str) -> Expected:
    arguments = {"column": column}
    return Expected(what=f"{column} is a number", expectation="ExpectColumnValuesToNotBeNull", arguments=arguments)


def _unit_interval(column: str) -> list[Expected]:
    return [
        _not_null(column),
        _between(column, 0, 1),
    ]


def _between(column: str, low: float, high: float, *, what: str | None = None) -> Expected:
    arguments = {"column": column, "min_value": low, "max_value": high}
    return Expected(
        what=what or f"{column} is within [{low:g}, {high:g}]",
        expectation="ExpectColumnValuesToBeBetween",
        arguments=arguments,
    )


def _finite(column: str) -> Expected:
    most = sys.float_info.max
    return _between(column, -most, most, what=f"{column} is finite")


def _at_least(upper: str, lower: str) -> Expected:
    return Expected(
        what=f"{upper} is not below {lower}",
        expectation="ExpectColumnPairValuesAToBeGreaterThanB",
        arguments={"column_A": upper, "column_B": lower, "or_equal": True},
    )


def _within_set(column: str, values: list[Any], *, what: str) -> Expected:
    arguments = {"column": column, "value_set": values}
    return Expected(what=what, expectation="ExpectColumnValuesToBeInSet", arguments=arguments)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


def _numbers(values: Any) -> list[float]:
    return [_number(value) for value in values]


def _steps(values: list[float]) -> list[float]:
    return [0.0, *(right - left for left, right in pairwise(values))]
