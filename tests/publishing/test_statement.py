import re
from decimal import Decimal
from itertools import product

import pytest

from dp_operators.budget.plain_words import certainty
from spark_jobs.contract.odds import LossLaw
from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE, PartSpending, ReleasePart
from spark_jobs.wording.statement import formal_guarantee, plain_text, privacy_statement
from spark_jobs.wording.streams import stream_statement
from tests.support import publications as made
from tests.support.federated import prepare
from tests.support.streams import a_stream

UNITS = ({}, {"column": "person_id", "max_rows": 1}, {"column": "person_id", "max_rows": 3})
BUDGETS = ({"epsilon": "1"}, {"epsilon": "0.1", "delta": "1e-6"}, {"rho": "0.05"}, {"epsilon": "40"})


def statement_for(guarantee=PRIVATE, *, draft=False, **changes):
    if "rho" in changes.get("budget", ()):
        changes["diagnostics"] = [{"kind": "aggregates"}]
    facts = made.facts(request=made.request(**changes), draft=draft)
    return plain_text(privacy_statement(facts, guarantee))


@pytest.mark.parametrize(("neighbours", "unit", "budget"), list(product(Neighbours, UNITS, BUDGETS)))
def test_statement_names_relation_unit_and_cost(neighbours, unit, budget):
    text = statement_for(neighbours=neighbours, unit=unit, budget=budget)
    assert ("whether" in text.split("\n")[0]) == (neighbours is Neighbours.ADD_REMOVE)
    assert ("number of rows" in text) == (neighbours is Neighbours.REPLACE_ONE), "only then is the size public"
    assert ("a row is not a person" in text) == (not unit)
    if unit:
        assert unit["column"] in text
        assert ("one row is used" if unit["max_rows"] == 1 else f"{unit['max_rows']} rows are used") in text
    assert ("except with a probability" in text) == ("delta" in budget or "rho" in budget)
    assert "How long the computation ran" in text


def test_statements_of_different_guarantees_differ():
    found = {
        statement_for(neighbours=neighbours, unit=unit, budget=budget)
        for neighbours, unit, budget in product(Neighbours, UNITS, BUDGETS)
    }
    assert len(found) == len(Neighbours) * len(UNITS) * len(BUDGETS)


def test_statement_of_the_usual_release_reads_as_it_should():
    first = statement_for().split("\n\n")[0]
    assert first == (
        "Whoever reads this release, whatever else they know, can hardly tell whether any one row of the table was in "
        "it: seeing it changes the odds by at most a factor e^1 = 2.72. Somebody who thought both equally likely "
        "before can end up at most 73.2\N{NO-BREAK SPACE}% sure."
    )


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "0.333333333333", "1", "2.5", "6", "12.9"])
def test_factor_and_surety_are_bounds(epsilon):
    text = statement_for(budget={"epsilon": epsilon})
    exponent, factor = re.search(r"e\^([0-9.]+) = ([0-9.,]+[0-9])", text).groups()
    exact = Decimal(epsilon).exp()
    assert Decimal(exponent) >= Decimal(epsilon)
    assert exact <= Decimal(factor.replace(",", "")) <= exact * Decimal("1.02")
    surest = Decimal(re.search(r"at most ([0-9.]+)\s% sure", text).group(1))
    assert 100 * exact / (1 + exact) <= surest <= 100


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "2.5", "5", "6"])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_the_report_and_the_account_quote_one_promise_alike(epsilon, delta):
    budget = {"epsilon": epsilon, "delta": delta}
    of_account = re.match(r"at most ([0-9.]+)% sure(, except)?", certainty(Budget(**budget)))
    of_report = re.search(r"at most ([0-9.]+)\s% sure", statement_for(budget=budget))
    assert Decimal(of_account.group(1)) == Decimal(of_report.group(1))
    assert (of_account.group(2) is None) == (delta == "0")


def test_a_large_epsilon_is_called_what_it_is():
    assert "can hardly tell" in statement_for(budget={"epsilon": "1"})
    assert "can hardly tell" not in statement_for(budget={"epsilon": "1.1"})
    assert "limits nothing" in statement_for(budget={"epsilon": "1000000000000"})


def test_zero_concentrated_cost_is_converted_by_its_moments_in_both_directions():
    from math import exp, log, sqrt

    text = statement_for(budget={"rho": "0.05"})
    exponent = float(re.search(r"e\^([0-9.]+) =", text).group(1))
    both = log((1 + exp(-exponent)) / 1e-6)
    assert exponent == pytest.approx(0.05 + 2 * sqrt(0.05 * both), rel=1e-3)
    assert "10^-6" in text


def spending(law, *, epsilon="1", delta="1e-6", rho="0.024356"):
    rho = None if law in (LossLaw.ANY, LossLaw.SMOOTH_LAPLACE) else Decimal(rho)
    return PartSpending(label="a", epsilon=Decimal(epsilon), delta=Decimal(delta), law=law, rho=rho)


@pytest.mark.parametrize(
    ("law", "factor", "often", "sure"),
    [
        (LossLaw.GAUSSIAN, "e^1.086 = 2.97", "10^-6", "74.8"),
        (LossLaw.CONCENTRATED, "e^1.196 = 3.31", "10^-6", "76.8"),
        (LossLaw.SMOOTH_LAPLACE, "e^1.001 = 2.72", "10^-6", "73.2"),
        (LossLaw.ANY, "e^1.694 = 5.44", "3 × 10^-6", "84.5"),
    ],
)
def test_a_release_that_spends_delta_quotes_what_its_mechanism_keeps(law, factor, often, sure):
    budget = {"epsilon": "1", "delta": "1e-6"}
    part = ReleasePart(kinds=("linear_fit",), cost=Budget(**budget), spendings=(spending(law),))
    facts = made.facts(request=made.request(budget=budget), parts=(part,))
    first = plain_text(privacy_statement(facts, PRIVATE)).split("\n\n")[0]
    assert (
        f": except with a probability of at most {often}, seeing it changes the odds by at most a factor {factor}."
        in first
    )
    assert first.endswith(f"can then end up at most {sure}\N{NO-BREAK SPACE}% sure, with the same exception.")
    assert formal_guarantee(facts, PRIVATE).startswith("ε = 1, δ = 10^-6;")


def test_parts_of_a_release_add_up_in_what_it_quotes():
    budget = {"epsilon": "1.5", "delta": "1e-6"}
    parts = (
        ReleasePart(kinds=("linear_fit",), cost=Budget("1", "1e-6"), spendings=(spending(LossLaw.GAUSSIAN),)),
        ReleasePart(
            kinds=("auc",),
            cost=Budget("0.5"),
            spendings=(PartSpending(label="area under the curve", epsilon=Decimal("0.5")),),
        ),
    )
    text = plain_text(privacy_statement(made.facts(request=made.request(budget=budget), parts=parts), PRIVATE))
    assert "a factor e^1.586 = 4.89" in text


def test_model_basis_is_stated():
    model = {"kind": "columns", "score": "p"}
    public = statement_for(model={**model, "basis": "public"})
    private = statement_for(model={**model, "basis": "differentially_private"})
    assert "fitted without these rows" in public
    assert "adds to the cost of this release" in private


def test_draft_says_that_nothing_counts_it_and_a_release_names_its_account():
    assert "No ledger paid for it" in statement_for(draft=True)
    charged = statement_for()
    assert "account randhie" in charged
    assert "No ledger" not in charged


def test_no_promise_without_a_guarantee():
    text = statement_for(NOT_PRIVATE)
    assert text.startswith("NOT PRIVATE")
    assert "at most a factor" not in text
    assert formal_guarantee(made.facts(), NOT_PRIVATE) == "no guarantee"


def test_formal_line():
    facts = made.facts(
        request=made.request(
            budget=Budget(epsilon="0.5", delta="1e-6"),
            neighbours="replace_one",
            unit={"column": "person_id", "max_rows": 3},
        )
    )
    assert formal_guarantee(facts, PRIVATE) == (
        "ε = 0.5, δ = 10^-6; neighbouring tables: all rows of one value of person_id replaced, at most 3 of them used"
    )


LINES = {"kind": "linear_regression", "x": "a", "y": "b", "x_bounds": [0, 1], "y_bounds": [0, 1]}
GROUPED = {**LINES, "group_by": "tract", "groups": ["001"]}
PUBLIC_SIZES = {"public_sizes": True}


def test_a_model_that_nothing_needs_is_not_spoken_of():
    text = statement_for(diagnostics=[LINES], label=None, model=None)
    assert "model" not in text
    assert statement_for(diagnostics=[LINES]) == text
    assert "The model behind the scores was fitted" in statement_for(diagnostics=["roc_curve", LINES])
    residuals = {"kind": "residual_plot", "outcome": "wage"}
    assert "The model behind the fitted values was fitted" in statement_for(diagnostics=[residuals], label=None)
    assert "behind the fitted values and scores" in statement_for(diagnostics=[residuals, "roc_curve"])


@pytest.mark.parametrize(
    ("lines", "neighbours", "told", "untold"),
    [
        (LINES, "add_remove", [], ["group", "taken to be public"]),
        (GROUPED, "add_remove", ["The groups of tract are a public list."], ["taken to be public"]),
        (GROUPED, "replace_one", ["The groups of tract are a public list."], ["taken to be public"]),
        (LINES, "replace_one", [], ["group", "taken to be public"]),
        (
            {**GROUPED, **PUBLIC_SIZES},
            "replace_one",
            ["a public list", "Which row is in which group is taken to be public too"],
            [],
        ),
        (
            {**LINES, **PUBLIC_SIZES},
            "replace_one",
            ["Which rows the line is fitted to is taken to be public"],
            ["group"],
        ),
    ],
)
def test_what_is_public_about_groups_is_said(lines, neighbours, told, untold):
    text = statement_for(diagnostics=[lines], neighbours=neighbours)
    assert all(part in text for part in told)
    assert not any(part in text for part in untold)


def test_rows_of_a_unit_in_several_groups_are_covered_together():
    unit = {"column": "person_id", "max_rows": 3}
    assert "all together, whatever groups they are in." in statement_for(diagnostics=[GROUPED], unit=unit)
    assert "groups they are in" not in statement_for(diagnostics=[LINES], unit=unit)


SHARED = ReleasePart(
    kinds=("roc_curve", "binned_residuals", "calibration"),
    cost=Budget(epsilon="0.6"),
    spendings=(
        PartSpending(label="where the scores lie", epsilon=Decimal("0.1")),
        PartSpending(label="counts of both classes in 32 groups", epsilon=Decimal("0.5")),
    ),
)
ALONE = ReleasePart(
    kinds=("auc",),
    cost=Budget(epsilon="0.4", delta="1e-6"),
    spendings=(PartSpending(label="area under the curve", epsilon=Decimal("0.4"), delta=Decimal("0.000001")),),
)


def test_what_each_mechanism_spent_is_said_in_words():
    (told,) = (part for part in privacy_statement(made.facts(parts=(SHARED, ALONE)), PRIVATE) if part.items)
    assert told.heading == "What the cost bought"
    assert told.items == (
        "ROC curve, binned residuals and calibration: ε = 0.6, computed from the same noisy counts.",
        "AUC: ε = 0.4, δ = 10^-6.",
    )
    assert told.closer == (
        "where the scores lie, ε = 0.1; counts of both classes in 32 groups, ε = 0.5",
        "area under the curve",
    )
    text = plain_text((told,))
    assert all(item in text for item in told.items)
    assert not any(looks in text for looks in told.closer), "how many looks there were hangs on the noise"
    assert "What the cost bought" not in statement_for(), "nothing is said where nothing is known"


def test_the_allotment_that_paid_is_named():
    from_allotment = made.facts(account=made.account(allotment="research"))
    text = plain_text(privacy_statement(from_allotment, PRIVATE))
    assert "within its cap; those of the sub-budget research, which paid for this one, within its own." in text
    assert "allotment" not in statement_for()


def test_what_the_request_calls_a_row_is_its_own_word():
    said = statement_for(record="person-year")
    assert "One row, and a row is not a person" in said
    assert "The request calls a row a “person-year”; nothing checks this." in said
    assert "stands for" not in said


@pytest.mark.parametrize("unit", UNITS[:2])
def test_replacements_within_a_block_are_what_is_promised_where_blocks_pay_one_by_one(unit):
    days = {"blocks": ["2026-01-01"], "block_expression": "day(visited_at)", "unit": unit}
    request = made.request(neighbours="replace_one", **days)
    formal = formal_guarantee(made.facts(request=request), PRIVATE)
    assert "replaced by " in formal
    assert "another of the same day(visited_at), which is public" in formal
    text = statement_for(neighbours="replace_one", **days)
    assert " said, but for the day(visited_at), which is public: seeing it" in text
    assert "so is the number of rows of each day(visited_at)" in text
    for others in ({**days, "neighbours": "add_remove"}, {"neighbours": "replace_one", "unit": unit}):
        assert "visited_at), which is public" not in statement_for(**others)


@pytest.mark.parametrize("column", [None, "person"])
def test_a_stream_over_blocks_promises_the_same(column):
    asked = a_stream(
        neighbours="replace_one",
        unit={"column": column},
        blocks=["2026-01-01"],
        block_expression="day(visited_at)",
    )
    text = stream_statement(asked, PRIVATE)
    assert "replaced by another of the same day(visited_at), which is public" in text
    assert " said, but for the day(visited_at), which is public: seeing it" in text


def test_a_release_of_several_owners_says_that_its_guarantee_is_computational(tmp_path):
    agreement, _ = prepare(tmp_path)
    facts = made.facts(request=made.request(federation={"name": "hospitals", "agreement": agreement}))
    text = plain_text(privacy_statement(facts, PRIVATE))
    assert "The promise is computational" in text
    assert "rests on the secrecy of the participants' private keys" in text
    assert formal_guarantee(facts, PRIVATE).endswith("; computational, by the secrecy of keys")
    assert "computational" not in statement_for() + formal_guarantee(made.facts(), PRIVATE)
