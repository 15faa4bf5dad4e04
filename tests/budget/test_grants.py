"""The server itself refuses what is not a role's part."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from dp_operators.budget import ChargeState, NotAllowed, PrivacyLedger
from dp_operators.budget.tables.grants import PARTS, grants
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import commit, execute

REGIONS = {"name": "regions", "key": "ward", "value": "region", "entries": [["w1", "north"], ["w2", "south"]]}
READS: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "show": lambda ledger, charge: ledger.remaining("visits", "2026-11-21"),
    "history": lambda ledger, charge: ledger.history("visits"),
    "verify": lambda ledger, charge: ledger.verify() or pytest.fail("not sound"),
}
CHARGES: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "reserve": lambda ledger, charge: ledger.reserve("visits", release="new", epsilon="0.1", blocks="2026-11-22"),
    "commit": lambda ledger, charge: commit(ledger, charge, "ab"),
    "void": lambda ledger, charge: ledger.void(charge),
    "renew": lambda ledger, charge: ledger.renew(charge),
}
FREEZES: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "freeze": lambda ledger, charge: ledger.freeze(reason="it was restored"),
}
ADMINISTERS: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "approvals": lambda ledger, charge: ledger.set_approvals(
        "visits", requester_approves=not ledger.account("visits").requester_approves, actor="a", reason="b"
    ),
    "open": lambda ledger, charge: ledger.open_account("new", epsilon="1", tables=["/lake/new"]),
    "raise": lambda ledger, charge: ledger.raise_cap("visits", epsilon="2", actor="a", reason="b"),
    "allot": lambda ledger, charge: ledger.allot("visits", "another team", epsilon="1"),
    "keys": lambda ledger, charge: ledger.register_keys("visits", "wards", ["north", "south"], actor="a"),
    "lookup": lambda ledger, charge: ledger.register_lookup("visits", REGIONS, actor="a"),
    "bind outputs": lambda ledger, charge: ledger.bind_outputs("visits", ["/releases/v"], actor="a", reason="b"),
}
THAWS: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "thaw": lambda ledger, charge: ledger.thaw(actor="a", reason="b"),
}
ALL_CALLS = READS | CHARGES | ADMINISTERS | FREEZES | THAWS
MAY = {"view": READS, "charge": READS | CHARGES, "administer": ALL_CALLS}


@pytest.mark.postgres
@pytest.mark.parametrize(("may", "timeout"), [("view", "0"), ("charge", "1min"), ("administer", "1min")])
def test_session_that_waits_within_a_transaction_is_ended(as_role, owner, may: str, timeout: str) -> None:
    """It would hold the ledger's lock, and nobody could charge."""
    with psycopg.connect(as_role(may), autocommit=True) as session:
        assert session.execute("SHOW idle_in_transaction_session_timeout").fetchone() == (timeout,)


FORGERIES = [
    "UPDATE audit_log SET reason = 'x'",
    "DELETE FROM audit_log",
    "DELETE FROM charges",
    "DELETE FROM block_totals",
    "TRUNCATE audit_log",
    "DROP TABLE audit_log",
    "ALTER TABLE charges DISABLE ROW LEVEL SECURITY",
    "UPDATE charges SET epsilon = '0'",
    "UPDATE charges SET release_key = 'x'",
    "UPDATE block_totals SET block = 'x'",
    "UPDATE accounts SET public_sizes = 1",
    "UPDATE accounts SET neighbours = 'x'",
    "UPDATE audit_head SET id = 2",
    "INSERT INTO audit_log VALUES (99, '', '', 'forged', 'visits', '', '', '{}', '', '')",
    "UPDATE audit_head SET seq = 99, previous = hash, hash = 'x', frozen = 'x'",
    "SELECT FROM audit_head FOR UPDATE",
    "SELECT secret FROM seal_secret",
    "SELECT seal_of(1, repeat('a', 64))",
    "UPDATE run_keys SET run_key = 'x'",
    "INSERT INTO run_keys VALUES ('x', 'x')",
]


@pytest.mark.postgres
@pytest.mark.parametrize("may", PARTS)
def test_role_may_do_its_part_and_nothing_else(may: str, as_role: Callable[..., str], owner: PrivacyLedger) -> None:
    mine = PrivacyLedger(as_role(may))
    for number, (name, call) in enumerate(ALL_CALLS.items()):
        charge = owner.reserve("visits", release=f"r{number}", epsilon="0.01", blocks="2026-11-21").id
        if name == "thaw":
            owner.freeze(reason="it was restored")
        if name in MAY[may]:
            call(mine, charge)
        else:
            with pytest.raises(NotAllowed, match="permission denied for (table|function)|violates row-level security"):
                call(mine, charge)
        owner.thaw(actor="owner", reason="tests")
    assert owner.verification().findings == ()
    mine.close()


@pytest.mark.postgres
@pytest.mark.parametrize("may", PARTS)
def test_no_role_may_forge_or_forget(may: str, as_role: Callable[..., str], owner: PrivacyLedger) -> None:
    owner.reserve("visits", release="r", epsilon="0.01", blocks="2026-11-21")
    with psycopg.connect(as_role(may), autocommit=True) as connection:
        for forgery in FORGERIES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forgery)
    assert owner.verification().findings == ()


OTHERS: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "show": lambda ledger, charge: ledger.remaining("others"),
    "history": lambda ledger, charge: ledger.history("others"),
    "reserve": lambda ledger, charge: ledger.reserve("others", release="new", epsilon="0.1"),
    "commit": lambda ledger, charge: commit(ledger, charge),
    "renew": lambda ledger, charge: ledger.renew(charge),
    "raise": lambda ledger, charge: ledger.raise_cap("others", epsilon="2", actor="a", reason="b"),
    "allot": lambda ledger, charge: ledger.allot("others", "mine", epsilon="1"),
    "table": lambda ledger, charge: ledger.account_for_table("/lake/others"),
}


@pytest.mark.postgres
@pytest.mark.parametrize("may", PARTS)
def test_role_of_one_account_does_its_part_there_and_knows_of_no_other(
    may: str, as_role: Callable[..., str], owner: PrivacyLedger
) -> None:
    mine = PrivacyLedger(as_role(may, account="visits"))
    nobodys = {"verify", "open", "freeze", "thaw"}  # these are about the whole ledger
    for number, (name, call) in enumerate(ALL_CALLS.items()):
        charge = owner.reserve("visits", release=f"r{number}", epsilon="0.01", blocks="2026-11-21").id
        if name == "thaw":
            owner.freeze(reason="it was restored")
        if name in MAY[may] and name not in nobodys:
            call(mine, charge)
        else:
            with pytest.raises(InvalidRequest, match="may not do this|can only be verified"):
                call(mine, charge)
        owner.thaw(actor="owner", reason="tests")
    [secret] = owner.history("others")
    before = (owner.account("others"), owner.remaining("others"), owner.history("others"), owner.log("others"))
    for call in OTHERS.values():
        with pytest.raises(
            InvalidRequest, match="must be an open acc|must be a charge|must be bound to|may not do this"
        ):
            call(mine, secret.id)
    assert [account.name for account in mine.accounts()] == ["visits"]
    assert {entry.account for entry in mine.log()} == {"visits"}
    after = (owner.account("others"), owner.remaining("others"), owner.history("others"), owner.log("others"))
    assert after == before
    assert owner.verification().findings == ()
    mine.close()


@pytest.mark.postgres
def test_raw_statements_of_a_charger_do_not_reach_other_accounts(
    as_role: Callable[..., str], owner: PrivacyLedger
) -> None:
    with psycopg.connect(as_role("charge", account="visits"), autocommit=True) as connection:
        for table in ("accounts", "account_tables", "allotments", "block_totals", "charges", "audit_log"):
            column = "name" if table == "accounts" else "account"
            found = connection.execute(f"SELECT {column} FROM {table}").fetchall()
            assert {name for (name,) in found} <= {"visits"}
        assert connection.execute("UPDATE charges SET state = 'void' WHERE account = 'others'").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table audit_log"):
            connection.execute("INSERT INTO audit_log VALUES (99, '', '', 'reserved', 'others', '', '', '{}', '', '')")
    assert owner.verification().findings == ()


@pytest.mark.postgres
def test_team_charges_its_own_allotment_and_no_other(as_role: Callable[..., str], owner: PrivacyLedger) -> None:
    mine = PrivacyLedger(as_role("charge", account="visits", allotment="team"))
    order = {"epsilon": "0.1", "blocks": "2026-11-21"}
    theirs = owner.reserve("visits", release="theirs", allotment="rivals", **order)
    nobodys = owner.reserve("visits", release="nobody's", **order)
    charge = mine.reserve("visits", release="ours", allotment="team", **order)
    assert commit(mine, charge.id, "ab").state is ChargeState.COMMITTED
    for allotment in (None, "rivals"):
        with pytest.raises(NotAllowed, match="row-level security"):
            mine.reserve("visits", release="more", allotment=allotment, **order)
    for other in (theirs, nobodys):
        for call in (mine.charge, mine.commit, mine.burn, mine.void, mine.renew):
            with pytest.raises(InvalidRequest, match="must be a charge of this ledger"):
                call(other.id)
    assert [each.release for each in mine.history("visits")] == ["ours"]
    # what the account has left counts everybody's
    assert str(mine.remaining("visits", "2026-11-21").epsilon) == "0.7"
    assert str(mine.remaining("visits", "2026-11-21", allotment="team").epsilon) == "0.4"
    assert owner.verification().findings == ()
    mine.close()


@pytest.mark.postgres
def test_parts_in_several_accounts_add_up_and_a_lesser_part_replaces_a_greater(
    as_role: Callable[..., str], owner: PrivacyLedger, postgres_url: str
) -> None:
    url = as_role("charge", account="visits")
    role = url.split("//")[1].split("@")[0].replace("%20", " ")
    execute(postgres_url, *grants(role, "view", account="others"))
    mine = PrivacyLedger(url)
    assert [account.name for account in mine.accounts()] == ["others", "visits"]
    mine.reserve("visits", release="a", epsilon="0.1", blocks="2026-11-21")
    with pytest.raises(NotAllowed):
        mine.reserve("others", release="a", epsilon="0.1")
    execute(postgres_url, *grants(role, "view", account="visits"))
    with pytest.raises(NotAllowed):
        mine.reserve("visits", release="b", epsilon="0.1", blocks="2026-11-21")
    execute(postgres_url, *grants(role, "view"))
    assert mine.verify()
    assert owner.verification().findings == ()
    mine.close()


@pytest.mark.postgres
def test_role_without_grants_sees_nothing(as_role: Callable[..., str], owner: PrivacyLedger, postgres_url: str) -> None:
    as_role("view")
    execute(
        postgres_url, 'CREATE ROLE "a stranger" LOGIN', 'GRANT SELECT ON ALL TABLES IN SCHEMA public TO "a stranger"'
    )
    try:
        stranger = PrivacyLedger(postgres_url.replace("postgres@", "a%20stranger@"))
        assert stranger.accounts() == ()
        assert stranger.log() == ()
        stranger.close()
    finally:
        execute(postgres_url, 'DROP OWNED BY "a stranger"', 'DROP ROLE "a stranger"')


def test_unknown_part_or_role_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="may: got 'own'; must be one of view, charge, administer"):
        grants("someone", "own")
    with pytest.raises(InvalidRequest, match="role: got ''"):
        grants("", "view")
    assert '"a""b"' in grants('a"b', "view")[0]
    with pytest.raises(InvalidRequest, match="allotment: got 'team'; needs an account"):
        grants("a", "charge", allotment="team")
    with pytest.raises(InvalidRequest, match="allotment: got 'team'; can only be viewed or charged"):
        grants("a", "administer", account="visits", allotment="team")
    assert any("account = 'o''brien'" in statement for statement in grants("a", "view", account="o'brien"))
