"""Three silos with a lake, a ledger, a store and keys each, and two servers; each played by real programs.

Everything lies in one folder. A silo's release is ``dp-budget run``; a server is ``python -m spark_jobs.federation``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_operators.budget import PrivacyLedger
from spark_jobs.contract.federation import FEDERATIONS_VARIABLE
from spark_jobs.contract.store.failpoints import VARIABLE
from tests.support.accounts import open_bound
from tests.support.federated import SERVERS, SILOS
from tests.support.repository import ROOT

ROWS = {"north": 1200, "south": 800, "west": 500}
DP_BUDGET = (sys.executable, "-m", "dp_operators.cli")


@dataclass(frozen=True)
class Parties:
    """All participants of one federated release, below one folder, and what the silos release."""

    folder: Path
    diagnostics: tuple[str | Mapping[str, Any], ...] = ("roc_curve", "calibration")

    def request(self, silo: str) -> dict[str, Any]:
        """What a silo releases."""
        home = self.folder / silo
        return {
            "account": f"visits-{silo}",
            "table": {"path": str(home / "lake"), "snapshot": {"path_version": "v1"}},
            "label": "visit",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": list(self.diagnostics),
            "budget": {"epsilon": "1"},
            "output": str(home / "releases"),
            "federation": "hospitals",
        }

    def prepare(self, **agreed: str) -> None:
        """Tables, ledgers, keys, one agreement, and its registration with every silo."""
        for name in (*SILOS, *SERVERS):
            (self.folder / name / "federations").mkdir(parents=True)
            public = self._federation("keys", "--name", name, "--out", str(self.folder / name / "own.keys"))
            (self.folder / f"{name}.public").write_text(public)
        for number, silo in enumerate(SILOS):
            home = self.folder / silo
            table = home / "lake" / "v1"
            table.mkdir(parents=True)
            rows_of(number, ROWS[silo]).to_parquet(table / "part-0.parquet")
            (home / "request.json").write_text(json.dumps(self.request(silo)))
            ledger = self.ledger(silo)
            ledger.migrate()
            open_bound(
                ledger, f"visits-{silo}", table=home / "lake", output=home / "releases", epsilon=3, actor="admin"
            )
            ledger.close()
        silos = [word for silo in SILOS for word in ("--silo", str(self.folder / f"{silo}.public"))]
        servers = [
            word
            for name in SERVERS
            for word in ("--server", f"{self.folder / name}.public={self.folder / f'meeting-{name}'}")
        ]
        options = [word for name, value in agreed.items() for word in (f"--{name.replace('_', '-')}", value)]
        request = str(self.folder / "north" / "request.json")
        agreement = self._federation("agree", request, "--session", "one", *silos, *servers, *options)
        (self.folder / "agreement.json").write_text(agreement)
        for silo in SILOS:
            home = self.folder / silo
            self._federation(
                "join", str(self.folder / "agreement.json"), "--name", "hospitals", "--account", f"visits-{silo}",
                "--keys", str(home / "own.keys"), "--folder", str(home / "federations"),
            )  # fmt: skip

    def ledger(self, silo: str) -> PrivacyLedger:
        """The ledger of a silo."""
        return PrivacyLedger(f"sqlite:///{self.folder / silo / 'ledger.db'}")

    def start(self, name: str, *more: str, failpoint: str = "") -> subprocess.Popen[str]:
        """A participant's program, with more arguments, and a log in its folder."""
        home = self.folder / name
        if name in SERVERS:
            command = [
                sys.executable, "-m", "spark_jobs.federation", "serve", str(self.folder / "agreement.json"),
                "--server", name, "--keys", str(home / "own.keys"), "--receipts", str(home / "receipts"),
                "--poll-seconds", "0.1",
            ]  # fmt: skip
        else:
            command = [*DP_BUDGET, "run", str(home / "request.json"), "--ledger", f"sqlite:///{home / 'ledger.db'}"]
            command += ["--master", "local[1]"]
        environment = {**self._environment(name), **({VARIABLE: failpoint} if failpoint else {})}
        with (home / "log.txt").open("a") as log:
            return subprocess.Popen([*command, *more], env=environment, stdout=log, stderr=log, text=True)

    def ask(self, silo: str, *points: str, output: Path) -> subprocess.CompletedProcess[str]:
        """What a silo asks for after the release."""
        [release] = (self.folder / silo / "releases").glob("*/release.json")
        command = [sys.executable, "-m", "spark_jobs.federation", "ask", str(release), *points, "--output", str(output)]
        return subprocess.run(
            [*command, "--poll-seconds", "0.05"],
            env=self._environment(silo),
            capture_output=True,
            text=True,
            check=False,
        )

    def log(self, name: str) -> str:
        """What a participant has said."""
        return (self.folder / name / "log.txt").read_text()

    def results(self, silo: str) -> list[dict[str, Any]]:
        """The manifests that a silo has published."""
        folder = self.folder / silo / "releases"
        return [json.loads(path.read_text()) for path in folder.glob("*/release.json")]

    def _environment(self, name: str) -> dict[str, str]:
        home = self.folder / name
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            FEDERATIONS_VARIABLE: str(home / "federations"),
            "XDG_STATE_HOME": str(home / "private"),
        }

    def _federation(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "spark_jobs.federation", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def rows_of(number: int, count: int) -> pd.DataFrame:
    """The rows of a silo."""
    rng = np.random.default_rng(number)
    visit = rng.random(count) < 0.4
    return pd.DataFrame({"visit": visit.astype(int), "score": np.clip(rng.normal(0.4 + 0.2 * visit, 0.15), 0, 1)})
