"""A sound draw of a rho is one that its charge pays for, to the last digit, whichever rows of a unit are used."""

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
from spark_jobs.contract.privacy import Budget, exact_sum, half_square
from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums

BY = [{"column": "group", "values": ["a", "b"], "other": False}]
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


@pytest.mark.parametrize("figures", [["mean"], ["p50"], ["p10", "p50", "p90"]])
@pytest.mark.parametrize(("rows", "options"), ROWS_OF_UNITS)
def test_a_sound_draw_is_accepted(rows: int, options: dict[str, Any], figures: list[str]) -> None:
    spend = {"of": "spend", "bounds": [0, 10], "step": 1, "figures": figures}
    for rho in ("0.003", "0.02", "0.1", "0.25", "0.5", "0.8", "1", "2", "3.3", "8"):
        request = ReleaseRequest.parse(
            {
                "table": {"path": "/lake/rows", "snapshot": {"path_version": "v1"}},
                "neighbours": "add_remove", "unit": {"column": "person", "max_rows": rows},
                "diagnostics": [{"kind": "aggregates", "by": BY, "measures": [spend], **options}],
                "budget": {"rho": rho},
            }
        )  # fmt: skip
        (statistic,) = request.statistics
        counted = {"group": np.array(["a"] * 5), "spend": np.arange(5.0)}
        exact = AggregateSums.from_arrays(counted, by=statistic.by, measures=statistic.measures)
        counts = {statistic: exact, LEFT_OUT: np.zeros(4, dtype=np.int64)}
        draw = measure(request, counts, charge_id="charge", noise=SeededNoise(1))
        fields = {
            "cost": draw.cost.model_dump(mode="json"), "events": draw.events, "noise": draw.noise,
            "charge_id": "charge", "request_sha256": request.sha256, "guarantee": PRIVATE,
        }  # fmt: skip
        charge = SimpleNamespace(
            unit=request.unit, cost=request.budget.charged, id="charge", request_sha256=request.sha256
        )
        opened = OpenedDraw(sha256="", fields=json.loads(json.dumps(fields)))
        assert opened.mismatches(charge) == (), rho
        assert draw.cost.rho is not None
        assert Decimal("0.999") * Decimal(rho) < draw.cost.rho <= Decimal(rho)


def test_costs_of_many_digits_add_up_in_rho() -> None:
    whole = _added([Budget(epsilon=0, rho="0.01"), Budget(epsilon="0.12345678901234567")])
    assert whole.rho == exact_sum(Decimal("0.01"), half_square(Decimal("0.12345678901234567")))
