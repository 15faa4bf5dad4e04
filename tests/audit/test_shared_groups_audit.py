import numpy as np
import pytest

from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.group_sums import centred_sums
from tests.audit.test_roc_curve_audit import EPSILON, PAIRS
from tests.suites.audit import SampledAudit
from tests.support.audit import log_ratio
from tests.support.sharing import measure_shared

pytestmark = [pytest.mark.audit, pytest.mark.slow]


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
        options = {"epsilon": EPSILON, "neighbours": neighbours, "noise": noise, "kinds": ("roc_curve", "calibration")}
        return np.array([evidence(measure_shared(statistic, **options), *pair) for _ in range(count)])

    return mechanism, *pair


class TestSharedGroups(SampledAudit):
    mechanisms = ("shared groups",)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.05, 71, 4000, 4000

    def mechanism(self, mechanism, relation, noise, *, told=None):
        return shared_release(noise, told or relation, PAIRS[relation])
