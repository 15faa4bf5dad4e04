"""Groups that share no row cost as much as one; groups that share rows, and noise for one relation too few, do not."""

import numpy as np
import pytest

from spark_jobs.contract.options import ByGroupSettings
from spark_jobs.diagnostics.by_group.measurement import measure_by_group
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.statistics import GroupedScoreCounts, ScoreCounts
from tests.audit.test_roc_curve_audit import EPSILON
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, forget_spending
from tests.support.audit import Tampered
from tests.support.noises import worst_loss

pytestmark = [pytest.mark.audit, pytest.mark.slow]

SETTINGS = ByGroupSettings(kinds=["auc", "calibration", {"kind": "confusion_matrix", "thresholds": [0.3, 0.5]}])


def table(*rows):
    """Rows (group, label, cell) on a grid of four cells, in groups a, b and all others."""
    both = np.array([[[1, 0, 2, 0], [0, 3, 0, 1]]] * 3)
    for group, label, cell in rows:
        both[group, label, cell] += 1
    return GroupedScoreCounts(keys=("a", "b"), negatives=both[:, 0], positives=both[:, 1])


PAIRS = {
    "added": [(table((0, 1, 3)), table()), (table((2, 0, 0)), table())],
    "replaced within a group": [(table((1, 1, 0)), table((1, 0, 3)))],
    "replaced by one of another group": [(table((0, 1, 0)), table((1, 0, 3))), (table((2, 1, 3)), table((0, 1, 3)))],
}


def overlapping(monkeypatch):
    """Have the last group hold all rows, as if there were a total beside the groups at no further cost."""

    def groups(self):
        return tuple(
            ScoreCounts(negatives=negatives, positives=positives)
            for negatives, positives in zip(
                [*self.negatives[:-1], self.negatives.sum(axis=0)],
                [*self.positives[:-1], self.positives.sum(axis=0)],
                strict=True,
            )
        )

    monkeypatch.setattr(GroupedScoreCounts, "groups", property(groups))


class TestExactLossByGroup(ExactAudit):
    """Every number of the draw has Laplace noise, so its loss is computed from what it asks of the noise."""

    mechanisms = PAIRS
    relations = (ADDED, REPLACED)
    claimed, at_least = EPSILON, 0.45
    faults = {
        **ExactAudit.faults,
        "every step spends all of the budget": Fault(patch=forget_spending, mechanisms=["added"], relations=[ADDED]),
        "a group that holds the rows of others": Fault(patch=overlapping, mechanisms=["added"], relations=[ADDED]),
    }
    faults["half the noise"] = Fault(planted={"less": 2}, mechanisms=["added"], relations=[ADDED])
    faults["budget spent twice"] = Fault(planted={"times": 2}, mechanisms=["added"], relations=[ADDED])
    faults["noise for an added row"] = Fault(planted={"told": ADDED}, mechanisms=[*PAIRS][1:], relations=[REPLACED])

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        def run(statistic, noise):
            terms = Terms(
                epsilon=EPSILON, neighbours=told or relation, noise=Tampered(source=noise, epsilon_factor=less)
            )
            for _ in range(times):
                measure_by_group(statistic, SETTINGS, terms)

        # one added row is no pair of neighbours with a row replaced, and the other way around
        pairs = PAIRS["added"] if relation is ADDED else PAIRS[mechanism]
        return max(worst_loss(run, *pair) for pair in pairs)
