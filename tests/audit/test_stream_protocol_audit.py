"""What a stream reveals by its whole protocol, with kills, repetitions and races: each step once, at one cost."""

import io
import tempfile
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.values import StreamHead
from dp_operators.releasing import ReleaseError
from dp_operators.releasing.streams import _StreamAttempt
from spark_jobs.application.streams import run as application
from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.store.objects import LocalStore, local_path
from tests.suites.audit import ADDED, ExactAudit, Fault
from tests.support.noises import Recording
from tests.support.stream_lab import StreamLab

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)
FAILPOINTS = ("dp_operators.releasing.streams.failpoint", "spark_jobs.application.streams.run.failpoint")


class Killed(BaseException):
    """The process died here."""


class Trusted(Recording):
    """Recorded noise that the committer takes for private, so that it releases what is drawn with it."""

    guarantee = PRIVATE


def draw_repeated_steps_anew(monkeypatch):
    """Neither store nor application nor ledger remembers that a step was drawn."""
    create, followed, adopt = LocalStore.create, application._followed, _StreamAttempt._adopt
    began: list[int] = []

    def overwrite(self, uri, content):
        path = local_path(uri)
        if path.name.startswith(".probe") or not path.exists():
            return create(self, uri, content)
        path.write_bytes(content)
        return True

    def begin(self, layout, charge):
        began.clear()
        return StreamHead()

    def follow_own(position, *rest):
        # what was there before this run is not adopted
        if began and position.next in began:
            return followed(position, *rest)
        began.append(position.next)
        return position

    def adopt_own(self, charge, layout, seal, head):
        return adopt(self, charge, layout, seal, head) if began else head

    monkeypatch.setattr(LocalStore, "create", overwrite)
    monkeypatch.setattr(application, "_followed", follow_own)
    monkeypatch.setattr(_StreamAttempt, "_require_not_behind", begin)
    monkeypatch.setattr(_StreamAttempt, "_adopt", adopt_own)
    for forgotten in ("record_draw", "commit", "record_steps"):
        monkeypatch.setattr(PrivacyLedger, forgotten, lambda *given, **named: None)


def play(counts, noise, relation):
    """Runs of one stream that are killed, repeated and raced; the noisy counts that were ever readable, once each."""
    readable = set()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        lab = StreamLab(Path(folder), {"steps": len(counts), "neighbours": relation.value})
        lab.counts = counts.reshape(-1, 1)

        def advance(hours, *, dies_at="", **changes):
            def die(name):
                if name == dies_at:
                    raise Killed

            for place in FAILPOINTS:
                patched.setattr(place, die)
            with suppress(Killed, ReleaseError):
                lab.advance(hours, runner=lab.runner(noise=noise, **changes))
            for path in lab.root.glob("steps/*.parquet"):
                table = pq.read_table(io.BytesIO(path.read_bytes()))
                readable.add(tuple(table["noisy"].to_pylist()))

        advance(2)
        advance(2)
        advance(4, dies_at="after_store_steps")
        advance(4, dies_at="before_record_steps")
        advance(4, dies_at="after_record_steps")
        advance(4)
        advance(6, before=lambda: advance(6))
        advance(6)
    return readable


class TestStreamProtocol(ExactAudit):
    """The loss of all counts that any run ever made readable: those of one draw of each step."""

    mechanisms = ("a stream by its protocol",)
    claimed, at_least = EPSILON, 0.99
    kept, verified = "first", True
    faults = {"repeated steps drawn anew": Fault(patch=draw_repeated_steps_anew)}

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        counts = np.array([4, 0, 2, 9, 1, 5])
        other = counts + np.array([0, 0, 1, 0 if relation is ADDED else -1, 0, 0])
        first = Trusted()
        readable = play(counts, first, relation)
        second = Trusted(answers=first.given)
        assert play(other, second, relation) == readable
        return sum(
            (
                one.epsilon * int(np.abs(one.values - two.values).sum()) / one.l1_sensitivity
                for one, two, answer in zip(first.asked, second.asked, first.given, strict=True)
                if tuple(answer.tolist()) in readable
            ),
            Fraction(0),
        )
