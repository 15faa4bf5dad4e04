"""A quantile with its interval: the exact loss of the choice of a cell and of the counts around it, together."""

import itertools
from functools import partial

import numpy as np
import pytest

from spark_jobs.diagnostics import quantile
from spark_jobs.mechanisms.quantiles import quantile_scores, quantile_sensitivity, quantile_target
from spark_jobs.statistics import ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid
from tests.suites.audit import ExactAudit, Fault, forget_spending
from tests.support.audit import Tampered
from tests.support.neighbouring import neighbouring
from tests.support.noises import worst_loss
from tests.support.selection_loss import flip_probabilities

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = 2
GRID = ValueGrid(lower=0, upper=1, cells=4)
LEVELS = {"median with its interval": 0.5, "quantile of 0.9 with its interval": 0.9}


def loss_of(pair, level, neighbours, *, less, times):
    """The largest loss of a release, over the cells that it may choose."""
    asked = []

    def run(cell, counts, noise):
        def chosen(cells, *, level, epsilon, neighbours, noise):
            target = quantile_target(level)
            options = {"epsilon": less * epsilon, "sensitivity": quantile_sensitivity(target, neighbours)}
            asked.append(flip_probabilities(quantile_scores(cells, target), **options, monotone=False)[cell])
            return cell

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quantile, "private_quantile", chosen)
            source = Tampered(source=noise, epsilon_factor=less)
            options = {"epsilon": EPSILON, "level": level, "neighbours": neighbours, "noise": source}
            quantile.measure(ValueCounts(counts=counts, grid=GRID), **options)

    worst = 0.0
    for cell in range(GRID.size):
        asked.clear()
        around = worst_loss(partial(run, cell), *pair)
        one, other = (float(np.log(float(chance))) for chance in asked)
        worst = max(worst, times * (abs(one - other) + float(around)))
    return worst


class TestExactLoss(ExactAudit):
    mechanisms = LEVELS
    claimed, at_least = EPSILON, 0.7
    faults = {**ExactAudit.faults, "each part at the whole budget": Fault(patch=forget_spending)}

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        tables = [np.array([*held, 0]) for held in itertools.product(range(3), repeat=3)]
        pairs = [(table, other) for table in tables[::4] for other in neighbouring(table, relation)]
        terms = {"less": less, "times": times}
        return max(loss_of(pair, LEVELS[mechanism], told or relation, **terms) for pair in pairs)
