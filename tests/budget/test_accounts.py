from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pytest

from dp_operators.budget import Account, PrivacyLedger
from spark_jobs.contract import InvalidRequest, Neighbours, PrivacyUnit
from tests.support.accounts import bound
from tests.support.ledgers import execute


def test_account_is_read_back_as_it_was_opened(ledger: PrivacyLedger) -> None:
    unit = PrivacyUnit(column="person", max_rows=3)
    opened = ledger.open_account(
        "visits",
        epsilon="2.50",
        neighbours="replace_one",
        unit=unit,
        tables=["/lake/visits", "catalog:Sales.Visits"],
        actor="admin",
    )

    assert ledger.account("visits") == opened
    assert isinstance(opened, Account)
    assert opened.cap.epsilon == Decimal("2.5")
    assert opened.neighbours is Neighbours.REPLACE_ONE
    assert opened.unit == unit
    assert opened.tables == ("catalog:spark_catalog.sales.visits", "file:///lake/visits")
    assert opened.opened_by == "admin"
    assert ledger.remaining("visits").epsilon == Decimal("2.5")


def test_accounts_are_listed_by_name(ledger: PrivacyLedger) -> None:
    assert ledger.accounts() == ()
    opened = [ledger.open_account(name, epsilon=1) for name in ("b", "a", "c")]
    assert list(ledger.accounts()) == sorted(opened, key=lambda account: account.name)


def test_opening_an_account_again_finds_it_open(ledger: PrivacyLedger) -> None:
    first = ledger.open_account("visits", epsilon="1.0", tables=["/lake/a", "/lake/b"], actor="admin")
    again = ledger.open_account(
        "visits", epsilon=1, tables=["file:///lake//b/", "/lake/a", "/lake/a"], actor="someone else"
    )
    assert again == first
    assert len(ledger.log()) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"epsilon": "1.5"}, "cap"),
        ({"neighbours": Neighbours.REPLACE_ONE}, "neighbours"),
        ({"unit": PrivacyUnit(column="person", max_rows=1)}, "unit"),
        ({"tables": ["/lake/visits", "/lake/more"]}, "tables"),
        ({"tables": []}, "tables"),
    ],
)
def test_opening_an_account_again_otherwise_is_refused(ledger: PrivacyLedger, change: dict, field: str) -> None:
    settings = {"epsilon": "1", "tables": ["/lake/visits"]}
    before = ledger.open_account("visits", **settings)

    with pytest.raises(InvalidRequest, match=f"account: got 'visits'; is already open with another {field};"):
        ledger.open_account("visits", **{**settings, **change})
    assert ledger.account("visits") == before
    assert len(ledger.log()) == 1


def test_table_belongs_to_one_account(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon=1, tables=["s3://lake/visits"])

    with pytest.raises(InvalidRequest, match="table: got 's3://lake/visits'; is bound to account visits"):
        ledger.open_account("copies", epsilon=1, tables=["/lake/copies", "s3a://lake/visits/"])
    assert [account.name for account in ledger.accounts()] == ["visits"]
    assert ledger.verify()


@pytest.mark.parametrize(
    ("bound", "wanted"),
    [
        ("/t", "/t/sub"),
        ("/t/sub", "/t"),
        ("/t", "/"),
        ("file://localhost/t", "/t/v=1/day=2"),
        ("s3://lake/visits", "s3a://lake"),
        ("catalog:sales.visits", "catalog:spark_catalog.sales.visits.snapshots"),
    ],
)
def test_no_table_lies_within_another(ledger: PrivacyLedger, bound: str, wanted: str) -> None:
    ledger.open_account("visits", epsilon=1, tables=[bound])
    for name in ("copies", "visits2"):
        with pytest.raises(
            InvalidRequest, match=r"must not contain, or lie within, table .* bound to account visits; bind"
        ) as no:
            ledger.open_account(name, epsilon=1, tables=["gs://elsewhere/t", wanted])
        assert "\n" not in str(no.value)
    with pytest.raises(InvalidRequest, match="must not contain, or lie within, table"):
        ledger.open_account("both", epsilon=1, tables=[wanted.replace("/t", "/u"), bound.replace("/t", "/u")])
    assert [account.name for account in ledger.accounts()] == ["visits"]
    assert len(ledger.log()) == 1


def test_two_names_of_a_table_are_one_table(ledger: PrivacyLedger, tmp_path: Path) -> None:
    """What was opened twice before: a short and a full name of a catalog's table, a link and where it leads."""
    (tmp_path / "visits").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "visits")
    tables = ["catalog:sales.visits", f"{tmp_path}/link", "hdfs://name/t"]
    opened = ledger.open_account("visits", epsilon=1, tables=tables)
    assert f"file://{tmp_path}/visits" in opened.tables
    others = [
        "catalog:spark_catalog.Sales.Visits",
        f"file:{tmp_path}//visits/",
        f"{tmp_path}/link",
        "HDFS://NAME:8020/t",
    ]
    for other in others:
        with pytest.raises(InvalidRequest, match="is bound to account visits, and a table belongs to one account"):
            ledger.open_account("copies", epsilon=1, tables=[other])


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (["/lake/visits/releases"], "output: .*must not contain, or lie within, table file:///lake/visits"),
        (["/lake"], "output: .*must not contain, or lie within, table file:///lake/"),
        (["/r", "/lake/theirs/x"], "or lie within, table file:///lake/theirs of account others"),
        (["/releases/others"], "must not contain, or lie within, file:///releases/others, a folder of account other"),
        (["/releases"], "must not contain, or lie within, file:///releases/others, a folder of account other"),
        (["/releases/others/x"], "must not contain, or lie within, file:///releases/others, a folder of account other"),
        (["releases"], "must be an absolute path or a URI"),
        (["/r#"], "must not contain any of"),
        (["hdfs://bucket/r"], "must be a store with conditional put"),
        (["catalog:a.b"], "must be a"),
    ],
)
def test_releases_go_neither_into_tables_nor_into_folders_of_another_account(
    ledger: PrivacyLedger, outputs: list[str], words: str
) -> None:
    ledger.open_account("others", epsilon=1, tables=["/lake/theirs"], outputs=["/releases/others"])
    before = ledger.open_account("bound", epsilon=1, tables=["/lake/visits"])
    head = ledger.head()
    with pytest.raises(InvalidRequest, match=words) as refused:
        ledger.bind_outputs("bound", outputs, actor="dora", reason="tests")
    assert "\n" not in str(refused.value)
    fresh = [each.replace("/visits", "/fresh") for each in outputs]
    with pytest.raises(InvalidRequest, match=words.replace("/visits", "/fresh")):
        ledger.open_account("fresh", epsilon=1, tables=["/lake/fresh"], outputs=fresh)
    assert ledger.account("bound") == before
    assert ledger.head() == head


def test_no_table_is_bound_where_releases_go(ledger: PrivacyLedger) -> None:
    ledger.open_account("others", epsilon=1, outputs=["/releases/others"])
    head = ledger.head()
    for table in ("/releases/others/x", "/releases", "/"):
        with pytest.raises(
            InvalidRequest, match="table: .*must not contain, or lie within, folder of releases .* of account others"
        ):
            ledger.open_account("copies", epsilon=1, tables=[table])
    with pytest.raises(
        InvalidRequest, match="must not contain, or lie within, folder of releases file:///releases/others"
    ):
        ledger.bind_table("others", bound("/releases/others/t"), actor="dora", reason="tests")
    assert ledger.head() == head


def test_folders_of_releases_are_read_back_by_one_name(ledger: PrivacyLedger, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    opened = ledger.open_account(
        "visits", epsilon=1, outputs=["s3a://bucket/r/", f"file:{tmp_path}/link", "s3://bucket/r"]
    )
    assert opened.outputs == (f"file://{tmp_path}/real", "s3://bucket/r")
    assert ledger.account("visits") == opened
    bound = ledger.bind_outputs("visits", ["/r/2", "/r"], actor="dora", reason="a new disk")
    assert bound.outputs == ("file:///r", "file:///r/2") == ledger.account("visits").outputs
    ledger.open_account("others", epsilon=1, outputs=["s3://bucket/r"])
    assert ledger.verification().findings == ()


@pytest.mark.parametrize("table", ["/t#", "/t/../u", "t", "/t?x=1", "/%74", "catalog:t", "webhdfs://name/t", "/t*"])
def test_text_that_may_be_two_tables_opens_no_account(ledger: PrivacyLedger, table: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^table: got ") as refused:
        ledger.open_account("visits", epsilon=1, tables=[table])
    assert "\n" not in str(refused.value)
    assert ledger.log() == ()


def test_tables_that_an_earlier_version_bound_within_each_other_pay_for_nothing(
    ledger: PrivacyLedger, ledger_url: str
) -> None:
    ledger.open_account("outer", epsilon=1, tables=["/t"])
    ledger.open_account("inner", epsilon=1, tables=["/u"])
    ledger.open_account("short", epsilon=1, tables=["catalog:a.b"])
    execute(ledger_url, "UPDATE account_tables SET identity = 'file:///t/sub' WHERE identity = 'file:///u'")
    execute(
        ledger_url, "UPDATE account_tables SET identity = 'catalog:a.b' WHERE identity = 'catalog:spark_catalog.a.b'"
    )
    for table in ("/t", "/t/sub"):
        with pytest.raises(InvalidRequest, match="must not contain, or lie within, table "):
            ledger.account_for_table(table)
    with pytest.raises(InvalidRequest, match="is bound to account short"):
        ledger.open_account("full", epsilon=1, tables=["catalog:spark_catalog.a.b"])
    ledger.bind_table("short", bound("catalog:a.b"), actor="dora", reason="by its full name")
    assert ledger.account_for_table("catalog:a.b").name == "short"


def test_account_for_a_table_is_found_by_any_spelling(ledger: PrivacyLedger) -> None:
    opened = ledger.open_account("visits", epsilon=1, tables=["/lake/visits"])

    assert ledger.account_for_table("file:///lake//visits/") == opened
    with pytest.raises(InvalidRequest, match="table: got 'file:///lake/other'; must be bound to an account"):
        ledger.account_for_table("/lake/other")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": "0"}, "epsilon: got '0'; must be above 0"),
        ({"epsilon": "-1"}, "epsilon: got '-1'; must be above 0"),
        ({"epsilon": "nan"}, "epsilon: got 'nan'; must be a finite decimal number"),
        ({"epsilon": float("inf")}, "epsilon: got inf; must be a finite decimal number"),
        ({"epsilon": "plenty"}, "epsilon: got 'plenty'; must be a finite decimal number"),
        ({"epsilon": None}, "epsilon: must be a finite decimal number"),
        ({"epsilon": "1e13"}, "must be above 0 and at most 10^12"),
        ({"epsilon": 1, "delta": "1e-6"}, "delta: got '1e-6'; cannot be used in an account whose composition is pure"),
        ({"epsilon": 1, "rho": "0.5"}, "rho: got '0.5'; cannot be used in an account whose composition is pure"),
        (
            {"epsilon": 1, "composition": "zcdp"},
            "delta: got '0'; must be above 0, because the account reports its epsilon at this delta",
        ),
        ({"rho": 1, "epsilon": 1, "composition": "approximate"}, "rho: got 1; cannot be used"),
        ({"epsilon": 1, "composition": "sum"}, "composition: got 'sum'; must be one of pure, zcdp, approximate"),
        ({"epsilon": 1, "neighbours": "some"}, "neighbours: got 'some'; must be one of add_remove, replace_one"),
        ({"epsilon": 1, "unit": {"max_rows": 0}}, "unit.max_rows: got 0; must be a whole number"),
        ({"epsilon": 1, "blocks": "day"}, "blocks: got 'day'; must have a form such as 'day(visited_at)'"),
        ({"epsilon": 1, "tables": [""]}, "table: got ''; must be printable text"),
        ({"epsilon": 1, "actor": "a\nb"}, "actor: got 'a\\nb'; must be printable text"),
    ],
)
def test_bad_setting_is_refused_in_one_line(ledger: PrivacyLedger, settings: dict, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.open_account("visits", **settings)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert ledger.accounts() == ()
    assert ledger.log() == ()


@pytest.mark.parametrize("name", ["", " visits", "a\x00b", "x" * 201, "я" * 101, 7, "\ud800"])
def test_bad_name_is_refused(ledger: PrivacyLedger, name: object) -> None:
    with pytest.raises(InvalidRequest, match="account: got .*; must be printable text of 1 to 200 bytes"):
        ledger.open_account(name, epsilon=1)  # type: ignore[arg-type]
    assert ledger.accounts() == ()


def test_names_may_be_in_any_script(ledger: PrivacyLedger) -> None:
    opened = ledger.open_account("опросы «2026» 🩺", epsilon=1, tables=["/lake/опросы"], actor="Ærøskøbing")
    charge = ledger.reserve(opened.name, release="выпуск/1", epsilon="0.5", actor="张伟")
    ledger.void(charge.id, reason="c'est raté", actor="o'Neill")

    assert ledger.account(opened.name) == opened
    assert ledger.verification().findings == ()


def test_longest_names_are_kept(ledger: PrivacyLedger) -> None:
    """Random letters: a database compresses others, and then bounds what is left."""
    chance = random.Random(7)
    account, release, table = (
        "".join(chance.choices("абвгдежзиклмнопрстуфхцчшщэюя", k=length // 2)) for length in (200, 1000, 1900)
    )
    ledger.open_account(account, epsilon=1, tables=[f"/{table}"])
    charge = ledger.reserve(account, release=release, epsilon=1, tables=[f"/{table}"])
    assert ledger.find_charge(account, release) == charge
    assert ledger.verify()
