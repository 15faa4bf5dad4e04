"""The public states of a stream, such as rooms, and the hierarchy that groups them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.bound_columns import ColumnName
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.linear import Keys, require_keys
from spark_jobs.contract.values import Frozen

MAX_STATES = 1 << 16
MAX_LEVELS = 16
EVERYTHING = "all"
"""The name of the one count of a stream without states."""
TOTAL = "all states together"
"""The name of the sum of all states that have no groups, which is free and is shown and watched."""

NodeName = Annotated[str, Field(min_length=1, max_length=255)]


class StreamStates(Frozen):
    """The states that are counted separately; a row with another state is dropped.

    Attributes:
        column: the column of a row's state; text or whole numbers.
        keys: the public states, which are compared with the column as text; a state without rows is released too.
        parents: the group of each state, and the group of each group, up to one group that contains all states; every
            state has the same number of groups above it. The counts of groups are released too.
    """

    column: ColumnName
    keys: Keys
    parents: dict[NodeName, NodeName] | None = None

    @field_validator("keys", mode="before")
    @classmethod
    def _are_keys(cls, value: Any) -> Any:
        keys = require_keys(value)
        if len(keys) > MAX_STATES:
            raise InvalidRequest(
                "", len(keys), f"must be at most {MAX_STATES:,} states", "split them over several streams"
            )
        return keys

    @field_validator("parents")
    @classmethod
    def _or_none(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        return value or None

    @model_validator(mode="after")
    def _check_hierarchy(self) -> Self:
        if self.parents is not None:
            _require_tree(tuple(map(str, self.keys)), self.parents)
        return self

    @cached_property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The names of each level, the states first; the members of a group stand next to each other."""
        leaves = tuple(map(str, self.keys))
        if self.parents is None:
            return (leaves,)
        parts: dict[str, list[str]] = defaultdict(list)
        *below, top = _levels_upwards(leaves, self.parents)
        for level in below:
            for name in level:
                parts[self.parents[name]].append(name)
        levels = [tuple(top)]
        while levels[-1][0] in parts:
            levels.append(tuple(name for group in levels[-1] for name in parts[group]))
        return tuple(reversed(levels))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each level above the states, the number of members of each group in the level below."""
        parents = self.parents or {}
        counts = []
        for below, level in zip(self.levels[:-1], self.levels[1:], strict=True):
            sizes = dict.fromkeys(level, 0)
            for name in below:
                sizes[parents[name]] += 1
            counts.append(tuple(sizes.values()))
        return tuple(counts)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all counts that are released: the levels from the top, the states last."""
        return tuple(name for level in reversed(self.levels) for name in level)


def _levels_upwards(leaves: Sequence[str], parents: Mapping[str, str]) -> list[list[str]]:
    """The distinct names of each level, the leaves first; of a tree in which all leaves have the same depth."""
    levels = [list(leaves)]
    while levels[-1][0] in parents:
        levels.append(list(dict.fromkeys(map(parents.__getitem__, levels[-1]))))
    return levels


def _require_tree(leaves: tuple[str, ...], parents: Mapping[str, str]) -> None:
    for leaf in leaves:
        if leaf not in parents:
            raise _no_tree(leaf, "must name the group of every state, and this state has none")
    # once for each group: there may be many states in it
    paths = {group: _path(group, parents) for group in dict.fromkeys(map(parents.__getitem__, leaves))}
    tops = sorted({path[-1] for path in paths.values()})
    if len(tops) > 1:
        raise _no_tree(tops[1], "must lead from every state to the same top group, and this group is a second top")
    depth = min(map(len, paths.values()))
    for leaf in leaves:
        if len(paths[parents[leaf]]) > depth:
            raise _no_tree(leaf, "must put every state at the same depth, and this state is deeper than the others")
    unused = sorted(set(parents).difference(leaves, *paths.values()))
    if unused:
        raise _no_tree(unused[0], "must name only states and groups of states")


def _path(group: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """The names from a group of states up to its top."""
    path = [group]
    while path[-1] in parents:
        above = parents[path[-1]]
        if above in path:
            raise _no_tree(above, "must have no cycle")
        path.append(above)
        if len(path) == MAX_LEVELS:  # with the states, one level more
            raise _no_tree(group, f"must have at most {MAX_LEVELS} levels")
    return tuple(path)


def _no_tree(name: str, requirement: str) -> InvalidRequest:
    return InvalidRequest(
        "parents", name, requirement,
        "give each state its parent group, and each group its own parent, up to one group that contains all states",
    )  # fmt: skip
