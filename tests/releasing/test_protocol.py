"""The protocol, attempt by attempt, in one process."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest

from dp_operators.budget import ChargeConflict, LedgerFrozen, LedgerUnavailable
from dp_operators.releasing import (
    ReleaseDamaged,
    ReleaseFailed,
    ReleaseKey,
    ReleaseRejected,
    ReleaseSettled,
    give_back,
    protocol,
)
from dp_operators.releasing.drafts import sha256
from spark_jobs.contract import RequestRefused
from spark_jobs.contract.stores import LocalStore, open_store
from tests.support import fake_application
from tests.support.release_lab import ForkRunner, judge, make_request, retried


class HereRunner(ForkRunner):
    """Runs the fake application in this very process, with a store of the test's."""

    def __init__(self, behaviour="", store=None):
        super().__init__(behaviour)
        self.store = store

    def run(self, submission, progress):
        self.runs += 1
        fake_application.run(
            request_uri=submission.request_uri,
            charge_id=submission.charge_id,
            key=submission.key,
            output=submission.output,
            store=self.store or open_store(submission.output),
            behaviour=self.behaviour,
        )


class NoRunner(ForkRunner):
    def run(self, submission, progress):
        raise AssertionError("nothing had to be run")


def draft_folder(lab) -> Path:
    return lab.root / "_draft" / lab.charges()[-1].id


def reserved_with(lab, behaviour=""):
    """A first attempt that got as far as its draft, and no further."""

    class Stopped(Exception):
        pass

    def stop(*_):
        raise Stopped

    with pytest.raises(Stopped):
        lab.release(check=stop, runner=HereRunner(behaviour))


def test_release_says_where_it_is_and_what_it_cost(lab):
    published = lab.release(key=ReleaseKey(deployment="prod", dag_id="d", run="r", task_id="t"), runner=HereRunner())
    [charge] = lab.charges()
    assert published.key == "prod/d/r/t/-1" == charge.release
    assert published.uri.startswith(f"{lab.output}/prod-d-r-t-1-")
    assert (published.cost, published.charge_id) == (charge.cost, charge.id)
    assert published.manifest_sha256 == charge.manifest_sha256
    manifest = LocalStore().read(f"{published.uri}/release.json")
    assert sha256(manifest) == published.manifest_sha256
    assert not published.adopted
    judge(lab)


def test_same_release_again_is_found_without_running_anything(lab):
    first = lab.release(runner=HereRunner())
    again = lab.release(runner=NoRunner(), check=None)
    assert again.adopted
    assert (again.uri, again.charge_id, again.manifest_sha256) == (first.uri, first.charge_id, first.manifest_sha256)


def test_same_release_again_is_found_even_if_the_account_could_not_pay_for_it_again(lab):
    lab.release(runner=HereRunner())
    lab.release(key="another", request=make_request(lab.output, budget={"epsilon": "9"}), runner=HereRunner())
    assert lab.release(runner=NoRunner()).adopted


def test_another_request_under_the_same_key_is_refused(lab):
    lab.release(runner=HereRunner())
    with pytest.raises(ChargeConflict):
        lab.release(request=make_request(lab.output, title="another"), runner=NoRunner())
    judge(lab)


@pytest.mark.parametrize("behaviour", ["", "fail"])
def test_another_request_under_the_same_key_is_refused_wherever_it_would_go(lab, behaviour):
    with contextlib.suppress(ReleaseFailed):
        lab.release(runner=HereRunner(behaviour))
    with pytest.raises(ChargeConflict):
        lab.release(request=make_request(f"{lab.folder}/elsewhere"), runner=NoRunner())
    assert not (lab.folder / "elsewhere").exists()


def test_key_of_another_accounts_release_is_refused_before_anything_is_charged(lab):
    table = {"format": "parquet", "path": "/lake/theirs", "snapshot": {"path_version": "v1"}}
    lab.ledger().open_account("others", epsilon=1, tables=["/lake/theirs"])
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))
    with pytest.raises(RequestRefused, match="by a release of another account"):
        lab.release(request=make_request(lab.output, account="others", table=table), runner=NoRunner())
    assert lab.ledger().history("others") == ()


def test_progress_tells_public_steps(lab):
    lines = []
    lab.release(runner=HereRunner(), progress=lines.append)
    [charge] = lab.charges()
    assert lines == [f"charge {charge.id}: reserved epsilon 1 of people", "committed", f"published {lab.root}"]


def test_receipt_holds_the_audit_logs_head_after_the_commit(lab):
    lab.release(runner=HereRunner())
    receipt = json.loads((lab.root / "receipt.json").read_text())
    ledger = lab.ledger()
    entry = ledger.log()[receipt["audit_log"]["seq"] - 1]
    assert entry.hash == receipt["audit_log"]["hash"]
    assert entry.action == "committed"
    assert receipt["charge_id"] == lab.charges()[0].id
    assert receipt["manifest_sha256"] == lab.charges()[0].manifest_sha256


def test_ledger_knows_who_asked(lab):
    lab.release(runner=HereRunner(), actor="airflow:dag.task")
    assert {entry.actor for entry in lab.ledger().log() if entry.charge} == {"airflow:dag.task"}


def test_figures_of_the_account_are_the_first_attempts_for_every_attempt(lab):
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))
    figures = draft_folder(lab) / "account.json"
    before = figures.read_bytes()
    lab.ledger().reserve("people", release="another", epsilon=3)
    lab.release(runner=HereRunner())
    assert figures.read_bytes() == before
    state = json.loads(before)
    assert (state["cap"]["epsilon"], state["spent_before"]["epsilon"], state["remaining"]["epsilon"]) == (
        "10",
        "0",
        "9",
    )


# --- refusals


def test_refused_request_costs_nothing_and_frees_its_key(lab):
    with pytest.raises(RequestRefused) as refused:
        lab.release(runner=HereRunner("refuse"))
    assert str(refused.value) == str(fake_application.REFUSAL)
    assert lab.states() == ["void"]
    assert lab.ledger().remaining("people").epsilon == 10
    judge(lab)
    lab.release(request=make_request(lab.output, title="corrected"), runner=HereRunner())
    assert lab.states() == ["void", "committed"]
    judge(lab)


def test_refusal_that_cannot_be_read_is_told_as_one(lab):
    class Garbled(HereRunner):
        def run(self, submission, progress):
            open_store(lab.output).create(submission.request_uri.replace("request.json", "refusal.json"), b"[")

    with pytest.raises(RequestRefused, match="was refused by the application"):
        lab.release(runner=Garbled())
    assert lab.states() == ["void"]


def test_refusal_after_another_attempt_has_drawn_adopts_its_draw(lab):
    class Overtaken(HereRunner):
        def run(self, submission, progress):
            if self.runs == 0:
                # another attempt draws and dies; then this one's table is gone
                with pytest.raises(ZeroDivisionError):
                    fake_application.run(
                        request_uri=submission.request_uri,
                        charge_id=submission.charge_id,
                        key=submission.key,
                        output=submission.output,
                        store=open_store(submission.output),
                        point=lambda name: 1 / 0 if name == "after_store_draw" else None,
                    )
                uri = submission.request_uri.replace("request.json", "refusal.json")
                open_store(uri).create(uri, json.dumps(fake_application.REFUSAL.to_dict()).encode())
                self.runs += 1
                return
            super().run(submission, progress)

    runner = Overtaken()
    assert lab.release(runner=runner).uri
    assert runner.runs == 2
    assert lab.states() == ["committed"]
    judge(lab)


# --- failures


def test_failed_application_keeps_its_reservation_for_the_retry(lab):
    with pytest.raises(ReleaseFailed) as failed:
        lab.release(runner=HereRunner("fail"))
    assert failed.value.retryable
    assert lab.states() == ["reserved"]
    judge(lab)
    lab.release(runner=HereRunner())
    assert lab.states() == ["committed"]


def test_application_that_cannot_be_started_keeps_its_reservation(lab):
    class Missing(HereRunner):
        def run(self, submission, progress):
            raise FileNotFoundError("python")

    with pytest.raises(ReleaseFailed, match="could not be run"):
        lab.release(runner=Missing())
    assert lab.states() == ["reserved"]


def test_failed_check_publishes_nothing_and_is_checked_again_on_a_retry_without_a_run(lab):
    class Broken(ReleaseRejected):
        pass

    def check(release, read):
        raise Broken("tpr falls")

    for runner in (HereRunner(), NoRunner()):
        with pytest.raises(Broken) as broken:
            lab.release(check=check, runner=runner)
        assert not broken.value.retryable
        assert lab.states() == ["reserved"]
        assert not (lab.root / "release.json").exists()
    lab.release(runner=NoRunner())
    judge(lab)


def test_check_sees_the_manifest_and_every_file(lab):
    seen = {}

    def check(release, read):
        seen.update({file.name: read(file.name) for file in release.files}, missing=read("no-such-file"))

    lab.release(check=check, runner=HereRunner())
    assert set(seen) == {"report.html", "data/curve.csv", "missing"}
    assert seen["missing"] is None
    assert all(sha256(seen[name]) for name in ("report.html", "data/curve.csv"))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("charge_id", "another", "its charge"),
        ("status", "UNCHARGED", "its charge"),
        ("key", "another", "its key"),
        ("request_sha256", "0" * 64, "its request"),
        ("neighbours", "replace_one", "its relation"),
        ("unit", {"column": "person", "max_rows": 2}, "its unit"),
        ("cost", {"epsilon": "1.000001", "delta": "0"}, "its cost"),
        ("cost", {"epsilon": "1", "delta": "0.1"}, "its cost"),
        ("guarantee", "NOT PRIVATE", "not private"),
    ],
)
def test_draft_that_the_charge_does_not_pay_for_is_never_committed(lab, field, value, words):
    class Forged(HereRunner):
        def run(self, submission, progress):
            super().run(submission, progress)
            [manifest] = lab.root.glob("_draft/*/release.json")
            fields = json.loads(manifest.read_text())
            manifest.write_text(json.dumps({**fields, field: value}))

    with pytest.raises(ReleaseRejected, match=words):
        lab.release(runner=Forged())
    assert lab.states() == ["reserved"]
    assert not (lab.root / "release.json").exists()


# --- damage


def test_draft_file_that_was_changed_is_never_published(lab):
    reserved_with(lab)
    (draft_folder(lab) / "files" / "report.html").write_text("changed")
    with pytest.raises(ReleaseDamaged, match="not what its manifest says"):
        lab.release(runner=NoRunner())
    assert lab.states() == ["reserved"]


@pytest.mark.parametrize("content", ["", "{}", '{"files": []}'])
def test_draft_manifest_that_is_none_is_never_published(lab, content):
    reserved_with(lab)
    (draft_folder(lab) / "release.json").write_text(content)
    with pytest.raises(ReleaseDamaged, match="is not a manifest"):
        lab.release(runner=NoRunner())


def test_draft_that_names_a_file_of_the_protocols_own_is_never_published(lab):
    reserved_with(lab)
    manifest = draft_folder(lab) / "release.json"
    manifest.write_text(manifest.read_text().replace("report.html", "../release.json"))
    with pytest.raises(ReleaseDamaged, match="is not a manifest"):
        lab.release(runner=NoRunner())


def committed_unseen(lab) -> None:
    """A release that was committed and whose attempt died before anything was visible."""
    lab.attempt("after_commit").wait()
    assert lab.states() == ["committed"]


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
    manifest = draft_folder(lab) / "release.json"
    manifest.write_text(manifest.read_text().replace("A statement.", "Another statement."))
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
    with pytest.raises(ReleaseDamaged, match="holds something else"):
        lab.release(runner=NoRunner())
    assert (lab.root / "report.html").read_text() == "somebody else's"
    assert not (lab.root / "release.json").exists()


def test_visible_release_that_the_ledger_has_forgotten_is_not_drawn_again(lab):
    lab.release(runner=HereRunner())
    (lab.folder / "ledger.db").unlink()
    lab.__post_init__()
    with pytest.raises(LedgerFrozen, match="remembers an entry"):
        lab.release(runner=NoRunner())
    lab.ledger().thaw(actor="dba", reason="tests")
    shutil.rmtree(f"{lab.output}/_ledger")
    with pytest.raises(ReleaseDamaged, match="knows of no charge"):
        lab.release(runner=NoRunner())
    assert lab.states() == []


def test_retry_that_looks_at_another_disk_is_refused_and_draws_nothing(lab):
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))
    Path(lab.output).rename(f"{lab.folder}/the-other-machines-disk")
    with pytest.raises(RequestRefused, match="must be the store in which this release began"):
        lab.release(runner=NoRunner())
    with pytest.raises(RequestRefused, match="must be the store in which this release began"):
        give_back(lab.request, ledger=lab.ledger(), key=lab.key, reason="tests")
    assert lab.states() == ["reserved"]


# --- giving back


def test_giving_back_frees_what_was_not_drawn(lab):
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))
    charge = give_back(lab.request, ledger=lab.ledger(), key=lab.key, reason="not needed", actor="admin")
    assert charge.state == "void"
    assert lab.ledger().remaining("people").epsilon == 10
    last = lab.ledger().log()[-1]
    assert (last.action, last.actor, last.reason) == ("void", "admin", "not needed")
    judge(lab)


def test_giving_back_burns_what_was_drawn(lab):
    reserved_with(lab)
    assert give_back(lab.request, ledger=lab.ledger(), key=lab.key, reason="tests").state == "burnt"
    assert lab.ledger().remaining("people").epsilon == 9
    with pytest.raises(ReleaseSettled, match="another key"):
        lab.release(runner=NoRunner())
    judge(lab)


def test_giving_back_what_is_settled_changes_nothing(lab):
    lab.release(runner=HereRunner())
    head = lab.ledger().head()
    assert give_back(lab.request, ledger=lab.ledger(), key=lab.key, reason="tests").state == "committed"
    assert lab.ledger().head() == head


@pytest.mark.parametrize("other", ["key", "request"])
def test_giving_back_needs_the_very_request_and_key(lab, other):
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))
    request = make_request(f"{lab.folder}/elsewhere") if other == "request" else lab.request
    with pytest.raises(RequestRefused, match="key"):
        give_back(request, ledger=lab.ledger(), key="other" if other == "key" else lab.key, reason="tests")
    assert lab.states() == ["reserved"]


# --- stores and ledgers that fail


class Faulty:
    """A store whose n-th call fails: before it did anything, after, or with its answer lost on the way."""

    def __init__(self, store, nth, how):
        self.store, self.left, self.how = store, nth, how

    def _call(self, work, lost):
        self.left -= 1
        if self.left:
            return work()
        if self.how == "before":
            raise TimeoutError("no answer")
        answer = work()
        if self.how == "after":
            raise TimeoutError("no answer")
        return lost(answer)

    def create(self, uri, content):
        # a client that repeats a request whose answer was lost finds its own object
        return self._call(lambda: self.store.create(uri, content), lambda answer: False)

    def read(self, uri):
        return self._call(lambda: self.store.read(uri), lambda answer: answer)

    def names(self, uri):
        return self._call(lambda: list(self.store.names(uri)), lambda answer: answer)


@pytest.mark.parametrize("how", ["before", "after", "lost"])
def test_store_that_fails_at_any_call_loses_nothing(lab, monkeypatch, how):
    for nth in range(1, 60):
        store = Faulty(LocalStore(), nth, how)
        monkeypatch.setattr(protocol, "open_store", lambda uri, store=store: store)
        key = f"release-{nth}"
        request = make_request(lab.output, budget={"epsilon": "0.1"})
        try:
            published = lab.release(key=key, request=request, runner=HereRunner(store=store))
        except ReleaseFailed:
            assert how != "lost"
            monkeypatch.setattr(protocol, "open_store", open_store)
            published = lab.release(key=key, request=request, runner=HereRunner())
        assert published.uri
        if store.left > 0:
            break
    else:
        raise AssertionError("a release makes fewer calls than this")
    judge(lab)
    assert lab.states() == ["committed"] * nth
    assert nth > 20


class FaultyLedger:
    """A ledger whose n-th call fails, before it did anything or after."""

    def __init__(self, ledger, nth, how):
        self._ledger, self.left, self._how = ledger, nth, how

    def __getattr__(self, name):
        method = getattr(self._ledger, name)

        def call(*args, **kwargs):
            self.left -= 1
            if self.left == 0 and self._how == "before":
                raise LedgerUnavailable("sqlite", "locked")
            answer = method(*args, **kwargs)
            if self.left == 0:
                raise LedgerUnavailable("sqlite", "locked")
            return answer

        return call


@pytest.mark.parametrize("behaviour", ["", "refuse"])
@pytest.mark.parametrize("how", ["before", "after"])
def test_ledger_that_fails_at_any_call_loses_nothing(lab, how, behaviour):
    for nth in range(1, 30):
        key = f"release-{nth}"
        request = make_request(lab.output, budget={"epsilon": "0.1"})
        ledger = FaultyLedger(lab.ledger(), nth, how)
        try:
            lab.release(key=key, request=request, ledger=ledger, runner=HereRunner(behaviour))
        except LedgerUnavailable:
            assert lab.release(key=key, request=request, runner=HereRunner()).uri
        except RequestRefused:
            assert behaviour == "refuse"
        if ledger.left > 0:
            break
    else:
        raise AssertionError("a release makes fewer calls than this")
    judge(lab)
    assert nth > 6
    assert lab.states().count("committed") == (nth if behaviour == "" else nth - 1)


def test_read_only_store_after_the_reservation_fails_and_is_retried(lab, monkeypatch):
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))

    def read_only(*_):
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "create", read_only)
        with pytest.raises(ReleaseFailed, match="OSError"):
            lab.release(runner=HereRunner())
        assert lab.states() == ["reserved"]
    assert retried(lab)
    judge(lab)
