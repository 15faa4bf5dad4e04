"""The audit log: every change of the ledger, in order, each entry carrying the hash of the one before.

An entry's hash is the SHA-256 of its canonical JSON (keys sorted, no spaces, ASCII), ``previous`` and ``seq`` included
and ``hash`` left out. So no entry can be altered, removed, added or moved without breaking every hash after it; whoever
cuts the tail off is found by a hash that was kept elsewhere, such as the receipt beside each release.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from dp_operators.budget.database import Write
from dp_operators.budget.schema import audit_head, audit_log
from dp_operators.budget.values import AuditEntry, Head

GENESIS = "0" * 64
OPENED = "opened"

_HEAD = select(audit_head.c.seq, audit_head.c.hash)
_APPEND = insert(audit_log).values({column: bindparam(f"entry_{column.name}") for column in audit_log.columns})
_MOVE_HEAD = update(audit_head).values(seq=bindparam("entry_seq"), hash=bindparam("entry_hash"))


def now() -> str:
    """The time that entries carry: UTC, ISO 8601. Their order is ``seq``, whatever the clock does."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def canonical(value: Any) -> str:
    """The one JSON text of ``value``."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def entry_hash(fields: Mapping[str, Any]) -> str:
    """The hash of an entry, from all its other fields."""
    text = canonical({name: value for name, value in fields.items() if name != "hash"})
    return hashlib.sha256(text.encode()).hexdigest()


def next_entry(
    head: Head,
    *,
    at: str,
    actor: str,
    action: str,
    account: str,
    details: Mapping[str, Any],
    charge: str = "",
    reason: str = "",
) -> AuditEntry:
    """The entry after ``head``."""
    fields: dict[str, Any] = {
        "seq": head.seq + 1,
        "at": at,
        "actor": actor,
        "action": action,
        "account": account,
        "charge": charge,
        "reason": reason,
        "details": canonical(details),
        "previous": head.hash,
    }
    return AuditEntry(**fields, hash=entry_hash(fields))


def appending(entry: AuditEntry) -> tuple[Write, Write]:
    """The writes that append ``entry`` and move the head to it."""
    fields = {f"entry_{name}": value for name, value in vars(entry).items()}
    return (
        (_APPEND, fields),
        (_MOVE_HEAD, {"entry_seq": entry.seq, "entry_hash": entry.hash}),
    )


def read_head(connection: Connection) -> Head:
    """The log's head."""
    row = connection.execute(_HEAD).one()
    return Head(seq=row.seq, hash=row.hash)


def read_entries(connection: Connection, account: str | None = None) -> Iterator[AuditEntry]:
    """The log in order, or an account's part of it."""
    query = select(audit_log).order_by(audit_log.c.seq)
    if account is not None:
        query = query.where(audit_log.c.account == account)
    for row in connection.execute(query, execution_options={"yield_per": 1000}):
        yield AuditEntry(**row._mapping)


def broken_links(entries: Iterable[AuditEntry], head: Head) -> Iterator[str]:
    """What is wrong with the chain from its beginning to ``head``, in words."""
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
        yield f"the head is at entry {head.seq}, the log ends otherwise, at entry {expected - 1}"
