"""A stream that is killed at random moments is step for step one release: on both databases, in a folder and in S3."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_operators.releasing import Submission
from spark_jobs.application.streams.report import write_report
from spark_jobs.contract.store.layout import folder_name
from spark_jobs.contract.store.objects import open_store
from tests.support.release_lab import Attempt, Outcome, _end_with
from tests.support.s3_server import AWS, S3, s3_server
from tests.support.stream_lab import KEY, StreamLab, StreamRunner, judge_stream

BUCKET = "/bucket/releases/"
STEPS = 60


@dataclass
class S3StreamLab(StreamLab):
    """A stream in S3; what the bucket has is copied to a folder whenever it is looked at."""

    server: S3 = field(kw_only=True)

    @property
    def root(self) -> Path:
        for name, content in dict(self.server.objects).items():
            path = self.folder / "mirror" / name.removeprefix(BUCKET)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return self.folder / "mirror" / folder_name(KEY)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    fsspec.filesystem("s3").clear_instance_cache()
    with s3_server() as server:
        for name, value in {**AWS, "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        yield server
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.fixture(params=["folder", "s3"])
def lab(request: pytest.FixtureRequest, tmp_path: Path, ledger_url: str) -> StreamLab:
    changes = {"steps": STEPS}
    (tmp_path / "first").mkdir()
    StreamLab(tmp_path / "first").advance(1)  # loads what each attempt would load by itself
    if request.param == "folder":
        return StreamLab(tmp_path, changes, url=ledger_url)
    server = request.getfixturevalue("bucket")
    return S3StreamLab(tmp_path, changes, url=ledger_url, output=f"s3:/{BUCKET}".rstrip("/"), server=server)


@dataclass
class ApartRunner(StreamRunner):
    """Runs the application in a process group of its own, whose number it writes down, so that it can outlive us."""

    note: Path = Path()

    def run(self, submission: Submission, progress: Callable[[str], None]) -> None:
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            self.note.write_text(str(os.getpid()))
            _end_with(lambda: self.application(submission))
        os.waitpid(child, 0)


def kill_at_random(lab: StreamLab, *, kills: int, seed: int) -> dict[str, int]:
    """Advance the stream, a step further after each kill that met somebody; how often each victim was met."""
    chance, note = random.Random(seed), lab.folder / "application"
    met = {"worker": 0, "application": 0, "both": 0}
    longest = 1.0
    while sum(met.values()) < kills:
        hours = 1 + sum(met.values()) * (STEPS - 10) // kills
        note.unlink(missing_ok=True)
        runner = ApartRunner(counts=lab.counts, note=note)
        attempt = Attempt(lambda hours=hours, runner=runner: lab.advance(hours, runner=runner) and None, lab.folder, "")
        began = time.monotonic()
        time.sleep(chance.uniform(0, longest))
        victim = chance.choice(sorted(met))
        hit = victim != "worker" and _end(note)
        if victim == "application":
            outcome = attempt.wait()
        else:
            outcome = attempt.kill()
            hit |= outcome.killed
        met[victim] += hit
        if not outcome.killed and victim == "application" and not hit:
            longest = (longest + time.monotonic() - began) / 2  # nobody was there any more: come earlier
    return met


def _end(note: Path) -> bool:
    """Kill the application whose number was written down, if it is there."""
    with suppress(FileNotFoundError, ValueError, ProcessLookupError):
        os.kill(int(note.read_text()), signal.SIGKILL)
        return True
    return False


def finish(lab: StreamLab) -> None:
    """Advance to the end, in processes of their own: a parent that has used S3 must not fork."""
    outcome = Outcome(killed=True)
    for _ in range(3):
        outcome = Attempt(lambda: lab.advance(STEPS) and None, lab.folder, "").wait()
    assert outcome.error is None
    judge_stream(lab, steps=STEPS)
    tables = [pq.read_table(path).to_pandas() for path in sorted((lab.root / "steps").glob("*.parquet"))]
    noisy = np.concatenate([table["noisy"].to_numpy() for table in tables])
    # each step has its own count: noise at epsilon 1 is beyond 40 with probability 4e-18
    assert np.abs(noisy - lab.counts[:, 0]).max() < 40


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize("kills", [pytest.param(5, marks=pytest.mark.verify), pytest.param(50, marks=pytest.mark.soak)])
def test_a_stream_that_is_killed_at_random_moments_is_one_release(lab: StreamLab, kills: int) -> None:
    met = kill_at_random(lab, kills=kills, seed=kills)
    assert sum(met.values()) == kills
    finish(lab)


@pytest.mark.slow
@pytest.mark.verify
def test_a_stream_in_s3_is_that_of_a_folder(tmp_path: Path, bucket: S3) -> None:
    lab = S3StreamLab(tmp_path, {"steps": STEPS}, output=f"s3:/{BUCKET}".rstrip("/"), server=bucket)
    for hours, steps in ((3, 3), (3, 3), (100, STEPS)):
        assert lab.advance(hours).steps == steps
    judge_stream(lab, steps=STEPS)
    assert write_report(open_store(lab.output), f"{lab.output}/{folder_name(KEY)}")
    assert b"</html>" in bucket.objects[f"{BUCKET}{folder_name(KEY)}/report.html"]
    made = [put.get("if-none-match") for put in bucket.puts]
    assert made.count("*") == len(made) - 2, "all but the report and what it keeps is made by exclusive create"
