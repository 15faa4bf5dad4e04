import numpy as np
import pytest

from spark_jobs.contract.options import AucOptions, CalibrationOptions, ConfusionMatrixOptions, RocCurveOptions
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.group_sums import centred_sums
from tests.audit.test_roc_curve_audit import EPSILON, PAIRS
from tests.suites.audit import ExactAudit, Fault, SampledAudit, forget_spending
from tests.support.audit import Tampered, log_ratio
from tests.support.noises import worst_loss
from tests.support.sharing import measure_shared

pytestmark = [pytest.mark.audit, pytest.mark.slow]

SHARING = RocCurveOptions(), AucOptions(), CalibrationOptions(), ConfusionMatrixOptions(thresholds=(0.3, 0.5))


def evidence(measurement, first, second):
    """Log ratio of all that a shared draw holds, under the claimed scales."""
    value, both = 0.0, [np.stack([t.negatives, t.positives]) for t in (first, second)]
    for cells in measurement.located:
        classes = [counts.sum(axis=0) for counts in both] if cells.counts.ndim == 1 else both
        value += log_ratio(
            cells.counts.ravel(), *(totals(counts, cells.cuts).ravel() for counts in classes), cells.scale
        )
    groups = measurement.groups
    of_counts, of_sums = groups.scales()
    noisy = np.concatenate([groups.negatives, groups.positives])
    value += log_ratio(noisy, *(totals(counts, groups.cuts).ravel() for counts in both), of_counts[0])
    for group in np.flatnonzero(of_sums):
        exact = (centred_sums(counts.sum(axis=0), groups.cuts)[group : group + 1] for counts in both)
        value += log_ratio(groups.centred[group : group + 1], *exact, of_sums[group])
    return value


def shared_release(noise, neighbours, pair):
    def mechanism(statistic, count):
        options = {"epsilon": EPSILON, "neighbours": neighbours, "noise": noise, "diagnostics": SHARING}
        return np.array([evidence(measure_shared(statistic, **options), *pair) for _ in range(count)])

    return mechanism, *pair


class TestSharedGroups(SampledAudit):
    mechanisms = ("shared groups",)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.05, 71, 800, 4000

    def mechanism(self, mechanism, relation, noise, *, told=None):
        return shared_release(noise, told or relation, PAIRS[relation])


class TestExactLossOfSharedGroups(ExactAudit):
    """Every number of a shared draw has Laplace noise, so its loss is computed from what it asks of the noise."""

    mechanisms = ("shared groups",)
    claimed, at_least = EPSILON, 0.8
    faults = {**ExactAudit.faults, "every step spends all of the budget": Fault(patch=forget_spending)}

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        def run(statistic, noise):
            source = Tampered(source=noise, epsilon_factor=less)
            for _ in range(times):
                measure_shared(
                    statistic,
                    diagnostics=SHARING,
                    epsilon=EPSILON,
                    neighbours=told or relation,
                    noise=source,
                )

        return worst_loss(run, *PAIRS[relation])
