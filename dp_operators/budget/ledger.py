"""The privacy ledger: accounts, their caps, and what they have spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dp_operators.budget import validation
from dp_operators.budget.cap_decision import CapDecision
from dp_operators.budget.charging import ChargingLedger
from dp_operators.budget.composition import cap_of, known_composition
from dp_operators.budget.tables import audit
from dp_operators.budget.transactions import administration, bindings
from dp_operators.budget.values import Account, AuditEntry, KeyList, RegisteredLookup, SubBudget
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.domains import Domain
from spark_jobs.contract.options.lookups import Lookup
from spark_jobs.contract.privacy import Neighbours, PrivacyUnit


class PrivacyLedger(ChargingLedger):
    """Accounts, charges and their audit log, in a PostgreSQL database (13 or newer) or a SQLite file of their own.

    Under any concurrency, on any number of hosts: in every block of an account the costs that are reserved, committed
    or burnt never add up to more than the cap; costs are exact decimals; a release key has at most one charge that is
    not void. Every call that changes something can be repeated after a failure; the change is made only once. No
    connection is opened before the first call; a ledger can be shared by threads and used on both sides of a fork.

    Args:
        url: e.g. ``postgresql://user:password@host/privacy_ledger`` or ``sqlite:////var/lib/dp/ledger.db``.
        patience: seconds that a call waits for other writers before the ledger counts as unavailable.

    Raises:
        InvalidRequest: not the URL of such a database. Every method also raises it where the database has no ledger or
            one of another version, and for any argument out of its bounds.
        LedgerUnavailable: raised by every method if the database cannot be reached, or stays locked.
    """

    def migrate(self) -> None:
        """Create the ledger's tables, or upgrade them to this version's schema; safe to repeat and to run concurrently.

        Raises:
            InvalidRequest: the ledger is newer than this program or was made before 0.1.0, or the database is Airflow's
                own.
        """
        from dp_operators.budget.tables.migrate import migrate

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
        requester_approves: bool = False,
        actor: str = "",
    ) -> Account:
        """Open an account, or return the one that is open with the same settings.

        Args:
            name: the account's name.
            epsilon: the cap of each block, as an exact decimal; a ``zcdp`` account takes either this or ``rho``.
            delta: the cap's delta of an ``approximate`` account; the delta at which a ``zcdp`` account's epsilon is
                reported.
            rho: the cap of a ``zcdp`` account.
            slack: the part of an ``approximate`` account's delta that pays for the sum of squares; by default half of
                the delta.
            composition: how charges add up: ``pure``, ``zcdp`` or ``approximate``.
            neighbours: the neighbour relation of every charge.
            unit: the privacy unit that the guarantee protects.
            tables: the tables that this account alone pays for: absolute paths, URIs or ``catalog:db.name``, or
                bindings, which also describe the tables (see ``spark_jobs.contract.binding``). No table may overlap
                with another bound table. Symbolic links on this machine are followed.
            outputs: the folders that releases of this account alone may be written to: absolute paths or URIs. No
                folder may overlap with a bound table.
            blocks: the block expression, such as ``day(visited_at)``; by default ``all`` is the only block.
            unit_stays: whether each privacy unit stays in one block, so that each block has the whole cap. True by
                default if a unit is a row. If False, charges add up across blocks.
            requester_approves: whether a person may approve the higher cap that they asked for themselves.
            actor: who opens it.

        Raises:
            InvalidRequest: the account is open with other settings; a table is bound to another account, overlaps with
                a bound one, or lacks a column of the unit or the blocks; or the account protects replacements although
                a unit may be in several blocks.
        """
        kind = known_composition(composition)
        cap, cap_slack = cap_of(kind, epsilon, delta, rho, slack)
        expression, privacy_unit = validation.block_expression(blocks), validation.privacy_unit(unit)
        relation, bound = validation.relation(neighbours), validation.bound_tables(tables)
        for binding in filter(None, bound.values()):
            TableBinding.parse(binding).require_terms(privacy_unit, expression)
        account = Account(
            name=validation.name_of("account", name),
            composition=kind,
            cap=cap,
            slack=cap_slack,
            neighbours=relation,
            unit=privacy_unit,
            tables=tuple(sorted(bound)),
            bindings={table: binding for table, binding in bound.items() if binding is not None},
            outputs=validation.output_uris(outputs),
            blocks=expression,
            unit_stays=validation.stays_in_block(unit_stays, expression, privacy_unit, relation),
            requester_approves=bool(requester_approves),
            opened_at=audit.now(),
            opened_by=validation.optional_name("actor", actor),
        )
        return self._database.alone(lambda connection: administration.open_account(connection, account))

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
        """Raise the cap of each block of an account or of one of its sub-budgets; a cap is never lowered.

        Args:
            account: the account's name.
            epsilon: the new cap, as for ``open_account``; None keeps the old amount.
            delta: the new cap's delta; None keeps the old one.
            rho: the new cap's rho; None keeps the old one.
            allotment: the name of the sub-budget whose cap is raised instead of the account's.
            actor: who is responsible for it.
            reason: why; actor and reason are written into the audit log.

        Raises:
            InvalidRequest: the actor or the reason is missing, or the new cap is below the old one.
        """
        request = administration.CapRequest(
            account=validation.name_of("account", account),
            sub_budget=validation.optional_name("allotment", allotment, limit=200),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            actor=validation.name_of("actor", actor, limit=500),
            reason=validation.name_of("reason", reason, limit=500),
        )
        return self._database.alone(lambda connection: administration.raise_cap(connection, request))

    def cap_decision(
        self, account: str, *, epsilon: Any = None, delta: Any = None, rho: Any = None, allotment: str | None = None
    ) -> CapDecision:
        """What ``raise_cap`` would do with the same arguments, and what is spent and left; nothing is changed.

        Raises:
            InvalidRequest: there is no such account or sub-budget, or the new cap is below the old one.
        """
        request = administration.CapRequest(
            account=validation.name_of("account", account),
            sub_budget=validation.optional_name("allotment", allotment, limit=200),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            actor="",
            reason="",
        )
        before, after = self._database.read(lambda connection: administration.preview_raise(connection, request))
        spent = self.blocks(account, allotment=allotment)
        return CapDecision.of(self.account(account), before, after, spent)

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
        """Create a sub-budget of an account, for a team or a DAG, or return the one that exists with the same cap.

        Args:
            account: the account's name.
            name: the sub-budget's name.
            epsilon: the limit on its charges in any one block, as for ``open_account``. It may be above the account's
                cap, which applies as well, and sub-budgets may add up to more than that cap.
            delta: the cap's delta; a sub-budget of a ``zcdp`` account reports its epsilon at the account's delta by
                default.
            rho: the cap of a sub-budget of a ``zcdp`` account.
            actor: who creates it.
            reason: why.

        Raises:
            InvalidRequest: no such account, or the sub-budget exists with another cap.
        """
        request = administration.CapRequest(
            account=validation.name_of("account", account),
            sub_budget=validation.name_of("allotment", name),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            actor=validation.optional_name("actor", actor),
            reason=validation.optional_name("reason", reason),
        )
        return self._database.alone(lambda connection: administration.allot(connection, request))

    def bind_table(self, account: str, binding: Any, *, actor: str, reason: str) -> Account:
        """Bind the description of a table to an account.

        If the table belongs to no account, it is assigned to this one. A further call can add columns, facts and later
        versions, and can change domains. The form of files can change if the account has no blocks. Nothing else can
        change.

        Args:
            account: the account's name.
            binding: the table's description, as ``spark_jobs.contract.binding.TableBinding`` or its plain JSON.
            actor: who is responsible for it.
            reason: why; actor and reason are written into the audit log.

        Raises:
            InvalidRequest: the actor or the reason is missing, no such account, the table belongs to another account,
                or the earlier description would change in another way.
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

    def change_domains(
        self, account: str, table: str, domains: Mapping[str, Domain | str | None], *, actor: str, reason: str
    ) -> Account:
        """Change the domains of columns of a bound table; streams and releases that have begun keep the earlier ones.

        Args:
            account: the account's name.
            table: one of its tables.
            domains: the new domain of each named column, such as ``between 0 and 120``; None removes the domain.
            actor: who is responsible for it.
            reason: why, which must not come from the table's rows; actor and reason are written into the audit log.

        Raises:
            InvalidRequest: the actor or the reason is missing, there is no such account, table, column or key list, or
                a domain contradicts its column's type.
        """
        wanted = bindings.ChangeDomains(
            account=validation.name_of("account", account),
            table=validation.table_identity(table),
            domains=validation.domains_of(domains),
            actor=validation.name_of("actor", actor, limit=500),
            reason=validation.name_of("reason", reason, limit=500),
        )
        return self._database.alone(lambda connection: bindings.change_domains(connection, wanted))

    def bind_outputs(self, account: str, outputs: Iterable[str], *, actor: str, reason: str) -> Account:
        """Bind the folders that an account's releases may be written to, in place of its earlier folders.

        Args:
            account: the account's name.
            outputs: the folders' URIs.
            actor: who is responsible for it.
            reason: why; actor and reason are written into the audit log.

        Raises:
            InvalidRequest: the actor or the reason is missing, no such account, or a folder overlaps with a table or
                with a folder of another account.
        """
        wanted = bindings.BindOutputs(
            account=validation.name_of("account", account),
            outputs=validation.output_uris(outputs),
            actor=validation.name_of("actor", actor, limit=500),
            reason=validation.name_of("reason", reason, limit=500),
        )
        return self._database.alone(lambda connection: bindings.bind_outputs(connection, wanted))

    def set_approvals(self, account: str, *, requester_approves: bool, actor: str, reason: str) -> Account:
        """Say whether a person may approve the higher cap that they asked for themselves.

        Args:
            account: the account's name.
            requester_approves: whether the person who asked may approve.
            actor: who is responsible for it.
            reason: why; actor and reason are written into the audit log.

        Raises:
            InvalidRequest: the actor or the reason is missing, or no such account.
        """
        wanted = bindings.SetApprovals(
            account=validation.name_of("account", account),
            requester_approves=bool(requester_approves),
            actor=validation.name_of("actor", actor, limit=500),
            reason=validation.name_of("reason", reason, limit=500),
        )
        return self._database.alone(lambda connection: bindings.set_approvals(connection, wanted))

    def register_keys(self, account: str, name: str, keys: Iterable[Any], *, actor: str) -> KeyList:
        """Register a public list of keys for an account's requests, or return the one registered with the same keys.

        Args:
            account: the account's name.
            name: the list's name in the account.
            keys: distinct texts or integers.
            actor: who is responsible for the keys' being public.

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

    def register_lookup(self, account: str, lookup: Mapping[str, Any], *, actor: str) -> RegisteredLookup:
        """Register a public lookup for an account's requests, or return the one registered with the same content.

        Args:
            account: the account's name.
            lookup: its ``name``, the titles of its ``key`` and its ``value``, its ``entries``, and its ``sha256`` if
                the hash is known from elsewhere; see ``spark_jobs.contract.options.lookups.Lookup``.
            actor: who is responsible for the lookup's being public.

        Raises:
            InvalidRequest: no such account; a key has two entries, there are too many entries or the hash differs; or
                something else is registered under this name.
        """
        wanted = bindings.RegisterLookup(
            account=validation.name_of("account", account),
            lookup=Lookup.parse({**lookup, "name": validation.name_of("name", lookup.get("name"))}),
            actor=validation.name_of("actor", actor, limit=500),
        )
        return self._database.alone(lambda connection: bindings.register_lookup(connection, wanted))

    def freeze(self, *, actor: str = "", reason: str) -> None:
        """Reject every change until ``thaw``; meant for a ledger that was restored and may lack charges.

        Raises:
            InvalidRequest: no reason is given.
        """
        actor, reason = validation.optional_name("actor", actor), validation.name_of("reason", reason, limit=500)
        self._database.alone(lambda connection: administration.freeze(connection, reason, actor=actor))

    def seal(self, entry: AuditEntry) -> str:
        """The server's proof that its log has ``entry``, to check a restored ledger; empty for a SQLite file.

        Raises:
            InvalidRequest: this role may not charge.
        """
        return self._database.read(lambda connection: administration.seal(connection, entry))

    def freeze_forgotten(self, seq: int, hash: str, seal: str, *, actor: str = "", reason: str) -> None:
        """Freeze a ledger whose log has lost an entry; roles that may charge may call this method.

        Args:
            seq: the entry's number.
            hash: the entry's hash.
            seal: the result of ``seal`` for the entry; with any other seal nothing is frozen.
            actor: who requests it.
            reason: why.

        Raises:
            InvalidRequest: the log still has the entry, or the seal is not valid.
        """
        who, why = validation.optional_name("actor", actor), validation.name_of("reason", reason, limit=500)
        self._database.change(
            lambda connection: administration.freeze_forgotten(connection, (seq, hash, seal), why, actor=who)
        )

    def thaw(self, *, actor: str, reason: str) -> None:
        """Allow changes again after a freeze.

        Raises:
            InvalidRequest: the actor or the reason is missing, or the ledger was moved.
        """
        who, why = (
            validation.name_of(what, given, limit=500) for what, given in (("actor", actor), ("reason", reason))
        )
        self._database.alone(lambda connection: administration.thaw(connection, why, actor=who))
