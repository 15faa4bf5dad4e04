"""A stream that is followed counts each row once, closes steps by the clock, and shows the store nothing else."""

from __future__ import annotations

import io
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dp_operators.budget import LedgerUnavailable
from dp_operators.budget.values import StreamHead
from dp_operators.releasing import ReleaseError, ReleaseFailed
from dp_operators.releasing.stream_attempts import Watch
from spark_jobs.application.streams.source_log import SourceLog
from spark_jobs.application.streams.state import OpenCounts
from spark_jobs.arrays import Int64Array
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.store.stream_objects import StreamSegment
from spark_jobs.contract.stream_request import StreamRequest
from tests.support.arrivals import FollowLab, LoggedBatches, Row
from tests.support.noises import Still
from tests.support.stream_lab import judge_stream

ROWS = [
    *(Row(step, 0, step + 0.2 + part / 10) for step in range(6) for part in range(step + 1)),
    *(Row(step, 0, step + 1.4) for step in range(6)),  # late, and in time
    *(Row(step, 0, step + 1.6) for step in range(6)),  # too late
]


class Trusted(Still):
    """No noise, which the committer takes for private noise: what is released is what was counted."""

    guarantee = PRIVATE


class Killed(BaseException):
    """The process died here."""


@pytest.fixture
def lab(tmp_path: Path) -> FollowLab:
    return FollowLab(tmp_path, rows=ROWS)


def released(lab: FollowLab) -> list[int]:
    files = sorted((lab.root / "steps").glob("*.parquet"))
    return [count for path in files for count in pq.read_table(io.BytesIO(path.read_bytes()))["noisy"].to_pylist()]


def sizes(lab: FollowLab) -> list[tuple[str, int]]:
    return [(path.name, path.stat().st_size) for path in lab.segments()]


def test_each_step_has_the_rows_that_arrive_before_the_clock_closes_it(lab: FollowLab) -> None:
    seen: list[int] = []
    followed = lab.follow(
        runner=lab.follow_runner(noise=Trusted()), published=lambda uri: seen.append(len(released(lab)))
    )
    assert (followed.steps, followed.released, followed.finished) == (6, 6, True)
    assert released(lab) == lab.expected()[:, 0].tolist() == [2, 3, 4, 5, 6, 7]
    assert seen == [1, 2, 3, 4, 5, 6]
    judge_stream(lab, steps=6)


def test_steps_are_recorded_whenever_the_application_reports() -> None:
    """A ledger that cannot be reached delays them until the next report."""
    heads = iter([StreamHead(steps=1), LedgerUnavailable("ledger.db", "locked"), StreamHead(steps=2)])

    def adopt(head: StreamHead) -> StreamHead:
        head = next(heads)
        if isinstance(head, LedgerUnavailable):
            raise head
        return head

    said: list[str] = []
    watch = Watch(adopt=adopt, head=StreamHead())
    report = watch.after(said.append)
    known = []
    for line in ("counting", "writing", "waiting"):
        report(line)
        known.append(watch.head.steps)
    assert known == [1, 1, 2]
    assert said == ["counting", "writing", "the next steps are not recorded yet (LedgerUnavailable)", "waiting"]


def test_the_store_shows_the_same_whatever_rows_arrive(tmp_path: Path) -> None:
    shown = []
    for name, rows in (("none", []), ("few", ROWS[3:5]), ("many", ROWS * 5)):
        (tmp_path / name).mkdir()
        lab = FollowLab(tmp_path / name, rows=rows)
        lab.follow(until=2.5)
        lab.clock.time += 3 * (lab.request.step_length)  # the stream stands still
        lab.follow()
        shown.append(sizes(lab))
    assert shown[0] == shown[1] == shown[2]
    assert [name for name, _ in shown[0]] == [f"{step:012d}" for step in (0, 1, 2, 3, 5)]


@pytest.mark.verify
def test_a_stream_that_stood_still_goes_on_with_what_arrived_meanwhile(lab: FollowLab) -> None:
    lab.follow(until=2.5, runner=lab.follow_runner(noise=Trusted()))
    lab.clock.time += 3 * lab.request.step_length
    lab.follow(runner=lab.follow_runner(noise=Trusted()))
    assert released(lab) == [2, 3, 4 + 1, 5 + 1, 6, 7], "rows that came too late for steps that were closed late count"
    judge_stream(lab, steps=6)


POINTS = ("before_draw", "after_draw", "before_store_steps", "after_store_steps", "after_record_steps")


DEATHS = [
    pytest.param(point, passes, marks=[] if (point, passes) == ("after_store_steps", 2) else [pytest.mark.verify])
    for point in POINTS
    for passes in (0, 2)
]


@pytest.mark.parametrize(("point", "passes"), DEATHS)
def test_a_run_that_dies_anywhere_counts_each_row_once(
    lab: FollowLab, monkeypatch: pytest.MonkeyPatch, point: str, passes: int
) -> None:
    left = passes

    def die(name: str) -> None:
        nonlocal left
        left -= name == point
        if left < 0:
            raise Killed

    for module in ("dp_operators.releasing.stream_attempts", "spark_jobs.application.streams.chain"):
        monkeypatch.setattr(f"{module}.failpoint", die)
    with pytest.raises(Killed):
        lab.follow(runner=lab.follow_runner(noise=Trusted()))
    monkeypatch.undo()
    lab.follow(runner=lab.follow_runner(noise=Trusted()))
    assert released(lab) == lab.expected()[:, 0].tolist()
    assert len(lab.segments()) == 6
    judge_stream(lab, steps=6)


@pytest.mark.verify
def test_rows_that_are_counted_again_are_found(lab: FollowLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: an object forgets which micro-batch it contains, so that the next tick counts it again."""
    remember = OpenCounts.of

    def forget(counts: Int64Array, *, source: str, batch: int, read: str) -> OpenCounts:
        return remember(counts, source=source, batch=batch - 1, read="")

    monkeypatch.setattr(OpenCounts, "of", forget)
    lab.rows = [Row(1, 0, 0.5), *lab.rows]
    lab.follow(runner=lab.follow_runner(noise=Trusted()))
    assert released(lab) != lab.expected()[:, 0].tolist()


def _forget(lab: FollowLab) -> None:
    shutil.rmtree(lab.checkpoints)


def _roll_back(lab: FollowLab) -> None:
    [folder] = lab.checkpoints.iterdir()
    for name in ("offsets", "commits"):
        for path in sorted((folder / name).iterdir())[1:]:
            path.unlink()


def _tear(lab: FollowLab) -> None:
    """A copy that was made while the query ran: its list of files is older than its list of micro-batches."""
    [folder] = lab.checkpoints.iterdir()
    max((folder / "sources" / "0").iterdir(), key=lambda path: int(path.name)).unlink()


@pytest.mark.parametrize("lose", [_roll_back, _tear, pytest.param(_forget, marks=[pytest.mark.verify])])
def test_a_checkpoint_that_was_lost_or_rolled_back_is_refused_in_one_line(lab: FollowLab, lose: Any) -> None:
    lab.follow(until=3.5)
    lose(lab)
    before = sizes(lab)
    with pytest.raises(
        InvalidRequest, match="checkpoint: got .* must be the checkpoint with which this stream is followed"
    ):
        lab.follow()
    assert sizes(lab) == before


@pytest.mark.verify
def test_batches_that_do_not_follow_the_counted_ones_end_the_run(
    lab: FollowLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.follow(until=3.5)
    _roll_back(lab)
    monkeypatch.setattr("spark_jobs.application.streams.follow._require_checkpoint", lambda *given: None)
    before = sizes(lab)
    with pytest.raises(ReleaseFailed):
        lab.follow()
    assert sizes(lab) == before


def _died(lab: FollowLab, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with this checkpoint that dies when it has planned and counted a micro-batch."""

    def die(name: str) -> None:
        if name == "before_draw":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("spark_jobs.application.streams.chain.failpoint", die)
        with pytest.raises(Killed):
            lab.follow(checkpoint=str(checkpoint))


def test_a_copy_that_planned_other_files_for_the_same_micro_batch_is_refused(
    lab: FollowLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a row of the copy's later micro-batch, which the other has counted, would count a second time."""
    runner = lab.follow_runner(noise=Trusted())
    lab.follow(until=2.5, runner=runner)
    copy = lab.folder / "copy"
    shutil.copytree(lab.checkpoints, copy)
    _died(lab, copy, monkeypatch)  # plans what had arrived by then
    lab.clock.time += lab.request.step_length / 4
    lab.follow(until=4.5, runner=runner)
    before = sizes(lab)
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="must be the checkpoint with which this stream is followed"):
            lab.follow(runner=lab.follow_runner(noise=Trusted()), checkpoint=str(copy))
    assert sizes(lab) == before
    lab.follow(runner=runner)
    counted = released(lab)
    assert sum(counted) <= len(ROWS)
    judge_stream(lab, steps=6)


@pytest.mark.verify
def test_a_copy_whose_history_is_not_compared_counts_a_row_twice(
    lab: FollowLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: a copy goes on by the number of the micro-batch alone."""
    monkeypatch.setattr(SourceLog, "history", lambda log, batch: "")
    lab.rows = [*(Row(step, 0, step + 0.5) for step in range(6)), Row(4, 0, 3.6)]
    lab.follow(until=2.5, runner=lab.follow_runner(noise=Trusted()))
    copy = lab.folder / "copy"
    shutil.copytree(lab.checkpoints, copy)
    _died(lab, copy, monkeypatch)  # its next micro-batch lacks the row that is early
    lab.clock.time += lab.request.step_length / 4
    lab.follow(until=3.5, runner=lab.follow_runner(noise=Trusted()))
    lab.follow(runner=lab.follow_runner(noise=Trusted()), checkpoint=str(copy))
    assert released(lab)[4] == 3, "two rows were there"


@pytest.mark.parametrize("alike", [True, False])
def test_of_two_live_copies_one_ends_with_one_line(
    lab: FollowLab, monkeypatch: pytest.MonkeyPatch, alike: bool
) -> None:
    lab.follow(until=2.5, runner=lab.follow_runner(noise=Trusted()))
    copy, raced = lab.folder / "copy", []
    shutil.copytree(lab.checkpoints, copy)

    def race(name: str) -> None:
        if name == "before_store_steps" and not raced:
            raced.append(name)
            lab.clock.time += (not alike) * lab.request.step_length / 4
            lab.follow(until=3.5, runner=lab.follow_runner(noise=Trusted()), checkpoint=str(copy))

    monkeypatch.setattr("spark_jobs.application.streams.chain.failpoint", race)
    with pytest.raises(
        InvalidRequest, match="must be the only checkpoint that follows this stream, but another"
    ) as ended:
        lab.follow(runner=lab.follow_runner(noise=Trusted()))
    assert "\n" not in str(ended.value)
    lab.follow(runner=lab.follow_runner(noise=Trusted()), checkpoint=str(copy))
    late = not alike  # the clock closed a step a little later, with one row more
    assert sum(released(lab)) == sum(lab.expected()[:, 0]) + late
    judge_stream(lab, steps=6)


def test_files_that_change_while_they_are_counted_make_no_object(lab: FollowLab) -> None:
    states = iter(["as planned", "longer"])

    class Changing(LoggedBatches):
        @property
        def present(self) -> str:  # type: ignore[override]
            return next(states)

        @present.setter
        def present(self, value: str) -> None:
            del value

    runner = lab.follow_runner(noise=Trusted())
    runner.batches = Changing
    with pytest.raises(ReleaseFailed):
        lab.follow(until=1.5, runner=runner)
    assert not list(lab.root.glob("_draft/*/steps/*"))
    lab.follow(runner=lab.follow_runner(noise=Trusted()))
    assert released(lab) == lab.expected()[:, 0].tolist()


def test_an_object_of_an_earlier_version_goes_on_without_a_history(
    lab: FollowLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember = OpenCounts.of
    with monkeypatch.context() as patched:
        patched.setattr(OpenCounts, "of", lambda counts, **kept: remember(counts, **{**kept, "read": ""}))
        lab.follow(until=2.5, runner=lab.follow_runner(noise=Trusted()))
    lab.follow(runner=lab.follow_runner(noise=Trusted()))
    assert released(lab) == lab.expected()[:, 0].tolist()


def test_the_other_way_to_release_is_refused_in_one_line(lab: FollowLab) -> None:
    with pytest.raises(InvalidRequest, match="follow: must be left out of a stream whose steps are counted from"):
        lab.advance(3)
    plain = StreamRequest.parse({name: value for name, value in lab.request.to_dict().items() if name != "follow"})
    with pytest.raises(InvalidRequest, match="follow: is required for a stream that is followed"):
        lab.follow(request=plain)
    lab.folder = Path(lab.output)
    with pytest.raises(InvalidRequest, match="checkpoint: got .* must lie outside the folder of releases"):
        lab.follow()


@pytest.mark.verify
def test_open_counts_are_in_the_encrypted_state_alone(tmp_path: Path) -> None:
    lab = FollowLab(tmp_path, {"budget": {"epsilon": "0.01"}}, rows=[Row(2, 0, 0.5)] * 123_457)
    lab.follow(until=1.5)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"123457" not in path.read_bytes()
    segment = StreamSegment.parse(lab.segments()[-1].read_bytes(), key="")
    assert segment.place.steps == 1


@pytest.mark.verify
@pytest.mark.parametrize("point", ["after_store_steps", "before_draw"])
def test_real_kills_leave_one_stream(lab: FollowLab, point: str) -> None:
    for passes in (0, 1):
        with suppress(ReleaseError):
            lab.follow(runner=lab.follow_runner(failpoint=f"{point}:after:{passes}", noise=Trusted()))
    lab.follow(runner=lab.follow_runner(noise=Trusted()))
    assert released(lab) == lab.expected()[:, 0].tolist()
    judge_stream(lab, steps=6)
