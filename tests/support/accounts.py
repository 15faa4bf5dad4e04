"""Accounts that releases can be charged to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dp_operators.budget import Account, PrivacyLedger


def open_bound(ledger: PrivacyLedger, name: str, *, table: str | Path, output: str | Path, **settings: Any) -> Account:
    """Open an account for one table, whose releases may go to ``output``."""
    return ledger.open_account(name, tables=[str(table)], outputs=[str(output)], **settings)
