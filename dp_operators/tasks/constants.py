"""Checks the constants of a task's request when its DAG is parsed, so that a mistake is an import error.

A Jinja template or another task's result is checked when the task runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import create_model

from spark_jobs.contract.completion import entry_leaves_out, leaves_out
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.filters import check_filter
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.options.lookups import names_lookup
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.privacy import exact_decimal
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.row_choice import steps_of
from spark_jobs.contract.stated_scale import STATED, mapped_model, states_scale
from spark_jobs.contract.values import Frozen, did_you_mean

TEMPLATE_MARKS = ("{{", "{%", "{#")
REQUIRED = ("account", "diagnostics", "budget")
_CONSTANTS = (str, int, float, bool, type(None))


def is_constant(value: Any) -> bool:
    """Whether a parameter keeps its value until the task runs: it holds no template and no other task's result."""
    if isinstance(value, str):
        return not any(mark in value for mark in TEMPLATE_MARKS)
    if isinstance(value, Mapping):
        return all(is_constant(key) and is_constant(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_constant(inner) for inner in value)
    # decimals are constants too; any other object is resolved by Airflow when the task runs
    return isinstance(value, _CONSTANTS) or type(value).__module__ in ("decimal", "_decimal")


def check_constants(fields: Mapping[str, Any]) -> None:
    """Refuse a request that is wrong for every value of its templates.

    Args:
        fields: the request's fields; a model may be a file or an earlier release, which is read when the task runs.

    Raises:
        InvalidRequest: a required field is missing, a constant is not valid for its field, or a request of constants
            alone could not be released for any table.
    """
    for name in REQUIRED:
        if fields.get(name) in (None, ""):
            raise InvalidRequest(name, None, "is required", f"give the operator {_REMEDIES[name]}")
    check_given(fields)
    if not leaves_out(fields) and all(
        is_constant(value) and not _is_read_later(name, value) for name, value in fields.items()
    ):
        request = ReleaseRequest.parse({**fields, "blocks": _as_list(fields.get("blocks", ("all",)))})
        for step in steps_of(request):
            preflight(step)


def check_given(fields: Mapping[str, Any]) -> None:
    """Refuse constants that are not valid for their fields; required fields may be missing.

    Raises:
        InvalidRequest: a constant is not valid for its field.
    """
    for name, value in fields.items():
        _check_field(name, value)


_ACCOUNTS_TABLE = "/the/table/of/the/account"
_REMEDIES = {
    "account": "account, the ledger account that pays",
    "diagnostics": "diagnostics, what to release",
    "budget": "epsilon, the cost of the release",
}


def _check_field(name: str, value: Any) -> None:
    if name not in ReleaseRequest.model_fields:
        raise InvalidRequest(
            name, None, "is not a field of this part of the request",
            f"remove it or correct its name{did_you_mean(name, ReleaseRequest.model_fields)}",
        )  # fmt: skip
    if name == "budget" and isinstance(value, Mapping):
        _check_budget(value)
    elif name == "diagnostics":
        for entry in _as_list(value):
            _check_diagnostic(entry)
    elif is_constant(value) and not _is_read_later(name, value):
        _check_constant(name, _as_list(value) if name == "blocks" else value)


def _check_budget(budget: Mapping[str, Any]) -> None:
    for part, amount in budget.items():
        if amount is not None and is_constant(amount):
            exact_decimal(amount, what=f"budget.{part}")
    if budget.get("epsilon") is None and budget.get("rho") is None:
        raise InvalidRequest("budget.epsilon", None, "is required", "give the cost of the release, e.g. '1'")
    if is_constant(budget):
        _check_constant("budget", budget)


def _check_diagnostic(entry: Any) -> None:
    """Refuse an unknown kind of diagnostic, and constant options that are not valid for it."""
    kind = entry.get("kind") if isinstance(entry, Mapping) else entry
    if not is_constant(kind):
        return
    if not isinstance(kind, str) or kind not in DIAGNOSTICS:
        raise InvalidRequest(
            "diagnostics.kind", kind, "must be one of " + ", ".join(DIAGNOSTICS),
            f"correct the diagnostic's kind{did_you_mean(kind, DIAGNOSTICS)}",
        )  # fmt: skip
    if isinstance(entry, Mapping) and entry_leaves_out(entry):
        for name in entry:
            if name not in DIAGNOSTICS[kind].model_fields:
                raise InvalidRequest(
                    f"diagnostics.{name}", None, "is not a field of this part of the request",
                    f"remove it or correct its name{did_you_mean(name, DIAGNOSTICS[kind].model_fields)}",
                )  # fmt: skip
    elif isinstance(entry, Mapping) and is_constant(entry) and not _is_read_later("diagnostics", entry):
        try:
            DIAGNOSTICS[kind].parse(entry)
        except InvalidRequest as refused:
            raise refused.within("diagnostics") from None


def _check_constant(name: str, value: Any) -> None:
    if name == "table" and isinstance(value, Mapping) and value.get("path") is None and value.get("name") is None:
        value = {**value, "path": _ACCOUNTS_TABLE}  # filled in when the task runs
    if name == "model" and states_scale(value):
        # a step alone divides what the account says of the column
        whole = value.get("step") is None or value.get("bounds") is not None
        value = mapped_model(value, name)[0] if whole else {key: value[key] for key in value if key not in STATED}
    _field_model(name).parse({name: value})
    if name == "where" and value is not None:
        check_filter(value)


@lru_cache(maxsize=32)
def _field_model(name: str) -> type[Frozen]:
    """A model that has only this field of a request."""
    field = ReleaseRequest.model_fields[name]
    return create_model("Field", __base__=Frozen, **{name: (field.annotation, field)})  # type: ignore[call-overload, no-any-return]


def _is_read_later(name: str, value: Any) -> bool:
    """Whether the value names a file, a registered list or lookup, or an earlier release, read when the task runs."""
    if name == "model":
        return isinstance(value, str) or (isinstance(value, Mapping) and ("release" in value or "uri" in value))
    if name != "diagnostics":
        return False
    entries = [entry for entry in _as_list(value) if isinstance(entry, Mapping)]
    dimensions = [one for entry in entries for one in _as_list(entry.get("by")) if isinstance(one, Mapping)]
    return any(isinstance(one.get("values"), (str, Mapping)) or names_lookup(one) for one in dimensions) or any(
        isinstance(entry.get("max_rows"), Mapping)
        or any(isinstance(entry.get(option), (str, Mapping)) for option in ("groups", "compare_with"))
        for entry in entries
    )


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
