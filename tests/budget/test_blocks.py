"""Blocks: which ones pay, when they add up, and that nothing refills them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from dp_operators.budget import BudgetExceeded, PrivacyLedger
from spark_jobs.contract import InvalidRequest, PrivacyUnit
from tests.support.ledgers import commit, execute, tamper

DAYS = ["2026-11-20", "2026-11-21", "2026-11-22"]
PERSON = PrivacyUnit(column="person", max_rows=3)


def spent(ledger: PrivacyLedger, account: str = "visits") -> dict[str, Decimal]:
    return {block: total.epsilon for block, total in ledger.blocks(account).items()}


def test_rows_pay_block_by_block(ledger: PrivacyLedger) -> None:
    """A row lies in one day, so each day has the whole cap for itself."""
    opened = ledger.open_account("visits", epsilon="1", blocks="day(visited_at)")
    assert opened.unit_stays
    assert spent(ledger) == {}
    ledger.reserve("visits", release="a", epsilon="0.75", blocks=DAYS[:2])
    ledger.reserve("visits", release="b", epsilon="0.75", blocks=DAYS[2])
    ledger.reserve("visits", release="c", epsilon="0.25", blocks=DAYS)
    assert spent(ledger) == dict.fromkeys(DAYS, Decimal(1))
    with pytest.raises(BudgetExceeded, match="block 2026-11-20 of account visits has 0 of 1 left"):
        ledger.reserve("visits", release="d", epsilon="0.01", blocks=[DAYS[0], "2026-11-23"])
    assert ledger.remaining("visits", "2026-11-23").epsilon == 1
    assert ledger.account("visits") == opened
    assert ledger.verification().findings == ()


def test_block_that_is_never_charged_again_is_never_refilled(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon="1", blocks="day(visited_at)")
    ledger.reserve("visits", release="old", epsilon="1", blocks=DAYS[0])
    for number, day in enumerate(DAYS[1:]):
        commit(ledger, ledger.reserve("visits", release=f"{number}", epsilon="1", blocks=day).id)
    assert ledger.remaining("visits", DAYS[0]).epsilon == 0


def test_charge_that_is_given_back_frees_all_its_blocks(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon="1", blocks="day(visited_at)")
    charge = ledger.reserve("visits", release="a", epsilon="0.75", blocks=DAYS)
    assert charge.blocks == tuple(DAYS)
    ledger.void(charge.id)
    assert spent(ledger) == dict.fromkeys(DAYS, Decimal(0))
    assert ledger.verification().findings == ()


def test_units_of_several_rows_add_up_across_blocks(ledger: PrivacyLedger) -> None:
    """Whoever came on two days is in two releases: the days do not have a cap each."""
    opened = ledger.open_account("visits", epsilon="1", unit=PERSON, blocks="day(visited_at)")
    assert not opened.unit_stays
    ledger.reserve("visits", release="a", epsilon="0.5", blocks=DAYS[0])
    charge = ledger.reserve("visits", release="b", epsilon="0.25", blocks=DAYS[1:])
    assert charge.blocks == tuple(DAYS[1:])
    assert spent(ledger) == {"all": Decimal("0.75")}
    assert ledger.remaining("visits", DAYS[2]) == ledger.remaining("visits")
    with pytest.raises(BudgetExceeded):
        ledger.reserve("visits", release="c", epsilon="0.5", blocks=DAYS[2])
    ledger.void(charge.id)
    assert ledger.remaining("visits").epsilon == Decimal("0.5")
    assert ledger.reserve("visits", release="d", epsilon="0.5").blocks == ("all",)
    assert ledger.verification().findings == ()


def test_somebody_may_say_that_units_stay_in_their_blocks(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon="1", unit=PERSON, blocks="value(region: north, south)", unit_stays=True)
    for region in ("north", "south"):
        ledger.reserve("visits", release=region, epsilon="1", blocks=region)
    assert spent(ledger) == {"north": 1, "south": 1}


def test_replacement_needs_units_that_stay(ledger: PrivacyLedger) -> None:
    """The number of rows of a block is not public where a replacement may lie in another."""
    with pytest.raises(InvalidRequest, match="neighbours: got 'replace_one'; must be add_remove if a unit may be in"):
        ledger.open_account("visits", epsilon=1, unit=PERSON, neighbours="replace_one", blocks="day(d)")
    with pytest.raises(InvalidRequest, match="must be add_remove if a unit may be in"):
        ledger.open_account("visits", epsilon=1, neighbours="replace_one", blocks="day(d)", unit_stays=False)
    assert ledger.open_account("rows", epsilon=1, neighbours="replace_one", blocks="day(d)").unit_stays


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ("all", "blocks: got 'all'; is not a block of account visits, which pays for each block of day(visited_at)"),
        (["all", DAYS[0]], "blocks: got 'all'; is not a block"),
        ("2026-11-31", "must be a day in UTC, for blocks by day(visited_at); write it as 2026-11-21"),
        ("2026-11", "must be a day in UTC"),
        ("2026-11-21T00", "must be a day in UTC"),
        ("north", "must be a day in UTC"),
    ],
)
def test_blocks_are_values_of_the_account_s_expression(ledger: PrivacyLedger, blocks: object, message: str) -> None:
    ledger.open_account("visits", epsilon="1", blocks="day(visited_at)")
    with pytest.raises(InvalidRequest) as refused:
        ledger.reserve("visits", release="a", epsilon="0.1", blocks=blocks)  # type: ignore[arg-type]
    assert message in str(refused.value)
    assert ledger.history("visits") == ()
    assert spent(ledger) == {}


def test_value_named_all_is_no_block(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon="1", blocks="value(region)")
    with pytest.raises(InvalidRequest, match="is not a block of account visits"):
        ledger.reserve("visits", release="a", epsilon="0.1", blocks="all")


def test_opening_again_with_other_blocks_is_refused(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon=1, blocks="day(a)")
    ledger.open_account("visits", epsilon=1, blocks={"by": "day", "column": "a"})
    for change, field in (
        ({"blocks": "day(b)"}, "blocks"),
        ({"blocks": None}, "blocks"),
        ({"unit_stays": False}, "unit_"),
    ):
        with pytest.raises(InvalidRequest, match=f"is already open with another {field}"):
            ledger.open_account("visits", **{"epsilon": 1, "blocks": "day(a)", **change})  # type: ignore[arg-type]


def test_affordable_tells_what_is_left_or_which_block_ends_it(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon="1", blocks="day(visited_at)")
    ledger.reserve("visits", release="a", epsilon="0.75", blocks=DAYS[1])
    before = ledger.head()
    left = ledger.affordable("visits", epsilon="0.25", blocks=DAYS)
    assert {block: budget.epsilon for block, budget in left.items()} == {
        DAYS[0]: 1,
        DAYS[1]: Decimal("0.25"),
        DAYS[2]: 1,
    }
    with pytest.raises(BudgetExceeded) as exceeded:
        ledger.affordable("visits", epsilon="0.5", blocks=DAYS)
    assert (exceeded.value.block, exceeded.value.never_fits) == (DAYS[1], False)
    with pytest.raises(BudgetExceeded) as exceeded:
        ledger.affordable("visits", epsilon="1.5", blocks=DAYS[0])
    assert exceeded.value.never_fits
    assert ledger.head() == before


def test_race_for_a_block_that_nobody_has_charged_yet(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon="1", blocks="day(visited_at)")

    def work(number: int) -> str:
        try:
            blocks = [DAYS[0], DAYS[1 + number % 2]]
            return ledger.reserve("visits", release=f"r{number}", epsilon="0.3", blocks=blocks).state.value
        except BudgetExceeded:
            return "exceeded"

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert sorted(found) == ["exceeded"] * 5 + ["reserved"] * 3
    assert spent(ledger)[DAYS[0]] == Decimal("0.9")
    assert ledger.verification().findings == ()


@pytest.mark.slow
def test_ten_years_of_days_are_charged_at_once_and_given_back(ledger: PrivacyLedger, ledger_url: str) -> None:
    account = ledger.open_account("years", epsilon="1", blocks="day(at)")
    assert account.blocks is not None
    years = account.blocks.covering(datetime(2016, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    charge = ledger.reserve("years", release="r", epsilon="0.75", blocks=years)
    assert charge.blocks == years
    assert ledger.reserve("years", release="r", epsilon="0.75", blocks="2016-01-01..2025-12-31") == charge
    assert ledger.charge(charge.id) == ledger.find_charge("years", "r") == ledger.history("years")[0] == charge
    # one row, one short entry
    assert execute(ledger_url, "SELECT blocks FROM charges") == [('["2016-01-01..2025-12-31"]',)]
    assert json.loads(ledger.log()[-1].details)["blocks"] == ["2016-01-01..2025-12-31"]
    with pytest.raises(BudgetExceeded):
        ledger.reserve("years", release="more", epsilon="0.5", blocks=years[-2:])
    ledger.void(charge.id)
    assert {str(left.epsilon) for left in ledger.remaining_by_block("years").values()} == {"1"}
    assert ledger.verification().findings == ()


def test_ranges_and_days_beside_them_pay_each_day_once(ledger: PrivacyLedger, ledger_url: str) -> None:
    ledger.open_account("visits", epsilon="1", blocks="day(visited_at)")
    ledger.allot("visits", "team", epsilon="0.5")
    asked = ["2026-11-20..2026-11-22", "2026-11-21", "2026-11-24"]
    charge = ledger.reserve("visits", release="r", epsilon="0.25", blocks=asked, allotment="team")
    assert charge.blocks == (*DAYS, "2026-11-24")
    assert execute(ledger_url, "SELECT blocks FROM charges") == [('["2026-11-20..2026-11-22","2026-11-24"]',)]
    assert spent(ledger) == dict.fromkeys(charge.blocks, Decimal("0.25"))
    assert ledger.blocks("visits", allotment="team") == ledger.blocks("visits")
    with pytest.raises(BudgetExceeded, match="sub-budget team in block 2026-11-20 of account visits has 0.25 of 0.5"):
        ledger.reserve("visits", release="s", epsilon="0.3", blocks="2026-11-01..2026-11-30", allotment="team")
    assert ledger.affordable("visits", epsilon="0.1", blocks="2026-11-19..2026-11-20")["2026-11-19"].epsilon == 1
    assert ledger.verification().findings == ()
    ledger.void(charge.id)
    assert set(spent(ledger).values()) == {Decimal(0)}
    assert ledger.verification().findings == ()
    tamper(ledger_url, 'UPDATE charges SET blocks = \'["2026-11-20..2026-11-21","2026-11-24"]\'')
    assert "blocks is" in ledger.verification().findings[0]


def test_charge_that_names_each_of_its_days_is_read_as_before(ledger: PrivacyLedger, ledger_url: str) -> None:
    """As earlier versions wrote them."""
    ledger.open_account("visits", epsilon="1", blocks="day(visited_at)")
    charge = ledger.reserve("visits", release="r", epsilon="0.25", blocks=DAYS)
    tamper(ledger_url, f"UPDATE charges SET blocks = '{json.dumps(DAYS)}'")
    assert ledger.charge(charge.id).blocks == tuple(DAYS)
    ledger.void(charge.id)
    assert set(spent(ledger).values()) == {Decimal(0)}


def test_values_that_are_years_are_no_range(ledger: PrivacyLedger, ledger_url: str) -> None:
    ledger.open_account("visits", epsilon="1", blocks="value(year)")
    charge = ledger.reserve("visits", release="r", epsilon="0.25", blocks=["2024", "2025", "2026"])
    assert execute(ledger_url, "SELECT blocks FROM charges") == [('["2024","2025","2026"]',)]
    assert ledger.charge(charge.id) == charge
    assert ledger.verification().findings == ()
