"""The draw and the draft of a charge in an untrusted store: opened, recorded in the ledger, and checked against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_operators.budget import ChargeConflict
from dp_operators.releasing.drafts import Draft, read_draft
from dp_operators.releasing.draws import OpenedDraw
from dp_operators.releasing.errors import ReleaseClosed, ReleaseDamaged, ReleaseRejected
from dp_operators.releasing.reservations import end_reservation
from spark_jobs.contract.release import PRIVATE, Release
from spark_jobs.contract.store.draft_folder import DraftFolder
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ReleaseLayout
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.sealing import Seal, SealBroken, open_whole

if TYPE_CHECKING:
    from dp_operators.budget import Charge, PrivacyLedger


@dataclass(frozen=True, kw_only=True)
class SealedDrafts:
    """The sealed draw and draft that attempts at one charge left in the store.

    Attributes:
        store, layout: the store, and the names of the objects in it.
        seal: the charge's seal.
        charge: the charge as it was when the attempt began.
        ledger: records the one draw that counts.
        actor: who requests it, for the audit log.
    """

    store: ObjectStore
    layout: ReleaseLayout
    seal: Seal
    charge: Charge
    ledger: PrivacyLedger
    actor: str

    def recorded_draw(self) -> OpenedDraw | None:
        """Record the hash of the draw in the store in the ledger, and return the draw; None if neither has a draw.

        Raises:
            ReleaseClosed: the recorded draw is missing or was replaced; the reservation is ended then.
            OSError: the store failed.
            LedgerUnavailable: the ledger cannot be reached; try again.
        """
        known = self.charge.draw_sha256 is not None
        try:
            draw = self._draw(must=known)
            if draw is None:
                if known:
                    raise self._lost(gone=True)
                return None
            failpoint("before_record_draw")
            self.ledger.record_draw(self.charge.id, draw.sha256, actor=self.actor)
        except (SealBroken, ChargeConflict):
            raise self._lost(gone=False) from None
        failpoint("after_record_draw")
        return draw

    def committed_draw(self) -> OpenedDraw:
        """The draw of a committed charge, for which noise is never drawn again.

        Raises:
            ReleaseDamaged: the draw is missing or was replaced.
            OSError: the store failed.
        """
        try:
            draw = self._draw(must=True)
        except SealBroken:
            raise ReleaseDamaged(f"{self.layout.draw} is not the draw that the ledger recorded") from None
        if draw is None:
            raise ReleaseDamaged(f"{self.layout.draw} is gone; without it, the committed release cannot be made again")
        if draw.sha256 != self.charge.draw_sha256:
            raise ReleaseDamaged(f"{self.layout.draw} is not the draw that the ledger recorded")
        return draw

    def _draw(self, *, must: bool) -> OpenedDraw | None:
        return open_whole(
            lambda: self.store.read(self.layout.draw), lambda sealed: OpenedDraw.of(sealed, self.seal), must=must
        )

    def draft_of(self, draw: OpenedDraw) -> Draft | None:
        """The draft that was made from ``draw``; None as long as its manifest or a file is missing.

        Raises:
            ReleaseDamaged: see ``read_draft``.
            OSError: the store failed.
        """
        folder = DraftFolder(store=self.store, layout=self.layout, seal=self.seal, draw_sha256=draw.sha256)
        return read_draft(folder)

    def _lost(self, *, gone: bool) -> ReleaseClosed:
        draw = f"the draw of charge {self.charge.id}"
        why = f"{draw} is gone" if gone else f"{self.layout.draw} is not {draw}"
        try:
            ended = end_reservation(
                self.store, self.layout, self.charge, self.ledger, actor=self.actor, reason=f"{draw} is lost"
            )
        except ChargeConflict:
            return closed_elsewhere(self.charge)
        return ReleaseClosed(
            f"{why}, so the charge is {ended.state.value} and nothing is published for it; "
            "request it again under another key"
        )


def require_paid(release: Release, draw: OpenedDraw, charge: Charge) -> None:
    """Refuse a draft that its charge does not pay for.

    Raises:
        ReleaseRejected: the charge does not pay for the draft; the message lists what differs.
    """
    facts = {
        "its charge": release.charge_id == charge.id and release.status == "CHARGED",
        "its key": release.key == charge.release,
        "its request": release.request_sha256 == charge.request_sha256,
        "its relation": release.neighbours is charge.neighbours,
        "its unit": release.unit == charge.unit,
        "its cost, which exceeds the reservation": release.cost.is_within(charge.cost),
        "its noise, which is not private": release.guarantee == PRIVATE,
    }
    wrong = [*(name for name, holds in facts.items() if not holds), *draw.mismatches(charge)]
    if wrong:
        raise ReleaseRejected(f"the draft is not what charge {charge.id} pays for: {'; '.join(wrong)}")


def closed_elsewhere(charge: Charge) -> ReleaseClosed:
    """The error of an attempt whose charge another process closed first."""
    return ReleaseClosed(
        f"charge {charge.id} was closed by another process while this attempt ran; nothing was published"
    )
