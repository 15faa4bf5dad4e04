"""What the example DAGs work with: where its lake and its releases lie, and the accounts that pay.

``DP_DEMO_LAKE`` and ``DP_DEMO_OUTPUT`` name the two folders, or the second a URI; they lie below ``AIRFLOW_HOME``
otherwise.
``DP_DEMO_RUNNER`` names the runner, ``local`` otherwise. ``DP_DEMO_FEDERATION`` and ``DP_DEMO_SILO`` name a federation
and one of its silos, ``DP_DEMO_SILO_DIAGNOSTICS`` what the silos release, in JSON.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from examples.demo import lake
from spark_jobs.contract.stream_keys import STREAM_KEYS_FILE_VARIABLE


def _folder(variable: str, name: str) -> Path:
    home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
    return Path(os.environ.get(variable) or f"{home}/{name}").expanduser().absolute()


def _releases(account: str) -> str:
    """Each account has a folder of releases of its own."""
    given = os.environ.get("DP_DEMO_OUTPUT", "")
    return f"{given}/{account}" if "://" in given else str(_folder("DP_DEMO_OUTPUT", "releases") / account)


ACCOUNT = "rand-hie"
CAP = "1.5"
EPSILON = "1"
VERSION = "v1"

TABLE_FOLDER = _folder("DP_DEMO_LAKE", "lake") / "person_years"
TABLE = {"path": str(TABLE_FOLDER), "snapshot": {"path_version": VERSION}}
MODEL = lake.load_model()
SCORES = {"kind": "columns", "basis": "public", "score": lake.RISK}
"""The scores that this model gave when the table was written."""
OUTPUT = _releases(ACCOUNT)
RUNNER = os.environ.get("DP_DEMO_RUNNER", "local")


FIT_ACCOUNT = "rand-hie-fit"
FIT_CAP = "2"
FIT_TABLE_FOLDER = _folder("DP_DEMO_LAKE", "lake") / "all_person_years"
FIT_OUTPUT = _releases(FIT_ACCOUNT)
FIT_TABLE = {"path": str(FIT_TABLE_FOLDER), "snapshot": {"path_version": VERSION}}
FIT = {"kind": "logistic_fit", "features": {name: list(bounds) for name, bounds in lake.BOUNDS.items()}}

VISITS_ACCOUNT = "visits"
VISITS_CAP = "1.5"
VISITS_BLOCKS = "day(visited_on)"
VISITS_TABLE_FOLDER = _folder("DP_DEMO_LAKE", "lake") / "visits"
VISITS_VERSION = "{{ dag_run.run_after | ds }}"
VISITS_OUTPUT = _releases(VISITS_ACCOUNT)
VISITS_TABLE = {"path": str(VISITS_TABLE_FOLDER), "snapshot": {"path_version": VISITS_VERSION}}

ARRIVALS_ACCOUNT = "arrivals"
ARRIVALS_CAP = "1"
ARRIVALS_TABLE_FOLDER = _folder("DP_DEMO_LAKE", "lake") / "arrivals"
ARRIVALS_OUTPUT = _releases(ARRIVALS_ACCOUNT)
ARRIVALS_TABLE = {"path": str(ARRIVALS_TABLE_FOLDER), "snapshot": {"path_version": VISITS_VERSION}}
ARRIVALS_UNTIL = f"{VISITS_VERSION}T00:00:00Z"
ARRIVALS_START = f"{lake.ARRIVALS_FROM}T00:00:00Z"

FEDERATION = os.environ.get("DP_DEMO_FEDERATION", "plans")
SILO = os.environ.get("DP_DEMO_SILO", "free")
SILO_ACCOUNT = f"rand-hie-{SILO}"
SILO_TABLE_FOLDER = _folder("DP_DEMO_LAKE", "lake") / f"person_years_{SILO}"
SILO_OUTPUT = _releases(SILO_ACCOUNT)
SILO_TABLE = {"path": str(SILO_TABLE_FOLDER), "snapshot": {"path_version": VERSION}}
SILO_DIAGNOSTICS = json.loads(os.environ.get("DP_DEMO_SILO_DIAGNOSTICS", '["roc_curve", "calibration"]'))


DOMAINS = {"any_visit": "in (0, 1)", "mdvis": "between 0 and 100"}
"""What columns may hold, by the experiment's codebook; an account binds it with the columns' types."""


def prepare() -> None:
    """Fill the lake and open the account, where that has not been done.

    A real lake and a real account are an administrator's, and no DAG's: here, the demo is its own administrator.
    """
    lake.write_lake(TABLE_FOLDER, VERSION)
    _open(ACCOUNT, CAP, TABLE_FOLDER, OUTPUT)


def prepare_fit() -> None:
    """The same for the table whose rows a model is fitted on."""
    lake.write_all(FIT_TABLE_FOLDER, VERSION)
    _open(FIT_ACCOUNT, FIT_CAP, FIT_TABLE_FOLDER, FIT_OUTPUT)


def prepare_silo() -> None:
    """The same for the rows of one silo of a federated release."""
    lake.write_plan(SILO_TABLE_FOLDER, VERSION, SILO)
    _open(SILO_ACCOUNT, CAP, SILO_TABLE_FOLDER, SILO_OUTPUT)


def prepare_visits(version: str) -> None:
    """The same for the table of visits, whose account has a budget for each day."""
    lake.write_visits(VISITS_TABLE_FOLDER, version)
    _open(VISITS_ACCOUNT, VISITS_CAP, VISITS_TABLE_FOLDER, VISITS_OUTPUT, version=version, blocks=VISITS_BLOCKS)


def prepare_arrivals(version: str) -> None:
    """The same for the table of arrivals; the file for the stream's keys gets one if it is named and not there yet."""
    lake.write_arrivals(ARRIVALS_TABLE_FOLDER, version)
    keys = os.environ.get(STREAM_KEYS_FILE_VARIABLE)
    if keys and not Path(keys).exists():
        Path(keys).touch(mode=0o600)
        Path(keys).write_text(f"demo:{secrets.token_hex(32)}\n")
    _open(ARRIVALS_ACCOUNT, ARRIVALS_CAP, ARRIVALS_TABLE_FOLDER, ARRIVALS_OUTPUT, version=version, growing=True)


def _open(
    account: str,
    cap: str,
    table: Path,
    output: str,
    *,
    version: str = VERSION,
    blocks: str | None = None,
    growing: bool = False,
) -> None:
    from dp_operators.budget.table_schemas import binding_of
    from dp_operators.hooks.ledger import PrivacyLedgerHook
    from spark_jobs.contract.domains import parse_domain

    ledger = PrivacyLedgerHook().get_ledger()
    ledger.migrate()
    order = ("natural",) if growing else ()
    binding = binding_of(str(table), schema=table / version, append_only=growing, version_order=order)
    binding = binding.with_domains({name: parse_domain(DOMAINS[name]) for name in binding.names if name in DOMAINS})
    ledger.open_account(account, epsilon=cap, tables=[binding], outputs=[output], blocks=blocks, actor="demo")
