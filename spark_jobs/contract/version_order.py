"""Which of two versions of a table is the later one, by a public rule of its administrator."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field

from spark_jobs.contract.errors import InvalidRequest

MAX_LISTED = 100_000
_DIGITS = re.compile(r"(\d+)", re.ASCII)

VersionName = Annotated[str, Field(min_length=1, max_length=2000)]
VersionOrder = (
    Literal["number", "natural"] | Annotated[tuple[VersionName, ...], Field(min_length=1, max_length=MAX_LISTED)]
)
"""``number``: by the number of the version. ``natural``: by name, with runs of digits as numbers, such as dates, or
``v=9`` before ``v=10``. Or all names, the earliest first."""


def require_not_back(order: VersionOrder | None, *, before: str, now: str) -> None:
    """Refuse a version that is earlier than the one that was read before, or that cannot be compared with it.

    Args:
        order: the administrator's rule.
        before: the name of the version that was read before; empty if it is not known.
        now: the name of the version that is to be read.

    Raises:
        InvalidRequest: ``now`` is earlier, the rule does not cover one of the two, or there is no rule.
    """
    if before in ("", now):
        return
    if order is None:
        raise no_order(now)
    if _place(order, now) < _place(order, before):
        raise InvalidRequest(
            "table.snapshot", now, f"must not be earlier than {before}, which the stream has read, because a stream "
            "never goes back",
            f"name {before}, or a later version",
        )  # fmt: skip


def no_order(name: str) -> InvalidRequest:
    """The error for a table whose versions have no declared order."""
    return InvalidRequest(
        "table.snapshot", name,
        "must be a version of a table whose versions have a declared order, because a stream never goes back",
        "have the order declared: `dp-budget bind --version-order natural`",
    )  # fmt: skip


def extends_order(order: VersionOrder | None, older: VersionOrder | None) -> bool:
    """Whether ``order`` keeps the rule ``older``, or its list with later versions added; True if ``older`` is None."""
    if isinstance(order, tuple) and isinstance(older, tuple):
        return order[: len(older)] == older
    return older in (None, order)


def longer_order(known: Any, given: VersionOrder | None) -> Any:
    """The given rule, with the names of a list added to the known ones; None if no rule is given."""
    if isinstance(given, tuple) and isinstance(known, (list, tuple)):
        return (*known, *(name for name in given if name not in known))
    return given


def order_of(words: tuple[str, ...]) -> VersionOrder | None:
    """The rule in the words of a command line: ``number``, ``natural``, or names of versions; None without words.

    Raises:
        InvalidRequest: a name is listed twice.
    """
    if words in (("number",), ("natural",)):
        return "number" if words[0] == "number" else "natural"
    if len(set(words)) != len(words):
        raise InvalidRequest(
            "version_order", ", ".join(words[:10]), "must list each version only once",
            "list the versions of the table, the earliest first",
        )  # fmt: skip
    return words or None


def _place(order: VersionOrder, name: str) -> tuple[object, ...]:
    if isinstance(order, tuple):
        if name not in order:
            raise InvalidRequest(
                "table.snapshot", name, "must be one of the versions that the administrator has listed",
                "have this version listed after the others: `dp-budget bind --version-order`",
            )  # fmt: skip
        return (order.index(name),)
    if order == "number":
        return (int(name),)
    # text stands at even places and numbers at odd ones, so that both are compared with their like
    parts = _DIGITS.split(name)
    return (tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name)
