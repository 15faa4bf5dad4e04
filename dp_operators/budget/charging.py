"""Charges: how a cost is reserved, and how a reservation ends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dp_operators.budget import validation
from dp_operators.budget.reader import LedgerReader
from dp_operators.budget.transactions import charges, runs, stream_steps
from dp_operators.budget.values import ALL, Charge, ChargeState, RecordedSteps, Run, StreamHead
from spark_jobs.contract.privacy import Neighbours, PrivacyUnit


class ChargingLedger(LedgerReader):
    """The methods of ``PrivacyLedger`` for roles that may charge accounts."""

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
        """Reserve the cost of a release, before any noise is drawn; a reserved cost counts as spent.

        Repeating the call with the same key, request, cost and blocks returns the same charge, whatever its state is.
        If that charge is void, and so can never have a draw, a new charge is created under the same key instead.

        Args:
            account: the account's name.
            release: the release key.
            epsilon: the whole cost, as an exact decimal; a ``zcdp`` account counts rho = epsilon^2/2.
            delta: 0 unless the account is ``approximate``.
            rho: the cost of a Gaussian mechanism to a ``zcdp`` account, in place of ``epsilon``.
            blocks: the blocks that are read; a block exists from its first charge. ``2026-01..2026-03`` is a range of
                blocks by time, both ends included.
            events: the planned mechanism events, as plain JSON values; see ``dp_operators.budget.mechanism_events``.
            request_sha256: hash of the request that is paid for.
            allotment: the name of a sub-budget that must also have room for the cost.
            neighbours: the release's neighbour relation, which must be the account's; None takes the account's.
            unit: the release's privacy unit, which must be the account's; None takes the account's.
            tables: the tables that are read, which must all be bound to the account.
            actor: who requests the charge.

        Raises:
            BudgetExceeded: the cost does not fit into what a block has left.
            ChargeConflict: the key is charged for another request, cost or blocks.
            InvalidRequest: no such account or block, or a table, relation or unit that is not the account's.
        """
        order = charges.Order(
            account=validation.name_of("account", account),
            release=validation.name_of("release", release, limit=1000),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            blocks=validation.block_names(blocks),
            allotment=validation.optional_name("allotment", allotment, limit=200),
            events=tuple(json.loads(validation.plain_list("events", events))),
            request_sha256=validation.optional_name("request_sha256", request_sha256),
            neighbours=None if neighbours is None else validation.relation(neighbours),
            unit=None if unit is None else validation.privacy_unit(unit),
            tables=validation.table_identities(tables),
            actor=validation.optional_name("actor", actor),
        )
        return self._database.change(lambda connection: charges.reserve(connection, order))

    def commit(
        self,
        id: str,
        manifest_sha256: str | None = None,
        *,
        events: Iterable[Any] | None = None,
        figures: Iterable[Any] | None = None,
        actor: str = "",
    ) -> Charge:
        """End a reservation as committed: its cost is spent on one manifest, which may now be published.

        Args:
            id: the charge's id.
            manifest_sha256: the hash of the manifest.
            events: the mechanism events of the draw; None if they are unknown.
            figures: the headline figures of the manifest, as ``HeadlineFigure.to_dict`` returns them; None if they are
                unknown. A repeated call keeps the figures of the first call.
            actor: who requests it.

        Raises:
            ChargeConflict: the charge is burnt, void, or committed with another manifest; or its draw is not recorded.
            InvalidRequest: no such charge.
        """
        manifest = validation.optional_name("manifest_sha256", manifest_sha256) or None
        return self._end_reservation(
            id, ChargeState.COMMITTED, manifest=manifest, events=events, figures=figures, actor=actor
        )

    def burn(self, id: str, *, events: Iterable[Any] | None = None, actor: str = "", reason: str = "") -> Charge:
        """End a reservation as burnt: its cost is spent, and its draw is never published.

        ``events`` are the mechanism events of the draw, as for ``commit``.

        Raises:
            ChargeConflict: the charge is committed or void.
            InvalidRequest: no such charge.
        """
        return self._end_reservation(id, ChargeState.BURNT, events=events, actor=actor, reason=reason)

    def void(self, id: str, *, actor: str = "", reason: str = "") -> Charge:
        """End a reservation as void: its cost is given back, because no row was read for it.

        Raises:
            ChargeConflict: the charge is committed or burnt; or rows may have been read for it: a draw is recorded, or
                an application was started and has not stated that it read no row. Such a charge can only be burnt.
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
        rho: Any = None,
        blocks: Iterable[str] = (ALL,),
        allotment: str | None = None,
        request_sha256: str,
        actor: str,
        reason: str,
    ) -> Charge:
        """Enter a charge that a restored ledger lacks, with its old id, even while the ledger is frozen.

        The charge gets a new secret, so its old draft can no longer be opened. The charge can be committed by
        ``restore_commit`` or burnt, but never given back.

        Args:
            account: the account's name.
            id: the charge's id.
            release: the release key.
            epsilon: the epsilon of the whole cost.
            delta: the delta of the whole cost.
            rho: the rho of the whole cost, if the cost was counted in rho; ``epsilon`` is then 0.
            blocks: the blocks that were read.
            allotment: the name of the sub-budget that was charged with the account.
            request_sha256: hash of the request that was paid for.
            actor: who requests it.
            reason: where the evidence of the charge was found.

        Raises:
            BudgetExceeded: the charge does not fit, because the cap is lower than it was when the charge was made.
            ChargeConflict: the key is charged for another request, cost or blocks.
            InvalidRequest: no such account, sub-budget or block.
        """
        order = charges.Order(
            account=validation.name_of("account", account),
            release=validation.name_of("release", release, limit=1000),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            blocks=validation.block_names(blocks),
            allotment=validation.optional_name("allotment", allotment, limit=200),
            request_sha256=validation.optional_name("request_sha256", request_sha256),
            actor=validation.name_of("actor", actor, limit=500),
            restored=validation.name_of("charge", id),
            reason=validation.name_of("reason", reason, limit=500),
        )
        return self._database.change(lambda connection: charges.reserve(connection, order))

    def restore_commit(
        self,
        id: str,
        manifest_sha256: str,
        *,
        events: Iterable[Any] | None = None,
        figures: Iterable[Any] | None = None,
        actor: str,
        reason: str,
    ) -> Charge:
        """Commit a charge whose release is published, even while the ledger is frozen; see ``commit``.

        Raises:
            ChargeConflict: the charge is burnt, void, or committed with another manifest.
            InvalidRequest: no such charge.
        """
        return self._end_reservation(
            id,
            ChargeState.COMMITTED,
            manifest=manifest_sha256,
            events=events,
            figures=figures,
            actor=actor,
            reason=reason,
            while_frozen=True,
        )

    def start_run(self, id: str, *, actor: str = "") -> Run:
        """Log that an application is about to be started for a charge; to be called before it is started.

        Raises:
            ChargeConflict: the charge is burnt or void.
            InvalidRequest: no such charge.
        """
        charge_id, who = validation.name_of("charge", id), validation.optional_name("actor", actor)
        return self._database.change(lambda connection: runs.start_run(connection, charge_id, actor=who))

    def end_run(self, id: str, number: int, *, actor: str = "") -> Charge:
        """Log that a run read no row, which the run's authenticated statement says; repeating the call changes nothing.

        Raises:
            ChargeConflict: the charge is committed, burnt or void.
            InvalidRequest: no such charge, or no such run of it.
        """
        charge_id, who = validation.name_of("charge", id), validation.optional_name("actor", actor)
        return self._database.change(lambda connection: runs.end_run(connection, charge_id, int(number), actor=who))

    def record_draw(self, id: str, draw_sha256: str, *, actor: str = "") -> Charge:
        """Log the hash of a charge's draw before the draw can be read; repeating the call changes nothing.

        Raises:
            ChargeConflict: another draw is recorded, or the charge ended without one.
            InvalidRequest: no such charge, or not a hash.
        """
        charge_id, who = validation.name_of("charge", id), validation.optional_name("actor", actor)
        digest = validation.sha256_of("draw_sha256", draw_sha256)
        return self._database.change(lambda connection: runs.record_draw(connection, charge_id, digest, actor=who))

    def record_steps(
        self,
        id: str,
        *,
        first: int,
        steps: int,
        object_sha256: str,
        previous_sha256: str,
        restored: bool = False,
        actor: str = "",
        reason: str = "",
    ) -> StreamHead:
        """Log the object with the next steps of a stream before they are published; repeating the call changes nothing.

        Args:
            id: the id of the charge that pays for the stream.
            first: the number of the object's first step.
            steps: how many steps the object has.
            object_sha256: hash of the object.
            previous_sha256: hash of the object before; 64 zeros for the first.
            restored: whether a restored ledger lacks this object; the object may then be entered even while the ledger
                is frozen.
            actor: who requests it.
            reason: where the evidence was found, if it is restored.

        Raises:
            ChargeConflict: another object is recorded for these steps, the steps do not follow the last recorded ones,
                or the charge is burnt or void.
            InvalidRequest: there is no such charge, or a hash is not valid.
        """
        recorded = RecordedSteps(
            charge=validation.name_of("charge", id),
            first=int(first),
            steps=int(steps),
            object_sha256=validation.sha256_of("object_sha256", object_sha256),
            previous_sha256=validation.sha256_of("previous_sha256", previous_sha256),
        )
        who, why = validation.optional_name("actor", actor), validation.optional_name("reason", reason)
        return self._database.change(
            lambda connection: stream_steps.record_steps(connection, recorded, restored=restored, actor=who, reason=why)
        )

    def run_key(self, id: str) -> bytes:
        """The secret of a charge's runs, which only roles that may charge its account can read.

        Raises:
            InvalidRequest: no such charge, or the database does not show the secret to this role.
        """
        charge_id = validation.name_of("charge", id)
        return self._database.read(lambda connection: runs.run_key(connection, charge_id))

    def renew(self, id: str) -> Charge:
        """Record a heartbeat: the reservation is still in use. Returns the charge; one that has ended is not changed.

        Raises:
            InvalidRequest: no such charge.
        """
        charge_id = validation.name_of("charge", id)
        return self._database.change(lambda connection: charges.renew(connection, charge_id))

    def _end_reservation(
        self,
        charge_id: str,
        state: ChargeState,
        *,
        manifest: str | None = None,
        events: Iterable[Any] | None = None,
        figures: Iterable[Any] | None = None,
        actor: str = "",
        reason: str = "",
        while_frozen: bool = False,
    ) -> Charge:
        charge_id = validation.name_of("charge", charge_id)
        actor, reason = validation.optional_name("actor", actor), validation.optional_name("reason", reason)
        drawn_events = None if events is None else tuple(json.loads(validation.plain_list("events", events)))
        recorded = None if figures is None else tuple(json.loads(validation.plain_list("figures", figures)))
        return self._database.change(
            lambda connection: charges.end_reservation(
                connection,
                charge_id,
                state,
                manifest_sha256=manifest,
                events=drawn_events,
                figures=recorded,
                actor=actor,
                reason=reason,
                while_frozen=while_frozen,
            )
        )
