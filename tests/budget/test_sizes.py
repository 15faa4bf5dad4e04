"""Which columns are public is the account's word, given by whoever answers for it, and never taken back."""

from __future__ import annotations

import json

import pytest

from dp_operators.budget import PrivacyLedger
from spark_jobs.contract import InvalidRequest
from tests.support.accounts import bound
from tests.support.ledgers import execute

TABLE = "file:///lake/tracts"


def test_public_columns_are_declared_with_an_author_and_a_reason_and_stay(ledger: PrivacyLedger) -> None:
    ledger.open_account("tracts", epsilon="1", neighbours="replace_one", tables=[bound(TABLE)])
    with pytest.raises(InvalidRequest, match="reason"):
        ledger.bind_table("tracts", bound(TABLE, public=["tract"]), actor="dpo", reason="")
    declared = ledger.bind_table("tracts", bound(TABLE, public=["tract"]), actor="dpo", reason="the census tells them")
    assert declared == ledger.account("tracts")
    assert declared.bindings[TABLE]["public_columns"] == ["tract"]
    entry = ledger.log()[-1]
    assert (entry.action, entry.actor, entry.reason) == ("table bound", "dpo", "the census tells them")
    assert json.loads(entry.details)["binding"]["public_columns"] == ["tract"]
    with pytest.raises(InvalidRequest, match=r"^binding: .* may gain columns, public columns"):
        ledger.bind_table("tracts", bound(TABLE, public=["region"]), actor="dpo", reason="tracts are secret again")
    # a cap that is raised says nothing of it
    raised = ledger.raise_cap("tracts", epsilon="2", actor="dpo", reason="more")
    assert raised.bindings == declared.bindings
    assert ledger.verification().findings == ()


def test_declaration_that_the_log_does_not_know_is_found(ledger: PrivacyLedger, ledger_url: str) -> None:
    ledger.open_account("tracts", epsilon="1", neighbours="replace_one")
    execute(ledger_url, "UPDATE accounts SET public_sizes = 1")
    assert ledger.verification().findings == ("account tracts: public_sizes is 1, the log says 0",)
