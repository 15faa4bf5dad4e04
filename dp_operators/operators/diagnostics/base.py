"""What the operators of single kinds have in common."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NewType

from airflow.sdk import XComArg

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import DIAGNOSTICS

if TYPE_CHECKING:
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

Template = NewType("Template", str)
"""A Jinja template for a parameter of any type: ``method=Template("{{ params.method }}")``. At run time it is the text
itself; the type tells a type checker that the text is not the value."""
Later = Template | XComArg
"""A value that is known when the task runs: a template, or another task's result."""

RENAMED: Mapping[str, str] = {"unit": "value_unit"}
"""Options whose names are parameters of every release, and the names that they have here."""
OF_SEVERAL = ("kind", "weight", "share")
"""Options that concern the other diagnostics of a request; an operator of one kind has none."""
WHOLE = ("diagnostics", "request")
"""Parameters of ``ReleaseDiagnosticsOperator`` that an operator of one kind fills in itself."""


class DiagnosticOperator(ReleaseDiagnosticsOperator):
    """Releases one kind of diagnostic; the base of the operators of all kinds.

    Args:
        _options: the options of the kind, by their names in a request; None where one is left out.
        release: the parameters of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.

    Raises:
        InvalidRequest: on construction: an option is not valid, or belongs to another kind of diagnostic.
    """

    kind: ClassVar[str]

    def __init__(self, *, _options: Mapping[str, Any], **release: Any) -> None:
        _require_own(type(self), release)
        super().__init__(diagnostics=[entry_of(self.kind, _options)], **release)

    @classmethod
    def partial(cls, **given: Any) -> OperatorPartial:
        """The operator with the parameters that all mapped tasks have in common; constants are checked now.

        Raises:
            InvalidRequest: a constant is not valid, or an option belongs to another kind of diagnostic.
        """
        _require_own(cls, given)
        options = options_of(cls.kind)
        present = {option: given[name] for name, option in options.items() if given.get(name) is not None}
        fields = DIAGNOSTICS[cls.kind].model_fields
        complete = all(name in present for name, field in fields.items() if field.is_required())
        checked = {"diagnostics": [entry_of(cls.kind, present)]} if complete else {}
        return cls.partial_of(given, checked)


def entry_of(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a request's ``diagnostics``."""
    return {"kind": kind, **{name: value for name, value in options.items() if value is not None}}


@cache
def options_of(kind: str) -> dict[str, str]:
    """The parameters of a kind's operator, and the options that they give."""
    fields = DIAGNOSTICS[kind].model_fields
    return {RENAMED.get(name, name): name for name in fields if name not in OF_SEVERAL}


def class_of(kind: str) -> str:
    """The name of a kind's operator."""
    return "".join(part.capitalize() for part in kind.split("_")) + "Operator"


def _require_own(operator: type[DiagnosticOperator], given: Mapping[str, Any]) -> None:
    """Refuse what only the general operator takes, and options of other kinds."""
    own = options_of(operator.kind)
    for name in given:
        if name in WHOLE:
            raise InvalidRequest(
                name,
                requirement=f"is not a parameter of {operator.__name__}, which releases one {operator.kind}",
                remedy="leave it out, or use ReleaseDiagnosticsOperator",
            )
        owners = [kind for kind in DIAGNOSTICS if name in options_of(kind)]
        if name not in own and (owners or name in OF_SEVERAL):
            whose = "ReleaseDiagnosticsOperator" if not owners else " or ".join(class_of(kind) for kind in owners)
            raise InvalidRequest(
                name,
                requirement=f"is not an option of {operator.kind}, which has {', '.join(own)}",
                remedy=f"remove it, or use {whose}",
            )
