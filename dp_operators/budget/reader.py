"""The ledger's queries, which change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from dp_operators.budget import overview, validation
from dp_operators.budget.composition import cost_in, limits_of, minimum, room, zero_cost
from dp_operators.budget.list_reader import ListReader
from dp_operators.budget.mechanism_events import MechanismEvent, charged_events
from dp_operators.budget.overview import AccountOverview, ChargeFilter, ChargePage
from dp_operators.budget.tables import audit, rows
from dp_operators.budget.tables.database import Database
from dp_operators.budget.transactions import charges, stream_steps, verification
from dp_operators.budget.transactions.overlaps import nested_table
from dp_operators.budget.values import (
    ALL,
    Account,
    AuditEntry,
    Charge,
    ChargeState,
    Head,
    RecordedSteps,
    StreamHead,
    SubBudget,
    Verification,
    exact_budget,
)
from spark_jobs.contract.places import Place
from spark_jobs.contract.privacy import Budget


class LedgerReader(ListReader):
    """The methods of ``PrivacyLedger`` that only read.

    Args:
        url: the ledger's URL.
        patience: seconds that a call waits before the ledger counts as unavailable.
        name: the ledger's name in errors, such as its connection, if they must not show its login and host.
    """

    def __init__(self, url: str, *, patience: float = 20.0, name: str | None = None) -> None:
        self._database = Database(url, patience=patience, name=name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """The ledger's URL without its password, or the name that it was given."""
        return self._database.name

    def close(self) -> None:
        """Close idle connections; the ledger can still be used."""
        self._database.close()

    def remaining(self, account: str, block: str = ALL, *, allotment: str | None = None, kind: str = "pure") -> Budget:
        """The largest charge of a kind that a block has room for.

        Args:
            account: the account's name.
            block: one of its blocks; where charges add up across blocks, all blocks have the same amount left.
            allotment: the name of a sub-budget, whose room also limits the result.
            kind: the kind of the charge. ``pure``: an epsilon with no delta. ``gaussian``: a rho with no epsilon; the
                rho is 0 if the account does not add up rho. ``approximate``: an epsilon and a delta together; the delta
                is 0 if the account admits none. For a ``zcdp`` account, the result also has the rho that is left. For
                an ``approximate`` account, the result's rho is what is left of the limit on the sum of epsilon^2/2.

        Raises:
            InvalidRequest: no such account, block, sub-budget or kind.
        """
        name, block = validation.name_of("account", account), validation.name_of("block", block)
        payer = validation.optional_name("allotment", allotment, limit=200)

        def work(connection: Connection) -> Budget:
            terms = rows.get_account(connection, name)
            if block != ALL:  # for an account with blocks, ALL stands for any block without charges
                terms.require_blocks((block,))
            caps: dict[str, Account | SubBudget] = {"": terms}
            if payer:
                caps[payer] = rows.get_sub_budget(connection, name, payer)
            [paying] = terms.paying((block,))
            spent = rows.spent_in(connection, terms.name, (paying,), payer)
            return _remaining_in(terms, caps, spent, paying, kind)

        return self._database.read(work)

    def remaining_by_block(self, account: str, *, kind: str = "pure") -> dict[str, Budget]:
        """The ``remaining`` of each block that was ever charged, in the order of the blocks, read by one query.

        An account without charges has the one key ``all``, which stands for any block.

        Raises:
            InvalidRequest: no such account or kind.
        """
        name = validation.name_of("account", account)

        def work(connection: Connection) -> dict[str, Budget]:
            terms = rows.get_account(connection, name)
            limits = limits_of(terms.composition, terms.cap, terms.slack)
            spent = _in_order(terms, rows.all_spent(connection, name), "")
            totals = spent or {ALL: zero_cost(terms.composition)}
            left = {total: room(limits, total, kind) for total in set(totals.values())}  # many have spent the same
            return {block: left[total] for block, total in totals.items()}

        return self._database.read(work)

    def affordable(
        self,
        account: str,
        *,
        epsilon: Any,
        delta: Any = 0,
        rho: Any = None,
        blocks: Iterable[str] = (ALL,),
        allotment: str | None = None,
    ) -> dict[str, Budget]:
        """What each block still has room for, provided that all of them have room for this cost; nothing is reserved.

        Raises:
            BudgetExceeded: a block has no room for the cost.
            InvalidRequest: no such account, block or sub-budget, or a cost that the account cannot add up.
        """
        name, names = validation.name_of("account", account), validation.block_names(blocks)
        payer = validation.optional_name("allotment", allotment, limit=200)

        def work(connection: Connection) -> dict[str, Budget]:
            terms = rows.get_account(connection, name)
            terms.require_blocks(names)
            cost = cost_in(terms.composition, epsilon, delta, rho)
            sub_budget = rows.get_sub_budget(connection, name, payer) if payer else None
            spent = rows.spent_in(connection, name, terms.paying(names), payer)
            charges.totals_after(terms, sub_budget, payer, spent, names, cost)
            caps: dict[str, Account | SubBudget] = {"": terms} | ({} if sub_budget is None else {payer: sub_budget})
            kind = "approximate" if cost.epsilon else "gaussian"
            return {block: _remaining_in(terms, caps, spent, block, kind) for block in terms.paying(names)}

        return self._database.read(work)

    def blocks(self, account: str, *, allotment: str | None = None) -> dict[str, Budget]:
        """What is spent in every block that was ever charged, in the order of the blocks.

        Raises:
            InvalidRequest: no such account.
        """
        name, payer = (
            validation.name_of("account", account),
            validation.optional_name("allotment", allotment, limit=200),
        )

        def work(connection: Connection) -> dict[str, Budget]:
            terms = rows.get_account(connection, name)
            return _in_order(terms, rows.all_spent(connection, name), payer)

        return self._database.read(work)

    def non_adaptive_bound(self, account: str, block: str = ALL) -> Budget | None:
        """The cost of all charges to a block if they had been fixed in advance; only for information.

        This figure never decides whether a charge fits. It is an upper bound on the epsilon at the account's delta, or
        at 10^-6 if the account's delta is 0; see ``dp_operators.budget.numerical_composition``. The result is None if
        there is no such bound, if a charge of rho does not state its mechanisms, or if the account's delta is above 0
        and below 10^-10.

        Raises:
            InvalidRequest: no such account.
        """
        from dp_operators.budget.numerical_composition import DEFAULT_DELTA, MIN_DELTA, non_adaptive_epsilon

        terms = self.account(account)
        events: list[MechanismEvent] = []
        delta = terms.cap.delta or DEFAULT_DELTA
        for charge in self.history(account):
            if charge.state is ChargeState.VOID or block not in terms.paying(charge.blocks):
                continue
            spent = charged_events(charge)
            if spent is None:
                return None
            events += spent
        epsilon = non_adaptive_epsilon(events, delta) if delta >= MIN_DELTA else None
        return None if epsilon is None else exact_budget(epsilon, delta)

    def sub_budgets(self, account: str) -> tuple[SubBudget, ...]:
        """The sub-budgets of an account, sorted by name.

        Raises:
            InvalidRequest: no such account.
        """
        name = validation.name_of("account", account)
        return self._database.read(
            lambda connection: rows.sub_budgets_of(connection, rows.get_account(connection, name).name)
        )

    def stale(self, older_than: timedelta) -> tuple[Charge, ...]:
        """The reservations without a heartbeat for at least ``older_than``; they still count as spent.

        A clock that was set back makes reservations look younger than they are, never older.
        """
        moment = audit.now(-older_than)
        return self._database.read(lambda connection: rows.reserved_before(connection, moment))

    def frozen(self) -> str:
        """The reason why the ledger is frozen; empty if it is not frozen."""
        return self._database.read(rows.frozen)

    def account(self, name: str) -> Account:
        """The account with this name.

        Raises:
            InvalidRequest: no such account.
        """
        name = validation.name_of("account", name)
        return self._database.read(lambda connection: rows.get_account(connection, name))

    def accounts(self) -> tuple[Account, ...]:
        """All accounts, sorted by name."""

        def work(connection: Connection) -> tuple[Account, ...]:
            return tuple(rows.get_account(connection, name) for name in rows.account_names(connection))

        return self._database.read(work)

    def account_for_table(self, table: str, *, named: Account | None = None) -> Account:
        """The account that pays for a table, which may be given by any spelling of its path or catalog name.

        Args:
            table: the table.
            named: the account that the request names. If no account has the table, the error points to this account
                first, because the people in a table that was moved or copied have a budget already.

        Raises:
            InvalidRequest: the table is not bound, or overlaps with another bound table.
        """
        place = Place.parse(validation.table_identity(table))

        def work(connection: Connection) -> Account:
            owner = rows.owner_of(connection, place.identity)
            if owner is None:
                raise rows.unbound_table(place.identity, named)
            # tables that were bound by an earlier version may overlap
            for bound, other in rows.bound_tables(connection):
                if bound != place and bound.overlaps(place):
                    raise nested_table(place.identity, bound.identity, other)
            return rows.get_account(connection, owner)

        return self._database.read(work)

    def charge(self, id: str) -> Charge:
        """The charge with this id.

        Raises:
            InvalidRequest: no such charge.
        """
        charge_id = validation.name_of("charge", id)
        return self._database.read(lambda connection: rows.get_charge(connection, charge_id))

    def find_charge(self, account: str, release: str) -> Charge | None:
        """The latest charge of a release key, which may be void; None if the key was never charged."""
        account, release = validation.name_of("account", account), validation.name_of("release", release, limit=1000)
        return self._database.read(lambda connection: rows.latest_charge(connection, account, release))

    def history(self, account: str) -> tuple[Charge, ...]:
        """All charges of an account, in the order of their reservation.

        Raises:
            InvalidRequest: no such account.
        """
        name = validation.name_of("account", account)

        def work(connection: Connection) -> tuple[Charge, ...]:
            return rows.charges_of(connection, rows.get_account(connection, name).name)

        return self._database.read(work)

    def spent_by_state(self, account: str) -> dict[str, dict[ChargeState, Budget]]:
        """What the charges in each state but ``void`` have spent in each block that was charged."""
        terms = self.account(account)
        return self._database.read(lambda connection: rows.spent_by_state(connection, terms))

    def overviews(self) -> tuple[AccountOverview, ...]:
        """All accounts, sorted by name, with what they have spent and their burn-down."""
        return self._database.read(lambda connection: overview.overviews(connection, _today()))

    def overview(self, account: str, wanted: ChargeFilter) -> tuple[AccountOverview, tuple[SubBudget, ...], ChargePage]:
        """One account with what it has spent, its burn-down, its sub-budgets, and the charges that match the filter.

        Raises:
            InvalidRequest: no such account.
        """
        name = validation.name_of("account", account)
        return self._database.read(
            lambda connection: (
                *overview.overview(connection, name, _today()),
                overview.charge_page(connection, name, wanted),
            )
        )

    def charges(self, account: str, wanted: ChargeFilter) -> ChargePage:
        """The charges of an account that match the filter, newest first.

        Raises:
            InvalidRequest: no such account.
        """
        name = self.account(account).name
        return self._database.read(lambda connection: overview.charge_page(connection, name, wanted))

    def stream_head(self, charge: str) -> StreamHead:
        """The end of the chain of the stream that a charge pays for."""
        charge_id = validation.name_of("charge", charge)
        return self._database.read(lambda connection: stream_steps.stream_head(connection, charge_id))

    def recorded_steps(self, charge: str) -> tuple[RecordedSteps, ...]:
        """The objects of the stream that a charge pays for, in order."""
        charge_id = validation.name_of("charge", charge)
        return self._database.read(lambda connection: stream_steps.recorded_steps(connection, charge_id))

    def log(self, account: str | None = None) -> tuple[AuditEntry, ...]:
        """The entries of the audit log in order: all of them, or those about one account."""
        account = None if account is None else validation.name_of("account", account)
        return self._database.read(lambda connection: tuple(audit.read_entries(connection, account)))

    def entry(self, seq: int) -> AuditEntry | None:
        """The entry of the audit log with this number; None if it does not exist."""
        return self._database.read(lambda connection: audit.read_entry(connection, int(seq)))

    def head(self) -> Head:
        """The end of the audit log; a copy stored elsewhere shows whether the log was truncated."""
        return self._database.read(audit.read_head)

    def sees_all(self) -> bool:
        """Whether the database shows every account to this role; see ``dp_operators.budget.tables.grants``."""
        return self._database.read(rows.sees_all)

    def verify(self) -> bool:
        """Whether the audit log is intact and everything in the ledger agrees with it.

        Raises:
            InvalidRequest: this role cannot see all accounts.
        """
        return self.verification().ok

    def verification(self) -> Verification:
        """The comparison of the ledger with its audit log, with every difference."""
        return self._database.snapshot(verification.verify)


def _today() -> date:
    return datetime.now(UTC).date()


def _in_order(account: Account, spent: rows.Spent, payer: str) -> dict[str, Budget]:
    """What an account or one of its sub-budgets has spent, by block, in the order of the blocks."""
    mine = {block: total for (paid_by, block), total in sorted(spent.items()) if paid_by == payer}
    by_block = account.blocks is not None and account.unit_stays
    return {block: total for block, total in mine.items() if block != ALL or not by_block}


def _remaining_in(
    account: Account, caps: Mapping[str, Account | SubBudget], spent: rows.Spent, block: str, kind: str
) -> Budget:
    """The room that a block has in the account and, where there is one, in the sub-budget."""
    empty = zero_cost(account.composition)
    return minimum(
        room(limits_of(account.composition, cap.cap, cap.slack), spent.get((payer, block), empty), kind)
        for payer, cap in caps.items()
    )
