"""A row that moves to another block is a removal there and an addition here, and each block has a cap of its own.

For every kind and method under ``replace_one``: the exact loss of the noise for a row that is removed from one table,
plus that for a row that is added to another. Noise that is calibrated to a replacement often covers both at once, and
sometimes each of them at its whole price: then the sum is twice the cap of a block. So the guarantee where blocks pay
one by one is for replacements within a block, and is printed so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, get_args
from unittest.mock import patch

import numpy as np
import pytest
from pydantic import ValidationError

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import DIAGNOSTICS, Options, ResidualCells
from spark_jobs.contract.options.comparisons import PairedScoreCells
from spark_jobs.contract.options.fits import CrossProductCells, LabelledRowCells
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.diagnostics.ecdf import private_bounds
from spark_jobs.diagnostics.residual_plot import box
from spark_jobs.mechanisms import sparse_vector
from spark_jobs.mechanisms.zcdp import rho_within
from spark_jobs.statistics import CrossProducts, LabelledRows, PairedScoreCounts, ProfileCounts, ResidualCounts
from tests.support.kinds import EXAMPLES, statistic_of
from tests.support.noises import Asked, Recording
from tests.support.replay import released_outputs

pytestmark = [pytest.mark.audit]

DELTA = "1e-6"
MORE = (
    {
        "linear_fit-laplace",
        "linear_fit-gaussian",
        "quantile",
        "roc_curve-recursive_medians",
        "average_precision-auto",
        "rows_per_unit",
    }
    | {
        f"{figure}-{method}"
        for figure in ("auc", "average_precision", "binormal_roc")
        for method in ("polynomial", "cauchy", "laplace")
    }
    | {f"{kind}-recursive_medians" for kind in ("calibration", "binned_residuals")}
)
"""Kinds and methods of which a removal here and an addition there cost more than a replacement."""


@dataclass
class Watching(Recording):
    """Noise that remembers Gaussian vectors as well, and choices by their outcome and their whole price."""

    squares: list[tuple[np.ndarray, Fraction]] = field(default_factory=list)
    chosen: list[Any] = field(default_factory=list)
    repeat: list[Any] | None = None
    price: float = 0.0
    inside: bool = False

    def words(self, count: int) -> Any:
        """Uniform words; outside of choices, those that the other table got."""
        if self.inside:
            return self.source.words(count)
        self.chosen.append(self.source.words(count) if self.repeat is None else self.repeat[len(self.chosen)])
        return self.chosen[-1]

    def use(self, name: str, terms: Mapping[str, Any], draw: Any, meter: Any = None) -> Any:
        """A choice, or the one that was made of the other table; a row may change it by all that it costs."""
        shape = terms.get("shape")
        spent = 0 if meter is None else len(meter.spendings)
        self.inside = True
        made = draw()
        self.inside = False
        self.chosen.append(made if self.repeat is None else self.repeat[len(self.chosen)])
        of_meter = 0.0 if meter is None else float(sum(one.epsilon for one in meter.spendings[spent:]))
        self.price += of_meter or float(shape.epsilon if terms.get("epsilon") is None else terms["epsilon"])
        return self.chosen[-1]

    def gaussian(self, values: Any, *, rho: Any, l2_sensitivity: float) -> Any:
        self.squares.append((np.array(values).astype(object).ravel(), Fraction(rho) / Fraction(l2_sensitivity) ** 2))
        self.asked.append(Asked(np.zeros(1, dtype=np.int64), Fraction(0), 1))
        return self._given(lambda: self.source.gaussian(values, rho=rho, l2_sensitivity=l2_sensitivity))


def cases() -> Iterator[Any]:
    """Every kind with every method."""
    for kind, options in DIAGNOSTICS.items():
        of_method = options.model_fields.get("method")
        for method in get_args(of_method.annotation) if of_method else ("",):
            try:
                made = options.model_validate(
                    {"kind": kind, **EXAMPLES[kind][0], **({"method": method} if method else {})}
                )
            except (InvalidRequest, ValidationError):
                continue
            if "theil_sen" in method:  # only where sizes are public: a replaced row stays in its group
                continue
            yield pytest.param(made, id=f"{kind}-{method}".strip("-"))


def with_a_row(cells: Any, seed: int) -> tuple[Any, Any]:
    """A table, and the same with a row more, at a corner of what a row may be."""
    random = np.random.default_rng(seed)
    labels, scores = random.integers(0, 2, 40), random.random((2, 40))
    if isinstance(cells, PairedScoreCells):
        added = np.append(labels, 1), *(np.append(one, 1.0) for one in scores)
        return PairedScoreCounts.from_arrays(labels, *scores), PairedScoreCounts.from_arrays(*added)
    if isinstance(cells, (CrossProductCells, LabelledRowCells)):
        counted = CrossProducts if isinstance(cells, CrossProductCells) else LabelledRows
        columns = {"a": np.append(scores[0], 1.0), "c": np.append(random.choice(["u", "v"], 40), "v")}
        labels = np.append(labels, 1)
        less = {name: column[:-1] for name, column in columns.items()}
        return counted.from_arrays(less, labels[:-1], design=cells), counted.from_arrays(columns, labels, design=cells)
    before = statistic_of(cells, seed, sizes=None)
    if isinstance(cells, ResidualCells):  # at the end of its cell, which moves the sums by all that a row may
        return before, before + ResidualCounts.from_arrays([0.0], [0.0], unit=cells.unit)
    if isinstance(before, ProfileCounts):
        more = before.counts.copy()
        more[0] += 1
        return before, replace(before, counts=more)
    return before, before + statistic_of(cells, 1 - seed, sizes=(1,))


@contextmanager
def watched() -> Iterator[None]:
    """Within it, choices are replayed at what they release; of a search through nested counts that is an index."""
    search = sparse_vector.first_crossing

    def first_crossing(cells: Any, *, noise: Watching, epsilon: Any, **terms: Any) -> int | None:
        # one row added changes half of what a replacement does, by the proof of the search
        return noise.use("search", {"epsilon": float(epsilon) / 2}, lambda: search(
            cells, noise=noise.source, epsilon=epsilon, **terms
        ))  # fmt: skip

    with (
        released_outputs(None),
        patch.object(box, "first_crossing", first_crossing),
        patch.object(private_bounds, "first_crossing", first_crossing),
    ):
        yield


def loss_of_a_row(options: Options, seed: int) -> float:
    """What all noisy vectors of a release tell of a row that is added, as a part of the whole epsilon or rho."""

    def run(table: Any, noise: Watching) -> None:
        delta = DELTA if options.accepts_delta else 0
        terms = Terms(epsilon=Decimal(1), delta=delta, neighbours=Neighbours.REPLACE_ONE, noise=noise)
        diagnostic(options.kind).measurement.measure(table, options, terms)

    pairs = [with_a_row(cells, seed) for cells in options.statistics]
    before, after = (one[0] if len(one) == 1 else tuple(one) for one in zip(*pairs, strict=True))
    first = Watching()
    with watched():
        run(before, first)
    second = Watching(answers=first.given, repeat=first.chosen)
    with watched():
        run(after, second)
    told = first.price + float(
        sum((one.loss(other) for one, other in zip(first.asked, second.asked, strict=True)), Fraction(0))
    )
    if first.squares:
        apart = [one - other for (one, _), (other, _) in zip(first.squares, second.squares, strict=True)]
        rho = sum(int(each @ each) * part for each, (_, part) in zip(apart, first.squares, strict=True))
        told += float(rho / Fraction(rho_within(1, DELTA)))
    return told


EVERY = list(cases())


@pytest.mark.parametrize("options", EVERY)
def test_a_removal_here_and_an_addition_there_cost_at_most_twice_the_cap(options: Options) -> None:
    here, there = (loss_of_a_row(options, seed) for seed in (0, 1))
    assert here <= 1 + 1e-9, "within one block it is at most the cap"
    assert there <= 1 + 1e-9
    assert here + there <= 2


def test_some_mechanisms_cost_more_than_the_cap_over_two_blocks() -> None:
    both = {case.id: sum(loss_of_a_row(case.values[0], seed) for seed in (0, 1)) for case in EVERY}
    assert both["linear_fit-laplace"] == pytest.approx(2.0), "exactly twice: each block pays for a whole corner"
    more = {one for one, told in both.items() if told > 1 + 1e-9}
    assert {one for one in more if not one.startswith("residual_plot")} == MORE
    assert "residual_plot-auto" in more, "its number of rows has one noise for both relations"
    assert both["roc_curve-tree"] <= 1 + 1e-9, "counts have twice the noise under replace_one"
