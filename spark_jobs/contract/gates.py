"""Conditions on released figures, such as ``roc_curve.auc.lower >= 0.7``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure_names import Groups, Results, find_figure, groups_of, parse_name, requested_groups
from spark_jobs.contract.figures import OK
from spark_jobs.contract.request_documents import GATE, load_fields

_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt,
}  # fmt: skip
_FORM = re.compile(r"\s*(.*\S)\s*(>=|<=|>|<)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*", re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True)
class Gate:
    """A condition on a released figure.

    Attributes:
        name: the figure's name (``contract.figure_names``).
        sign: ``>=``, ``>``, ``<=`` or ``<``.
        bound: what the figure is compared with.
    """

    name: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: object) -> Gate:
        """The condition in a text.

        Raises:
            InvalidRequest: the text is not a condition.
        """
        content = _FORM.fullmatch(text) if isinstance(text, str) else None
        if content is None or set("<>=") & set(_QUOTED.sub("", content[1])):
            raise InvalidRequest(
                GATE, text, "must be a figure, then one of >=, >, <= and <, then a number",
                "write it like 'roc_curve.auc.lower >= 0.7'",
            )  # fmt: skip
        return cls(content[1].strip(), content[2], float(content[3]))

    def check(self, groups: Groups) -> None:
        """Reject this gate if a release with these kinds and groups does not have its figure.

        Raises:
            InvalidRequest: the release has no such figure.
        """
        parse_name(self.name, groups)

    def holds(self, results: Results) -> bool:
        """Whether the figure meets the condition; False if it is undefined, or its result's status is not ``ok``.

        Raises:
            InvalidRequest: the results have no such figure.
        """
        value, status = find_figure(results, parse_name(self.name, groups_of(results)))
        return status == OK and value is not None and _COMPARED[self.sign](value, self.bound)

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.bound:.12g}"


def gate_of(text: str, diagnostics: Any) -> Gate:
    """The gate in a text, whose figure is among those of a request's diagnostics.

    Raises:
        InvalidRequest: the text is not a condition, or the release has no such figure.
    """
    gate = Gate.parse(text)
    gate.check(requested_groups(diagnostics))
    return gate


def gate_in_file(path: str | Path) -> str | None:
    """The gate in a request's file, which is no part of the request; None if there is no gate.

    Raises:
        InvalidRequest: the file cannot be read, or its gate is not a condition.
    """
    text = load_fields(path).get(GATE)
    return None if text is None else str(Gate.parse(text))
