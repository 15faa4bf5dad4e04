"""Rejects overlaps of two tables, of a table with a folder of releases, and of folders of two accounts.

A table within another table could be read on two accounts. A release within a table would be read as rows of the table,
or make it unreadable. A folder of releases belongs to one account, so claims and release keys in it are that account's
own.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from dp_operators.budget.tables import rows
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place


def nested_table(table: str, other: str, account: str | None = None) -> InvalidRequest:
    """The error for a table that contains another table, or lies within it."""
    whose = "" if account is None else f", which is bound to account {account}"
    return InvalidRequest(
        "table", table, f"must not contain, or lie within, table {other}{whose}",
        "bind only one of the two folders, because rows could otherwise be read on two accounts",
    )  # fmt: skip


def require_separate_tables(connection: Connection, account: str, tables: Iterable[str]) -> None:
    """Reject tables that are bound already, or that overlap with a bound table or a folder of releases.

    Args:
        connection: a connection to the ledger, with no other writer.
        account: the account that the tables are about to be bound to.
        tables: the identities of the tables.

    Raises:
        InvalidRequest: a table is bound or overlaps.
    """
    places = [Place.parse(table) for table in tables]
    for bound, owner in rows.bound_tables(connection):
        for place in places:
            if place == bound:
                if owner == account:
                    continue  # bound by an earlier version under another spelling
                raise InvalidRequest(
                    "table", place.identity, f"is bound to account {owner}, and a table belongs to one account",
                    "charge that account, or leave the table out",
                )  # fmt: skip
            if place.overlaps(bound):
                raise nested_table(place.identity, bound.identity, owner)
    for output, owner in rows.bound_outputs(connection):
        for place in places:
            _require_no_overlap(output, place, "table", owner if owner != account else None)


def require_separate_outputs(
    connection: Connection, account: str, outputs: Iterable[str], tables: Iterable[str]
) -> None:
    """Reject folders of releases that overlap with a table, or with a folder of another account.

    Args:
        connection: a connection to the ledger, with no other writer.
        account: the account that the folders are about to be bound to.
        outputs: the identities of the folders.
        tables: the identities of tables that are about to be bound; tables that are bound already are checked anyway.

    Raises:
        InvalidRequest: a folder overlaps.
    """
    places = [Place.parse(output) for output in outputs]
    bound = [*((Place.parse(table), account) for table in tables), *rows.bound_tables(connection)]
    for place in places:
        for table, owner in bound:
            _require_no_overlap(place, table, "output", owner if owner != account else None)
        for other, owner in rows.bound_outputs(connection):
            if owner != account and place.overlaps(other):
                raise InvalidRequest(
                    "output", place.identity,
                    f"must not contain, or lie within, {other.identity}, a folder of account {owner}",
                    "give each account a folder of its own, such as one below a common folder",
                )  # fmt: skip


def _require_no_overlap(output: Place, table: Place, what: str, owner: str | None) -> None:
    if output.overlaps(table):
        given, other = (output, table) if what == "output" else (table, output)
        kind = "table" if what == "output" else "folder of releases"
        whose = "" if owner is None else f" of account {owner}"
        raise InvalidRequest(
            what, given.identity, f"must not contain, or lie within, {kind} {other.identity}{whose}",
            "keep releases and tables in separate folders",
        )  # fmt: skip
