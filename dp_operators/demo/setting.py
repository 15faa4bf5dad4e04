"""What the example DAG works with: where its lake and its releases lie, and the account that pays.

``DP_DEMO_LAKE`` and ``DP_DEMO_OUTPUT`` name the two folders, which lie below ``AIRFLOW_HOME`` otherwise;
``DP_DEMO_RUNNER`` names the runner, ``local`` otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path

from dp_operators.demo import lake


def _folder(variable: str, name: str) -> Path:
    home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
    return Path(os.environ.get(variable) or f"{home}/{name}").expanduser().absolute()


ACCOUNT = "rand-hie"
CAP = "1.5"
EPSILON = "1"
VERSION = "v1"

TABLE_FOLDER = _folder("DP_DEMO_LAKE", "lake") / "person_years"
TABLE = {"path": str(TABLE_FOLDER), "snapshot": {"path_version": VERSION}}
MODEL = lake.load_model()
OUTPUT = str(_folder("DP_DEMO_OUTPUT", "releases"))
RUNNER = os.environ.get("DP_DEMO_RUNNER", "local")


def prepare() -> None:
    """Fill the lake and open the account, where that has not been done.

    A real lake and a real account are an administrator's, and no DAG's: here, the demo is its own administrator.
    """
    from dp_operators.hooks.ledger import PrivacyLedgerHook

    lake.write_lake(TABLE_FOLDER, VERSION)
    ledger = PrivacyLedgerHook().get_ledger()
    ledger.migrate()
    ledger.open_account(ACCOUNT, epsilon=CAP, tables=[str(TABLE_FOLDER)], actor="demo")
