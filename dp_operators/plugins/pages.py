"""The pages about a ledger, as HTML without scripts; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from dp_operators.budget import Account, Charge, LedgerReader
from dp_operators.budget.composition import APPROXIMATE, ZCDP, fraction_spent, limits_of, room, zero_cost
from dp_operators.budget.values import ALL
from spark_jobs.contract.privacy import Budget, plain

LISTED = 200
"""The maximum number of charges, and of blocks, on a page; the newest are shown."""


def ledgers(connections: Iterable[str], *, nonce: str) -> str:
    """The page that lists ledgers by their connections."""
    return render("ledgers.html.j2", connections=tuple(connections), nonce=nonce)


def accounts(connection: str, ledger: LedgerReader, *, nonce: str) -> str:
    """The page that lists a ledger's accounts, each with the block that has the least left."""
    rows = []
    for account in ledger.accounts():
        spent = _spent(ledger, account)
        limits = limits_of(account.composition, account.cap, account.slack)
        tight = max(spent, key=lambda block: (fraction_spent(limits, spent[block]), block))
        [block] = _blocks(account, {tight: spent[tight]})
        rows.append({"account": _account(account), "block": block, "blocks": len(spent)})
    return render("accounts.html.j2", connection=connection, rows=rows, frozen=ledger.frozen(), nonce=nonce)


def account(connection: str, ledger: LedgerReader, name: str, *, nonce: str) -> str:
    """The page of one account, with its blocks and its latest charges.

    Raises:
        InvalidRequest: there is no such account.
    """
    paying = ledger.account(name)
    charges = ledger.history(name)
    spent = _spent(ledger, paying)
    shown = dict(list(spent.items())[-LISTED:])
    return render(
        "account.html.j2",
        connection=connection,
        account=_account(paying),
        blocks=_blocks(paying, shown),
        charges=[_charge(charge, paying) for charge in reversed(charges[-LISTED:])],
        all_charges=len(charges),
        all_blocks=len(spent),
        sub_budgets=[(part.name, _amount(part.cap, paying)) for part in ledger.sub_budgets(name)],
        frozen=ledger.frozen(),
        nonce=nonce,
    )


def failure(line: str, *, nonce: str) -> str:
    """The page of an error message."""
    return render("failure.html.j2", line=line, nonce=nonce)


def _spent(ledger: LedgerReader, account: Account) -> dict[str, Budget]:
    """What is spent in each block; before the first charge, one entry that stands for all blocks."""
    return ledger.blocks(account.name) or {ALL: zero_cost(account.composition)}


def _blocks(account: Account, spent: Mapping[str, Budget]) -> list[dict[str, Any]]:
    kind = APPROXIMATE if account.composition == APPROXIMATE else "pure"
    limits = limits_of(account.composition, account.cap, account.slack)
    return [
        {
            "name": block,
            "spent": _amount(total, account),
            "left": _amount(room(limits, total, kind), account),
            "share": fraction_spent(limits, total),
        }
        for block, total in spent.items()
    ]


def _account(account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "cap": _amount(account.cap, account)
        if account.composition == ZCDP
        else f"epsilon {_amount(account.cap, account)}",
        "composition": account.composition,
        "protects": account.unit.describe(),
        "neighbours": account.neighbours.value,
        "tables": account.tables,
        "outputs": account.outputs,
        "expression": None if account.blocks is None else str(account.blocks),
        "unit_stays": account.unit_stays,
        "opened_at": account.opened_at[:10],
        "opened_by": account.opened_by,
    }


def _charge(charge: Charge, account: Account) -> dict[str, str]:
    return {
        "at": charge.reserved_at[:19].replace("T", " "),
        "state": charge.state.value,
        "counts": "yes" if charge.counts else "no",
        "cost": _amount(charge.cost, account),
        "blocks": ", ".join(account.compacted(charge.blocks)),
        "allotment": charge.allotment,
        "release": charge.release,
        "actor": charge.actor,
    }


def _amount(budget: Budget, account: Account) -> str:
    """An amount in the account's currency, cut to 12 decimals for display."""
    if account.composition == ZCDP:
        return f"rho {_short(budget.rho or Decimal(0))}"
    epsilon = _short(budget.epsilon)
    return epsilon if budget.delta == 0 else f"{epsilon}, delta {_short(budget.delta)}"


def _short(number: Decimal) -> str:
    shown = plain(number)
    whole, _, decimals = shown.partition(".")
    return shown if len(decimals) <= 12 else f"{whole}.{decimals[:12]}…"


@cache
def _environment() -> Environment:
    environment = Environment(loader=PackageLoader("dp_operators.plugins"), autoescape=True, undefined=StrictUndefined)
    environment.filters["urlpart"] = lambda text: quote(str(text), safe="")
    environment.filters["percent"] = lambda share: str(int(min(100 * share, Decimal(100))))
    return environment


def render(template: str, **given: Any) -> str:
    """A page from its template; ``given`` is escaped."""
    return _environment().get_template(template).render(**given)
