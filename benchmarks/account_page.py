"""The time that the pages of an account with many blocks take: ``python -m benchmarks.account_page``.

An account of 10,000 days, as many as thirty years have, with ten charges to each, in SQLite. The account's page, the
list of accounts, what ``dp-budget show --json`` prints, and a charge to all blocks, by turns with one bare query of the
same 10,000 totals.
"""

from __future__ import annotations

import sys
from datetime import date, timedelta
from itertools import count
from pathlib import Path

from sqlalchemy import create_engine, insert, select

from benchmarks.harness import Report, Target, Timing, alternate, arguments, publish, scratch_folder
from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import account_json
from dp_operators.budget.overview import ChargeFilter
from dp_operators.budget.tables.schema import block_totals, charges
from dp_operators.plugins import pages

LIMIT, CHARGE_LIMIT = 0.3, 1.0
CHARGES_OF_BLOCK = 10
PAGE = "the account's page"
CHARGE = "a charge to all blocks"


def filled(folder: Path, blocks: int) -> PrivacyLedger:
    """A ledger with one account that has been charged ``CHARGES_OF_BLOCK`` times in each of its blocks."""
    ledger = PrivacyLedger(f"sqlite:///{folder}/ledger.db")
    ledger.migrate()
    ledger.open_account("visits", epsilon="1", blocks="day(at)")
    first = date.today() - timedelta(days=blocks - 1)
    days = [(first + timedelta(days=number)).isoformat() for number in range(blocks)]
    of_charge = {
        "account": "visits", "generation": 1, "state": "committed", "epsilon": "0.03", "delta": "0",
        "events": '[{"mechanism":"geometric","epsilon":"0.03"}]', "request_sha256": "ab" * 32,
        "manifest_sha256": "cd" * 32, "actor": "airflow:visits.release", "runs": 1,
    }  # fmt: skip
    engine = create_engine(f"sqlite:///{folder}/ledger.db")
    with engine.begin() as connection:
        totals = [{"account": "visits", "allotment": "", "block": day, "epsilon": "0.3", "delta": "0"} for day in days]
        connection.execute(insert(block_totals), totals)
        numbered = enumerate((day, number) for day in days for number in range(CHARGES_OF_BLOCK))
        rows = [
            {
                **of_charge,
                "id": f"charge-{entry}",
                "entry": entry,
                "release_key": f"airflow/visits/{day}/release-{number}/-1",
                "blocks": f'["{day}"]',
                **dict.fromkeys(("reserved_at", "renewed_at", "settled_at"), f"{day}T06:00:00.000000+00:00"),
            }
            for entry, (day, number) in numbered
        ]
        connection.execute(insert(charges), rows)
    engine.dispose()
    return ledger


def measure(folder: Path, *, blocks: int, repetitions: int) -> dict[str, Timing]:
    """Each page, and the bare query, by turns."""
    ledger = filled(folder, blocks)
    engine = create_engine(f"sqlite:///{folder}/ledger.db")

    def bare() -> object:
        with engine.connect() as connection:
            return connection.execute(select(block_totals)).all()

    numbers = count()

    def charge() -> object:
        days = f"{date.today() - timedelta(days=blocks - 1)}..{date.today()}"
        return ledger.reserve("visits", release=f"all/{next(numbers)}", epsilon="0.001", blocks=[days])

    cases = {
        PAGE: lambda: pages.account("ledger", ledger, "visits", ChargeFilter(), nonce="n"),
        "the list of accounts": lambda: pages.accounts("ledger", ledger, nonce="n"),
        "`dp-budget show --json`": lambda: account_json(ledger, ledger.account("visits")),
        CHARGE: charge,
        "one bare query of the same rows": bare,
    }
    timings = alternate(cases, repetitions=repetitions)
    engine.dispose()
    ledger.close()
    return timings


def main() -> int:
    """Print the figures of docs/contributing/benchmarks/ledger.md."""
    given = arguments(__doc__.splitlines()[0]).parse_args()
    blocks = 500 if given.quick else 10_000
    with scratch_folder() as folder:
        timings = measure(folder, blocks=blocks, repetitions=given.repetitions)
    limits = {PAGE: LIMIT, CHARGE: CHARGE_LIMIT}
    report = Report(
        name="account_page",
        columns=(f"{blocks:,} blocks, {blocks * CHARGES_OF_BLOCK:,} charges", "clock", "processor time"),
        rows=[(name, str(timing), f"{timing.median_cpu:.2f} s") for name, timing in timings.items()],
        targets=[]
        if given.quick
        else [
            Target(what=name, target=f"under {limit:g} s", outcome=str(timings[name]), met=timings[name].median < limit)
            for name, limit in limits.items()
        ],
        figures={name: {"wall": timing.wall, "cpu": timing.cpu} for name, timing in timings.items()},
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
