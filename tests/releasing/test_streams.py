"""A stream's steps are drawn once, recorded before they are published, and continue only from what was recorded."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_operators.budget import ChargeConflict, ChargeState
from dp_operators.releasing import ReleaseDamaged, ReleaseError, ReleaseFailed, reconcile
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.stream_objects import StreamSegment
from spark_jobs.contract.stream_keys import StreamKeys
from tests.support.accounts import COLUMNS, GROWING, bound
from tests.support.stream_lab import KEY, KEYS, TABLE, StreamLab, StreamRunner, judge_stream

OTHER_KEYS = StreamKeys(keys={"k1": b"2" * 32})


@pytest.fixture
def lab(tmp_path: Path) -> StreamLab:
    return StreamLab(tmp_path)


def test_due_steps_are_released_in_order_and_paid_for_once(lab: StreamLab) -> None:
    first = lab.advance(3.5)
    assert (first.first, first.steps, first.released, first.finished) == (0, 3, 3, False)
    assert lab.charge().state is ChargeState.COMMITTED
    second = lab.advance(100)
    assert (second.first, second.steps, second.released, second.finished) == (3, 48, 45, True)
    assert second.uri == str(lab.root)
    judge_stream(lab, steps=48)


def test_repeating_an_attempt_changes_nothing(lab: StreamLab) -> None:
    lab.advance(4)
    before, runner = lab.snapshot(), lab.runner()
    again = lab.advance(4, runner=runner)
    assert (again.released, runner.runs) == (0, [])
    assert lab.advance(2, runner=runner).released == 0
    assert lab.snapshot() == before


@pytest.mark.verify
def test_before_the_first_step_has_ended_only_the_charge_is_made(lab: StreamLab) -> None:
    runner = lab.runner()
    assert lab.advance(0.5, runner=runner).released == 0
    assert runner.runs == []
    judge_stream(lab, steps=0)


@pytest.mark.verify
def test_late_steps_are_released_with_those_that_are_due(lab: StreamLab) -> None:
    runner = lab.runner()
    lab.advance(1, runner=runner)
    lab.advance(10, runner=runner)
    assert runner.runs == [(0, 1), (1, 10)]
    judge_stream(lab, steps=10)


@pytest.mark.verify
def test_each_run_may_read_another_snapshot(lab: StreamLab) -> None:
    lab.advance(2)
    table = {"path": "file:///lake/visits", "snapshot": {"path_version": "v2"}}
    later = type(lab.request).parse({**lab.request.to_dict(), "table": table})
    assert lab.advance(4, request=later).released == 2
    judge_stream(lab, steps=4)


def test_a_stream_goes_on_when_its_account_has_bound_another_column(lab: StreamLab) -> None:
    lab.advance(2)
    grown = bound(TABLE, {**COLUMNS, "added": "int"}, **GROWING)
    lab.ledger().bind_table("people", grown, actor="dpo", reason="the table has grown")
    assert lab.advance(4).released == 2
    with pytest.raises(ChargeConflict, match="is committed for another request"):
        lab.advance(6, request=type(lab.request).parse({**lab.request.to_dict(), "where": "added > 3"}))
    judge_stream(lab, steps=4)


def test_a_table_whose_rows_may_change_has_no_stream(tmp_path: Path) -> None:
    """A request chooses the time's column and the versions: a row with another time in each would count in each."""
    lab = StreamLab(tmp_path, facts={"version_order": "natural"})
    with pytest.raises(
        InvalidRequest, match="table: got 'file:///lake/visits'; must be a table that only gains rows, as a fact that"
    ):
        lab.advance(2)
    assert lab.ledger().history("people") == ()
    lab.ledger().bind_table("people", bound(TABLE, **GROWING), actor="dpo", reason="rows are only added")
    assert lab.advance(2).released == 2


@pytest.mark.sampled
@pytest.mark.parametrize("changes", [{"steps": 49}, {"method": "pegasus"}, {"where": "age > 3"}, {"step": "2 hours"}])
def test_options_changed_midway_are_refused_in_one_line(lab: StreamLab, changes: dict[str, Any]) -> None:
    lab.advance(2)
    changed = type(lab.request).parse({**lab.request.to_dict(), **changes})
    with pytest.raises(ChargeConflict, match="release: got .*; is committed for another request"):
        lab.advance(4, request=changed)
    judge_stream(lab, steps=2)


@pytest.mark.verify
@pytest.mark.parametrize("method", ["local_level", "pegasus"])
def test_states_hierarchies_and_units_go_the_same_way(tmp_path: Path, method: str) -> None:
    parents = {"a": "x", "b": "x", "c": "y", "d": "y", "x": "all wards", "y": "all wards"}
    states = {"column": "region", "keys": ["a", "b", "c", "d"], "parents": parents}
    unit = {"column": "person", "max_rows": 3}
    lab = StreamLab(tmp_path, {"states": states, "method": method, "unit": unit, "capacity": 100})
    for hours in (1, 5, 48):
        lab.advance(hours)
    judge_stream(lab, steps=48)


def test_two_attempts_at_once_release_one_draw(lab: StreamLab) -> None:
    """The second draws while the first has neither stored nor recorded anything, and adopts what the first stored."""
    lab.advance(1)
    inner = lab.runner()
    outer = lab.runner(before=lambda: lab.advance(5, runner=inner) and None)
    assert lab.advance(5, runner=outer).steps == 5
    assert (len(inner.runs), len(outer.runs)) == (1, 1)
    judge_stream(lab, steps=5)


@pytest.mark.verify
def test_a_thousand_steps_take_seconds_and_few_objects(tmp_path: Path) -> None:
    lab = StreamLab(tmp_path, {"steps": 1000})
    began = time.perf_counter()
    assert lab.advance(1000).finished
    assert time.perf_counter() - began < 30
    assert len(lab.segments()) == 1
    judge_stream(lab, steps=1000)


@pytest.mark.verify
def test_more_steps_than_an_object_holds_are_several_objects(lab: StreamLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.application.streams.chain.SEGMENT_CELLS", 10)
    monkeypatch.setattr("dp_operators.releasing.stream_attempts.MAX_CELLS", 25)
    runner = lab.runner()
    assert lab.advance(48, runner=runner).finished
    assert runner.runs == [(0, 25), (25, 48)]
    assert [int(path.name) for path in lab.segments()] == [0, 10, 20, 25, 35, 45]
    judge_stream(lab, steps=48)


class Killed(BaseException):
    """The process died here."""


POINTS = (
    *("after_claim", "after_reserve", "after_anchor", "after_request", "after_start_run", "before_run"),
    *("before_draw", "after_draw", "before_store_steps", "after_store_steps", "after_run"),
    *("before_record_steps", "after_record_steps", "before_publish_steps", "after_publish_steps"),
)
MODULES = (
    *(
        "dp_operators.releasing.attempts",
        "dp_operators.releasing.stream_attempts",
        "dp_operators.releasing.reservations",
    ),
    *("dp_operators.releasing.rollback_guard", "spark_jobs.application.streams.chain"),
)


FIRST_OF_EACH_KIND = ("after_reserve", "after_start_run", "after_store_steps", "after_record_steps")
DEATHS = [
    pytest.param(point, begun, marks=[pytest.mark.verify] if begun or point not in FIRST_OF_EACH_KIND else [])
    for point in POINTS
    for begun in (0, 3)
]


@pytest.mark.slow
@pytest.mark.parametrize(("point", "begun"), DEATHS)
def test_a_stream_that_dies_anywhere_goes_on_with_the_draw_that_it_has(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch, point: str, begun: int
) -> None:
    if begun:
        lab.advance(begun)
    stored: list[bytes] = []

    def die(name: str) -> None:
        if name == point:
            stored.extend(path.read_bytes() for path in lab.root.glob("_draft/*/steps/*"))
            raise Killed

    for module in MODULES:
        monkeypatch.setattr(f"{module}.failpoint", die)
    reached = True
    try:
        lab.advance(6)
        reached = False
    except Killed:
        pass
    assert reached or begun, "every point is on the way of the first steps"
    monkeypatch.undo()
    lab.advance(6)
    judge_stream(lab, steps=6)
    kept = [path.read_bytes() for path in lab.segments()]
    assert all(content in kept for content in stored), "what was stored is never replaced"


# what a hostile or careless owner of the store may do between two runs
def _roll_back(lab: StreamLab) -> None:
    newest = lab.segments()[-1]
    shutil.copy(lab.segments()[-2], newest.with_name("kept"))
    newest.unlink()
    newest.with_name("kept").rename(newest)


def _lose(lab: StreamLab) -> None:
    lab.segments()[-1].unlink()


def _replace(lab: StreamLab) -> None:
    path = lab.segments()[-1]
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.unlink()
    path.write_bytes(bytes(content))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("tamper", "line"),
    [
        (_roll_back, "the state before step 4 is not the one that the ledger recorded, so stream"),
        (_lose, "the state before step 4 is gone from the store, so stream"),
        (_replace, "the state before step 4 is not the one that the ledger recorded, so stream"),
    ],
)
def test_a_state_that_was_rolled_back_lost_or_replaced_ends_the_stream_in_one_line(
    lab: StreamLab, tamper: Any, line: str
) -> None:
    lab.advance(2)
    lab.advance(4)
    before, runner = lab.snapshot(), lab.runner()
    tamper(lab)
    with pytest.raises(ReleaseDamaged) as ended:
        lab.advance(6, runner=runner)
    assert str(ended.value).startswith(line)
    assert "begin a new stream under another key, which costs epsilon 1 again" in str(ended.value)
    assert "\n" not in str(ended.value)
    assert runner.runs == [], "nothing is drawn from it"
    assert lab.snapshot() == before


@pytest.mark.sampled
@pytest.mark.parametrize("source", ["fork", "other stream", "garbage"])
def test_an_object_that_does_not_follow_is_never_published(lab: StreamLab, tmp_path: Path, source: str) -> None:
    """Objects planted where the next one goes: an object of the same stream's fork, of another stream, or nonsense."""
    lab.advance(2)
    place = lab.segments()[-1].with_name(f"{2:012d}")
    if source == "garbage":
        content = b"nonsense"
    elif source == "other stream":
        lab.advance(2, key="other")
        lab.advance(4, key="other")
        ledger = lab.ledger()
        charge = ledger.find_charge("people", "other")
        ledger.close()
        assert charge is not None
        [other] = Path(lab.output).glob(f"*/_draft/{charge.id}/steps/{place.name}")
        content = other.read_bytes()
    else:  # made by a run that continued from another first object
        parsed = StreamSegment.parse(lab.segments()[0].read_bytes(), key=KEY)
        content = parsed.content.replace(b'"first": 0', b'"first": 2')
    place.write_bytes(content)
    before = lab.snapshot()
    with pytest.raises(ReleaseDamaged, match="so stream .* cannot go on"):
        lab.advance(4)
    assert lab.snapshot() == before


def test_a_wrong_key_is_one_line_and_nothing_is_drawn(lab: StreamLab) -> None:
    lab.advance(2)
    with pytest.raises(InvalidRequest, match="state: got 'k1'; must be readable with the key of this name"):
        lab.advance(4, runner=lab.runner(keys=OTHER_KEYS))
    with pytest.raises(InvalidRequest, match="got 'k1'; must include the key that encrypted the stream's state"):
        lab.advance(4, runner=lab.runner(keys=StreamKeys(keys={"k9": b"2" * 32})))
    assert lab.advance(4).steps == 4
    judge_stream(lab, steps=4)


@pytest.mark.verify
def test_keys_rotate_without_a_stop(lab: StreamLab) -> None:
    lab.advance(2)
    both = StreamKeys(keys={"k2": b"2" * 32, **KEYS.keys})
    lab.advance(4, runner=lab.runner(keys=both))
    lab.advance(6, runner=lab.runner(keys=StreamKeys(keys={"k2": b"2" * 32})))
    judge_stream(lab, steps=6)


def test_a_ledger_behind_its_store_refuses_until_it_is_reconciled(lab: StreamLab, tmp_path: Path) -> None:
    lab.advance(2)
    backup = (tmp_path / "ledger.db").read_bytes()
    lab.advance(4)
    lab.advance(6)
    before = lab.snapshot()
    (tmp_path / "ledger.db").write_bytes(backup)
    runner = lab.runner()
    with pytest.raises(ReleaseDamaged, match="steps from 2 on of .* is behind its store; run `dp-budget recon"):
        lab.advance(8, runner=runner)
    assert runner.runs == []
    ledger = lab.ledger()
    result = reconcile(lab.output, ledger, actor="admin")
    assert (result.steps, result.findings) == (4, ())
    assert reconcile(lab.output, ledger, actor="admin").steps == 0
    ledger.close()
    assert lab.advance(8).first == 6
    assert before.items() <= lab.snapshot().items()
    judge_stream(lab, steps=8)


@pytest.mark.verify
def test_a_ledger_that_lost_the_whole_stream_gets_it_back(lab: StreamLab, tmp_path: Path) -> None:
    backup = (tmp_path / "ledger.db").read_bytes()
    lab.advance(2)
    lab.advance(4)
    (tmp_path / "ledger.db").write_bytes(backup)
    ledger = lab.ledger()
    result = reconcile(lab.output, ledger, actor="admin")
    assert (len(result.restored), len(result.committed), result.steps, result.findings) == (1, 1, 4, ())
    ledger.close()
    assert lab.advance(6).first == 4
    judge_stream(lab, steps=6)


@pytest.mark.verify
def test_missing_published_steps_are_published_again(lab: StreamLab) -> None:
    lab.advance(2)
    before = lab.snapshot()
    for name in before:
        (lab.root / name).unlink()
    lab.advance(2)
    assert lab.snapshot() == before


def test_a_refusal_before_a_row_is_read_gives_the_reservation_back(lab: StreamLab) -> None:
    def refuse(*_: object) -> np.ndarray[Any, Any]:
        raise InvalidRequest("time", "at", "must be a column", "correct it")

    runner = lab.runner()
    runner.counts = _Refusing(refuse)  # type: ignore[assignment]
    with pytest.raises(InvalidRequest, match="time: got 'at'; must be a column"):
        lab.advance(2, runner=runner)
    assert lab.charge().state is ChargeState.VOID
    assert lab.advance(2).steps == 2
    judge_stream(lab, steps=2)


class _Refusing:
    def __init__(self, refuse: Any) -> None:
        self.refuse = refuse

    def __getitem__(self, _: object) -> Any:
        return self.refuse()


@pytest.mark.verify
def test_a_run_without_a_result_is_retried(lab: StreamLab) -> None:
    class Dead(StreamRunner):
        def application(self, submission: Any) -> int:
            return 1

    with pytest.raises(ReleaseFailed, match="the application ended without the steps that are due") as failed:
        lab.advance(2, runner=Dead(counts=lab.counts))
    assert failed.value.retryable
    assert lab.charge().state is ChargeState.RESERVED
    assert lab.advance(2).steps == 2
    judge_stream(lab, steps=2)


def test_nothing_exact_is_readable_outside_the_application(tmp_path: Path) -> None:
    """Counts of a kind that occur nowhere else are searched for in every object, and in the ledger."""
    lab = StreamLab(tmp_path, {"method": "pegasus", "budget": {"epsilon": "0.01"}})
    lab.counts[:] = 123_456_789
    lab.advance(2)
    lab.advance(4)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"123456789" not in path.read_bytes()


@pytest.mark.verify
@pytest.mark.parametrize("point", POINTS)
def test_real_kills_anywhere_leave_one_stream(lab: StreamLab, point: str) -> None:
    application = point in ("before_draw", "after_draw", "before_store_steps", "after_store_steps")
    lab.advance(1)
    for hours in (3, 5):
        lab.attempt("" if application else point, hours, app_failpoint=point if application else "").wait()
    for _ in range(3):
        try:
            lab.advance(6)
        except ReleaseError:
            continue
    judge_stream(lab, steps=6)


@pytest.mark.verify
@pytest.mark.halved
@pytest.mark.parametrize("point", POINTS)
def test_real_kills_on_both_databases(tmp_path: Path, ledger_url: str, point: str) -> None:
    lab = StreamLab(tmp_path, url=ledger_url)
    application = point in ("before_draw", "after_draw", "before_store_steps", "after_store_steps")
    for hours in (2, 4):
        lab.attempt("" if application else point, hours, app_failpoint=point if application else "").wait()
    lab.advance(6)
    judge_stream(lab, steps=6)
