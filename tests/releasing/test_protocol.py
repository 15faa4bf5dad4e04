"""The protocol, attempt by attempt, in one process."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from dp_operators.budget import ChargeConflict
from dp_operators.releasing import ReleaseFailed, ReleaseKey
from dp_operators.releasing.reservations import claim
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.account import AccountState
from spark_jobs.contract.store.objects import LocalStore, open_store
from spark_jobs.contract.store.sealing import sha256
from tests.support.release_lab import HereRunner, NoRunner, draft_folder, judge, make_request, seal_of


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
    elsewhere = f"{lab.folder}/elsewhere"
    lab.ledger().bind_outputs("people", [lab.output, elsewhere], actor="admin", reason="a second disk")
    with pytest.raises(ChargeConflict):
        lab.release(request=make_request(elsewhere), runner=NoRunner())
    assert not (lab.folder / "elsewhere").exists()


def test_no_account_can_take_the_release_key_of_another(lab):
    """Whoever could write a claim into another account's folder would keep a scheduled task from its release."""
    table = {"path": "/lake/theirs", "snapshot": {"path_version": "v1"}}
    theirs = lab.open_account("others", "/lake/theirs")
    before = lab.ledger().head()
    for output in (lab.output, f"{lab.output}/below", str(lab.folder)):
        request = make_request(output, account="others", table=table)
        with pytest.raises(InvalidRequest, match=r"^output: .* must lie within a folder of account others"):
            lab.release(request=request, runner=NoRunner())
    assert lab.ledger().head() == before
    assert not Path(lab.output).exists()
    # the same key in their own folder is another release
    made = lab.release(request=make_request(theirs, account="others", table=table), runner=HereRunner())
    ours = lab.release(runner=HereRunner())
    assert made.key == ours.key
    assert made.uri != ours.uri
    assert [len(lab.ledger().history(name)) for name in ("people", "others")] == [1, 1]


def test_key_that_is_claimed_for_another_account_is_refused_before_anything_is_charged(lab):
    """As in a folder that was another account's once."""
    claim(open_store(lab.output), lab.output, lab.key, "others")
    with pytest.raises(InvalidRequest, match="by a release of another account"):
        lab.release(runner=NoRunner())
    assert lab.charges() == ()


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


@pytest.mark.slow
def test_figures_of_the_account_are_the_first_attempts_for_every_attempt(lab):
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))
    figures = draft_folder(lab) / "account.json"
    before = figures.read_bytes()
    lab.ledger().reserve("people", release="another", epsilon=3)
    lab.release(runner=HereRunner())
    assert figures.read_bytes() == before
    assert b"spent_before" not in before
    state = AccountState.opened(before, seal_of(lab, lab.charges()[0]))
    assert (state.cap.epsilon, state.spent_before.epsilon, state.remaining.epsilon) == (10, 0, 9)
    assert '"spent_before"' in (lab.root / "data" / "curve.csv").read_text()
