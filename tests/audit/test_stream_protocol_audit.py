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
from dp_operators.releasing.stream_attempts import StreamAttempt
from spark_jobs.application.streams.chain import ObjectChain
from spark_jobs.application.streams.state import OpenCounts
from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.store.objects import LocalStore, local_path
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault
from tests.support.arrivals import FollowLab, Row
from tests.support.noises import Recording
from tests.support.stream_lab import StreamLab

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)
PLAIN, FOLLOWED = "a stream by its protocol", "a stream that is followed"
FAILPOINTS = ("dp_operators.releasing.stream_attempts.failpoint", "spark_jobs.application.streams.chain.failpoint")


class Killed(BaseException):
    """The process died here."""


class Trusted(Recording):
    """Recorded noise that the committer takes for private, so that it releases what is drawn with it."""

    guarantee = PRIVATE


def draw_repeated_steps_anew(monkeypatch):
    """Neither store nor application nor ledger remembers that a step was drawn."""
    create, followed, adopt = LocalStore.create, ObjectChain.followed, StreamAttempt._adopt
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

    def follow_own(self, position):
        # what was there before this run is not adopted
        if began and position.next in began:
            return followed(self, position)
        began.append(position.next)
        return position

    def adopt_own(self, charge, layout, seal, head):
        return adopt(self, charge, layout, seal, head) if began else head

    monkeypatch.setattr(LocalStore, "create", overwrite)
    monkeypatch.setattr(ObjectChain, "followed", follow_own)
    monkeypatch.setattr(StreamAttempt, "_require_not_behind", begin)
    monkeypatch.setattr(StreamAttempt, "_adopt", adopt_own)
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


def forget_batches(monkeypatch):
    """An object does not say which micro-batch it contains, so that a repeated one is counted again."""
    remember = OpenCounts.of

    def forget(counts, *, source, batch, read):
        return remember(counts, source=source, batch=batch - 1, read="")

    monkeypatch.setattr(OpenCounts, "of", forget)


def play_followed(rows, noise, relation):
    """Runs of one stream that is followed, killed and repeated; the noisy counts that were ever readable, once each."""
    readable = set()
    states = {"column": "region", "keys": list("abcdefgh")}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        lab = FollowLab(Path(folder), {"neighbours": relation.value, "states": states}, rows=rows)
        for point, passes in (("after_store_steps", 1), ("before_store_steps", 1), ("after_record_steps", 0), ("", 0)):
            left = [passes]

            def die(name, point=point, left=left):
                left[0] -= name == point
                if left[0] < 0:
                    raise Killed

            for place in FAILPOINTS:
                patched.setattr(place, die)
            with suppress(Killed, ReleaseError):
                lab.follow(runner=lab.follow_runner(noise=noise))
            for path in lab.root.glob("steps/*.parquet"):
                readable.add(tuple(pq.read_table(io.BytesIO(path.read_bytes()))["noisy"].to_pylist()))
    return readable


def tables(mechanism, relation):
    """What is played, and two neighbouring tables."""
    if mechanism == FOLLOWED:
        rows = [Row(step, step % 3, step + 0.3) for step in range(6)]
        # a row that is early: its count stays open for more than one tick
        before = [Row(1, 1, 0.2)] if relation is REPLACED else []
        return play_followed, [*rows, *before], [*rows, Row(2, 1, 1.2)]
    counts = np.array([4, 0, 2, 9, 1, 5])
    return play, counts, counts + np.array([0, 0, 1, 0 if relation is ADDED else -1, 0, 0])


class TestStreamProtocol(ExactAudit):
    """The loss of all counts that any run ever made readable: those of one draw of each step."""

    mechanisms = (PLAIN, FOLLOWED)
    claimed, at_least = EPSILON, 0.99
    kept, verified = "first", True
    faults = {
        "repeated steps drawn anew": Fault(patch=draw_repeated_steps_anew, mechanisms={PLAIN}),
        "repeated micro-batches counted again": Fault(patch=forget_batches, mechanisms={FOLLOWED}),
    }

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        played, table, neighbour = tables(mechanism, relation)
        first = Trusted()
        readable = played(table, first, relation)
        second = Trusted(answers=first.given)
        assert played(neighbour, second, relation) == readable
        return sum(
            (
                one.epsilon * int(np.abs(one.values - two.values).sum()) / one.l1_sensitivity
                for one, two, answer in zip(first.asked, second.asked, first.given, strict=True)
                if tuple(answer.tolist()) in readable
            ),
            Fraction(0),
        )
