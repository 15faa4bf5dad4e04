"""The server itself refuses what is not a role's part."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import psycopg
import pytest

from dp_operators.budget import LedgerUnavailable, PrivacyLedger
from dp_operators.budget.grants import PARTS, grants
from spark_jobs.contract import RequestRefused
from tests.support.ledgers import execute
from tests.support.postgres import PostgresServer

READS: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "show": lambda ledger, charge: ledger.remaining("visits", "2026-11-21"),
    "history": lambda ledger, charge: ledger.history("visits"),
    "verify": lambda ledger, charge: ledger.verify() or pytest.fail("not sound"),
}
CHARGES: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "reserve": lambda ledger, charge: ledger.reserve("visits", release="new", epsilon="0.1", blocks="2026-11-22"),
    "commit": lambda ledger, charge: ledger.commit(charge, "ab"),
    "void": lambda ledger, charge: ledger.void(charge),
    "renew": lambda ledger, charge: ledger.renew(charge),
}
ADMINISTERS: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "open": lambda ledger, charge: ledger.open_account("new", epsilon="1", tables=["/lake/new"]),
    "raise": lambda ledger, charge: ledger.raise_cap("visits", epsilon="2", actor="a", reason="b"),
    "allot": lambda ledger, charge: ledger.allot("visits", "team", epsilon="1"),
}
MAY = {"view": READS, "charge": READS | CHARGES, "administer": READS | CHARGES | ADMINISTERS}
ALL_CALLS = READS | CHARGES | ADMINISTERS
FORGERIES = [
    "UPDATE audit_log SET reason = 'x'",
    "DELETE FROM audit_log",
    "DELETE FROM charges",
    "DELETE FROM block_totals",
    "TRUNCATE audit_log",
    "DROP TABLE audit_log",
]


@pytest.fixture
def owner(postgres_url: str) -> Iterator[PrivacyLedger]:
    ledger = PrivacyLedger(postgres_url)
    ledger.migrate()
    ledger.open_account("visits", epsilon="1", blocks="day(at)")
    yield ledger
    ledger.close()


@pytest.fixture
def as_role(postgres_server: PostgresServer, postgres_url: str, owner: PrivacyLedger) -> Iterator[Callable[[str], str]]:
    """Makes a role with its grants; its URL of the ledger."""
    made = []

    def make(may: str) -> str:
        role = f"role {secrets.token_hex(4)}"
        execute(postgres_url, f'CREATE ROLE "{role}" LOGIN', *grants(role, may))
        made.append(role)
        return postgres_url.replace("postgres@", f"{role.replace(' ', '%20')}@")

    yield make
    owner.close()
    for role in made:
        execute(postgres_url, f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"')


@pytest.mark.postgres
@pytest.mark.parametrize("may", PARTS)
def test_role_may_do_its_part_and_nothing_else(may: str, as_role: Callable[[str], str], owner: PrivacyLedger) -> None:
    mine = PrivacyLedger(as_role(may))
    for number, (name, call) in enumerate(ALL_CALLS.items()):
        charge = owner.reserve("visits", release=f"r{number}", epsilon="0.01", blocks="2026-11-21").id
        if name in MAY[may]:
            call(mine, charge)
        else:
            with pytest.raises(LedgerUnavailable, match="permission denied for table"):
                call(mine, charge)
    assert owner.verification().findings == ()
    mine.close()


@pytest.mark.postgres
@pytest.mark.parametrize("may", PARTS)
def test_no_role_may_forge_or_forget(may: str, as_role: Callable[[str], str], owner: PrivacyLedger) -> None:
    owner.reserve("visits", release="r", epsilon="0.01", blocks="2026-11-21")
    with psycopg.connect(as_role(may), autocommit=True) as connection:
        for forgery in FORGERIES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forgery)
    assert owner.verification().findings == ()


def test_unknown_part_or_role_is_refused() -> None:
    with pytest.raises(RequestRefused, match="may: got 'own'; must be one of view, charge, administer"):
        grants("someone", "own")
    with pytest.raises(RequestRefused, match="role: got ''"):
        grants("", "view")
    assert '"a""b"' in grants('a"b', "view")[0]
