"""The exact loss of whole residual plots: size, searches and counts along paths that were drawn, on both tables."""

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from spark_jobs.diagnostics.residual_plot import box, measure, measurement, offsets
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import SeededNoise, laplace_scale
from spark_jobs.statistics import ResidualCounts
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault
from tests.support.sparse_vector_loss import geometric_mass, tail

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(12)
"""Large: the searches have small parts of it, and the sums over a threshold's noise end somewhere."""
MIDDLE = [(3.0, 0.2)] * 8 + [(5.0, -0.4)] * 8 + [(8.0, 1.0)] * 4
TWO_MORE = [(MIDDLE, [*MIDDLE, (5.0, 0.1), (5.0, 0.1)])]
PAIRS = {
    ADDED: [(MIDDLE, [*MIDDLE, row]) for row in ((5.0, 0.1), (1e6, 3.0), (-70.0, -1e9))],
    REPLACED: [
        ([*MIDDLE, (5.0, 0.1)], [*MIDDLE, (1e6, -1e9)]),
        ([*MIDDLE, (3.0, 0.2)], [*MIDDLE, (8.0, -40.0)]),
    ],
}


@dataclass
class Path:
    """Noise that keeps what it was asked and gave; given ``answers``, it plays them to another table.

    ``factor``: the planted fault, by which the noise is too small.
    """

    source: SeededNoise
    answers: list[Any] | None = None
    factor: float = 1.0
    steps: list[tuple[np.ndarray, float, Any]] = field(default_factory=list)
    private = False
    guarantee = "NOT PRIVATE"

    def laplace(self, values, *, epsilon, l1_sensitivity):
        scale = laplace_scale(epsilon, l1_sensitivity) / self.factor
        drawn = self._or_played(lambda: self.source.laplace(values, epsilon=Decimal(1 / scale), l1_sensitivity=1))
        self.steps.append((np.array(values), scale, drawn))
        return drawn

    def crossing(self, cells, *, threshold, epsilon, neighbours, noise):
        """In the place of ``first_crossing``: the outcome is one number, and all else stays hidden."""
        scale = laplace_scale(epsilon, 1 if neighbours is ADDED else 2) / self.factor
        counts = np.cumsum(cells)
        found = self._or_played(lambda: self._search(counts, threshold, scale))
        self.steps.append((counts, scale, (threshold, found)))
        return found if found < counts.size else None

    def _search(self, counts, threshold, scale):
        cost = Decimal(1 / scale)
        level = threshold + self.source.laplace(np.zeros(1, np.int64), epsilon=cost, l1_sensitivity=1)[0]
        passing = np.flatnonzero(self.source.laplace(counts, epsilon=cost, l1_sensitivity=1) >= level)
        return int(passing[0]) if passing.size else counts.size

    def _or_played(self, draw):
        if self.answers is None:
            return draw()
        played = self.answers[len(self.steps)]
        return played[1] if isinstance(played, tuple) else played

    def words(self, count):
        return self.source.words(count)


def walked(rows, path, relation, monkeypatch):
    monkeypatch.setattr(box, "first_crossing", path.crossing)
    statistic = ResidualCounts.from_arrays([row[0] for row in rows], [row[1] for row in rows])
    return measure(statistic, epsilon=EPSILON, neighbours=relation, noise=path)


def log_chance(counts, threshold, scale, outcome):
    """Of the first crossing at this index, exactly: a sum over the noise of the threshold."""
    support, mass = geometric_mass(scale, reach=max(150, int(40 * scale)))
    # counts change in few places: the same factor comes as often as a count does
    levels, often = np.unique(counts[:outcome], return_counts=True)
    wanted = np.ceil(threshold + support[:, None] - levels)
    with np.errstate(divide="ignore"):
        chances = mass * np.exp((often * np.log1p(-np.minimum(tail(scale, wanted), 1.0))).sum(axis=1))
    if outcome < counts.size:
        chances = chances * tail(scale, np.ceil(threshold + support - counts[outcome]))
    return math.log(max(chances.sum(), 1e-300))


def loss_of(first, second):
    """Log ratio of the chances of one path, on two tables."""
    loss = 0.0
    for (one, scale, outcome), (other, _, _) in zip(first.steps, second.steps, strict=True):
        if isinstance(outcome, tuple):
            threshold, index = outcome
            loss += log_chance(one, threshold, scale, index) - log_chance(other, threshold, scale, index)
        else:
            loss += float((np.abs(outcome - other) - np.abs(outcome - one)).sum() / scale)
    return loss


def worst(pairs, relation, monkeypatch, *, factor, paths):
    """The largest loss over drawn paths, both ways round."""
    found = 0.0
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            for seed in range(paths):
                first = Path(SeededNoise(seed), factor=factor)
                drawn = walked(one, first, relation, monkeypatch)
                second = Path(SeededNoise(0), answers=[step[2] for step in first.steps], factor=factor)
                again = walked(other, second, relation, monkeypatch)
                if not np.array_equal(drawn.box.fitted, again.box.fitted):
                    return math.inf  # one answer gave two grids: the grid was not made of answers
                found = max(found, loss_of(first, second))
    return found


def spend_all_on_counts(monkeypatch):
    monkeypatch.setattr(BudgetMeter, "spend_rest", lambda meter, *, label: meter.granted.epsilon)


def spend_all_on_sums(monkeypatch):
    spend = BudgetMeter.spend_share
    monkeypatch.setattr(
        BudgetMeter,
        "spend_share",
        lambda meter, part, *, label: (
            meter.granted.epsilon if label.startswith("sums") else spend(meter, part, label=label)
        ),
    )


def count_half_a_cell_as_less(monkeypatch):
    """The constant of the sums: an eighth of what a row may add to them."""
    monkeypatch.setattr(measurement, "HALF_CELL", offsets.HALF_CELL // 8)


def leave_noise_out_of_sums(monkeypatch):
    monkeypatch.setattr(measurement, "HALF_CELL", 1)


def read_bounds_off_the_rows(monkeypatch):
    def largest(statistic, **_):
        top = float(box.size_at(statistic.fitted_cells.max()) + 1)
        return box.Bounds(residual=1.0, fitted_lower=0.0, fitted_upper=top)

    monkeypatch.setattr(measurement, "noisy_bounds", largest)


class TestResidualPlot(ExactAudit):
    """The largest loss over drawn paths, both ways round."""

    mechanisms = ("residual plot",)
    claimed, at_least, verified = EPSILON, 0.6, True
    faults = {
        "half the noise": Fault(planted={"factor": 2.0, "paths": 40}),
        "noise for an added row": Fault(planted={"told": ADDED, "paths": 40}, relations=[REPLACED]),
        "off by one record": Fault(planted={"pairs": TWO_MORE, "paths": 40}, relations=[ADDED]),
        "counts at the whole budget": Fault(patch=spend_all_on_counts, planted={"paths": 60}, relations=[ADDED]),
        "sums at the whole budget": Fault(patch=spend_all_on_sums, planted={"paths": 60}, relations=[ADDED]),
        "sums of a cell's eighth": Fault(patch=count_half_a_cell_as_less, planted={"paths": 60}),
        "sums without their noise": Fault(patch=leave_noise_out_of_sums, planted={"paths": 10}),
        "bounds read off the rows": Fault(patch=read_bounds_off_the_rows, planted={"paths": 1}, relations=[ADDED]),
    }

    def loss(self, mechanism, relation, *, told=None, pairs=None, factor=1.0, paths=150):
        with pytest.MonkeyPatch.context() as patch:
            return worst(pairs or PAIRS[relation], told or relation, patch, factor=factor, paths=paths)
