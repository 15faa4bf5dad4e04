"""The fields of structs, which a request names by their path, such as ``address.city``.

A path is the names from the column to the field, joined by dots; a name that itself has a dot or a backtick is put
between backticks, as in ``address.`zip.code```. Fields of arrays and maps have no path, because a row has many of them.
If a column's own name equals a path, the path names this column, and the field cannot be named. Fields whose names
differ in case alone cannot be named either, since Spark could not distinguish them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spark_jobs.contract.column_types import kind_of_type, normal_type, struct_fields


@dataclass(frozen=True, kw_only=True)
class NestedField:
    """A field of a struct.

    Attributes:
        names: the column's name, and the names of the fields that lead to this one.
        type: its type, which is not a struct, array or map, in its canonical spelling.
    """

    names: tuple[str, ...]
    type: str

    @property
    def path(self) -> str:
        """The path by which a request names the field."""
        return path_of(self.names)


def path_of(names: tuple[str, ...]) -> str:
    """The path through these names; a single name is its own path, even if it has dots or backticks."""
    return names[0] if len(names) == 1 else ".".join(_quoted(name) for name in names)


def nested_fields(types: Mapping[str, str]) -> tuple[NestedField, ...]:
    """The fields of structs that have simple values, from the types of a table's columns, in the table's order."""
    fields = [field for name, of in types.items() for field in _fields((name,), of)]
    taken = Counter(field.path.lower() for field in fields) + Counter(name.lower() for name in types)
    return tuple(field for field in fields if taken[field.path.lower()] == 1)


def with_nested_fields(types: Mapping[str, str]) -> dict[str, str]:
    """The types of columns, followed by the types of the fields of structs, by their paths."""
    return {**types, **{field.path: field.type for field in nested_fields(types)}}


def _fields(names: tuple[str, ...], of: str) -> Iterator[NestedField]:
    for name, inner in struct_fields(of) or ():
        below = (*names, name)
        if kind_of_type(normal_type(inner)) is not None:
            yield NestedField(names=below, type=normal_type(inner))
        yield from _fields(below, inner)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`" if set(name) & {".", "`"} else name
