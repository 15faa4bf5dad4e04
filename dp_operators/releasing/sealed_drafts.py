"""The draw and the draft of a charge, in a store that is not trusted: opened, entered in the ledger, and compared."""

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
from spark_jobs.contract.store.sealing import Seal, SealBroken

if TYPE_CHECKING:
    from dp_operators.budget import Charge, PrivacyLedger


@dataclass(frozen=True, kw_only=True)
class SealedDrafts:
    """What attempts at one charge left in the store.

    Attributes:
        store, layout: where it lies.
        seal: of the charge.
        charge: as the attempt found it.
        ledger: knows the draw that counts.
        actor: who asks, for the audit log.
    """

    store: ObjectStore
    layout: ReleaseLayout
    seal: Seal
    charge: Charge
    ledger: PrivacyLedger
    actor: str

    def recorded_draw(self) -> OpenedDraw | None:
        """The draw in the store, once the ledger knows it by its hash; None where neither has one.

        Raises:
            ReleaseClosed: the draw that the ledger knows is gone, or something else lies in its place; the reservation
                is ended by that.
            OSError: the store failed.
            LedgerUnavailable: the ledger cannot be asked; try again.
        """
        content = self.store.read(self.layout.draw)
        if content is None and self.charge.draw_sha256 is None:
            return None
        failpoint("before_record_draw")
        try:
            draw = OpenedDraw.of(content or b"", self.seal)
            self.ledger.record_draw(self.charge.id, draw.sha256, actor=self.actor)
        except (SealBroken, ChargeConflict):
            raise self._lost(gone=content is None) from None
        failpoint("after_record_draw")
        return draw

    def committed_draw(self) -> OpenedDraw:
        """The draw of a committed charge, which is never drawn again.

        Raises:
            ReleaseDamaged: it is gone, or something else lies in its place.
            OSError: the store failed.
        """
        content = self.store.read(self.layout.draw)
        if content is None:
            raise ReleaseDamaged(f"{self.layout.draw} is gone; what was committed cannot be made without it")
        try:
            draw = OpenedDraw.of(content, self.seal)
        except SealBroken:
            draw = None
        if draw is None or draw.sha256 != self.charge.draw_sha256:
            raise ReleaseDamaged(f"{self.layout.draw} is not the draw that the ledger knows")
        return draw

    def draft_of(self, draw: OpenedDraw) -> Draft | None:
        """The draft that ``draw`` decided; None as long as anything of it is missing.

        Raises:
            ReleaseDamaged: what is there was made from something else.
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
            f"{why}, so the charge is {ended.state.value} and nothing is published for it; ask again under another key"
        )


def require_paid(release: Release, draw: OpenedDraw, charge: Charge) -> None:
    """Refuse a draft that its charge does not pay for.

    Raises:
        ReleaseRejected: it does not; the line says why.
    """
    facts = {
        "its charge": release.charge_id == charge.id and release.status == "CHARGED",
        "its key": release.key == charge.release,
        "its request": release.request_sha256 == charge.request_sha256,
        "its relation": release.neighbours is charge.neighbours,
        "its unit": release.unit == charge.unit,
        "its cost, which exceeds the reservation": release.cost.epsilon <= charge.cost.epsilon
        and release.cost.delta <= charge.cost.delta,
        "its noise, which is not private": release.guarantee == PRIVATE,
    }
    wrong = [*(name for name, holds in facts.items() if not holds), *draw.mismatches(charge)]
    if wrong:
        raise ReleaseRejected(f"the draft is not what charge {charge.id} pays for: {'; '.join(wrong)}")


def closed_elsewhere(charge: Charge) -> ReleaseClosed:
    """What an attempt says that another one was faster than."""
    return ReleaseClosed(f"charge {charge.id} was settled elsewhere while this attempt ran; nothing was published")
