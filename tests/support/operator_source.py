"""Writes the operators of single kinds from the options of a request: ``python -m tests.support.operator_source``."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator
from pydantic.fields import FieldInfo

from dp_operators.operators.diagnostics.base import WHOLE, class_of, options_of
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.options import DIAGNOSTICS, Options
from spark_jobs.contract.values import Frozen
from tests.support.repository import ROOT

FOLDER = ROOT / "dp_operators" / "operators" / "diagnostics"
FAMILIES = tuple(dict.fromkeys(options.__module__ for options in DIAGNOSTICS.values()))
HEAD = "# Written by `python -m tests.support.operator_source` from {origin}; do not edit.\n"
REFERENCES = {"compare_with": "str | Mapping[str, Any]", "groups": "Sequence[str | int] | Mapping[str, Any]"}
"""Options that may also name an earlier release, or a registered list."""
ENTRIES = dict.fromkeys(("kinds", "by", "measures"), "str | Sequence[str | Mapping[str, Any]]")
"""Options that are lists of names, or of names with their options."""
WIDTH = 116


COMPLETED = ("x_bounds", "y_bounds", "outcome_bounds", "groups")
"""Options that a request needs and that its account may fill in."""


def written(annotation: Any) -> str:
    """A field's type as its operator's parameter: any sequence for a tuple, any mapping for an object."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return written(arguments[0])
    if origin in (typing.Union, types.UnionType):
        models = [part for part in map(_bare, arguments) if isinstance(part, type) and issubclass(part, Frozen)]
        return "Mapping[str, Any]" if models else " | ".join(dict.fromkeys(map(written, arguments)))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(_quoted, arguments))}]"
    if origin is tuple:
        parts = dict.fromkeys(written(part) for part in arguments if part is not Ellipsis)
        return f"Sequence[{' | '.join(parts)}]"
    if origin is dict:
        return f"Mapping[{written(arguments[0])}, {written(arguments[1])}]"
    if annotation is type(None):
        return "None"
    return "Mapping[str, Any]" if issubclass(annotation, Frozen) else str(annotation.__name__)


def _bare(annotation: Any) -> Any:
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def required(field: FieldInfo, option: str) -> bool:
    """Whether an operator requires an option: not if its account may complete it."""
    return field.is_required() and option not in COMPLETED


def default_of(field: FieldInfo, option: str) -> str:
    """The default as it is written in a signature; none for a required field."""
    if required(field, option):
        return ""
    if field.is_required():
        return " = None"
    value = field.get_default(call_default_factory=True)
    return f" = {_quoted(value) if value != {} else None}"


def sentences(options: type[Options]) -> dict[str, str]:
    """What the docstrings say of each field: those of the class itself before those of its bases."""
    found: dict[str, str] = {}
    for base in options.__mro__:
        if not issubclass(base, Frozen) or not base.__dict__.get("__doc__"):
            continue
        _, _, attributes = (inspect.getdoc(base) or "").partition("Attributes:\n")
        for entry in re.split(r"\n(?= {4}\w)", attributes.rstrip()):
            names, _, text = entry.strip().partition(": ")
            for name in names.split(", "):
                found.setdefault(name, " ".join(text.split()))
    return found


def parameters(options: type[Options], kind: str) -> Iterator[tuple[str, str]]:
    """The parameters of a kind's operator, each with its type and default; required ones first."""
    fields = sorted(options_of(kind).items(), key=lambda item: not required(options.model_fields[item[1]], item[1]))
    for name, option in fields:
        field = options.model_fields[option]
        kinds = ENTRIES.get(option) or written(field.annotation)
        if option in REFERENCES:
            kinds = REFERENCES[option] + ("" if required(field, option) else " | None")
        if default_of(field, option) == " = None" and "None" not in kinds:
            kinds += " | None"
        before, none, _ = kinds.partition(" | None")
        yield name, f"{before} | Later{none}{default_of(field, option)}"


def operator(options: type[Options]) -> str:
    """The source of a kind's operator."""
    kind = options.model_fields["kind"].default
    told = sentences(options)
    purpose = (inspect.getdoc(options) or "").split("\n\n")[0].rstrip(".")
    if not purpose.split()[0].isupper() or purpose.startswith("A "):
        purpose = purpose[0].lower() + purpose[1:]
    lines = [f"class {class_of(kind)}(DiagnosticOperator):"]
    doc = [*textwrap.wrap(f'"""Releases one ``{kind}``: {purpose}.', WIDTH), "", "Args:"]
    for text, names in groupby(options_of(kind), key=lambda name: told[options_of(kind)[name]]):
        line = f"{', '.join(names)}: {text}"
        doc += textwrap.wrap(line, WIDTH, initial_indent="    ", subsequent_indent="        ", break_long_words=False)
    general = "release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``."
    doc += [f"    {general}", '"""', "", f'kind = "{kind}"', ""]
    signature = [f"    {name}: {text}," for name, text in parameters(options, kind)]
    doc += [
        "def __init__(",
        "    self,",
        "    *,",
        *signature,
        "    **release: Unpack[ReleaseArguments],",
        ") -> None:",
    ]
    given = [f'        "{option}": {name},' for name, option in options_of(kind).items()]
    doc += ["    options = {", *given, "    }", "    super().__init__(_options=options, **release)"]
    return "\n".join([*lines, *(f"    {line}".rstrip() for line in doc)])


def family(module: str) -> str:
    """The source of the operators of one module of options."""
    body = "\n\n\n".join(operator(options) for options in DIAGNOSTICS.values() if options.__module__ == module)
    typed = [name for name in ("Any", "Literal", "Unpack") if re.search(rf"\b{name}\b", body)]
    abstract = [name for name in ("Mapping", "Sequence") if re.search(rf"\b{name}\[", body)]
    return "\n".join(
        [
            HEAD.format(origin=module) + f'"""The operators of the kinds in ``{module}``."""',
            "from __future__ import annotations",
            f"from collections.abc import {', '.join(abstract)}" if abstract else "",
            f"from typing import {', '.join(typed)}",
            "from dp_operators.operators.diagnostics.arguments import ReleaseArguments",
            "from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later",
            "",
            "",
            body,
        ]
    )


def arguments() -> str:
    """The source of the parameters that the operators of all kinds have in common."""
    release = inspect.signature(inspect.unwrap(ReleaseDiagnosticsOperator.__init__)).parameters.values()
    ours = {each.name: str(each.annotation) for each in release if each.kind is each.KEYWORD_ONLY}
    ours = {name: text for name, text in ours.items() if name not in WHOLE}
    base = inspect.signature(inspect.unwrap(BaseOperator.__init__)).parameters.values()
    airflows = sorted(each.name for each in base if each.kind is each.KEYWORD_ONLY or each.name != "self")
    airflows = [name for name in airflows if name not in ("kwargs", "task_id", *ours) and not name.startswith("_")]
    return "\n".join(
        [
            HEAD.format(origin="ReleaseDiagnosticsOperator")
            + '"""The parameters that the operators of all kinds have in common."""',
            "from __future__ import annotations",
            "from collections.abc import Mapping, Sequence",
            "from typing import Any, Literal, Required, TypedDict",
            "",
            "class TaskArguments(TypedDict, total=False):",
            '    """The parameters of every Airflow task; Airflow documents and checks them."""',
            "",
            "    task_id: Required[str]",
            *(f"    {name}: Any" for name in airflows),
            "",
            "class ReleaseArguments(TaskArguments, total=False):",
            '    """The parameters of a release; ``ReleaseDiagnosticsOperator`` documents them."""',
            "",
            *(f"    {name}: {text}" for name, text in ours.items()),
        ]
    )


def sources() -> dict[Path, str]:
    """The modules that this script writes, by path, formatted as the house formats."""
    made = {FOLDER / "arguments.py": arguments()}
    made |= {FOLDER / f"{module.rpartition('.')[2]}.py": family(module) for module in FAMILIES}
    return {path: formatted(text, path) for path, text in made.items()}


def formatted(text: str, path: Path) -> str:
    """The source after the linter's sorting of imports, and the formatter."""
    ruff = str(Path(sys.executable).parent / "ruff")
    for command in (["check", "--fix-only", "--quiet"], ["format"]):
        text = subprocess.run(
            [ruff, *command, "--stdin-filename", str(path), "-"],
            input=text, capture_output=True, text=True, check=True, cwd=ROOT,
        ).stdout  # fmt: skip
    return text


def main() -> int:
    """Write the modules."""
    for path, text in sources().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
