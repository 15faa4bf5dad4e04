"""Detects a ledger that was rolled back to a backup, by anchors of its audit log in the store.

Before noise can be drawn for a charge, the audit log's entry that reserved it is anchored: the name of an object beside
the releases holds the entry's number and hash. A ledger that was restored from an older backup has no entry of that
number, or one with another hash. So the next reservation into the same store detects the rollback, and freezes the
ledger.

After a reconciliation, the log continues differently from before. A new *epoch* of anchors begins then, and anchors of
earlier epochs are no longer compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_operators.budget import LedgerFrozen, LedgerUnavailable, NotAllowed
from dp_operators.releasing.drafts import document
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import anchor_folder
from spark_jobs.contract.store.objects import ObjectStore

if TYPE_CHECKING:
    from dp_operators.budget import AuditEntry, Charge, PrivacyLedger

# numbers count down, so that the newest anchor comes first in a listing and one page of it is enough
_NAME = re.compile(r"0-(\d{6})-(\d{12})-([0-9a-f]{64})")
_EARLIER_NAME = re.compile(r"(\d{6})-(\d{12})-([0-9a-f]{64})")
_LAST_EPOCH, _LAST_SEQ = 999_999, 999_999_999_999


@dataclass(frozen=True, order=True)
class Anchor:
    """Evidence that the audit log had an entry; anchors are ordered by age, and the newest is the greatest.

    Attributes:
        epoch: the number of reconciliations of this output folder before the anchor was made.
        seq, hash: the number and the hash of the entry.
    """

    epoch: int
    seq: int
    hash: str

    @property
    def name(self) -> str:
        """The name of the anchor's object in the store."""
        return f"0-{_LAST_EPOCH - self.epoch:06d}-{_LAST_SEQ - self.seq:012d}-{self.hash}"


def anchor_entry(store: ObjectStore, output: str, charge: Charge, ledger: PrivacyLedger) -> None:
    """Anchor the audit log's entry that reserved ``charge`` in the store; safe to repeat.

    Raises:
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    failpoint("before_anchor")
    entry = ledger.entry(charge.entry)
    if entry is not None:
        newest = _newest(store, output, charge.account)
        _create(store, output, entry, ledger, epoch=0 if newest is None else newest.epoch)
    failpoint("after_anchor")


def require_no_rollback(store: ObjectStore, output: str, account: str, ledger: PrivacyLedger, *, actor: str) -> None:
    """Freeze the ledger if its audit log lacks the entry of the account's newest anchor.

    Raises:
        LedgerFrozen: the entry is missing: the ledger was rolled back.
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    # read before the ledger: an entry that is anchored now was in the log before the ledger is read
    newest = _newest(store, output, account)
    if newest is None or _holds(ledger, newest):
        return
    place = output.encode()[:300].decode(errors="ignore")
    why = f"restored from a backup: {place} refers to entry {newest.seq}, which its audit log does not contain"
    with suppress(LedgerUnavailable, NotAllowed):  # a role that may not freeze the ledger is refused all the same
        ledger.freeze_forgotten(newest.seq, newest.hash, _seal(store, output, account, newest), actor=actor, reason=why)
    raise LedgerFrozen(why)


def begin_epoch(store: ObjectStore, output: str, ledger: PrivacyLedger) -> None:
    """After a reconciliation, begin a new epoch for each account whose newest anchor has no entry in the log.

    Raises:
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    for account in _accounts(store, output):
        newest = _newest(store, output, account)
        if newest is not None and not _holds(ledger, newest):
            for entry in ledger.log(account)[-1:]:
                _create(store, output, entry, ledger, epoch=newest.epoch + 1)


def _holds(ledger: PrivacyLedger, anchor: Anchor) -> bool:
    entry = ledger.entry(anchor.seq)
    return entry is not None and entry.hash == anchor.hash


def _seal(store: ObjectStore, output: str, account: str, anchor: Anchor) -> str:
    """The ledger's seal of the anchored entry; empty for a SQLite ledger."""
    content = store.read(f"{anchor_folder(output, account)}/{anchor.name}") or b"{}"
    with suppress(ValueError, AttributeError):
        return str(json.loads(content).get("audit_log", {}).get("seal", ""))
    return ""


def _create(store: ObjectStore, output: str, entry: AuditEntry, ledger: PrivacyLedger, *, epoch: int) -> None:
    anchor = Anchor(epoch, entry.seq, entry.hash)
    logged = {"seq": entry.seq, "hash": entry.hash, "seal": ledger.seal(entry)}
    content = {"format": 1, "account": entry.account, "audit_log": logged}
    store.create(f"{anchor_folder(output, entry.account)}/{anchor.name}", document(content))


def _newest(store: ObjectStore, output: str, account: str) -> Anchor | None:
    """The newest anchor of an account; None before the first."""
    folder = anchor_folder(output, account)
    match = _NAME.fullmatch(store.first(folder) or "")
    if match is not None:
        return Anchor(_LAST_EPOCH - int(match[1]), _LAST_SEQ - int(match[2]), match[3])
    # a store to which only earlier versions have written
    earlier = (_EARLIER_NAME.fullmatch(name) for name in store.names(folder))
    return max((Anchor(int(name[1]), int(name[2]), name[3]) for name in earlier if name is not None), default=None)


def _accounts(store: ObjectStore, output: str) -> Iterator[str]:
    """The accounts that have anchors in an output folder, without repetition."""
    root, listed = anchor_folder(output), set()
    for name in store.names(root):
        folder = name.split("/", 1)[0]
        if folder not in listed and "/" in name:
            listed.add(folder)
            with suppress(ValueError, KeyError, TypeError, InvalidRequest):
                yield str(json.loads(store.read(f"{root}/{name}") or b"")["account"])
