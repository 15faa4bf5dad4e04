"""kill -9 before and after every step, then a retry: one draw, one visible release, paid for once."""

from __future__ import annotations

import pytest

from dp_operators.releasing import ReleaseClosed, ReleaseFailed
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.failpoints import APPLICATION_POINTS, PROTOCOL_POINTS
from tests.support.release_lab import judge, retried, wait_for

SETTLING = PROTOCOL_POINTS[PROTOCOL_POINTS.index("before_end_run") :]
ENDING = SETTLING[SETTLING.index("before_give_back") :]
RELEASING = [point for point in PROTOCOL_POINTS if point not in SETTLING]
BEFORE_DRAW = APPLICATION_POINTS[: APPLICATION_POINTS.index("after_store_draw")]


def assert_one_release(lab):
    published = retried(lab)
    judge(lab)
    assert lab.states() == ["committed"]
    again = retried(lab)
    assert (again.uri, again.manifest_sha256, again.adopted) == (published.uri, published.manifest_sha256, True)
    assert (lab.root / "receipt.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("point", RELEASING)
@pytest.mark.sampled
def test_attempt_killed_at_each_step_is_finished_by_a_retry(lab, point):
    assert lab.attempt(point).wait().killed
    judge(lab)
    assert_one_release(lab)


@pytest.mark.verify
@pytest.mark.halved
@pytest.mark.parametrize("point", RELEASING)
def test_attempts_killed_again_and_again_at_one_step_are_finished_by_a_retry(lab, point):
    for _ in range(2):
        lab.attempt(point).wait()
        judge(lab)
    assert_one_release(lab)


@pytest.mark.slow
@pytest.mark.parametrize("point", APPLICATION_POINTS)
@pytest.mark.sampled
def test_application_killed_at_each_step_is_finished_by_a_retry(lab, point):
    outcome = lab.attempt(app_failpoint=point).wait()
    judge(lab)
    if point in ("after_store_draw", "after_draft_manifest"):
        assert outcome.published is not None
    else:
        assert isinstance(outcome.error, ReleaseFailed)
        assert lab.states() == ["reserved"]
    assert_one_release(lab)


@pytest.mark.sampled
@pytest.mark.parametrize("point", APPLICATION_POINTS)
def test_application_orphaned_at_each_step_changes_nothing_when_it_wakes(lab, point):
    ended = lab.folder / "orphan-ended"
    attempt, wake = lab.asleep_at(point, ended=ended)
    assert attempt.kill().killed
    judge(lab)
    published = retried(lab)
    before = (lab.root / "release.json").read_bytes()
    wake()
    wait_for(ended)
    judge(lab)
    assert (lab.root / "release.json").read_bytes() == before
    assert retried(lab).manifest_sha256 == published.manifest_sha256
    assert lab.states() == ["committed"]


@pytest.mark.sampled
@pytest.mark.parametrize("point", BEFORE_DRAW)
def test_application_orphaned_before_its_draw_publishes_nothing_once_its_charge_was_burnt(lab, point):
    """Rows may have been read for it, so it is paid for; what it still draws stays sealed."""
    ended = lab.folder / "orphan-ended"
    attempt, wake = lab.asleep_at(point, ended=ended)
    attempt.kill()
    assert lab.give_back().wait().error is None
    assert lab.states() == ["burnt"]
    wake()
    wait_for(ended)
    judge(lab)
    assert (lab.root / "_draft" / lab.charges()[0].id / "draw.json").exists()
    with pytest.raises(ReleaseClosed):
        retried(lab)
    assert not (lab.root / "release.json").exists()
    assert lab.states() == ["burnt"]


@pytest.mark.slow
@pytest.mark.parametrize("point", SETTLING)
@pytest.mark.sampled
def test_refusal_killed_at_each_step_of_giving_back_costs_nothing(lab, point):
    assert lab.attempt(point, behaviour="refuse").wait().killed
    judge(lab)
    outcome = lab.attempt(behaviour="refuse").wait()
    assert isinstance(outcome.error, InvalidRequest)
    judge(lab)
    assert set(lab.states()) == {"void"}
    assert retried(lab)
    judge(lab)
    assert lab.states().count("committed") == 1


LEFT = {"after_reserve": "void", "before_run": "burnt", "before_commit": "burnt"}


@pytest.mark.slow
@pytest.mark.sampled("left")
@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("point", ENDING)
def test_giving_back_killed_at_each_step_is_finished_by_giving_back_again(lab, point, left):
    lab.attempt(left).wait()
    assert lab.give_back(point).wait().killed
    judge(lab)
    assert lab.give_back().wait().error is None
    judge(lab)
    assert lab.states() == [LEFT[left]]
    assert not (lab.root / "release.json").exists()


@pytest.mark.sampled
@pytest.mark.parametrize("point", SETTLING)
def test_giving_back_after_a_refusal_whose_attempt_died_frees_the_reservation(lab, point):
    """The application stated that it read no row; whoever comes next tells the ledger."""
    lab.attempt("after_run", behaviour="refuse").wait()
    assert lab.give_back(point).wait().killed
    judge(lab)
    assert lab.give_back().wait().error is None
    judge(lab)
    assert lab.states() == ["void"]


@pytest.mark.sampled
@pytest.mark.parametrize("point", ENDING)
def test_giving_back_killed_before_it_ends_the_reservation_or_after_leaves_the_release_to_be_made(lab, point):
    lab.attempt("after_reserve").wait()
    assert lab.give_back(point).wait().killed
    assert retried(lab)
    judge(lab)
    assert lab.states() == (["committed"] if point == "before_give_back" else ["void", "committed"])
