"""A ledger on a server, and roles of the server that may do their part in it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.tables.grants import grants
from tests.support.ledgers import execute
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def with_accounts(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a ledger with some accounts, to be copied."""
    url = postgres_server.create_database()
    ledger = PrivacyLedger(url)
    ledger.migrate()
    ledger.open_account("visits", epsilon="1", blocks="day(at)")
    ledger.open_account("others", epsilon="1", tables=["/lake/others"])
    ledger.allot("visits", "team", epsilon="0.5")
    ledger.allot("visits", "rivals", epsilon="0.5")
    ledger.reserve("others", release="secret", epsilon="0.125")
    ledger.close()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database; of one with accounts, where the test has their owner."""
    like = str(request.getfixturevalue("with_accounts")) if "owner" in request.fixturenames else ""
    url = postgres_server.create_database(like=like)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def owner(postgres_url: str) -> Iterator[PrivacyLedger]:
    """The ledger of ``with_accounts``, in a database of the test's own."""
    ledger = PrivacyLedger(postgres_url)
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
