"""A federated release: three silos and two servers release one private ROC curve, and nobody sees a silo's counts.

The silos are insurance plans of the RAND Health Insurance Experiment. Each party is a process with an Airflow, a ledger
and a store of its own, and each silo has a lake and a Spark of its own; they meet in two folders on this machine. Named
again with ``--home``, parties that were killed go on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.demo.__main__ import Home, fresh_home
from examples.demo.lake import PLANS
from examples.demo.terminal import Terminal, curve_lines
from spark_jobs.contract.federation import FEDERATIONS_VARIABLE
from spark_jobs.federation.__main__ import main as federation

SERVERS = ("one", "two")
NAME = "plans"


@dataclass(frozen=True, kw_only=True)
class Parties:
    """All parties, each in a folder of its own below one folder, and what the silos release."""

    path: Path
    diagnostics: tuple[str | Mapping[str, Any], ...] = ("roc_curve", "calibration")

    def home(self, party: str) -> Home:
        """What belongs to one party alone."""
        return Home(path=self.path / party)

    def register(self) -> None:
        """What administrators do: make keys, put the agreement together, and register it with every party."""
        from examples.demo import setting

        if (self.path / "agreement.json").exists():
            return
        for party in (*PLANS, *SERVERS):
            self._federations(party).mkdir(parents=True)
            self._command(f"{party}.public", "keys", "--name", party, "--out", str(self.path / party / "own.keys"))
        request = {
            "table": setting.SILO_TABLE, "label": "any_visit", "model": setting.MODEL,
            "diagnostics": self.diagnostics, "budget": {"epsilon": setting.EPSILON},
        }  # fmt: skip
        (self.path / "request.json").write_text(json.dumps(request))
        silos = [word for plan in PLANS for word in ("--silo", str(self.path / f"{plan}.public"))]
        servers = [
            word
            for name in SERVERS
            for word in ("--server", f"{self.path / name}.public={self.path / f'meeting-{name}'}")
        ]
        request_file = str(self.path / "request.json")
        self._command("agreement.new", "agree", request_file, "--session", self.path.name, *silos, *servers)
        agreement = str(self.path / "agreement.new")
        for party in (*PLANS, *SERVERS):
            role = ("--account", f"rand-hie-{party}")
            if party in SERVERS:
                role = ("--receipts", str(self.path / party / "receipts"))
            self._command(
                f"{party}.registered", "join", agreement, "--name", NAME, *role,
                "--keys", str(self.path / party / "own.keys"), "--folder", str(self._federations(party)),
            )  # fmt: skip
        (self.path / "agreement.new").rename(self.path / "agreement.json")

    def environment(self, party: str) -> dict[str, str]:
        """The variables of one party's processes."""
        return {
            **self.home(party).environment(),
            FEDERATIONS_VARIABLE: str(self._federations(party)),
            "DP_DEMO_FEDERATION": NAME,
            "DP_DEMO_SILO": party,
            "DP_DEMO_SILO_DIAGNOSTICS": json.dumps(self.diagnostics),
        }

    def start(self, party: str, *arguments: str, module: str = "examples.demo.run") -> subprocess.Popen[bytes]:
        """Have a module run the DAG of one party in a process, with a log of its own."""
        home, dag = self.home(party), "federated_server" if party in SERVERS else "federated_silo"
        with home.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, dag, *arguments],
                env=self.environment(party),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def released(self, plan: str) -> dict[str, Any] | None:
        """The manifest that a silo has published; None if it has not."""
        manifests = (self.home(plan).releases / f"rand-hie-{plan}").glob("*/release.json")
        return next((json.loads(path.read_text()) for path in manifests), None)

    def _federations(self, party: str) -> Path:
        return self.path / party / "federations"

    def _command(self, file: str, *command: str) -> None:
        with (self.path / file).open("w") as stream, redirect_stdout(stream):
            if federation(command) != 0:
                raise SystemExit(1)


def main(argv: list[str] | None = None) -> int:
    """Run the demo; 0 if all parties have released the same."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo.federation", description=__doc__)
    parser.add_argument("--home", type=Path, help="folder for all it makes; named again, parties go on")
    parties = Parties(path=(parser.parse_args(argv).home or fresh_home(Path(".demo"))).absolute())
    parties.path.mkdir(parents=True, exist_ok=True)
    terminal = Terminal.on(sys.stdout)
    terminal.line(
        terminal.style("One private ROC curve of three insurance plans that show nobody their counts", "bold")
    )
    terminal.line(f"All that is made here lies in {parties.path}")
    terminal.line()
    parties.register()
    terminal.step("admins", "keys are made, the agreement is registered with every party")
    running = {party: parties.start(party) for party in (*SERVERS, *PLANS)}
    terminal.step("parties", f"Airflows start: servers {', '.join(SERVERS)}; silos {', '.join(PLANS)}")
    failed = []
    while running:
        for party in [name for name, process in running.items() if process.poll() is not None]:
            code = running.pop(party).returncode
            terminal.step(party, "done" if code == 0 else f"failed: see {parties.home(party).log}")
            failed += [party] if code else []
        terminal.wait(f"waiting for {', '.join(running)}")
        time.sleep(0.2)
    manifests = [parties.released(plan) for plan in PLANS]
    if failed or None in manifests:
        return 1
    results = [manifest["results"] for manifest in manifests if manifest is not None]
    terminal.line()
    curve = results[0]["roc_curve"]
    for line in curve_lines(curve["fpr"], curve["tpr"], curve["tpr_lower"], curve["tpr_upper"]):
        terminal.line(line)
    same = all(other == results[0] for other in results)
    terminal.line(
        f"AUC {curve['auc']:.3f}; the results of the three silos are {'the same' if same else 'NOT the same'}"
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
