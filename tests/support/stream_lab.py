"""A laboratory for streams: attempts at the due steps, with counts of the test's own, and a court."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from dp_operators.budget import Charge, ChargeState, PrivacyLedger
from dp_operators.releasing import ChargedRequest, Submission
from dp_operators.releasing.stream_attempts import AdvancedStream
from dp_operators.releasing.streams import advance_stream
from spark_jobs.application.progress import Announcer
from spark_jobs.application.streams.chain import ObjectChain, Position, StreamTask
from spark_jobs.application.streams.counting import Counted
from spark_jobs.application.streams.run import run_stream
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.failpoints import VARIABLE
from spark_jobs.contract.store.layout import folder_name
from spark_jobs.contract.store.objects import LocalStore, ObjectStore, open_store
from spark_jobs.contract.store.run_statement import FollowedElsewhere, NothingRead, OvertakenError
from spark_jobs.contract.store.sealing import Seal
from spark_jobs.contract.store.stream_objects import StreamLayout
from spark_jobs.contract.stream_keys import StreamKeys
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.mechanisms.noise import Noise, SecureNoise
from tests.support.accounts import GROWING, bound
from tests.support.backends import EndedBackend
from tests.support.ledgers import new_ledger
from tests.support.release_lab import Attempt, _end_with

KEY = "prod/wards/stream/count/-1"
TABLE = "file:///lake/visits"
KEYS = StreamKeys(keys={"k1": b"1" * 32})


def lab_request(output: str, **changes: Any) -> StreamRequest:
    fields: dict[str, Any] = {
        "account": "people",
        "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
        "time": "at",
        "start": "2026-01-01T00:00:00Z",
        "step": "1 hour",
        "steps": 48,
        "budget": {"epsilon": "1"},
        "output": output,
    }
    return StreamRequest.parse({**fields, **changes})


@dataclass
class StreamRunner(EndedBackend):
    """Runs the application of a stream in this process, or in a fork that a failpoint kills.

    Attributes:
        counts: counts of all steps and states.
        keys, noise: of the application.
        failpoint: where the application dies; it then runs in a fork.
        before: called before each run.
        runs: the runs so far, as the steps that they were to release.
    """

    counts: Int64Array
    keys: StreamKeys = KEYS
    noise: Noise = field(default_factory=SecureNoise)
    failpoint: str = ""
    before: Callable[[], None] = lambda: None
    salt: bytes = b"a salt of many bytes"
    runs: list[tuple[int, int]] = field(default_factory=list)

    def run(self, submission: Submission, progress: Callable[[str], None]) -> None:
        self.before()
        assert submission.stream is not None
        self.runs.append((submission.stream.first, submission.stream.until))
        if not self.failpoint:
            self.application(submission)
            return
        child = os.fork()
        if child == 0:
            os.environ[VARIABLE] = self.failpoint
            _end_with(lambda: self.application(submission))
        os.waitpid(child, 0)

    def application(self, submission: Submission) -> int:
        """What ``python -m spark_jobs`` does with these arguments."""
        assert submission.stream is not None
        store = open_store(submission.output)
        request = StreamRequest.from_json(store.read(submission.request_uri) or b"")
        seal = Seal(secret=submission.secret, charge_id=submission.charge_id, request_sha256=submission.request_sha256)
        task = StreamTask(key=submission.key, seal=seal, **vars(submission.stream))
        announcer = Announcer(io.StringIO(), None)
        try:
            with redirect_stderr(io.StringIO()):
                chain = ObjectChain.open(
                    request, task, output=submission.output, store=store, keys=self.keys, noise=self.noise,
                    salt=lambda: self.salt,
                )  # fmt: skip
                self.release(chain, announcer)
        except Exception as error:
            refused = error if isinstance(error, InvalidRequest) else None
            layout = StreamLayout.of(submission.output, submission.key, submission.charge_id)
            statement = NothingRead.of(submission.run, refused).to_json()
            if isinstance(error, OvertakenError):
                statement = FollowedElsewhere(run=submission.run).to_json()
            sealed = seal.close(f"run-{submission.run}.json", statement)
            store.create(layout.release.statement(submission.run), sealed)
        return 0

    def release(self, chain: ObjectChain, announcer: Announcer) -> None:
        """What the application does with the chain of objects."""
        run_stream(chain, count=self.count, announcer=announcer)

    def count(self, chain: ObjectChain, position: Position, until: int, announcer: Announcer) -> Counted:
        """The exact counts of the steps from the chain's end to ``until``."""
        return Counted(cells=self.counts[position.next : until], use=position.state.use)


@dataclass
class StreamLab:
    """A ledger with one account, an output folder, and attempts at one stream."""

    folder: Path
    changes: dict[str, Any] = field(default_factory=dict)
    url: str = ""
    output: str = ""
    facts: dict[str, Any] = field(default_factory=lambda: dict(GROWING))

    def __post_init__(self) -> None:
        self.url = self.url or f"sqlite:///{self.folder}/ledger.db"
        self.output = self.output or f"{self.folder}/releases"
        self.request = lab_request(self.output, **self.changes)
        shape = (self.request.steps, len(self.request.leaf_names))
        self.counts = np.random.default_rng(3).poisson(20, size=shape).astype(np.int64)
        if self.url.startswith("sqlite"):
            new_ledger(Path(self.url.removeprefix("sqlite:///")))
        ledger = PrivacyLedger(self.url)
        ledger.open_account(
            "people",
            epsilon="3",
            tables=[bound(TABLE, **self.facts)],
            outputs=[self.output],
            unit=self.request.unit,
            neighbours=self.request.neighbours,
            actor="admin",
        )
        ledger.close()

    def ledger(self) -> PrivacyLedger:
        return PrivacyLedger(self.url)

    def runner(self, **changes: Any) -> StreamRunner:
        return StreamRunner(**{"counts": self.counts, **changes})

    def advance(self, hours: float, *, runner: Any = None, **changes: Any) -> AdvancedStream:
        """An attempt in this process, ``hours`` after the stream began."""
        ledger = self.ledger()
        try:
            return advance_stream(
                ChargedRequest.of(changes.pop("request", self.request), ledger, changes.pop("key", KEY)),
                runner=runner or self.runner(),
                until=self.request.first_instant + timedelta(hours=hours),
                actor="tester",
                **changes,
            )
        finally:
            ledger.close()

    def attempt(self, failpoint: str, hours: float, *, app_failpoint: str = "") -> Attempt:
        """An attempt in a process of its own, which dies at ``failpoint``; or its application does."""
        runner = self.runner(failpoint=app_failpoint)
        return Attempt(lambda: self.advance(hours, runner=runner) and None, self.folder, failpoint)

    @property
    def root(self) -> Path:
        return Path(self.output) / folder_name(KEY)

    def charge(self) -> Charge:
        ledger = self.ledger()
        try:
            return ledger.history("people")[-1]
        finally:
            ledger.close()

    def segments(self) -> list[Path]:
        """The encrypted objects, in order."""
        return sorted((self.root / "_draft" / self.charge().id / "steps").iterdir())

    def published(self) -> list[dict[str, Any]]:
        """The published segments' manifests, in order."""
        return [json.loads(path.read_bytes()) for path in sorted((self.root / "steps").glob("*.json"))]

    def snapshot(self) -> dict[str, bytes]:
        """All published objects."""
        names = [name for name in LocalStore().names(str(self.root)) if not name.startswith("_draft")]
        return {name: (self.root / name).read_bytes() for name in names}


def judge_stream(lab: StreamLab, *, steps: int, store: ObjectStore | None = None) -> None:
    """Each step is released once, from the object that the ledger recorded for it, and was paid for once."""
    import pyarrow.parquet as pq

    ledger = lab.ledger()
    try:
        assert ledger.verification().findings == ()
        charges = [charge for charge in ledger.history("people") if charge.state is not ChargeState.VOID]
        assert len(charges) == 1, "one charge pays for the stream"
        recorded = ledger.recorded_steps(charges[0].id)
        assert ledger.remaining("people").epsilon == 3 - charges[0].cost.epsilon
    finally:
        ledger.close()
    assert charges[0].state is (ChargeState.COMMITTED if steps else charges[0].state)
    manifests = lab.published()
    assert [(entry["first"], entry["steps"]) for entry in manifests] == [(one.first, one.steps) for one in recorded]
    assert [entry["previous_sha256"] for entry in manifests] == [one.previous_sha256 for one in recorded]
    place = 0
    for entry, one in zip(manifests, recorded, strict=True):
        assert entry["first"] == place, "no step is left out or released twice"
        place += entry["steps"]
        content = (lab.root / "_draft" / charges[0].id / "steps" / f"{one.first:012d}").read_bytes()
        assert hashlib.sha256(content).hexdigest() == one.object_sha256
        files = {file["name"].rpartition(".")[2]: file for file in entry["files"]}
        data = {suffix: (lab.root / file["name"]).read_bytes() for suffix, file in files.items()}
        assert all(hashlib.sha256(data[suffix]).hexdigest() == files[suffix]["sha256"] for suffix in ("parquet", "csv"))
        table = pq.read_table(io.BytesIO(data["parquet"]))
        assert data["csv"].count(b"\n") == table.num_rows + 1
        assert sorted(set(table["step"].to_pylist())) == list(range(entry["first"], place))
    assert place == steps
