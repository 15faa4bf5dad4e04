"""An account says what its tables are and where its releases may go, and keeps public lists of keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dp_operators.budget import LedgerFrozen, PrivacyLedger
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.binding import TableBinding
from tests.support.ledgers import tamper

VISITS = {
    "table": "file:///lake/visits",
    "format": "parquet",
    "columns": [{"name": "id", "type": "bigint"}, {"name": "at", "type": "date"}],
    "version": {"by": "path_version"},
}
BINDING = TableBinding.parse(VISITS)
WHO = {"actor": "admin", "reason": "the lake's schema"}


def fields(binding: TableBinding) -> dict[str, Any]:
    return json.loads(json.dumps(binding.model_dump(mode="json")))


@pytest.fixture
def opened(ledger: PrivacyLedger) -> PrivacyLedger:
    ledger.open_account("visits", epsilon="1", tables=[BINDING], outputs=["/srv/releases/"], actor="admin")
    ledger.open_account("others", epsilon="1", tables=["/lake/others"], actor="admin")
    return ledger


def test_account_is_opened_with_what_its_tables_are(opened: PrivacyLedger) -> None:
    account = opened.account("visits")
    assert account.tables == ("file:///lake/visits",)
    assert account.bindings == {"file:///lake/visits": fields(BINDING)}
    assert TableBinding.parse(account.bindings["file:///lake/visits"]) == BINDING
    assert account.outputs == ("file:///srv/releases",)
    assert opened.account_for_table("/lake/visits") == account
    assert opened.account("others").bindings == {}
    assert opened.verification().findings == ()
    # and the same account again is found
    again = opened.open_account("visits", epsilon="1", tables=[BINDING], outputs=["/srv/releases"])
    assert again == opened.open_account("visits", epsilon="1", tables=["/lake/visits"]) == account
    assert len(opened.log()) == 2


def test_account_opened_earlier_is_bound_later_and_never_otherwise(opened: PrivacyLedger) -> None:
    binding = {**VISITS, "table": "/lake/others"}
    bound = opened.bind_table("others", binding, **WHO)
    assert bound == opened.account("others") == opened.bind_table("others", binding, **WHO)
    assert bound.bindings["file:///lake/others"]["columns"] == VISITS["columns"]
    assert [entry.action for entry in opened.log("others")] == ["opened", "table bound"]
    head = opened.head()
    for other in ({"columns": VISITS["columns"][:1]}, {"format": "csv"}, {"version": {"by": "partition"}}):
        with pytest.raises(InvalidRequest, match="cannot name|must match|may gain columns|version.columns: must list"):
            opened.bind_table("others", {**binding, **other}, **WHO)
    assert opened.head() == head
    assert opened.verification().findings == ()


def test_table_of_another_account_is_not_bound(opened: PrivacyLedger) -> None:
    head = opened.head()
    for table in ("/lake/visits", "/lake/visits/part", "/lake"):
        with pytest.raises(InvalidRequest, match="is bound to account|must not contain, or lie within, table"):
            opened.bind_table("others", {**VISITS, "table": table}, **WHO)
    assert opened.head() == head
    opened.bind_table("others", {**VISITS, "table": "/lake/more"}, **WHO)
    assert opened.account("others").tables == ("file:///lake/more", "file:///lake/others")
    assert opened.verification().findings == ()


NO_TERMS = {
    "a unit without a column": (
        {"unit": {"column": "person"}},
        "unit.column: got 'person'; must be a column of the bound",
    ),
    "blocks without a column": ({"blocks": "day(seen_at)"}, "blocks: got 'seen_at'; must be a column of the bound"),
    "days of whole numbers": ({"blocks": "day(id)"}, "blocks: got .*; must use a column of type .*, not bigint"),
}


@pytest.mark.parametrize(("terms", "message"), NO_TERMS.values(), ids=NO_TERMS)
def test_table_has_the_columns_of_its_account(opened: PrivacyLedger, terms: dict[str, Any], message: str) -> None:
    """When an account is opened, and when a table of one that is open is described."""
    binding = {**VISITS, "table": "/lake/new"}
    head = opened.head()
    with pytest.raises(InvalidRequest, match=message):
        opened.open_account("new", epsilon="1", tables=[binding], actor="admin", **terms)
    assert (opened.head(), [account.name for account in opened.accounts()]) == (head, ["others", "visits"])
    opened.open_account("new", epsilon="1", tables=["/lake/new"], actor="admin", **terms)
    head = opened.head()
    with pytest.raises(InvalidRequest, match=message):
        opened.bind_table("new", binding, **WHO)
    assert (opened.head(), opened.account("new").bindings) == (head, {})
    assert opened.verification().findings == ()


def test_outputs_are_bound_and_bound_anew(opened: PrivacyLedger) -> None:
    account = opened.bind_outputs("others", ["s3a://bucket/b", "/srv/others"], **WHO)
    assert account.outputs == ("file:///srv/others", "s3://bucket/b")
    assert account == opened.account("others") == opened.bind_outputs("others", account.outputs, **WHO)
    assert opened.bind_outputs("others", ["/srv/others"], **WHO).outputs == ("file:///srv/others",)
    assert [entry.action for entry in opened.log("others")] == ["opened", "outputs bound", "outputs bound"]
    with pytest.raises(InvalidRequest, match="reason"):
        opened.bind_outputs("others", ["/srv"], actor="admin", reason="")
    assert opened.verification().findings == ()


def test_keys_are_registered_by_their_content(opened: PrivacyLedger) -> None:
    keys = opened.register_keys("visits", "wards", ["north", "south", 3], actor="admin")
    assert (keys.keys, len(keys.sha256), keys.registered_by) == (("north", "south", 3), 64, "admin")
    assert opened.key_list("visits", "wards") == keys
    assert opened.register_keys("visits", "wards", ["north", "south", 3], actor="another") == keys
    assert opened.key_lists("others") == ()
    head = opened.head()
    with pytest.raises(InvalidRequest, match="name: got 'wards'; is registered for account visits with other keys"):
        opened.register_keys("visits", "wards", ["north"], actor="admin")
    for bad in ([], [1.5], ["a", "a"]):
        with pytest.raises(InvalidRequest, match="keys: must be"):
            opened.register_keys("visits", "more", bad, actor="admin")
    with pytest.raises(InvalidRequest, match="must be a list of keys that is registered for account others"):
        opened.key_list("others", "wards")
    assert opened.head() == head
    assert opened.verification().findings == ()


REGIONS = {"name": "regions", "key": "ward", "value": "region", "entries": [["w1", "north"], ["w2", "south"]]}


def test_lookups_are_registered_by_their_content_beside_lists(opened: PrivacyLedger) -> None:
    opened.register_keys("visits", "wards", ["north", "south"], actor="admin")
    registered = opened.register_lookup("visits", REGIONS, actor="admin")
    assert (registered.lookup.levels, registered.registered_by) == (("north", "south"), "admin")
    assert opened.lookup("visits", "regions") == registered
    given = {**REGIONS, "sha256": registered.lookup.sha256}
    assert opened.register_lookup("visits", given, actor="another") == registered
    assert opened.log("visits")[-1].action == "keys registered"
    assert json.loads(opened.log("visits")[-1].details) == {"name": "regions", "sha256": registered.lookup.sha256}
    assert [keys.name for keys in opened.key_lists("visits")] == ["wards"], "a lookup is no list of keys"
    assert opened.lookups("others") == ()
    entries = len(opened.log("visits"))
    for bad, line in (
        ({"entries": [["w1", "south"]]}, "name: got 'regions'; is registered for account visits with other entries"),
        ({"name": "wards"}, "name: got 'wards'; is registered for account visits with other entries"),
        ({"name": "more", "entries": [["w1", "a"], ["w1", "b"]]}, "must have one row for each key"),
        ({"name": "more", "sha256": "0" * 64}, "must be the hash of the lookup's content"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            opened.register_lookup("visits", {**REGIONS, **bad}, actor="admin")
        assert line in str(refused.value)
    with pytest.raises(InvalidRequest, match="name: got 'regions'; is registered for account visits with other keys"):
        opened.register_keys("visits", "regions", ["w1"], actor="admin")
    with pytest.raises(InvalidRequest, match="must be a public lookup that is registered for account others"):
        opened.lookup("others", "regions")
    with pytest.raises(InvalidRequest, match="must be a list of keys that is registered for account visits"):
        opened.key_list("visits", "regions")
    assert len(opened.log("visits")) == entries
    opened.freeze(reason="it was restored")
    with pytest.raises(LedgerFrozen):
        opened.register_lookup("visits", {**REGIONS, "name": "more"}, actor="admin")
    opened.thaw(actor="admin", reason="it is whole")
    assert opened.lookups("visits") == (registered,)
    assert opened.verification().findings == ()


def test_the_log_says_which_lookup_was_registered(opened: PrivacyLedger, ledger_url: str) -> None:
    opened.register_lookup("visits", REGIONS, actor="admin")
    tamper(ledger_url, "UPDATE key_lists SET keys = replace(keys, 'south', 'north')")
    [found] = opened.verification().findings
    assert "keys visits, regions: are other keys than those that were registered" in found
    with pytest.raises(InvalidRequest, match="must be the hash of the lookup's content"):
        opened.lookup("visits", "regions")


TAMPERING = [
    ("UPDATE account_tables SET binding = NULL WHERE account = 'visits'", "table file:///lake/visits: binding is None"),
    ("UPDATE accounts SET outputs = '[]' WHERE name = 'visits'", "account visits: outputs is []"),
    ("UPDATE key_lists SET keys = '[\"x\"]'", "keys visits, wards: are other keys than those that were registered"),
    ("DELETE FROM key_lists", "keys visits, wards: is missing"),
]


@pytest.mark.parametrize(("tampering", "finding"), TAMPERING)
def test_log_says_what_was_bound(opened: PrivacyLedger, ledger_url: str, tampering: str, finding: str) -> None:
    opened.register_keys("visits", "wards", ["north", "south"], actor="admin")
    tamper(ledger_url, tampering)
    [found] = opened.verification().findings
    assert finding in found
