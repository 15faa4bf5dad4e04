"""Somebody hears of it once when a release takes an account past a part of its cap."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.notifications.budget import PrivacyBudgetNotifier, used
from dp_operators.releasing.federations import federated_key
from dp_operators.tasks.keys import release_key
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import FEDERATIONS_VARIABLE, Registration
from tests.support.airflow import make_context
from tests.support.federated import prepare
from tests.support.ledgers import commit


def told_after(ledger: PrivacyLedger, *costs: str, **settings: Any) -> list[list[str]]:
    """What is told after each of some releases."""
    ledger.open_account("visits", epsilon="1", **settings)
    blocks = ["2026-11-20", "2026-11-21"] if settings else "all"
    told = []
    for number, cost in enumerate(costs):
        context = make_context(run_type="manual", run_id=f"run {number}")
        ledger.reserve("visits", release=str(release_key(context, deployment="airflow")), epsilon=cost, blocks=blocks)
        lines: list[str] = []
        PrivacyBudgetNotifier(account="visits", notify=lines.append).notify(context)
        told.append(lines)
    return told


def test_each_part_is_told_once_by_the_release_that_passes_it(airflow_ledger: PrivacyLedger) -> None:
    eighty, all_of_it = (
        f"account visits is past {part}% of its privacy budget: {spent}% is spent"
        for part, spent in ((80, "83.3"), (100, 100))
    )
    assert told_after(airflow_ledger, "0.5", "0.3333", "0.1", "0.0667") == [[], [eighty], [], [all_of_it]]


def test_lines_say_what_the_release_found(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", epsilon="1")
    auc = {"name": "roc_curve.auc", "value": 0.73, "interval": [0.721, 0.742], "population": None, "status": "ok"}
    lines: list[str] = []
    for number, cost in enumerate(("0.5", "0.4")):
        context = make_context(run_type="manual", run_id=f"run {number}")
        key = str(release_key(context, deployment="airflow"))
        charge = airflow_ledger.reserve("visits", release=key, epsilon=cost)
        commit(airflow_ledger, charge.id, "ab", figures=[auc, {**auc, "name": "roc_curve.north.auc", "value": None}])
        if number:
            context["ti"].xcom_pull = lambda task_ids: {"uri": "/releases/visits/5f0c"}
        PrivacyBudgetNotifier(account="visits", notify=lines.append, all_releases=True).notify(context)
    found = "AUC 0.730 (0.721 to 0.742), AUC of north undefined"
    key = airflow_ledger.history("visits")[0].release
    assert lines == [
        f"visits: {found}, epsilon 0.5, 0.5 left, release {key}",
        f"account visits is past 80% of its privacy budget: 90% is spent, after a release with {found}",
        f"visits: {found}, epsilon 0.4, 0.1 left, report: /releases/visits/5f0c/report.html",
    ]


def test_one_release_may_pass_both(airflow_ledger: PrivacyLedger) -> None:
    assert [len(lines) for lines in told_after(airflow_ledger, "1")] == [2]


def test_each_block_is_told(airflow_ledger: PrivacyLedger) -> None:
    [lines] = told_after(airflow_ledger, "0.9", blocks="day(at)")
    assert lines == [
        f"block 2026-11-{day} of account visits is past 80% of its privacy budget: 90% is spent" for day in ("20", "21")
    ]


def test_it_changes_nothing_and_says_nothing_of_other_tasks(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", epsilon="1")
    airflow_ledger.reserve("visits", release="another", epsilon="1")
    head, lines = airflow_ledger.head(), []
    PrivacyBudgetNotifier(account="visits", notify=lines.append).notify(make_context())
    assert lines == []
    assert airflow_ledger.head() == head


def test_a_federated_release_is_found_by_its_agreement(
    airflow_ledger: PrivacyLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreement, _ = prepare(tmp_path)
    (tmp_path / "hospitals.json").write_text(Registration(agreement=agreement, account="visits").model_dump_json())
    monkeypatch.setenv(FEDERATIONS_VARIABLE, str(tmp_path))
    airflow_ledger.open_account("visits", epsilon="1")
    airflow_ledger.reserve("visits", release=federated_key(agreement), epsilon="0.9")
    lines: list[str] = []
    PrivacyBudgetNotifier(account="visits", notify=lines.append, federation="hospitals").notify(make_context())
    assert lines == ["account visits is past 80% of its privacy budget: 90% is spent"]


def test_lines_can_be_sent_asynchronously(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", epsilon="1")
    context, lines = make_context(), []
    key = str(release_key(context, deployment="airflow"))
    airflow_ledger.reserve("visits", release=key, epsilon="0.9")

    async def mail(line: str) -> None:
        await asyncio.sleep(0)
        lines.append(line)

    for notify in (mail, lines.append):
        asyncio.run(PrivacyBudgetNotifier(account="visits", notify=notify).async_notify(context))
    PrivacyBudgetNotifier(account="visits", notify=mail).notify(context)
    assert lines == ["account visits is past 80% of its privacy budget: 90% is spent"] * 3


def test_deadline_without_a_task_says_where_the_account_stands(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", epsilon="1", blocks="day(at)")
    lines: list[str] = []
    notifier = PrivacyBudgetNotifier(account="visits", notify=lines.append, at=("0.5", "0.8", "1"))
    asyncio.run(notifier.async_notify({}))
    assert lines == []
    airflow_ledger.reserve("visits", release="a", epsilon="0.9", blocks="2026-11-20")
    airflow_ledger.reserve("visits", release="b", epsilon="0.1", blocks="2026-11-21")
    asyncio.run(notifier.async_notify({}))
    assert lines == ["block 2026-11-20 of account visits is past 80% of its privacy budget: 90% is spent"]


def test_line_goes_to_the_log_by_default(airflow_ledger: PrivacyLedger, capfd: pytest.CaptureFixture[str]) -> None:
    airflow_ledger.open_account("visits", epsilon="1")
    key = str(release_key(make_context(), deployment="airflow"))
    airflow_ledger.reserve("visits", release=key, epsilon="0.8")
    PrivacyBudgetNotifier(account="visits").notify(make_context())
    assert "account visits is past 80% of its privacy budget: 80% is spent" in "".join(capfd.readouterr())


def test_part_is_that_of_the_currency_that_ends_the_account(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("rho", composition="zcdp", rho="0.5", delta="1e-6")
    airflow_ledger.reserve("rho", release="r", rho="0.4")
    assert used(airflow_ledger.account("rho"), airflow_ledger.blocks("rho")["all"]) == Decimal("0.8")
    airflow_ledger.open_account("both", composition="approximate", epsilon="1", delta="1e-6")
    airflow_ledger.reserve("both", release="r", epsilon="0.1", delta="4e-7")
    assert used(airflow_ledger.account("both"), airflow_ledger.blocks("both")["all"]) == Decimal("0.8")


@pytest.mark.parametrize("part", ["0", "1.1", "nan"])
def test_part_out_of_bounds_is_refused(part: str) -> None:
    with pytest.raises(InvalidRequest, match="^at: "):
        PrivacyBudgetNotifier(account="visits", at=[part])
