"""A stream, from its one reservation to the publication of each step; repeating it always gives the same steps.

The charge is reserved before the first row is read, and pays for every step. Each run then continues where the ledger's
chain of objects ends (``dp_operators.budget.transactions.stream_steps``):

=======================================  =================================================================
what an attempt finds                    what it does
=======================================  =================================================================
no charge, or a void one                 checks the request and reserves
the last recorded steps, not visible     publishes them, from the recorded object
an object after the last recorded one    adopts it: records its hash, and publishes its steps
no object, and steps are due             runs the application, which stores the objects of all due steps
steps that are visible, not recorded     refuses: the ledger is behind its store until it is reconciled
the last recorded object, lost or other  ends with an error: the state is gone, and with it the stream
=======================================  =================================================================

*Each step is drawn once.* The application creates an object exclusively under the number of its first step, and
continues from the object whose hash the ledger has. The ledger records one object for a step, by comparing it with the
chain's head. Only then are its steps published, as the object has them. So it does not matter which of several attempts
drew a step, died, or came late: what is drawn but not recorded is never readable.

*This process sees no state and no exact count.* An object has two parts (``spark_jobs.contract.store.stream_objects``).
The state is encrypted under keys that only the application has; this process only compares the object's hash. The
release is sealed with the charge's secret; this process opens it to publish it, after checking that it belongs to the
charge.

*A stream that is followed* has one long run, which counts rows when they arrive and stores an object whenever the clock
closes a step; each object is recorded and published while the run continues.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from dp_operators.releasing.applications import HERE, Waiting
from dp_operators.releasing.backends import Backend
from dp_operators.releasing.charged_terms import ChargedRequest
from dp_operators.releasing.errors import RESERVED, UNCHARGED, as_release_errors
from dp_operators.releasing.following import Progress
from dp_operators.releasing.requests import require_own_output
from dp_operators.releasing.stream_attempts import AdvancedStream, StreamAttempt
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.store.objects import require_store
from spark_jobs.contract.stream_request import StreamRequest


def advance_stream(
    charged: ChargedRequest[StreamRequest],
    *,
    runner: Backend,
    until: dt.datetime,
    allotment: str | None = None,
    actor: str = "",
    progress: Progress = lambda line: None,
    waiting: Waiting = HERE,
) -> AdvancedStream:
    """Release, in order, every step that has ended by ``until`` and is not released yet; safe to repeat at any time.

    Args:
        charged: the stream; everything in it except the table's snapshot is bound to the key from the first attempt on,
            and every attempt at any of its steps has the same key.
        runner: where the Spark application runs.
        until: an instant with a time zone; steps that end later are not released.
        allotment: a sub-budget of the account that must be able to pay as well.
        actor: who requests it, for the audit log.
        progress: receives public lines.
        waiting: how to wait for the application.

    Raises:
        InvalidRequest: the request, schema or configuration cannot be served (``BudgetExceeded``: the account cannot
            pay; ``ChargeConflict``: the key pays for another request, such as one with other options).
        ReleaseError: see its subclasses; ``retryable`` says whether to try again.
        LedgerUnavailable: the ledger cannot be reached; try again.
    """
    require_mode(charged.request, followed=False)
    require_own_output(charged)
    attempt = StreamAttempt.at(
        charged, runner=runner, allotment=allotment, actor=actor, progress=progress, waiting=waiting
    )
    with as_release_errors(UNCHARGED):
        charge = attempt.charged()
    with as_release_errors(RESERVED):
        return attempt.advance(charge, attempt.request.steps_before(until))


def follow_stream(
    charged: ChargedRequest[StreamRequest],
    *,
    runner: Backend,
    checkpoint: str,
    until: dt.datetime | None = None,
    allotment: str | None = None,
    actor: str = "",
    progress: Progress = lambda line: None,
    published: Callable[[str], object] = lambda uri: None,
) -> AdvancedStream:
    """Release each step when the clock closes it, from the rows that have arrived by then, until the stream ends.

    Safe to repeat at any time, as ``advance_stream`` is. One application runs all the time; each object that it stores
    is recorded and published at once.

    Args:
        charged: the stream, with ``follow``.
        runner: where the Spark application runs.
        checkpoint: URI of the folder for checkpoints, inside the privacy boundary; each stream has a sub-folder of it.
        until: an instant with a time zone; the call returns once the steps that are closed by then are released.
        allotment: a sub-budget of the account that must be able to pay as well.
        actor: who requests it, for the audit log.
        progress: receives public lines.
        published: a function that is called with the URI of the stream's folder when steps were published.

    Raises:
        InvalidRequest: as for ``advance_stream``; or the checkpoint is not the one with which the stream was followed.
        ReleaseError: see its subclasses; ``retryable`` says whether to try again.
        LedgerUnavailable: the ledger cannot be reached; try again.
    """
    request = charged.request
    require_mode(request, followed=True)
    _require_checkpoint_place(checkpoint, charged.output)
    require_own_output(charged)
    attempt = StreamAttempt.at(
        charged, runner=runner, allotment=allotment, actor=actor, progress=progress,
        checkpoint=checkpoint.rstrip("/"), published=published,
    )  # fmt: skip
    with as_release_errors(UNCHARGED):
        charge = attempt.charged()
    with as_release_errors(RESERVED):
        return attempt.advance(charge, request.steps if until is None else request.steps_closed(until))


def require_mode(request: StreamRequest, *, followed: bool) -> None:
    """Refuse a stream whose request is for the other way to release it: by following it, or from its table.

    Raises:
        InvalidRequest: the stream is to be released in the other way.
    """
    if followed and request.follow is None:
        raise InvalidRequest(
            "follow", None, "is required for a stream that is followed",
            "give the time from a step's end until the step is closed, {'delay': '10 minutes'}, or use `dp-budget "
            "stream advance`",
        )  # fmt: skip
    if request.follow is not None and not followed:
        raise InvalidRequest(
            "follow", None, "must be left out of a stream whose steps are counted from the table",
            "leave it out, or use `dp-budget stream follow`",
        )  # fmt: skip


def _require_checkpoint_place(checkpoint: str, output: str) -> None:
    """Refuse a place for checkpoints that cannot be used, or lies where releases lie.

    Raises:
        InvalidRequest: it is one.
    """
    require_store(checkpoint, what="checkpoint")
    place = Place.of_folder(checkpoint, what="checkpoint")
    if place.overlaps(Place.of_folder(output, what="output")):
        raise InvalidRequest(
            "checkpoint", checkpoint, "must lie outside the folder of releases, because it names files and rows",
            "name a folder inside the privacy boundary",
        )  # fmt: skip
