"""The pages of an account with as many blocks as thirty years have days."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert

from dp_operators.budget import PrivacyLedger, rows
from dp_operators.budget.cli import account_json
from dp_operators.budget.overview import ChargeFilter
from dp_operators.budget.schema import block_totals
from dp_operators.plugins import pages
from tests.support.ledgers import new_ledger

BLOCKS = 10_000


@pytest.fixture
def many(tmp_path: Path) -> PrivacyLedger:
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.open_account("visits", epsilon="1", blocks="day(at)")
    days = [(date(1999, 1, 1) + timedelta(days=number)).isoformat() for number in range(BLOCKS)]
    totals = [{"account": "visits", "allotment": "", "block": day, "epsilon": "0.3", "delta": "0"} for day in days]
    engine = create_engine(f"sqlite:///{tmp_path}/ledger.db")
    with engine.begin() as connection:
        connection.execute(insert(block_totals), totals)
    engine.dispose()
    return ledger


@pytest.mark.slow
def test_all_blocks_are_read_at_once(many: PrivacyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(rows, "fetch", lambda *given, fetch=rows.fetch: asked.append(given[1]) or fetch(*given))
    account_json(many, many.account("visits"))
    assert sum(query is rows._ALL_SPENT for query in asked) == 1
    assert rows._SPENT not in asked


@pytest.mark.slow
def test_every_block_is_shown_with_what_it_has_left(many: PrivacyLedger) -> None:
    left = many.remaining_by_block("visits")
    assert len(left) == BLOCKS
    assert list(left) == sorted(left)
    assert {str(each.epsilon) for each in left.values()} == {"0.7"}
    shown = pages.account("ledger", many, "visits", ChargeFilter(), nonce="n")
    assert f"{BLOCKS:,}" in shown or str(BLOCKS) in shown
