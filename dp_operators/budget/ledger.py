"""The privacy ledger: accounts, what they may spend, and what they have spent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dp_operators.budget import administration, arguments, audit, transactions
from dp_operators.budget.composition import cap_of, known_composition
from dp_operators.budget.reading import LedgerReader
from dp_operators.budget.values import ALL, Account, Allotment, Charge, ChargeState
from spark_jobs.contract.privacy import Neighbours, PrivacyUnit


class PrivacyLedger(LedgerReader):
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
        epsilon: Any = None,
        delta: Any = 0,
        rho: Any = None,
        slack: Any = None,
        composition: str = "pure",
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        unit: PrivacyUnit = PrivacyUnit(),  # noqa: B008 - frozen
        tables: Iterable[str] = (),
        blocks: Any = None,
        unit_stays: bool | None = None,
        public_sizes: bool = False,
        actor: str = "",
    ) -> Account:
        """Open an account; the same account again is found open.

        Args:
            name: the account's name.
            epsilon: the cap of each block, as an exact decimal; of a ``zcdp`` account, this or ``rho``.
            delta: of an ``approximate`` account, the cap's; of a ``zcdp`` account, where its epsilon is told.
            rho: the cap of a ``zcdp`` account.
            slack: the part of an ``approximate`` account's delta that pays for adding up squares; half by default.
            composition: how charges add up: ``pure``, ``zcdp`` or ``approximate``.
            neighbours: the relation that every charge is about.
            unit: whom the guarantee protects.
            tables: the tables it pays for, and no other account: absolute paths, URIs or ``catalog:db.name``. None may
                hold another that is bound, nor lie within it. Symbolic links on this machine are followed.
            blocks: the block expression, such as ``day(visited_at)``; by default ``all`` is the one block.
            unit_stays: whether each privacy unit lies in one block for ever, so that each block has the cap for itself.
                True by default where a unit is a row. Where it is False, charges add up across blocks.
            public_sizes: with ``REPLACE_ONE``, whether a request may declare public which rows it goes through.
            actor: who opens it.

        Raises:
            RequestRefused: it is open with other settings, or a table is bound to another account, lies within a bound
                one or holds one; or replacements are protected where a unit may lie in several blocks; or sizes are to
                be public where they cannot be.
        """
        kind = known_composition(composition)
        cap, part = cap_of(kind, epsilon, delta, rho, slack)
        expression, whom = arguments.block_expression(blocks), arguments.privacy_unit(unit)
        between = arguments.relation(neighbours)
        account = Account(
            name=arguments.name_of("account", name),
            composition=kind,
            cap=cap,
            slack=part,
            neighbours=between,
            unit=whom,
            tables=arguments.bound_identities(tables),
            blocks=expression,
            unit_stays=arguments.stays(unit_stays, expression, whom, between),
            public_sizes=arguments.sizes(public_sizes, between),
            opened_at=audit.now(),
            opened_by=arguments.note("actor", actor),
        )
        return self._database.alone(lambda connection: transactions.open_account(connection, account))

    def raise_cap(
        self,
        account: str,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        allotment: str | None = None,
        public_sizes: bool = False,
        actor: str,
        reason: str,
    ) -> Account | Allotment:
        """Raise the cap of each block of an account, or of an allotment in it; a cap is never lowered.

        Args:
            account: the account's name.
            epsilon: the new cap, as for ``open_account``; of what is not given, the old one stays.
            delta: the same.
            rho: the same.
            allotment: an allotment of the account, whose cap is raised instead.
            public_sizes: let requests declare sizes public from here on, as for ``open_account``; never taken back.
            actor: who answers for it.
            reason: why; both are written into the audit log.

        Raises:
            RequestRefused: nobody or no reason is named, the new cap is below the old one, or sizes are to be public
                where they cannot be.
        """
        wanted = administration.Raise(
            account=arguments.name_of("account", account),
            allotment=arguments.note("allotment", allotment, limit=200),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            public_sizes=bool(public_sizes),
            actor=arguments.name_of("actor", actor, limit=500),
            reason=arguments.name_of("reason", reason, limit=500),
        )
        return self._database.alone(lambda connection: administration.raise_cap(connection, wanted))

    def allot(
        self,
        account: str,
        name: str,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        actor: str = "",
        reason: str = "",
    ) -> Allotment:
        """Make an allotment of an account, for a team or a DAG; the same one again is found.

        Args:
            account: the account's name.
            name: the allotment's.
            epsilon: what its charges may add up to in any block, as for ``open_account``. It may be above the account's
                cap, which holds all the same, and allotments may add up to more than that.
            delta: the same; an allotment of a ``zcdp`` account tells its epsilon at the account's.
            rho: the same.
            actor: who makes it.
            reason: why.

        Raises:
            RequestRefused: no such account, or there is an allotment of this name with another cap.
        """
        wanted = administration.Allot(
            account=arguments.name_of("account", account),
            name=arguments.name_of("allotment", name),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            actor=arguments.note("actor", actor),
            reason=arguments.note("reason", reason),
        )
        return self._database.alone(lambda connection: administration.allot(connection, wanted))

    def freeze(self, *, actor: str = "", reason: str) -> None:
        """Let nothing be written until ``thaw``: for a ledger that was restored and may have forgotten spends.

        Raises:
            RequestRefused: no reason is given.
        """
        actor, reason = arguments.note("actor", actor), arguments.name_of("reason", reason, limit=500)
        self._database.alone(lambda connection: administration.freeze(connection, reason, actor=actor))

    def thaw(self, *, actor: str, reason: str) -> None:
        """Let everything be written again.

        Raises:
            RequestRefused: nobody or no reason is named.
        """
        who, why = (arguments.name_of(what, given, limit=500) for what, given in (("actor", actor), ("reason", reason)))
        self._database.alone(lambda connection: administration.thaw(connection, why, actor=who))

    def reserve(
        self,
        account: str,
        *,
        release: str,
        epsilon: Any = None,
        delta: Any = 0,
        rho: Any = None,
        blocks: Iterable[str] = (ALL,),
        events: Iterable[Any] = (),
        request_sha256: str = "",
        allotment: str | None = None,
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
            epsilon: the whole cost, as an exact decimal; a ``zcdp`` account counts its half square.
            delta: 0 unless the account is ``approximate``.
            rho: the cost of a Gaussian mechanism to a ``zcdp`` account, instead of ``epsilon``.
            blocks: the blocks that are read; they appear when they are first charged.
            events: what the mechanisms are going to spend, plain JSON values; see ``dp_operators.budget.events``.
            request_sha256: hash of the request that is paid for.
            allotment: an allotment of the account, which has to bear the cost as well.
            neighbours: the release's relation, refused if the account's is another; None is the account's.
            unit: the release's privacy unit, refused if the account's is another; None is the account's.
            tables: tables that are read; refused if the account is not bound to one.
            actor: who asks.

        Raises:
            BudgetExceeded: a block cannot bear the cost.
            ChargeConflict: the key is charged for another request, cost or blocks.
            RequestRefused: no such account or block, or a bound table, relation or unit that differs.
        """
        order = transactions.Order(
            account=arguments.name_of("account", account),
            release=arguments.name_of("release", release, limit=1000),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            blocks=arguments.block_names(blocks),
            allotment=arguments.note("allotment", allotment, limit=200),
            events=tuple(json.loads(arguments.event_list(events))),
            request_sha256=arguments.note("request_sha256", request_sha256),
            neighbours=None if neighbours is None else arguments.relation(neighbours),
            unit=None if unit is None else arguments.privacy_unit(unit),
            tables=arguments.table_identities(tables),
            actor=arguments.note("actor", actor),
        )
        return self._database.change(lambda connection: transactions.reserve(connection, order))

    def commit(
        self, id: str, manifest_sha256: str | None = None, *, events: Iterable[Any] | None = None, actor: str = ""
    ) -> Charge:
        """Spend a reservation on the one manifest that may be published for it.

        Args:
            id: the charge's.
            manifest_sha256: the manifest's hash.
            events: what the mechanisms spent, as the draw says; see ``dp_operators.budget.events``. None tells nothing.
            actor: who asks.

        Raises:
            ChargeConflict: the charge is burnt, void, or committed with another manifest.
            RequestRefused: no such charge.
        """
        manifest = arguments.note("manifest_sha256", manifest_sha256) or None
        return self._settle(id, ChargeState.COMMITTED, manifest=manifest, events=events, actor=actor)

    def burn(self, id: str, *, events: Iterable[Any] | None = None, actor: str = "", reason: str = "") -> Charge:
        """Spend a reservation whose draw exists and will never be published; ``events`` as for ``commit``.

        Raises:
            ChargeConflict: the charge is committed or void.
            RequestRefused: no such charge.
        """
        return self._settle(id, ChargeState.BURNT, events=events, actor=actor, reason=reason)

    def void(self, id: str, *, actor: str = "", reason: str = "") -> Charge:
        """Give a reservation back. Only for a charge whose draw can no longer come to be: tombstone it first.

        Raises:
            ChargeConflict: the charge is committed or burnt.
            RequestRefused: no such charge.
        """
        return self._settle(id, ChargeState.VOID, actor=actor, reason=reason)

    def restore(
        self,
        account: str,
        *,
        id: str,
        release: str,
        epsilon: Any,
        delta: Any = 0,
        blocks: Iterable[str] = (ALL,),
        allotment: str | None = None,
        request_sha256: str,
        actor: str,
        reason: str,
    ) -> Charge:
        """Enter a charge again that a restored ledger has forgotten, under its old id, even while it is frozen.

        Args:
            account: the account's name.
            id: the charge's.
            release: the release key.
            epsilon: the whole cost.
            delta: the same.
            blocks: the blocks that were read.
            allotment: the allotment that it was charged to as well.
            request_sha256: hash of the request that was paid for.
            actor: who asks.
            reason: where the charge was found.

        Raises:
            BudgetExceeded: the cap is lower than it must have been.
            ChargeConflict: the key is charged for another request, cost or blocks.
            RequestRefused: no such account, allotment or block.
        """
        order = transactions.Order(
            account=arguments.name_of("account", account),
            release=arguments.name_of("release", release, limit=1000),
            epsilon=epsilon,
            delta=delta,
            rho=None,
            blocks=arguments.block_names(blocks),
            allotment=arguments.note("allotment", allotment, limit=200),
            events=(),
            request_sha256=arguments.note("request_sha256", request_sha256),
            neighbours=None,
            unit=None,
            tables=(),
            actor=arguments.name_of("actor", actor, limit=500),
            restored=arguments.name_of("charge", id),
            reason=arguments.name_of("reason", reason, limit=500),
        )
        return self._database.change(lambda connection: transactions.reserve(connection, order))

    def restore_commit(
        self, id: str, manifest_sha256: str, *, events: Iterable[Any] | None = None, actor: str, reason: str
    ) -> Charge:
        """Commit a charge whose release is visible, even while the ledger is frozen.

        Raises:
            ChargeConflict: the charge is burnt, void, or committed with another manifest.
            RequestRefused: no such charge.
        """
        return self._settle(
            id,
            ChargeState.COMMITTED,
            manifest=manifest_sha256,
            events=events,
            actor=actor,
            reason=reason,
            while_frozen=True,
        )

    def renew(self, id: str) -> Charge:
        """Say that a reservation is still worked on; a settled charge stays as it is. The charge, as it now is.

        Raises:
            RequestRefused: no such charge.
        """
        charge_id = arguments.name_of("charge", id)
        return self._database.change(lambda connection: transactions.renew(connection, charge_id))

    def _settle(
        self,
        charge_id: str,
        state: ChargeState,
        *,
        manifest: str | None = None,
        events: Iterable[Any] | None = None,
        actor: str = "",
        reason: str = "",
        while_frozen: bool = False,
    ) -> Charge:
        charge_id = arguments.name_of("charge", charge_id)
        actor, reason = arguments.note("actor", actor), arguments.note("reason", reason)
        told = None if events is None else tuple(json.loads(arguments.event_list(events)))
        return self._database.change(
            lambda connection: transactions.settle(
                connection,
                charge_id,
                state,
                manifest_sha256=manifest,
                events=told,
                actor=actor,
                reason=reason,
                while_frozen=while_frozen,
            )
        )
