"""The audit log: every change of the ledger in order, each entry with the hash of the one before.

The hash of an entry is the SHA-256 of its canonical JSON (sorted keys, no spaces, ASCII) with ``previous`` and ``seq``
and without ``hash``. Altering, removing, inserting or moving an entry therefore breaks every later hash. A truncated
log is detected by a hash stored elsewhere, such as in the receipt beside each release.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, select, text, update

from dp_operators.budget.errors import LedgerFrozen
from dp_operators.budget.tables.schema import audit_head, audit_log
from dp_operators.budget.values import AuditEntry, Head

GENESIS = "0" * 64
OPENED, RAISED, ALLOTTED, FROZEN, THAWED = "opened", "raised", "allotted", "frozen", "thawed"
TABLE_BOUND, OUTPUTS_BOUND, KEYS_REGISTERED = "table bound", "outputs bound", "keys registered"
DOMAINS_CHANGED = "domains changed"
APPROVALS_SET = "approvals set"
MOVED, ARRIVED = "moved", "arrived"
RUN_STARTED, RUN_ENDED, DRAW_RECORDED = "run started", "run ended", "draw recorded"
STEPS_RECORDED = "steps recorded"

_HEAD = select(audit_head)
# the server assigns number and hashes, and updates the head
_ON_SERVER = text(
    "INSERT INTO audit_log (at, actor, action, account, charge, reason, details)"
    " VALUES (:at, :actor, :action, :account, :charge, :reason, :details)"
)


def now(later: timedelta = timedelta(0)) -> str:
    """The current time as entries store it: UTC, ISO 8601. Entries are ordered by ``seq``, not by their times."""
    return (datetime.now(UTC) + later).isoformat(timespec="microseconds")


def canonical(value: Any) -> str:
    """The canonical JSON text of ``value``: equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def entry_hash(fields: Mapping[str, Any]) -> str:
    """The hash of an entry, computed from all its other fields."""
    text = canonical({name: value for name, value in fields.items() if name != "hash"})
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class NewEntry:
    """An entry before it is appended to the log; its fields are those of ``AuditEntry``."""

    actor: str
    action: str
    account: str
    details: Mapping[str, Any]
    at: str = field(default_factory=now)
    charge: str = ""
    reason: str = ""

    def fields(self) -> dict[str, str]:
        """The entry's fields as the columns of the log store them."""
        return {**vars(self), "details": canonical(self.details)}

    def placed(self, head: Head) -> AuditEntry:
        """The entry as the successor of ``head``."""
        placed: dict[str, Any] = {**self.fields(), "seq": head.seq + 1, "previous": head.hash}
        return AuditEntry(**placed, hash=entry_hash(placed))


def append(connection: Connection, draft: NewEntry) -> int:
    """Append an entry and return its number; 0 where the server assigns the number.

    The caller must hold a transaction with no other writer. An entry that freezes or thaws the ledger also updates the
    head.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_ON_SERVER, draft.fields())
        return 0
    head = connection.execute(_HEAD).one()
    if head.moved and draft.action != ARRIVED:
        raise LedgerFrozen(str(head.frozen))
    entry = draft.placed(Head(seq=head.seq, hash=head.hash))
    connection.execute(insert(audit_log), vars(entry))
    changed = update(audit_head).values(seq=entry.seq, previous=entry.previous, hash=entry.hash, **_state(draft))
    connection.execute(changed)
    return entry.seq


def _state(draft: NewEntry) -> dict[str, str]:
    """What an entry changes of the head beside its place."""
    if draft.action == FROZEN:
        return {"frozen": draft.reason}
    if draft.action == THAWED:
        return {"frozen": ""}
    if draft.action == MOVED:
        return {"frozen": draft.reason, "moved": str(draft.details["to"])}
    if draft.action == ARRIVED:
        return {"frozen": str(draft.details["frozen"]), "moved": ""}
    return {}


def moved_to(connection: Connection) -> str:
    """Where the ledger was moved to; ``copy_of`` a token, if this is a copy that is not live yet; otherwise empty."""
    return str(connection.execute(_HEAD).one().moved)


def copy_of(token: str) -> str:
    """The mark of a copy with this token, until the copy has become the ledger."""
    return f"copy {token}"


def moved_elsewhere(to: str) -> tuple[str, str]:
    """The error message for a ledger that was moved, and its remedy."""
    return (
        f"was moved to {to}, and is never live again",
        f"use the ledger there; if the move was cut short, repeat it: `dp-budget move --to {to}`",
    )


def read_head(connection: Connection) -> Head:
    """The log's head."""
    row = connection.execute(_HEAD).one()
    return Head(seq=row.seq, hash=row.hash)


def read_entries(connection: Connection, account: str | None = None) -> Iterator[AuditEntry]:
    """The entries in order, of the whole log or of one account."""
    query = select(audit_log).order_by(audit_log.c.seq)
    if account is not None:
        query = query.where(audit_log.c.account == account)
    for row in connection.execute(query):
        yield AuditEntry(**row._mapping)


def read_entry(connection: Connection, seq: int) -> AuditEntry | None:
    """The entry with this number; None if it does not exist."""
    row = connection.execute(select(audit_log).where(audit_log.c.seq == seq)).one_or_none()
    return None if row is None else AuditEntry(**row._mapping)


def broken_links(entries: Iterable[AuditEntry], head: Head) -> Iterator[str]:
    """Describe every break in the hash chain from the first entry to ``head``."""
    expected, previous = 1, GENESIS
    for entry in entries:
        if entry.seq != expected:
            yield f"entry {expected}: is missing; the next is {entry.seq}"
        elif entry.previous != previous:
            yield f"entry {entry.seq}: does not follow the entry before it"
        if entry.hash != entry_hash(vars(entry)):
            yield f"entry {entry.seq}: has been altered"
        expected, previous = entry.seq + 1, entry.hash
    if (head.seq, head.hash) != (expected - 1, previous):
        yield f"the head is at entry {head.seq}, but the log ends at entry {expected - 1}"
