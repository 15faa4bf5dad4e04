"""The privacy ledger: accounts, what they may spend, and what they have spent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection

from dp_operators.budget import arguments, audit, rows, transactions, verification
from dp_operators.budget.composition import offered_composition, pure_budget, taken_off
from dp_operators.budget.database import Database
from dp_operators.budget.values import ALL, Account, AuditEntry, Charge, ChargeState, Head, Verification
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit
from spark_jobs.contract.tables import table_identity


class PrivacyLedger:
    """Accounts, charges and their audit log, in a PostgreSQL database (13 or newer) or a SQLite file of their own.

    Whatever runs at once, on however many hosts: in every block of an account the charges that are reserved, committed
    or burnt never add up to more than the account's cap; costs are exact decimals; a release key is charged once. Every
    change can be asked for again after a failure, and then finds itself done. Nothing is connected to before the first
    call; ledgers may be shared by threads and used on both sides of a fork.

    Args:
        url: e.g. ``postgresql://user:password@host/privacy_ledger`` or ``sqlite:////var/lib/dp/ledger.db``.
        patience: seconds a call waits for other writers before the ledger counts as unavailable.

    Raises:
        RequestRefused: the URL names no such database. Every method also raises it where the database holds no ledger,
            or one of another version, and for any argument out of its bounds.
        LedgerUnavailable: raised by every method when the database cannot be reached, or stays locked.
    """

    def __init__(self, url: str, *, patience: float = 20.0) -> None:
        self._database = Database(url, patience=patience)

    def __repr__(self) -> str:
        return f"PrivacyLedger({self.name!r})"

    @property
    def name(self) -> str:
        """The ledger's URL without its password."""
        return self._database.name

    def close(self) -> None:
        """Close idle connections; the ledger can still be used."""
        self._database.close()

    def migrate(self) -> None:
        """Make the ledger's tables, or bring them to this version's schema; harmless to repeat, alone or at once.

        Raises:
            RequestRefused: the ledger is newer than this program, or the database is Airflow's own.
        """
        from dp_operators.budget.migrate import migrate

        migrate(self._database)

    def open_account(
        self,
        name: str,
        *,
        epsilon: Any,
        delta: Any = 0,
        rho: Any = None,
        composition: str = "pure",
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        unit: PrivacyUnit = PrivacyUnit(),  # noqa: B008 - frozen
        tables: Iterable[str] = (),
        blocks: Any = None,
        actor: str = "",
    ) -> Account:
        """Open an account; the same account again is found open.

        Args:
            name: the account's name.
            epsilon: the cap of each block, as an exact decimal.
            delta: 0; this version keeps pure accounts.
            rho: None; this version keeps pure accounts.
            composition: how charges add up; this version keeps ``pure``.
            neighbours: the relation that every charge is about.
            unit: whom the guarantee protects.
            tables: the tables it pays for, and no other account: paths, URIs or ``catalog:db.name``.
            blocks: the block expression; not offered by this version, which keeps one block, ``all``.
            actor: who opens it.

        Raises:
            RequestRefused: it is open with other settings, or a table is bound to another account.
        """
        arguments.not_offered("blocks", blocks, "leave it out: the account then has one block, 'all'")
        account = Account(
            name=arguments.name_of("account", name),
            composition=offered_composition(composition),
            cap=pure_budget(epsilon, delta, rho),
            neighbours=arguments.relation(neighbours),
            unit=arguments.privacy_unit(unit),
            tables=arguments.table_identities(tables),
            opened_at=audit.now(),
            opened_by=arguments.note("actor", actor),
        )
        return self._database.alone(lambda connection: transactions.open_account(connection, account))

    def reserve(
        self,
        account: str,
        *,
        release: str,
        epsilon: Any,
        delta: Any = 0,
        rho: Any = None,
        blocks: Iterable[str] = (ALL,),
        events: Iterable[Any] = (),
        request_sha256: str = "",
        allotment: Any = None,
        neighbours: Neighbours | str | None = None,
        unit: PrivacyUnit | None = None,
        tables: Iterable[str] = (),
        actor: str = "",
    ) -> Charge:
        """Charge an account for a release, before anything is drawn; reserved counts as spent.

        The same key with the same request, cost and blocks finds the same charge, in whatever state it is, unless that
        one was given back: a void charge can never draw, so its key is free, and a new charge is made.

        Args:
            account: the account's name.
            release: the release key.
            epsilon: the whole cost, as an exact decimal.
            delta: 0 in a pure account.
            rho: None in a pure account.
            blocks: the blocks that are read.
            events: the mechanisms' events, plain JSON values, kept for tighter accounting later.
            request_sha256: hash of the request that is paid for.
            allotment: not offered by this version.
            neighbours: the release's relation, refused if the account's is another; None is the account's.
            unit: the release's privacy unit, refused if the account's is another; None is the account's.
            tables: tables that are read; refused if the account is not bound to one.
            actor: who asks.

        Raises:
            BudgetExceeded: a block cannot bear the cost.
            ChargeConflict: the key is charged for another request, cost or blocks.
            RequestRefused: no such account or block, or a bound table, relation or unit that differs.
        """
        arguments.not_offered("allotment", allotment, "leave it out")
        order = transactions.Order(
            account=arguments.name_of("account", account),
            release=arguments.name_of("release", release, limit=1000),
            cost=pure_budget(epsilon, delta, rho),
            blocks=arguments.block_names(blocks),
            events=tuple(json.loads(arguments.event_list(events))),
            request_sha256=arguments.note("request_sha256", request_sha256),
            neighbours=None if neighbours is None else arguments.relation(neighbours),
            unit=None if unit is None else arguments.privacy_unit(unit),
            tables=arguments.table_identities(tables),
            actor=arguments.note("actor", actor),
        )
        return self._database.change(lambda connection: transactions.reserve(connection, order))

    def commit(self, id: str, manifest_sha256: str | None = None, *, actor: str = "") -> Charge:
        """Spend a reservation on the one manifest that may be published for it.

        Raises:
            ChargeConflict: the charge is burnt, void, or committed with another manifest.
            RequestRefused: no such charge.
        """
        manifest = arguments.note("manifest_sha256", manifest_sha256) or None
        return self._settle(id, ChargeState.COMMITTED, manifest=manifest, actor=actor)

    def burn(self, id: str, *, actor: str = "", reason: str = "") -> Charge:
        """Spend a reservation whose draw exists and will never be published.

        Raises:
            ChargeConflict: the charge is committed or void.
            RequestRefused: no such charge.
        """
        return self._settle(id, ChargeState.BURNT, actor=actor, reason=reason)

    def void(self, id: str, *, actor: str = "", reason: str = "") -> Charge:
        """Give a reservation back. Only for a charge whose draw can no longer come to be: tombstone it first.

        Raises:
            ChargeConflict: the charge is committed or burnt.
            RequestRefused: no such charge.
        """
        return self._settle(id, ChargeState.VOID, actor=actor, reason=reason)

    def renew(self, id: str) -> Charge:
        """Say that a reservation is still worked on; a settled charge stays as it is. The charge, as it now is.

        Raises:
            RequestRefused: no such charge.
        """
        charge_id = arguments.name_of("charge", id)
        return self._database.change(lambda connection: transactions.renew(connection, charge_id))

    def remaining(self, account: str, block: str = ALL) -> Budget:
        """What a block may still be charged.

        Raises:
            RequestRefused: no such account or block.
        """
        name, block = arguments.name_of("account", account), arguments.name_of("block", block)

        def work(connection: Connection) -> Budget:
            found = _account(connection, name)
            spent = rows.spent_in(connection, found.name, (block,))
            if block not in spent:
                raise rows.no_block(found.name, block)
            return taken_off(found.cap, spent[block])

        return self._database.read(work)

    def account(self, name: str) -> Account:
        """The account of that name.

        Raises:
            RequestRefused: no such account.
        """
        name = arguments.name_of("account", name)
        return self._database.read(lambda connection: _account(connection, name))

    def accounts(self) -> tuple[Account, ...]:
        """All accounts, by name."""

        def work(connection: Connection) -> tuple[Account, ...]:
            return tuple(_account(connection, name) for name in rows.account_names(connection))

        return self._database.read(work)

    def account_for_table(self, table: str) -> Account:
        """The account that pays for a table, given by any spelling of its path or catalog name.

        Raises:
            RequestRefused: the table is bound to none.
        """
        identity = table_identity(arguments.name_of("table", table, limit=2000))

        def work(connection: Connection) -> Account:
            owner = rows.owner_of(connection, identity)
            if owner is None:
                raise RequestRefused(
                    "table",
                    given=identity,
                    bound="must be bound to an account of the ledger",
                    remedy="open an account for it: `dp-budget open --table`",
                )
            return _account(connection, owner)

        return self._database.read(work)

    def charge(self, id: str) -> Charge:
        """The charge of that id.

        Raises:
            RequestRefused: no such charge.
        """
        charge_id = arguments.name_of("charge", id)
        return self._database.read(lambda connection: rows.get_charge(connection, charge_id))

    def find_charge(self, account: str, release: str) -> Charge | None:
        """The last charge of a release key, void ones included; None if there never was one."""
        account, release = arguments.name_of("account", account), arguments.name_of("release", release, limit=1000)
        return self._database.read(lambda connection: rows.latest_charge(connection, account, release))

    def history(self, account: str) -> tuple[Charge, ...]:
        """All charges of an account, in the order they were reserved.

        Raises:
            RequestRefused: no such account.
        """
        name = arguments.name_of("account", account)

        def work(connection: Connection) -> tuple[Charge, ...]:
            return rows.charges_of(connection, _account(connection, name).name)

        return self._database.read(work)

    def log(self, account: str | None = None) -> tuple[AuditEntry, ...]:
        """The audit log in order: all of it, or what happened to one account."""
        account = None if account is None else arguments.name_of("account", account)
        return self._database.read(lambda connection: tuple(audit.read_entries(connection, account)))

    def head(self) -> Head:
        """The end of the audit log, to be kept elsewhere: a log cut short no longer holds it."""
        return self._database.read(audit.read_head)

    def verify(self) -> bool:
        """Whether the audit log is whole and everything in the ledger is what the log says."""
        return self.verification().ok

    def verification(self) -> Verification:
        """What ``verify`` found, difference by difference."""
        return self._database.snapshot(verification.verify)

    def _settle(
        self,
        charge_id: str,
        state: ChargeState,
        *,
        manifest: str | None = None,
        actor: str = "",
        reason: str = "",
    ) -> Charge:
        charge_id = arguments.name_of("charge", charge_id)
        actor, reason = arguments.note("actor", actor), arguments.note("reason", reason)
        return self._database.change(
            lambda connection: transactions.settle(
                connection, charge_id, state, manifest_sha256=manifest, actor=actor, reason=reason
            )
        )


def _account(connection: Connection, name: str) -> Account:
    found = rows.find_account(connection, name)
    if found is None:
        raise rows.no_account(name)
    return found
