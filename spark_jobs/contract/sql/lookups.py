"""Turns the JOIN of a public lookup into a dimension whose groups are the lookup's values; no rows are joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from spark_jobs.contract.expressions.language import NotAllowedError
from spark_jobs.contract.expressions.parser import parse_node
from spark_jobs.contract.expressions.tree import ColumnReference
from spark_jobs.contract.sql.dimensions import SqlDimension

_REMEDY = "write JOIN NAME ON column = NAME.key, of a lookup that is registered: `dp-budget lookup`"


@dataclass(frozen=True)
class SqlLookup:
    """A public lookup that a statement joins.

    Attributes:
        name: the name under which it is registered for the account.
        column: the column of the account's table that contains keys.
        key: the title of the lookup's keys.
    """

    name: str
    column: str
    key: str

    def dimension(self, node: Any) -> SqlDimension:
        """The dimension by a column of the lookup.

        Raises:
            NotAllowedError: the column is the key of the lookup.
        """
        value = str(node.name)
        if value.lower() == self.key.lower():
            raise NotAllowedError(
                f"GROUP BY {node.sql()} names the key of {self.name}",
                f"group by {self.column}, or by the lookup's value",
            )
        named = {"name": self.name, "key": self.key, "value": value}
        return SqlDimension({"column": self.column, "lookup": named})


def lookups_of(joins: Iterable[Any], account: Set[str]) -> dict[str, SqlLookup]:
    """The lookups that a statement joins, by their names in the statement.

    Args:
        joins: sqlglot's nodes of the joins, in which columns of the account's table have no table name.
        account: the names of the account in the statement.

    Raises:
        NotAllowedError: a join is not of one lookup, on the equality of a column with a column of the lookup.
    """
    lookups: dict[str, SqlLookup] = {}
    for join in joins:
        alias, lookup = _lookup(join)
        if alias in lookups or alias in account:
            raise NotAllowedError(f"JOIN names {alias} twice", "give one of them another name with AS")
        lookups[alias] = lookup
    return lookups


def _lookup(join: Any) -> tuple[str, SqlLookup]:
    table = join.this
    if type(table).__name__ != "Table" or type(table.this).__name__ != "Identifier":
        raise NotAllowedError("JOIN of something else than a public lookup cannot be answered", _REMEDY)
    given = [
        name for name, part in table.args.items() if name not in ("this", "alias") and part not in (None, False, [])
    ]
    kinds = {str(join.args.get(part) or "").upper() for part in ("side", "kind", "method")}
    others = set(join.args) - {"this", "side", "kind", "method", "on", "using"}
    if given or kinds - {"", "LEFT", "INNER", "OUTER"} or any(join.args[name] for name in others):
        raise NotAllowedError("JOIN must be JOIN or LEFT JOIN of a public lookup by its name", _REMEDY)
    name, alias, condition = str(table.this.this), str(table.alias_or_name), join.args.get("on")
    if using := join.args.get("using"):
        if len(using) != 1:
            raise NotAllowedError(f"JOIN {name} must be USING one column", _REMEDY)
        return alias, SqlLookup(name, str(using[0].name), str(using[0].name))
    sides = [] if type(condition).__name__ != "EQ" else [condition.this, condition.expression]
    keys = [side for side in sides if type(side).__name__ == "Column" and side.table == alias]
    own = [parse_node(side) for side in sides if side not in keys]
    if len(keys) != 1 or len(own) != 1 or not isinstance(own[0], ColumnReference):
        raise NotAllowedError(f"JOIN {name} must be ON the equality of a column with the key of {alias}", _REMEDY)
    return alias, SqlLookup(name, own[0].name, str(keys[0].name))


def lookup_in(node: Any, lookups: Mapping[str, SqlLookup]) -> SqlLookup | None:
    """The lookup whose column a node is; None if the node contains no column of a lookup.

    Raises:
        NotAllowedError: the node is a larger expression that contains a column of a lookup.
    """
    if type(node).__name__ == "Column" and node.table in lookups:
        return lookups[node.table]
    require_no_lookup(node, lookups)
    return None


def require_no_lookup(node: Any, lookups: Mapping[str, SqlLookup]) -> None:
    """Reject an expression that contains a column of a lookup: such a column can only be grouped by.

    Raises:
        NotAllowedError: the expression contains such a column.
    """
    for part in node.walk() if lookups else ():
        if type(part).__name__ == "Column" and part.table in lookups:
            raise NotAllowedError(
                f"{part.sql()} may be used only in GROUP BY", "leave it out elsewhere, or filter its groups in HAVING"
            )
