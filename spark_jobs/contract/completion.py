"""Completes the fields of a request from the domains of its table's columns; refuses fields that contradict a domain.

Fields that a request leaves out come from the domains: bounds, steps, scales, label values, groups, levels, a stream's
time. Fields that it gives may narrow a domain. The completed request depends on no domain: it is what is hashed,
charged, shown and published, so that a later change of a domain does not change it. Completing it again changes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, get_args

from spark_jobs.contract.column_completion import Fields, with_bounds, with_groups_and_bounds, with_keys
from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.domain_checks import (
    Domains,
    among,
    contradiction,
    equal_values,
    is_step,
    require_value,
    require_within,
    shown,
)
from spark_jobs.contract.domains import Domain, ListedValues, LogOdds, Period, ValueRange, number
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.within import require_within_domains
from spark_jobs.contract.grids import MAX_STEPS_FROM_ZERO, values_of_steps
from spark_jobs.contract.options import (
    DIAGNOSTICS,
    AggregatesOptions,
    ByGroupOptions,
    FitSettings,
    Options,
    ProfileOptions,
)
from spark_jobs.contract.options.aggregates import entries_by
from spark_jobs.contract.options.measures import counts_units
from spark_jobs.contract.options.metrics import is_short, lacks_bounds
from spark_jobs.contract.options.rows_per_unit import RowsPerUnitOptions
from spark_jobs.contract.options.values import OfValues
from spark_jobs.contract.profile_completion import profile_leaves_out, with_profiled
from spark_jobs.contract.score_scale import ScoreScale
from spark_jobs.contract.stated_scale import on_scale, states_scale, with_stated_scale

OTHER = "other"
"""What a request writes as ``label.negative`` for every value but the positive one."""
_CELLS = OfValues.model_fields["cells"]


def completed(fields: Fields, domains: Domains) -> dict[str, Any]:
    """The fields of a request, completed and checked.

    Args:
        fields: the request's, with the names of earlier releases and registered lists replaced by their content.
        domains: the domains of the table's columns.

    Raises:
        InvalidRequest: a field contradicts what a column may hold, or leaves out what its domain does not decide.
    """
    fields = with_stated_scale(fields, domains)
    filled = dict(fields)
    if isinstance(fields.get("where"), str):
        require_within_domains(fields["where"], domains)
    if fields.get("label") is not None:
        filled["label"] = _label(fields["label"], domains)
    scale = None
    if fields.get("model") is not None:
        filled["model"], scale = _model(fields["model"], domains, "model")
    if isinstance(fields.get("states"), Mapping):
        filled["states"] = with_keys(fields["states"], "column", "keys", domains, "states")
    if fields.get("time") is not None:
        filled |= _times(fields, domains)
    given = fields.get("diagnostics")
    if given is not None:
        entries = given if isinstance(given, (list, tuple)) else [given]
        filled["diagnostics"] = [_diagnostic(entry, domains, scale) for entry in entries]
    return filled


def _label(given: Any, domains: Domains) -> Any:
    label = {"column": given} if isinstance(given, str) else given
    if not isinstance(label, Mapping) or label.get("rest"):
        return given
    label = dict(label)
    column = domains.column(label.get("column"))
    values = domains.listed(label.get("column"))
    if values is None and column is not None and column.kind is Kind.BOOLEAN:
        return given
    for name in ("positive", "negative"):
        value = label.get(name)
        if value is not None and not (name == "negative" and value == OTHER):
            require_value(value, label["column"], domains, f"label.{name}")
    if values is not None:
        if label.get("positive") is None and not among(1, values):
            raise InvalidRequest(
                "label.positive", None, f"is required: {label['column']} holds {shown(values)}",
                "name the value that means 1",
            )  # fmt: skip
        positive = label.get("positive", 1)
        others = [value for value in values if not equal_values(value, positive)]
        if len(others) == 1 and label.get("negative") in (None, OTHER):
            label["negative"] = others[0]
        elif label.get("negative") is None and not among(0, values):
            raise InvalidRequest(
                "label.negative", None, f"is required: {label['column']} holds {shown(values)}",
                "name the value that means 0, or write 'other' for all values except the positive one",
            )  # fmt: skip
    if label.get("negative") == OTHER and not among(OTHER, values or ()):
        label["rest"] = True
    return label


def _model(given: Any, domains: Domains, field: str) -> tuple[Any, ScoreScale | None]:
    """A model with the scale of its column of scores, and that scale where the request itself does not give it."""
    if not isinstance(given, Mapping) or given.get("kind") != "columns":
        return given, None
    domain = domains.domain(given.get("score"))
    if domain is None:
        return given, None
    if given.get("scale") is not None:
        return {**given, "scale": _narrowed(given, domain, domains.step(given["score"]), field)}, None
    if isinstance(domain, (ListedValues, Period)) and domains.range(given.get("score")) is None:
        raise contradiction(f"{field}.score", given["score"], given["score"], domain, "name a column of numbers")
    scale = ScoreScale.of(domain, domains.step(given.get("score")))
    return (given, None) if scale is None else ({**given, "scale": scale.model_dump(mode="json")}, scale)


def _narrowed(given: Fields, domain: Domain, column_step: Decimal | None, field: str) -> dict[str, Any]:
    """The scale that a request states for its scores, which may narrow that of their column."""
    stated, name = ScoreScale.parse(given["scale"]), given["score"]
    match domain:
        case LogOdds():
            kinds: tuple[str, ...] = ("logit",)
        case ValueRange(scale=scale):
            kinds = ("log" if scale == "log" else "linear",)
        case _:
            kinds = ()
    if stated.kind not in kinds:
        raise contradiction(f"{field}.scale", stated.kind, name, domain, "leave it out")
    if not isinstance(domain, ValueRange):
        return stated.model_dump(mode="json")
    step = None if stated.kind == "log" else column_step
    require_within(stated.ends, name, domain, f"{field}.bounds", step=step)
    if step is not None and stated.step is not None and not is_step(stated.step, step):
        raise contradiction(f"{field}.step", stated.step, name, domain, f"leave it out: the step is {number(step)}")
    return (stated if step is None else stated.in_steps(float(step))).model_dump(mode="json")


def _diagnostic(given: Any, domains: Domains, scale: ScoreScale | None) -> Any:
    entry = {"kind": given} if isinstance(given, str) else given
    if not isinstance(entry, Mapping):
        return given
    options, field, filled = _options(entry), "diagnostics", dict(entry)
    if issubclass(options, OfValues) and entry.get("column") is not None:
        filled = _of_values(filled, domains)
    elif scale is not None:
        for option in options.thresholds_of:
            filled = on_scale(filled, option, scale)
    for of, bounds in options.bounds_of.items():
        filled = with_bounds(filled, of, bounds, domains, field)
    for of, keys in options.keys_of.items():
        filled = with_keys(filled, of, keys, domains, field)
    if issubclass(options, ByGroupOptions) and isinstance(kinds := filled.get("kinds"), (list, tuple)):
        filled["kinds"] = [_diagnostic(inner, domains, scale) for inner in kinds]
    if issubclass(options, FitSettings):
        filled = _features(filled, domains)
    if issubclass(options, (AggregatesOptions, RowsPerUnitOptions)):
        filled = with_groups_and_bounds(filled, domains)
    if issubclass(options, ProfileOptions):
        filled = with_profiled(filled, domains)
    if filled.get("other") is not None:
        filled["other"], _ = _model(filled["other"], domains, "diagnostics.other")
    return given if filled == entry else filled


def _options(entry: Fields) -> type[Options]:
    """The options of an entry's kind; those of no kind where it is unknown, which is refused with the request."""
    kind = entry.get("kind")
    return DIAGNOSTICS.get(kind, Options) if isinstance(kind, str) else Options


def _of_values(entry: dict[str, Any], domains: Domains) -> dict[str, Any]:
    """The entry of a column's values, with bounds, scale, step and cells."""
    name = entry["column"]
    limits = domains.range(name)
    if limits is None:
        return entry
    left_out = entry.get("bounds") is None
    earlier = entry.get("compare_with")
    if left_out and isinstance(earlier, Mapping) and earlier.get("lower") is not None:
        # what is compared keeps the grid that the earlier release has
        grid = {option: earlier[option] for option in ("scale", "unit", "cells", "step") if earlier.get(option)}
        entry = {**grid, **entry, "bounds": [earlier["lower"], earlier["upper"]]}
        if entry["scale"] != "log":
            entry.pop("unit", None)
        require_within(entry["bounds"], name, limits, f"diagnostics.compare_with, {earlier.get('released_by')}")
        return entry
    entry = with_bounds(entry, "column", "bounds", domains, "diagnostics")
    lower, upper = (float(end) for end in entry["bounds"])
    if limits.scale == "log" and entry.get("scale") is None:
        entry["scale"] = "log"
    step = domains.step(name)
    if step is None or entry.get("scale") == "log":
        return entry
    size = float(step)
    if entry.get("step") is None and max(abs(lower), abs(upper)) <= MAX_STEPS_FROM_ZERO * size:
        entry["step"] = size
    if entry.get("step") is not None and not is_step(entry["step"], step):
        raise contradiction(
            "diagnostics.step", entry["step"], name, limits, f"leave it out: the step is {number(step)}"
        )
    values = values_of_steps(lower, upper, size)
    if entry.get("cells") is None:
        cells = _smallest_cells(values)
        if cells is None and left_out:
            raise InvalidRequest(
                "diagnostics.bounds", None,
                f"is required, because {name} may hold {values:,} values, and a grid has at most {max(_literals()):,} "
                "cells", "give narrower bounds, or the cells and bounds of a coarser grid",
            )  # fmt: skip
        if cells is not None and cells > int(_CELLS.default):
            entry["cells"] = cells
    return entry


def _features(entry: dict[str, Any], domains: Domains) -> dict[str, Any]:
    """The entry of a fit, with the bounds of features and the levels of categorical columns that it names."""
    features, categorical = entry.get("features"), entry.get("categorical")
    if isinstance(features, (list, tuple)):
        features = dict.fromkeys(features)
    if isinstance(features, Mapping):
        given = {name: with_bounds({"n": name, "b": bounds}, "n", "b", domains, "diagnostics.features")["b"]
                 for name, bounds in features.items()}  # fmt: skip
        for name, bounds in given.items():
            if bounds is None:
                raise InvalidRequest(
                    f"diagnostics.features.{name}", None, "must have bounds, because the account declares no domain "
                    "for this feature",
                    "give bounds, such as [0, 100], or have a domain declared: `dp-budget domains`",
                )  # fmt: skip
        entry = {**entry, "features": given}
    if isinstance(categorical, (list, tuple)):
        categorical = dict.fromkeys(categorical)
    if isinstance(categorical, Mapping):
        filled = {
            name: with_keys({"c": name, "k": levels}, "c", "k", domains, f"diagnostics.categorical.{name}").get("k")
            for name, levels in categorical.items()
        }
        entry = {**entry, "categorical": filled}
    return entry


def _times(fields: Fields, domains: Domains) -> dict[str, Any]:
    """The start and the end of a stream, within the period of its column of times."""
    period = domains.period(fields.get("time"))
    if period is None:
        return {}
    first, last = (moment.isoformat().replace("+00:00", "Z") for moment in period)
    filled = {} if fields.get("start") is not None else {"start": first}
    if fields.get("steps") is None and fields.get("end") is None:
        filled["end"] = last
    return filled


def _literals() -> tuple[int, ...]:
    return get_args(_CELLS.annotation)


def _smallest_cells(values: int) -> int | None:
    """The smallest number of cells that holds so many values; None if no grid has so many."""
    return next((cells for cells in _literals() if cells >= values), None)


def leaves_out(fields: Fields) -> bool:
    """Whether a request leaves out fields that only the account, which knows the domains, can complete."""
    table, states, given = fields.get("table"), fields.get("states"), fields.get("diagnostics")
    entries = given if isinstance(given, (list, tuple)) else [given]
    return (
        table is None
        or (isinstance(table, Mapping) and table.get("path") is None and table.get("name") is None)
        or (isinstance(states, Mapping) and states.get("keys") is None)
        or (fields.get("time") is not None and (fields.get("start") is None or not {"end", "steps"} & set(fields)))
        or states_scale(fields.get("model"))
        or any(map(entry_leaves_out, entries))
    )


def entry_leaves_out(entry: Any) -> bool:
    """Whether an entry of a request's diagnostics leaves out options that only the account can complete."""
    if not isinstance(entry, Mapping):
        return False
    options = _options(entry)
    if issubclass(options, OfValues) and entry.get("column") is not None:
        return options.needs_bounds and entry.get("bounds") is None
    if issubclass(options, ByGroupOptions) and any(map(entry_leaves_out, _listed(entry.get("kinds")))):
        return True
    if issubclass(options, FitSettings):
        terms = (entry.get("features"), entry.get("categorical"))
        if any(isinstance(named, (list, tuple)) or None in _values_of(named) for named in terms):
            return True
    if issubclass(options, (AggregatesOptions, RowsPerUnitOptions)):
        by, measures = entries_by("column", entry.get("by")), entries_by("of", entry.get("measures"))
        return any(_lacks(one, "values", "edges", "start", "keys", "lookup") for one in _listed(by)) or any(
            lacks_bounds(one) if is_short(one) else _lacks(one, "bounds") and not counts_units(one)
            for one in _listed(measures)
        )
    if issubclass(options, ProfileOptions) and profile_leaves_out(entry):
        return True
    if states_scale(entry.get("other")):
        return True
    # on a scale of scores that only the account knows
    given = [score for option in options.thresholds_of for score in _listed(entry.get(option))]
    if any(isinstance(score, (int, float, Decimal)) and not 0 <= score <= 1 for score in given):
        return True
    fields = options.model_fields
    wanted = [option for option in options.bounds_of.values() if fields[option].is_required()]
    wanted += [keys for of, keys in options.keys_of.items() if fields[keys].is_required() or entry.get(of) is not None]
    return any(entry.get(option) is None for option in wanted)


def _lacks(entry: Any, *options: str) -> bool:
    """Whether an entry has none of these options."""
    return isinstance(entry, Mapping) and all(entry.get(option) is None for option in options)


def _listed(entries: Any) -> list[Any]:
    return list(entries) if isinstance(entries, (list, tuple)) else []


def _values_of(named: Any) -> tuple[Any, ...]:
    return tuple(named.values()) if isinstance(named, Mapping) else ()
