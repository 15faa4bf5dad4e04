"""The operator: what it asks for, what it tells, and how it ends; the Spark application is a stand-in."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.release_check import ReleaseCheckFailed
from dp_operators.releasing import LocalRunner
from dp_operators.tasks.errors import LedgerUnreachable
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from tests.support.accounts import open_bound
from tests.support.airflow import make_context
from tests.support.dag_bags import restored
from tests.support.fake_application import SECRET_ROW

Connect = Callable[..., None]
TABLE = "/lake/visits"
MODEL = {"kind": "columns", "score": "score", "basis": "public"}


@pytest.fixture
def account(airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
    open_bound(airflow_ledger, "visits", epsilon="1.5", table=TABLE, output=tmp_path / "releases")
    return airflow_ledger


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in as the runner's application, and a contract that its drafts meet; the folder of its output."""
    private = tmp_path / "private"
    runner = LocalRunner(
        command=(sys.executable, "-m", "tests.support.fake_application"), private_dir=private, grace=5.0
    )
    monkeypatch.setattr("dp_operators.operators.application.make_runner", lambda *_, **__: runner)
    monkeypatch.setattr("dp_operators.release_check.check_release", lambda release, read: None)
    return private


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., ReleaseDiagnosticsOperator]:
    def operator(**fields: Any) -> ReleaseDiagnosticsOperator:
        given = {
            "account": "visits",
            "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
            "label": "any_visit",
            "model": MODEL,
            "diagnostics": "roc_curve",
            "epsilon": "1",
            "output": str(tmp_path / "releases"),
        }
        return ReleaseDiagnosticsOperator(task_id="release", **{**given, **fields})

    return operator


Make = Callable[..., ReleaseDiagnosticsOperator]


def failure(operator: ReleaseDiagnosticsOperator, expected: type[AirflowException] = AirflowFailException) -> str:
    with pytest.raises(AirflowException) as failed:
        operator.execute(make_context())
    assert type(failed.value) is expected
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
    assert "\n" not in str(failed.value)
    return str(failed.value)


class TestRequest:
    def test_parameters_are_the_requests_fields(self, make: Make, tmp_path: Path) -> None:
        request = make(
            label={"column": "outcome", "positive": "yes", "negative": "no"},
            delta="1e-6",
            neighbours="replace_one",
            unit={"column": "person", "max_rows": 3},
            where="age >= 18",
            blocks=["a", "b"],
            title="A title",
            record="visit",
            row_id="visit_number",
            scoring={"outside": "drop"},
            diagnostics=[{"kind": "roc_curve", "thresholds": 64}],
        ).build_request()
        assert request == ReleaseRequest.parse(
            {
                "account": "visits",
                "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
                "label": {"column": "outcome", "positive": "yes", "negative": "no"},
                "model": MODEL,
                "diagnostics": [{"kind": "roc_curve", "thresholds": 64}],
                "budget": {"epsilon": "1", "delta": "1e-6"},
                "neighbours": "replace_one",
                "unit": {"column": "person", "max_rows": 3},
                "where": "age >= 18",
                "blocks": ["a", "b"],
                "title": "A title",
                "record": "visit",
                "row_id": "visit_number",
                "scoring": {"outside": "drop"},
                "output": str(tmp_path / "releases"),
            }
        )

    def test_model_may_be_a_file(self, make: Make, tmp_path: Path) -> None:
        path = tmp_path / "model.json"
        path.write_text(json.dumps(MODEL))
        assert make(model=str(path)).build_request() == make().build_request()

    def test_one_block_may_be_a_word(self, make: Make) -> None:
        assert make(blocks="eu").build_request().blocks == ("eu",)

    def test_request_may_be_whole(self, make: Make, tmp_path: Path) -> None:
        request = make().build_request()
        path = tmp_path / "request.yaml"
        path.write_text(request.to_yaml())
        for whole in (request.to_dict(), str(path)):
            assert ReleaseDiagnosticsOperator(task_id="release", request=whole).build_request() == request

    def test_whole_request_beside_fields_is_refused(self, make: Make) -> None:
        with pytest.raises(InvalidRequest, match="request: got 'also account, budget"):
            make(request={"account": "visits"})

    def test_numbers_and_nested_values_are_templates(self, make: Make) -> None:
        operator = make(
            table={"path": "/lake/{{ params.table }}", "snapshot": {"path_version": "{{ params.version }}"}},
            epsilon="{{ params.epsilon }}",
            unit={"column": "person", "max_rows": "{{ params.rows }}"},
            diagnostics=[{"kind": "roc_curve", "thresholds": "{{ params.cells }}", "confidence": "0.95"}],
            output="{{ params.output }}",
            deployment="{{ params.deployment }}",
        )
        operator.render_template_fields(
            make_context(
                table="visits", version="v7", epsilon=0.3, rows=4, cells=32, output="/releases", deployment="prod"
            )
        )
        request = operator.build_request()
        assert request.table.path == "/lake/visits"
        assert request.table.snapshot.path_version == "v7"
        assert str(request.budget.epsilon) == "0.3"
        assert request.unit.max_rows == 4
        assert request.diagnostics[0].thresholds == 32
        assert request.diagnostics[0].confidence == 0.95
        assert request.output == "/releases"
        assert operator.deployment == "prod"

    def test_operator_survives_serialisation(self, make: Make) -> None:
        with DAG("visits", schedule=None) as dag:
            make(epsilon="{{ params.epsilon }}", runner="spark_submit", conf={"spark.executor.memory": "2g"})
        task = restored(dag).task_dict["release"]
        assert task.request["budget"] == {"epsilon": "{{ params.epsilon }}"}
        assert task.runner == "spark_submit"
        assert set(task.template_fields) == set(ReleaseDiagnosticsOperator.template_fields)

    def test_operator_can_be_mapped(self, make: Make) -> None:
        with DAG("visits", schedule=None):
            mapped = ReleaseDiagnosticsOperator.partial(
                task_id="release", account="visits", label="any_visit", model=MODEL, diagnostics="roc_curve"
            ).expand(epsilon=["0.1", "0.2"])
        assert set(mapped.template_fields) == set(ReleaseDiagnosticsOperator.template_fields)

    def test_its_output_is_still_what_other_tasks_may_use(self, make: Make) -> None:
        with DAG("visits", schedule=None):
            assert make().output["uri"].key == "uri"


@pytest.mark.usefixtures("application")
class TestRelease:
    @pytest.mark.slow
    def test_xcom_is_where_the_release_is_and_what_it_cost(
        self, account: PrivacyLedger, make: Make, tmp_path: Path
    ) -> None:
        published = make().execute(make_context())
        assert set(published) == {"uri", "key", "cost", "status", "figures"}
        assert published["status"] == {"roc_curve": "ok"}
        assert json.loads(json.dumps(published)) == published
        assert published["cost"] == {"epsilon": "1", "delta": "0", "rho": None}
        assert published["key"] == "airflow/visits/2026-11-20T00:00:00Z%2F2026-11-21T00:00:00Z/release/-1"
        assert Path(published["uri"]).parent == tmp_path / "releases"
        [charge] = account.history("visits")
        assert (charge.state, charge.release, charge.actor) == (
            ChargeState.COMMITTED,
            published["key"],
            "airflow:visits.release",
        )

    @pytest.mark.slow
    def test_repeated_it_is_the_same_release_and_is_paid_once(self, account: PrivacyLedger, make: Make) -> None:
        first = make().execute(make_context())
        manifest = Path(first["uri"], "release.json").read_bytes()
        assert make().execute(make_context()) == first
        assert Path(first["uri"], "release.json").read_bytes() == manifest
        assert len(account.history("visits")) == 1

    @pytest.mark.verify
    @pytest.mark.slow
    @pytest.mark.usefixtures("account")
    def test_deployment_is_the_tasks_or_the_connections(self, make: Make, connect: Connect, tmp_path: Path) -> None:
        connect(
            "privacy_ledger_default",
            conn_type="privacy_ledger",
            extra={"path": str(tmp_path / "ledger.db"), "deployment": "prod"},
        )
        assert make(epsilon="0.1").execute(make_context())["key"].startswith("prod/")
        assert make(epsilon="0.1", deployment="lab").execute(make_context())["key"].startswith("lab/")

    @pytest.mark.slow
    @pytest.mark.usefixtures("account")
    def test_task_log_holds_public_stages_and_nothing_of_what_spark_prints(
        self, make: Make, capfd: pytest.CaptureFixture[str], application: Path
    ) -> None:
        make().execute(make_context())
        log = "".join(capfd.readouterr())
        for stage in ("starting", "reading", "counting", "drawing", "writing", "committed", "published"):
            assert stage in log
        assert SECRET_ROW not in log
        assert any(SECRET_ROW in path.read_text() for path in application.iterdir())

    @pytest.mark.slow
    def test_contract_is_checked_before_the_commit(
        self, account: PrivacyLedger, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(release: Any, read: Any) -> None:
            raise ReleaseCheckFailed(["roc_curve: tpr never falls"])

        monkeypatch.setattr("dp_operators.release_check.check_release", broken)
        assert "roc_curve: tpr never falls" in failure(make())
        assert [charge.state for charge in account.history("visits")] == [ChargeState.RESERVED]


@pytest.mark.usefixtures("application")
class TestFailure:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("fields", "line"),
        [
            ({"epsilon": "0"}, "budget.epsilon: got '0'; must be above 0"),
            ({"epsilon": "-1"}, "must be above 0"),
            ({"epsilon": float("nan")}, "must be a finite decimal number"),
            ({"epsilon": float("inf")}, "must be a finite decimal number"),
            ({"epsilon": "much"}, "must be a finite decimal number"),
            ({"epsilon": None}, "budget: is required"),
            ({"epsilon": "1.6"}, "account visits has 1.5 of 1.5 left"),
            ({"unit": {"column": "person", "max_rows": 0}}, "unit.max_rows: got 0"),
            ({"diagnostics": "confusion"}, "got 'confusion'; must be one of roc_curve"),
            ({"account": "nobody"}, "nobody"),
            ({"account": None}, "account: is required"),
            ({"table": {"path": "/lake/other", "snapshot": {"path_version": "v1"}}}, "file:///lake/other"),
            ({"table": {"path": TABLE}}, "table.snapshot"),
            ({"where": "raise_error('x') = 1"}, "where"),
            ({"model": "/no/such/model.json"}, "model: got '/no/such/model.json'; must be a file that can be read"),
            ({"output": "releases"}, "must be an absolute path or a URI"),
            ({"output": "hdfs://bucket/releases"}, "must be a store with conditional put"),
            ({"output": "/proc/releases"}, "must lie within a folder of account visits"),
            ({"neighbours": "replace_one"}, "neighbours: got 'replace_one'"),
            ({"privacy_ledger_conn_id": "nowhere"}, "must be a connection that exists"),
        ],
    )
    def test_bad_request_fails_for_good_in_one_line_and_changes_nothing(
        self, account: PrivacyLedger, make: Make, fields: dict[str, Any], line: str, tmp_path: Path
    ) -> None:
        """Of what is known when the task runs; what a DAG says itself is an import error (``test_constants``)."""
        head = account.head()
        assert line in failure(make(**fields, _airflow_from_mapped=True))
        assert account.head() == head
        assert not list(tmp_path.glob("releases/**/release.json"))

    def test_exceeded_budget_fails_for_good(self, account: PrivacyLedger, make: Make) -> None:
        account.reserve("visits", release="earlier", epsilon="1")
        assert failure(make()).startswith("epsilon: got '1'; account visits has 0.5 of 1.5 left")

    @pytest.mark.slow
    def test_key_that_paid_for_another_request_fails_for_good(self, account: PrivacyLedger, make: Make) -> None:
        make(epsilon="0.5").execute(make_context())
        failure(make(epsilon="0.6"))
        assert len(account.history("visits")) == 1

    def test_ledger_out_of_reach_may_be_retried(self, make: Make, connect: Connect, tmp_path: Path) -> None:
        connect("privacy_ledger_default", conn_type="privacy_ledger", host="127.0.0.1", port=1, schema="ledger")
        assert "cannot be used" in failure(make(), LedgerUnreachable)
        assert not (tmp_path / "releases").exists()

    @pytest.mark.verify
    @pytest.mark.slow
    def test_application_that_dies_may_be_retried_and_goes_on(
        self, account: PrivacyLedger, make: Make, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("DP_FAKE", "fail")
        line = failure(make(), AirflowException)
        assert SECRET_ROW not in line + "".join(capfd.readouterr())
        monkeypatch.delenv("DP_FAKE")
        make().execute(make_context())
        assert [charge.state for charge in account.history("visits")] == [ChargeState.COMMITTED]

    @pytest.mark.slow
    def test_refusal_by_the_application_fails_for_good_and_gives_the_budget_back(
        self, account: PrivacyLedger, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DP_FAKE", "refuse")
        assert failure(make()).startswith("table.path: got '/lake/t'; must be a table")
        assert str(account.remaining("visits").epsilon) == "1.5"

    @pytest.mark.verify
    @pytest.mark.slow
    def test_killed_task_ends_its_application(
        self, account: PrivacyLedger, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("DP_FAKE", f"wait:{tmp_path / 'never'}")
        operator = make()
        counting = threading.Event()
        told = operator._progress

        def progress(line: str) -> None:
            told(line)
            if line == "counting":
                counting.set()

        object.__setattr__(operator, "_progress", progress)

        def kill() -> None:
            counting.wait(60)
            operator.on_kill()

        killer = threading.Thread(target=kill)
        killer.start()
        start = time.monotonic()
        failure(operator, AirflowException)
        killer.join()
        assert counting.is_set()
        assert time.monotonic() - start < 60
        assert [charge.state for charge in account.history("visits")] == [ChargeState.RESERVED]

    def test_task_killed_before_it_began_is_no_error(self, make: Make) -> None:
        make().on_kill()


@pytest.mark.usefixtures("account")
def test_missing_spark_connection_fails_for_good_and_reserves_nothing(account: PrivacyLedger, make: Make) -> None:
    assert "must be a connection that exists" in failure(make(runner="spark_submit"))
    assert account.history("visits") == ()


def test_a_deploy_mode_that_a_master_lacks_reserves_nothing(
    account: PrivacyLedger, make: Make, connect: Connect
) -> None:
    connect("spark_default", conn_type="spark", host="local[2]", extra={"deploy-mode": "cluster"})
    assert "must be 'client' with this master" in failure(make(runner="cluster"))
    assert account.history("visits") == ()
    assert account.remaining("visits").epsilon == Decimal("1.5")


def test_a_saved_pipeline_with_a_connect_server_reserves_nothing(
    account: PrivacyLedger, make: Make, connect: Connect
) -> None:
    connect("spark_default", conn_type="spark_connect", host="localhost")
    pipeline = {"kind": "spark_ml", "path": "/models/m", "basis": "public", "sha256": "0" * 64}
    assert "must not be a saved pipeline with Spark Connect" in failure(make(runner="cluster", model=pipeline))
    assert account.history("visits") == ()
    assert account.remaining("visits").epsilon == Decimal("1.5")


def test_table_in_s3_without_sparks_connector_reserves_nothing(
    airflow_ledger: PrivacyLedger, make: Make, tmp_path: Path
) -> None:
    open_bound(airflow_ledger, "visits", epsilon="1.5", table="s3://lake/churn", output=tmp_path / "releases")
    head = airflow_ledger.head()
    line = failure(make(table={"path": "s3://lake/churn", "snapshot": {"path_version": "v1"}}))
    assert line.startswith("table.path: got 's3://lake/churn'")
    assert "hadoop-aws-" in line
    assert "spark.jars.packages" in line
    assert airflow_ledger.head() == head


class TestBlocks:
    @pytest.fixture
    def daily(self, airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
        settings = {"epsilon": "1.5", "blocks": "day(at)"}
        open_bound(airflow_ledger, "visits", table=TABLE, output=tmp_path / "releases", **settings)
        return airflow_ledger

    @pytest.mark.slow
    @pytest.mark.usefixtures("application")
    def test_daily_dag_charges_its_own_day(self, daily: PrivacyLedger, make: Make) -> None:
        make(blocks="interval").execute(make_context())
        [charge] = daily.history("visits")
        assert charge.blocks == ("2026-11-20",)

    @pytest.mark.usefixtures("application", "daily")
    @pytest.mark.parametrize("run", [{"run_type": "manual"}, {"interval": None}])
    def test_run_without_an_interval_of_its_own_is_refused(self, make: Make, run: dict[str, Any]) -> None:
        with pytest.raises(
            AirflowFailException,
            match="needs a scheduled, backfilled or partitioned run; this run has no data interval",
        ):
            make(blocks="interval").execute(make_context(**run))

    @pytest.mark.usefixtures("application")
    def test_dry_run_says_the_price_and_touches_nothing(self, daily: PrivacyLedger, make: Make, tmp_path: Path) -> None:
        before = daily.head()
        told = make(blocks="interval", dry_run=True).execute(make_context())
        assert told == {
            "account": "visits",
            "cost": {"epsilon": "1", "delta": "0", "rho": None},
            "remaining": {"2026-11-20": {"epsilon": "1.5", "delta": "0", "rho": None}},
        }
        assert daily.head() == before
        assert not (tmp_path / "releases").exists()
        with pytest.raises(AirflowFailException, match="has 1.5 of 1.5 left"):
            make(blocks="interval", dry_run=True, epsilon="2").execute(make_context())
