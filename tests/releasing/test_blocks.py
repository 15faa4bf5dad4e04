"""A release reads the blocks that it pays for: the account says which rows these are, and the request cannot."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pytest

from dp_operators.budget import BudgetExceeded
from dp_operators.releasing import ChargedRequest, interval_blocks, release
from dp_operators.releasing.requests import account_state
from spark_jobs.contract import InvalidRequest, ReleaseRequest
from tests.support.release_lab import ForkRunner, Lab, accept, make_request

DAYS = ["2026-11-20", "2026-11-21"]


@pytest.fixture
def daily(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path)
    account = lab.ledger().account("people")
    lab.output = lab.open_account("daily", "/lake/daily", blocks="day(at)", unit=account.unit)
    return lab


def asking(lab: Lab, **changes: object) -> ReleaseRequest:
    table = {"path": "/lake/daily", "snapshot": {"path_version": "v1"}}
    return make_request(lab.output, account="daily", table=table, **{"blocks": DAYS, **changes})


def made(lab: Lab, request: ReleaseRequest, key: str = "k", **how: object):
    return release(ChargedRequest.of(request, lab.ledger(), key), runner=ForkRunner(), check=accept, **how)  # type: ignore[arg-type]


def test_account_says_which_rows_lie_in_the_blocks(daily: Lab) -> None:
    published = made(daily, asking(daily))
    [stored] = Path(daily.output).glob("*/_draft/*/request.json")
    request = ReleaseRequest.from_json(stored.read_bytes())
    assert str(request.block_expression) == "day(at)"
    assert request.block_filter == (
        "((CAST(`at` AS TIMESTAMP) >= TIMESTAMP '2026-11-20 00:00:00' "
        "AND CAST(`at` AS TIMESTAMP) < TIMESTAMP '2026-11-22 00:00:00'))"
    )
    assert {block: total.epsilon for block, total in daily.ledger().blocks("daily").items()} == dict.fromkeys(DAYS, 1)
    # the same request in the user's words is the same release
    assert made(daily, asking(daily)).uri == published.uri
    [charge] = daily.ledger().history("daily")
    assert charge.events == ({"mechanism": "pure", "epsilon": "1"},)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"block_expression": "day(other)"},
            "block_expression: got 'day(other)'; must be that of account daily, which is day(at)",
        ),
        ({"blocks": ["all"]}, "blocks: got 'all'; is not a block of account daily"),
        ({"blocks": ["yesterday"]}, "must be a day in UTC, for blocks by day(at)"),
        ({"blocks": ["interval"]}, "must be a day in UTC, for blocks by day(at)"),
    ],
)
def test_request_cannot_say_otherwise(daily: Lab, changes: dict, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        made(daily, asking(daily, **changes))
    assert message in str(refused.value)
    assert daily.ledger().history("daily") == ()


def test_blocks_without_their_expression_are_read_by_nobody(daily: Lab) -> None:
    with pytest.raises(InvalidRequest, match="block_expression: is required if blocks are named"):
        _ = asking(daily).block_filter
    assert asking(daily, blocks=["all"]).block_filter is None


def test_account_without_blocks_has_none_to_name(daily: Lab) -> None:
    with pytest.raises(InvalidRequest, match="blocks: got '2026-11-20'; must be a block of account people"):
        made(daily, make_request(f"{daily.folder}/releases", blocks=DAYS))


def test_allotment_pays_too(daily: Lab) -> None:
    daily.ledger().allot("daily", "team", epsilon="0.5")
    with pytest.raises(
        BudgetExceeded, match="sub-budget team in block 2026-11-20 of account daily has 0.5 of 0.5 left"
    ):
        made(daily, asking(daily), allotment="team")
    made(daily, asking(daily, budget={"epsilon": "0.5"}), allotment="team")
    assert [charge.allotment for charge in daily.ledger().history("daily")] == ["team"]


def test_report_shows_the_poorest_block(daily: Lab) -> None:
    ledger = daily.ledger()
    ledger.reserve("daily", release="before", epsilon="0.25", blocks=DAYS[1])
    charge = ledger.reserve("daily", release="now", epsilon="0.5", blocks=DAYS)
    state = account_state(ledger, charge)
    assert (state.block, state.spent_before.epsilon, state.remaining.epsilon) == (
        DAYS[1],
        Decimal("0.25"),
        Decimal("0.25"),
    )


def test_figures_of_a_year_of_days_are_asked_for_at_once(daily: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not day by day: a report would wait for thousands of questions."""
    ledger = daily.ledger()
    charge = ledger.reserve("daily", release="now", epsilon="0.5", blocks="2026-01-01..2026-12-31")
    asked = []
    read = ledger._database.read
    monkeypatch.setattr(ledger._database, "read", lambda work: asked.append(work) or read(work))
    assert account_state(ledger, charge).block == "2026-01-01"
    assert len(charge.blocks) == 365
    assert len(asked) == 3


def test_range_of_days_is_asked_for_as_the_days_are(daily: Lab) -> None:
    days = ["2026-11-20", "2026-11-21", "2026-11-22"]
    ranged, listed = asking(daily, blocks=["2026-11-20..2026-11-22"]), asking(daily, blocks=days)
    assert (ranged, ranged.sha256, ranged.blocks) == (listed, listed.sha256, tuple(days))
    published = made(daily, ranged)
    again = made(daily, listed)
    assert (again.uri, again.adopted) == (published.uri, True)
    [entry] = [entry for entry in daily.ledger().log("daily") if entry.action == "reserved"]
    assert json.loads(entry.details)["blocks"] == ["2026-11-20..2026-11-22"]
    assert set(daily.ledger().blocks("daily")) == set(days)
    for blocks, message in (("2026-11-22..2026-11-20", "from a first block"), ("2026-11..2026-12", "must be a day")):
        head = daily.ledger().head()
        with pytest.raises(InvalidRequest, match=f"blocks: got .*{message}"):
            made(daily, asking(daily, blocks=[blocks]), key="other")
        assert daily.ledger().head() == head


def test_report_of_a_zcdp_account_is_in_rho(daily: Lab) -> None:
    ledger = daily.ledger()
    ledger.open_account("rho", composition="zcdp", rho="0.5", delta="1e-6")
    ledger.reserve("rho", release="before", epsilon="0.2")
    state = account_state(ledger, ledger.reserve("rho", release="now", epsilon="0.4"))
    told = [budget.rho for budget in (state.cap, state.spent_before, state.charged, state.remaining)]
    assert told == [Decimal(text) for text in ("0.5", "0.02", "0.08", "0.4")]
    assert json.loads(state.model_dump_json())["composition"] == "zcdp"


def test_interval_is_made_of_blocks(daily: Lab) -> None:
    account, day = daily.ledger().account("daily"), dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
    assert interval_blocks(account, day, day + dt.timedelta(days=2)) == tuple(DAYS)
    for start, end in ((None, None), (day, day)):
        with pytest.raises(
            InvalidRequest, match="needs a scheduled, backfilled or partitioned run; this run has no data interval"
        ):
            interval_blocks(account, start, end)
    with pytest.raises(InvalidRequest, match="and account people has one block; name 'all'"):
        interval_blocks(daily.ledger().account("people"), day, day + dt.timedelta(days=1))
