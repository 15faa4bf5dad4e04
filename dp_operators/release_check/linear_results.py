"""The contracts of residual plots and of lines through groups."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from dp_operators.release_check.expectations import (
    Expected,
    Table,
    at_least,
    between,
    finite,
    not_null,
    number,
    numbers,
    rises,
    unit_interval,
    within_set,
)
from spark_jobs.contract.figures import OK, UNDEFINED

_MOST = sys.float_info.max


def residual_plot_tables(result: Mapping[str, Any]) -> list[Table]:
    """Cells follow each other and hold whole counts; trend, spread and quantiles lie in their intervals."""
    bins = int(number(result["bins"]))
    edges = {f"{axis}_edges": numbers(result[f"{axis}_edges"]) for axis in ("fitted", "residual")}
    counts = [number(count) for column in result["counts"] for count in column]
    whole = [
        len(result["counts"]) == bins
        and all(len(column) == bins for column in result["counts"])
        and all(len(values) == bins + 1 for values in edges.values())
        and all(count == int(count) for count in counts)
    ]
    sides = {side: numbers(result[f"counts_{side}"]) for side in ("left", "right", "below", "above")}
    beyond = [count for side in sides.values() for count in side]
    whole[0] &= [len(side) for side in sides.values()] == [bins, bins, bins + 2, bins + 2]
    whole[0] &= sum(beyond) == number(result["overflow"])
    cells = Table(
        name="residual_plot cells",
        columns={"count": counts + beyond},
        expected=(not_null("count"), between("count", 0, _MOST, what="count is finite and not negative")),
    )
    steps = {f"{name} step": rises(values)[1:] for name, values in edges.items()}
    axes = Table(
        name="residual_plot axes",
        columns=steps,
        expected=tuple(between(name, sys.float_info.min, _MOST, what=f"{name} is above 0") for name in steps),
    )
    ends = ("lower", "upper")
    names = ["trend_fitted", "column_rows", "trend", "spread"]
    names += [f"{name}_{end}" for name in ("trend", "spread") for end in ends]
    along = {name: numbers(result[name]) for name in names}
    expected = [entry for name in names for entry in (not_null(name), finite(name))]
    expected += _inside("trend") + _inside("spread")
    expected += [between(name, 0, _MOST, what=f"{name} is not negative") for name in ("column_rows", "spread_lower")]
    quantiles = {name: numbers(result[name]) for name in ("qq_theoretical", "qq_lower", "qq_residual", "qq_upper")}
    quantiles |= {f"{name} step": rises(values) for name, values in quantiles.items()}
    rising = [between(name, 0, _MOST, what=f"{name} is not below 0") for name in quantiles if name.endswith("step")]
    points = {name: numbers(result[f"points_{name}"]) for name in ("fitted", "residual")}
    return [
        cells,
        axes,
        Table(name="residual_plot trend", columns=along, expected=tuple(expected)),
        Table(
            name="residual_plot quantiles",
            columns=quantiles,
            expected=(*rising, at_least("qq_residual", "qq_lower"), at_least("qq_upper", "qq_residual")),
        ),
        Table(name="residual_plot points", columns=points, expected=(finite("fitted"), finite("residual"))),
        _residual_summary(result, whole),
    ]


def _residual_summary(result: Mapping[str, Any], whole: list[bool]) -> Table:
    tests = ("line", "curvature", "variance", "shift")
    p_values = ("p_value", *(f"{test}_p_value" for test in tests))
    sizes = ("rows", "overflow")
    columns: dict[str, list[Any]] = {name: [number(result[name])] for name in (*p_values, *sizes)}
    columns |= {"whole": whole, "told": [set(result["findings"]) <= set(tests)]}
    expected = [entry for name in p_values for entry in unit_interval(name)]
    expected += [between(name, 0, _MOST, what=f"{name} is finite and not negative") for name in sizes]
    expected += [
        within_set("whole", [True], what="the grid has the cells that it says"),
        within_set("told", [True], what="findings are those of the tests"),
    ]
    return Table(name="residual_plot summary", columns=columns, expected=tuple(expected))


def linear_regression_tables(result: Mapping[str, Any]) -> list[Table]:
    """Every group of the request has a line; predictions lie within the public bounds and, if any, their intervals."""
    low, high = numbers(result["y_bounds"])
    keys = result["keys"]
    groups = 1 if keys is None else len(keys)
    undefined = [status == UNDEFINED for status in result["status"]]
    own = {name: result[name] for name in ("slope", "intercept")}
    withheld = [
        all((value is None) == hidden for value, hidden in zip(values, undefined, strict=True))
        for values in own.values()
    ]
    columns: dict[str, list[Any]] = {
        name: [0.0 if value is None else number(value) for value in values] for name, values in own.items()
    }
    columns["withheld"] = [all(withheld)] * len(undefined)
    # a method that needs no size releases none
    columns["rows"] = [0.0 if rows is None else number(rows) for rows in result["rows"]]
    total = result["total_rows"]
    columns["total_rows"] = [0.0 if total is None else number(total)] * len(columns["slope"])
    columns |= {"status": list(result["status"]), "method": list(result["methods"])}
    expected = [
        entry for name in ("slope", "intercept", "rows", "total_rows") for entry in (not_null(name), finite(name))
    ]
    expected += [
        within_set("status", [OK, UNDEFINED], what="status is ok or undefined"),
        within_set("withheld", [True], what="slope and intercept are null where they are undefined, and nowhere else"),
        between("rows", 0, _MOST, what="rows is not negative"),
    ]
    columns["listed"] = [len(columns["slope"]) == groups] * len(columns["slope"])
    expected += [within_set("listed", [True], what="there is a line for each group")]
    for name in ("slope", "intercept"):
        _add_interval(columns, expected, name, columns[name], result[f"{name}_lower"], result[f"{name}_upper"])
    places = len(numbers(result["x"]))
    for k in range(places):
        name = f"prediction {k}"
        columns[name] = [number(row[k]) for row in result["predictions"]]
        expected += [not_null(name), between(name, low, high, what=f"{name} is within the bounds of y")]
        lower, upper = ([row[k] for row in result[f"predictions_{end}"]] for end in ("lower", "upper"))
        _add_interval(columns, expected, name, columns[name], lower, upper)
    return [Table(name="linear_regression", columns=columns, expected=tuple(expected))]


def _inside(name: str) -> list[Expected]:
    return [at_least(name, f"{name}_lower"), at_least(f"{name}_upper", name)]


def _add_interval(
    columns: dict[str, list[Any]],
    expected: list[Expected],
    name: str,
    values: list[float],
    lower: list[Any],
    upper: list[Any],
) -> None:
    """The interval of ``name``; where a group has none, its value stands for both ends."""
    for end, given in (("lower", lower), ("upper", upper)):
        filled = [value if edge is None else number(edge) for value, edge in zip(values, given, strict=True)]
        columns[f"{name}_{end}"] = filled
        expected.append(finite(f"{name}_{end}"))
    expected += _inside(name)
