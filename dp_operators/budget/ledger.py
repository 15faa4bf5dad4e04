"""The privacy ledger: accounts, what they may spend, and what they have spent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dp_operators.budget import administration, audit, bindings, transactions, validation
from dp_operators.budget.charging import ChargingLedger
from dp_operators.budget.composition import cap_of, known_composition
from dp_operators.budget.values import Account, AuditEntry, KeyList, SubBudget
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.privacy import Neighbours, PrivacyUnit


class PrivacyLedger(ChargingLedger):
    """Accounts, charges and their audit log, in a PostgreSQL database (13 or newer) or a SQLite file of their own.

    Whatever runs at once, on however many hosts: in every block of an account the charges that are reserved, committed
    or burnt never add up to more than the account's cap; costs are exact decimals; a release key is charged once. Every
    change can be asked for again after a failure, and then finds itself done. Nothing is connected to before the first
    call; ledgers may be shared by threads and used on both sides of a fork.

    Args:
        url: e.g. ``postgresql://user:password@host/privacy_ledger`` or ``sqlite:////var/lib/dp/ledger.db``.
        patience: seconds a call waits for other writers before the ledger counts as unavailable.

    Raises:
        InvalidRequest: the URL names no such database. Every method also raises it where the database holds no ledger,
            or one of another version, and for any argument out of its bounds.
        LedgerUnavailable: raised by every method when the database cannot be reached, or stays locked.
    """

    def migrate(self) -> None:
        """Make the ledger's tables, or bring them to this version's schema; harmless to repeat, alone or at once.

        Raises:
            InvalidRequest: the ledger is newer than this program, or the database is Airflow's own.
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
        tables: Iterable[Any] = (),
        outputs: Iterable[str] = (),
        blocks: Any = None,
        unit_stays: bool | None = None,
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
            tables: the tables it pays for, and no other account: absolute paths, URIs or ``catalog:db.name``, or
                bindings, which say what each table is as well (see ``spark_jobs.contract.binding``). None may hold
                another that is bound, nor lie within it. Symbolic links on this machine are followed.
            outputs: the folders that its releases may go to, and no other account's: absolute paths or URIs. None may
                hold a table that is bound, nor lie within one.
            blocks: the block expression, such as ``day(visited_at)``; by default ``all`` is the one block.
            unit_stays: whether each privacy unit lies in one block for ever, so that each block has the cap for itself.
                True by default where a unit is a row. Where it is False, charges add up across blocks.
            actor: who opens it.

        Raises:
            InvalidRequest: it is open with other settings, or a table is bound to another account, lies within a bound
                one or holds one, or lacks a column of the unit or the blocks; or replacements are protected where a
                unit may lie in several blocks.
        """
        kind = known_composition(composition)
        cap, part = cap_of(kind, epsilon, delta, rho, slack)
        expression, whom = validation.block_expression(blocks), validation.privacy_unit(unit)
        between, bound = validation.relation(neighbours), validation.bound_tables(tables)
        for binding in filter(None, bound.values()):
            TableBinding.parse(binding).require_terms(whom, expression)
        account = Account(
            name=validation.name_of("account", name),
            composition=kind,
            cap=cap,
            slack=part,
            neighbours=between,
            unit=whom,
            tables=tuple(sorted(bound)),
            bindings={table: binding for table, binding in bound.items() if binding is not None},
            outputs=validation.output_uris(outputs),
            blocks=expression,
            unit_stays=validation.stays(unit_stays, expression, whom, between),
            opened_at=audit.now(),
            opened_by=validation.note("actor", actor),
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
        actor: str,
        reason: str,
    ) -> Account | SubBudget:
        """Raise the cap of each block of an account, or of an allotment in it; a cap is never lowered.

        Args:
            account: the account's name.
            epsilon: the new cap, as for ``open_account``; of what is not given, the old one stays.
            delta: the same.
            rho: the same.
            allotment: an allotment of the account, whose cap is raised instead.
            actor: who answers for it.
            reason: why; both are written into the audit log.

        Raises:
            InvalidRequest: nobody or no reason is named, or the new cap is below the old one.
        """
        request = administration.CapRequest(
            account=validation.name_of("account", account),
            sub_budget=validation.note("allotment", allotment, limit=200),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            actor=validation.name_of("actor", actor, limit=500),
            reason=validation.name_of("reason", reason, limit=500),
        )
        return self._database.alone(lambda connection: administration.raise_cap(connection, request))

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
    ) -> SubBudget:
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
            InvalidRequest: no such account, or there is an allotment of this name with another cap.
        """
        request = administration.CapRequest(
            account=validation.name_of("account", account),
            sub_budget=validation.name_of("allotment", name),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            actor=validation.note("actor", actor),
            reason=validation.note("reason", reason),
        )
        return self._database.alone(lambda connection: administration.allot(connection, request))

    def bind_table(self, account: str, binding: Any, *, actor: str, reason: str) -> Account:
        """Say what a table of an account is; said before, it can only be given more columns.

        A table that belongs to no account yet becomes this one's.

        Args:
            account: the account's name.
            binding: the table and what it is, as ``spark_jobs.contract.binding.TableBinding`` or its plain JSON.
            actor: who answers for it.
            reason: why; both are written into the audit log.

        Raises:
            InvalidRequest: nobody or no reason is named, no such account, the table is another account's, or what was
                said of it before would change.
        """
        [(table, fields)] = validation.bound_tables((binding,)).items()
        wanted = bindings.Bind(
            account=validation.name_of("account", account),
            table=table,
            binding=fields,
            actor=validation.name_of("actor", actor, limit=500),
            reason=validation.name_of("reason", reason, limit=500),
        )
        return self._database.alone(lambda connection: bindings.bind_table(connection, wanted))

    def bind_outputs(self, account: str, outputs: Iterable[str], *, actor: str, reason: str) -> Account:
        """Say which folders an account's releases may go to, instead of those that were said before.

        Args:
            account: the account's name.
            outputs: the folders' URIs.
            actor: who answers for it.
            reason: why; both are written into the audit log.

        Raises:
            InvalidRequest: nobody or no reason is named, no such account, or a folder overlaps with a table or with a
                folder of another account.
        """
        wanted = bindings.BindOutputs(
            account=validation.name_of("account", account),
            outputs=validation.output_uris(outputs),
            actor=validation.name_of("actor", actor, limit=500),
            reason=validation.name_of("reason", reason, limit=500),
        )
        return self._database.alone(lambda connection: bindings.bind_outputs(connection, wanted))

    def register_keys(self, account: str, name: str, keys: Iterable[Any], *, actor: str) -> KeyList:
        """Register a public list of keys that an account's requests may name; the same list again is found.

        Args:
            account: the account's name.
            name: the list's name in it.
            keys: texts or whole numbers, each once.
            actor: who answers for their being public.

        Raises:
            InvalidRequest: no such account, or other keys are registered under this name.
        """
        wanted = bindings.Register(
            account=validation.name_of("account", account),
            name=validation.name_of("name", name),
            keys=validation.key_values(keys),
            actor=validation.name_of("actor", actor, limit=500),
        )
        return self._database.alone(lambda connection: bindings.register_keys(connection, wanted))

    def freeze(self, *, actor: str = "", reason: str) -> None:
        """Let nothing be written until ``thaw``: for a ledger that was restored and may have forgotten spends.

        Raises:
            InvalidRequest: no reason is given.
        """
        actor, reason = validation.note("actor", actor), validation.name_of("reason", reason, limit=500)
        self._database.alone(lambda connection: administration.freeze(connection, reason, actor=actor))

    def seal(self, entry: AuditEntry) -> str:
        """What shows a server that its log once had ``entry``, should it be restored from before; empty for a file.

        Raises:
            InvalidRequest: this role may not charge.
        """
        return self._database.read(lambda connection: administration.seal(connection, entry))

    def freeze_forgotten(self, seq: int, hash: str, seal: str, *, actor: str = "", reason: str) -> None:
        """Freeze a ledger whose log does not hold an entry that it once had; who may charge may do it.

        Args:
            seq: the entry's number.
            hash: its hash.
            seal: what ``seal`` gave for it; where it is another, nothing is frozen.
            actor: who asks.
            reason: why.

        Raises:
            InvalidRequest: the log holds it, or the seal is none.
        """
        who, why = validation.note("actor", actor), validation.name_of("reason", reason, limit=500)
        self._database.change(
            lambda connection: administration.freeze_forgotten(connection, (seq, hash, seal), why, actor=who)
        )

    def thaw(self, *, actor: str, reason: str) -> None:
        """Let everything be written again.

        Raises:
            InvalidRequest: nobody or no reason is named.
        """
        who, why = (
            validation.name_of(what, given, limit=500) for what, given in (("actor", actor), ("reason", reason))
        )
        self._database.alone(lambda connection: administration.thaw(connection, why, actor=who))
