"""A laboratory for the release protocol: attempts in processes of their own that can be killed and put to sleep, and a
court that looks at the ledger and the store afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from dp_operators.budget import Charge, ChargeConflict, ChargeState, PrivacyLedger
from dp_operators.releasing import ChargedRequest, Published, ReleaseError, Submission, give_back, release
from spark_jobs.contract import InvalidRequest, Release, ReleaseRequest
from spark_jobs.contract.store.failpoints import PROTOCOL_POINTS, VARIABLE
from spark_jobs.contract.store.layout import folder_name
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.store.sealing import Seal
from tests.support import fake_application
from tests.support.accounts import bound, open_bound
from tests.support.backends import EndedBackend
from tests.support.ledgers import new_ledger

PATIENCE = 60.0
KEY = "prod/dag/2026-11-21/release/-1"
TABLE = "file:///lake/visits"


def make_request(output: str, **changes: Any) -> ReleaseRequest:
    fields: dict[str, Any] = {
        "account": "people",
        "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
        "label": "visit",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
        "diagnostics": ["roc_curve"],
        "budget": {"epsilon": "1"},
        "output": output,
    }
    return ReleaseRequest.parse({**fields, **changes})


def accept(release: Release, read: Callable[[str], bytes | None]) -> None:
    """A release contract that every draft of the fake application meets."""
    assert release.results
    assert all(read(file.name) is not None for file in release.files)


class ForkRunner(EndedBackend):
    """Runs the fake application in a fork of this process."""

    def __init__(self, behaviour: str = "", failpoint: str = "", ended: Path | None = None) -> None:
        self.behaviour = behaviour
        self.failpoint = failpoint
        self.ended = ended
        self.runs = 0

    def run(self, submission: Submission, progress: Callable[[str], None]) -> None:
        self.runs += 1
        child = os.fork()
        if child == 0:
            _end_with(lambda: self._application(submission))
        os.waitpid(child, 0)

    def _application(self, submission: Submission) -> int:
        if self.failpoint:
            os.environ[VARIABLE] = self.failpoint
        try:
            return fake_application.run(
                submission,
                store=open_store(submission.output),
                behaviour=self.behaviour,
            )
        finally:
            if self.ended is not None:
                self.ended.touch()


class HereRunner(ForkRunner):
    """Runs the fake application in this very process, with a store of the test's."""

    def __init__(self, behaviour: str = "", store: ObjectStore | None = None) -> None:
        super().__init__(behaviour)
        self.store = store

    def run(self, submission: Submission, progress: Callable[[str], None]) -> None:
        self.runs += 1
        fake_application.run(
            submission,
            store=self.store or open_store(submission.output),
            behaviour=self.behaviour,
        )


class NoRunner(ForkRunner):
    """Runs nothing: where everything is there already."""

    def run(self, submission: Submission, progress: Callable[[str], None]) -> None:
        raise AssertionError("nothing had to be run")


def _end_with(work: Callable[[], int]) -> None:
    status = 99
    try:
        status = work()
    finally:
        os._exit(status)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended: what it published, what it raised, or neither if it was killed."""

    killed: bool = False
    published: Published | None = None
    error: Exception | None = None


class Attempt:
    """One attempt in a process group of its own."""

    def __init__(self, work: Callable[[], Any], folder: Path, failpoint: str) -> None:
        self._report = folder / f"outcome-{time.monotonic_ns()}"
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgid(0, 0)
            _end_with(lambda: self._work(work, failpoint))

    def _work(self, work: Callable[[], Any], failpoint: str) -> int:
        os.environ.pop(VARIABLE, None)
        if failpoint:
            os.environ[VARIABLE] = failpoint
        try:
            outcome = Outcome(published=work())
        except Exception as error:
            outcome = Outcome(error=error)
        refused = type(outcome.error) in (InvalidRequest, ChargeConflict)
        self._report.write_bytes(pickle.dumps((type(outcome.error), outcome.error.to_dict()) if refused else outcome))
        return 0

    def wait(self) -> Outcome:
        deadline = time.monotonic() + PATIENCE
        while True:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                os.killpg(self.pid, signal.SIGKILL)
                raise TimeoutError("an attempt hangs")
            time.sleep(0.002)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            return Outcome(killed=True)
        outcome = pickle.loads(self._report.read_bytes())
        return outcome if isinstance(outcome, Outcome) else Outcome(error=outcome[0].from_dict(outcome[1]))

    def kill(self) -> Outcome:
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.002)


@cache
def _new_ledger(cap: str) -> bytes:
    """A SQLite ledger with one account."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = new_ledger(Path(folder) / "ledger.db")
        ledger.open_account("people", epsilon=cap, tables=[bound(TABLE)], actor="admin")
        ledger.close()
        return (Path(folder) / "ledger.db").read_bytes()


@dataclass
class Lab:
    """A ledger with one account, an output folder, and attempts at one release."""

    folder: Path
    cap: str = "10"
    key: str = KEY
    request: ReleaseRequest = field(init=False)
    url: str = field(init=False)
    output: str = field(init=False)

    def __post_init__(self) -> None:
        self.url = f"sqlite:///{self.folder}/ledger.db"
        self.output = f"{self.folder}/releases"
        self.request = make_request(self.output)
        (self.folder / "ledger.db").write_bytes(_new_ledger(self.cap))
        ledger = self.ledger()
        ledger.bind_outputs("people", [self.output], actor="admin", reason="made for this test")
        ledger.close()

    def ledger(self) -> PrivacyLedger:
        return PrivacyLedger(self.url)

    def reopen(self, **terms: Any) -> None:
        """Begin with another ledger, whose account "people" has these terms."""
        place = self.folder / "ledger.db"
        place.unlink()
        ledger = new_ledger(place)
        ledger.open_account("people", tables=[bound(TABLE)], outputs=[self.output], actor="admin", **terms)
        ledger.close()

    def open_account(self, name: str, table: str, **settings: Any) -> str:
        """Open another account; where its releases go, for no two accounts have one folder."""
        output = f"{self.folder}/releases-of-{name}"
        ledger = self.ledger()
        open_bound(ledger, name, table=table, output=output, **{"epsilon": 1, **settings})
        ledger.close()
        return output

    def release(self, *, runner: Any = None, check: Any = accept, **changes: Any) -> Published:
        """An attempt in this process."""
        ledger = self.ledger()
        try:
            request = changes.pop("request", self.request)
            charged = ChargedRequest.of(request, changes.pop("ledger", ledger), changes.pop("key", self.key))
            return release(charged, **{"runner": runner or ForkRunner(), "check": check, "actor": "tester", **changes})
        finally:
            ledger.close()

    def attempt(
        self,
        failpoint: str = "",
        *,
        behaviour: str = "",
        app_failpoint: str = "",
        ended: Path | None = None,
        **changes: Any,
    ) -> Attempt:
        """An attempt in a process of its own, which dies or sleeps at ``failpoint``; or its application does."""
        runner = ForkRunner(behaviour, app_failpoint, ended)
        return Attempt(lambda: self.release(runner=runner, **changes), self.folder, failpoint)

    def give_back(self, failpoint: str = "") -> Attempt:
        """Giving the reservation back, in a process of its own."""
        return Attempt(
            lambda: give_back(ChargedRequest.of(self.request, self.ledger(), self.key), reason="tests") and None,
            self.folder,
            failpoint,
        )

    def asleep_at(self, failpoint: str, **changes: Any) -> tuple[Attempt, Callable[[], None]]:
        """An attempt that has fallen asleep at ``failpoint``, it or its application, and what wakes it."""
        gate = self.folder / f"gate-{time.monotonic_ns()}"
        place = "failpoint" if failpoint in PROTOCOL_POINTS else "app_failpoint"
        attempt = self.attempt(**{place: f"{failpoint}:pause:{gate}"}, **changes)
        wait_for(gate.with_name(f"{gate.name}.reached"))
        return attempt, gate.touch

    @property
    def root(self) -> Path:
        return Path(self.output) / folder_name(self.key)

    def charges(self) -> tuple[Charge, ...]:
        ledger = self.ledger()
        try:
            return ledger.history("people")
        finally:
            ledger.close()

    def states(self) -> list[str]:
        return [charge.state.value for charge in self.charges()]


def draft_folder(lab: Lab) -> Path:
    """The draft of the last charge."""
    return lab.root / "_draft" / lab.charges()[-1].id


def reserved_with(lab: Lab, behaviour: str = "") -> None:
    """A first attempt that gets as far as its draft, and no further."""

    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    with suppress(Stopped):
        lab.release(check=stop, runner=HereRunner(behaviour))
        raise AssertionError("the attempt was not stopped")


def committed_unseen(lab: Lab) -> None:
    """A release that was committed and whose attempt died before anything was visible."""
    lab.attempt("after_commit").wait()
    assert lab.states() == ["committed"]


def judge(lab: Lab, *, store: ObjectStore | None = None) -> None:
    """The invariants I1 to I4, from nothing but the ledger and the store."""
    store = store or open_store(lab.output)
    ledger = lab.ledger()
    try:
        charges = ledger.history("people")
        remaining = ledger.remaining("people").epsilon
        assert ledger.verify()
    finally:
        ledger.close()
    spent = sum((charge.cost.epsilon for charge in charges if charge.state is not ChargeState.VOID), Decimal(0))
    assert remaining == Decimal(lab.cap) - spent >= 0, "I3, I4: the sums are right and within the cap"
    for charge in charges:
        if charge.state is ChargeState.VOID:
            assert not charge.may_have_drawn, "I4: no row was read for what is void"
        if charge.state is ChargeState.COMMITTED:
            assert charge.draw_sha256, "the ledger knows the draw of what is committed"
    for key in {charge.release for charge in charges}:
        _judge_release(lab, key, [charge for charge in charges if charge.release == key], store)


def opened(lab: Lab, charge: Charge, store: ObjectStore) -> dict[str, Any] | None:
    """What the draw of a charge says to those who have its secret."""
    sealed = store.read(f"{lab.output}/{folder_name(charge.release)}/_draft/{charge.id}/draw.json")
    return None if sealed is None else json.loads(seal_of(lab, charge).open("draw.json", sealed))


def seal_of(lab: Lab, charge: Charge) -> Seal:
    ledger = lab.ledger()
    try:
        return Seal(secret=ledger.run_key(charge.id), charge_id=charge.id, request_sha256=charge.request_sha256)
    finally:
        ledger.close()


def _judge_release(lab: Lab, key: str, charges: list[Charge], store: ObjectStore) -> None:
    root = f"{lab.output}/{folder_name(key)}"
    draws = {charge.id: draw for charge in charges if (draw := opened(lab, charge, store)) is not None}
    for name in store.names(f"{root}/_draft"):
        content = store.read(f"{root}/_draft/{name}") or b""
        for draw in draws.values():
            assert draw["drawn"].encode() not in content, "nothing in a draft is readable"
    visible = store.read(f"{root}/release.json")
    committed = [charge for charge in charges if charge.state is ChargeState.COMMITTED]
    assert len(committed) <= 1
    if visible is None:
        return
    manifest = Release.from_json(visible)
    assert [hashlib.sha256(visible).hexdigest()] == [charge.manifest_sha256 for charge in committed], "I1"
    assert manifest.charge_id == committed[0].id
    assert manifest.cost.epsilon <= committed[0].cost.epsilon
    assert manifest.results["roc_curve"]["noise"] == draws[committed[0].id]["drawn"], "I2: one draw is ever readable"
    for file in manifest.files:
        content = store.read(f"{root}/{file.name}") or b""
        assert hashlib.sha256(content).hexdigest() == file.sha256, "a visible release is whole"


def retried(lab: Lab, attempts: int = 3) -> Published:
    """The release, after as many retries as a scheduler would make; what cannot be retried is raised."""
    for left in reversed(range(attempts)):
        try:
            return lab.release()
        except ReleaseError as error:
            if not error.retryable or not left:
                raise
    raise AssertionError
