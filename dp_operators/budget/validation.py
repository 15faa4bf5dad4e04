"""Checks the arguments of the ledger's methods before the database is used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dp_operators.budget.tables.audit import canonical
from dp_operators.budget.transactions.overlaps import nested_table
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.column_types import is_known_type
from spark_jobs.contract.domains import Domain, parse_domain
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import BlockExpression, expand_ranges
from spark_jobs.contract.places import Place
from spark_jobs.contract.privacy import Neighbours, PrivacyUnit
from spark_jobs.contract.store.objects import require_store


def name_of(what: str, value: Any, *, limit: int = 200) -> str:
    """``value`` as a name: printable text of 1 to ``limit`` UTF-8 bytes without spaces around it.

    Raises:
        InvalidRequest: it is not a name.
    """
    # bytes, because databases limit the bytes of an index entry
    if isinstance(value, str) and value.isprintable() and value == value.strip() and 0 < len(value.encode()) <= limit:
        return value
    raise InvalidRequest(
        what, value, f"must be printable text of 1 to {limit} bytes without spaces around it", f"name the {what}"
    )


def optional_name(what: str, value: Any, *, limit: int = 500) -> str:
    """``value`` as a name, or the empty text for None.

    Raises:
        InvalidRequest: it is neither.
    """
    return "" if value in ("", None) else name_of(what, value, limit=limit)


def relation(value: Any) -> Neighbours:
    """``value`` as a neighbour relation.

    Raises:
        InvalidRequest: it is not one.
    """
    try:
        return Neighbours(value)
    except ValueError:
        raise InvalidRequest(
            "neighbours", value, "must be one of " + ", ".join(Neighbours),
            "use add_remove, which keeps the table's size private",
        ) from None  # fmt: skip


def privacy_unit(value: Any) -> PrivacyUnit:
    """``value`` as a privacy unit.

    Raises:
        InvalidRequest: it is not one.
    """
    if isinstance(value, PrivacyUnit):
        return value
    try:
        return PrivacyUnit.parse(value)
    except InvalidRequest as refused:
        raise refused.within("unit") from None


def table_identity(table: Any) -> str:
    """The canonical identity of a table, from any spelling of its path or catalog name.

    Raises:
        InvalidRequest: it is not the name of a table.
    """
    return Place.parse(name_of("table", table, limit=2000), what="table").identity


def table_identities(tables: Iterable[Any]) -> tuple[str, ...]:
    """The distinct identities of tables, sorted.

    Raises:
        InvalidRequest: one is not the name of a table.
    """
    if isinstance(tables, str):
        tables = (tables,)
    return tuple(sorted({table_identity(table) for table in tables}))


def bound_identities(tables: Iterable[Any]) -> tuple[str, ...]:
    """The identities of tables that are to be bound, with symbolic links on this machine resolved.

    Raises:
        InvalidRequest: one is not the name of a table, or lies within another.
    """
    places = [Place.parse(identity, what="table").resolved(what="table") for identity in table_identities(tables)]
    for place in places:
        for other in places:
            if place != other and place.contains(other):
                raise nested_table(other.identity, place.identity)
    return tuple(sorted({place.identity for place in places}))


def bound_tables(tables: Iterable[Any]) -> dict[str, Any]:
    """The bindings of tables by identity, in plain JSON types; None for a table that is given by its name alone.

    Raises:
        InvalidRequest: one is not the name of a table, or a table is described in two ways.
    """
    if isinstance(tables, (str, Mapping)) or hasattr(tables, "model_dump"):
        tables = (tables,)
    bound: dict[str, Any] = {}
    for table in tables:
        fields = None if isinstance(table, str) else _plain(table)
        [identity] = bound_identities([table if fields is None else fields.get("table")])
        if bound.get(identity) is not None and bound[identity] != fields:
            raise InvalidRequest("tables", identity, "must be described once", "leave out the repeated table")
        bound[identity] = fields if fields is None else {**fields, "table": identity}
    bound_identities(bound)
    return bound


def _plain(binding: Any) -> dict[str, Any]:
    parsed = binding if isinstance(binding, TableBinding) else TableBinding.parse(binding)
    for column in parsed.columns:
        # names of Arrow's, which a Parquet file may have, stand for types that no request reads
        if not is_known_type(column.type) and not re.fullmatch(r"\w+(?:[<\[].*)?", column.type, re.DOTALL):
            raise InvalidRequest(
                f"columns.{column.name}", column.type, "must be a type that an engine knows",
                "write what the column may hold as its domain",
            )  # fmt: skip
    return parsed.model_dump(mode="json")


def domains_of(domains: Mapping[str, Any]) -> dict[str, Domain | None]:
    """The domain of each column, from its text.

    Raises:
        InvalidRequest: no column is named, or a text is not a domain.
    """
    if not domains:
        raise InvalidRequest(
            "domains", None, "must name at least one column", "give the domain of each column, or None to remove it"
        )
    parsed: dict[str, Domain | None] = {}
    for column, domain in domains.items():
        try:
            parsed[column] = parse_domain(domain) if isinstance(domain, str) else domain
        except InvalidRequest as refused:
            raise refused.within(f"domain of {column}") from None
    return parsed


def output_uris(outputs: Iterable[Any]) -> tuple[str, ...]:
    """The distinct URIs of folders, sorted, with symbolic links on this machine resolved.

    Raises:
        InvalidRequest: one is not a folder, or its store cannot have releases.
    """
    if isinstance(outputs, str):
        outputs = (outputs,)
    texts = [name_of("output", output, limit=2000) for output in outputs]
    places = [Place.of_folder(text, what="output").resolved(what="output") for text in texts]
    for place in places:
        require_store(place.folder)
    return tuple(sorted({place.identity for place in places}))


def key_values(keys: Iterable[Any]) -> tuple[Any, ...]:
    """Keys of groups: distinct texts, integers or booleans.

    Raises:
        InvalidRequest: there are no keys, a key is of another type, or a key is repeated.
    """
    values = tuple(keys)
    if not values or not all(isinstance(key, (str, int)) for key in values):
        raise InvalidRequest(
            "keys", None, "must be texts or whole numbers, at least one", "write the keys to a file, one on each line"
        )
    if len({(type(key), key) for key in values}) < len(values):
        raise InvalidRequest("keys", None, "must be distinct", "give each key once")
    return values


def sha256_of(what: str, value: Any) -> str:
    """``value`` as a SHA-256 in hexadecimal digits.

    Raises:
        InvalidRequest: it is not one.
    """
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value):
        return value
    raise InvalidRequest(what, value, "must be 64 hexadecimal digits", "give the SHA-256")


def block_names(blocks: Iterable[Any]) -> tuple[str, ...]:
    """The distinct names of blocks, sorted; ``2026-01..2026-03`` is a range of blocks by time, both ends included.

    Raises:
        InvalidRequest: there is no block, one is not a name, or a range has too many blocks.
    """
    if isinstance(blocks, str):
        blocks = (blocks,)
    names = tuple(sorted(set(expand_ranges(name_of("block", block) for block in blocks))))
    if not names:
        raise InvalidRequest("blocks", None, "must name at least one block", "name 'all'")
    return names


def plain_list(field: str, values: Iterable[Any]) -> str:
    """Mechanism events, or figures, as canonical JSON.

    Raises:
        InvalidRequest: JSON cannot represent them.
    """
    try:
        return canonical(list(values))
    except (TypeError, ValueError):
        raise InvalidRequest(
            field, None, "must be a list of plain JSON values", "describe each entry by strings and numbers"
        ) from None


def block_expression(value: Any) -> BlockExpression | None:
    """``value``, which is text such as ``day(visited_at)`` or its fields, as a block expression; None stays None.

    Raises:
        InvalidRequest: it is not a block expression.
    """
    return value if value is None or isinstance(value, BlockExpression) else BlockExpression.parse(value)


def stays_in_block(
    value: bool | None, blocks: BlockExpression | None, unit: PrivacyUnit, neighbours: Neighbours
) -> bool:
    """Whether each unit stays in one block: by default a row does, and a unit with a column does not.

    Raises:
        InvalidRequest: a unit may be in several blocks, and the relation replaces units, whose replacement may be in
            another block.
    """
    if blocks is None:
        return True
    unit_stays = unit.column is None if value is None else bool(value)
    if neighbours is Neighbours.REPLACE_ONE and not unit_stays:
        raise InvalidRequest(
            "neighbours", neighbours.value,
            "must be add_remove if a unit may be in several blocks, because the sizes of the blocks are not public",
            "use add_remove, under which a replacement counts twice",
        )  # fmt: skip
    return unit_stays
