"""Tables of aggregates with Gaussian noise: when it is chosen, what it costs, and intervals that hold."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest

from dp_operators.budget.mechanism_events import drawn_events
from spark_jobs.application.draft import draft
from spark_jobs.application.run import measure as measure_request
from spark_jobs.contract.budget_split import part_of_left_out, split_budget
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.left_out import LEFT_OUT
from spark_jobs.contract.odds import LossLaw
from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.contract.privacy import Budget, GroupBound, Neighbours, exact_sum
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics import aggregates
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.forecast import expected_widths
from spark_jobs.mechanisms.cell_gaussian import gaussian_is_nearer, rho_of_row
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.zcdp import rho_within
from spark_jobs.statistics import AggregateSums

SPEND = {"of": "spend", "bounds": [0, 200], "step": 0.01}
BY = [{"column": "g", "values": list(range(6)), "other": False}]


def summed(size=40, measures=(SPEND,), groups=6):
    group = np.repeat(np.arange(groups), size)
    spend = np.random.default_rng(1).uniform(0, 200, group.size)
    by = [{"column": "g", "values": list(range(groups)), "other": False}]
    return AggregateSums.from_arrays({"g": group, "spend": spend}, by=by, measures=measures)


def gaussian(draw):
    return draw.cells.rho is not None


@pytest.mark.parametrize(
    ("epsilon", "delta", "numbers"),
    [
        ("0.1", "1e-6", 44),
        ("0.5", "1e-6", 54),
        ("1", "1e-6", 59),
        ("2", "1e-6", 66),
        ("5", "1e-6", 78),
        ("1", "1e-9", 98),
    ],
)
def test_it_is_nearer_from_so_many_numbers_on(epsilon, delta, numbers):
    """Of ``A.1``'s numbers, which were found by another program."""
    epsilons, rhos = [Decimal(epsilon)], [rho_of_row(Decimal(epsilon), delta)]
    assert gaussian_is_nearer(numbers, epsilons, rhos)
    assert not gaussian_is_nearer(numbers - 1, epsilons, rhos)


@pytest.mark.parametrize(
    ("epsilon", "delta", "groups"), [("0.1", "1e-6", 7.8), ("1", "1e-6", 10.3), ("5", "1e-9", 20.1)]
)
def test_it_is_nearer_where_a_unit_is_in_many_groups(epsilon, delta, groups):
    """Distinct rows of k groups, from ``k = epsilon^2 / 4 rho`` on."""
    nearer = {
        k: gaussian_is_nearer(
            1, [Decimal(epsilon) / k], [rho_of_row(Decimal(epsilon) / k, delta, GroupBound(groups=k, rows=1))]
        )
        for k in range(1, 40)
    }
    assert next(k for k, of in nearer.items() if of) == int(groups) + 1
    assert all(one <= other for one, other in pairwise(nearer.values()))


def test_without_a_delta_nothing_changes():
    sums = summed()
    asked = [{}, {"delta": "1e-6", "method": "k_norm"}, {"delta": "1e-6"}]
    plain, *others = (aggregates.measure(sums, epsilon=1, noise=SeededNoise(1), **one).to_dict() for one in asked)
    assert all(one == plain for one in others)
    options = AggregatesOptions.parse({"kind": "aggregates", "by": BY, "method": "auto"})
    assert "method" not in options.model_dump(mode="json")
    for method in ("k_norm", "gaussian"):
        parsed = AggregatesOptions.parse({"kind": "aggregates", "by": BY, "method": method})
        assert AggregatesOptions.parse(parsed.model_dump(mode="json")) == parsed


def test_several_tables_have_shares_of_rho():
    """Sixteen tables of one number: shares of epsilon cost 16 times the noise, and shares of rho 4 times."""
    by = [{"column": name, "values": [0, 1], "other": False} for name in "abcd"]
    columns = {name: np.tile([0, 1], 50) for name in "abcd"}
    sums = AggregateSums.from_arrays(columns, by=by, measures=())
    every = [[name for place, name in enumerate("abcd") if number >> place & 1] for number in range(15)]
    draw = aggregates.measure(sums, epsilon=1, delta="1e-6", marginals=every, noise=SeededNoise(1))
    assert gaussian(draw)
    assert exact_sum(*(one.rho for one in (draw.cells, *(part.cells for part in draw.marginals)))) <= rho_within(
        1, "1e-6"
    )
    (spent,) = draw.spendings
    assert (spent.epsilon, spent.delta, spent.law) == (1, Decimal("1e-6"), LossLaw.GAUSSIAN)
    assert spent.rho == rho_within(1, "1e-6")
    few = aggregates.measure(sums, epsilon=1, delta="1e-6", marginals=every[:3], noise=SeededNoise(1))
    assert not gaussian(few)
    assert few.delta == 0


def test_weights_are_of_rho_and_the_total_is_as_near_as_its_share_says():
    sums, weights, rho = summed(measures=()), (1.0, 3.0), float(rho_within(2, "1e-5"))
    terms = {"epsilon": 2, "delta": "1e-5", "method": "gaussian", "marginals": [[]], "weights": weights}
    released = [aggregates.release(sums, noise=SeededNoise(seed), **terms) for seed in range(400)]
    apart = [6 / (2 * rho / 4), 1 / (2 * rho * 3 / 4)]
    expected = np.sqrt(1 / sum(1 / one for one in apart))
    totals = [one.marginals[0].rows for one in released]
    assert np.std(totals) == pytest.approx(expected, rel=0.15)
    lower, upper = released[0].marginals[0].count.ends()
    assert upper[0] - lower[0] == pytest.approx(2 * 1.645 * expected, rel=1e-3)
    assert all(one.count.value.sum() == pytest.approx(one.marginals[0].rows, rel=1e-9) for one in released[:9])


def test_quantiles_are_paid_in_epsilon_and_the_rest_by_rho():
    measures = [{**SPEND, "figures": ["mean", "p50"]}]
    draw = aggregates.measure(
        summed(measures=measures), epsilon=1, delta="1e-6", method="gaussian", noise=SeededNoise(1)
    )
    assert draw.epsilon == 1
    assert [one.delta for one in draw.spendings] == [0, 0, Decimal("1e-6")]
    assert draw.spendings[-1].rho == rho_within(draw.spendings[-1].epsilon, "1e-6")


SIZES, COPIES = (0, 1, 3, 30, 1000), 250


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("marginals", [[], [[]]], ids=["cells", "with a total"])
def test_intervals_hold_for_groups_of_every_size(neighbours, marginals):
    """At 90%, over 250 groups of each size: at least 0.83 and at most 0.97, three and a half standard errors."""
    random = np.random.default_rng(3)
    keys = np.arange(COPIES * len(SIZES))
    group = np.repeat(keys, np.tile(SIZES, COPIES))
    values = {name: 100 * random.beta(2, 5, group.size) for name in ("v", "w")}
    measures = [{"of": "v", "bounds": [0, 100], "figures": ["mean", "sum", "sd"]}, {"of": "w", "bounds": [0, 100]}]
    by = [{"column": "g", "values": keys.tolist(), "other": False}]
    sums = AggregateSums.from_arrays({"g": group, **values}, by=by, measures=measures)
    released = aggregates.release(
        sums, epsilon=4, delta="1e-5", method="gaussian", marginals=marginals, neighbours=neighbours,
        noise=SeededNoise(5),
    )  # fmt: skip
    size, total = (np.bincount(group, of, minlength=keys.size) for of in (None, values["v"]))
    mean = total / np.maximum(size, 1)
    squares = np.bincount(group, values["v"] ** 2, minlength=keys.size) / np.maximum(size, 1)
    exact = {"mean": mean, "sum": total, "sd": np.sqrt(np.maximum(squares - mean**2, 0))}
    figures = [(released.of(name, "v").values, exact[name]) for name in exact]
    for figure, true in (*figures, (released.count, size)):
        some = slice(0 if true is size or true is total else 1, None)
        held = ((figure.lower <= true) & (true <= figure.upper)).reshape(COPIES, -1).mean(axis=0)[some]
        assert (held >= 0.83).all(), held
        assert true is exact["sd"] or (held <= 0.97).all(), held


def request(epsilon="1", unit=None, **options):
    return ReleaseRequest.parse(
        {
            "unit": unit or {},
            "table": {"path": "/lake/payments", "snapshot": {"path_version": "v1"}},
            "diagnostics": [{"kind": "aggregates", "by": BY, **options}],
            "budget": {"epsilon": epsilon, "delta": "1e-6"},
        }
    )


def released(asked, sums, **counts):
    (statistic,) = asked.statistics
    drawn = measure_request(asked, {statistic: sums, **counts}, charge_id="c", noise=SecureNoise())
    manifest, files = draft(asked, drawn, key="k", rules=())
    return drawn, json.loads(manifest.to_bytes()), files["report.html"].decode()


def test_a_release_says_what_its_gaussian_noise_costs():
    asked = request(measures=[SPEND], method="gaussian")
    drawn, manifest, page = released(asked, summed())
    assert drawn.cost == Budget(epsilon=1, delta="1e-6")
    (spent,) = drawn.parts[0].spendings
    assert spent.law is LossLaw.GAUSSIAN
    assert float(spent.rho) == pytest.approx(float(rho_within(1, "1e-6")), rel=1e-12)
    # by the odds of Gaussian noise, and not by those of any mechanism with this epsilon and delta
    assert "at most a factor e^1.086 = 2.97" in manifest["statement"]
    assert "by Gaussian noise" in page


def test_a_unit_in_many_groups_has_gaussian_noise_for_all_of_them_together():
    """Twelve groups of two rows: of the whole unit's epsilon and delta, where one row has a 24th of epsilon."""
    unit = {"column": "person", "max_rows": 30}
    asked = request(unit=unit, measures=[SPEND], max_groups=12, max_rows_per_group=2)
    [part] = split_budget(asked)
    left_out = part_of_left_out(asked)
    assert part.granted.epsilon + left_out.granted.epsilon == 1
    assert left_out.granted.epsilon == Decimal("0.05")
    drawn, _, _ = released(asked, summed(), **{LEFT_OUT: np.zeros(4, dtype=np.int64)})
    of_rows, of_causes = drawn.parts
    (spent,) = of_rows.spendings
    assert float(of_causes.cost.epsilon) == pytest.approx(0.05, rel=1e-9)
    assert (of_rows.cost.delta, spent.delta) == (Decimal("1e-6"), Decimal("1e-6"))
    assert float(spent.rho) == pytest.approx(float(rho_within(Decimal("0.95"), "1e-6")), rel=1e-6)
    assert float(drawn.cost.epsilon) == pytest.approx(1, rel=1e-9)
    assert drawn.cost.epsilon <= 1
    kept = aggregates.DIAGNOSTIC.measurement.decode(drawn.measurements["aggregates"])
    assert kept.cells.law.stddev(1.0, 0.0) == pytest.approx(2 * np.sqrt(12 / float(spent.rho)), rel=1e-6)
    events = drawn_events({"events": list(drawn.events), "left_out": drawn.left_out}, max_rows=30)
    assert sum(Decimal(one["epsilon"]) for one in events) <= 1
    assert sum(Decimal(one.get("delta", 0)) for one in events) <= Decimal("1e-6")
    # fewer groups: noise that is drawn together is smaller, and delta is not spent
    fewer = request(unit=unit, measures=[SPEND], max_groups=3, max_rows_per_group=2)
    drawn, _, _ = released(fewer, summed(), **{LEFT_OUT: np.zeros(4, dtype=np.int64)})
    assert drawn.cost.delta == 0
    # and the rows that do not count cost nothing, as without a delta
    assert [part.granted.epsilon for part in split_budget(fewer)] == [1]
    assert [part.kinds for part in drawn.parts] == [("aggregates",)]
    assert float(drawn.cost.epsilon) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
@pytest.mark.parametrize("neighbours", [one.value for one in Neighbours])
def test_what_is_charged_and_what_is_drawn_follow_one_rule(epsilon, neighbours):
    """The budget is split by the rule that the mechanism finds again, from one group to forty."""
    unit, kinds = {"column": "person", "max_rows": 40}, set()
    for groups in (1, 4, 8, 11, 14, 20, 40):
        asked = request(epsilon, unit=unit, max_groups=groups, max_rows_per_group=1).changed(neighbours=neighbours)
        (part,) = split_budget(asked)
        of_delta = part.granted.delta > 0
        terms = {"epsilon": part.epsilon_per_row, "delta": part.delta_per_row, "neighbours": neighbours}
        drawn = aggregates.DIAGNOSTIC.measurement.measure(
            summed(measures=()), asked.diagnostics[0], Terms(noise=SeededNoise(1), **terms)
        )
        assert gaussian(drawn) is of_delta
        paid = part.granted.epsilon < Decimal(epsilon)
        assert paid is (of_delta or neighbours == Neighbours.REPLACE_ONE.value)
        kinds.add(of_delta)
    assert kinds == {False, True}


@pytest.mark.parametrize("max_rows", [30, 3])
def test_gaussian_noise_is_for_the_rows_that_the_request_uses_and_no_more(max_rows):
    """Of an account of 30 rows: a unit's three rows have its whole delta, and noise for three."""
    asked = request(unit={"column": "person", "max_rows": 30}, measures=[SPEND], max_rows=max_rows, method="gaussian")
    drawn, _, _ = released(asked, summed(), **{LEFT_OUT: np.zeros(4, dtype=np.int64)})
    of_rows, of_causes = drawn.parts
    (spent,) = of_rows.spendings
    assert (of_rows.cost.delta, spent.delta) == (Decimal("1e-6"), Decimal("1e-6"))
    assert float(of_causes.cost.epsilon) == pytest.approx(0.05, rel=1e-9)
    assert float(spent.rho) == pytest.approx(float(rho_within(Decimal("0.95"), "1e-6")), rel=1e-6)
    kept = aggregates.DIAGNOSTIC.measurement.decode(drawn.measurements["aggregates"])
    assert kept.cells.law.stddev(1.0, 0.0) == pytest.approx(max_rows * np.sqrt(1 / float(spent.rho)), rel=1e-6)
    assert drawn.cost.epsilon <= 1
    events = drawn_events({"events": list(drawn.events), "left_out": drawn.left_out}, max_rows=30)
    assert sum(Decimal(one["epsilon"]) for one in events) <= 1
    assert sum(Decimal(one.get("delta", 0)) for one in events) <= Decimal("1e-6")


def test_a_delta_that_buys_nothing_beside_max_rows_is_not_spent():
    asked = request(unit={"column": "person", "max_rows": 30}, measures=[SPEND], max_rows=3)
    drawn, _, _ = released(asked, summed(), **{LEFT_OUT: np.zeros(4, dtype=np.int64)})
    assert (drawn.cost.delta, [part.granted.epsilon for part in split_budget(asked)]) == (0, [1])


def deciles(groups, cells):
    """A request in which quantiles leave a part of epsilon to Gaussian noise, and its statistic."""
    spend = {**SPEND, "figures": ["mean", "p10", "p25", "p50", "p75", "p90"]}
    by = [{"column": "g", "values": list(range(cells)), "other": False}]
    unit = {"column": "person", "max_rows": groups}
    asked = {"measures": [spend], "max_groups": groups, "max_rows_per_group": 1, "by": by, "method": "gaussian"}
    return lambda epsilon: request(epsilon, unit=unit, **asked), summed(measures=(spend,), groups=cells)


@pytest.mark.parametrize(("epsilon", "groups"), [("30", 50), ("20", 20), ("10", 10), ("1", 10)])
def test_the_events_of_a_unit_state_all_of_the_delta_that_was_spent(epsilon, groups):
    """What the ledger adds up is true of the mechanism, also where quantiles have a part of epsilon."""
    asked, sums = deciles(groups, 60)
    drawn, _, _ = released(asked(epsilon), sums, **{LEFT_OUT: np.zeros(4, dtype=np.int64)})
    events = drawn_events({"events": list(drawn.events), "left_out": drawn.left_out}, max_rows=groups)
    [of_rows] = [event for event in events if Decimal(event.get("delta", 0))]
    assert float(of_rows["delta"]) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize("epsilon", ["1", "3.7", "7", "10", "12.34567"])
def test_no_share_has_more_digits_than_a_cost_may_have(epsilon):
    for groups in range(2, 9) if epsilon == "3.7" else (3, 7):  # thirds and sevenths do not end
        asked, sums = deciles(groups, 60)
        drawn, _, _ = released(asked(epsilon), sums, **{LEFT_OUT: np.zeros(4, dtype=np.int64)})
        assert drawn.cost.epsilon <= Decimal(epsilon)
        assert float(drawn.cost.epsilon) == pytest.approx(float(epsilon), rel=1e-6)
    for weights in (None, [3, 0.7]):
        several = {"marginals": [[]], "measures": [{**SPEND, "figures": ["mean", "p50", "p90"]}]}
        of_rows = request(epsilon, method="gaussian", weights=weights, **several)
        drawn, _, _ = released(of_rows, summed(measures=several["measures"]))
        assert drawn.cost.epsilon <= Decimal(epsilon)


def test_a_forecast_has_the_noise_that_is_released():
    near, far = (
        expected_widths(request(measures=[SPEND], method=method), ExpectedTable(rows=60_000))[0].widths["mean of spend"]
        for method in ("k_norm", "gaussian")
    )
    assert far / near == pytest.approx(np.sqrt(1 / float(rho_within(1, "1e-6"))) / 2, rel=0.1)


def test_a_request_that_cannot_have_it_is_refused():
    for asked, what in (
        ({"budget": {"epsilon": "1"}}, "budget.delta"),
        ({"diagnostics": [{"kind": "aggregates", "by": BY, "method": "laplace"}]}, "method"),
    ):
        fields = json.loads(request(method="gaussian").model_dump_json())
        with pytest.raises(InvalidRequest, match=what):
            ReleaseRequest.parse({**fields, **asked})
    with pytest.raises(InvalidRequest, match="delta"):
        aggregates.measure(summed(), epsilon=1, method="gaussian", noise=SeededNoise(1))
