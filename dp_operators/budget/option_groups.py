"""Options that several commands have in common, as a dataclass: each field is an option of the command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer whose parameters of a dataclass are replaced by the options in its fields.

    A parameter whose type is a dataclass becomes one option for each field, with the field's annotation and default,
    in the parameter's place; the command receives the dataclass.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: one.annotation for name, one in signature.parameters.items() if is_dataclass(one.annotation)
    }

    @functools.wraps(command)
    def with_groups(**given: Any) -> None:
        grouped = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **grouped)

    parameters = [option for one in signature.parameters.values() for option in _options_of(one)]
    with_groups.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(with_groups)["__signature__"] = signature.replace(parameters=parameters)
    return with_groups


def _options_of(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    group = parameter.annotation
    if not is_dataclass(group):
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    annotations = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=annotations[field.name],
        )


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
