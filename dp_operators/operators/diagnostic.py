"""What the operators of single kinds of diagnostics have in common."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, NewType

from airflow.sdk import XComArg

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.values import Frozen

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
WIDTH = 116
"""Columns of a docstring in the body of a class."""
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


def operator_of(kind: str, module: str) -> type[DiagnosticOperator]:
    """Make the operator class of a kind, for a module; the kind's options are its parameters, with their defaults."""
    options = options_of(kind)
    defaults = {name: default_of(kind, option) for name, option in options.items()}

    def construct(self: DiagnosticOperator, **given: Any) -> None:
        values = {option: given.pop(name, defaults[name]) for name, option in options.items()}
        DiagnosticOperator.__init__(self, _options=values, **given)

    parameter = inspect.Parameter
    parameters = [parameter(name, parameter.KEYWORD_ONLY, default=default) for name, default in defaults.items()]
    parameters.sort(key=lambda one: one.default is not parameter.empty)  # required ones first
    this, rest = parameter("self", parameter.POSITIONAL_OR_KEYWORD), parameter("release", parameter.VAR_KEYWORD)
    # Airflow reads it: what may be in default_args, what is missing, what a mapped task may expand
    construct.__signature__ = inspect.Signature([this, *parameters, rest])  # type: ignore[attr-defined]
    content = {"__init__": construct, "__module__": module, "__doc__": docstring(kind), "kind": kind}
    return type(class_of(kind), (DiagnosticOperator,), content)


def default_of(kind: str, option: str) -> Any:
    """The default of an operator's parameter; ``Parameter.empty`` if it must be given, as no account completes it."""
    options = DIAGNOSTICS[kind]
    field = options.model_fields[option]
    if field.is_required():
        completed = {*options.bounds_of.values(), *options.keys_of.values()}
        return None if option in completed else inspect.Parameter.empty
    value = field.get_default(call_default_factory=True)
    return None if value == {} else value


def docstring(kind: str) -> str:
    """The docstring of a kind's operator: what it releases, and its parameters, from the docstrings of the options."""
    options = DIAGNOSTICS[kind]
    purpose = (inspect.getdoc(options) or "").split("\n\n")[0].rstrip(".")
    if not purpose.split(" ")[0].isupper() or purpose.startswith("A "):
        purpose = purpose[:1].lower() + purpose[1:]
    sentences = _sentences(options)
    lines = [*textwrap.wrap(f'"""Releases one ``{kind}``: {purpose}.', WIDTH), "", "Args:"]
    for text, names in groupby(options_of(kind), key=lambda name: sentences.get(options_of(kind)[name], "")):
        entry = f"    {', '.join(names)}: {text}"
        lines += textwrap.wrap(entry, WIDTH, subsequent_indent="        ", break_long_words=False)
    lines.append(
        "    release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``."
    )
    return "\n".join(lines)[3:]


def _sentences(options: type[Frozen]) -> dict[str, str]:
    """What the docstrings say of each field: those of the class itself before those of its bases."""
    sentences: dict[str, str] = {}
    for base in options.__mro__:
        if issubclass(base, Frozen) and base.__dict__.get("__doc__"):
            _, _, attributes = (inspect.getdoc(base) or "").partition("Attributes:\n")
            for entry in re.split(r"\n(?= {4}\w)", attributes.rstrip()):
                names, _, text = entry.strip().partition(": ")
                sentences = dict.fromkeys(names.split(", "), " ".join(text.split())) | sentences
    return sentences


def entry_of(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a request's ``diagnostics`` for one kind and its options."""
    return {"kind": kind, **{name: value for name, value in options.items() if value is not None}}


@cache
def options_of(kind: str) -> dict[str, str]:
    """The options of a kind that its operator takes as parameters."""
    fields = DIAGNOSTICS[kind].model_fields
    return {RENAMED.get(name, name): name for name in fields if name not in OF_SEVERAL}


def class_of(kind: str) -> str:
    """The name of the class of a kind's operator."""
    return "".join(part.capitalize() for part in kind.split("_")) + "Operator"


def _require_own(operator: type[DiagnosticOperator], given: Mapping[str, Any]) -> None:
    """Refuse what only the general operator takes, and options of other kinds."""
    own = options_of(operator.kind)
    for name in given:
        if name in WHOLE:
            raise InvalidRequest(
                name, None, f"is not a parameter of {operator.__name__}, which releases one {operator.kind}",
                "leave it out, or use ReleaseDiagnosticsOperator",
            )  # fmt: skip
        owners = [kind for kind in DIAGNOSTICS if name in options_of(kind)]
        if name not in own and (owners or name in OF_SEVERAL):
            whose = "ReleaseDiagnosticsOperator" if not owners else " or ".join(class_of(kind) for kind in owners)
            raise InvalidRequest(
                name, None, f"is not an option of {operator.kind}, which has {', '.join(own)}",
                f"remove it, or use {whose}",
            )  # fmt: skip
