"""Releases by roles of the database server that may do their part for one account alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dp_operators.budget import LedgerFrozen, NotAllowed, PrivacyLedger
from dp_operators.budget.tables.grants import grants
from dp_operators.releasing import check_release_folder, reconcile
from tests.support.accounts import open_bound
from tests.support.ledgers import execute
from tests.support.release_lab import TABLE, Lab

pytestmark = pytest.mark.postgres

ROLES = {
    "charger": ("charge", {"account": "people"}),
    "team": ("charge", {"account": "people", "allotment": "team"}),
    "viewer": ("view", {"account": "people"}),
    "dpo": ("administer", {}),
}


@pytest.fixture
def owner(postgres_url: str, lab: Lab) -> Iterator[PrivacyLedger]:
    ledger = PrivacyLedger(postgres_url)
    ledger.migrate()
    ledger.open_account("others", epsilon="10")
    open_bound(ledger, "people", epsilon="10", table=TABLE, output=lab.output)
    ledger.allot("people", "team", epsilon="5")
    for role, (may, of) in ROLES.items():
        execute(postgres_url, f'CREATE ROLE "{role}" LOGIN', *grants(role, may, **of))
    yield ledger
    ledger.close()
    for role in ROLES:
        execute(postgres_url, f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"')


@pytest.fixture
def as_role(owner: PrivacyLedger, postgres_url: str) -> Iterator[dict[str, PrivacyLedger]]:
    ledgers = {role: PrivacyLedger(postgres_url.replace("postgres@", f"{role}@")) for role in ROLES}
    yield ledgers
    for ledger in ledgers.values():
        ledger.close()


@pytest.mark.parametrize(("role", "allotment"), [("charger", None), ("charger", "team"), ("team", "team")])
def test_charger_makes_a_whole_release(
    lab: Lab, owner: PrivacyLedger, as_role: dict[str, PrivacyLedger], role: str, allotment: str | None
) -> None:
    published = lab.release(ledger=as_role[role], allotment=allotment)
    assert lab.release(ledger=as_role[role], allotment=allotment).manifest_sha256 == published.manifest_sha256
    [charge] = owner.history("people")
    assert (charge.state.value, charge.allotment) == ("committed", allotment or "")
    assert charge.drawn_events is not None
    assert owner.verification().findings == ()
    for each in (as_role[role], as_role["viewer"], owner):
        assert check_release_folder(published.uri, each) == ()


@pytest.mark.parametrize(("role", "allotment"), [("viewer", None), ("team", None), ("team", "rivals")])
def test_who_may_not_charge_draws_nothing(
    lab: Lab, owner: PrivacyLedger, as_role: dict[str, PrivacyLedger], role: str, allotment: str | None
) -> None:
    owner.allot("people", "rivals", epsilon="5")
    with pytest.raises(NotAllowed):
        lab.release(ledger=as_role[role], allotment=allotment)
    assert owner.history("people") == ()
    assert not list(lab.root.glob("_draft/*/draw.json"))


def test_receipt_that_tells_of_anothers_entry_is_no_finding(
    lab: Lab, owner: PrivacyLedger, as_role: dict[str, PrivacyLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the commit and the receipt somebody else charges another account: the head is their entry."""
    head = PrivacyLedger.head

    def later(ledger: PrivacyLedger) -> object:
        owner.reserve("others", release="meanwhile", epsilon="1")
        return head(owner)

    monkeypatch.setattr(PrivacyLedger, "head", later)
    published = lab.release(ledger=as_role["charger"])
    monkeypatch.undo()
    assert check_release_folder(published.uri, as_role["charger"]) == ()
    assert check_release_folder(published.uri, owner) == ()


def test_charger_freezes_a_restored_ledger_and_only_an_administrator_thaws_it(
    lab: Lab, owner: PrivacyLedger, as_role: dict[str, PrivacyLedger], postgres_url: str
) -> None:
    lab.release(ledger=as_role["charger"])
    # what a restore from before the release leaves: it loads its rows before there are triggers
    execute(
        postgres_url,
        "SET session_replication_role = replica",
        "DELETE FROM charges",
        "UPDATE block_totals SET epsilon = '0'",
        "UPDATE audit_head SET (seq, previous, hash) = (SELECT seq, previous, hash FROM audit_log WHERE seq = 3)",
        "DELETE FROM audit_log WHERE seq > 3",
    )
    assert owner.verification().findings == ()
    with pytest.raises(LedgerFrozen, match="restored from a backup"):
        lab.release(ledger=as_role["charger"], key="next")
    assert "restored" in owner.frozen()
    # who may charge may also enter what was charged, which only ever adds to what is spent
    assert len(reconcile(lab.output, as_role["charger"], actor="worker").restored) == 1
    with pytest.raises(NotAllowed):
        as_role["charger"].thaw(actor="worker", reason="in a hurry")
    assert "restored" in owner.frozen()
    as_role["dpo"].thaw(actor="dpo", reason="reconciled")
    assert lab.release(ledger=as_role["charger"]).adopted
    assert not lab.release(ledger=as_role["charger"], key="next").adopted
    assert owner.verification().findings == ()
