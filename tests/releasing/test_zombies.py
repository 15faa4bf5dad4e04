"""Workers believed dead that wake up after the world has moved on, and attempts that run at once."""

from __future__ import annotations

import pytest

from dp_operators.releasing import ReleaseClosed
from spark_jobs.contract.store.failpoints import APPLICATION_POINTS, PROTOCOL_POINTS
from tests.support.release_lab import judge, retried, wait_for

RELEASING = PROTOCOL_POINTS[: PROTOCOL_POINTS.index("before_end_run")]
UNCOMMITTED = RELEASING[RELEASING.index("after_reserve") : RELEASING.index("after_commit")]
NOT_STARTED = RELEASING[RELEASING.index("after_reserve") : RELEASING.index("after_start_run")]
STARTED = (*UNCOMMITTED[len(NOT_STARTED) :], *APPLICATION_POINTS[: APPLICATION_POINTS.index("after_store_draw")])


@pytest.mark.sampled
@pytest.mark.halved
@pytest.mark.parametrize("point", [*RELEASING, *APPLICATION_POINTS])
def test_zombie_finds_the_release_that_another_attempt_has_made(lab, point):
    zombie, wake = lab.asleep_at(point)
    published = retried(lab)
    judge(lab)
    wake()
    outcome = zombie.wait()
    judge(lab)
    assert lab.states() == ["committed"]
    assert outcome.error is None
    assert outcome.published.uri == published.uri
    assert outcome.published.manifest_sha256 == published.manifest_sha256


@pytest.mark.sampled
@pytest.mark.parametrize("point", NOT_STARTED)
def test_zombie_whose_reservation_was_given_back_draws_and_publishes_nothing(lab, point):
    zombie, wake = lab.asleep_at(point)
    assert lab.give_back().wait().error is None
    wake()
    outcome = zombie.wait()
    judge(lab)
    assert isinstance(outcome.error, ReleaseClosed)
    assert lab.states() == ["void"]
    assert not (lab.root / "release.json").exists()


@pytest.mark.sampled
@pytest.mark.parametrize("point", NOT_STARTED)
def test_zombie_of_a_void_charge_leaves_the_next_charges_release_alone(lab, point):
    zombie, wake = lab.asleep_at(point)
    assert lab.give_back().wait().error is None
    published = retried(lab)
    wake()
    outcome = zombie.wait()
    judge(lab)
    assert isinstance(outcome.error, ReleaseClosed)
    assert lab.states() == ["void", "committed"]
    assert retried(lab).manifest_sha256 == published.manifest_sha256


@pytest.mark.sampled
@pytest.mark.parametrize("point", STARTED)
def test_zombie_whose_run_was_burnt_publishes_nothing(lab, point):
    zombie, wake = lab.asleep_at(point)
    assert lab.give_back().wait().error is None
    assert lab.states() == ["burnt"]
    wake()
    outcome = zombie.wait()
    judge(lab)
    assert isinstance(outcome.error, ReleaseClosed)
    assert not (lab.root / "release.json").exists()
    with pytest.raises(ReleaseClosed, match="spent and never published"):
        lab.release()


@pytest.mark.sampled
@pytest.mark.parametrize("point", RELEASING[RELEASING.index("after_commit") :])
def test_zombie_that_has_committed_cannot_be_given_back_and_publishes(lab, point):
    zombie, wake = lab.asleep_at(point)
    assert lab.give_back().wait().error is None
    assert lab.states() == ["committed"]
    wake()
    assert zombie.wait().published is not None
    judge(lab)


def test_giving_back_asleep_before_it_voids_burns_what_was_drawn_meanwhile(lab):
    lab.attempt("after_reserve").wait()
    gate = lab.folder / "gate"
    giver = lab.give_back(f"before_give_back:pause:{gate}")
    wait_for(gate.with_name("gate.reached"))
    lab.attempt("before_commit").wait()
    gate.touch()
    assert giver.wait().error is None
    judge(lab)
    assert lab.states() == ["burnt"]


def test_giving_back_asleep_before_it_settles_finds_a_release_committed_meanwhile(lab):
    lab.attempt("before_commit").wait()
    gate = lab.folder / "gate"
    giver = lab.give_back(f"before_give_back:pause:{gate}")
    published = retried(lab)
    gate.touch()
    giver.wait()
    judge(lab)
    assert lab.states() == ["committed"]
    assert retried(lab).manifest_sha256 == published.manifest_sha256


@pytest.mark.sampled
@pytest.mark.parametrize("attempts", [2, 6])
def test_attempts_at_once_end_with_one_draw_and_the_same_release(lab, attempts):
    outcomes = [attempt.wait() for attempt in [lab.attempt() for _ in range(attempts)]]
    judge(lab)
    assert lab.states() == ["committed"]
    assert [outcome.error for outcome in outcomes] == [None] * attempts
    assert len({(o.published.uri, o.published.charge_id, o.published.manifest_sha256) for o in outcomes}) == 1


@pytest.mark.verify
def test_attempts_at_once_of_which_some_are_killed_end_with_one_release(lab):
    points = ["", "before_commit", "after_commit", "before_publish_manifest", ""]
    for attempt in [lab.attempt(point) for point in points]:
        attempt.wait()
    judge(lab)
    assert retried(lab)
    judge(lab)
    assert lab.states() == ["committed"]


@pytest.mark.slow
def test_releases_of_different_keys_at_once_each_pay(lab):
    keys = [f"prod/dag/{day}/release/-1" for day in range(5)]
    outcomes = [attempt.wait() for attempt in [lab.attempt(key=key) for key in keys]]
    judge(lab)
    assert lab.states() == ["committed"] * 5
    assert len({outcome.published.uri for outcome in outcomes}) == 5
