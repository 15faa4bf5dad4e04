"""The pages about a ledger, as HTML without scripts; all text is escaped."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import cache
from itertools import count
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from dp_operators.budget import Account, Charge, ChargeState, LedgerReader, LedgerUnavailable, NotAllowed
from dp_operators.budget.cap_decision import CapDecision
from dp_operators.budget.composition import APPROXIMATE, ZCDP, fraction_spent, limits_of, room
from dp_operators.budget.overview import AccountOverview, ChargeFilter
from dp_operators.budget.plain_words import meaning
from dp_operators.plugins.charts import HEIGHT, WIDTH, Chart, words
from spark_jobs.contract.csv_cells import csv_line
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, plain

LISTED = 50
"""The maximum number of charges, and of blocks, on a page; the newest are shown."""

_NEARLY_SPENT = 0.2
_log = logging.getLogger(__name__)


def ledgers(connections: Iterable[str], *, nonce: str) -> str:
    """The page that lists ledgers by their connections."""
    return render("ledgers.html.j2", connections=tuple(connections), nonce=nonce)


def accounts(connection: str, ledger: LedgerReader, *, nonce: str) -> str:
    """The page that lists a ledger's accounts, each with the block that has the least left."""
    overviews = ledger.overviews()
    return render(
        "accounts.html.j2",
        connection=connection,
        rows=[_summary(overview) for overview in overviews],
        frozen=next((overview.frozen for overview in overviews), "") if overviews else ledger.frozen(),
        nonce=nonce,
    )


def account(
    connection: str,
    ledger: LedgerReader,
    name: str,
    wanted: ChargeFilter,
    decision: CapDecision | None = None,
    *,
    nonce: str,
) -> str:
    """The page of one account: its burn-down, a cap to be decided, its blocks, and the charges that match the filters.

    Raises:
        InvalidRequest: there is no such account.
    """
    overview, sub_budgets, page = ledger.overview(name, wanted)
    paying = overview.account
    newest = dict(list(overview.spent.items())[-LISTED:])
    return render(
        "account.html.j2",
        connection=connection,
        account=_account(paying),
        summary=_summary(overview),
        decision=decision,
        meaning=meaning(paying),
        blocks=_blocks(paying, newest),
        all_blocks=len(overview.spent),
        charges=[charge_facts(charge, paying) for charge in page.charges],
        pager=_pager(name, wanted, page.number),
        sub_budgets=[(part.name, amount(part.cap, paying)) for part in sub_budgets],
        frozen=overview.frozen,
        nonce=nonce,
    )


def failure(line: str, *, nonce: str, sign_in: str = "") -> str:
    """The page of an error message, with the address of the log-in page if that helps."""
    return render("failure.html.j2", line=line, sign_in=sign_in, nonce=nonce)


def line_of(error: Exception) -> str:
    """An error as a page may show it; the place and users of the ledger's database appear only in the server's log."""
    if isinstance(error, (LedgerUnavailable, NotAllowed)):
        _log.warning("%s", error)
        may = "may not read this" if isinstance(error, NotAllowed) else "cannot be used now"
        return f"the ledger of this connection {may}; the API server's log says why"
    if isinstance(error, InvalidRequest) and _names_the_database(error):
        _log.warning("%s", error)
        return f"{error.field}: {error.requirement}; {error.remedy}"
    return str(error)


def _names_the_database(error: InvalidRequest) -> bool:
    """Whether the value that is refused is a ledger's address, or a field of its connection."""
    return error.value is not None and (error.field == "ledger" or error.field.startswith("connection "))


def _summary(overview: AccountOverview) -> dict[str, Any]:
    account, burn_down = overview.account, overview.burn_down
    [block] = _blocks(account, {overview.tightest: overview.spent[overview.tightest]})
    days = burn_down.days_left
    return {
        "account": _account(account),
        "block": block,
        "blocks": len(overview.spent),
        "chart": Chart.of(burn_down),
        "low": burn_down.left < _NEARLY_SPENT,
        "exhausted": burn_down.left == 0,
        "days": days,
        "last_day": "" if days is None or days > 36_500 else words(burn_down.today + timedelta(days=days)),
        "rate": f"{100 * burn_down.rate:.2g}%",
        "rate_days": burn_down.rate_days,
        "early": burn_down.early and burn_down.rate > 0,
        "since": words(burn_down.since),
    }


def _blocks(account: Account, spent: Mapping[str, Budget]) -> list[dict[str, Any]]:
    kind = APPROXIMATE if account.composition == APPROXIMATE else "pure"
    limits = limits_of(account.composition, account.cap, account.slack)
    return [
        {
            "name": block,
            "spent": amount(total, account),
            "left": amount(room(limits, total, kind), account),
            "share": fraction_spent(limits, total),
        }
        for block, total in spent.items()
    ]


def _account(account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "cap": amount(account.cap, account)
        if account.composition == ZCDP
        else f"epsilon {amount(account.cap, account)}",
        "composition": account.composition,
        "protects": account.unit.describe(),
        "neighbours": " by another of ".join(filter(None, (account.neighbours.value, account.replaced_within))),
        "tables": account.tables,
        "outputs": account.outputs,
        "expression": None if account.blocks is None else str(account.blocks),
        "unit_stays": account.unit_stays,
        "opened_at": account.opened_at[:10],
        "opened_by": account.opened_by,
    }


def charge_facts(charge: Charge, account: Account) -> dict[str, Any]:
    """The fields of a charge that the pages show."""
    return {
        "at": charge.reserved_at[:16].replace("T", " "),
        "state": charge.state.value,
        "published": charge.state is ChargeState.COMMITTED,
        "counts": charge.counts,
        "cost": amount(charge.cost, account),
        "blocks": ", ".join(account.compacted(charge.blocks)),
        "allotment": charge.allotment,
        "release": charge.release,
        "actor": charge.actor,
    }


def _pager(name: str, wanted: ChargeFilter, number: int) -> dict[str, Any]:
    """What the form is filled with, and the addresses of other pages and of the CSV file."""
    filters = {
        "state": wanted.state.value if wanted.state else "",
        "text": wanted.text,
        "since": wanted.since.isoformat() if wanted.since else "",
        "until": wanted.until.isoformat() if wanted.until else "",
    }
    query = {"name": name, **{field: value for field, value in filters.items() if value}}

    def page(offset: int) -> str:
        return "?" + urlencode({**query, "offset": offset} if offset else query)

    before, after = wanted.offset - wanted.limit, wanted.offset + wanted.limit
    return {
        **filters,
        "states": [state.value for state in ChargeState],
        "narrows": wanted.narrows,
        "number": number,
        "first": wanted.offset + 1,
        "last": min(after, number),
        "newer": page(max(before, 0)) if wanted.offset else "",
        "older": page(after) if after < number else "",
        "csv": "?" + urlencode(query),
    }


def amount(budget: Budget, account: Account) -> str:
    """An amount in the account's currency, cut to 12 decimals for display."""
    if account.composition == ZCDP:
        return f"rho {_short(budget.rho or Decimal(0))}"
    epsilon = _short(budget.epsilon)
    return epsilon if budget.delta == 0 else f"{epsilon}, delta {_short(budget.delta)}"


def _short(number: Decimal) -> str:
    shown = plain(number)
    whole, _, decimals = shown.partition(".")
    return shown if len(decimals) <= 12 else f"{whole}.{decimals[:12]}…"


def charges_of(ledger: LedgerReader, name: str, wanted: ChargeFilter, *, size: int = 1000) -> Iterator[Charge]:
    """All charges of an account that match the filters, newest first, read ``size`` at a time.

    A charge that is reserved between two reads moves the others by one place, so a charge may be repeated.
    """
    before: set[str] = set()
    for place in count(0, size):
        charges = ledger.charges(name, replace(wanted, offset=place, limit=size)).charges
        yield from (charge for charge in charges if charge.id not in before)
        if len(charges) < size:
            return
        before = {charge.id for charge in charges}


def charges_csv(charges: Iterable[Charge], account: Account) -> Iterator[str]:
    """Charges as lines of CSV (RFC 4180); no cell begins with a character that makes it a formula in a spreadsheet."""
    names = ("reserved_at", "settled_at", "state", "epsilon", "delta", "rho", "release", "blocks", "allotment", "actor")
    yield csv_line(names)
    for charge in charges:
        rho = "" if charge.cost.rho is None else plain(charge.cost.rho)
        amounts = (plain(charge.cost.epsilon), plain(charge.cost.delta), rho)
        blocks = " ".join(account.compacted(charge.blocks))
        texts = (charge.release, blocks, charge.allotment, charge.actor)
        yield csv_line((charge.reserved_at, charge.settled_at or "", charge.state.value, *amounts, *texts))


@cache
def _environment() -> Environment:
    environment = Environment(loader=PackageLoader("dp_operators.plugins"), autoescape=True, undefined=StrictUndefined)
    environment.filters["urlpart"] = lambda text: quote(str(text), safe="")
    environment.filters["percent"] = lambda share: str(int(min(100 * share, Decimal(100))))
    environment.globals.update(chart_width=WIDTH, chart_height=HEIGHT)
    return environment


def render(template: str, **given: Any) -> str:
    """A page from its template; ``given`` is escaped."""
    return _environment().get_template(template).render(**given)
