"""A request with a federation: what its silos draw, what it costs, and what is said of its errors."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dp_operators.releasing.draws import OpenedDraw
from spark_jobs.application.draft import draft
from spark_jobs.application.federated import agreed, noise_of
from spark_jobs.application.run import measure
from spark_jobs.contract.agreement import Agreement
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import LINEAR
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.federation.exchange import FederationFailed, Silo
from spark_jobs.federation.measuring import SiloNoise, _Rounds
from spark_jobs.federation.noise_shares import NoiseShare
from spark_jobs.federation.serving import Summing
from spark_jobs.federation.ustat import Curator
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance
from spark_jobs.wording.rules import rules
from tests.application.test_draw import BOUND, charge_of
from tests.support.federated import SERVERS, SILOS, prepare
from tests.support.rehearsal import exact, rows_of

OPTIONS: dict[str, dict[str, Any]] = {
    "aggregates": {
        "by": [{"column": "x", "edges": [0, 0.5, 1]}],
        "measures": [{"of": "amount", "bounds": [0, 90], "figures": ["mean", "sum"]}],
        "marginals": [[]],
    },
    "ecdf": {"column": "amount", "bounds": [0, 100], "cells": 256},
    "cdf_points": {"column": "amount", "bounds": [0, 100], "cells": 256, "thresholds": [10, 20]},
    "residual_plot": {"outcome": "wage", "unit": 1},
    "linear_regression": {"x": "x", "y": "y", "x_bounds": [0, 1], "y_bounds": [0, 1]},
    "linear_fit": {"features": {"x": [0, 1]}, "outcome": "y", "outcome_bounds": [0, 1]},
    "logistic_fit": {"features": {"x": [0, 1]}},
    "confusion_matrix": {"thresholds": [0.5]},
}
CASES = [(kind, method) for kind, methods in LINEAR.items() for method in methods]
SHARED = ["calibration", "roc_curve", {"kind": "auc", "method": "counts"}]


def request(diagnostics: list[Any], *, federation: Any = "hospitals", **changes: Any) -> ReleaseRequest:
    return ReleaseRequest.parse(
        {
            "account": "visits",
            "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}, **BOUND},
            "label": "label",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": diagnostics,
            "budget": {"epsilon": "1"},
            "federation": federation,
            **changes,
        }
    )


def entry(kind: str, method: str | None) -> dict[str, Any]:
    return {"kind": kind, **OPTIONS.get(kind, {}), **({} if method is None else {"method": method})}


def with_agreement(asked: ReleaseRequest, agreement: Agreement, **changes: Any) -> ReleaseRequest:
    fields = {"request_sha256": asked.shared_sha256, "epsilon": asked.budget.epsilon, **changes}
    changed = agreement.model_copy(update=fields)
    return ReleaseRequest.parse({**asked.to_dict(), "federation": {"name": "hospitals", "agreement": changed}})


@pytest.fixture(scope="module")
def agreement(tmp_path_factory: pytest.TempPathFactory) -> Agreement:
    return prepare(tmp_path_factory.mktemp("agreement"), silos_per_person=2)[0]


def counts_of(asked: ReleaseRequest, rows: dict[str, np.ndarray]) -> dict[Any, Any]:
    return {statistic: exact(statistic, rows) for statistic in asked.statistics}


MOST = [[case] for case in CASES if case != ("residual_plot", "auto")]
FEW = [[("residual_plot", "auto")], [("calibration", None), ("roc_curve", None), ("auc", "counts")]]


@pytest.mark.parametrize("silos_per_person", [1, 2])
@pytest.mark.parametrize("unit", [{}, {"column": "person", "max_rows": 7}], ids=["a row", "seven rows"])
@pytest.mark.parametrize(
    "diagnostics",
    [*FEW, *(pytest.param(given, marks=pytest.mark.verify) for given in MOST)],
    ids=lambda given: given[0][0],
)
def test_what_was_drawn_is_what_its_charge_pays_for(diagnostics, unit, silos_per_person, agreement) -> None:
    """Every exchange asks for noise that the agreement allows, and all exchanges add up to the request's epsilon."""
    agreement = agreement.model_copy(update={"silos_per_person": silos_per_person})
    asked = with_agreement(request([entry(*case) for case in diagnostics], unit=unit), agreement)
    preflight(asked)
    seeded, spent = SeededNoise(1), []

    def exchange(values: Any, epsilon: Any, l1_sensitivity: int) -> Any:
        spent.append(Decimal(epsilon))
        NoiseShare(epsilon=epsilon, l1_sensitivity=2 * l1_sensitivity, contributors=2, colluding=1)
        return seeded.laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity)

    noise = SiloNoise(exchange, guarantee="differentially private", factor=agreement.noise_factor)
    drawn = measure(asked, counts_of(asked, rows_of(300, 1)), charge_id="c", noise=noise)
    opened = OpenedDraw(sha256="", fields=json.loads(drawn.to_json()))
    assert opened.mismatches(charge_of(asked)) == ()
    assert max(spent) <= asked.budget.epsilon
    assert float(drawn.cost.epsilon) == pytest.approx(1)
    less = charge_of(asked, cost=Budget(epsilon=drawn.cost.epsilon - Decimal("1e-9")))
    assert "its draw's cost, which exceeds the reservation" in opened.mismatches(less)


def test_what_diagnostics_share_is_that_of_the_pooled_table() -> None:
    asked = request([*SHARED, entry("confusion_matrix", None)], federation=None)
    rows = rows_of(900, 3)
    whole = measure(asked, counts_of(asked, rows), charge_id="c", noise=SeededNoise(1))
    rounds = _Rounds(3, Curator(noise=SeededNoise(1)))

    def in_silo(number: int) -> Any:
        part = {name: column[number::3] for name, column in rows.items()}
        noise = SiloNoise(lambda *terms: rounds.exchange(number, *terms), guarantee=whole.guarantee)
        return measure(asked, counts_of(asked, part), charge_id="c", noise=noise)

    with ThreadPoolExecutor(3) as pool:
        draws = list(pool.map(in_silo, range(3)))
    assert whole.shared is not None
    for drawn in draws:
        assert (drawn.measurements, drawn.shared, drawn.events) == (whole.measurements, whole.shared, whole.events)


def play(asked: ReleaseRequest, agreement: Agreement, keys: Any, folder: Any) -> dict[str, Any]:
    """The draws of all silos, or their errors, by name; the servers run in threads too."""
    servers = [
        Summing(agreement=agreement, keys=keys[name], server=name, receipts=str(folder / name), poll_seconds=0.005)
        for name in SERVERS
    ]

    def in_silo(name: str) -> Any:
        silo = Silo(agreement=agreement, keys=keys[name], silo=name, poll_seconds=0.005)
        counts = counts_of(asked, rows_of(400, SILOS.index(name)))
        return agreed(silo, measure(asked, counts, charge_id="c", noise=noise_of(silo)))

    with ThreadPoolExecutor(len(SILOS) + len(SERVERS)) as pool:
        for server in servers:
            pool.submit(server.serve)
        runs = {name: pool.submit(in_silo, name) for name in SILOS}
    return {name: run.exception() or run.result() for name, run in runs.items()}


@pytest.mark.slow
def test_silos_publish_the_same_results(tmp_path) -> None:
    made, keys = prepare(tmp_path)
    asked = with_agreement(request(SHARED), made)
    federated = asked.federation.agreement
    draws = play(asked, federated, keys, tmp_path)
    releases = [draft(asked, drawn, key="k", rules=rules(asked))[0] for drawn in draws.values()]
    assert len({json.dumps(release.results, sort_keys=True) for release in releases}) == 1
    assert releases[0].guarantee == "differentially private"
    statement = releases[0].statement
    assert "3 silos (north, south and west)" in statement
    assert "2 servers (one and two)" in statement
    assert "up to 1 may collude" in statement
    assert "rows lie in one silo" in statement


def test_noise_is_as_large_as_the_measurement_reckons(tmp_path, agreement) -> None:
    """Twice the sensitivity for two silos a person, twice the variance for two servers: intervals keep their level."""
    asked = with_agreement(request([entry("confusion_matrix", None)]), agreement)
    silo = object.__new__(Silo)
    object.__setattr__(silo, "agreement", asked.federation.agreement)
    law: list[tuple[float, float]] = []

    def exchange(values: Any, epsilon: Any, l1_sensitivity: int) -> Any:
        share = NoiseShare(epsilon=epsilon, l1_sensitivity=2 * l1_sensitivity, contributors=2, colluding=1)
        law.append((2 * laplace_variance(share.scale), l1_sensitivity))
        return values

    noise = SiloNoise(exchange, guarantee="differentially private", factor=noise_of(silo)._factor)
    noise.laplace(np.zeros(2), epsilon=Decimal("0.25"), l1_sensitivity=3)
    assert law[0][0] == pytest.approx(laplace_variance(3 / 0.25), rel=1e-3)


@pytest.mark.parametrize(
    ("diagnostics", "changes", "message"),
    [
        (["roc_comparison"], {}, "kind: got 'roc_comparison'; must be one of aggregates, auc"),
        (["auc"], {}, "method: got 'auto'; must be counts for silos"),
        ([{"kind": "calibration", "method": "recursive_medians"}], {}, "must be auto or fixed_bins"),
        (["roc_curve"], {"neighbours": "replace_one"}, "neighbours: .*must be add_remove for silos"),
        (["roc_curve"], {"budget": {"epsilon": 1, "delta": "1e-6"}}, "budget.delta: got '0.000001'; must be 0 in"),
        (["roc_curve"], {"federation": "../etc/passwd"}, "federation.name: "),
        (["roc_curve"], {"federation": {"name": "hospitals", "servers": []}}, "federation.servers: is not a field"),
    ],
)
def test_what_no_silos_can_release_is_refused_when_it_is_read(diagnostics, changes, message) -> None:
    others = {"other": {"kind": "columns", "score": "other", "basis": "public"}}
    asked = [{"kind": kind, **others} if kind == "roc_comparison" else kind for kind in diagnostics]
    with pytest.raises(InvalidRequest, match=message):
        request(asked, **changes)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"request_sha256": "0" * 64}, "request_sha256: .*the hash of those fields of this request"),
        ({"epsilon": Decimal(2)}, "budget.epsilon: got '1'; must be what the silos have agreed on, 2"),
        ({"colluding": 0}, "colluding: got 0; must be 1, one less than the number of servers"),
    ],
)
def test_what_was_not_agreed_on_is_refused_before_the_charge(changed, message, agreement) -> None:
    with pytest.raises(InvalidRequest, match=message):
        preflight(with_agreement(request(["roc_curve"]), agreement, **changed))


def test_silos_share_everything_but_their_table_account_and_output() -> None:
    mine = request(["roc_curve"])
    same = request(
        ["roc_curve"], account="others", output="/elsewhere", federation="clinics",
        table={"path": "/lake/others", "snapshot": {"path_version": "v9"}, **BOUND},
    )  # fmt: skip
    assert same.shared_sha256 == mine.shared_sha256
    for changes in (
        {"where": "score > 0"}, {"budget": {"epsilon": 2}}, {"label": "visit"}, {"unit": {"column": "person"}},
        {"blocks": ["2026"]}, {"title": "t"}, {"scoring": {"outside": "drop"}}, {"record": "visit"},
        {"model": {"kind": "columns", "score": "other", "basis": "public"}},
    ):  # fmt: skip
        assert request(["roc_curve"], **changes).shared_sha256 != mine.shared_sha256


def test_a_request_without_a_federation_has_the_hash_that_it_had() -> None:
    assert "federation" not in request(["roc_curve"], federation=None).to_dict()


def test_a_silo_finds_out_that_its_release_has_ended_before_it_reads_a_row(tmp_path) -> None:
    made, keys = prepare(tmp_path, wait_seconds=0.1)
    server = Summing(
        agreement=made, keys=keys["one"], server="one", receipts=str(tmp_path / "receipts"), poll_seconds=0.01
    )
    silo = Silo(agreement=made, keys=keys["north"], silo="north")
    silo.require_unrefused()
    with pytest.raises(FederationFailed):
        server.serve()
    with pytest.raises(FederationFailed, match="server one refused round 0: silo north has sent nothing"):
        silo.require_unrefused()


def test_numbers_whose_noise_is_drawn_together_are_refused_for_silos() -> None:
    for measures in (
        [{"of": "amount", "bounds": [0, 90]}, {"of": "x", "bounds": [0, 1]}],
        [{"of": "amount", "bounds": [0, 90], "figures": ["variance"]}],
    ):
        with pytest.raises(InvalidRequest, match="must be at most the mean and the sum of one number in a federation"):
            request([{"kind": "aggregates", "measures": measures}])
        request([{"kind": "aggregates", "measures": measures}], federation=None)
