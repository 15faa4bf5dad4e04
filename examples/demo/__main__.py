"""The demo: a DAG publishes a private ROC curve, the budget stops the next one, and another DAG releases a stream.

Both DAGs run the jobs of a cluster: by the embedded engine where it is installed, and so without Java, and by Spark
otherwise. All that they make lies in one folder: Airflow's home, the lake, the ledger, the releases, and a log.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from examples.demo.run import DAG_IDS, DAGS
from examples.demo.terminal import Terminal, curve_lines, step_lines
from spark_jobs.contract.stream_keys import STREAM_KEYS_FILE_VARIABLE

if TYPE_CHECKING:
    from dp_operators.budget import Charge

ACTORS = {"sensors.budget": "sensor", "operators.release": "release", "operators.count_stream": "stream"}
"""Modules of the provider whose tasks' log lines are shown, and by what name."""
FILES = ("budget.py", "release.py", "count_stream.py", "application.py")
"""Files of the provider that log for such a task; lines of Airflow's own files are not shown."""

SAYINGS = {
    "what the application prints goes to": "the engine's own output goes to a private file",
    "starting": "the engine is starting",
    "reading": "the engine looks at the table's schema",
    "counting": "the engine counts the rows in cells of their scores",
    "drawing": "noise is drawn, once",
    "writing": "curve, picture and report are made from the noisy counts",
    "done": "the application is done",
    "committed": "the ledger knows which release it paid for",
    "published": "the release is visible",
}
"""Lines of a release under way, by how they begin, and what the demo says for them."""

STREAM_SAYINGS = {
    "counting": "the engine counts the rows of each hour",
    "drawing": "noise is drawn, once for each hour",
}
"""What the demo says for lines of a stream, where it differs."""

ON_A_CLUSTER = (
    'The same DAGs run there with runner="cluster", which DP_DEMO_RUNNER=cluster sets for these, and the',
    "connection spark_default of the cluster. Tables and releases then lie in a store that all machines",
    "reach: docs/how-to/spark-cluster.md",
)
SHOWN_STEPS = 48
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
            STREAM_KEYS_FILE_VARIABLE: str(self.path / "stream.keys"),
            "XDG_STATE_HOME": str(self.path / "private"),
        }


def main(argv: list[str] | None = None) -> int:
    """Run the demo and show it; 0 if the DAG runs succeeded, the held-back release included."""
    from examples.demo import setting

    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--home", type=Path, help="folder for all it makes; named again, its budget is as it was left")
    parser.add_argument("--only", choices=DAG_IDS, help="the one DAG to run; both by default")
    arguments = parser.parse_args(argv)
    dag_ids = DAG_IDS if arguments.only is None else (arguments.only,)
    if not all((DAGS / f"{dag_id}.py").exists() for dag_id in DAG_IDS):
        parser.error("the example DAGs are not here: run the demo from a clone of the repository")
    home = Home(path=(arguments.home or fresh_home(Path(".demo"))).absolute())
    home.path.mkdir(parents=True, exist_ok=True)
    terminal = Terminal.on(sys.stdout)
    introduce(terminal, home)
    paid_before = {charge.id for charge in charges(home, setting.ACCOUNT)}
    status, blocked = show_run(terminal, home, dag_ids)
    if status != 0:
        terminal.line()
        terminal.line(terminal.style("A DAG run failed. ", "red", "bold") + f"Its log: {home.log}")
        return 1
    for charge in charges(home, setting.ACCOUNT):
        if charge.id not in paid_before:
            show_release(terminal, home, charge)
    show_blocked(terminal, blocked)
    for charge in charges(home, setting.ARRIVALS_ACCOUNT):
        show_stream(terminal, home, charge)
    conclude(terminal)
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
        "Did a person see a doctor within the year? A public logistic model has scored the years of people that it"
    )
    terminal.line("was not fitted on. An Airflow DAG has them counted, and releases a private ROC curve of the model.")
    terminal.line(
        f"Budget of account {setting.ACCOUNT}: epsilon {setting.CAP}. Each release asks for {setting.EPSILON}."
    )
    terminal.line("A second DAG releases counts of invented arrivals, hour by hour, and pays once for all hours.")
    terminal.line(f"All that is made here lies in {home.path}")
    terminal.line()


def conclude(terminal: Terminal) -> None:
    """Say how the same DAGs run elsewhere."""
    terminal.line()
    terminal.line(terminal.style("On a cluster", "bold"))
    terminal.line(
        '  The same DAGs run there with runner="cluster", which DP_DEMO_RUNNER=cluster sets for these, and the'
    )
    terminal.line(
        "  connection spark_default of the cluster. Tables and releases then lie in a store that all machines reach:"
    )
    terminal.line("  docs/how-to/spark-cluster.md")


def show_run(terminal: Terminal, home: Home, dag_ids: Sequence[str]) -> tuple[int, list[str]]:
    """Run the DAGs and show their public lines as they come; the exit status, and why releases were held back."""
    blocked = []
    with home.log.open("ab") as log:
        start = log.tell()
        run = subprocess.Popen(
            [sys.executable, "-m", "examples.demo.run", *dag_ids],
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
    terminal.step("airflow", "the DAG runs are done" if run.returncode == 0 else "a DAG run failed")
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
        event, logger = str(record["event"]), str(record.get("logger"))
    except (ValueError, KeyError, TypeError):
        return None
    if event == "Task failed with exception":
        return "failed", str((record.get("exception") or [{}])[0].get("exc_value", event))
    actor = next((name for module, name in ACTORS.items() if f".dp_operators.{module}." in logger), None)
    if actor is None or record.get("filename") not in FILES or HEARTBEAT.search(event):
        return None
    sayings = {**SAYINGS, **STREAM_SAYINGS} if actor == "stream" else SAYINGS
    return actor, next((saying for begin, saying in sayings.items() if event.startswith(begin)), event)


def charges(home: Home, account: str) -> tuple[Charge, ...]:
    """The charges of an account of the demo; none while there is no ledger."""
    from dp_operators.budget import PrivacyLedger
    from spark_jobs.contract.errors import InvalidRequest

    try:
        return PrivacyLedger(f"sqlite:///{home.ledger}").history(account)
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


def show_stream(terminal: Terminal, home: Home, charge: Charge) -> None:
    """Show the newest steps of a stream, what it cost, and how far it is."""
    from examples.demo import setting
    from spark_jobs.contract.privacy import plain
    from spark_jobs.contract.store.stream_objects import StreamLayout

    layout = StreamLayout.of(str(home.releases / setting.ARRIVALS_ACCOUNT), charge.release, charge.id)
    steps = newest_steps(Path(layout.root))
    shown = steps[-SHOWN_STEPS:]
    terminal.line()
    terminal.line(terminal.style("Released as a stream", "green", "bold"))
    values, lower, upper = ([float(step[name]) for step in shown] for name in ("estimate", "lower", "upper"))
    for line in step_lines(values, lower, upper):
        terminal.line(f"  {line}")
    request = json.loads(Path(layout.published("stream.json")).read_text())["request"]
    first, last = (shown[at]["begins"][:16].replace("T", " ") for at in (0, -1))
    level = f"{100 * request['method']['confidence']:g}%"
    fact(terminal, "shown", f"arrivals from {first} to {last}, up to {max(values):.0f} in an hour, with {level} bands")
    fact(terminal, "hours", f"{int(steps[-1]['step']) + 1:,} of {request['steps']:,} are released, each once")
    fact(terminal, "spent", f"epsilon {plain(charge.cost.epsilon)}, once, for all of them and those to come")
    fact(terminal, "report", Path(layout.published("report.html")).as_uri())


def newest_steps(folder: Path) -> list[dict[str, str]]:
    """The steps in the newest file of a stream."""
    with sorted((folder / "steps").glob("*.csv"))[-1].open(newline="") as lines:
        return list(csv.DictReader(lines))


def fact(terminal: Terminal, name: str, value: str) -> None:
    """Write one fact."""
    terminal.line(f"  {name:<10}{value}")


if __name__ == "__main__":
    sys.exit(main())
