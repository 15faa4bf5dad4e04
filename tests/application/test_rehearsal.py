"""What preflight lets through is never refused afterwards: not by the draw, nor by what is made of it, on any table."""

from __future__ import annotations

import json
import os
from decimal import ROUND_CEILING, Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from tests.support.rehearsal import KINDS, rehearse, requests, rows_of

EXAMPLES = int(os.environ.get("DP_REHEARSALS", "1"))
"""Requests of each kind; hundreds of them find what one does not."""
TRIED = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])


def accepted(fields: dict[str, Any]) -> ReleaseRequest:
    """The request, if it is one and is let through; another example, if not."""
    try:
        request = ReleaseRequest.parse(fields)
        preflight(request)
    except InvalidRequest:
        assume(False)
    return request


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(TRIED)
@given(data=st.data())
def test_what_is_let_through_is_released_whatever_the_rows(kind: str, data: st.DataObject) -> None:
    request = accepted(data.draw(requests(kind)))
    for count in (0, 1, 12) if EXAMPLES > 1 else (data.draw(st.sampled_from([0, 1, 12])),):
        release, _ = rehearse(request, rows_of(count, 3), SeededNoise(count))
        assert set(json.loads(release.to_bytes())["results"]) == {kind}


@settings(TRIED)
@given(fields=requests(most=3))
def test_several_diagnostics_in_any_order_are_released_together(fields: dict[str, Any]) -> None:
    request = accepted(fields)
    release, _ = rehearse(request, rows_of(12, 3), SecureNoise())
    assert set(release.results) == {options.kind for options in request.diagnostics}


LEAST = {
    "auc by Cauchy noise": ({"kind": "auc", "method": "cauchy"}, "1e-4"),
    "precision by polynomial noise": ({"kind": "average_precision", "method": "polynomial"}, "1e-4"),
    "auc by Laplace noise": ({"kind": "auc", "method": "laplace"}, "1e-6"),
    "recursive medians": ({"kind": "roc_curve", "method": "recursive_medians", "thresholds": 65536}, "1e-6"),
    "a private partition": ({"kind": "roc_curve", "method": "fixed_cells", "histogram": "dawa"}, "1e-6"),
    "bounds that are found": ({"kind": "ecdf", "column": "amount"}, "1e-6"),
    "a logistic fit": (
        {"kind": "logistic_fit", "categorical": {"region": ["north", *map(str, range(20))]}},
        "1e-6",
    ),
    "a linear fit": (
        {"kind": "linear_fit", "features": {"x": [0, 1]}, "outcome": "y", "outcome_bounds": [0, 1]},
        "1e-6",
    ),
}


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("case", LEAST)
def test_the_least_share_is_enough(case: str) -> None:
    options, epsilon = LEAST[case]
    base = {
        "account": "visits",
        "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        "label": "label",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
        "neighbours": "replace_one",
    }
    # a 20th counts the rows that do not count
    whole = (Decimal(epsilon) * 20 / 19).quantize(Decimal("1e-20"), rounding=ROUND_CEILING)
    budget = {"epsilon": str(whole), "delta": "1e-20"}
    request = ReleaseRequest.parse({**base, "diagnostics": [options], "budget": budget})
    preflight(request)
    release, _ = rehearse(request, rows_of(12, 3), SecureNoise())
    assert release.cost.epsilon <= request.budget.epsilon
    little = ReleaseRequest.parse({**request.to_dict(), "budget": {"epsilon": epsilon, "delta": "1e-20"}})
    with pytest.raises(InvalidRequest, match="budget.epsilon"):
        preflight(little)
