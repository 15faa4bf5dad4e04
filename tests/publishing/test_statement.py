import re
from decimal import Decimal
from itertools import product

import pytest

from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE, PartSpending, ReleasePart
from spark_jobs.publishing.privacy_statement import formal_guarantee, plain_text, privacy_statement
from tests.support import publications as made

UNITS = ({}, {"column": "person_id", "max_rows": 1}, {"column": "person_id", "max_rows": 3})
BUDGETS = ({"epsilon": "1"}, {"epsilon": "0.1", "delta": "1e-6"}, {"epsilon": "1", "rho": "0.05"}, {"epsilon": "40"})


def statement_for(guarantee=PRIVATE, *, draft=False, **changes):
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


def test_a_large_epsilon_is_called_what_it_is():
    assert "can hardly tell" in statement_for(budget={"epsilon": "1"})
    assert "can hardly tell" not in statement_for(budget={"epsilon": "1.1"})
    assert "limits nothing" in statement_for(budget={"epsilon": "1000000000000"})


def test_zero_concentrated_cost_is_converted_as_bun_and_steinke_do():
    from math import log, sqrt

    text = statement_for(budget={"epsilon": "1", "rho": "0.05"})
    exponent = float(re.search(r"e\^([0-9.]+) =", text).group(1))
    assert exponent == pytest.approx(0.05 + 2 * sqrt(0.05 * log(1e6)), rel=1e-3)


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
