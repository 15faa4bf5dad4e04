"""Stores and ledgers that fail at any call."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from dp_operators.budget import LedgerUnavailable
from dp_operators.releasing import ReleaseClosed, ReleaseDamaged, ReleaseError, ReleaseFailed, charged_terms
from dp_operators.releasing.errors import PAID, RESERVED, UNCHARGED
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store import objects
from spark_jobs.contract.store.objects import LocalStore, local_path, open_store
from spark_jobs.contract.store.sealing import SealBroken
from tests.support.release_lab import HereRunner, judge, make_request, retried


class Faulty:
    """A store whose n-th call fails.

    How: before it did anything, after, with its answer lost on the way; ``short``: what is read comes cut once;
    ``half``: what is created is stored cut, and the call fails.
    """

    def __init__(self, store, nth, how):
        self.store, self.left, self.how = store, nth, how
        self.failed = ""

    def _call(self, name, uri, work, lost, spoilt=None):
        self.left -= 1
        if self.left:
            return work()
        self.failed = f"{name} {uri}"
        if self.how == "before":
            raise TimeoutError("no answer")
        if self.how in ("short", "half"):
            return work() if spoilt is None else spoilt()
        answer = work()
        if self.how == "after":
            raise TimeoutError("no answer")
        return lost(answer)

    def create(self, uri, content):
        def half():
            self.store.create(uri, content[: len(content) // 2])
            raise TimeoutError("no answer")

        # a client that repeats a request whose answer was lost finds its own object
        again = lambda answer: self.store.create(uri, content)  # noqa: E731
        return self._call(
            "create", uri, lambda: self.store.create(uri, content), again, half if self.how == "half" else None
        )

    def read(self, uri, **limit):
        def short():
            content = self.store.read(uri, **limit)
            return content and content[: len(content) // 2]

        cut = short if self.how == "short" else None
        return self._call("read", uri, lambda: self.store.read(uri, **limit), lambda answer: answer, cut)

    def remove(self, uri):
        raise PermissionError("nobody may delete here")

    def names(self, uri):
        return self._call("names", uri, lambda: list(self.store.names(uri)), lambda answer: answer)

    def first(self, uri):
        return self._call("first", uri, lambda: self.store.first(uri), lambda answer: answer)


def through(monkeypatch, opened):
    """Every request for a store of the releases, also that of the checks before a charge, goes through ``opened``."""
    for module in (objects, charged_terms):
        monkeypatch.setattr(module, "open_store", opened)


CUT = (ReleaseFailed, ReleaseDamaged, InvalidRequest, SealBroken)
"""Of a request that comes cut the application says that it is none, and of a draw that it is not its own."""


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after", "lost", "short"])
def test_store_that_fails_at_any_call_loses_nothing(lab, monkeypatch, how):
    """It is never the request's fault, nothing is burnt, and what is said of a reservation is true."""
    said = set()
    for nth in range(1, 80):
        store = Faulty(LocalStore(), nth, how)
        through(monkeypatch, lambda uri, store=store, **_: store)
        key = f"release-{nth}"
        request = make_request(lab.output, budget={"epsilon": "0.1"})
        try:
            published = lab.release(key=key, request=request, runner=HereRunner(store=store))
        except CUT as failed:
            assert how == "short" or isinstance(failed, (ReleaseFailed, ReleaseDamaged)), failed  # noqa: PT017
            charge = lab.ledger().find_charge("people", key)
            said.add((str(failed).partition("; ")[2], None if charge is None else charge.state.value))
            through(monkeypatch, open_store)
            published = lab.release(key=key, request=request, runner=HereRunner())
        assert published.uri
        if store.left > 0:
            break
    else:
        raise AssertionError("a release makes fewer calls than this")
    judge(lab)
    assert lab.states().count("committed") == nth
    assert "burnt" not in lab.states()
    assert nth > 20
    states = {UNCHARGED: None, RESERVED: "reserved", PAID: "committed"}
    known = {(text, state) for text, state in said if text in states}
    assert known == (set(states.items()) if how in ("before", "after") else set())
    # nobody may delete here: one object of the checks stays, however many there were
    assert [path.name for path in Path(lab.output).iterdir() if path.name.startswith(".probe")] == [".probe"]


@pytest.mark.sampled
@pytest.mark.slow
def test_half_stored_object_burns_a_charge_only_if_it_is_the_draw(lab, monkeypatch):
    """All else can be had whole: it is made again, once the half object, which an error names, is removed."""
    burnt, refused = [], []
    for nth in range(1, 80):
        store = Faulty(LocalStore(), nth, "half")
        through(monkeypatch, lambda uri, store=store, **_: store)
        key = f"release-{nth}"
        request = make_request(lab.output, budget={"epsilon": "0.1"})
        try:
            assert lab.release(key=key, request=request, runner=HereRunner(store=store)).uri
        except (ReleaseFailed, ReleaseDamaged):
            through(monkeypatch, open_store)
            try:
                assert lab.release(key=key, request=request, runner=HereRunner()).uri
            except ReleaseClosed:
                burnt.append(store.failed)
            except (ReleaseError, InvalidRequest):
                refused.append(store.failed)
                local_path(store.failed.partition(" ")[2]).unlink()
                assert lab.release(key=key, request=request, runner=HereRunner()).uri, store.failed
        if store.left > 0:
            break
    assert len(burnt) == 1
    assert burnt[0].endswith("/draw.json")
    assert lab.states().count("burnt") == 1
    assert lab.states().count("committed") == nth - 1
    assert {Path(each).name for each in refused} >= {"claim.json", "report.html", "release.json"}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.ETIMEDOUT, errno.EBUSY, errno.ESTALE])
def test_store_that_is_away_before_the_reservation_is_no_bad_request(lab, monkeypatch, code):
    def away(*_):
        raise OSError(code, "away")

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "create", away)
        with pytest.raises(ReleaseFailed, match="has charged nothing, and a retry is safe") as failed:
            lab.release(runner=HereRunner())
        assert failed.value.retryable
    assert lab.states() == []
    assert lab.release(runner=HereRunner()).uri


class FaultyLedger:
    """A ledger whose n-th call fails, before it did anything or after."""

    def __init__(self, ledger, nth, how):
        self._ledger, self.left, self._how = ledger, nth, how

    def __getattr__(self, name):
        method = getattr(self._ledger, name)

        def call(*args, **kwargs):
            self.left -= 1
            if self.left == 0 and self._how == "before":
                raise LedgerUnavailable("sqlite", "locked")
            answer = method(*args, **kwargs)
            if self.left == 0:
                raise LedgerUnavailable("sqlite", "locked")
            return answer

        return call


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["", "refuse"])
@pytest.mark.parametrize("how", ["before", "after"])
def test_ledger_that_fails_at_any_call_loses_nothing(lab, how, behaviour):
    for nth in range(1, 30):
        key = f"release-{nth}"
        request = make_request(lab.output, budget={"epsilon": "0.1"})
        ledger = FaultyLedger(lab.ledger(), nth, how)
        try:
            lab.release(key=key, request=request, ledger=ledger, runner=HereRunner(behaviour))
        except LedgerUnavailable:
            assert lab.release(key=key, request=request, runner=HereRunner()).uri
        except InvalidRequest:
            assert behaviour == "refuse"
        if ledger.left > 0:
            break
    else:
        raise AssertionError("a release makes fewer calls than this")
    judge(lab)
    assert nth > 6
    assert lab.states().count("committed") == (nth if behaviour == "" else nth - 1)


def test_read_only_store_after_the_reservation_fails_and_is_retried(lab, monkeypatch):
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))

    def read_only(*_):
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "create", read_only)
        with pytest.raises(ReleaseFailed, match="OSError"):
            lab.release(runner=HereRunner())
        assert lab.states() == ["reserved"]
    assert retried(lab)
    judge(lab)
