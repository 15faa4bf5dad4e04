"""A store that does not hold what the ledger committed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from dp_operators.budget import LedgerFrozen
from dp_operators.releasing import ChargedRequest, ReleaseDamaged, ReleaseFailed, give_back
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.sealing import sha256
from tests.support.release_lab import (
    HereRunner,
    NoRunner,
    committed_unseen,
    draft_folder,
    judge,
    reserved_with,
    seal_of,
)

pytestmark = pytest.mark.slow


def test_draft_file_that_was_changed_is_never_published(lab):
    reserved_with(lab)
    (draft_folder(lab) / "files" / "report.html").write_text("changed")
    with pytest.raises(ReleaseDamaged, match="the draft was not made from this draw"):
        lab.release(runner=NoRunner())
    assert lab.states() == ["reserved"]


def sealed_again(lab, change):
    """The draft's manifest as somebody with the charge's secret would change it: the application, gone wrong."""
    [charge] = lab.charges()
    seal, place = seal_of(lab, charge), draft_folder(lab) / "release.json"
    draw = sha256((draft_folder(lab) / "draw.json").read_bytes())
    changed = change(seal.open("release.json", place.read_bytes(), draw_sha256=draw).decode())
    place.write_bytes(seal.close("release.json", changed.encode(), draw_sha256=draw))


@pytest.mark.parametrize("content", ["", "{}", '{"files": []}'])
def test_draft_manifest_that_is_none_is_never_published(lab, content):
    reserved_with(lab)
    sealed_again(lab, lambda manifest: content)
    with pytest.raises(ReleaseDamaged, match="is not a manifest"):
        lab.release(runner=NoRunner())


def test_draft_that_names_a_file_of_the_protocols_own_is_never_published(lab):
    reserved_with(lab)
    sealed_again(lab, lambda manifest: manifest.replace("report.html", "../release.json"))
    with pytest.raises(ReleaseDamaged, match="is not a manifest"):
        lab.release(runner=NoRunner())


def test_draft_whose_files_are_not_what_its_manifest_says_is_never_published(lab):
    reserved_with(lab)
    sealed_again(lab, lambda manifest: re.sub('"sha256": "[0-9a-f]{64}"', '"sha256": "' + "0" * 64 + '"', manifest))
    with pytest.raises(ReleaseDamaged, match="not what its manifest says"):
        lab.release(runner=NoRunner())


@pytest.mark.parametrize("lost", ["release.json", "files/report.html", "files"])
def test_committed_release_is_made_again_from_its_draw_byte_for_byte(lab, lost):
    committed_unseen(lab)
    path = draft_folder(lab) / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    runner = HereRunner()
    assert lab.release(runner=runner).manifest_sha256 == lab.charges()[0].manifest_sha256
    assert runner.runs == 1
    judge(lab)


def test_committed_release_without_its_draw_is_never_drawn_again(lab):
    committed_unseen(lab)
    shutil.rmtree(draft_folder(lab))
    with pytest.raises(ReleaseDamaged, match="is gone"):
        lab.release(runner=NoRunner())
    assert not (lab.root / "release.json").exists()


def test_committed_release_that_comes_out_otherwise_is_not_published(lab):
    committed_unseen(lab)
    sealed_again(lab, lambda manifest: manifest.replace("A statement.", "Another statement."))
    with pytest.raises(ReleaseDamaged, match="not what the ledger committed"):
        lab.release(runner=NoRunner())
    assert not (lab.root / "release.json").exists()


def test_visible_manifest_that_was_changed_is_not_passed_off_as_the_release(lab):
    lab.release(runner=HereRunner())
    (lab.root / "release.json").write_text("{}")
    with pytest.raises(ReleaseDamaged, match="not what the ledger committed"):
        lab.release(runner=NoRunner())


def test_object_in_the_way_of_a_published_file_is_not_overwritten(lab):
    committed_unseen(lab)
    (lab.root / "report.html").write_text("somebody else's")
    with pytest.raises(ReleaseDamaged, match="differs from what was committed"):
        lab.release(runner=NoRunner())
    assert (lab.root / "report.html").read_text() == "somebody else's"
    assert not (lab.root / "release.json").exists()


def test_visible_release_that_the_ledger_has_forgotten_is_not_drawn_again(lab):
    lab.release(runner=HereRunner())
    (lab.folder / "ledger.db").unlink()
    lab.__post_init__()
    with pytest.raises(LedgerFrozen, match="refers to entry"):
        lab.release(runner=NoRunner())
    lab.ledger().thaw(actor="dba", reason="tests")
    shutil.rmtree(f"{lab.output}/_ledger")
    with pytest.raises(ReleaseDamaged, match="the ledger has no charge that paid for it"):
        lab.release(runner=NoRunner())
    assert lab.states() == []


def test_retry_that_looks_at_another_disk_is_refused_and_draws_nothing(lab):
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))
    Path(lab.output).rename(f"{lab.folder}/the-other-machines-disk")
    with pytest.raises(InvalidRequest, match="must be the store in which this release began"):
        lab.release(runner=NoRunner())
    with pytest.raises(InvalidRequest, match="must be the store in which this release began"):
        give_back(ChargedRequest.of(lab.request, lab.ledger(), lab.key), reason="tests")
    assert lab.states() == ["reserved"]


def test_release_that_lost_a_file_is_not_found_but_published_again(lab):
    published = lab.release()
    report = Path(published.uri.removeprefix("file://")) / "report.html"
    content = report.read_bytes()
    report.unlink()
    head = lab.ledger().head()
    again = lab.release(runner=NoRunner())
    assert not again.adopted
    assert report.read_bytes() == content
    assert lab.ledger().head() == head
    assert lab.release(runner=NoRunner()).adopted


def test_release_with_an_altered_file_is_damaged(lab):
    published = lab.release()
    report = Path(published.uri.removeprefix("file://")) / "report.html"
    report.write_text("another")
    with pytest.raises(ReleaseDamaged, match=r"report\.html is not what its manifest says"):
        lab.release(runner=NoRunner())
    assert lab.states() == ["committed"]
