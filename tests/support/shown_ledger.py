"""A ledger with a past, for pages that show one: three accounts, charges over months, and one published release."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dp_operators.budget import PrivacyLedger
from spark_jobs.contract.headlines import headlines
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import release_folder
from spark_jobs.contract.store.sealing import sha256
from tests.support import publications
from tests.support.accounts import open_bound
from tests.support.ledgers import commit, execute

KEY = "airflow/visits_report/scheduled__2026-11-22T06:00:00+00:00/release/-1"
SNEAKY = "<script>document.title='x'</script>"


def request_for(folder: Path, **changes: object) -> ReleaseRequest:
    """A request of the account ``visits``."""
    fields = {
        "account": "visits",
        "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        "label": "any_visit",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
        "diagnostics": ["roc_curve"],
        "budget": {"epsilon": "0.5"},
        "output": str(folder),
    }
    return ReleaseRequest.parse({**fields, **changes})


def fill(url: str, output: Path) -> None:
    """Fill an empty ledger; the release's files are below ``output``."""
    ledger = PrivacyLedger(url)
    ledger.migrate()
    open_bound(ledger, "visits", epsilon="10", table="/lake/visits", output=output, actor="dora")
    ledger.open_account("clinics & wards", epsilon="2", blocks="day(at)")
    ledger.open_account("trials", composition="zcdp", rho="0.5", delta="1e-6")
    ledger.allot("visits", "quality team", epsilon="4")
    moved: list[tuple[str, int]] = []
    for week in range(14):
        charge = ledger.reserve(
            "visits",
            release=f"airflow/visits_report/2026-w{week:02}/release/-1" if week != 6 else SNEAKY,
            epsilon="0.5" if week % 3 else "0.75",
            actor="airflow:visits_report.release",
            allotment="quality team" if week % 4 == 1 else None,
        )
        if week == 9:
            ledger.void(charge.id)
        else:
            commit(ledger, charge.id, f"{week:02}" * 32)
        moved.append((charge.id, 7 * (14 - week)))
    for number in range(20):
        day = (datetime.now(UTC) - timedelta(days=number)).date().isoformat()
        charge = ledger.reserve("clinics & wards", release=f"day {day}", epsilon="0.4", blocks=day)
        commit(ledger, charge.id, "ef" * 32)
        moved.append((charge.id, number))
    ledger.reserve("trials", release="interim analysis", rho="0.42", actor="mara")
    publish(ledger, output)
    ledger.close()
    _move(url, moved)


def publish(ledger: PrivacyLedger, output: Path, results: Mapping[str, Any] | None = None, **changes: object) -> str:
    """Publish a release of the account ``visits`` under ``KEY``, of a ROC curve or others, and return its folder."""
    request = request_for(output, **changes)
    charge = ledger.reserve("visits", release=KEY, epsilon="0.5", actor="airflow:visits_report.release")
    facts = publications.facts(
        request=request, key=KEY, charge_id=charge.id, cost=Budget(epsilon="0.5"), account=None, parts=()
    )
    release, files = publications.publish(results or {"roc_curve": publications.curve()}, facts=facts)
    folder = Path(release_folder(str(output), KEY))
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    manifest = release.to_json().encode()
    (folder / "release.json").write_bytes(manifest)
    figures = [one.to_dict() for one in headlines(release.results)]
    commit(ledger, charge.id, sha256(manifest), figures=figures)
    return str(folder)


def _move(url: str, charges: list[tuple[str, int]]) -> None:
    """Let charges have been reserved some days ago, as no ledger would."""
    statements = []
    for charge, days in charges:
        moment = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        statements.append(f"UPDATE charges SET reserved_at = '{moment}', settled_at = '{moment}' WHERE id = '{charge}'")
    opened = (datetime.now(UTC) - timedelta(days=105)).isoformat()
    execute(url, *statements, f"UPDATE accounts SET opened_at = '{opened}'")
