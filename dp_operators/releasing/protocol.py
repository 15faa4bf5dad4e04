"""One release, from the reservation to the receipt; repeating it always gives the same release.

The order of the steps makes this safe. The budget is reserved before any row is read. The noise is drawn once, because
the draw is one object that can be created only once. The ledger records the hash of the manifest that it pays for
before anybody can see that manifest. So an attempt may die at any point, and the next one continues from what it finds:

===============================  =======================================================================
what an attempt finds            what it does
===============================  =======================================================================
no charge, or a void one         checks the request and reserves
reserved, no draw                records a run in the ledger, and runs the application
reserved, a draw                 records its hash in the ledger; runs the application, which adopts the draw
reserved, a complete draft       checks draw and draft, and commits the manifest's hash
reserved, the recorded draw is   burns the charge
missing or was replaced
reserved, a run read no row      records that in the ledger; if the run refused the request, voids the
                                 charge, unless another run may have read a row
committed, not visible           publishes the committed bytes, made again from the draw if they are missing
committed, a file missing        publishes that file again; an altered file is reported as damage
committed, visible               returns at once
burnt                            ends with an error: the budget is spent, and the draw is never published
a charge of the first version    returns a committed release, and burns a reserved one (``first_release``)
===============================  =======================================================================

If a table's bound on the rows of a unit has to be chosen, two releases are made: first the choice, under a key derived
from the table's key, and then the table, whose request holds the chosen bound (``contract.row_choice``). The second
release begins when the first is visible, so all of the above holds for each of them.

The store is not trusted. Every object of a draft is sealed for its charge and its request (``contract.store.sealing``),
so that nobody can read it or add to it before the manifest is committed. The ledger alone decides what counts:

- *At most one draw is ever readable.* A draft is opened only under a draw that the ledger has recorded, the ledger
  records one hash for each charge, and only an opened draft is published. If objects of the store are deleted or
  restored, more draws may be made, but they stay sealed.
- *Nothing is given back after a row was read.* A run is recorded before it starts, and ended only by its own sealed
  statement that it read no row. While a run is open, or once a draw is recorded, the ledger refuses to void the charge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from dp_operators.budget import ChargeConflict, ChargeState, Run
from dp_operators.releasing.applications import HERE, Waiting
from dp_operators.releasing.attempts import GIVE_BACK, ChargedAttempt
from dp_operators.releasing.backends import Backend
from dp_operators.releasing.charged_terms import ChargedRequest
from dp_operators.releasing.drafts import Draft, document, missing_files, publish
from dp_operators.releasing.draws import OpenedDraw
from dp_operators.releasing.errors import (
    PAID,
    RESERVED,
    UNCHARGED,
    ReleaseClosed,
    ReleaseDamaged,
    ReleaseFailed,
    ReleaseRejected,
    as_release_errors,
)
from dp_operators.releasing.first_release import (
    UNFINISHED,
    is_of_first_release,
    read_committed_draft,
)
from dp_operators.releasing.following import Progress
from dp_operators.releasing.preflight import SPENT
from dp_operators.releasing.requests import require_own_output
from dp_operators.releasing.reservations import end_reservation, end_stated_runs, seal_of
from dp_operators.releasing.row_choices import after_choice
from dp_operators.releasing.sealed_drafts import SealedDrafts, closed_elsewhere, require_paid
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.headlines import HeadlineFigure, figures_text, headlines
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import MANIFEST_NAME, MAX_MANIFEST, ReleaseLayout
from spark_jobs.contract.store.sealing import sha256

if TYPE_CHECKING:
    from dp_operators.budget import Charge
    from spark_jobs.contract.left_out import LeftOut

DraftCheck = Callable[[Release, Callable[[str], bytes | None]], None]
"""Checks a draft's manifest and files (read by name) before the commit, and raises the error that ends the attempt."""

_RUNS = 2


@dataclass(frozen=True, kw_only=True)
class Published:
    """A visible release.

    Attributes:
        uri: URI of the release's folder.
        key: the release key.
        cost: the budget that was charged.
        charge_id: the charge that paid.
        manifest_sha256: hash of the manifest, as the ledger committed it.
        adopted: whether the release was visible already, so that this attempt published nothing.
        status: ``ok`` or ``undefined`` for each kind of diagnostic; it depends on noisy values alone.
        results: the results in the committed manifest.
        left_out: what the committed manifest says of the rows that did not count.
    """

    uri: str
    key: str
    cost: Budget
    charge_id: str
    manifest_sha256: str
    adopted: bool
    status: Mapping[str, str]
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: LeftOut | None = None

    @property
    def figures(self) -> tuple[HeadlineFigure, ...]:
        """The headline figures, from the committed manifest alone."""
        return headlines(self.results, self.left_out)

    @property
    def report(self) -> str:
        """URI of the report."""
        return f"{self.uri}/report.html"

    @property
    def warning(self) -> str:
        """A warning of how many rows did not count, and why; empty if they are few."""
        return "" if self.left_out is None else self.left_out.line()

    def line(self, left: str) -> str:
        """One line: headline figures, cost, what is left (the text ``left``), and the place of the report."""
        figures = [text] if (text := figures_text(self.results, self.left_out)) else []
        return ", ".join([*figures, self.cost.amount, left, f"report: {self.report}"])


def release(
    charged: ChargedRequest[ReleaseRequest],
    *,
    runner: Backend,
    check: DraftCheck,
    allotment: str | None = None,
    actor: str = "",
    progress: Progress = lambda line: None,
    waiting: Waiting = HERE,
) -> Published:
    """Make a release, or continue where earlier attempts stopped; safe to repeat and to run concurrently.

    Args:
        charged: what to release; the hash of the request is bound to the key from the first reservation on, and every
            attempt at one release has the same key.
        runner: where the Spark application runs.
        check: checks a draft against the release contract; an error that it raises ends the attempt before the commit.
        allotment: a sub-budget of the account that must be able to pay as well.
        actor: who requests it, for the audit log.
        progress: receives public lines about the stages of the release.
        waiting: how to wait for the application.

    Raises:
        ApplicationRuns: the application runs elsewhere, and ``waiting`` says not to wait here; call again once it has
            ended.
        InvalidRequest: the request, schema or configuration cannot be served (``BudgetExceeded``: the account cannot
            pay; ``ChargeConflict``: the key pays for another request). Nothing is charged or published.
        ReleaseError: see its subclasses; ``retryable`` says whether to try again.
        LedgerUnavailable: the ledger cannot be reached; try again.
    """
    also = partial(
        release, runner=runner, check=check, allotment=allotment, actor=actor, progress=progress, waiting=waiting
    )
    charged = after_choice(charged, also, runner=runner, allotment=allotment)
    require_own_output(charged)
    attempt = _Attempt.at(
        charged, runner=runner, check=check, allotment=allotment, actor=actor, progress=progress, waiting=waiting
    )
    with as_release_errors(UNCHARGED):
        charge = attempt.reserve(MANIFEST_NAME)
    with as_release_errors(PAID if charge.state is ChargeState.COMMITTED else RESERVED):
        layout = ReleaseLayout.of(attempt.output, attempt.key, charge.id)
        if charge.state is ChargeState.COMMITTED:
            return attempt.finish(charge, layout)
        if charge.state is ChargeState.BURNT:
            raise ReleaseClosed(f"release {attempt.key} {SPENT}")
        if is_of_first_release(charge, attempt.request):
            raise attempt.end_unfinished(charge, layout)
        draw, draft = attempt.ensure_draft(charge, layout)
        attempt.commit(charge, draw, draft)
    with as_release_errors(PAID):
        return attempt.publish(charge, layout, draft)


@dataclass(frozen=True, kw_only=True)
class _Attempt(ChargedAttempt[ReleaseRequest]):
    """One attempt at a release."""

    check: DraftCheck

    def ensure_draft(self, charge: Charge, layout: ReleaseLayout) -> tuple[OpenedDraw, Draft]:
        """The draw, recorded in the ledger, and a complete draft made from it that meets the release contract."""
        sealed = self._sealed(charge, layout)
        draw = sealed.recorded_draw()
        if draw is None:
            self.store_request(charge, layout, sealed.seal)
        draft = None if draw is None else sealed.draft_of(draw)
        for _ in range(_RUNS):
            if draw is not None and draft is not None:
                break
            run = self._run(charge, layout, draw)
            draw = sealed.recorded_draw() or self._ended_without_draw(charge, layout, run)
            draft = sealed.draft_of(draw)
        if draw is None or draft is None:
            raise ReleaseFailed(_NO_DRAFT)
        failpoint("before_check")
        require_paid(draft.release, draw, charge)
        self.check(draft.release, draft.files.get)
        failpoint("after_check")
        return draw, draft

    def _sealed(self, charge: Charge, layout: ReleaseLayout) -> SealedDrafts:
        return SealedDrafts(
            store=self.store,
            layout=layout,
            seal=seal_of(charge, self.ledger),
            charge=charge,
            ledger=self.ledger,
            actor=self.actor,
        )

    def commit(self, charge: Charge, draw: OpenedDraw, draft: Draft) -> None:
        """Record in the ledger the one manifest that the charge pays for, what was spent, and what was found."""
        failpoint("before_commit")
        try:
            figures = [one.to_dict() for one in headlines(draft.release.results)]
            self.ledger.commit(charge.id, draft.sha256, events=draw.events(charge), figures=figures, actor=self.actor)
        except ChargeConflict:
            raise closed_elsewhere(charge) from None
        failpoint("after_commit")
        self.progress("committed")

    def finish(self, charge: Charge, layout: ReleaseLayout) -> Published:
        """Make a committed release visible, unless it is already."""
        visible = self.store.read(layout.manifest, limit=MAX_MANIFEST)
        if visible is not None:
            if sha256(visible) != charge.manifest_sha256:
                raise ReleaseDamaged(f"{layout.manifest} is not what the ledger committed")
            if not missing_files(self.store, layout, visible):
                return self._published(charge, layout, visible, Release.from_json(visible), adopted=True)
            self.progress("files of the published release are missing; they are published again")
        if is_of_first_release(charge, self.request):
            return self.publish(charge, layout, read_committed_draft(self.store, layout, charge))
        sealed = self._sealed(charge, layout)
        draw = sealed.committed_draw()
        draft = sealed.draft_of(draw)
        if draft is None:
            self._run(charge, layout, draw)
            draft = sealed.draft_of(draw)
        if draft is None:
            raise ReleaseFailed(_NO_DRAFT)
        if draft.sha256 != charge.manifest_sha256:
            raise ReleaseDamaged(
                f"{layout.draft_manifest} is not what the ledger committed"
                if visible is None
                else f"the files made again for {layout.root} are not those that the ledger committed: other versions "
                "of the programs write them otherwise; prune the release once more, and retry with the versions in "
                f"{layout.manifest}"
            )
        return self.publish(charge, layout, draft)

    def end_unfinished(self, charge: Charge, layout: ReleaseLayout) -> ReleaseClosed:
        """End a reservation of the first version, and return the error that the attempt ends with."""
        why = f"release {self.key} {UNFINISHED}"
        try:
            ended = end_reservation(self.store, layout, charge, self.ledger, actor=self.actor, reason=why)
        except ChargeConflict:
            return closed_elsewhere(charge)
        return ReleaseClosed(f"{why}: charge {charge.id} is {ended.state.value}; request it again under another key")

    def publish(self, charge: Charge, layout: ReleaseLayout, draft: Draft) -> Published:
        """Make a committed draft visible."""
        publish(self.store, layout, draft)
        self.progress(f"published {layout.root}")
        return self._published(charge, layout, draft.manifest, draft.release, adopted=False)

    def _published(
        self, charge: Charge, layout: ReleaseLayout, manifest: bytes, release: Release, *, adopted: bool
    ) -> Published:
        manifest_sha256 = sha256(manifest)
        failpoint("before_receipt")
        if self.store.read(layout.receipt) is None:
            head = self.ledger.head()
            receipt = {
                "format": 1,
                "key": self.key,
                "charge_id": charge.id,
                "manifest_sha256": manifest_sha256,
                "audit_log": {"seq": head.seq, "hash": head.hash},
            }
            self.store.create(layout.receipt, document(receipt))
        failpoint("after_receipt")
        return Published(
            uri=layout.root,
            key=self.key,
            cost=charge.cost,
            charge_id=charge.id,
            manifest_sha256=manifest_sha256,
            adopted=adopted,
            status=release.statuses,
            results=release.results,
            left_out=release.left_out,
        )

    def _run(self, charge: Charge, layout: ReleaseLayout, draw: OpenedDraw | None) -> int:
        """Run the application to its end, as a run that the ledger records before, and return the run's number.

        An earlier attempt's run is taken up if its application may still run.
        """
        applications = self.applications(charge, layout, self._sealed(charge, layout).seal)
        if earlier := applications.open_run(self.ledger.charge(charge.id).open_runs):
            run = Run(number=earlier, key=applications.seal.secret)
            self.progress(f"run {earlier} was submitted before")
        else:
            run = self.start_run(charge)
        submission = Submission(
            request_uri=layout.request,
            request_sha256=charge.request_sha256,
            charge_id=charge.id,
            key=self.key,
            output=self.output,
            run=run.number,
            draw_sha256="" if draw is None else draw.sha256,
            secret=run.key,
        )
        self.run_application(applications, submission)
        return run.number

    def _ended_without_draw(self, charge: Charge, layout: ReleaseLayout, run: int) -> NoReturn:
        """Raise the reason why a run left no draw; a refusal voids the charge unless some run may have read a row."""
        try:
            charge, stated = end_stated_runs(
                self.store, layout, self.ledger.charge(charge.id), self.ledger, actor=self.actor
            )
            refused = next((statement.refused for statement in stated if statement.run == run), None)
            if refused is None:
                raise ReleaseFailed(_NO_DRAFT)
            if charge.may_have_drawn:
                raise ReleaseRejected(f"{refused} (an earlier run may have read rows: {GIVE_BACK})")
            failpoint("before_give_back")
            self.ledger.void(charge.id, actor=self.actor, reason=_REFUSED)
            failpoint("after_give_back")
        except ChargeConflict:
            raise closed_elsewhere(charge) from None
        raise refused


_REFUSED = "the request was refused before a row was read"
_NO_DRAFT = (
    "the application ended without a draft; its output is in its private file. "
    "The reservation stays. A retry helps if a machine or a store had failed; if it ends so again, find the cause there"
)
