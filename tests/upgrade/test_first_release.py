"""A store that an early commit left, entered into a new ledger: no spend is forgotten, and releases are found."""

from __future__ import annotations

import datetime as dt
import json
import shlex
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import ChargeConflict, ChargeState, PrivacyLedger
from dp_operators.budget.cli import run as run_command
from dp_operators.budget.tables.grants import grants
from dp_operators.cli import app
from dp_operators.releasing import (
    ChargedRequest,
    ReleaseClosed,
    ReleaseDamaged,
    complete,
    forecast,
    give_back,
    reconcile,
)
from spark_jobs.contract import InvalidRequest, ReleaseRequest
from spark_jobs.contract.store.layout import folder_name
from tests.support.airflow import make_context
from tests.support.code_blocks import code_blocks
from tests.support.first_release import (
    OPENED,
    OUTPUT,
    OUTPUTS,
    RUN,
    SALES,
    VISITS,
    as_left,
    attempt,
    hashes_before,
    key,
    spent_before,
)
from tests.support.ledgers import execute
from tests.support.release_lab import HereRunner, NoRunner
from tests.support.repository import ROOT
from tests.support.s3_server import S3

pytestmark = pytest.mark.slow

COMMITTED = {"published": VISITS, "published_sales": SALES}
"""What is visible, or was."""
RESERVED = {"committed": VISITS, "half_published": SALES, "drawn": VISITS, "drafted": SALES, "burnt": VISITS}
"""What left a draft alone: a new ledger does not know what the old one knew of it."""
UNDRAWN = {"not_started": VISITS, "void": VISITS}
FIELDS = {"visits": VISITS, "sales": SALES}


def command(url: str, *arguments: str) -> int:
    return run_command(app, [*arguments, "--ledger", url])


def open_accounts(url: str, *, of_sales: list[str] = OPENED["sales"], outputs: dict[str, str] = OUTPUTS) -> None:
    """What an administrator does in a new ledger, without what was spent."""
    assert command(url, "migrate") == 0
    for account, described in {**OPENED, "sales": of_sales}.items():
        assert command(url, "open", account, *described, "--output", outputs[account], "--yes") == 0
    assert command(url, "allot", "sales", "shops", "--epsilon", "5") == 0


@pytest.fixture(scope="module")
def entered() -> dict[str, Any]:
    """The file of the reconciled ledger, and what the store holds then: made by the first test that needs it."""
    return {}


@pytest.fixture
def new_url(tmp_path: Path, first_store: S3, entered: dict[str, Any]) -> str:
    """A new ledger that has what the store's drafts say was spent."""
    file = tmp_path / "ledger.db"
    url = f"sqlite:///{file}"
    if not entered:
        open_accounts(url)
        assert command(url, "reconcile", "--output", OUTPUT) == 0
        assert list(tmp_path.iterdir()) == [file]
        entered.update(ledger=file.read_bytes(), objects=dict(first_store.objects))
    file.write_bytes(entered["ledger"])
    first_store.objects.update(entered["objects"])
    return url


@pytest.fixture
def renewed(new_url: str) -> Iterator[PrivacyLedger]:
    ledger = PrivacyLedger(new_url)
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


def test_ledger_of_that_commit_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    as_left(url)
    content = (tmp_path / "ledger.db").read_bytes()
    ledger = PrivacyLedger(url)
    for call in (ledger.accounts, ledger.migrate):
        with pytest.raises(InvalidRequest, match="schema 0004 at .*; was made before 0.1.0, and such ledgers are not"):
            call()
    ledger.close()
    assert (command(url, "migrate"), command(url, "show")) == (2, 2)
    assert (tmp_path / "ledger.db").read_bytes() == content


def test_new_ledger_has_every_charge_that_drew_noise(renewed: PrivacyLedger) -> None:
    charges = {charge.release.split("/")[-2]: charge for name in FIELDS for charge in renewed.history(name)}
    states = {task: charge.state.value for task, charge in charges.items() if task in (*COMMITTED, *RESERVED)}
    assert states == {**dict.fromkeys(COMMITTED, "committed"), **dict.fromkeys(RESERVED, "reserved")}
    assert not set(UNDRAWN) & set(charges)
    before = spent_before()
    spent = {name: sum(charge.cost.epsilon for charge in renewed.history(name)) for name in FIELDS}
    # what was reserved for a run that never started drew nothing
    assert spent == {"visits": before["visits"] - Decimal(VISITS["budget"]["epsilon"]), "sales": before["sales"]}
    assert renewed.remaining("sales").epsilon == 7
    assert renewed.remaining("sales", allotment="shops").epsilon == 2
    assert renewed.verification().findings == ()


def test_bound_account_pays_for_new_releases_and_counts_the_old(renewed: PrivacyLedger, first_store: S3) -> None:
    before = renewed.remaining("visits", kind="approximate").epsilon
    published = attempt(renewed, "new", VISITS, runner=HereRunner(), blocks=["2026-11"])
    assert not published.adopted
    assert renewed.remaining("visits", kind="approximate").epsilon < before
    assert renewed.verification().findings == ()
    with pytest.raises(InvalidRequest, match="left"):
        attempt(renewed, "too much", VISITS, budget={"epsilon": "9", "delta": "1e-6"}, runner=HereRunner())


@pytest.mark.sampled
@pytest.mark.parametrize("task", COMMITTED)
def test_cleared_task_finds_its_release_byte_for_byte(renewed: PrivacyLedger, first_store: S3, task: str) -> None:
    fields = COMMITTED[task]
    was_visible = folder_of(task, "release.json") in first_store.objects
    expected, head = drafted(first_store, task), renewed.head()
    published = attempt(renewed, task, fields)
    assert published.adopted == was_visible
    assert visible(first_store, task) == expected
    assert renewed.head() == head
    assert attempt(renewed, task, fields).manifest_sha256 == published.manifest_sha256


def test_operator_of_a_cleared_task_finds_its_release(
    new_url: str, first_store: S3, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a scheduler calls it: same DAG, task, run and map index; what a DAG says of a table today."""
    from dp_operators.operators.release import ReleaseDiagnosticsOperator

    connect("privacy_ledger_default", conn_type="privacy_ledger", extra={"path": new_url[len("sqlite:///") :]})
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


def test_priced_only_a_found_release_costs_nothing(renewed: PrivacyLedger, first_store: S3) -> None:
    request = complete(ReleaseRequest.parse(VISITS), renewed)
    found = forecast(ChargedRequest.of(request, renewed, str(key("published"))), runner=NoRunner())
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


@pytest.mark.parametrize("task", ["published", "drawn"])
def test_another_request_under_the_key_is_a_conflict(renewed: PrivacyLedger, first_store: S3, task: str) -> None:
    """Whatever the store says: a stored request that agrees with the new one does not help it."""
    [charge] = [each for each in renewed.history("visits") if each.release == str(key(task))]
    head = renewed.head()
    for change in DIFFERENT.values():
        forged = {**VISITS, **change}
        forged["table"] = {**forged["table"], "format": "parquet", "name": None, "columns": None}
        first_store.objects[folder_of(task, f"_draft/{charge.id}/request.json")] = json.dumps(forged).encode()
        before = dict(first_store.objects)
        with pytest.raises(ChargeConflict, match="a release key pays for one request: use another key"):
            attempt(renewed, task, VISITS, runner=HereRunner(), **change)
        with pytest.raises(InvalidRequest, match="a reservation for this request"):
            give_back(ChargedRequest.of(ReleaseRequest.parse({**VISITS, **change}), renewed, key(task)), reason="r")
        assert (first_store.objects, renewed.head()) == (before, head)


def test_columns_bound_as_other_types_are_another_request(tmp_path: Path, first_store: S3) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    outputs = {"visits": "s3://releases/visits", "sales": OUTPUT}
    open_accounts(url, of_sales=[part.replace("size int", "size double") for part in OPENED["sales"]], outputs=outputs)
    assert command(url, "reconcile", "--output", OUTPUT) == 0
    ledger = PrivacyLedger(url)
    with pytest.raises(ChargeConflict, match="use another key"):
        attempt(ledger, "published_sales", SALES)
    ledger.close()


@pytest.mark.sampled
@pytest.mark.parametrize("task", RESERVED)
def test_reservation_is_burnt_with_one_line(renewed: PrivacyLedger, first_store: S3, task: str) -> None:
    fields = RESERVED[task]
    left = renewed.remaining(fields["account"], kind="approximate" if fields is VISITS else "pure")
    with pytest.raises(ReleaseClosed) as settled:
        attempt(renewed, task, fields)
    [charge] = [each for each in renewed.history(fields["account"]) if each.release == str(key(task))]
    assert str(settled.value) == (
        f"release {key(task)} was begun by an earlier version, whose draws cannot be used any more: "
        f"charge {charge.id} is burnt; request it again under another key"
    )
    assert not settled.value.retryable
    assert charge.state is ChargeState.BURNT
    assert folder_of(task, "release.json") not in first_store.objects
    assert renewed.remaining(fields["account"], kind="approximate" if fields is VISITS else "pure") == left
    with pytest.raises(ReleaseClosed, match="is spent and never published; request it again under another key"):
        attempt(renewed, task, fields)
    assert renewed.verification().findings == ()


def test_priced_only_a_reservation_is_said_to_be_lost(renewed: PrivacyLedger, first_store: S3) -> None:
    request, head = complete(ReleaseRequest.parse(VISITS), renewed), renewed.head()
    with pytest.raises(ReleaseClosed, match="begun by an earlier version.* would be burnt"):
        forecast(ChargedRequest.of(request, renewed, str(key("drawn"))), runner=NoRunner())
    assert renewed.head() == head


def test_stale_reservations_are_burnt_by_the_command(
    new_url: str, renewed: PrivacyLedger, first_store: S3, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(new_url, "UPDATE charges SET renewed_at = '2026-01-01'")
    capsys.readouterr()
    ended = command(
        new_url, "release-stale", "--output", OUTPUT, "--hours", "24", "--reason", "upgraded", "--actor", "dpo"
    )
    assert (ended, len(capsys.readouterr().out.splitlines())) == (0, len(RESERVED))
    states = [charge.state for name in FIELDS for charge in renewed.history(name)]
    assert (states.count(ChargeState.RESERVED), states.count(ChargeState.BURNT)) == (0, len(RESERVED))
    assert renewed.verification().findings == ()


@pytest.mark.sampled
@pytest.mark.parametrize("task", UNDRAWN)
def test_key_of_what_drew_nothing_is_free(renewed: PrivacyLedger, first_store: S3, task: str) -> None:
    again = attempt(renewed, task, UNDRAWN[task], runner=HereRunner())
    charge = renewed.charge(again.charge_id)
    assert (charge.generation, charge.state) == (1, ChargeState.COMMITTED)


@pytest.mark.parametrize("damage", ["gone", "altered"])
def test_committed_draft_that_is_not_what_was_committed_is_never_published(
    renewed: PrivacyLedger, first_store: S3, damage: str
) -> None:
    lost, drafted_report = sorted(
        (name for name in first_store.objects if folder_of("published") in name and "report.html" in name),
        key=lambda name: "_draft" in name,
    )
    content = first_store.objects.pop(drafted_report)
    del first_store.objects[lost]
    if damage == "altered":
        first_store.objects[drafted_report] = content.replace(b"<p>", b"<b>", 1)
    head = renewed.head()
    with pytest.raises(ReleaseDamaged, match="report.html is not what was committed; only a backup has it"):
        attempt(renewed, "published", VISITS)
    assert lost not in first_store.objects
    assert renewed.head() == head


def test_lost_file_of_a_published_release_is_published_again(renewed: PrivacyLedger, first_store: S3) -> None:
    expected = visible(first_store, "published")
    del first_store.objects[folder_of("published", "report.html")]
    assert not attempt(renewed, "published", VISITS).adopted
    assert visible(first_store, "published") == expected


def test_command_without_a_key_finds_what_it_has_paid_for(renewed: PrivacyLedger, first_store: S3) -> None:
    request = ReleaseRequest.parse(VISITS)
    charges = {charge.release: charge for charge in renewed.history("visits")}
    assert charges[ChargedRequest.of(request, renewed).key].state is ChargeState.COMMITTED
    other = ReleaseRequest.parse({**VISITS, "title": "Another"})
    assert ChargedRequest.of(other, renewed).key == f"cli/{other.sha256}"


@pytest.mark.verify
def test_reconciled_ledger_knows_old_requests_by_their_hashes(tmp_path: Path, first_store: S3) -> None:
    """Even one that is frozen: the store tells it of them, in the form that they have there."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    open_accounts(url)
    frozen = PrivacyLedger(url)
    frozen.freeze(actor="dpo", reason="restored")
    assert reconcile(OUTPUT, frozen, actor="dpo").findings == ()
    frozen.thaw(actor="dpo", reason="reconciled")
    known = hashes_before()
    for name in FIELDS:
        told = {charge.id: charge.request_sha256 for charge in frozen.history(name)}
        assert told
        assert told.items() <= known.items()
    assert attempt(frozen, "published", VISITS).adopted
    assert attempt(frozen, "published_sales", SALES).adopted
    frozen.close()


def commands_of_the_page() -> list[list[str]]:
    page = ROOT / "docs" / "how-to" / "upgrading.md"
    lines = [line for block in code_blocks(page) if block.language == "bash" for line in block.code.splitlines()]
    return [shlex.split(line) for line in lines]


@pytest.mark.verify
def test_commands_of_the_page_make_a_new_ledger(
    tmp_path: Path, first_store: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them, in their order; the first two are those of every later upgrade."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setenv("DP_LEDGER_URL", url)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    commands = commands_of_the_page()
    assert len(commands) == 10
    for line in commands:
        if "release-stale" in line:
            execute(url, "UPDATE charges SET renewed_at = '2026-01-01'")
        assert run_command(app, line[1:]) == 0, line
    ledger = PrivacyLedger(url)
    for task, fields in COMMITTED.items():
        head = ledger.head()
        attempt(ledger, task, fields)
        assert ledger.head() == head
    assert {charge.state.value for charge in ledger.history("visits")} == {"committed", "burnt"}
    ledger.close()


@pytest.mark.verify
@pytest.mark.postgres
def test_least_role_goes_on_with_a_reconciled_ledger(postgres_url: str, first_store: S3) -> None:
    """The role that may charge one account, with what `dp-budget grants` prints for it."""
    open_accounts(postgres_url)
    assert command(postgres_url, "reconcile", "--output", OUTPUT) == 0
    execute(postgres_url, 'CREATE ROLE "clerk" LOGIN', *grants("clerk", "charge", account="visits"))
    ledger = PrivacyLedger(postgres_url.replace("postgres@", "clerk@"))
    try:
        assert attempt(ledger, "published", VISITS).adopted
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
