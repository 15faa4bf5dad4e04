"""A ledger and a store of the first release, taken over: no spend is forgotten, and releases are found."""

from __future__ import annotations

import datetime as dt
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import ChargeConflict, ChargeState, PrivacyLedger
from dp_operators.budget.cli import run as run_command
from dp_operators.budget.grants import grants
from dp_operators.cli import app
from dp_operators.releasing import (
    ReleaseClosed,
    ReleaseDamaged,
    complete,
    forecast,
    give_back,
    reconcile,
)
from dp_operators.releasing.preflight import default_key
from spark_jobs.contract import InvalidRequest, ReleaseRequest
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.store.layout import folder_name
from tests.support.airflow import make_context
from tests.support.code_blocks import code_blocks
from tests.support.first_release import BINDINGS, OUTPUT, RUN, SALES, VISITS, as_left, attempt, key, totals
from tests.support.ledgers import execute
from tests.support.release_lab import HereRunner, NoRunner
from tests.support.repository import ROOT
from tests.support.s3_server import S3

pytestmark = pytest.mark.slow

COMMITTED = {"published": VISITS, "committed": VISITS, "published_sales": SALES, "half_published": SALES}
RESERVED = {"not_started": VISITS, "drawn": VISITS, "drafted": SALES}
FIELDS = {"visits": VISITS, "sales": SALES}


@pytest.fixture
def left_url(empty_ledger_url: str) -> str:
    """The ledger as the first release left it."""
    as_left(empty_ledger_url)
    return empty_ledger_url


def command(url: str, *arguments: str) -> int:
    return run_command(app, [*arguments, "--ledger", url])


def bind(url: str) -> None:
    """What an administrator does after the upgrade."""
    for account, described in BINDINGS.items():
        assert command(url, "bind", account, *described, "--yes", "--reason", "upgraded", "--actor", "dpo") == 0
        # accounts share no folder any more: it stays with one of them
        output = OUTPUT if account == "visits" else "s3://releases/sales"
        assert command(url, "bind-outputs", account, output, "--reason", "upgraded", "--actor", "dpo") == 0


@pytest.fixture(scope="module")
def upgraded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite ledger, migrated and bound, to be copied."""
    path = tmp_path_factory.mktemp("upgraded") / "ledger.db"
    as_left(f"sqlite:///{path}")
    assert command(f"sqlite:///{path}", "migrate") == 0
    bind(f"sqlite:///{path}")
    return path


@pytest.fixture
def upgraded_url(upgraded_file: Path, tmp_path: Path) -> str:
    """A copy of that ledger."""
    copy = tmp_path / "ledger.db"
    copy.write_bytes(upgraded_file.read_bytes())
    return f"sqlite:///{copy}"


@pytest.fixture
def upgraded(upgraded_url: str) -> Iterator[PrivacyLedger]:
    ledger = PrivacyLedger(upgraded_url)
    yield ledger
    ledger.close()


def folder_of(task: str, part: str = "") -> str:
    return f"/{OUTPUT.removeprefix('s3://')}/{folder_name(str(key(task)))}/{part}"


def visible(store: S3, task: str) -> dict[str, bytes]:
    """What a release's folder shows: its objects but those of drafts, and the receipt."""
    root = folder_of(task)
    names = {name: content for name, content in store.objects.items() if name.startswith(root)}
    return {name: content for name, content in names.items() if "_draft" not in name and "receipt" not in name}


def drafted(store: S3, task: str) -> dict[str, bytes]:
    """What the release's draft holds, under the names that it is published under."""
    root = folder_of(task)
    found = {}
    for name, content in store.objects.items():
        if name.startswith(f"{root}_draft/") and "claim" not in name:
            inner = name.removeprefix(f"{root}_draft/").split("/", 1)[1]
            if inner == "release.json" or inner.startswith("files/"):
                found[root + inner.removeprefix("files/")] = content
    return found


def test_migration_keeps_every_charge_and_total(left_url: str) -> None:
    before = totals(left_url)
    ledger = PrivacyLedger(left_url)
    with pytest.raises(InvalidRequest, match="schema 0004.*run `dp-budget migrate`"):
        ledger.accounts()
    assert command(left_url, "migrate") == 0
    assert command(left_url, "verify") == 0
    assert totals(left_url) == before
    charges = {charge.release.split("/")[-2]: charge for name in FIELDS for charge in ledger.history(name)}
    states = {task: charges[task].state.value for task in (*COMMITTED, *RESERVED, "burnt", "void")}
    assert states == {
        **dict.fromkeys(COMMITTED, "committed"), **dict.fromkeys(RESERVED, "reserved"), "burnt": "burnt", "void": "void"
    }  # fmt: skip
    # eight of visits with one given back, by the composition of the account; three of sales
    assert ledger.remaining("sales").epsilon == 7
    assert ledger.remaining("sales", allotment="shops").epsilon == 2
    assert ledger.verification().findings == ()
    ledger.close()


@pytest.mark.parametrize("account", FIELDS)
def test_accounts_refuse_charges_until_their_tables_are_bound(left_url: str, first_store: S3, account: str) -> None:
    ledger = PrivacyLedger(left_url)
    ledger.migrate()
    before, head = dict(first_store.objects), ledger.head()
    with pytest.raises(InvalidRequest, match=f"opened without them; have them bound: `dp-budget bind {account}`"):
        attempt(ledger, "new", FIELDS[account])
    assert (first_store.objects, ledger.head()) == (before, head)
    ledger.close()


def test_bound_account_pays_for_new_releases_and_counts_the_old(upgraded: PrivacyLedger, first_store: S3) -> None:
    before = upgraded.remaining("visits", kind="approximate").epsilon
    published = attempt(upgraded, "new", VISITS, runner=HereRunner(), blocks=["2026-11"])
    assert not published.adopted
    assert upgraded.remaining("visits", kind="approximate").epsilon < before
    assert upgraded.verification().findings == ()
    with pytest.raises(InvalidRequest, match="left"):
        attempt(upgraded, "too much", VISITS, budget={"epsilon": "9", "delta": "1e-6"}, runner=HereRunner())


@pytest.mark.sampled
@pytest.mark.parametrize("task", COMMITTED)
def test_cleared_task_finds_its_release_byte_for_byte(upgraded: PrivacyLedger, first_store: S3, task: str) -> None:
    fields = COMMITTED[task]
    was_visible = folder_of(task, "release.json") in first_store.objects
    expected, head = drafted(first_store, task), upgraded.head()
    published = attempt(upgraded, task, fields)
    assert published.adopted == was_visible
    assert visible(first_store, task) == expected
    assert upgraded.head() == head
    assert attempt(upgraded, task, fields).manifest_sha256 == published.manifest_sha256


def test_operator_of_a_cleared_task_finds_its_release(
    upgraded_url: str, first_store: S3, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a scheduler calls it: same DAG, task, run and map index; what a DAG says of a table today."""
    from dp_operators.operators.release import ReleaseDiagnosticsOperator

    connect("privacy_ledger_default", conn_type="privacy_ledger", extra={"path": upgraded_url[len("sqlite:///") :]})
    monkeypatch.setattr("dp_operators.operators.application.make_runner", lambda *_, **__: NoRunner())
    at = dt.datetime.fromisoformat(RUN)
    for task, fields in COMMITTED.items():
        given = {**fields, "epsilon": fields["budget"]["epsilon"], "delta": fields["budget"].get("delta", "0")}
        del given["budget"]
        allotment = "shops" if fields is SALES else None
        operator = ReleaseDiagnosticsOperator(task_id=task, allotment=allotment, **given)
        context = make_context(dag_id="monthly", task_id=task, interval=(at, at))
        operator.render_template_fields(context)
        made, expected = operator.execute(context), drafted(first_store, task)
        assert made["key"] == str(key(task))
        assert made["uri"].removeprefix("s3:/") + "/" == folder_of(task)
        assert visible(first_store, task) == expected


def test_priced_only_a_found_release_costs_nothing(upgraded: PrivacyLedger, first_store: S3) -> None:
    request = complete(ReleaseRequest.parse(VISITS), upgraded)
    found = forecast(request, ledger=upgraded, runner=NoRunner(), key=str(key("published")))
    assert found.charge is not None
    assert (found.charge.state, found.left) == (ChargeState.COMMITTED, {})


DIFFERENT: dict[str, dict[str, Any]] = {
    "cost": {"budget": {"epsilon": "0.25", "delta": "1e-6"}},
    "filter": {"where": "score > 0.5"},
    "version": {"table": {"path": "/srv/lake/visits", "snapshot": {"path_version": "v2"}}},
    "score": {"model": {"kind": "columns", "score": "person", "basis": "public"}},
    "diagnostic": {"diagnostics": ["roc_curve"]},
    "block": {"blocks": ["2026-11"]},
    "title": {"title": "Another"},
}


@pytest.mark.parametrize("task", ["published", "not_started"])
def test_another_request_under_the_key_is_a_conflict(upgraded: PrivacyLedger, first_store: S3, task: str) -> None:
    """Whatever the store says: a stored request that agrees with the new one does not help it."""
    [charge] = [each for each in upgraded.history("visits") if each.release == str(key(task))]
    head = upgraded.head()
    for change in DIFFERENT.values():
        forged = {**VISITS, **change}
        forged["table"] = {**forged["table"], "format": "parquet", "name": None, "columns": None}
        first_store.objects[folder_of(task, f"_draft/{charge.id}/request.json")] = json.dumps(forged).encode()
        before = dict(first_store.objects)
        with pytest.raises(ChargeConflict, match="a release key pays for one request: use another key"):
            attempt(upgraded, task, VISITS, runner=HereRunner(), **change)
        with pytest.raises(InvalidRequest, match="a reservation for this request"):
            give_back(ReleaseRequest.parse({**VISITS, **change}), ledger=upgraded, key=key(task), reason="r")
        assert (first_store.objects, upgraded.head()) == (before, head)


def test_columns_bound_as_other_types_are_another_request(tmp_path: Path, first_store: S3) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    as_left(url)
    assert command(url, "migrate") == 0
    described = [part.replace("size int", "size double") for part in BINDINGS["sales"]]
    assert command(url, "bind", "sales", *described, "--yes", "--reason", "upgraded") == 0
    assert command(url, "bind-outputs", "sales", OUTPUT, "--reason", "upgraded") == 0
    ledger = PrivacyLedger(url)
    with pytest.raises(ChargeConflict, match="use another key"):
        attempt(ledger, "published_sales", SALES)
    ledger.close()


@pytest.mark.sampled
@pytest.mark.parametrize("task", RESERVED)
def test_reservation_is_burnt_with_one_line(upgraded: PrivacyLedger, first_store: S3, task: str) -> None:
    fields = RESERVED[task]
    left = upgraded.remaining(fields["account"], kind="approximate" if fields is VISITS else "pure")
    with pytest.raises(ReleaseClosed) as settled:
        attempt(upgraded, task, fields)
    [charge] = [each for each in upgraded.history(fields["account"]) if each.release == str(key(task))]
    assert str(settled.value) == (
        f"release {key(task)} was begun by an earlier version, whose draws cannot be used any more: "
        f"charge {charge.id} is burnt; request it again under another key"
    )
    assert not settled.value.retryable
    assert charge.state is ChargeState.BURNT
    assert visible(first_store, task) == {}
    assert upgraded.remaining(fields["account"], kind="approximate" if fields is VISITS else "pure") == left
    with pytest.raises(ReleaseClosed, match="is spent and never published; request it again under another key"):
        attempt(upgraded, task, fields)
    assert upgraded.verification().findings == ()


def test_priced_only_a_reservation_is_said_to_be_lost(upgraded: PrivacyLedger, first_store: S3) -> None:
    request, head = complete(ReleaseRequest.parse(VISITS), upgraded), upgraded.head()
    with pytest.raises(ReleaseClosed, match="begun by an earlier version.* would be burnt"):
        forecast(request, ledger=upgraded, runner=NoRunner(), key=str(key("drawn")))
    assert upgraded.head() == head


def test_stale_reservations_are_burnt_by_the_command(
    upgraded_url: str, upgraded: PrivacyLedger, first_store: S3, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(upgraded_url, "UPDATE charges SET renewed_at = '2026-01-01'")
    capsys.readouterr()
    ended = command(
        upgraded_url, "release-stale", "--output", OUTPUT, "--hours", "24", "--reason", "upgraded", "--actor", "dpo"
    )
    assert (ended, len(capsys.readouterr().out.splitlines())) == (0, 3)
    states = [charge.state for name in FIELDS for charge in upgraded.history(name)]
    assert (states.count(ChargeState.RESERVED), states.count(ChargeState.BURNT)) == (0, 4)
    assert upgraded.verification().findings == ()


def test_settled_charges_stay_as_they_were(upgraded: PrivacyLedger, first_store: S3) -> None:
    with pytest.raises(ReleaseClosed, match="is spent and never published"):
        attempt(upgraded, "burnt", VISITS)
    # a charge that was given back leaves its key free: the request is paid for anew
    again = attempt(upgraded, "void", VISITS, runner=HereRunner())
    charge = upgraded.charge(again.charge_id)
    assert (charge.generation, charge.state) == (2, ChargeState.COMMITTED)


@pytest.mark.parametrize("damage", ["gone", "altered"])
def test_committed_draft_that_is_not_what_was_committed_is_never_published(
    upgraded: PrivacyLedger, first_store: S3, damage: str
) -> None:
    [report] = [name for name in first_store.objects if folder_of("committed") in name and "report.html" in name]
    content = first_store.objects.pop(report)
    if damage == "altered":
        first_store.objects[report] = content.replace(b"<p>", b"<b>", 1)
    head = upgraded.head()
    with pytest.raises(ReleaseDamaged, match="report.html is not what was committed; only a backup has it"):
        attempt(upgraded, "committed", VISITS)
    assert folder_of("committed", "release.json") not in first_store.objects
    assert upgraded.head() == head


def test_lost_file_of_a_published_release_is_published_again(upgraded: PrivacyLedger, first_store: S3) -> None:
    expected = visible(first_store, "published")
    del first_store.objects[folder_of("published", "report.html")]
    assert not attempt(upgraded, "published", VISITS).adopted
    assert visible(first_store, "published") == expected


def test_command_without_a_key_finds_what_it_has_paid_for(upgraded: PrivacyLedger, first_store: S3) -> None:
    request = ReleaseRequest.parse(VISITS)
    charges = {charge.release: charge for charge in upgraded.history("visits")}
    assert charges[default_key(request, upgraded)].state is ChargeState.COMMITTED
    other = ReleaseRequest.parse({**VISITS, "title": "Another"})
    assert default_key(other, upgraded) == f"cli/{other.sha256}"


@pytest.mark.verify
def test_reconciled_ledger_knows_old_requests_by_their_hashes(
    upgraded: PrivacyLedger, tmp_path: Path, first_store: S3
) -> None:
    """A ledger restored from before every release: the store tells it of them, in the form that they have there."""
    restored = PrivacyLedger(f"sqlite:///{tmp_path}/restored.db")
    restored.migrate()
    for account in upgraded.accounts():
        terms = {name: getattr(account, name) for name in ("composition", "neighbours", "unit", "blocks", "unit_stays")}
        cap = {"epsilon": account.cap.epsilon, "delta": account.cap.delta}
        bindings = [TableBinding.parse(binding) for binding in account.bindings.values()]
        restored.open_account(account.name, **terms, **cap, tables=bindings, outputs=account.outputs)
    restored.allot("sales", "shops", epsilon=5)
    restored.freeze(actor="dpo", reason="restored")
    assert reconcile(OUTPUT, restored, actor="dpo").findings == ()
    restored.thaw(actor="dpo", reason="reconciled")
    for name in FIELDS:
        known = {charge.id: charge.request_sha256 for charge in upgraded.history(name)}
        told = {charge.id: charge.request_sha256 for charge in restored.history(name)}
        assert told
        assert told.items() <= known.items()
    assert attempt(restored, "published", VISITS).adopted
    assert attempt(restored, "published_sales", SALES).adopted
    restored.close()


def commands_of_the_page() -> list[list[str]]:
    page = ROOT / "docs" / "how-to" / "upgrading.md"
    lines = [line for block in code_blocks(page) if block.language == "bash" for line in block.code.splitlines()]
    return [shlex.split(line) for line in lines]


@pytest.mark.verify
def test_commands_of_the_page_upgrade_a_ledger(
    tmp_path: Path, first_store: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them, in their order; the first belongs to the version before."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    as_left(url)
    monkeypatch.setenv("DP_LEDGER_URL", url)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    stale, *commands = commands_of_the_page()
    assert (stale, len(commands)) == (["dp-budget", "stale"], 9)
    for line in commands:
        if "release-stale" in line:
            execute(url, "UPDATE charges SET renewed_at = '2026-01-01'")
        assert run_command(app, line[1:]) == 0, line
    ledger = PrivacyLedger(url)
    for task, fields in COMMITTED.items():
        head = ledger.head()
        attempt(ledger, task, fields)
        assert ledger.head() == head
    assert {charge.state.value for charge in ledger.history("visits")} == {"committed", "burnt", "void"}
    ledger.close()


@pytest.mark.verify
@pytest.mark.postgres
def test_least_role_goes_on_with_a_migrated_ledger(postgres_url: str, first_store: S3) -> None:
    """The role that may charge one account, with what `dp-budget grants` prints for it after the migration."""
    as_left(postgres_url)
    assert command(postgres_url, "migrate") == 0
    bind(postgres_url)
    execute(postgres_url, 'CREATE ROLE "clerk" LOGIN', *grants("clerk", "charge", account="visits"))
    ledger = PrivacyLedger(postgres_url.replace("postgres@", "clerk@"))
    try:
        assert attempt(ledger, "published", VISITS).adopted
        assert not attempt(ledger, "committed", VISITS).adopted
        with pytest.raises(ReleaseClosed, match="charge [0-9a-f]+ is burnt"):
            attempt(ledger, "drawn", VISITS)
        with pytest.raises(ChargeConflict):
            attempt(ledger, "published", VISITS, title="Another")
        assert not attempt(ledger, "new", VISITS, runner=HereRunner()).adopted
    finally:
        ledger.close()
        execute(postgres_url, 'DROP OWNED BY "clerk"', 'DROP ROLE "clerk"')
    owner = PrivacyLedger(postgres_url)
    assert owner.verification().findings == ()
    owner.close()
