"""Public lookups: a small public table of keys and values, by which rows are grouped without a join.

A request contains the whole table as a map, which an engine evaluates row by row, like a list of values. So a lookup
depends on no private row, and sensitivity is that of a dimension of listed values.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.linear import MAX_KEY_CHARACTERS, is_key
from spark_jobs.contract.values import Frozen, GroupKey

MAX_ENTRIES = 100_000
Title = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Lookup(Frozen):
    """A public table that gives one value for each key.

    Attributes:
        name: the name under which an administrator has registered it for the account.
        key, value: the titles of its columns.
        entries: each key with its value: texts or whole numbers. Keys are compared with a column as text.
        sha256: hash of the content (``content_of``), as the ledger has registered it; filled in if it is left out.
    """

    name: Title
    key: Title
    value: Title
    entries: tuple[tuple[GroupKey, GroupKey], ...]
    sha256: str

    @model_validator(mode="before")
    @classmethod
    def _of_entries(cls, data: Any) -> Any:
        name = data.get("name") if isinstance(data, Mapping) else data
        if not isinstance(data, Mapping) or data.get("entries") is None:
            raise InvalidRequest(
                "", name, "names a registered lookup, which only the ledger knows",
                "run the request by the operator or by dp-budget run, or give key, value and entries",
            )  # fmt: skip
        entries = data["entries"]
        if not (
            isinstance(entries, (list, tuple))
            and all(isinstance(one, (list, tuple)) and len(one) == 2 for one in entries)
        ):
            raise InvalidRequest(
                "entries", type(entries).__name__, "must be a list of keys, each with its value",
                "write it like [['10115', 'north'], ['80331', 'south']]",
            )  # fmt: skip
        require_entries(entries)
        content = content_of(str(data.get("key")), str(data.get("value")), entries)
        return {"sha256": sha256(content.encode()).hexdigest(), **data}

    @model_validator(mode="after")
    def _of_its_hash(self) -> Self:
        expected = sha256(content_of(self.key, self.value, self.entries).encode()).hexdigest()
        if self.sha256 != expected:
            raise InvalidRequest(
                "sha256", self.sha256, f"must be the hash of the lookup's content, which is {expected}",
                "name the lookup alone, or correct the hash",
            )  # fmt: skip
        return self

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """The distinct values as text, in the order of their first occurrence."""
        return tuple(dict.fromkeys(str(value) for _, value in self.entries))

    @cached_property
    def places(self) -> Mapping[str, int]:
        """For each key, as text, the index in ``levels`` of its value."""
        place_of = {level: place for place, level in enumerate(self.levels)}
        return {str(key): place_of[str(value)] for key, value in self.entries}


def names_lookup(dimension: Mapping[str, Any]) -> bool:
    """Whether a dimension gives only the name of a registered lookup, and not yet its content."""
    given = dimension.get("lookup")
    return given is not None and not (isinstance(given, Mapping) and "entries" in given)


def require_entries(entries: Any) -> None:
    """Reject the entries of a lookup if a key occurs twice, there are too many, or one is not a key with a value.

    Raises:
        InvalidRequest: the entries are rejected; the message shows nothing of the table but a key that occurs twice.
    """
    if not 1 <= len(entries) <= MAX_ENTRIES:
        raise InvalidRequest(
            "entries", f"{len(entries):,} rows", f"must be from 1 to {MAX_ENTRIES:,}",
            "leave out keys that no row has, or look up something coarser",
        )  # fmt: skip
    keys, values = ([one[place] for one in entries] for place in (0, 1))
    for what, given in (("key", keys), ("value", values)):
        if not all(map(is_key, given)):
            raise InvalidRequest(
                "entries", None,
                f"must have a {what} in each row: a text of 1 to {MAX_KEY_CHARACTERS} characters, or a whole number",
                "correct the row, or leave it out",
            )  # fmt: skip
    [(key, times)] = Counter(map(str, keys)).most_common(1)
    if times > 1:
        raise InvalidRequest(
            "entries", key, "must have one row for each key (17 and '17' are one key)",
            "keep only one row of this key",
        )  # fmt: skip


def content_of(key: str, value: str, entries: Any) -> str:
    """The canonical JSON text of a lookup's content: equal contents have equal texts."""
    content = {"entries": [list(one) for one in entries], "key": key, "value": value}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
