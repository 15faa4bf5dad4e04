"""Stores and ledgers that fail at any call."""

from __future__ import annotations

import pytest

from dp_operators.budget import LedgerUnavailable
from dp_operators.releasing import ReleaseFailed, protocol
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.objects import LocalStore, open_store
from tests.support.release_lab import HereRunner, judge, make_request, retried


class Faulty:
    """A store whose n-th call fails: before it did anything, after, or with its answer lost on the way."""

    def __init__(self, store, nth, how):
        self.store, self.left, self.how = store, nth, how

    def _call(self, work, lost):
        self.left -= 1
        if self.left:
            return work()
        if self.how == "before":
            raise TimeoutError("no answer")
        answer = work()
        if self.how == "after":
            raise TimeoutError("no answer")
        return lost(answer)

    def create(self, uri, content):
        # a client that repeats a request whose answer was lost finds its own object
        return self._call(lambda: self.store.create(uri, content), lambda answer: self.store.create(uri, content))

    def read(self, uri):
        return self._call(lambda: self.store.read(uri), lambda answer: answer)

    def names(self, uri):
        return self._call(lambda: list(self.store.names(uri)), lambda answer: answer)

    def first(self, uri):
        return self._call(lambda: self.store.first(uri), lambda answer: answer)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after", "lost"])
def test_store_that_fails_at_any_call_loses_nothing(lab, monkeypatch, how):
    for nth in range(1, 60):
        store = Faulty(LocalStore(), nth, how)
        monkeypatch.setattr(protocol, "open_store", lambda uri, store=store: store)
        key = f"release-{nth}"
        request = make_request(lab.output, budget={"epsilon": "0.1"})
        try:
            published = lab.release(key=key, request=request, runner=HereRunner(store=store))
        except ReleaseFailed:
            assert how != "lost"
            monkeypatch.setattr(protocol, "open_store", open_store)
            published = lab.release(key=key, request=request, runner=HereRunner())
        assert published.uri
        if store.left > 0:
            break
    else:
        raise AssertionError("a release makes fewer calls than this")
    judge(lab)
    assert lab.states() == ["committed"] * nth
    assert nth > 20


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
