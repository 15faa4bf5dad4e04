"""Every exception of ours reaches another process as it was raised: a pool of processes pickles them."""

from __future__ import annotations

import builtins
import copy
import importlib
import pickle
import re
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from functools import cache
from typing import Any

import pytest

from dp_operators.budget import BudgetExceeded
from dp_operators.releasing import Handle
from tests.support.repository import ROOT, product_modules

REFUSAL = {"value": "the value", "requirement": "must be another", "remedy": "correct it"}
EXAMPLES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "InvalidRequest": (("budget.epsilon",), REFUSAL),
    "MissingColumn": (
        ("model.score",),
        {"name": "score", "requirement": "must be a column", "remedy": "correct it"},
    ),
    "AgreementClosed": (("federation",), REFUSAL),
    "ChargeConflict": (("release",), REFUSAL),
    "BudgetExceeded": (
        (),
        {
            "account": "visits",
            "block": "2026-10",
            "requested": Decimal("0.5"),
            "remaining": Decimal("0.25"),
            "cap": Decimal(1),
            "currency": "delta",
            "allotment": "team",
        },
    ),
    "LedgerFrozen": (("restored from a backup",), {}),
    "NotAllowed": (("postgresql://host/ledger", "permission denied"), {}),
    "LedgerUnavailable": (("sqlite:////ledger.db", "locked"), {}),
    "ApplicationRuns": ((Handle(backend="yarn", id="a tag"), 1), {}),
    "ReleaseCheckFailed": ((("auc: is a number", "roc_curve: rises"),), {}),
    "NotAllowedError": (("must be short",), {"remedy": "shorten it"}),
}
"""Arguments of those that take more than a line."""


@cache
def ours() -> dict[str, str]:
    """The names of the exception classes that a module of ours defines, with their modules."""
    bases: dict[str, set[str]] = {}
    places: dict[str, str] = {}
    for path in product_modules():  # by expression: all trees of the product took a second of each collection
        for name, of in re.findall(r"^ *class (\w+)\(([^)]*)\)", path.read_text(), re.MULTILINE):
            bases[name] = {base.rpartition(".")[2] for base in re.findall(r"[\w.]+", of)}
            places[name] = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    known = {name for name, value in vars(builtins).items() if isinstance(value, type) and is_exception(value)}
    known |= {name for each in bases.values() for name in each if re.fullmatch(r"Airflow\w*Exception", name)}
    while more := {name for name, of in bases.items() if of & known} - known:
        known |= more
    return {name: places[name] for name in sorted(known & set(places))}


def is_exception(kind: type) -> bool:
    return issubclass(kind, BaseException)


def example(name: str) -> BaseException:
    """An exception of the class, with a field beyond its arguments, as something may have added one."""
    kind = getattr(importlib.import_module(ours()[name]), name)
    assert is_exception(kind)
    args, named = EXAMPLES.get(name, (("one line",), {}))
    made = kind(*args, **named)
    made.seen_by = ("a worker",)
    return made  # type: ignore[no-any-return]


def test_all_of_them_are_walked() -> None:
    assert set(EXAMPLES) <= set(ours())
    assert {"InvalidRequest", "BudgetExceeded", "LedgerUnavailable", "ReleaseFailed", "SealBroken"} <= set(ours())


@pytest.mark.parametrize("name", ours())
def test_it_is_pickled_and_copied_with_its_message_and_fields(name: str) -> None:
    made = example(name)
    copies = [pickle.loads(pickle.dumps(made, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]
    for again in (*copies, copy.copy(made), copy.deepcopy(made)):
        assert type(again) is type(made)
        assert (str(again), again.args, vars(again)) == (str(made), made.args, vars(made))


def exceed() -> None:
    raise example("BudgetExceeded")


def test_pool_of_processes_raises_what_its_worker_raised() -> None:
    with ProcessPoolExecutor(max_workers=1) as pool, pytest.raises(BudgetExceeded) as exceeded:
        pool.submit(exceed).result(timeout=60)
    assert (exceeded.value.remaining, exceeded.value.allotment) == (Decimal("0.25"), "team")
    assert str(exceeded.value) == str(example("BudgetExceeded"))
