"""What a draw tells of its mechanisms, and what a ledger is told of it."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest

from dp_operators.budget.mechanism_events import drawn_events
from dp_operators.releasing import reconcile
from tests.support.release_lab import Lab

TREE = {"diagnostic": "roc_curve", "label": "one tree for each label", "epsilon": "0.3", "delta": "0"}
BLUR = {"diagnostic": "auc", "label": "area", "epsilon": "0.5", "delta": "0.000001"}


def draw(*events: object) -> dict[str, object]:
    return {"format": 1, "kind": "draw", "events": events}


def test_spendings_on_a_row_are_those_of_its_unit() -> None:
    assert drawn_events(draw(TREE, BLUR), max_rows=1) == (
        {"mechanism": "pure", "label": "roc_curve: one tree for each label", "epsilon": "0.3"},
        {"mechanism": "approximate", "label": "auc: area", "epsilon": "0.5", "delta": "0.000001"},
    )


def test_unit_of_several_rows_loses_as_group_privacy_says() -> None:
    tree, blur = drawn_events(draw(TREE, BLUR), max_rows=3) or ()
    assert (tree["mechanism"], tree["epsilon"]) == ("pure", "0.9")
    assert (blur["mechanism"], blur["epsilon"]) == ("approximate", "1.5")
    # d (1 + e^0.5 + e^1), by induction over the rows, and never less
    with localcontext(prec=100):
        exact = Decimal("0.000001") * (1 + Decimal("0.5").exp() + Decimal(1).exp())
    assert exact <= Decimal(blur["delta"]) < exact + Decimal("1e-29")


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"events": None},
        draw(),
        draw("pure"),
        draw({"label": "x"}),
        draw({**TREE, "epsilon": "nan"}),
        draw(TREE, {**TREE, "delta": None}),
    ],
)
def test_draw_that_tells_no_events_tells_none(content: dict[str, object]) -> None:
    assert drawn_events(content, max_rows=1) is None


@pytest.mark.parametrize("forgot", ["the commit", "the charge"])
def test_ledger_is_told_at_the_commit_and_again_after_a_restore(lab: Lab, forgot: str) -> None:
    """The secret that opens the draw is the ledger's: where it forgot the charge, it forgot what the draw says too."""
    if forgot == "the commit":
        lab.attempt("before_run").wait()
    backup = (lab.folder / "ledger.db").read_bytes()
    lab.release()
    told = ({"mechanism": "pure", "label": "roc_curve: noise", "epsilon": "1"},)
    [charge] = lab.charges()
    assert charge.drawn_events == told
    assert charge.events == ({"mechanism": "pure", "epsilon": "1"},)
    (lab.folder / "ledger.db").write_bytes(backup)
    assert reconcile(lab.output, lab.ledger(), actor="dpo").committed == (charge.id,)
    assert lab.charges()[0].drawn_events == (told if forgot == "the commit" else None)
    assert lab.ledger().verify()


def test_ledger_is_told_of_a_draw_that_is_given_back_too(lab: Lab) -> None:
    lab.attempt("after_run").wait()
    assert lab.give_back().wait().error is None
    [charge] = lab.charges()
    assert charge.state.value == "burnt"
    assert charge.drawn_events == ({"mechanism": "pure", "label": "roc_curve: noise", "epsilon": "1"},)
    assert lab.ledger().verify()
