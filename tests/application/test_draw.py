from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pytest

from dp_operators.budget import Charge, ChargeState
from dp_operators.budget.mechanism_events import drawn_events
from dp_operators.releasing.draws import OpenedDraw
from spark_jobs.application.draw import NotThisDraw, ReleaseDraw
from spark_jobs.application.run import measure
from spark_jobs.application.unit_passes import UnitSquares
from spark_jobs.contract import Budget, ReleaseRequest
from spark_jobs.contract.options import ScoreCells
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.accounts import COLUMNS
from tests.support.lone_rows import lone_rows

BOUND = {
    "format": "parquet",
    "columns": COLUMNS,
    "version": {"by": "path_version"},
    "public_columns": ["tract", "region"],
}
"""What the account has said of the table, once it is charged."""


def request(**changes: object) -> ReleaseRequest:
    return ReleaseRequest.parse(
        {
            "account": "visits",
            "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}, **BOUND},
            "label": "visited",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": ["roc_curve"],
            "budget": {"epsilon": "1"},
            **changes,
        }
    )


def counts() -> dict[ScoreCells, ScoreCounts]:
    generator = np.random.default_rng(3)
    labels = generator.random(2000) < 0.4
    scores = np.clip(generator.normal(0.4 + 0.2 * labels, 0.15), 0, 1)
    return {ScoreCells(): ScoreCounts.from_arrays(labels, scores)}


def squares(max_rows: int) -> UnitSquares:
    return lone_rows(counts(), max_rows=max_rows)


def test_a_draw_survives_being_stored() -> None:
    drawn = measure(request(), counts(), charge_id="c", noise=SecureNoise())
    assert ReleaseDraw.from_json(drawn.to_json(), charge_id="c", request_sha256=request().sha256) == drawn
    assert drawn.guarantee == PRIVATE


@pytest.mark.parametrize(
    ("charge_id", "changes"), [("other", {}), ("c", {"budget": {"epsilon": "2"}})], ids=["charge", "request"]
)
def test_the_draw_of_another_charge_or_request_is_not_adopted(charge_id: str, changes: dict[str, object]) -> None:
    drawn = measure(request(), counts(), charge_id="c", noise=SeededNoise(1))
    with pytest.raises(NotThisDraw):
        ReleaseDraw.from_json(drawn.to_json(), charge_id=charge_id, request_sha256=request(**changes).sha256)


@pytest.mark.parametrize("max_rows", [1, 3, 7])
def test_what_is_spent_never_exceeds_the_budget_and_is_what_the_events_say(max_rows: int) -> None:
    unit = {"column": "person", "max_rows": max_rows} if max_rows > 1 else {}
    drawn = measure(request(unit=unit), counts(), charge_id="c", noise=SeededNoise(1), squares=squares(max_rows))
    per_row = sum(float(event["epsilon"]) for event in drawn.events)
    assert drawn.cost.epsilon <= 1
    assert float(drawn.cost.epsilon) == pytest.approx(1)
    assert per_row * max_rows == pytest.approx(float(drawn.cost.epsilon))


@pytest.mark.slow
def test_a_unit_of_many_rows_gets_that_much_more_noise() -> None:
    """Group privacy: three rows a unit cost what three units of one row cost, so the noise is three times as wide."""

    def spread(max_rows: int) -> float:
        unit = {"column": "person", "max_rows": max_rows} if max_rows > 1 else {}
        sizes = []
        for seed in range(60):
            asked = request(unit=unit, diagnostics=[{"kind": "roc_curve", "method": "fixed_cells"}])
            drawn = measure(asked, counts(), charge_id="c", noise=SeededNoise(seed), squares=squares(max_rows))
            sizes.append(sum(sum(level) for level in drawn.measurements["roc_curve"]["positives"]["value"]["nodes"]))
        return float(np.std(sizes))

    assert 2 < spread(3) / spread(1) < 4.5


def test_seeded_noise_marks_the_draw() -> None:
    drawn = measure(request(), counts(), charge_id=None, noise=SeededNoise(1))
    assert drawn.guarantee == NOT_PRIVATE
    assert drawn.cost == Budget(epsilon=1)
    assert "positives" in json.loads(drawn.to_json())["measurements"]["roc_curve"]


@pytest.mark.parametrize("max_rows", [1, 3])
def test_a_release_tells_what_each_mechanism_spent_as_the_ledger_is_told(max_rows: int) -> None:
    unit = {"column": "person", "max_rows": max_rows} if max_rows > 1 else {}
    budget = {"epsilon": "0.7", "delta": "0.001"}
    asked = request(unit=unit, budget=budget, diagnostics=["calibration", {"kind": "auc", "method": "laplace"}])
    drawn = measure(asked, counts(), charge_id="c", noise=SeededNoise(1), squares=squares(max_rows))
    told = drawn_events(json.loads(drawn.to_json()), max_rows=max_rows) or ()
    spendings = [spent for part in drawn.parts for spent in part.spendings]
    assert len(spendings) > len(drawn.parts)
    assert [(spent.epsilon, spent.delta) for spent in spendings] == [
        (Decimal(event["epsilon"]), Decimal(event.get("delta", "0"))) for event in told
    ]
    for part in drawn.parts:
        assert sum(spent.epsilon for spent in part.spendings) == part.cost.epsilon


def charge_of(asked: ReleaseRequest, **changes: object) -> Charge:
    fields = {
        "id": "c", "account": "visits", "release": "k", "generation": 1, "entry": 1, "state": ChargeState.RESERVED,
        "cost": asked.budget, "blocks": ("all",), "events": (), "neighbours": asked.neighbours, "unit": asked.unit,
        "request_sha256": asked.sha256, "manifest_sha256": None, "actor": "", "reserved_at": "", "renewed_at": "",
        "settled_at": None,
    }  # fmt: skip
    return Charge(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("max_rows", [1, 7])
@pytest.mark.parametrize("budget", [{"epsilon": "1"}, {"epsilon": "0.7", "delta": "1e-6"}, {"epsilon": "900"}])
def test_what_was_drawn_is_what_its_charge_pays_for(budget: dict[str, str], max_rows: int) -> None:
    """And of a charge of a little less it is not: of its noise, of its cost, or of both."""
    unit = {"column": "person", "max_rows": max_rows} if max_rows > 1 else {}
    asked = request(unit=unit, budget=budget, diagnostics=["roc_curve", "calibration"])
    drawn = measure(asked, counts(), charge_id="c", noise=SeededNoise(1), squares=squares(max_rows))
    opened = OpenedDraw(sha256="", fields={**json.loads(drawn.to_json()), "guarantee": PRIVATE})
    assert opened.mismatches(charge_of(asked)) == ()
    assert len(opened.fields["noise"]) == len(drawn.parts)
    less = charge_of(asked, cost=Budget(epsilon=asked.budget.epsilon / 100, delta=asked.budget.delta))
    assert opened.mismatches(less) == (
        "its draw's cost, which exceeds the reservation",
        "its draw's noise, which is too small for its cost",
    )
