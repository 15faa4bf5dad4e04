"""Reads the public lists of keys and the public lookups that are registered for an account."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dp_operators.budget import validation
from dp_operators.budget.tables import rows
from dp_operators.budget.tables.database import Database
from dp_operators.budget.values import KeyList, RegisteredLookup
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import did_you_mean

if TYPE_CHECKING:
    from sqlalchemy import Connection

Registered = TypeVar("Registered", KeyList, RegisteredLookup)


class ListReader:
    """The methods of ``PrivacyLedger`` that read the key lists and lookups that requests may name."""

    _database: Database

    def key_lists(self, account: str) -> tuple[KeyList, ...]:
        """The key lists that are registered for an account, sorted by name.

        Raises:
            InvalidRequest: no such account.
        """
        return self._registered(account, rows.key_lists_of)

    def key_list(self, account: str, name: str) -> KeyList:
        """The key list of an account with this name.

        Raises:
            InvalidRequest: no such account or list.
        """
        registered = next((keys for keys in self.key_lists(account) if keys.name == name), None)
        if registered is None:
            raise InvalidRequest(
                "groups", name, f"must be a list of keys that is registered for account {account}",
                "have it registered: `dp-budget keys`",
            )  # fmt: skip
        return registered

    def lookups(self, account: str) -> tuple[RegisteredLookup, ...]:
        """The public lookups that are registered for an account, sorted by name.

        Raises:
            InvalidRequest: no such account.
        """
        return self._registered(account, rows.lookups_of)

    def lookup(self, account: str, name: str) -> RegisteredLookup:
        """The lookup of an account with this name.

        Raises:
            InvalidRequest: no such account or lookup.
        """
        known = {one.lookup.name: one for one in self.lookups(account)}
        if name not in known:
            raise InvalidRequest(
                "lookup", name, f"must be a public lookup that is registered for account {account}",
                f"have it registered: `dp-budget lookup`; private tables are not joined{did_you_mean(name, known)}",
            )  # fmt: skip
        return known[name]

    def _registered(
        self, account: str, of: Callable[[Connection, str], tuple[Registered, ...]]
    ) -> tuple[Registered, ...]:
        name = validation.name_of("account", account)
        return self._database.read(lambda connection: of(connection, rows.get_account(connection, name).name))
