"""A store whose owner deletes, swaps, plants and replays: at most one draw is ever readable, and it is paid for."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dp_operators.releasing import (
    ChargedRequest,
    ReleaseClosed,
    ReleaseDamaged,
    ReleaseError,
    ReleaseRejected,
    give_back,
)
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.account import AccountState
from spark_jobs.contract.store.layout import ReleaseLayout
from spark_jobs.contract.store.objects import open_store
from tests.support import fake_application
from tests.support.release_lab import (
    HereRunner,
    Lab,
    NoRunner,
    committed_unseen,
    draft_folder,
    judge,
    make_request,
    opened,
    reserved_with,
    retried,
)

pytestmark = pytest.mark.slow


class Tampered(HereRunner):
    """Lets somebody at the store just before the application starts."""

    def __init__(self, tamper: Callable[[], Any], behaviour: str = "") -> None:
        super().__init__(behaviour)
        self.tamper = tamper

    def run(self, submission: Any, progress: Callable[[str], None]) -> None:
        self.tamper()
        super().run(submission, progress)


def spent(lab: Lab) -> str:
    return str(10 - lab.ledger().remaining("people").epsilon)


def assert_burnt_with_one_line(lab: Lab, error: Exception, line: str) -> None:
    assert line in str(error)
    assert "\n" not in str(error)
    assert lab.states() == ["burnt"]
    assert spent(lab) == "1"
    assert not (lab.root / "release.json").exists()
    with pytest.raises(ReleaseClosed, match="request it again under another key"):
        lab.release(runner=NoRunner())
    assert lab.ledger().verify()


# --- what the application is given


def test_swapped_request_is_refused_before_a_row_is_read_and_costs_nothing(lab: Lab) -> None:
    """Another table at a million times the epsilon, under the id of the charge."""

    def swap() -> None:
        other = make_request(lab.output, title="another", budget={"epsilon": "1000000"})
        (draft_folder(lab) / "request.json").write_text(other.to_json())

    with pytest.raises(InvalidRequest, match="request: must be the one that was charged"):
        lab.release(runner=Tampered(swap))
    assert lab.states() == ["void"]
    assert not (lab.root / "_draft" / lab.charges()[0].id / "draw.json").exists()
    judge(lab)


@pytest.mark.parametrize("planted", ["plain", "of another charge"])
def test_swapped_figures_of_the_account_reach_no_report(lab: Lab, planted: str) -> None:
    def swap() -> None:
        place = draft_folder(lab) / "account.json"
        if planted == "plain":
            place.write_text(json.dumps({"cap": {"epsilon": "1000"}}))
        else:
            place.write_bytes(theirs)

    lab.release(key="another", runner=HereRunner())
    theirs = next(Path(lab.output).glob("another-*/_draft/*/account.json")).read_bytes()
    with pytest.raises(InvalidRequest):
        lab.release(runner=Tampered(swap))
    assert not (lab.root / "release.json").exists()
    assert lab.states() == ["committed", "void"]


# --- the draw


def test_deleted_draw_is_not_given_back(lab: Lab) -> None:
    """Deleted before the ledger knew it: nobody could read it, but rows were read."""
    lab.attempt("before_record_draw").wait()
    (draft_folder(lab) / "draw.json").unlink()
    charge = give_back(ChargedRequest.of(lab.request, lab.ledger(), lab.key), reason="tests")
    assert charge.state == "burnt"
    assert spent(lab) == "1"


@pytest.mark.slow
@pytest.mark.parametrize("point", ["after_record_draw", "before_check", "before_commit"])
def test_draw_that_is_gone_once_the_ledger_knows_it_is_burnt(lab: Lab, point: str) -> None:
    lab.attempt(point).wait()
    (draft_folder(lab) / "draw.json").unlink()
    with pytest.raises(ReleaseClosed) as settled:
        lab.release(runner=NoRunner())
    assert_burnt_with_one_line(lab, settled.value, "is gone, so the charge is burnt")


def planted_draw(lab: Lab) -> bytes:
    """With the right id, the right hash and no noise at all."""
    [charge] = lab.charges()
    zero = {"epsilon": "0", "delta": "0"}
    account = AccountState(name="people", cap=zero, spent_before=zero, charged=zero, remaining=zero)
    return fake_application.draw_of(charge.id, lab.request, account)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before_run", "before_record_draw", "after_record_draw"])
def test_planted_draw_with_the_right_id_is_burnt(lab: Lab, point: str) -> None:
    lab.attempt(point).wait()
    (draft_folder(lab) / "draw.json").write_bytes(planted_draw(lab))
    with pytest.raises(ReleaseClosed) as settled:
        lab.release(runner=HereRunner())
    assert_burnt_with_one_line(lab, settled.value, "is not the draw of charge")


def test_draw_of_an_earlier_version_which_everybody_can_read_is_burnt(lab: Lab) -> None:
    lab.attempt("before_run").wait()
    (draft_folder(lab) / "draw.json").write_text(json.dumps({"format": 1, "kind": "draw", "measurements": {}}))
    with pytest.raises(ReleaseClosed) as settled:
        lab.release(runner=NoRunner())
    assert_burnt_with_one_line(lab, settled.value, "is not the draw of charge")


def test_draw_of_another_charge_is_burnt(lab: Lab) -> None:
    lab.attempt("before_record_draw").wait()
    lab.release(key="another", runner=HereRunner())
    theirs = next(Path(lab.output).glob("another-*/_draft/*/draw.json")).read_bytes()
    [place] = lab.root.glob("_draft/*/draw.json")
    place.write_bytes(theirs)
    with pytest.raises(ReleaseClosed, match="so the charge is burnt"):
        lab.release(runner=NoRunner())


def test_older_draw_of_the_same_charge_is_not_readable_beside_the_recorded_one(lab: Lab) -> None:
    """Deleted, drawn again, and put back: the ledger knows one of the two."""
    lab.attempt("before_record_draw").wait()
    place = draft_folder(lab) / "draw.json"
    first = place.read_bytes()
    place.unlink()
    lab.attempt("after_record_draw").wait()
    assert place.read_bytes() != first
    place.write_bytes(first)
    with pytest.raises(ReleaseClosed) as settled:
        lab.release(runner=NoRunner())
    assert_burnt_with_one_line(lab, settled.value, "is not the draw of charge")


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before_record_draw", "after_record_draw", "after_commit"])
def test_store_restored_apart_from_the_ledger_makes_no_second_readable_draw(lab: Lab, point: str) -> None:
    """The store is as it was before the draw. Before the ledger knew it, the first draw is lost, unread."""
    lab.attempt("before_run").wait()
    backup = lab.folder / "store-backup"
    shutil.copytree(lab.output, backup)
    lab.attempt(point).wait()
    [charge] = lab.charges()
    first = opened(lab, charge, open_store(lab.output))
    assert first is not None
    sealed = (draft_folder(lab) / "draw.json").read_bytes()
    shutil.rmtree(lab.output)
    shutil.copytree(backup, lab.output)
    if point == "before_record_draw":
        assert retried(lab)
        judge(lab)
        published = b"".join(path.read_bytes() for path in lab.root.rglob("*") if path.is_file())
        assert first["drawn"].encode() not in sealed + published
        return
    with pytest.raises(ReleaseDamaged if point == "after_commit" else ReleaseClosed, match="is gone"):
        lab.release(runner=NoRunner())
    assert lab.states() == ["committed" if point == "after_commit" else "burnt"]
    assert spent(lab) == "1"
    assert not (lab.root / "release.json").exists()


def test_draft_folder_that_was_cleaned_gives_no_second_release(lab: Lab) -> None:
    published = lab.release(runner=HereRunner())
    shutil.rmtree(lab.root / "_draft")
    with pytest.raises(InvalidRequest, match="must be the store in which this release began"):
        lab.release(runner=NoRunner())
    assert lab.states() == ["committed"]
    assert published.manifest_sha256 == lab.charges()[0].manifest_sha256


# --- the draft


@pytest.mark.slow
@pytest.mark.parametrize("name", ["release.json", "files/report.html"])
def test_draft_made_from_another_draw_is_not_published(lab: Lab, name: str) -> None:
    """An object of the first of two draws of one charge, put beside the second, which the ledger knows."""
    lab.attempt("before_record_draw").wait()
    folder = draft_folder(lab)
    first = (folder / name).read_bytes()
    for path in ("draw.json", "release.json", "files/report.html", "files/data/curve.csv"):
        (folder / path).unlink()
    reserved_with(lab)
    (folder / name).write_bytes(first)
    with pytest.raises(ReleaseDamaged, match="the draft was not made from this draw"):
        lab.release(runner=NoRunner())
    assert lab.states() == ["reserved"]
    assert not (lab.root / "release.json").exists()


def test_committed_release_whose_draft_was_lost_is_made_again_without_reading_the_table(lab: Lab) -> None:
    committed_unseen(lab)
    folder = draft_folder(lab)
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("draw.json", "request.json"):
            path.unlink()
    runner = HereRunner("fail")  # what it would do if it read the table
    assert lab.release(runner=runner).manifest_sha256 == lab.charges()[0].manifest_sha256
    judge(lab)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"noise": [{"laplace": "1"}, {"laplace": "1000000"}]},
            "its draw's noise, which is too small for its cost",
        ),
        ({"noise": [{"gaussian": "1.0001"}]}, "its draw's noise, which is too small for its cost"),
        ({"cost": {"epsilon": "2", "delta": "0"}}, "its draw's cost, which exceeds the reservation"),
        ({"cost": {"epsilon": "1", "delta": "0.1"}}, "its draw's cost, which exceeds the reservation"),
        ({"cost": {"epsilon": "0.5", "delta": "0"}}, "its draw's mechanisms, which do not add up to its cost"),
        ({"guarantee": "NOT PRIVATE"}, "its draw's noise, which is not private"),
        ({"charge_id": "another"}, "its draw's charge"),
        ({"request_sha256": "0" * 64}, "its draw's request"),
        ({"noise": None}, "its draw, which this version cannot read"),
    ],
)
def test_draw_whose_noise_its_cost_does_not_pay_for_is_never_committed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str
) -> None:
    """An application gone wrong, which has the secret."""
    real = fake_application.draw_of

    def wrong(*arguments: Any) -> bytes:
        return real(*arguments, **changes)

    monkeypatch.setattr(fake_application, "draw_of", wrong)
    with pytest.raises(ReleaseRejected, match=words):
        lab.release(runner=HereRunner())
    assert lab.states() == ["reserved"]
    assert not (lab.root / "release.json").exists()
    assert give_back(ChargedRequest.of(lab.request, lab.ledger(), lab.key), reason="tests").state == "burnt"


# --- who can read what


def test_drafts_belong_to_their_owner_alone(lab: Lab) -> None:
    lab.release()
    folder = lab.root / "_draft"
    paths = [folder, *folder.rglob("*")]
    assert len(paths) > 6
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE((lab.root / "report.html").stat().st_mode) & 0o044


def test_draft_folder_that_others_may_enter_is_closed_to_them(lab: Lab) -> None:
    lab.attempt("after_reserve").wait()
    folder = lab.root / "_draft"
    folder.chmod(0o777)
    lab.release()
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_nothing_of_a_draft_is_readable_in_the_store(lab: Lab) -> None:
    """What everybody may know lies there in the clear: the request, the claim and the allotment."""
    reserved_with(lab)
    [charge] = lab.charges()
    layout = ReleaseLayout.of(lab.output, lab.key, charge.id)
    readable = {Path(layout.request), lab.root / "_draft" / "claim.json"}
    draw = opened(lab, charge, open_store(lab.output))
    assert draw is not None
    for path in (lab.root / "_draft").rglob("*"):
        if path.is_file() and path not in readable:
            content = path.read_bytes()
            assert not any(word in content for word in (draw["drawn"].encode(), b"roc_curve", b"spent_before")), path


@pytest.mark.slow
def test_no_order_of_deletions_gives_a_charge_back_after_a_row_was_read(lab: Lab) -> None:
    for point in ("after_start_run", "after_run", "after_record_draw", "before_commit"):
        key = f"release-{point}"
        with suppress(ReleaseError):
            lab.attempt(point, key=key).wait()
        lab_key, lab.key = lab.key, key
        shutil.rmtree(draft_folder(lab), ignore_errors=True)
        settled = give_back(ChargedRequest.of(lab.request, lab.ledger(), key), reason="tests")
        assert settled.state == "burnt", point
        lab.key = lab_key
    assert spent(lab) == "4"
