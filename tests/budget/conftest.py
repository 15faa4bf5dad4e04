"""A ledger on a server, and roles of the server that may do their part in it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.grants import grants
from tests.support.ledgers import execute
from tests.support.postgres import PostgresServer


@pytest.fixture
def owner(postgres_url: str) -> Iterator[PrivacyLedger]:
    ledger = PrivacyLedger(postgres_url)
    ledger.migrate()
    ledger.open_account("visits", epsilon="1", blocks="day(at)")
    ledger.open_account("others", epsilon="1", tables=["/lake/others"])
    ledger.allot("visits", "team", epsilon="0.5")
    ledger.allot("visits", "rivals", epsilon="0.5")
    ledger.reserve("others", release="secret", epsilon="0.125")
    yield ledger
    ledger.close()


@pytest.fixture
def as_role(postgres_server: PostgresServer, postgres_url: str, owner: PrivacyLedger) -> Iterator[Callable[..., str]]:
    """Makes a role with its grants; its URL of the ledger."""
    made = []

    def make(may: str, *more: str, **of: str) -> str:
        role = f"role {secrets.token_hex(4)}"
        given = [statement for each in (may, *more) for statement in grants(role, each, **of)]
        execute(postgres_url, f'CREATE ROLE "{role}" LOGIN', *given)
        made.append(role)
        return postgres_url.replace("postgres@", f"{role.replace(' ', '%20')}@")

    yield make
    owner.close()
    for role in made:
        execute(postgres_url, f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"')
