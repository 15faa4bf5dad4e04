"""Writes the stub of the operators of single kinds, and exports them: ``python -m tests.support.operator_source``."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from airflow.sdk import BaseOperator

from dp_operators.operators import diagnostics
from dp_operators.operators.diagnostic import WHOLE, DiagnosticOperator, class_of, options_of
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.values import Frozen
from tests.support.repository import ROOT

STUB = ROOT / "dp_operators" / "operators" / "diagnostics.pyi"
EXPORTS = ROOT / "dp_operators" / "operators" / "__init__.pyi"
EXPORTED = re.compile(rf"from {re.escape(diagnostics.__name__)} import (\([^)]*\)|.*)\n")
HEAD = """# Written by `python -m tests.support.operator_source`; do not edit.
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict, Unpack
from dp_operators.operators.diagnostic import DiagnosticOperator, Later
"""
REFERENCES = {
    "compare_with": "str | Mapping[str, Any]",
    "groups": "Sequence[str | int] | Mapping[str, Any]",
    "max_rows": "int | str | Mapping[str, Any]",
    "max_rows_share": "float | str",
}
"""Options that may also name an earlier release, or a registered list."""
ENTRIES = dict.fromkeys(("kinds", "by", "measures"), "str | Sequence[str | Mapping[str, Any]]")
"""Options that are lists of names, or of names with their options."""
WIDTH = 116


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


def parameters(kind: str) -> Iterator[str]:
    """The parameters of a kind's operator as its stub has them."""
    fields, options = DIAGNOSTICS[kind].model_fields, options_of(kind)
    for name, parameter in inspect.signature(of(kind).__init__).parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        option, default = options[name], parameter.default
        kinds = ENTRIES.get(option) or REFERENCES.get(option) or written(fields[option].annotation)
        if default is None and "None" not in kinds:
            kinds += " | None"
        before, none, _ = kinds.partition(" | None")
        yield f"{name}: {before} | Later{none}" + ("" if default is parameter.empty else f" = {_quoted(default)}")


def of(kind: str) -> type[DiagnosticOperator]:
    """The operator of a kind."""
    return cast("type[DiagnosticOperator]", getattr(diagnostics, class_of(kind)))


def operator(kind: str) -> str:
    """The stub of a kind's operator."""
    lines = [f"class {class_of(kind)}(DiagnosticOperator):"]
    lines += textwrap.indent(f'"""{of(kind).__doc__}\n"""', "    ").splitlines()
    lines += ["    def __init__(", "        self,", "        *,", *(f"        {text}," for text in parameters(kind))]
    lines += ["        **release: Unpack[ReleaseArguments],", "    ) -> None: ..."]
    return "\n".join(lines)


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
    """The stubs that this script writes, by path, formatted as the house formats."""
    stub = "\n\n".join([HEAD, arguments(), *map(operator, DIAGNOSTICS)])
    names = ", ".join(f"{name} as {name}" for name in sorted(map(class_of, DIAGNOSTICS)))
    public = EXPORTED.sub(f"from {diagnostics.__name__} import {names}\n", EXPORTS.read_text())
    return {path: formatted(text, path) for path, text in ((STUB, stub), (EXPORTS, public))}


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
    """Write the stubs."""
    for path, text in sources().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
