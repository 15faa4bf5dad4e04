from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.group_sums import centred_sums
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from tests.audit.test_roc_curve_audit import EPSILON, FLIPPED, PAIRS
from tests.support.audit import Tampered, audit, convicts, keeps, log_ratio, samples
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


@pytest.mark.sampled
@PAIRS
def test_a_shared_release_keeps_epsilon_and_uses_it(neighbours, pair):
    found = audit(*shared_release(SecureNoise(), neighbours, pair), samples=samples(4000))
    assert keeps(found, "shared groups", relation=neighbours, claimed=EPSILON, at_least=0.05)


@pytest.mark.verify
@PAIRS
def test_half_the_noise_is_convicted(neighbours, pair):
    noise = Tampered(source=SeededNoise(71), epsilon_factor=Decimal(2))
    found = audit(*shared_release(noise, neighbours, pair), samples=samples(4000))
    assert convicts(found, "shared groups", relation=neighbours, claimed=EPSILON, fault="half the noise")


@pytest.mark.verify
def test_noise_for_an_added_row_is_convicted_where_rows_are_replaced():
    found = audit(*shared_release(SeededNoise(72), Neighbours.ADD_REMOVE, FLIPPED), samples=samples(4000))
    relation, fault = Neighbours.REPLACE_ONE, "noise for an added row"
    assert convicts(found, "shared groups", relation=relation, claimed=EPSILON, fault=fault)
