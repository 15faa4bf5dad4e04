"""The pages of an account with as many blocks as thirty years have days."""

from __future__ import annotations

import time
from datetime import date, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event, insert

from benchmarks.account_page import CHARGE_LIMIT, LIMIT, filled
from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import account_json
from dp_operators.budget.overview import ChargeFilter
from dp_operators.budget.tables import rows
from dp_operators.budget.tables.schema import block_totals
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
@pytest.mark.verify
def test_as_many_charges_take_five_queries_and_a_range_of_blocks_one_row(tmp_path: Path) -> None:
    """The benchmark ``account_page`` has the figures; the bounds here are three times its targets."""
    ledger = filled(tmp_path, BLOCKS)
    asked: list[str] = []
    engine = ledger._database._engine()
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(str(given[2])))
    assert ledger.charges("visits", ChargeFilter()).number == 10 * BLOCKS
    for page in (
        lambda: pages.account("ledger", ledger, "visits", ChargeFilter(), nonce="n"),
        lambda: pages.accounts("ledger", ledger, nonce="n"),
    ):
        page()
        asked.clear()
        begun = time.process_time()
        page()
        assert time.process_time() - begun < 3 * LIMIT
        assert len([statement for statement in asked if "SELECT" in statement]) <= 5
    days = f"{date.today() - timedelta(days=BLOCKS - 1)}..{date.today()}"
    begun = time.process_time()
    charge = ledger.reserve("visits", release="all", epsilon="0.001", blocks=[days])
    assert time.process_time() - begun < 3 * CHARGE_LIMIT
    assert len(charge.blocks) == BLOCKS
    assert ledger.charges("visits", ChargeFilter()).number == 10 * BLOCKS + 1
    ledger.close()


@pytest.mark.slow
def test_every_block_is_shown_with_what_it_has_left(many: PrivacyLedger) -> None:
    left = many.remaining_by_block("visits")
    assert len(left) == BLOCKS
    assert list(left) == sorted(left)
    assert {str(each.epsilon) for each in left.values()} == {"0.7"}
    shown = pages.account("ledger", many, "visits", ChargeFilter(), nonce="n")
    assert f"{BLOCKS:,}" in shown or str(BLOCKS) in shown
