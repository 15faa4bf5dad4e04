"""Whether requests may declare sizes public is the account's word, given by whoever answers for it."""

from __future__ import annotations

import json

import pytest

from dp_operators.budget import PrivacyLedger
from spark_jobs.contract import RequestRefused
from tests.support.ledgers import execute


def test_account_takes_no_size_for_public_unless_it_is_opened_so(ledger: PrivacyLedger) -> None:
    ledger.open_account("tracts", epsilon="1", neighbours="replace_one")
    ledger.open_account("declared", epsilon="1", neighbours="replace_one", public_sizes=True)
    assert [account.public_sizes for account in ledger.accounts()] == [True, False]
    with pytest.raises(RequestRefused, match="is open already, with another public_sizes"):
        ledger.open_account("tracts", epsilon="1", neighbours="replace_one", public_sizes=True)
    assert ledger.verification().findings == ()


def test_no_size_is_public_where_rows_are_added_and_removed(ledger: PrivacyLedger) -> None:
    with pytest.raises(RequestRefused, match=r"^public_sizes: got True; is for accounts that protect replacements"):
        ledger.open_account("visits", epsilon="1", public_sizes=True)
    ledger.open_account("visits", epsilon="1")
    with pytest.raises(RequestRefused, match=r"^public_sizes: got True; is for accounts that protect replacements"):
        ledger.raise_cap("visits", public_sizes=True, actor="dpo", reason="why")
    assert [entry.action for entry in ledger.log()] == ["opened"]


def test_declaring_sizes_public_is_an_event_with_an_author_and_a_reason(ledger: PrivacyLedger) -> None:
    ledger.open_account("tracts", epsilon="1", neighbours="replace_one")
    ledger.allot("tracts", "team", epsilon="1")
    with pytest.raises(RequestRefused, match=r"^public_sizes: got True; is of a whole account, not of an allotment"):
        ledger.raise_cap("tracts", allotment="team", public_sizes=True, actor="dpo", reason="why")
    with pytest.raises(RequestRefused, match="reason"):
        ledger.raise_cap("tracts", public_sizes=True, actor="dpo", reason="")
    declared = ledger.raise_cap("tracts", public_sizes=True, actor="dpo", reason="the census tells them")
    assert declared == ledger.account("tracts")
    assert ledger.account("tracts").public_sizes
    assert ledger.account("tracts").cap.epsilon == 1
    entry = ledger.log()[-1]
    assert (entry.action, entry.actor, entry.reason) == ("raised", "dpo", "the census tells them")
    assert json.loads(entry.details)["public_sizes"] == 1
    # again, and a raise that says nothing of it, change nothing of it
    ledger.raise_cap("tracts", public_sizes=True, actor="dpo", reason="again")
    assert ledger.log()[-1] == entry
    raised = ledger.raise_cap("tracts", epsilon="2", actor="dpo", reason="more")
    assert raised == ledger.account("tracts")
    assert ledger.account("tracts").public_sizes
    assert ledger.verification().findings == ()


def test_declaration_that_the_log_does_not_know_is_found(ledger: PrivacyLedger, ledger_url: str) -> None:
    ledger.open_account("tracts", epsilon="1", neighbours="replace_one")
    execute(ledger_url, "UPDATE accounts SET public_sizes = 1")
    assert ledger.verification().findings == ("account tracts: public_sizes is 1, the log says 0",)
