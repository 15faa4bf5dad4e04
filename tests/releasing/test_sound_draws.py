"""A sound draw is one that its charge pays for, to the last digit, however the budget is divided."""

from __future__ import annotations

import json
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dp_operators.many_requests import _added
from dp_operators.releasing.draws import OpenedDraw
from spark_jobs.application.run import measure
from spark_jobs.contract.left_out import LEFT_OUT
from spark_jobs.contract.preflight import require_budget
from spark_jobs.contract.privacy import Budget, exact_sum, half_square
from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums

ROWS_OF_UNITS = [
    (1, {}),
    (7, {}),
    (3, {"max_rows": 1}),
    (3, {"max_rows": 2}),
    (6, {"max_rows": 5}),
    (3, {"max_groups": 2, "max_rows_per_group": 1}),
    (7, {"max_groups": 3, "max_rows_per_group": 2}),
    (7, {"max_groups": 3, "max_rows_per_group": 2, "marginals": [[]]}),
]


REGIONS = [{"column": "group", "values": ["a", "b"], "other": False}]


def spend(*figures: str) -> dict[str, Any]:
    return {"of": "spend", "bounds": [0, 10], "step": 1, "figures": list(figures)}


def asked(rows: int, budget: dict[str, str], options: dict[str, Any]) -> ReleaseRequest:
    unit = {"column": None if rows == 1 else "person", "max_rows": rows}
    return ReleaseRequest.parse(
        {
            "table": {"path": "/lake/rows", "snapshot": {"path_version": "v1"}},
            "neighbours": "add_remove", "unit": unit, "budget": budget,
            "diagnostics": [{"kind": "aggregates", "by": REGIONS, **options}],
        }
    )  # fmt: skip


def cost_of_sound_draw(request: ReleaseRequest) -> Budget:
    """What a draw of a request costs, once its charge was seen to pay for it."""
    require_budget(request)
    (statistic,) = request.statistics
    counted = {"group": np.array(["a"] * 5), "spend": np.arange(5.0)}
    exact = AggregateSums.from_arrays(counted, by=statistic.by, measures=statistic.measures)
    counts = {statistic: exact, LEFT_OUT: np.zeros(4, dtype=np.int64)}
    draw = measure(request, counts, charge_id="charge", noise=SeededNoise(1))
    fields = {
        "cost": draw.cost.model_dump(mode="json"), "events": draw.events, "noise": draw.noise,
        "charge_id": "charge", "request_sha256": request.sha256, "guarantee": PRIVATE,
    }  # fmt: skip
    charge: Any = SimpleNamespace(
        unit=request.unit, cost=request.budget.charged, id="charge", request_sha256=request.sha256
    )
    assert OpenedDraw(sha256="", fields=json.loads(json.dumps(fields))).mismatches(charge) == (), request
    return draw.cost


@pytest.mark.parametrize("figures", [["mean"], ["p50"], ["p10", "p50", "p90"]])
@pytest.mark.parametrize(("rows", "options"), ROWS_OF_UNITS)
def test_a_sound_draw_of_a_rho_is_accepted(rows: int, options: dict[str, Any], figures: list[str]) -> None:
    for rho in ("0.003", "0.02", "0.1", "0.25", "0.5", "0.8", "1", "2", "3.3", "8"):
        cost = cost_of_sound_draw(asked(rows, {"rho": rho}, {"measures": [spend(*figures)], **options}))
        assert cost.rho is not None
        assert Decimal("0.94") * Decimal(rho) < cost.rho <= Decimal(rho)


@pytest.mark.parametrize("delta", [None, "1e-6"])
@pytest.mark.parametrize("weights", [[1, 100], [3, 1], [0.7, 0.3], [2, 1], None])
def test_a_sound_draw_of_tables_with_weights_is_accepted(weights: list[float] | None, delta: str | None) -> None:
    for epsilon in ("0.5", "1", "2", "3.7", "7", "10", "12.34567"):
        for measures in ([], [spend("mean")], [spend("mean", "p50")]):
            budget = {"epsilon": epsilon, **({} if delta is None else {"delta": delta})}
            options = {"measures": measures, "marginals": [[]], "weights": weights}
            assert cost_of_sound_draw(asked(1, budget, options)).epsilon <= Decimal(epsilon)


@pytest.mark.parametrize("method", ["auto", "gaussian"])
@pytest.mark.parametrize(
    "figures", [["mean", "p50", "p99"], ["p50", "p99"], ["sum", "p10", "p25", "p50", "p75", "p90"]]
)
def test_a_sound_draw_of_gaussian_noise_beside_quantiles_is_accepted(figures: list[str], method: str) -> None:
    bounds = [(1, {}), (12, {"max_groups": 12, "max_rows_per_group": 1}), (30, {"max_rows": 7})]
    for rows, bound in bounds:
        for epsilon in ("0.9", "1.5", "2", "5", "20"):
            options = {"measures": [spend(*figures)], "method": method, **bound}
            request = asked(rows, {"epsilon": epsilon, "delta": "1e-6"}, options)
            assert cost_of_sound_draw(request).epsilon <= Decimal(epsilon)


@pytest.mark.parametrize(
    ("rows", "used", "epsilon"),
    [(1000, {"max_rows": 600}, "0.5"), (100, {"max_rows": 60}, "0.05"), (500, {"max_rows": 420}, "0.3")],
)
def test_a_sound_draw_of_a_small_epsilon_of_each_row_is_accepted(rows: int, used: dict[str, Any], epsilon: str) -> None:
    cost = cost_of_sound_draw(asked(rows, {"epsilon": epsilon}, used))
    assert Decimal("0.999") * Decimal(epsilon) < cost.epsilon <= Decimal(epsilon)


@pytest.mark.parametrize("options", [{"max_groups": 2, "max_rows_per_group": 1}, {"max_rows": 9}])
def test_a_delta_of_a_bounded_unit_is_for_the_rows_that_are_used(options: dict[str, Any]) -> None:
    for rows in (20, 200, 1000):
        request = asked(rows, {"epsilon": "1", "delta": "1e-6"}, {"method": "gaussian", **options})
        assert cost_of_sound_draw(request).delta == Decimal("1e-6")


def test_costs_of_many_digits_add_up_in_rho() -> None:
    whole = _added([Budget(epsilon=0, rho="0.01"), Budget(epsilon="0.12345678901234567")])
    assert whole.rho == exact_sum(Decimal("0.01"), half_square(Decimal("0.12345678901234567")))
