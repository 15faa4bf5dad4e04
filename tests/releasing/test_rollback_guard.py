"""A ledger that was restored from a backup and put to work at once is noticed by the next release."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_operators.budget import LedgerFrozen, LedgerUnavailable, PrivacyLedger
from dp_operators.releasing import reconcile
from spark_jobs.contract.store.failpoints import PROTOCOL_POINTS
from spark_jobs.contract.store.objects import LocalStore, local_path
from tests.support.release_lab import Lab

pytestmark = pytest.mark.slow

AFTER_ANCHOR = PROTOCOL_POINTS[PROTOCOL_POINTS.index("after_anchor") : PROTOCOL_POINTS.index("before_end_run")]


def made(lab: Lab, key: str, **changes):
    request = lab.request.model_copy(update={"budget": type(lab.request.budget)("2")})
    return lab.release(**{"key": key, "request": request, **changes})


def anchors(lab: Lab) -> list[str]:
    return sorted(path.name for path in Path(lab.output).glob("_ledger/*/*"))


@pytest.fixture
def backup(lab: Lab) -> bytes:
    made(lab, "kept")
    return (lab.folder / "ledger.db").read_bytes()


def restore(lab: Lab, backup: bytes) -> PrivacyLedger:
    (lab.folder / "ledger.db").write_bytes(backup)
    return lab.ledger()


def mend(lab: Lab, ledger: PrivacyLedger) -> None:
    assert reconcile(lab.output, ledger, actor="dpo").findings == ()
    ledger.thaw(actor="dpo", reason="reconciled")


def test_restored_ledger_is_frozen_by_the_next_release_and_mended_by_a_reconciliation(lab: Lab, backup: bytes) -> None:
    for number in range(3):  # a ledger may be restored more than once
        lost = f"lost {number}"
        made(lab, lost)
        ledger = restore(lab, backup)
        spent = ledger.remaining("people")
        seq = ledger.head().seq
        with pytest.raises(LedgerFrozen, match=r"refers to entry \d+, .* run `dp-budget reconcile` for every folder"):
            made(lab, f"next {number}", runner=None)
        assert "restored from a backup" in ledger.frozen()
        assert [(entry.action, entry.actor) for entry in ledger.log()[seq:]] == [("frozen", "tester")]
        assert ledger.remaining("people") == spent
        mend(lab, ledger)
        assert lost in {charge.release for charge in ledger.history("people")}
        again = made(lab, lost)
        assert again.adopted
        assert ledger.verification().findings == ()
        backup = (lab.folder / "ledger.db").read_bytes()
    assert len({name[2:8] for name in anchors(lab)}) == 4


@pytest.mark.slow
def test_release_goes_on_once_the_ledger_is_reconciled(lab: Lab, backup: bytes) -> None:
    made(lab, "lost")
    ledger = restore(lab, backup)
    mend(lab, ledger)
    assert not made(lab, "new").adopted
    assert {charge.release for charge in ledger.history("people")} == {"kept", "lost", "new"}


@pytest.mark.slow
@pytest.mark.parametrize("point", AFTER_ANCHOR)
@pytest.mark.sampled
def test_nothing_is_drawn_that_a_restored_ledger_could_forget_unnoticed(lab: Lab, backup: bytes, point: str) -> None:
    """Wherever the attempt died: if a draw may exist, the next release of the store is held back."""
    lab.attempt(point).wait()
    restore(lab, backup)
    with pytest.raises(LedgerFrozen):
        made(lab, "next")


def test_thaw_without_a_reconciliation_does_not_help(lab: Lab, backup: bytes) -> None:
    made(lab, "lost")
    ledger = restore(lab, backup)
    for _ in range(2):
        with pytest.raises(LedgerFrozen):
            made(lab, "next")
        ledger.thaw(actor="dba", reason="in a hurry")


def test_restored_ledger_that_has_grown_past_the_anchored_entry_is_noticed(lab: Lab, backup: bytes) -> None:
    made(lab, "lost")
    ledger = restore(lab, backup)
    for number in range(20):
        ledger.reserve("people", release=f"r{number}", epsilon="0.1")
    with pytest.raises(LedgerFrozen, match="does not contain"):
        made(lab, "next")


def test_ledger_that_is_lost_and_opened_anew_is_noticed(lab: Lab, backup: bytes) -> None:
    (lab.folder / "ledger.db").unlink()
    lab.__post_init__()
    with pytest.raises(LedgerFrozen):
        made(lab, "kept")
    ledger = lab.ledger()
    mend(lab, ledger)
    assert made(lab, "kept").adopted
    assert ledger.remaining("people").epsilon == 8


def test_role_that_may_not_freeze_the_ledger_is_held_back_all_the_same(
    lab: Lab, backup: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lab, "lost")
    ledger = restore(lab, backup)

    def denied(*args, **kwargs):
        raise LedgerUnavailable("the ledger", "permission denied")

    monkeypatch.setattr(PrivacyLedger, "freeze_forgotten", denied)
    with pytest.raises(LedgerFrozen):
        made(lab, "next")
    assert ledger.frozen() == ""
    assert [charge.release for charge in ledger.history("people")] == ["kept"]


def test_entry_is_anchored_once_whatever_is_retried(lab: Lab) -> None:
    for point in ("before_anchor", "after_anchor", "before_run", "after_run"):
        lab.attempt(point).wait()
    lab.release()
    ledger = lab.ledger()
    [charge] = ledger.history("people")
    entry = ledger.entry(charge.entry)
    assert entry is not None
    assert anchors(lab) == [f"0-999999-{999_999_999_999 - charge.entry:012d}-{entry.hash}"]
    reconcile(lab.output, ledger, actor="dpo")
    assert len(anchors(lab)) == 1


def test_other_accounts_of_a_store_have_anchors_of_their_own(lab: Lab, backup: bytes) -> None:
    """A ledger restored to another account's loss is found out by that account."""
    output = lab.open_account("others", "file:///lake/other", epsilon="10")
    with_others = (lab.folder / "ledger.db").read_bytes()
    table = lab.request.table.model_copy(update={"path": "file:///lake/other"})
    of_others = lab.request.model_copy(update={"account": "others", "table": table, "output": output})
    lab.release(request=of_others, key="lost")
    restore(lab, with_others)
    assert not made(lab, "next").adopted
    with pytest.raises(LedgerFrozen):
        lab.release(request=of_others, key="another")


@pytest.mark.parametrize("known", [True, False])
def test_restored_charge_keeps_its_allotment(lab: Lab, tmp_path: Path, known: bool) -> None:
    ledger = lab.ledger()
    made_before = (lab.folder / "ledger.db").read_bytes()
    ledger.allot("people", "team", epsilon="3")
    backup = (lab.folder / "ledger.db").read_bytes() if known else made_before
    made(lab, "lost", allotment="team")
    ledger = restore(lab, backup)
    ledger.freeze(actor="dba", reason="restored")
    found = reconcile(lab.output, ledger, actor="dpo")
    if not known:
        assert "allotment: got 'team'; must be a sub-budget of account people" in found.findings[0]
        ledger.thaw(actor="dpo", reason="to make it again")
        ledger.allot("people", "team", epsilon="3")
        found = reconcile(lab.output, ledger, actor="dpo")
    assert (len(found.restored), found.findings) == (1, ())
    assert ledger.remaining("people", allotment="team").epsilon == 1
    assert ledger.remaining("people").epsilon == 8
    assert ledger.history("people")[0].allotment == "team"
    assert ledger.verification().findings == ()


def test_given_back_charge_counts_again_where_the_ledger_forgot_that_it_was(lab: Lab, backup: bytes) -> None:
    """Nothing in the store could vouch for it: who owns the store could have put it there."""
    lab.attempt("before_start_run").wait()
    lab.give_back().wait()
    assert lab.ledger().remaining("people").epsilon == 8
    ledger = restore(lab, backup)
    [restored] = reconcile(lab.output, ledger, actor="dpo").restored
    assert ledger.remaining("people").epsilon == 7
    ledger.thaw(actor="dpo", reason="reconciled")
    assert lab.give_back().wait().error is None
    assert ledger.charge(restored).state.value == "burnt"


def test_release_made_after_its_key_was_given_back_is_the_one_that_is_restored(lab: Lab, backup: bytes) -> None:
    lab.attempt("before_start_run").wait()
    lab.give_back().wait()
    published = lab.release()
    ledger = restore(lab, backup)
    found = reconcile(lab.output, ledger, actor="dpo")
    assert (found.restored, found.committed, found.findings) == ((published.charge_id,), (published.charge_id,), ())
    assert ledger.remaining("people").epsilon == 7
    assert reconcile(lab.output, ledger, actor="dpo").restored == ()


def test_store_that_an_earlier_version_wrote_to_is_still_remembered(lab: Lab, backup: bytes) -> None:
    """Its names sort the other way round; the first new one comes before all of them."""
    made(lab, "lost")
    [folder] = Path(lab.output).glob("_ledger/*")
    for path in folder.iterdir():
        _, epoch, seq, digest = path.name.split("-")
        path.rename(folder / f"{999_999 - int(epoch):06d}-{999_999_999_999 - int(seq):012d}-{digest}")
    ledger = restore(lab, backup)
    with pytest.raises(LedgerFrozen):
        made(lab, "next")
    mend(lab, ledger)
    assert not made(lab, "next").adopted
    assert anchors(lab)[0].startswith("0-999998-")


def test_one_page_of_a_listing_is_read_however_many_releases_there_were(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lab, "first")
    monkeypatch.setattr(LocalStore, "names", lambda *_: pytest.fail("the whole folder was listed"))
    first = lambda _, uri: min((path.name for path in local_path(uri).iterdir()), default=None)  # noqa: E731
    monkeypatch.setattr(LocalStore, "first", first)
    made(lab, "second")
    newest = anchors(lab)[0]
    assert newest == min(anchors(lab))
    assert int(newest.split("-")[2]) == 999_999_999_999 - lab.charges()[-1].entry
