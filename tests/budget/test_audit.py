"""The audit log holds every change, and nothing in the ledger can differ from it unnoticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime

import pytest
from sqlalchemy import create_engine, select, update

from dp_operators.budget import Head, PrivacyLedger
from dp_operators.budget.tables.audit import GENESIS, broken_links, entry_hash
from dp_operators.budget.tables.schema import audit_log
from dp_operators.budget.transactions.verification import verify
from tests.support.ledgers import commit, execute


@pytest.fixture
def busy(ledger: PrivacyLedger) -> PrivacyLedger:
    """A ledger in which everything has happened once."""
    ledger.open_account("visits", epsilon="1", tables=["/lake/visits"], actor="admin")
    ledger.open_account("others", epsilon="2", tables=["/lake/others"], actor="admin")
    charges = [
        ledger.reserve("visits", release=f"r{number}", epsilon="0.125", request_sha256="ab", actor="dag/task")
        for number in range(3)
    ]
    ledger.allot("visits", "team", epsilon="0.5", actor="admin", reason="theirs")
    ledger.reserve("visits", release="r3", epsilon="0.125", request_sha256="ab", allotment="team", actor="dag/task")
    commit(ledger, charges[0].id, "cd", actor="dag/task")
    ledger.burn(charges[1].id, actor="dag/task", reason="the draft was rejected")
    ledger.void(charges[2].id, actor="admin", reason="given up")
    return ledger


def test_log_says_who_did_what_when_and_why(busy: PrivacyLedger) -> None:
    before, log = datetime.now(UTC), busy.log()
    assert [(entry.seq, entry.action, entry.account, entry.actor) for entry in log] == [
        (1, "opened", "visits", "admin"),
        (2, "opened", "others", "admin"),
        (3, "reserved", "visits", "dag/task"),
        (4, "reserved", "visits", "dag/task"),
        (5, "reserved", "visits", "dag/task"),
        (6, "allotted", "visits", "admin"),
        (7, "reserved", "visits", "dag/task"),
        (8, "draw recorded", "visits", ""),
        (9, "committed", "visits", "dag/task"),
        (10, "burnt", "visits", "dag/task"),
        (11, "void", "visits", "admin"),
    ]
    assert [entry.reason for entry in log[8:]] == ["", "the draft was rejected", "given up"]
    assert [entry.charge for entry in log[8:]] == [entry.charge for entry in log[2:5]]
    assert all(0 <= (before - datetime.fromisoformat(entry.at)).total_seconds() < 60 for entry in log)
    assert busy.log("others") == log[1:2]
    assert busy.log("nobody") == ()
    assert [charge.entry for charge in busy.history("visits")] == [3, 4, 5, 7]


def test_log_is_a_chain_that_anybody_can_check(busy: PrivacyLedger) -> None:
    """Checked here by the words of the documentation alone."""
    previous = "0" * 64
    for entry in busy.log():
        fields = {name: value for name, value in asdict(entry).items() if name != "hash"}
        assert fields["previous"] == previous
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(text.encode("ascii")).hexdigest()
        assert entry.hash == previous
    assert busy.head() == Head(seq=11, hash=previous)


def test_empty_log_is_whole(ledger: PrivacyLedger) -> None:
    assert ledger.head() == Head(seq=0, hash=GENESIS)
    assert ledger.verify()


def test_refused_calls_leave_no_trace(busy: PrivacyLedger) -> None:
    head = busy.head()
    for call in (
        lambda: busy.reserve("visits", release="more", epsilon=5),
        lambda: busy.reserve("visits", release="r0", epsilon="0.5"),
        lambda: busy.open_account("third", epsilon=1, tables=["/lake/others"]),
        lambda: busy.void(busy.history("visits")[0].id),
    ):
        with pytest.raises(ValueError, match=";"):
            call()
    assert busy.head() == head


ENTRY_COLUMNS = ["at", "actor", "action", "account", "charge", "reason", "details", "previous", "hash"]
TAMPERING = {
    **{
        f"one character of an entry's {column}": (
            f"UPDATE audit_log SET {column} = 'x' || substr({column}, 2) WHERE seq = 8",
            "entry 8: has been altered",
        )
        for column in ENTRY_COLUMNS
    },
    "an entry's number": ("UPDATE audit_log SET seq = 90 WHERE seq = 8", "entry 8: is missing"),
    "an entry is gone": ("DELETE FROM audit_log WHERE seq = 8", "entry 8: is missing; the next is 9"),
    "the first entry is gone": ("DELETE FROM audit_log WHERE seq = 1", "entry 1: is missing; the next is 2"),
    "the tail is cut": ("DELETE FROM audit_log WHERE seq = 11", "the head is at entry 11, but the log ends"),
    "the log is empty": ("DELETE FROM audit_log", "the head is at entry 11, but the log ends"),
    "the head's number": ("UPDATE audit_head SET seq = 12", "the head is at entry 12"),
    "the head's hash": ("UPDATE audit_head SET hash = 'x'", "the head is at entry 11, but the log ends"),
    "a charge's state": (
        "UPDATE charges SET state = 'committed' WHERE release_key = 'r1'",
        "state is committed, the log says burnt",
    ),
    "a charge's cost": ("UPDATE charges SET epsilon = '0.1' WHERE release_key = 'r0'", "epsilon is 0.1, the log says"),
    "a cost's spelling": ("UPDATE charges SET epsilon = '0.1250' WHERE release_key = 'r0'", "the log says 0.125"),
    "a charge's manifest": ("UPDATE charges SET manifest_sha256 = 'ee' WHERE release_key = 'r0'", "the log says cd"),
    "what a charge drew": (
        "UPDATE charges SET drawn_events = '[]' WHERE release_key = 'r0'",
        "drawn_events is [], the log says None",
    ),
    "what a release found": (
        "UPDATE charges SET figures = '[]' WHERE release_key = 'r0'",
        "figures is [], the log says None",
    ),
    "a charge's request": ("UPDATE charges SET request_sha256 = 'ee' WHERE release_key = 'r0'", "the log says ab"),
    "a charge's account": ("UPDATE charges SET account = 'others' WHERE release_key = 'r0'", "the log says visits"),
    "a charge is gone": ("DELETE FROM charges WHERE release_key = 'r3'", ": is missing"),
    "a total": ("UPDATE block_totals SET epsilon = '0' WHERE account = 'visits'", "epsilon is 0, the log says 0.375"),
    "a cap": ("UPDATE accounts SET epsilon = '100' WHERE name = 'visits'", "epsilon is 100, the log says 1"),
    "a relation": ("UPDATE accounts SET neighbours = 'replace_one' WHERE name = 'visits'", "the log says add_remove"),
    "a binding": ("UPDATE account_tables SET account = 'others'", "account is others, the log says visits"),
    "a table is unbound": ("DELETE FROM account_tables", "table file:///lake/visits: is missing"),
    "a block expression": (
        "UPDATE accounts SET blocks = '{}' WHERE name = 'others'",
        "blocks is {}, the log says None",
    ),
    "a unit that stays": (
        "UPDATE accounts SET unit_stays = 0 WHERE name = 'visits'",
        "unit_stays is 0, the log says 1",
    ),
    "an allotment's cap": (
        "UPDATE allotments SET epsilon = '9'",
        "sub-budget visits, team: epsilon is 9, the log says",
    ),
    "an allotment is gone": ("DELETE FROM allotments", "sub-budget visits, team: is missing"),
    "an allotment's total": (
        "UPDATE block_totals SET epsilon = '0' WHERE allotment = 'team'",
        "total visits, team, all: epsilon is 0, the log says 0.125",
    ),
    "a charge's allotment": ("UPDATE charges SET allotment = '' WHERE release_key = 'r3'", "the log says team"),
    "a ledger is thawed": ("UPDATE audit_head SET frozen = 'x'", "the ledger is frozen: x, the log says no"),
    "a table is slipped in": ("INSERT INTO account_tables VALUES ('file:///x', 'visits', NULL)", "is not in the log"),
}


@pytest.mark.sampled("statement", "ledger_url")
@pytest.mark.slow
@pytest.mark.parametrize(("statement", "finding"), TAMPERING.values(), ids=list(TAMPERING))
def test_tampering_is_found_and_named(busy: PrivacyLedger, ledger_url: str, statement: str, finding: str) -> None:
    assert busy.verification().findings == ()
    # who owns a server can leave out what guards the totals
    execute(ledger_url, *(["SET session_replication_role = replica"] if "postgres" in ledger_url else []), statement)
    assert not busy.verify()
    assert any(finding in found for found in busy.verification().findings), busy.verification().findings


def test_two_entries_that_change_places_are_found(busy: PrivacyLedger, ledger_url: str) -> None:
    execute(
        ledger_url,
        "UPDATE audit_log SET seq = 0 WHERE seq = 3",
        "UPDATE audit_log SET seq = 3 WHERE seq = 4",
        "UPDATE audit_log SET seq = 4 WHERE seq = 0",
    )
    found = busy.verification().findings
    assert {f"entry {seq}: has been altered" for seq in (3, 4)} <= set(found)


def test_entry_rewritten_with_its_own_hash_is_told_by_the_next(busy: PrivacyLedger, ledger_url: str) -> None:
    fields = {**asdict(busy.log()[7]), "reason": "another reason"}
    changes = f"reason = '{fields['reason']}', hash = '{entry_hash(fields)}'"
    execute(ledger_url, f"UPDATE audit_log SET {changes} WHERE seq = 8")
    assert busy.verification().findings == ("entry 9: does not follow the entry before it",)


def test_log_rewritten_from_its_middle_is_told_by_its_head(busy: PrivacyLedger, ledger_url: str) -> None:
    """Whoever owns the database can forge a log that is whole; a head kept elsewhere still gives it away."""
    kept = busy.head()
    log = list(busy.log())
    forged = list(rechained(log, 8, reason="another reason"))
    for entry in forged[7:]:
        execute(
            ledger_url,
            f"UPDATE audit_log SET reason = '{entry.reason}', previous = '{entry.previous}', hash = '{entry.hash}'"
            f" WHERE seq = {entry.seq}",
        )
    execute(ledger_url, f"UPDATE audit_head SET hash = '{forged[-1].hash}'")
    assert busy.verify()
    assert busy.head() != kept


def rechained(log: list, altered: int, **change: str) -> Iterator:
    previous = GENESIS
    for entry in log:
        fields = {**asdict(entry), **(change if entry.seq == altered else {}), "previous": previous}
        previous = fields["hash"] = entry_hash(fields)
        yield type(entry)(**fields)


LOWERED = '{"allotment":"","delta":"0","epsilon":"0.9","rho":null,"slack":"0"}'


@pytest.mark.parametrize(
    ("action", "change", "finding"),
    [
        ("committed", {}, "ends charge c again"),
        ("opened", {}, "opens account visits again"),
        ("opened", {"account": "others"}, "binds table file:///lake/visits to a second account"),
        ("raised", {"details": LOWERED}, "lowers the cap of account visits"),
        ("raised", {"actor": ""}, "raises a cap without an author and a reason"),
        ("raised", {"reason": ""}, "raises a cap without an author and a reason"),
        ("allotted", {}, "creates sub-budget team of account visits again"),
        ("reserved", {}, "takes block all of account visits over its cap"),
        ("refilled", {}, "refilled is not an action of this ledger"),
        ("void", {"charge": "no-such"}, "cannot be replayed"),
    ],
)
def test_whole_log_that_breaks_the_rules_is_found(
    ledger: PrivacyLedger, ledger_url: str, action: str, change: dict[str, str], finding: str
) -> None:
    ledger.open_account("visits", epsilon="1", tables=["/lake/visits"])
    ledger.raise_cap("visits", epsilon="1.1", actor="dpo", reason="why")
    ledger.allot("visits", "team", epsilon="1")
    charge = ledger.reserve("visits", release="r", epsilon="0.6")
    ledger.burn(charge.id)
    log = {entry.action: entry for entry in ledger.log()}
    pattern = log.get(action, log["burnt"])
    head = ledger.head()
    fields = {**asdict(pattern), "action": action, **change, "seq": head.seq + 1, "previous": head.hash}
    fields["hash"] = entry_hash(fields)
    columns, values = ", ".join(fields), ", ".join(f"'{value}'" for value in fields.values())
    execute(
        ledger_url,
        f"INSERT INTO audit_log ({columns}) VALUES ({values})".replace(":", "\\:"),
        f"UPDATE audit_head SET seq = {fields['seq']}, hash = '{fields['hash']}'",
    )
    found = ledger.verification().findings
    assert any(finding.replace(" c ", f" {charge.id} ") in each for each in found), found


def test_every_byte_of_every_entry_counts(ledger: PrivacyLedger) -> None:
    """The chain's check itself, for each single character of each field."""
    ledger.open_account("visits", epsilon="1")
    ledger.void(ledger.reserve("visits", release="r", epsilon="0.5", actor="a").id, reason="why")
    log, head = list(ledger.log()), ledger.head()
    assert list(broken_links(log, head)) == []
    tried = 0
    for place, entry in enumerate(log):
        for name, value in asdict(entry).items():
            for at in range(len(str(value))):
                changed = f"{str(value)[:at]}{chr(ord(str(value)[at]) ^ 1)}{str(value)[at + 1 :]}"
                altered = type(entry)(**{**asdict(entry), name: int(changed) if name == "seq" else changed})
                assert list(broken_links([*log[:place], altered, *log[place + 1 :]], head)), (name, at)
                tried += 1
    assert tried > 500


@pytest.mark.slow
@pytest.mark.verify
def test_every_byte_of_every_row_of_the_database_counts(ledger: PrivacyLedger, ledger_url: str) -> None:
    """The same through the database: each byte of each column is changed in place, and ``verify`` names the row."""
    ledger.open_account("visits", epsilon="1")
    ledger.void(ledger.reserve("visits", release="r", epsilon="0.5", actor="a").id, reason="why")
    engine = create_engine(ledger_url.replace("postgresql:", "postgresql+psycopg:"))
    tried = 0
    with engine.connect() as connection:
        rows = [dict(row._mapping) for row in connection.execute(select(audit_log).order_by(audit_log.c.seq))]
        assert verify(connection).findings == ()
        for row in rows:
            for name, value in row.items():
                for at in range(len(str(value))):
                    changed = f"{str(value)[:at]}{chr(ord(str(value)[at]) ^ 1)}{str(value)[at + 1 :]}"
                    altered = {name: int(changed) if name == "seq" else changed}
                    # a number that another row has already cannot be written at all
                    if name == "seq" and altered["seq"] in {other["seq"] for other in rows}:
                        continue
                    connection.execute(update(audit_log).where(audit_log.c.seq == row["seq"]).values(altered))
                    found = " ".join(verify(connection).findings)
                    connection.rollback()
                    assert f"entry {row['seq']}" in found or f"entry {row['seq'] + 1}" in found, (name, at, found)
                    tried += 1
        assert verify(connection).findings == ()
    engine.dispose()
    assert tried > 900
