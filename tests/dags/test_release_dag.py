"""The demo, whole: Airflow runs the DAG, Spark counts, the ledger is charged, and the second release is held back."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from dp_operators.budget import Charge, ChargeState, PrivacyLedger
from dp_operators.release_check import check_release
from examples.demo import lake, setting
from examples.demo.__main__ import Home
from spark_jobs.contract.headlines import headlines
from spark_jobs.contract.release import Release
from tests.support.dag_bags import needs_partitions

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

REASON = "account rand-hie has epsilon 0.5 of 1.5 left, and 1 is needed"

STAMPS = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # a UUID
    r"|\d{4}-\d\d-\d\d[Tt ]\d\d[:-]\d\d[:-]\d\d(?:[.-]\d+)?"
    r"|(?:DateTime|datetime)\([\d, ]*"
    r'|"lineno":\d+'
)
"""What chance, the clock and Airflow's own source write into a log: no number of theirs says anything of rows."""

AGAIN = """
from tests.support.dag_bags import DagBag
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from examples.demo.run import DAGS
from sqlalchemy import select

DAG_ID = "release_diagnostics"
with create_session() as session:
    run = session.scalar(select(DagRun).where(DagRun.dag_id == DAG_ID))
dag = DagBag(dag_folder=DAGS / f"{DAG_ID}.py").dags[DAG_ID]
again = dag.test(logical_date=run.logical_date, run_after=run.run_after)
raise SystemExit(0 if again.run_id == run.run_id and again.state == "success" else 1)
"""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A demo that has been run, and what is found in its folder."""

    home: Home
    shown: str
    status: int

    @property
    def log(self) -> str:
        return self.home.log.read_text()

    @property
    def ledger(self) -> PrivacyLedger:
        return PrivacyLedger(f"sqlite:///{self.home.ledger}")

    @property
    def charge(self) -> Charge:
        [charge] = self.ledger.history(setting.ACCOUNT)
        return charge

    @property
    def folder(self) -> Path:
        [folder] = [path.parent for path in self.home.releases.glob("*/*/release.json")]
        return folder

    @property
    def release(self) -> Release:
        return Release.from_json((self.folder / "release.json").read_bytes())

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with sqlite3.connect(self.home.path / "airflow" / "airflow.db") as database:
            return database.execute(query).fetchall()

    def states(self) -> dict[object, object]:
        return dict(self.rows("SELECT task_id, state FROM task_instance"))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return run_demo(Home(path=tmp_path_factory.mktemp("demo") / "home"), "release_diagnostics")


def run_demo(home: Home, only: str) -> Demo:
    command = [sys.executable, "-m", "examples.demo", "--only", only, "--home", str(home.path)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500, check=False
    )
    return Demo(home=home, shown=done.stdout, status=done.returncode)


@pytest.mark.verify
@needs_partitions  # and a log in JSON, which came with them
def test_demo_shows_a_release_and_what_was_held_back(demo: Demo) -> None:
    assert demo.status == 0, demo.shown
    roc = demo.release.results["roc_curve"]
    low, high = roc["auc_interval"]
    assert f"{roc['auc']:.3f}, between {low:.3f} and {high:.3f}" in demo.shown
    assert (demo.folder / "report.html").as_uri() in demo.shown
    assert "epsilon 1.5 before, 0.5 after" in demo.shown
    assert f"Held back\n  task      release_second\n  reason    {REASON}" in demo.shown
    assert "\x1b" not in demo.shown
    assert "pysail" not in demo.release.versions, "here Spark counts"
    assert demo.shown.endswith("docs/how-to/spark-cluster.md\n")
    stages = [
        "the engine is starting",
        "looks at the table's schema",
        "counts the rows",
        "noise is drawn",
        "report are made",
    ]
    places = [demo.shown.index(stage) for stage in stages]
    assert places == sorted(places)


def test_second_release_is_skipped_and_the_run_succeeds(demo: Demo) -> None:
    assert demo.states() == {
        "prepare": "success",
        "budget_for_first": "success",
        "release_first": "success",
        "budget_for_second": "skipped",
        "release_second": "skipped",
    }
    assert demo.rows("SELECT state FROM dag_run") == [("success",)]


def test_release_is_paid_for_and_whole(demo: Demo) -> None:
    assert demo.charge.state is ChargeState.COMMITTED
    assert demo.charge.cost.epsilon == Decimal(1)
    assert demo.ledger.remaining(setting.ACCOUNT).epsilon == Decimal("0.5")
    assert demo.ledger.verify()
    check_release(demo.release, lambda name: (demo.folder / name).read_bytes())
    assert "person-year" in (demo.folder / "report.html").read_text()


def test_released_curve_is_that_of_the_model(demo: Demo) -> None:
    roc = demo.release.results["roc_curve"]
    # the standard deviation of the AUC's noise at epsilon 1 and these 10,088 rows is below 0.01
    assert roc["auc"] == pytest.approx(0.652, abs=0.05)


def test_xcom_holds_what_was_released_at_which_cost_and_nothing_else(demo: Demo) -> None:
    found = dict(demo.rows("SELECT task_id, value FROM xcom WHERE key = 'return_value'"))
    assert set(found) == {"release_first"}
    value = json.loads(str(found["release_first"]))
    value = json.loads(value) if isinstance(value, str) else value
    assert value == {
        "uri": str(demo.folder),
        "key": demo.charge.release,
        "cost": {"epsilon": "1", "delta": "0", "rho": None},
        "status": {"roc_curve": "ok"},
        "figures": [one.to_dict() for one in headlines(demo.release.results)],
    }
    links = {"_link_ReportLink", "_link_AccountLink", "_link_VerifyLink"}
    assert {key for (key,) in demo.rows("SELECT DISTINCT key FROM xcom")} == {"return_value", *links}


def test_nothing_in_airflow_holds_an_exact_count(demo: Demo) -> None:
    rows = lake.person_years()[lake.FITTED_ROWS :]
    positives = int(rows[lake.OUTCOME].sum())
    exact = {str(len(rows)), str(positives), str(len(rows) - positives)}
    templates = str(demo.rows("SELECT rendered_fields FROM rendered_task_instance_fields"))
    assert "rand-hie" in templates
    assert str(len(rows)) == "10088"
    xcom = str(demo.rows("SELECT value FROM xcom"))
    texts = {"log": demo.log, "terminal": demo.shown, "templates": templates, "xcom": xcom}
    for name, text in texts.items():
        assert not numbers(text) & exact, name


def test_numbers_of_a_log_are_those_that_are_no_part_of_a_stamp() -> None:
    of_chance = [
        '"correlation_id":"01a22808-4e78-7062-6311-3195fadb12f0"',
        "manual__2026-11-29T15:59:08.003777+00:00",
        "airflow-release-diagnostics-manual-2026-11-29t15-59-08-10088-9a7b794f46d3",
        "DateTime(2026, 11, 29, 15, 59, 8, 3777, tzinfo=Timezone('UTC'))",
        '"filename":"dagrun.py","lineno":3777}',
    ]
    exact = ["10088 rows", "10,088 rows", '"rows":6311}', "[3777, 6311]", "2026-11-29T15:59:08Z 3777"]
    assert not {"10088", "3777", "6311"} & numbers(" ".join(of_chance))
    assert all({"10088", "3777", "6311"} & numbers(text) for text in exact)


def numbers(text: str) -> set[str]:
    """The whole numbers of a text, without those of identifiers, times and lines of programs, which chance makes."""
    rest = STAMPS.sub(" ", text)
    joined = re.sub(r"(?<=\d),(?=\d{3})", "", rest)  # 10,088
    return set(re.findall(r"(?<![\w.])\d+(?!\w|\.\d)", f"{rest} {joined}"))


@pytest.mark.verify
def test_clearing_the_run_finds_the_same_release_and_pays_nothing_more(demo: Demo) -> None:
    manifest = (demo.folder / "release.json").read_bytes()
    charge, head = demo.charge, demo.ledger.head()
    again = subprocess.run(
        [sys.executable, "-c", AGAIN],
        env=demo.home.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert again.returncode == 0, again.stdout[-3000:]
    assert "release_first: it has its charge already" in again.stdout
    assert "this task's release was published before" in again.stdout
    assert "the engine is starting" not in again.stdout
    assert f"release_second is held back: {REASON}" in again.stdout
    assert (demo.folder / "release.json").read_bytes() == manifest
    assert demo.charge == charge
    assert demo.ledger.head() == head
    assert demo.states()["release_first"] == "success"
    assert demo.states()["release_second"] == "skipped"


@pytest.mark.verify
def test_demo_shows_the_newest_hours_of_a_stream(demo: Demo) -> None:
    shown = run_demo(demo.home, "private_count_stream")
    assert shown.status == 0, shown.shown
    [charge] = demo.ledger.history(setting.ARRIVALS_ACCOUNT)
    assert (charge.state, charge.cost.epsilon) == (ChargeState.COMMITTED, 1)
    [manifest] = demo.home.releases.glob("arrivals/*/steps/*.json")
    hours = json.loads(manifest.read_text())["steps"]
    assert hours >= 48
    assert hours % 24 == 0, "the hours of the days before the run, which are those in the table"
    assert f"{hours:,} of 17,520 are released, each once" in shown.shown
    assert (manifest.parents[1] / "report.html").as_uri() in shown.shown
    picture = shown.shown.partition("Released as a stream\n")[2].splitlines()[:11]
    assert {len(line) for line in picture} == {3 + 48}
    assert sum(line.count("•") for line in picture) == 48
