"""Splits a SQL statement into a table of aggregates to release, and a computation on the released figures.

``SELECT region, COUNT(*), AVG(spend) FROM customers WHERE age >= 18 GROUP BY region HAVING COUNT(*) > 100`` asks for a
table by region with counts and the mean of spend, of the rows that the filter keeps. This table is a request like any
other: the program that reads rows is built from the request, and no part of the text reaches the engine. Everything
else in the statement (names, arithmetic, HAVING, ORDER BY, LIMIT) is computed from released figures (``answer``), costs
nothing, and does not change the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.language import NotAllowedError
from spark_jobs.contract.expressions.parser import spelling, syntax_tree, tokens_of
from spark_jobs.contract.sql.dimensions import SqlDimension
from spark_jobs.contract.sql.lookups import lookups_of, require_no_lookup
from spark_jobs.contract.sql.quantiles import require_two_arguments
from spark_jobs.contract.sql.released import ReleasedColumns, SqlFigure, text_of

_CLAUSES = {
    "expressions": "", "from": "", "from_": "", "joins": "", "where": "", "group": "", "having": "", "order": "",
    "limit": "",
}  # fmt: skip
"""The clauses of a statement that have a meaning here, as sqlglot names them."""
_NAMES_OF_CLAUSES = {
    "joins": "JOIN", "with": "WITH", "with_": "WITH", "distinct": "SELECT DISTINCT", "windows": "WINDOW",
    "laterals": "LATERAL VIEW", "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY",
    "hint": "a hint", "into": "INTO", "match": "MATCH_RECOGNIZE",
}  # fmt: skip
_REMEDIES = {
    "joins": "release each table from its own account",
    "with": "write one SELECT",
    "with_": "write one SELECT",
    "distinct": "list the column in GROUP BY",
}


@dataclass(frozen=True, kw_only=True)
class SqlStatement:
    """A parsed statement: a table of aggregates, and a SELECT of its figures.

    Attributes:
        account: the account that FROM names.
        snapshot: the version that ``VERSION AS OF`` names, as in a request; None without one.
        where: the filter; None without one.
        by: the dimensions.
        measures: the measures, as in a request.
        figures: the figures of each cell that the answer needs.
        answer: a SELECT of the released figures, in the dialect of SQLite.
    """

    account: str
    snapshot: Mapping[str, Any] | None
    where: str | None
    by: tuple[SqlDimension, ...]
    measures: tuple[Mapping[str, Any], ...]
    figures: tuple[SqlFigure, ...]
    answer: str

    @classmethod
    def parse(cls, text: str) -> SqlStatement:
        """The statement in a text.

        Raises:
            InvalidRequest: the text is not a statement, or has a part that cannot be answered, which the message names.
        """
        try:
            return _statement(text)
        except NotAllowedError as refused:
            raise InvalidRequest("sql", text, refused.requirement, refused.remedy) from None
        except RecursionError:
            raise InvalidRequest("sql", text, "is nested too deeply", "simplify it") from None

    def fields(
        self,
        *,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        partition: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The fields of the request that the statement stands for.

        Args:
            epsilon: the full cost; None if the cost is given as ``rho``.
            delta: the full delta; None for none.
            rho: the full cost in an account that counts rho, in place of epsilon.
            partition: partition columns and the values that they are pinned to; only if the statement names no version.

        Raises:
            InvalidRequest: both the statement and ``partition`` name a version.
        """
        if partition and self.snapshot:
            raise InvalidRequest("partition", None, "must not be given beside VERSION AS OF", "leave one of them out")
        snapshot = self.snapshot or ({"partition": dict(partition)} if partition else None)
        entry = {"kind": "aggregates", "by": [dict(one.fields) for one in self.by], "measures": list(self.measures)}
        amounts = {"epsilon": epsilon, "delta": delta, "rho": rho}
        budget = {name: amount for name, amount in amounts.items() if amount is not None}
        return {
            "account": self.account,
            **({"table": {"snapshot": dict(snapshot)}} if snapshot else {}),
            **({"where": self.where} if self.where else {}),
            "diagnostics": [entry],
            "budget": budget or {"epsilon": None},
        }


def _statement(text: str) -> SqlStatement:
    text = text.strip().removesuffix(";")
    tree = syntax_tree(text, what="statement")
    require_two_arguments(tokens_of(text))
    if type(tree).__name__ != "Select":
        raise NotAllowedError(f"{spelling(tree)} is not allowed", "write one SELECT ... FROM an account")
    for name, clause in tree.args.items():
        if name not in _CLAUSES and clause not in (None, False, []):
            what = _NAMES_OF_CLAUSES.get(name, name.strip("_").upper())
            raise NotAllowedError(f"{what} cannot be answered", _REMEDIES.get(name, "leave it out"))
    account, alias, snapshot = _source(tree.args.get("from_") or tree.args.get("from"))
    tree = tree.transform(_without_qualifier, {name for name in (account, alias) if name is not None})
    lookups = lookups_of(tree.args.get("joins") or (), {name for name in (account, alias) if name is not None})
    columns = ReleasedColumns(tree.expressions, tree.args.get("group"), lookups)
    columns.require_grouped()
    answer = columns.answer(tree.args.get("having"), tree.args.get("order"), tree.args.get("limit"))
    where = tree.args.get("where")
    if where is not None:
        require_no_lookup(where, lookups)
    return SqlStatement(
        account=account,
        snapshot=snapshot,
        where=None if where is None else text_of(where.this),
        by=columns.dimensions,
        measures=columns.measures,
        figures=columns.figures,
        answer=answer,
    )


def _source(clause: Any) -> tuple[str, str | None, Mapping[str, Any] | None]:
    """The account in FROM, its alias, and the version that is read."""
    table = None if clause is None else clause.this
    if table is None or type(table).__name__ != "Table" or type(table.this).__name__ != "Identifier":
        raise NotAllowedError("must read one account", "name the account after FROM")
    for name, part in table.args.items():
        if name not in ("this", "alias", "version") and part not in (None, False, []):
            what = _NAMES_OF_CLAUSES.get(name, name.strip("_").upper())
            raise NotAllowedError(f"{what} in FROM cannot be answered", _REMEDIES.get(name, "name one account"))
    return str(table.this.this), table.alias or None, _version(table.args.get("version"))


def _version(node: Any) -> Mapping[str, Any] | None:
    if node is None:
        return None
    of = node.args.get("expression")
    if str(node.this) != "VERSION" or str(node.args.get("kind")) != "AS OF" or type(of).__name__ != "Literal":
        raise NotAllowedError(
            "must name one fixed version of the table",
            "write VERSION AS OF 'v1' for a folder, or VERSION AS OF 3 for a version of Delta or Iceberg",
        )
    return {"path_version": str(of.this)} if of.is_string else {"table_version": int(of.this)}


def _without_qualifier(node: Any, names: set[str]) -> Any:
    """A column without the name of its table; what is left is a column, or a field of a struct."""
    if type(node).__name__ != "Column":
        return node
    parts = [name for name in ("catalog", "db", "table") if node.args.get(name) is not None]
    if parts and str(node.args[parts[0]].this) in names:
        node = node.copy()
        node.set(parts[0], None)
    return node
