from __future__ import annotations

from decimal import Decimal
from math import expm1
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract import InvalidRequest, ReleaseRequest
from spark_jobs.contract.budget_split import part_of_left_out, split_budget
from spark_jobs.contract.odds import Spent
from spark_jobs.contract.options import Options
from spark_jobs.contract.privacy import exact_sum
from tests.application.test_draw import request


class Plain(Options):
    kind: Literal["plain"]


class Approximate(Options):
    kind: Literal["approximate"]

    @property
    def approximate(self) -> bool:
        return True


class Sharing(Options):
    kind: Literal["one_sharing", "another_sharing"]
    share: bool = True

    @property
    def can_share(self) -> bool:
        return self.share


def asked(*diagnostics: Options, **changes: Any) -> ReleaseRequest:
    return request(diagnostics=list(diagnostics), **changes)


WEIGHTS = st.one_of(st.none(), st.decimals("0.000001", "1000", allow_nan=False, places=6).filter(bool))
EPSILONS = st.decimals("0.000001", "1000000", places=6)


@given(weights=st.tuples(WEIGHTS, WEIGHTS, WEIGHTS), epsilon=EPSILONS, rows=st.integers(1, 9), share=st.booleans())
def test_parts_never_exceed_the_budget_and_hardly_miss_it(
    weights: tuple[Any, ...], epsilon: Decimal, rows: int, share: bool
) -> None:
    made = split_budget(
        asked(
            Plain(kind="plain", weight=weights[0]),
            Sharing(kind="one_sharing", weight=weights[1], share=share),
            Sharing(kind="another_sharing", weight=weights[2]),
            budget={"epsilon": epsilon},
            unit={"column": "person", "max_rows": rows},
        )
    )
    granted = exact_sum(*(part.granted.epsilon for part in made))
    assert granted <= epsilon
    assert float(granted) == pytest.approx(float(epsilon), rel=1e-12)
    for part in made:
        assert part.cost(part.epsilon_per_row, Decimal(0)).epsilon <= part.granted.epsilon
    assert [part.kinds for part in made] == (
        [("plain",), ("one_sharing", "another_sharing")]
        if share and epsilon <= 20 * rows
        else [("plain",), ("one_sharing",), ("another_sharing",)]
    )


def test_those_that_share_pool_their_parts() -> None:
    made = split_budget(
        asked(*(Sharing(kind=f"{name}_sharing") for name in ("one", "another")), Plain(kind="plain", weight=2))
    )
    assert [part.granted.epsilon for part in made] == [Decimal("0.5"), Decimal("0.5")]
    assert [part.shared for part in made] == [True, False]


class Using(Options):
    kind: Literal["using"] = "using"

    @property
    def uses_shared(self) -> bool:
        return True


def test_one_that_uses_what_others_share_pays_for_the_rest_after_them() -> None:
    made = split_budget(asked(Plain(kind="plain"), Using(), Sharing(kind="one_sharing", weight=2)))
    assert [part.kinds for part in made] == [("plain",), ("one_sharing", "using"), ("using",)]
    assert [part.shared for part in made] == [False, True, False]
    assert [part.granted.epsilon for part in made] == [Decimal("0.25"), Decimal("0.5"), Decimal("0.25")]


class Halving(Using):
    kind: Literal["halving"] = "halving"

    @property
    def halves_shared(self) -> bool:
        return self.weight is None


class Grouping(Options):
    kind: Literal["grouping"] = "grouping"

    @property
    def halves_shared(self) -> bool:
        return self.weight is None


def test_another_measurement_of_the_same_rows_has_half_of_what_is_shared() -> None:
    sharing = [Sharing(kind="one_sharing", weight=5), Sharing(kind="another_sharing")]
    for others, parts in (
        ([Halving()], {"one_sharing": "0.4375", "halving": "0.4375"}),
        ([Grouping()], {"one_sharing": "0.4375", "grouping": "0.4375"}),
        ([Halving(weight=1)], {"one_sharing": "0.75", "halving": "0.125"}),
    ):
        made = split_budget(asked(*sharing, *others, Plain(kind="plain")))
        assert {part.kinds[0]: part.granted.epsilon for part in made} == {
            **{kind: Decimal(epsilon) for kind, epsilon in parts.items()},
            "plain": Decimal("0.125"),
        }
    made = split_budget(asked(Grouping(), *sharing, Halving(), Plain(kind="plain", weight=2)))
    assert {part.kinds[0]: part.granted.epsilon for part in made} == {
        "one_sharing": Decimal("0.2"), "grouping": Decimal("0.2"), "halving": Decimal("0.4"), "plain": Decimal("0.2"),
    }  # fmt: skip


def test_only_what_is_shared_is_halved() -> None:
    made = split_budget(asked(Grouping(), Sharing(kind="one_sharing", weight=3)))
    assert [part.granted.epsilon for part in made] == [Decimal("0.25"), Decimal("0.75")]


def test_nothing_is_used_of_others_that_share_nothing() -> None:
    alone = split_budget(asked(Using(), Sharing(kind="one_sharing", share=False)))
    ample = split_budget(asked(Using(), Sharing(kind="one_sharing"), budget={"epsilon": "21"}))
    for made in (alone, ample):
        assert [part.kinds for part in made] == [("using",), ("one_sharing",)]
        assert not any(part.shared for part in made)


def test_a_single_diagnostic_gets_all_of_the_budget() -> None:
    (part,) = split_budget(asked(Plain(kind="plain", weight=7), budget={"epsilon": "0.3", "delta": "1e-6"}))
    assert part.granted.epsilon == Decimal("0.3")
    assert part.granted.delta == 0


@given(epsilon=st.decimals("0.001", "5", places=3), rows=st.integers(1, 30))
def test_delta_goes_to_those_that_spend_it_and_holds_for_a_whole_unit(epsilon: Decimal, rows: int) -> None:
    plain, approximate = split_budget(
        asked(
            Plain(kind="plain"), Approximate(kind="approximate"),
            budget={"epsilon": epsilon, "delta": "1e-6"}, unit={"column": "person", "max_rows": rows},
        )
    )  # fmt: skip
    assert plain.granted.delta == 0
    assert approximate.granted.delta == Decimal("1e-6")
    each = float(approximate.epsilon_per_row)
    unit = float(approximate.delta_per_row) * expm1(rows * each) / expm1(each)
    assert unit == pytest.approx(1e-6, rel=1e-6)
    cost = approximate.cost(approximate.epsilon_per_row, approximate.delta_per_row)
    assert cost.delta == Decimal("1e-6")
    assert cost.epsilon <= approximate.granted.epsilon


@pytest.mark.parametrize(("epsilon", "rows"), [("700", 2), ("400", 40), ("1e7", 2), ("1e12", 10**6)])
def test_no_epsilon_is_too_large_for_the_delta_of_a_unit(epsilon: str, rows: int) -> None:
    unit = {"column": "person", "max_rows": rows}
    (part,) = split_budget(
        asked(Approximate(kind="approximate"), budget={"epsilon": epsilon, "delta": "1e-6"}, unit=unit)
    )
    assert part.delta_per_row == 0
    told = part.spending("noise", Spent(epsilon=part.epsilon_per_row, delta=Decimal("1e-30")))
    assert told.delta == Decimal("0." + 30 * "9")


def test_a_diagnostic_that_spends_delta_needs_some() -> None:
    with pytest.raises(InvalidRequest, match="delta: got '0'; must be above 0 for approximate"):
        asked(Approximate(kind="approximate"))


@pytest.mark.parametrize("weight", [0, -1, "nan", "1e13", True, "much"])
def test_a_weight_that_is_none_is_refused(weight: Any) -> None:
    with pytest.raises(InvalidRequest, match="weight"):
        request(diagnostics=[{"kind": "roc_curve", "weight": weight}])


def test_weights_are_exact_and_part_of_the_request() -> None:
    one, other = (request(diagnostics=[{"kind": "roc_curve", "weight": weight}]) for weight in ("0.1", 0.1))
    assert one.sha256 == other.sha256 != request().sha256
    assert one.to_dict()["diagnostics"][0]["weight"] == "0.1"


@pytest.mark.parametrize("method", ["auto", "k_norm", "gaussian"])
@pytest.mark.parametrize("groups", [1, 2, 5, 20])
def test_discovered_keys_of_a_bounded_unit_have_all_of_its_delta_whatever_their_noise(groups: int, method: str) -> None:
    entry = {"kind": "aggregates", "by": [{"column": "page", "keys": "discover", "min_units": 20}]}
    request = ReleaseRequest.parse(
        {
            "table": {"path": "/lake/rows", "snapshot": {"path_version": "v1"}},
            "neighbours": "add_remove", "unit": {"column": "person", "max_rows": 20},
            "diagnostics": [{**entry, "max_groups": groups, "method": method}],
            "budget": {"epsilon": "1", "delta": "1e-6"},
        }
    )  # fmt: skip
    (part,) = split_budget(request)
    assert part.delta_per_row == Decimal("1e-6")
    assert part.granted.epsilon + part_of_left_out(request).granted.epsilon == 1
