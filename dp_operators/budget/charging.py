"""What is charged to accounts, and what becomes of each charge."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dp_operators.budget import runs, transactions, validation
from dp_operators.budget.reader import LedgerReader
from dp_operators.budget.values import ALL, Charge, ChargeState, Run
from spark_jobs.contract.privacy import Neighbours, PrivacyUnit


class ChargingLedger(LedgerReader):
    """The part of ``PrivacyLedger`` that those use who may charge accounts."""

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
            blocks: the blocks that are read; they appear when they are first charged. ``2026-01..2026-03`` is those by
                time from the first to the last.
            events: the planned mechanism events, as plain JSON values; see ``dp_operators.budget.mechanism_events``.
            request_sha256: hash of the request that is paid for.
            allotment: an allotment of the account, which has to bear the cost as well.
            neighbours: the release's relation, refused if the account's is another; None is the account's.
            unit: the release's privacy unit, refused if the account's is another; None is the account's.
            tables: tables that are read; refused if the account is not bound to one.
            actor: who asks.

        Raises:
            BudgetExceeded: a block cannot bear the cost.
            ChargeConflict: the key is charged for another request, cost or blocks.
            InvalidRequest: no such account or block, or a bound table, relation or unit that differs.
        """
        order = transactions.Order(
            account=validation.name_of("account", account),
            release=validation.name_of("release", release, limit=1000),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            blocks=validation.block_names(blocks),
            allotment=validation.note("allotment", allotment, limit=200),
            events=tuple(json.loads(validation.event_list(events))),
            request_sha256=validation.note("request_sha256", request_sha256),
            neighbours=None if neighbours is None else validation.relation(neighbours),
            unit=None if unit is None else validation.privacy_unit(unit),
            tables=validation.table_identities(tables),
            actor=validation.note("actor", actor),
        )
        return self._database.change(lambda connection: transactions.reserve(connection, order))

    def commit(
        self, id: str, manifest_sha256: str | None = None, *, events: Iterable[Any] | None = None, actor: str = ""
    ) -> Charge:
        """Spend a reservation on the one manifest that may be published for it.

        Args:
            id: the charge's.
            manifest_sha256: the manifest's hash.
            events: the mechanism events of the draw; None if they are unknown.
            actor: who asks.

        Raises:
            ChargeConflict: the charge is burnt, void, or committed with another manifest; or its draw is not recorded.
            InvalidRequest: no such charge.
        """
        manifest = validation.note("manifest_sha256", manifest_sha256) or None
        return self._end_reservation(id, ChargeState.COMMITTED, manifest=manifest, events=events, actor=actor)

    def burn(self, id: str, *, events: Iterable[Any] | None = None, actor: str = "", reason: str = "") -> Charge:
        """Spend a reservation whose draw exists and will never be published; ``events`` as for ``commit``.

        Raises:
            ChargeConflict: the charge is committed or void.
            InvalidRequest: no such charge.
        """
        return self._end_reservation(id, ChargeState.BURNT, events=events, actor=actor, reason=reason)

    def void(self, id: str, *, actor: str = "", reason: str = "") -> Charge:
        """Give a reservation back: nothing has been read for it.

        Raises:
            ChargeConflict: the charge is committed or burnt; or an application was started for it that has not stated
                that it read no row, or its draw is recorded, and ``burn`` is what is left.
            InvalidRequest: no such charge.
        """
        return self._end_reservation(id, ChargeState.VOID, actor=actor, reason=reason)

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

        Its secret is a new one, so that nothing of its old draft can be opened: it can be committed as it was, by
        ``restore_commit``, or burnt, and never be given back.

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
            InvalidRequest: no such account, allotment or block.
        """
        order = transactions.Order(
            account=validation.name_of("account", account),
            release=validation.name_of("release", release, limit=1000),
            epsilon=epsilon,
            delta=delta,
            rho=None,
            blocks=validation.block_names(blocks),
            allotment=validation.note("allotment", allotment, limit=200),
            events=(),
            request_sha256=validation.note("request_sha256", request_sha256),
            neighbours=None,
            unit=None,
            tables=(),
            actor=validation.name_of("actor", actor, limit=500),
            restored=validation.name_of("charge", id),
            reason=validation.name_of("reason", reason, limit=500),
        )
        return self._database.change(lambda connection: transactions.reserve(connection, order))

    def restore_commit(
        self, id: str, manifest_sha256: str, *, events: Iterable[Any] | None = None, actor: str, reason: str
    ) -> Charge:
        """Commit a charge whose release is visible, even while the ledger is frozen.

        Raises:
            ChargeConflict: the charge is burnt, void, or committed with another manifest.
            InvalidRequest: no such charge.
        """
        return self._end_reservation(
            id,
            ChargeState.COMMITTED,
            manifest=manifest_sha256,
            events=events,
            actor=actor,
            reason=reason,
            while_frozen=True,
        )

    def start_run(self, id: str, *, actor: str = "") -> Run:
        """Enter into the log that an application is about to be started for a charge; to be called before it is.

        Raises:
            ChargeConflict: the charge is burnt or void.
            InvalidRequest: no such charge.
        """
        charge_id, who = validation.name_of("charge", id), validation.note("actor", actor)
        return self._database.change(lambda connection: runs.start_run(connection, charge_id, actor=who))

    def end_run(self, id: str, number: int, *, actor: str = "") -> Charge:
        """Enter into the log that a run read no row, by its own authenticated word; the same again is found entered.

        Raises:
            ChargeConflict: the charge is settled.
            InvalidRequest: no such charge, or no such run of it.
        """
        charge_id, who = validation.name_of("charge", id), validation.note("actor", actor)
        return self._database.change(lambda connection: runs.end_run(connection, charge_id, int(number), actor=who))

    def record_draw(self, id: str, draw_sha256: str, *, actor: str = "") -> Charge:
        """Enter the hash of a charge's one draw, before anybody can read it; the same again is found entered.

        Raises:
            ChargeConflict: another draw is recorded, or the charge is settled without one.
            InvalidRequest: no such charge, or no hash.
        """
        charge_id, who = validation.name_of("charge", id), validation.note("actor", actor)
        digest = validation.sha256_of("draw_sha256", draw_sha256)
        return self._database.change(lambda connection: runs.record_draw(connection, charge_id, digest, actor=who))

    def run_key(self, id: str) -> bytes:
        """The secret of a charge's runs, for those who may charge its account alone.

        Raises:
            InvalidRequest: no such charge, or the database does not show the secret to this role.
        """
        charge_id = validation.name_of("charge", id)
        return self._database.read(lambda connection: runs.run_key(connection, charge_id))

    def renew(self, id: str) -> Charge:
        """Say that a reservation is still worked on; a settled charge stays as it is. The charge, as it now is.

        Raises:
            InvalidRequest: no such charge.
        """
        charge_id = validation.name_of("charge", id)
        return self._database.change(lambda connection: transactions.renew(connection, charge_id))

    def _end_reservation(
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
        charge_id = validation.name_of("charge", charge_id)
        actor, reason = validation.note("actor", actor), validation.note("reason", reason)
        drawn_events = None if events is None else tuple(json.loads(validation.event_list(events)))
        return self._database.change(
            lambda connection: transactions.end_reservation(
                connection,
                charge_id,
                state,
                manifest_sha256=manifest,
                events=drawn_events,
                actor=actor,
                reason=reason,
                while_frozen=while_frozen,
            )
        )
