"""Compares the published steps of a stream with the ledger, and enters them again into a restored ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_operators.budget.values import STREAM_END, RecordedSteps, StreamHead
from dp_operators.releasing.charged_terms import ChargedRequest
from dp_operators.releasing.errors import as_release_errors
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.release import ReleaseFile
from spark_jobs.contract.store.layout import DRAFT_FOLDER, ReleaseLayout
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.sealing import SealBroken, sha256
from spark_jobs.contract.store.stream_objects import STEPS_FOLDER, StreamLayout, StreamSegment, segment_file
from spark_jobs.contract.stream_request import StreamRequest

if TYPE_CHECKING:
    from dp_operators.budget import Charge, PrivacyLedger


def record_published_steps(
    store: ObjectStore, root: str, charge_id: str, ledger: PrivacyLedger, *, reason: str, actor: str
) -> int:
    """Enter the objects of published steps that the ledger has not recorded; return the number of these steps.

    Objects whose steps are not published need no entry: the next attempt at the stream adopts them.

    Raises:
        InvalidRequest: an object is missing or does not follow the one before, or the ledger has another object in its
            place.
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be reached; call this again.
    """
    layout = StreamLayout(release=ReleaseLayout(root=root, draft=f"{root}/{DRAFT_FOLDER}/{charge_id}"))
    head = began = ledger.stream_head(charge_id)
    while store.read(layout.published(segment_file(head.steps, "json"))) is not None:
        segment = _segment(store, layout, head)
        head = ledger.record_steps(
            charge_id,
            first=segment.place.first,
            steps=segment.place.steps,
            object_sha256=segment.sha256,
            previous_sha256=segment.place.previous,
            restored=True,
            actor=actor,
            reason=reason,
        )
    return head.steps - began.steps


def _segment(store: ObjectStore, layout: StreamLayout, head: StreamHead) -> StreamSegment:
    try:
        segment = StreamSegment.parse(store.read(layout.segment(head.steps)) or b"", key="")
    except SealBroken:
        segment = None
    if segment is None or (segment.place.first, segment.place.previous) != (head.steps, head.sha256):
        raise InvalidRequest(
            "steps", str(head.steps),
            "are published, but the object of these steps is missing, or does not follow the steps before",
            "restore that object from a backup, or end the stream: `dp-budget burn`",
        )  # fmt: skip
    return segment


@dataclass(frozen=True, kw_only=True)
class StreamStatus:
    """How far a stream is, and whether its store agrees with the ledger.

    Attributes:
        uri: URI of the stream's folder.
        state: the state of its charge, and whether the stream was ended.
        steps: the number of recorded steps.
        findings: a line for each difference between the published steps, their objects and the ledger.
    """

    uri: str
    state: str
    steps: int
    findings: tuple[str, ...]


def stream_status(charged: ChargedRequest[StreamRequest]) -> StreamStatus:
    """The state of a stream; nothing is changed.

    Raises:
        InvalidRequest: the ledger has no charge of this key.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    charge, layout = _begun(charged)
    store, ledger = charged.store, charged.ledger
    head = ledger.stream_head(charge.id)
    recorded = [one for one in ledger.recorded_steps(charge.id) if one.object_sha256 != STREAM_END]
    with as_release_errors():
        findings = tuple(line for one in recorded for line in _compared(store, layout, one, ended=head.ended))
    state = f"{charge.state.value}, ended" if head.ended else charge.state.value
    return StreamStatus(uri=layout.root, state=state, steps=head.released, findings=findings)


def end_stream(
    charged: ChargedRequest[StreamRequest], *, reason: str, actor: str = "", remove_state: bool = False
) -> StreamHead:
    """End a stream for good: no further step is released, and its charge stays. Safe to repeat.

    Args:
        charged: the stream.
        reason: written to the audit log; public.
        actor: who requests it, for the audit log.
        remove_state: whether to remove its encrypted objects from the store, once the ledger has recorded the end.

    Raises:
        InvalidRequest: the ledger has no charge of this key, or the stream has released no step, in which case give its
            reservation back instead.
        ChargeConflict: another step was recorded at the same time; call this again.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    charge, layout = _begun(charged)
    store, ledger = charged.store, charged.ledger
    head = ledger.stream_head(charge.id)
    if head.steps == 0:
        raise InvalidRequest(
            "key", charged.key, "must be the key of a stream that has released a step",
            "free its reservation: `dp-budget stream give-back`",
        )  # fmt: skip
    if not head.ended:
        head = ledger.record_steps(
            charge.id,
            first=head.steps,
            steps=1,
            object_sha256=STREAM_END,
            previous_sha256=head.sha256,
            actor=actor,
            reason=reason,
        )
    if remove_state:
        with as_release_errors():
            folder = f"{layout.release.draft}/{STEPS_FOLDER}"
            for name in tuple(store.names(folder)):
                store.remove(f"{folder}/{name}")
    return head


def _begun(charged: ChargedRequest[StreamRequest]) -> tuple[Charge, StreamLayout]:
    charge = charged.charge()
    if charge is None or not charge.counts:
        raise InvalidRequest(
            "key", charged.key, "must be the key of a stream that was charged",
            "give its --key, or begin it: `dp-budget stream advance`",
        )  # fmt: skip
    return charge, StreamLayout.of(charged.output, charged.key, charge.id)


def _compared(store: ObjectStore, layout: StreamLayout, recorded: RecordedSteps, *, ended: bool) -> Iterator[str]:
    which = f"steps {recorded.first} to {recorded.first + recorded.steps - 1}"
    content = store.read(layout.segment(recorded.first))
    # the state of a stream that was ended may be gone
    if (content is None and not ended) or (content is not None and sha256(content) != recorded.object_sha256):
        yield f"{which}: their object {'is missing' if content is None else 'is not the one that was recorded'}"
    manifest = store.read(layout.published(segment_file(recorded.first, "json")))
    if manifest is None:
        yield f"{which}: are not published yet"
        return
    try:
        fields = json.loads(manifest)
        place = (fields["first"], fields["steps"], fields["previous_sha256"])
        files = tuple(ReleaseFile.parse(file) for file in fields["files"])
    except (ValueError, KeyError, TypeError):
        yield f"{which}: their manifest is damaged"
        return
    if place != (recorded.first, recorded.steps, recorded.previous_sha256):
        yield f"{which}: their manifest is that of other steps"
    for file in files:
        data = store.read(layout.published(file.name))
        if data is None or not file.matches(data):
            yield f"{which}: {file.name} {'is missing' if data is None else 'is not what the manifest says'}"
