"""Tables of aggregates of a rho: Gaussian noise is the smaller one there; what is stated, and what a forecast says."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.odds import LossLaw
from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.contract.privacy import Neighbours, epsilon_of_rho, half_square, rho_of_epsilon
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics import aggregates
from spark_jobs.forecast import expected_widths
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums
from tests.diagnostics.test_gaussian_aggregates import BY, SPEND, summed

SUMS = [{**SPEND, "of": f"spend{number}"} for number in range(6)]


def of_numbers(numbers):
    columns = {"g": np.repeat(np.arange(6), 40), **{one["of"]: np.full(240, 7.0) for one in SUMS}}
    return AggregateSums.from_arrays(columns, by=BY, measures=SUMS[: numbers - 1])


@pytest.mark.parametrize("rho", ["1e-9", "0.005", "0.02", "3", "0.1234567890123", "7e5"])
def test_an_epsilon_costs_at_most_the_rho_that_it_is_of(rho):
    epsilon = epsilon_of_rho(Decimal(rho))
    assert half_square(epsilon) <= rho_of_epsilon(epsilon) <= Decimal(rho)
    assert float(epsilon) == pytest.approx(np.sqrt(2 * float(rho)), rel=1e-12)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("numbers", [1, 2, 3, 7])
@pytest.mark.parametrize("marginals", [[], [[]]])
def test_auto_has_gaussian_noise_which_is_smaller_at_the_same_cost(neighbours, numbers, marginals):
    """Standard deviations of the laws that are stated, of the rows and of a sum, at a rho and at its epsilon."""
    sums, terms = of_numbers(numbers), {"neighbours": neighbours, "marginals": marginals}
    in_rho = aggregates.measure(sums, rho="0.005", noise=SeededNoise(1), **terms)
    in_epsilon = aggregates.measure(sums, epsilon="0.1", noise=SeededNoise(1), **terms)
    assert (in_rho.rho, in_rho.epsilon, in_rho.delta, in_epsilon.rho) == (Decimal("0.005"), 0, 0, None)
    for one, other in zip((in_rho, *in_rho.marginals), (in_epsilon, *in_epsilon.marginals), strict=True):
        near, far = (drawn.cells if hasattr(drawn, "cells") else drawn for drawn in (one, other))
        for weights in ((1.0, 0.0), (0.0, 1.0))[: 1 + (numbers > 1)]:
            assert near.law.stddev(*weights) < 0.9 * far.law.stddev(*weights)
    # another rule chooses the same
    again = aggregates.measure(sums, rho="0.005", noise=SeededNoise(1), method="gaussian", **terms)
    assert again.to_dict() == in_rho.to_dict()


def test_quantiles_rows_and_sums_of_a_table_have_equal_shares():
    measures = [{**SPEND, "figures": ["mean", "p10", "p50"]}]
    draw = aggregates.measure(
        summed(measures=measures), rho="0.03", marginals=[[]], weights=[2, 1], noise=SeededNoise(1)
    )
    *pure, gaussian = draw.spendings
    assert (gaussian.epsilon, gaussian.law, len(pure)) == (0, LossLaw.GAUSSIAN, 8)
    assert float(gaussian.rho) == pytest.approx(0.01, rel=1e-12)
    assert [float(one.rho) for one in pure] == pytest.approx([0.02 / 6] * 4 + [0.01 / 6] * 4, rel=1e-12)
    assert all(half_square(one.epsilon) <= one.rho and one.law is LossLaw.CONCENTRATED for one in pure)
    assert sum(one.rho for one in draw.spendings) == Decimal("0.03")
    decoded = aggregates.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(draw.to_dict())))
    result = aggregates.summarise(decoded, seed=1).to_dict()
    assert (result["rho"], "epsilon" in result) == ("0.03", False)
    assert [one["name"] for one in result["measures"]] == ["mean", "p10", "p50"]


def test_a_result_of_an_epsilon_states_no_rho():
    result = aggregates.release(summed(), epsilon=1, noise=SeededNoise(1)).to_dict()
    assert (result["epsilon"], "rho" in result) == ("1", False)


def test_one_budget_is_given():
    for given, line in (
        ({"rho": "0.1", "epsilon": 1}, "rho: got '0.1'; cannot be combined with epsilon or delta"),
        ({"rho": "0.1", "delta": "1e-6"}, "rho: got '0.1'; cannot be combined with epsilon or delta"),
        ({"rho": "0"}, "rho: got '0'; must be above 0"),
        ({}, "epsilon: got '0'; must be above 0"),
    ):
        with pytest.raises(InvalidRequest, match=line):
            aggregates.measure(summed(), noise=SeededNoise(1), **given)


def test_a_forecast_has_the_noise_of_the_rho():
    """Of a count with a mean: less by the root of two, but for the twentieth of the rows that do not count."""

    def width(budget):
        fields = {"table": {"path": "/lake/t", "snapshot": {"path_version": "v1"}}, "budget": budget}
        entry = {"kind": "aggregates", "by": BY, "measures": [SPEND]}
        request = ReleaseRequest.parse({**fields, "diagnostics": [entry]})
        return expected_widths(request, ExpectedTable(rows=60_000))[0].widths["count_lower to count_upper"]

    # quantiles at 90%: 1.645 of a normal law, and 1.614 of a sum of two Laplace ones
    assert width({"epsilon": "1"}) / width({"rho": "0.5"}) == pytest.approx(np.sqrt(2 * 0.95) * 1.614 / 1.645, rel=0.02)


def test_only_public_groups_can_have_it():
    for options, accepts in (
        ({}, True),
        ({"method": "gaussian"}, True),
        ({"method": "k_norm"}, False),
        ({"max_rows": 3}, True),
        ({"max_rows": "auto"}, False),
    ):
        assert AggregatesOptions.parse({"kind": "aggregates", "by": BY, **options}).accepts_rho is accepts
