"""The sensor passes on the ledger's word alone, waits, fails or skips as told, and never carries on blindly."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk import DAG
from hypothesis import given
from hypothesis import strategies as st

from dp_operators.budget import BudgetExceeded, PrivacyLedger
from dp_operators.releasing.affordability import Affordability
from dp_operators.releasing.federations import federated_key
from dp_operators.sensors.budget import PrivacyBudgetSensor
from dp_operators.tasks.errors import LedgerUnreachable
from dp_operators.tasks.intervals import blocks_of_run
from dp_operators.tasks.keys import release_key
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import FEDERATIONS_VARIABLE, Registration
from tests.support.airflow import make_context
from tests.support.dag_bags import restored
from tests.support.federated import prepare

Connect = Callable[..., None]


def sensor(**fields: Any) -> PrivacyBudgetSensor:
    return PrivacyBudgetSensor(**{"task_id": "budget", "account": "visits", "epsilon": "1", **fields})


def poke(**fields: Any) -> bool:
    return sensor(**fields).poke(make_context(task_id="budget"))


@pytest.fixture
def half_left(airflow_ledger: PrivacyLedger) -> PrivacyLedger:
    """An account with 0.5 of 1.5 left."""
    airflow_ledger.open_account("visits", epsilon="1.5")
    airflow_ledger.reserve("visits", release="earlier", epsilon="1")
    return airflow_ledger


amounts = st.decimals(min_value=0, max_value=10, places=6)


@given(cap=amounts.filter(bool), cost=amounts.filter(bool), left=amounts)
def test_judgement_says_whether_waiting_is_vain(cap: Decimal, cost: Decimal, left: Decimal) -> None:
    exceeded = BudgetExceeded(account="visits", block="tue", requested=cost, remaining=left, cap=cap)
    affordability = Affordability.of_exceeded(exceeded)
    assert not affordability.pays
    assert affordability.never == (cost > cap)
    assert "\n" not in affordability.reason


def test_judgement_names_the_block_and_the_allotment() -> None:
    exceeded = BudgetExceeded(
        account="visits", block="tue", requested=Decimal(1), remaining=Decimal("0.5"), cap=Decimal(2), allotment="team"
    )
    assert Affordability.of_exceeded(exceeded).reason == (
        "block tue of sub-budget team of account visits has epsilon 0.5 of 2 left, and 1 is needed"
    )


def test_asks_in_the_accounts_composition(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", composition="approximate", epsilon="2", delta="1e-6")
    assert poke(delta="4e-7") is True
    with pytest.raises(AirflowFailException, match=r"delta 0\.000001 is above the cap 0\.0000005 of account visits"):
        poke(delta="1e-6")
    airflow_ledger.open_account("pure", epsilon="2")
    with pytest.raises(AirflowFailException, match="delta: got 0.000001; cannot be used in an account"):
        poke(account="pure", delta="1e-6")


def test_asks_for_the_blocks_of_the_run_s_interval(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", epsilon="1", blocks="day(at)")
    assert poke(blocks="interval") is True
    day = airflow_ledger.account("visits").blocks
    assert day is not None
    [name] = blocks_of_run(("interval",), "visits", airflow_ledger, make_context(task_id="budget"))
    airflow_ledger.reserve("visits", release="r", epsilon="1", blocks=name)
    assert poke(blocks="interval") is False


def test_asks_for_its_allotment(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", epsilon="2")
    airflow_ledger.allot("visits", "team", epsilon="0.5")
    with pytest.raises(AirflowFailException, match="above the cap 0.5 of sub-budget team of account visits"):
        poke(allotment="team")


def test_passes_while_the_account_can_pay_and_reserves_nothing(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", epsilon="1.5")
    assert poke() is True
    assert poke(epsilon=1.5, blocks="all") is True
    assert airflow_ledger.history("visits") == ()


@pytest.mark.usefixtures("half_left")
class TestExhausted:
    def test_waits(self) -> None:
        assert poke() is False

    def test_fails(self) -> None:
        with pytest.raises(
            AirflowFailException, match=r"^the release is held back: account visits has epsilon 0\.5 of"
        ):
            poke(on_exhausted="fail")

    def test_skips_with_the_reason(self) -> None:
        with pytest.raises(
            AirflowSkipException,
            match=r"^the release is held back: account visits has epsilon 0\.5 of 1\.5 left, and 1 is needed$",
        ):
            poke(on_exhausted="skip")

    def test_passes_what_still_fits(self) -> None:
        assert poke(epsilon="0.5") is True

    def test_does_not_wait_for_what_can_never_fit(self) -> None:
        with pytest.raises(AirflowFailException, match=r"epsilon 2 is above the cap 1\.5 of account visits"):
            poke(epsilon="2")
        with pytest.raises(AirflowSkipException, match=r"epsilon 2 is above the cap 1\.5 of account visits"):
            poke(epsilon="2", on_exhausted="skip")

    def test_says_the_reason_in_one_line(self, capfd: pytest.CaptureFixture[str]) -> None:
        poke()
        said = "".join(capfd.readouterr())
        assert said.count("held back: account visits has epsilon 0.5 of 1.5 left, and 1 is needed") == 1

    def test_poke_mode_waits_for_the_budget(self, half_left: PrivacyLedger) -> None:
        waiting = sensor(poke_interval=0.01, timeout=60)
        charge = half_left.history("visits")[0]
        pokes = []

        def give_back(_: Any) -> bool:
            pokes.append(PrivacyBudgetSensor.poke(waiting, make_context()))
            if len(pokes) == 2:
                half_left.void(charge.id)
            return pokes[-1]

        object.__setattr__(waiting, "poke", give_back)
        waiting.execute(make_context())
        assert pokes == [False, False, True]

    def test_poke_mode_times_out(self) -> None:
        with pytest.raises(AirflowSensorTimeout):
            sensor(poke_interval=0.01, timeout=0.02).execute(make_context())

    def test_reschedule_mode_asks_to_be_called_again(self) -> None:
        context = make_context()
        context["ti"].get_first_reschedule_date = lambda _: None
        with pytest.raises(AirflowRescheduleException):
            sensor(mode="reschedule", poke_interval=60).execute(context)


class TestRepeated:
    """A run that is repeated finds what it paid for, though the budget would not bear it a second time."""

    def charged(self, airflow_ledger: PrivacyLedger, **reservation: Any) -> str:
        airflow_ledger.open_account("visits", epsilon="1.5")
        key = release_key(make_context(task_id="release"), deployment="airflow")
        return airflow_ledger.reserve("visits", release=str(key), **{"epsilon": "1", **reservation}).id

    def test_passes_for_a_release_with_its_charge(self, airflow_ledger: PrivacyLedger) -> None:
        self.charged(airflow_ledger)
        assert poke(release_task_id="release") is True
        assert poke(release_task_id="another") is False
        assert poke() is False

    def test_does_not_pass_for_another_cost(self, airflow_ledger: PrivacyLedger) -> None:
        self.charged(airflow_ledger, epsilon="0.9")
        assert poke(release_task_id="release") is False

    def test_does_not_pass_for_a_charge_that_is_burnt(self, airflow_ledger: PrivacyLedger) -> None:
        airflow_ledger.burn(self.charged(airflow_ledger))
        assert poke(release_task_id="release") is False


class TestFederated:
    """A federated release has its agreement's key: one charge, whichever task or run asks."""

    @pytest.fixture
    def key(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow_ledger: PrivacyLedger) -> str:
        agreement, _ = prepare(tmp_path)
        text = Registration(agreement=agreement, account="visits").model_dump_json()
        (tmp_path / "hospitals.json").write_text(text)
        monkeypatch.setenv(FEDERATIONS_VARIABLE, str(tmp_path))
        airflow_ledger.open_account("visits", epsilon="1.5")
        return federated_key(agreement)

    def test_waits_for_the_budget_and_passes_once_it_is_charged(self, airflow_ledger: PrivacyLedger, key: str) -> None:
        assert poke(federation="hospitals") is True
        earlier = airflow_ledger.reserve("visits", release="earlier", epsilon="1")
        assert poke(federation="hospitals", release_task_id="release") is False
        airflow_ledger.void(earlier.id)
        airflow_ledger.reserve("visits", release=key, epsilon="1")
        assert poke(federation="hospitals") is True
        assert poke(federation="hospitals", release_task_id="release") is True
        assert poke(release_task_id="release") is False
        assert airflow_ledger.remaining("visits").epsilon == Decimal("0.5")

    def test_a_burnt_charge_is_not_there(self, airflow_ledger: PrivacyLedger, key: str) -> None:
        airflow_ledger.burn(airflow_ledger.reserve("visits", release=key, epsilon="1").id)
        assert poke(federation="hospitals") is False

    def test_the_trigger_asks_for_the_same_key(self, key: str) -> None:
        fields = sensor(federation="hospitals")._serializable_check(make_context(task_id="budget"))
        assert fields["key"] == key

    @pytest.mark.parametrize(
        ("fields", "line"),
        [
            ({"federation": "clinics"}, "federation: got 'clinics'; must be one that the administrator"),
            ({"federation": "../up"}, "name: got '../up'"),
            (
                {"federation": "hospitals", "account": "others"},
                "must be registered for account others",
            ),
        ],
    )
    def test_one_that_is_not_registered_for_the_account_fails(
        self, airflow_ledger: PrivacyLedger, key: str, fields: dict[str, str], line: str
    ) -> None:
        airflow_ledger.open_account("others", epsilon="1.5")
        with pytest.raises(AirflowFailException, match=line):
            poke(**fields)


class TestFailsClosed:
    @pytest.mark.parametrize("on_exhausted", ["wait", "fail", "skip"])
    def test_on_a_ledger_out_of_reach_it_fails_and_may_be_retried(self, connect: Connect, on_exhausted: str) -> None:
        connect("privacy_ledger_default", conn_type="privacy_ledger", host="127.0.0.1", port=1, schema="ledger")
        with pytest.raises(AirflowException, match="cannot be used") as failed:
            poke(on_exhausted=on_exhausted)
        assert not isinstance(failed.value, (AirflowFailException, AirflowSkipException))

    @pytest.mark.parametrize(
        ("fields", "line"),
        [
            ({"privacy_ledger_conn_id": "nowhere"}, "must be a connection that exists"),
            ({"account": "nobody"}, "nobody"),
            ({"blocks": ["2026-01-01"]}, "2026-01-01"),
            ({"blocks": []}, "must name at least one block"),
            ({"epsilon": "0"}, "must be above 0"),
            ({"epsilon": "-1"}, "must be above 0"),
            ({"epsilon": "much"}, "must be a finite decimal number"),
            ({"epsilon": float("nan")}, "must be a finite decimal number"),
        ],
    )
    def test_on_what_can_be_no_budget_it_fails_for_good(
        self, airflow_ledger: PrivacyLedger, fields: dict[str, Any], line: str
    ) -> None:
        airflow_ledger.open_account("visits", epsilon="1.5")
        with pytest.raises(AirflowFailException) as failed:
            poke(**{"on_exhausted": "skip", **fields})
        assert line in str(failed.value)
        assert "\n" not in str(failed.value)

    @pytest.mark.parametrize("blind", ["soft_fail", "never_fail", "silent_fail"])
    def test_ways_to_carry_on_after_a_failure_are_refused(self, blind: str) -> None:
        with pytest.raises(InvalidRequest, match=f"{blind}.*would hide a failed budget check"):
            sensor(**{blind: True})

    def test_unknown_way_to_be_exhausted_is_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="on_exhausted: got 'pass'; must be one of wait, fail, skip"):
            sensor(on_exhausted="pass")


def test_fields_are_templates(airflow_ledger: PrivacyLedger) -> None:
    airflow_ledger.open_account("visits", epsilon="1.5")
    templated = sensor(account="{{ params.account }}", epsilon="{{ params.epsilon }}", blocks=["{{ params.block }}"])
    context = make_context(account="visits", epsilon=1.25, block="all")
    templated.render_template_fields(context)
    assert (templated.account, templated.epsilon, templated.blocks) == ("visits", "1.25", ["all"])
    assert templated.poke(context) is True


def test_sensor_survives_serialisation() -> None:
    with DAG("visits", schedule=None) as dag:
        sensor(epsilon="{{ params.epsilon }}", mode="reschedule", release_task_id="release")
    task = restored(dag).task_dict["budget"]
    assert task.epsilon == "{{ params.epsilon }}"
    assert task.release_task_id == "release"
    assert set(task.template_fields) == set(PrivacyBudgetSensor.template_fields)


class TestDeferred:
    def test_passes_at_once_where_the_account_can_pay(self, airflow_ledger: PrivacyLedger) -> None:
        airflow_ledger.open_account("visits", epsilon="1")
        assert sensor(deferrable=True).execute(make_context(task_id="budget")) is None

    def test_leaves_the_waiting_to_a_trigger_with_a_time_limit(self, half_left: PrivacyLedger) -> None:
        waiting = sensor(deferrable=True, release_task_id="release", timeout=120, poke_interval=7)
        with pytest.raises(TaskDeferred) as deferred:
            waiting.execute(make_context(task_id="budget"))
        assert deferred.value.timeout == dt.timedelta(seconds=120)
        assert deferred.value.method_name == "execute_complete"
        _, fields = deferred.value.trigger.serialize()
        assert json.loads(json.dumps(fields)) == fields
        assert fields["poke_interval"] == 7
        assert fields["question"]["epsilon"] == "1"
        assert fields["question"]["key"] == str(
            release_key(make_context(task_id="budget"), deployment="airflow", task_id="release")
        )

    @pytest.mark.parametrize(("on_exhausted", "ends"), [("fail", AirflowFailException), ("skip", AirflowSkipException)])
    def test_does_not_wait_if_told_otherwise(
        self, half_left: PrivacyLedger, on_exhausted: str, ends: type[Exception]
    ) -> None:
        with pytest.raises(ends, match="held back"):
            sensor(deferrable=True, on_exhausted=on_exhausted).execute(make_context(task_id="budget"))

    @pytest.mark.parametrize(
        ("event", "ends"),
        [
            ({"status": "never", "reason": "r"}, AirflowFailException),
            ({"status": "refused", "reason": "r"}, AirflowFailException),
            ({"status": "away", "reason": "r"}, LedgerUnreachable),
            ({}, AirflowException),
            (None, AirflowException),
        ],
    )
    def test_ends_as_the_trigger_says_and_never_passes_on_silence(self, event: Any, ends: type[Exception]) -> None:
        with pytest.raises(AirflowException) as ended:
            sensor(deferrable=True).execute_complete(make_context(task_id="budget"), event)
        assert type(ended.value) is ends
        assert sensor().execute_complete(make_context(), {"status": "pays", "reason": "r"}) is None
