"""What a store remembers of the ledger, so that a ledger that was restored from a backup is noticed by itself.

Before anything can be drawn for a charge, the audit log's entry that reserved it is witnessed: an object beside the
releases carries the entry's number and hash in its name. A ledger that was restored from before that entry has none of
that number, or another one there. So the next reservation into the same store finds out, and the ledger is frozen.

After a reconciliation the log goes on otherwise than it once did. A new *epoch* of witnesses begins then, and those of
earlier ones are history.
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

# newest first: numbers count down, so that one page of a listing holds what is asked for
_NAME = re.compile(r"0-(\d{6})-(\d{12})-([0-9a-f]{64})")
_EARLIER_NAME = re.compile(r"(\d{6})-(\d{12})-([0-9a-f]{64})")
_LAST_EPOCH, _LAST_SEQ = 999_999, 999_999_999_999


@dataclass(frozen=True, order=True)
class Anchor:
    """That the audit log had an entry; later ones are greater.

    Attributes:
        epoch: how many reconciliations of this folder of releases came before.
        seq, hash: the entry's.
    """

    epoch: int
    seq: int
    hash: str

    @property
    def name(self) -> str:
        """The object's name."""
        return f"0-{_LAST_EPOCH - self.epoch:06d}-{_LAST_SEQ - self.seq:012d}-{self.hash}"


def anchor_entry(store: ObjectStore, output: str, charge: Charge, ledger: PrivacyLedger) -> None:
    """Leave the entry that reserved ``charge`` in the store; harmless to repeat.

    Raises:
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    failpoint("before_anchor")
    entry = ledger.entry(charge.entry)
    if entry is not None:
        newest = _newest(store, output, charge.account)
        _create(store, output, entry, ledger, epoch=0 if newest is None else newest.epoch)
    failpoint("after_anchor")


def require_no_rollback(store: ObjectStore, output: str, account: str, ledger: PrivacyLedger, *, actor: str) -> None:
    """Freeze a ledger that has forgotten what the store remembers of an account.

    Raises:
        LedgerFrozen: it has.
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    # looked for before the ledger is asked: what was witnessed by then was in the log by then
    newest = _newest(store, output, account)
    if newest is None or _holds(ledger, newest):
        return
    place = output.encode()[:300].decode(errors="ignore")
    why = f"restored from a backup: {place} remembers an entry {newest.seq} that its audit log does not hold"
    with suppress(LedgerUnavailable, NotAllowed):  # a role that may not freeze it is held back all the same
        ledger.freeze_forgotten(newest.seq, newest.hash, _seal(store, output, account, newest), actor=actor, reason=why)
    raise LedgerFrozen(why)


def begin_epoch(store: ObjectStore, output: str, ledger: PrivacyLedger) -> None:
    """After a reconciliation: take the ledger as it is for the one to be remembered.

    Raises:
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
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
    """The server's seal of what was witnessed; empty where there is none."""
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
    """The last entry of an account that a store remembers."""
    folder = anchor_folder(output, account)
    match = _NAME.fullmatch(store.first(folder) or "")
    if match is not None:
        return Anchor(_LAST_EPOCH - int(match[1]), _LAST_SEQ - int(match[2]), match[3])
    # of a store that earlier versions wrote to, and no other yet
    earlier = (_EARLIER_NAME.fullmatch(name) for name in store.names(folder))
    return max((Anchor(int(name[1]), int(name[2]), name[3]) for name in earlier if name is not None), default=None)


def _accounts(store: ObjectStore, output: str) -> Iterator[str]:
    """The accounts that have witnesses in a folder of releases, each once."""
    root, listed = anchor_folder(output), set()
    for name in store.names(root):
        folder = name.split("/", 1)[0]
        if folder not in listed and "/" in name:
            listed.add(folder)
            with suppress(ValueError, KeyError, TypeError, InvalidRequest):
                yield str(json.loads(store.read(f"{root}/{name}") or b"")["account"])
