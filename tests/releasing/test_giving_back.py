"""A reservation that is given back: free again where nothing was drawn, spent where something was."""

from __future__ import annotations

import pytest

from dp_operators.releasing import ChargedRequest, ReleaseClosed, ReleaseFailed, give_back
from spark_jobs.contract import InvalidRequest
from tests.support.release_lab import HereRunner, NoRunner, judge, make_request, reserved_with


@pytest.mark.parametrize("behaviour", ["never started", "fail early"])
def test_giving_back_frees_what_no_row_was_read_for(lab, behaviour):
    if behaviour == "never started":
        lab.attempt("before_start_run").wait()
    else:
        with pytest.raises(ReleaseFailed):
            lab.release(runner=HereRunner(behaviour))
    charge = give_back(ChargedRequest.of(lab.request, lab.ledger(), lab.key), reason="not needed", actor="admin")
    assert charge.state == "void"
    assert lab.ledger().remaining("people").epsilon == 10
    last = lab.ledger().log()[-1]
    assert (last.action, last.actor, last.reason) == ("void", "admin", "not needed")
    judge(lab)


def test_giving_back_burns_what_was_drawn(lab):
    reserved_with(lab)
    assert give_back(ChargedRequest.of(lab.request, lab.ledger(), lab.key), reason="tests").state == "burnt"
    assert lab.ledger().remaining("people").epsilon == 9
    with pytest.raises(ReleaseClosed, match="another key"):
        lab.release(runner=NoRunner())
    judge(lab)


def test_failure_after_the_first_row_is_paid_for(lab):
    """That there was one is an answer about the rows: it costs what any answer costs."""
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))
    assert give_back(ChargedRequest.of(lab.request, lab.ledger(), lab.key), reason="tests").state == "burnt"
    assert lab.ledger().remaining("people").epsilon == 9
    judge(lab)


def test_giving_back_what_is_settled_changes_nothing(lab):
    lab.release(runner=HereRunner())
    head = lab.ledger().head()
    assert give_back(ChargedRequest.of(lab.request, lab.ledger(), lab.key), reason="tests").state == "committed"
    assert lab.ledger().head() == head


@pytest.mark.parametrize("other", ["key", "request"])
def test_giving_back_needs_the_very_request_and_key(lab, other):
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))
    request = make_request(f"{lab.folder}/elsewhere") if other == "request" else lab.request
    with pytest.raises(InvalidRequest, match="key"):
        give_back(ChargedRequest.of(request, lab.ledger(), "other" if other == "key" else lab.key), reason="tests")
    assert lab.states() == ["reserved"]
