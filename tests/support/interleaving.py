"""Attempts at a release as actors that advance one store or ledger call at a time, in an order that a test chooses.

Each actor is a thread, and only one of them runs at any time. A crash is an exception that nothing catches; what
``finally`` clauses do on the way is more than a killed process does: the laboratory with real processes stays needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from dp_operators.budget import ChargeState
from dp_operators.releasing import ChargedRequest, Submission, give_back, release
from spark_jobs.contract import Release
from spark_jobs.contract.store.sealing import sha256
from tests.support import fake_application
from tests.support.backends import EndedBackend
from tests.support.release_lab import Lab, accept

_current = threading.local()


class Crash(BaseException):
    """What ends an actor that was killed."""


class Actor:
    """A piece of work that stops before and after each call to the outside, until it is told to go on."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._doomed = False
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        _current.actor = self
        self._go.acquire()
        try:
            if not self._doomed:
                self.result = work()
        except BaseException as error:
            self.error = error
        self.done = True
        self._back.release()

    def step(self) -> None:
        if not self.done:
            self._go.release()
            assert self._back.acquire(timeout=60), "an actor hangs"

    def crash(self) -> None:
        self._doomed = True
        self.step()

    def stop(self) -> None:
        """Called by the actor's own work: wait to be told to go on."""
        self._back.release()
        self._go.acquire()
        if self._doomed:
            raise Crash


def stop_here() -> None:
    _current.actor.stop()


class Stepwise:
    """Any object, whose methods stop before and after they do their work."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._wrapped, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            stop_here()
            try:
                return method(*args, **kwargs)
            finally:
                stop_here()

        return call


class MemoryStore:
    """A store in memory, which has a look taken at each manifest that becomes visible."""

    def __init__(self, on_visible: Callable[[str, bytes], None]) -> None:
        self.objects: dict[str, bytes] = {}
        self._on_visible = on_visible

    def create(self, uri: str, content: bytes) -> bool:
        if uri in self.objects:
            return self.objects[uri] == content
        if uri.endswith("/release.json") and "/_draft/" not in uri:
            self._on_visible(uri, content)
        self.objects[uri] = content
        return True

    def read(self, uri: str, *, limit: int | None = None) -> bytes | None:
        content = self.objects.get(uri)
        return content if content is None or limit is None else content[: limit + 1]

    def names(self, uri: str) -> Iterator[str]:
        return iter([name[len(uri) + 1 :] for name in self.objects if name.startswith(f"{uri}/")])

    def first(self, uri: str) -> str | None:
        return min(self.names(uri), default=None)


class Stage:
    """The actors, the one store they share, and a ledger."""

    def __init__(self, lab: Lab, monkeypatch: Any) -> None:
        from dp_operators.releasing import charged_terms, preflight, reservations

        self.lab = lab
        self.ledger = lab.ledger()
        self.store = MemoryStore(self._is_paid_and_whole)
        self.actors: list[Actor] = []
        stepwise = Stepwise(self.store)
        for module in (charged_terms, reservations):
            monkeypatch.setattr(module, "open_store", lambda uri: stepwise)
        monkeypatch.setattr(preflight, "check_store", lambda uri: stepwise)

    def _is_paid_and_whole(self, uri: str, manifest: bytes) -> None:
        committed = [c.manifest_sha256 for c in self.ledger.history("people") if c.state is ChargeState.COMMITTED]
        assert sha256(manifest) in committed, "I1: what becomes visible is committed before"
        for file in Release.from_json(manifest).files:
            content = self.store.read(uri.replace("release.json", file.name))
            assert content is not None, "a release becomes visible with all its files"
            assert sha256(content) == file.sha256

    @property
    def live(self) -> list[Actor]:
        return [actor for actor in self.actors if not actor.done]

    def attempt(self, behaviour: str = "") -> Actor:
        return self._start(
            lambda: release(
                ChargedRequest.of(self.lab.request, Stepwise(self.ledger), self.lab.key),
                runner=_Runner(self, behaviour),
                check=accept,
            )
        )

    def give_back(self) -> Actor:
        return self._start(
            lambda: give_back(ChargedRequest.of(self.lab.request, Stepwise(self.ledger), self.lab.key), reason="tests")
        )

    def _start(self, work: Callable[[], Any]) -> Actor:
        actor = Actor(work)
        self.actors.append(actor)
        return actor

    def application(self, submission: Submission, behaviour: str) -> Actor:
        return self._start(
            lambda: fake_application.run(
                submission,
                store=Stepwise(self.store),
                behaviour=behaviour,
                point=lambda name: None,
            )
        )

    def run_all(self) -> None:
        """Let everyone go on, in turns, until all have ended."""
        while live := self.live:
            for actor in live:
                actor.step()

    def crash_all(self) -> None:
        for actor in self.live:
            actor.crash()

    def close(self) -> None:
        self.crash_all()
        self.ledger.close()


class _Runner(EndedBackend):
    """Starts the application as an actor of its own, which goes on if the operator dies."""

    def __init__(self, stage: Stage, behaviour: str) -> None:
        self._stage = stage
        self._behaviour = behaviour

    def run(self, submission: Submission, progress: Callable[[str], None]) -> None:
        application = self._stage.application(submission, self._behaviour)
        while not application.done:
            stop_here()
