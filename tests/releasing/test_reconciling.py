"""A restored ledger learns again what the releases remember; stale reservations are given back or burnt."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.releasing import (
    ChargedRequest,
    ReleaseClosed,
    check_release_folder,
    reconcile,
    release,
    release_stale,
)
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import killed_at
from tests.support.release_lab import ForkRunner, Lab, accept, make_request
from tests.support.s3_server import s3_server

pytestmark = pytest.mark.slow

AWS = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_DEFAULT_REGION": "us-east-1",
    "NO_PROXY": "127.0.0.1",
}
AT_ONCE = timedelta(seconds=-1)


def made(lab: Lab, key: str, runner: ForkRunner | None = None) -> str:
    request = make_request(lab.output, budget={"epsilon": "2"})
    return release(ChargedRequest.of(request, lab.ledger(), key), runner=runner or ForkRunner(), check=accept).uri


def interrupted(lab: Lab, key: str, behaviour: str = "", failpoint: str = "") -> None:
    with pytest.raises(Exception, match="the application"):
        made(lab, key, ForkRunner(behaviour, failpoint))


def file_of(ledger: PrivacyLedger) -> Path:
    return Path(ledger.name.removeprefix("sqlite:///"))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def restored(lab: Lab, backup: Path) -> PrivacyLedger:
    shutil.copy(backup, file_of(lab.ledger()))
    ledger = lab.ledger()
    ledger.freeze(actor="dba", reason="restored from a backup")
    return ledger


@pytest.fixture
def forgotten(lab: Lab, tmp_path: Path) -> tuple[PrivacyLedger, dict[str, str], set[str]]:
    """A ledger that was restored from before two of its three releases, and before one that drew and was not done."""
    uris = {"kept": made(lab, "kept")}
    backup = tmp_path / "backup.db"
    shutil.copy(file_of(lab.ledger()), backup)
    uris |= {key: made(lab, key) for key in ("lost one", "lost two")}
    interrupted(lab, "drawn", failpoint="before_results")
    before = {charge.id for charge in lab.ledger().history("people")}
    return restored(lab, backup), uris, before


def test_reconciled_ledger_has_forgotten_no_spend(lab: Lab, forgotten: tuple) -> None:
    ledger, uris, before = forgotten
    assert ledger.remaining("people").epsilon == 8
    found = reconcile(lab.output, ledger, actor="dpo")
    assert (len(found.restored), len(found.committed), found.findings) == (3, 2, ())
    assert ledger.remaining("people").epsilon == 2
    assert {charge.id for charge in ledger.history("people")} == before
    assert reconcile(lab.output, ledger, actor="dpo").restored == ()
    with pytest.raises(InvalidRequest, match="is frozen"):
        made(lab, "another")
    ledger.thaw(actor="dpo", reason="reconciled")
    assert ledger.verification().findings == ()
    assert [check_release_folder(uri, ledger) for uri in uris.values()] == [()] * 3


def test_object_store_remembers_as_well(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on S3: drafts and manifests are found by listing keys."""
    import fsspec

    fsspec.filesystem("s3").clear_instance_cache()
    with s3_server() as server:
        for name, value in AWS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        backup = tmp_path / "backup.db"
        shutil.copy(file_of(lab.ledger()), backup)
        copied = Path(made(lab, "lost"))
        for path in sorted(Path(lab.output).rglob("*")):
            if path.is_file():
                server.objects[f"/bucket/releases/{path.relative_to(lab.output)}"] = path.read_bytes()
        shutil.rmtree(lab.output)
        ledger = restored(lab, backup)
        found = reconcile("s3://bucket/releases", ledger, actor="dpo")
        assert (len(found.restored), len(found.committed), found.findings) == (1, 1, ())
        assert ledger.remaining("people").epsilon == 8
        ledger.thaw(actor="dpo", reason="reconciled")
        assert check_release_folder(f"s3://bucket/releases/{copied.name}", ledger) == ()
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.mark.sampled
@pytest.mark.halved
@pytest.mark.slow
@pytest.mark.parametrize("failpoint", ["ledger_before_write", "ledger_before_commit", "ledger_after_commit"])
@pytest.mark.parametrize("passed", range(5))
def test_reconciliation_killed_at_any_of_its_changes_is_finished_by_the_next(
    lab: Lab, forgotten: tuple, failpoint: str, passed: int
) -> None:
    """Three charges are entered again and two committed: five changes."""
    ledger, uris, before = forgotten
    killed_at(f"{failpoint}:after:{passed}", lambda: reconcile(lab.output, ledger, actor="dpo"))
    assert ledger.verification().findings == ()
    assert reconcile(lab.output, ledger, actor="dpo").findings == ()
    assert ledger.remaining("people").epsilon == 2
    assert {charge.id for charge in ledger.history("people")} == before
    ledger.thaw(actor="dpo", reason="reconciled")
    assert ledger.verification().findings == ()
    assert [check_release_folder(uri, ledger) for uri in uris.values()] == [()] * 3


def test_interrupted_release_whose_secret_was_forgotten_is_burnt(lab: Lab, forgotten: tuple) -> None:
    """The ledger alone kept what opens its draw; another draw for the same charge there must not be."""
    ledger, uris, _ = forgotten
    reconcile(lab.output, ledger, actor="dpo")
    ledger.thaw(actor="dpo", reason="reconciled")
    with pytest.raises(ReleaseClosed, match="so the charge is burnt"):
        made(lab, "drawn")
    assert ledger.remaining("people").epsilon == 2
    assert made(lab, "lost one") == uris["lost one"]


@pytest.mark.slow
def test_cap_whose_raise_was_forgotten_is_asked_for(lab: Lab, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    shutil.copy(file_of(lab.ledger()), backup)
    lab.ledger().raise_cap("people", epsilon="20", actor="dpo", reason="more")
    for number in range(7):
        made(lab, f"r{number}")
    ledger = restored(lab, backup)
    found = reconcile(lab.output, ledger, actor="dpo")
    assert len(found.findings) == 2
    assert "cap: got '10'; is below what was spent: the ledger has also lost a change of the cap" in found.findings[0]
    ledger.thaw(actor="dpo", reason="to raise")
    ledger.raise_cap("people", epsilon="20", actor="dpo", reason="again")
    assert reconcile(lab.output, ledger, actor="dpo").findings == ()
    assert ledger.remaining("people").epsilon == 6


def test_restore_that_forgets_nothing_changes_nothing(lab: Lab) -> None:
    made(lab, "kept")
    head = lab.ledger().head()
    assert reconcile(lab.output, lab.ledger(), actor="dpo").restored == ()
    assert lab.ledger().head() == head


def test_stale_reservations_are_given_back_where_no_row_was_read_and_burnt_elsewhere(lab: Lab) -> None:
    made(lab, "done")
    interrupted(lab, "nothing read", "fail early")
    interrupted(lab, "counted", failpoint="before_draw")
    interrupted(lab, "drawn", failpoint="before_results")
    ledger = lab.ledger()
    assert ledger.stale(timedelta(hours=1)) == ()
    assert release_stale(lab.output, ledger=ledger, older_than=timedelta(hours=1), reason="r") == ()
    look = ForkRunner().look
    done = release_stale(lab.output, ledger=ledger, older_than=AT_ONCE, reason="nobody is left", actor="ops", look=look)
    assert {each.charge.release: each.charge.state for each in done} == {
        "nothing read": ChargeState.VOID,
        "counted": ChargeState.BURNT,
        "drawn": ChargeState.BURNT,
    }
    assert ledger.remaining("people").epsilon == 4
    assert [(entry.actor, entry.reason) for entry in ledger.log()[-3:]] == [("ops", "nobody is left")] * 3
    with pytest.raises(ReleaseClosed):
        made(lab, "drawn")
    made(lab, "nothing read")
    assert ledger.verification().findings == ()


def test_stale_reservations_of_another_store_stay(lab: Lab, tmp_path: Path) -> None:
    interrupted(lab, "k", failpoint="before_draw")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "anything").touch()
    [kept] = release_stale(str(tmp_path / "other"), ledger=lab.ledger(), older_than=AT_ONCE, reason="r")
    assert kept.kept == "it did not begin in this store"
    assert kept.charge.state is ChargeState.RESERVED
    with pytest.raises(InvalidRequest, match="reason: got ''; must be given"):
        release_stale(lab.output, ledger=lab.ledger(), older_than=AT_ONCE, reason="")


def test_folder_in_which_nothing_was_released_is_refused(lab: Lab, tmp_path: Path) -> None:
    head = lab.ledger().head()
    for output in (tmp_path / "releaes", tmp_path):
        with pytest.raises(InvalidRequest, match="must be a folder of releases, and this folder is empty"):
            reconcile(str(output / "none"), lab.ledger(), actor="dpo")
        with pytest.raises(InvalidRequest, match="must be a folder of releases, and this folder is empty"):
            release_stale(str(output / "none"), ledger=lab.ledger(), older_than=AT_ONCE, reason="r")
    assert lab.ledger().head() == head
