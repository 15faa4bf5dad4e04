"""Groups that share no row cost as much as one; groups that share rows, and noise for one relation too few, do not."""

import numpy as np
import pytest

from spark_jobs.application.run import measure
from spark_jobs.contract.options import ByGroupOptions, ByGroupSettings, CalibrationOptions, RocCurveOptions
from spark_jobs.diagnostics._shared_groups.measurement import measure_shared
from spark_jobs.diagnostics.by_group.measurement import measure_by_group
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.statistics import GroupedScoreCounts, PairedScoreCounts, ScoreCounts
from tests.application.test_draw import request
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


READERS = (
    RocCurveOptions(),
    CalibrationOptions(),
    ByGroupOptions(kind="by_group", group_by="g", groups=("a", "b"), kinds=SETTINGS.kinds),
)


def holding_others(counts):
    """Counts whose last group holds the rows of the others, too."""
    both = [np.concatenate([of[:-1], of.sum(axis=0, keepdims=True)]) for of in (counts.negatives, counts.positives)]
    return GroupedScoreCounts(keys=counts.keys, negatives=both[0], positives=both[1])


class TestExactLossOfSharedByGroup(ExactAudit):
    """Groups as parts of the measurement of all rows: the histograms of all rows, and every group's numbers."""

    mechanisms = PAIRS
    relations = (ADDED, REPLACED)
    claimed, at_least = EPSILON, 0.45
    faults = {
        **{name: fault for name, fault in TestExactLossByGroup.faults.items() if not fault.patch},
        "every step spends all of the budget": Fault(patch=forget_spending, mechanisms=["added"], relations=[ADDED]),
        "a group that holds the rows of others": Fault(
            planted={"made": holding_others}, mechanisms=["added"], relations=[ADDED]
        ),
    }

    def loss(self, mechanism, relation, *, less=1, times=1, told=None, made=lambda counts: counts):
        def run(statistic, noise):
            terms = Terms(
                epsilon=EPSILON, neighbours=told or relation, noise=Tampered(source=noise, epsilon_factor=less)
            )
            for _ in range(times):
                measure_shared(made(statistic), READERS, terms)

        pairs = PAIRS["added"] if relation is ADDED else PAIRS[mechanism]
        return max(worst_loss(run, *pair) for pair in pairs)


def of_rows(*rows):
    """The statistics of rows (group, label, first cell, second cell), whose scores are of a hundredth each."""
    group, label, first, second = np.array(rows).T
    keys = np.array(["a", "b", "c"], dtype=object)[group]
    return {
        "scores": ScoreCounts.from_arrays(label, first / 100),
        "grouped_scores": GroupedScoreCounts.from_arrays(label, first / 100, keys, keys=("a", "b")),
        "paired_scores": PairedScoreCounts.from_arrays(label, first / 100, second / 100),
    }


COMMON = [
    (group, label, 20 + 7 * place, 31 + 5 * place) for group in range(3) for label in (0, 1) for place in range(9)
]
UNIT = [(0, 1, 80, 10), (1, 1, 5, 95), (2, 0, 90, 4)]
OTHER_MODEL = {"kind": "columns", "score": "second", "basis": "public"}


def loss_of_unit(**changes):
    """The loss of a whole release by a unit whose rows lie in all groups."""
    by_group = {"kind": "by_group", "group_by": "g", "groups": ["a", "b"], "kinds": ["auc", "calibration"]}
    wanted = request(
        diagnostics=["roc_curve", "calibration", by_group, {"kind": "roc_comparison", "other": OTHER_MODEL}],
        budget={"epsilon": "3"}, population_share=0, unit={"column": "person", "max_rows": 3, **changes},
    )  # fmt: skip

    def run(statistics, noise):
        measure(wanted, {one: statistics[one.kind] for one in wanted.statistics}, charge_id=None, noise=noise)

    return float(worst_loss(run, of_rows(*COMMON, *UNIT), of_rows(*COMMON)))


def test_a_unit_whose_rows_lie_in_several_groups_costs_its_rows_in_all():
    assert 1.5 <= loss_of_unit() <= 3 + 1e-9


def test_fewer_rows_than_a_unit_has_cost_more_than_is_claimed():
    assert loss_of_unit(max_rows=1) > 3
