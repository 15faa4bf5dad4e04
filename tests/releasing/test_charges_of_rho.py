"""Releases of a rho: tables with Gaussian noise in an account of composition ``zcdp``, charged, drawn and published."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import BudgetExceeded, PrivacyLedger
from dp_operators.releasing import ReleaseRejected
from dp_operators.releasing.affordability import AffordabilityCheck
from dp_operators.releasing.inspection import check_release_folder
from dp_operators.releasing.reconciling import reconcile
from spark_jobs.contract import InvalidRequest, Release
from spark_jobs.contract.odds import gaussian_excess
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.mechanisms.zcdp import rho_within
from tests.support import fake_application
from tests.support.accounts import bound
from tests.support.commands import Command
from tests.support.ledgers import new_ledger
from tests.support.release_lab import TABLE, HereRunner, Lab, make_request

BY = [{"column": "region", "values": ["north", "south"]}]
ENTRY = {"kind": "aggregates", "by": BY}
SPEND = {"of": "spend", "bounds": [0, 100], "step": 1, "figures": ["mean", "p50"]}
ZCDP = {"composition": "zcdp", "rho": "0.05", "epsilon": None, "delta": "1e-6"}


_DRAW_OF = fake_application.draw_of


def table(output: str, *, rho: str = "0.02", **changes: Any) -> ReleaseRequest:
    given = {"label": None, "model": None, "diagnostics": [ENTRY], "budget": {"rho": rho}, **changes}
    return make_request(output, **given)


@pytest.fixture
def counted(lab: Lab) -> Lab:
    """A laboratory whose account counts rho, up to 0.05, and an attempt at a table for 0.02."""
    lab.reopen(**ZCDP)
    lab.request = table(lab.output)
    return lab


def with_draw(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    real = _DRAW_OF
    monkeypatch.setattr(fake_application, "draw_of", lambda *arguments: real(*arguments, **changes))


def test_an_account_of_rho_is_charged_the_rho_and_no_delta(counted: Lab) -> None:
    published = counted.release()
    [charge] = counted.charges()
    assert (charge.cost.epsilon, charge.cost.delta, charge.cost.rho) == (0, 0, Decimal("0.02"))
    assert published.cost == charge.cost
    assert [event["mechanism"] for event in charge.drawn_events or ()] == ["gaussian"]
    left = counted.ledger().remaining("people", kind="gaussian")
    assert left.rho == Decimal("0.03")
    assert "rho 0.02, 0.03 left" in published.line(f"{left.counted_as(charge.cost)} left")
    # another one, as an epsilon that a zcdp account counts as half its square
    counted.release(request=table(counted.output, budget={"epsilon": "0.2"}), key="in epsilon")
    assert counted.ledger().remaining("people", kind="gaussian").rho == Decimal("0.01")
    with pytest.raises(BudgetExceeded, match="rho"):
        counted.release(key="a third")
    assert check_release_folder(published.uri, counted.ledger()) == ()
    assert counted.ledger().non_adaptive_bound("people") is not None
    again = counted.release()
    assert again.adopted


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noise": [{"gaussian": "0.0200001"}]}, "its draw's noise, which is too small for its cost"),
        ({"noise": [{"laplace": "0.2000001"}]}, "its draw's noise, which is too small for its cost"),
        ({"cost": {"epsilon": "0", "delta": "0", "rho": "0.0200001"}}, "its draw's cost, which exceeds"),
        ({"cost": {"epsilon": "0.1", "delta": "0", "rho": "0.02"}}, "its draw's cost, which exceeds"),
        ({"cost": {"epsilon": "0", "delta": "1e-6", "rho": "0.02"}}, "its draw's cost, which exceeds"),
        ({"cost": {"epsilon": "0", "delta": "0", "rho": "0.01"}}, "which do not add up to its cost"),
    ],
)
def test_a_draw_that_is_worth_more_than_its_rho_is_never_committed(
    counted: Lab, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str
) -> None:
    with_draw(monkeypatch, **changes)
    with pytest.raises(ReleaseRejected, match=words):
        counted.release(runner=HereRunner())
    assert counted.states() == ["reserved"]


def spent(rho: str, epsilon: str = "0") -> dict[str, str]:
    return {"diagnostic": "aggregates", "label": "a", "epsilon": epsilon, "delta": "0", "law": "gaussian", "rho": rho}


def test_an_event_costs_what_its_epsilon_does_and_a_call_of_noise_no_more_than_its_event(
    counted: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_draw(monkeypatch, events=[spent("0.01", "0.2"), spent("0.01")], noise=[{"laplace": "0.1"}])
    with pytest.raises(ReleaseRejected, match="do not add up"):
        counted.release(runner=HereRunner(), key="an epsilon of 0.2 costs 0.02")
    half = [spent("0.01"), spent("0.01")]
    with_draw(monkeypatch, events=half, noise=[{"gaussian": "0.02"}])
    with pytest.raises(ReleaseRejected, match="too small for its cost"):
        counted.release(runner=HereRunner(), key="one call for both events")


def test_a_draw_that_is_worth_as_much_as_its_rho_is_published(counted: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [spent("0.015"), spent("0.005", "0.1")]
    with_draw(monkeypatch, events=events, noise=[{"gaussian": "0.015", "laplace": "0.1"}])
    counted.release(runner=HereRunner())
    [charge] = counted.charges()
    assert [event["mechanism"] for event in charge.drawn_events or ()] == ["gaussian", "pure"]


def test_gaussian_noise_needs_a_delta_or_a_rho(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an account of epsilon alone, noise that is far smaller than its rho says is no epsilon's at all."""
    with_draw(monkeypatch, noise=[{"gaussian": "0.000001"}])
    with pytest.raises(ReleaseRejected, match="too small for its cost"):
        lab.release(runner=HereRunner())


@pytest.mark.parametrize("times", [1, 4])
def test_gaussian_noise_for_a_delta_leaves_no_more_than_the_delta(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """The rho that is within epsilon and delta passes; with half the noise the delta would be 2,900 times as large."""
    place = Path(lab.url.removeprefix("sqlite:///"))
    place.unlink()
    ledger = new_ledger(place)
    ledger.open_account(
        "people", composition="approximate", epsilon="10", delta="1e-5", tables=[bound(TABLE)], outputs=[lab.output],
        actor="admin",
    )  # fmt: skip
    ledger.close()
    asked = table(lab.output, diagnostics=[{**ENTRY, "method": "gaussian"}], budget={"epsilon": "1", "delta": "1e-6"})
    with_draw(monkeypatch, noise=[{"gaussian": str(times * rho_within(1, "1e-6"))}])
    if times == 1:
        assert lab.release(request=asked, runner=HereRunner()).uri
        return
    with pytest.raises(ReleaseRejected, match="too small for its cost"):
        lab.release(request=asked, runner=HereRunner())


@pytest.mark.parametrize("epsilon", ["0.01", "1", "50", "600"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-9", "1e-20"])
def test_the_exact_delta_of_gaussian_noise_tells_its_rho_from_four_times_it(epsilon: str, delta: str) -> None:
    rho = float(rho_within(epsilon, delta))
    assert gaussian_excess(float(epsilon), rho) <= float(delta) < gaussian_excess(float(epsilon), 4 * rho)


def test_a_charge_of_rho_that_a_ledger_forgot_is_entered_again(counted: Lab, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    place = counted.url.removeprefix("sqlite:///")
    shutil.copy(place, backup)
    counted.release()
    shutil.copy(backup, place)
    ledger = PrivacyLedger(counted.url)
    assert reconcile(counted.output, ledger, actor="dpo").findings == ()
    [charge] = ledger.history("people")
    assert (charge.cost.epsilon, charge.cost.rho, charge.state) == (0, Decimal("0.02"), "committed")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"budget": {"rho": "0.02", "epsilon": "1"}}, "budget.epsilon: got '1'; must be left out beside rho"),
        ({"budget": {"rho": "0.02", "delta": "1e-6"}}, "budget.delta: got '1e-6'; must be left out beside rho"),
        ({"budget": {"rho": "0"}}, "budget.rho: got '0'; must be above 0"),
        ({"budget": {"rho": "-1"}}, "budget.rho: got '-1'; must be above 0"),
        ({"budget": {"rho": "x"}}, "budget.rho: got 'x'; must be a finite decimal number"),
        (
            {"diagnostics": [{"kind": "ecdf", "column": "score", "bounds": [0, 1]}]},
            "budget.rho: got '0.02'; must pay for a table of aggregates with Gaussian noise and public groups, not for",
        ),
        ({"diagnostics": [{**ENTRY, "method": "k_norm"}]}, "budget.rho: got '0.02'; must pay for a table of"),
        (
            {"diagnostics": [{**ENTRY, "by": [{"column": "region", "keys": "discover"}]}]},
            "budget.rho: got '0.02'; must pay for a table of",
        ),
        (
            {"diagnostics": [{**ENTRY, "method": "gaussian"}], "budget": {"epsilon": "1"}},
            "give a delta such as '1e-6', in a zcdp account a rho in place of epsilon",
        ),
    ],
)
def test_what_contradicts_a_rho_is_refused_in_one_line(lab: Lab, changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        table(lab.output, **changes)
    assert line in str(refused.value)


def test_a_rho_too_small_for_any_noise_is_refused_before_the_charge(counted: Lab) -> None:
    with pytest.raises(InvalidRequest, match=r"budget.rho: got '1.9e-14 for aggregates'; must be at least 5e-13"):
        counted.release(request=table(counted.output, rho="2e-14"))
    assert counted.charges() == ()


def test_an_account_of_another_composition_refuses_a_rho(lab: Lab) -> None:
    with pytest.raises(InvalidRequest, match="cannot be used in an account whose composition is pure"):
        lab.release(request=table(lab.output))
    assert lab.charges() == ()


def test_a_sensor_asks_for_the_rho(counted: Lab) -> None:
    ledger = counted.ledger()
    affordable = AffordabilityCheck(account="people", rho="0.02", key=counted.key)
    assert affordable.run(ledger).reason == "account people can pay rho 0.02"
    counted.release()
    assert affordable.run(ledger).reason == "it has its charge already"
    assert not AffordabilityCheck(account="people", rho="0.031").run(ledger).pays
    assert AffordabilityCheck(account="people", rho="0.06").run(ledger).never


@pytest.fixture
def visits(command: Command, tmp_path: Path) -> Command:
    random = np.random.default_rng(5)
    region = np.where(random.random(4000) < 0.25, "north", "south")
    rows = {"person": [f"p{number % 1500}" for number in range(4000)], "region": region}
    folder = tmp_path / "lake" / "v1"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({**rows, "spend": random.integers(0, 101, 4000)}), folder / "part.parquet")
    columns = {"person": "string", "region": "string", "spend": "int"}
    unit = {"column": "person", "max_rows": 3}
    command.lab.output = command.lab.open_account(
        "rows", str(folder.parent), columns=columns, unit=unit, **{**ZCDP, "rho": "60"}
    )
    return command


def test_a_real_release_of_rho_is_published_and_states_it(visits: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the embedded engine: pandas' counts, the rho in the manifest, the statement and the last line."""
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    entry = {**ENTRY, "measures": [SPEND]}
    asked = {"diagnostics": [entry], "budget": {"rho": "50"}}
    status, lines, errors = visits.run({"snapshot": {"path_version": "v1"}}, **asked)
    assert status == 0, errors
    assert "published, for rho 50" in [line.split(".")[0] for line in errors] or any(
        line.startswith("published, for rho 49.99") for line in errors
    )
    [charge] = visits.lab.ledger().history("rows")
    assert (charge.cost.epsilon, charge.cost.delta, charge.cost.rho) == (0, 0, 50)
    release = Release.from_json((Path(lines[-1]) / "release.json").read_bytes())
    assert release.cost.epsilon == release.cost.delta == 0
    assert 0 <= 50 - (release.cost.rho or 0) < Decimal("1e-12")
    found = release.results["aggregates"]
    assert "epsilon" not in found
    assert float(found["rho"]) == pytest.approx(50 * 0.95 / 9)
    assert found["rows"] == pytest.approx(4000, abs=10)
    assert "ρ" in (Path(lines[-1]) / "report.html").read_text()
    assert [event["mechanism"] for event in charge.drawn_events or ()] == ["pure", "pure", "gaussian", "pure"]
    assert check_release_folder(lines[-1], visits.lab.ledger()) == ()
    assert json.loads(release.to_json())["request"]["budget"]["rho"] == "50"
