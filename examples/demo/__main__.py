"""The demo: a real DAG runs a real Spark job, publishes a private ROC curve, and the budget stops the next one.

Everything it makes lies in one folder: Airflow's home, the lake, the ledger, the releases, and a log of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from examples.demo.run import DAG_ID, DAGS
from examples.demo.terminal import Terminal, curve_lines

if TYPE_CHECKING:
    from dp_operators.budget import Charge

ACTORS = {"budget.py": "sensor", "release.py": "release"}
"""Files of the provider whose log lines are shown, and by what name."""

SAYINGS = {
    "what the application prints goes to": "Spark's own output goes to a private file",
    "starting": "Spark is starting",
    "reading": "Spark looks at the table's schema",
    "counting": "Spark scores the rows and counts them in cells",
    "drawing": "noise is drawn, once",
    "writing": "curve, picture and report are made from the noisy counts",
    "done": "the application is done",
    "committed": "the ledger knows which release it paid for",
    "published": "the release is visible",
}
"""Lines of a release under way, by how they begin, and what the demo says for them."""

BLOCKED = " is held back: "
HEARTBEAT = re.compile(r" \.\.\. \d+ s$")


@dataclass(frozen=True, kw_only=True)
class Home:
    """The folder of one demo, and what lies in it."""

    path: Path

    @property
    def log(self) -> Path:
        """What the run logs."""
        return self.path / "demo.log"

    @property
    def ledger(self) -> Path:
        """The ledger's database."""
        return self.path / "ledger.db"

    @property
    def releases(self) -> Path:
        """The folder that holds the accounts' folders of releases."""
        return self.path / "releases"

    def environment(self) -> dict[str, str]:
        """The variables of the DAG run: this machine's, without any of another Airflow's."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
        ledger = {"conn_type": "privacy_ledger", "extra": {"path": str(self.ledger)}}
        return {
            **inherited,
            "AIRFLOW_HOME": str(self.path / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__JSON_LOGS": "True",
            "AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": json.dumps(ledger),
            "DP_DEMO_LAKE": str(self.path / "lake"),
            "DP_DEMO_OUTPUT": str(self.releases),
            "PYTHONPATH": str(DAGS.parent),
            "PYTHONUNBUFFERED": "1",
            "XDG_STATE_HOME": str(self.path / "private"),
        }


def main(argv: list[str] | None = None) -> int:
    """Run the demo and show it; 0 if the DAG run succeeded, the held-back release included."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--home", type=Path, help="folder for all it makes; named again, its budget is as it was left")
    arguments = parser.parse_args(argv)
    if not (DAGS / f"{DAG_ID}.py").exists():
        parser.error("the example DAG is not here: run the demo from a clone of the repository")
    home = Home(path=(arguments.home or fresh_home(Path(".demo"))).absolute())
    home.path.mkdir(parents=True, exist_ok=True)
    terminal = Terminal.on(sys.stdout)
    introduce(terminal, home)
    paid_before = {charge.id for charge in charges(home)}
    status, blocked = show_run(terminal, home)
    if status != 0:
        terminal.line()
        terminal.line(terminal.style("The DAG run failed. ", "red", "bold") + f"Its log: {home.log}")
        return 1
    for charge in charges(home):
        if charge.id not in paid_before:
            show_release(terminal, home, charge)
    show_blocked(terminal, blocked)
    return 0


def fresh_home(parent: Path) -> Path:
    """A folder in ``parent`` that is not there yet, named by the time."""
    name = time.strftime("%Y-%m-%d-%H%M%S")
    taken = sum(path.name.startswith(name) for path in parent.glob("*"))
    return parent / (f"{name}-{taken}" if taken else name)


def introduce(terminal: Terminal, home: Home) -> None:
    """Say what is going to happen."""
    from examples.demo import setting

    terminal.line(terminal.style("Private diagnostics of the RAND Health Insurance Experiment", "bold"))
    terminal.line(
        "Did a person see a doctor within the year? A public logistic model scores the years of people that it"
    )
    terminal.line(
        "was not fitted on. An Airflow DAG has Spark count them, and releases a private ROC curve of the model."
    )
    terminal.line(
        f"Budget of account {setting.ACCOUNT}: epsilon {setting.CAP}. Each release asks for {setting.EPSILON}."
    )
    terminal.line(f"All that is made here lies in {home.path}")
    terminal.line()


def show_run(terminal: Terminal, home: Home) -> tuple[int, list[str]]:
    """Run the DAG and show its public lines as they come; its exit status, and why releases were held back."""
    blocked = []
    with home.log.open("ab") as log:
        start = log.tell()
        run = subprocess.Popen(
            [sys.executable, "-m", "examples.demo.run"],
            env=home.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    terminal.step("airflow", "starting, with a metadata database of its own")
    doing = "Airflow is starting"
    try:
        for line in follow(home.log, start, run):
            if line is None:
                terminal.wait(doing)
                continue
            who, what = line
            failed = who == "failed"
            if BLOCKED in what:
                blocked.append(what)
            terminal.step(who, what, *(["red"] if failed else ["yellow"] if BLOCKED in what else []))
            doing = what
    except KeyboardInterrupt:
        run.wait()
        raise SystemExit(130) from None
    terminal.step("airflow", "the DAG run is done" if run.returncode == 0 else "the DAG run failed")
    return run.returncode, blocked


def follow(log: Path, start: int, run: subprocess.Popen[bytes]) -> Iterator[tuple[str, str] | None]:
    """The public lines that ``run`` writes to ``log``, as they come; None about ten times a second in between."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        lines.seek(start)
        rest = ""
        while True:
            ended = run.poll() is not None
            *complete, rest = (rest + lines.read()).split("\n")
            for line in complete:
                shown = public_line(line)
                if shown is not None:
                    yield shown
            if ended:
                return
            yield None
            time.sleep(0.1)


def public_line(line: str) -> tuple[str, str] | None:
    """Who says what in a line of Airflow's JSON log, if it is to be shown."""
    try:
        record = json.loads(line)
        event, file = str(record["event"]), record.get("filename")
    except (ValueError, KeyError, TypeError):
        return None
    if event == "Task failed with exception":
        return "failed", str((record.get("exception") or [{}])[0].get("exc_value", event))
    if file not in ACTORS or "dp_operators" not in str(record.get("logger")) or HEARTBEAT.search(event):
        return None
    text = next((saying for begin, saying in SAYINGS.items() if event.startswith(begin)), event)
    return ACTORS[file], text


def charges(home: Home) -> tuple[Charge, ...]:
    """The charges of the demo's account; none while there is no ledger."""
    from dp_operators.budget import PrivacyLedger
    from examples.demo import setting
    from spark_jobs.contract.errors import InvalidRequest

    try:
        return PrivacyLedger(f"sqlite:///{home.ledger}").history(setting.ACCOUNT)
    except InvalidRequest:
        return ()


def show_release(terminal: Terminal, home: Home, charge: Charge) -> None:
    """Show what a charge paid for."""
    from dp_operators.budget import PrivacyLedger
    from dp_operators.releasing import account_state
    from examples.demo import setting
    from spark_jobs.contract.privacy import plain
    from spark_jobs.contract.release import Release
    from spark_jobs.contract.store.layout import ReleaseLayout

    layout = ReleaseLayout.of(str(home.releases / setting.ACCOUNT), charge.release, charge.id)
    release = Release.from_json(Path(layout.manifest).read_bytes())
    roc = release.results["roc_curve"]
    terminal.line()
    terminal.line(terminal.style("Released", "green", "bold"))
    for line in curve_lines(roc["fpr"], roc["tpr"], roc["tpr_lower"], roc["tpr_upper"]):
        terminal.line(f"  {line}")
    low, high = roc["auc_interval"]
    level = f"{100 * release.request['diagnostics'][0]['confidence']:g}%"
    auc = terminal.style(f"{roc['auc']:.3f}", "bold")
    fact(terminal, "AUC", f"{auc}, between {low:.3f} and {high:.3f} with {level} confidence")
    account = account_state(PrivacyLedger(f"sqlite:///{home.ledger}"), charge)
    before = plain(account.cap.epsilon - account.spent_before.epsilon)
    fact(terminal, "budget", f"epsilon {before} before, {plain(account.remaining.epsilon)} after")
    for name, value in spent_on(charge):
        fact(terminal, name, value)
    fact(terminal, "report", Path(layout.file("report.html")).as_uri())
    fact(terminal, "manifest", Path(layout.manifest).as_uri())


def spent_on(charge: Charge) -> list[tuple[str, str]]:
    """The allotment that a charge came from, if any, and what its mechanisms spent, as the ledger keeps it."""
    rows = [("allotment", charge.allotment)] if charge.allotment else []
    for number, event in enumerate(charge.drawn_events or charge.events):
        amounts = ", ".join(f"{name} {event[name]}" for name in ("epsilon", "delta", "rho") if name in event)
        label = f" for {event['label']}" if event.get("label") else ""
        rows.append(("spent" if number == 0 else "", f"{amounts}{label}"))
    return rows


def show_blocked(terminal: Terminal, lines: list[str]) -> None:
    """Show what was not released, and why."""
    for line in lines:
        task, _, reason = line.partition(BLOCKED)
        terminal.line()
        terminal.line(terminal.style("Held back", "yellow", "bold"))
        fact(terminal, "task", task)
        fact(terminal, "reason", reason)


def fact(terminal: Terminal, name: str, value: str) -> None:
    """Write one fact."""
    terminal.line(f"  {name:<10}{value}")


if __name__ == "__main__":
    sys.exit(main())
