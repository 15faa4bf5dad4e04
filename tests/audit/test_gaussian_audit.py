"""Approximate guarantees are audited over hockey-stick events: discrete Gaussian noise at its exact delta."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spark_jobs.mechanisms.noise import SeededNoise, gaussian_stddev
from tests.suites.audit import Fault, SampledAudit
from tests.support.audit import audit, convicts, samples

pytestmark = pytest.mark.audit

RHO = 0.5
EPSILON = 1.0


def exact_delta(stddev, epsilon):
    """Canonne, Kamath, Steinke 2020, theorem 7: the hockey-stick divergence of noise around 0 and around 1."""
    z = np.arange(-math.ceil(40 * stddev), math.ceil(40 * stddev) + 1)
    mass = np.exp(-(z**2) / (2 * stddev**2))
    mass /= mass.sum()
    level = epsilon * stddev**2
    return float(mass[z > level - 0.5].sum() - math.exp(epsilon) * mass[z > level + 0.5].sum())


DELTA = exact_delta(gaussian_stddev(RHO, 1.0), EPSILON)


def outputs(source, *, rho=RHO, coordinates=1, sensitivity=1.0):
    """The sum of the outputs' coordinates: a monotone function of the likelihood ratio."""

    def mechanism(value, count):
        noisy = source.gaussian(np.full((count, coordinates), value), rho=rho, l2_sensitivity=sensitivity)
        return noisy.sum(axis=1)

    return mechanism, 1, 0


class TestGaussianNoise(SampledAudit):
    mechanisms = ("discrete Gaussian noise",)
    relations = ("2-norm 1 apart",)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.5, 33, 40_000, 40_000
    # four coordinates that one record moves are 2 apart; two answers to one question are sqrt 2 apart
    faults = {
        "half the noise": Fault(planted={"rho": 4 * RHO}),
        "sensitivity off by one record": Fault(planted={"coordinates": 4}),
        "budget spent twice": Fault(planted={"coordinates": 2}),
    }

    def delta(self, mechanism):
        return DELTA

    def mechanism(self, mechanism, relation, noise, **planted):
        return outputs(noise, **planted)


@pytest.mark.verify
class TestSeededGaussianNoise(TestGaussianNoise):
    faults = {}

    def mechanism(self, mechanism, relation, noise):
        return outputs(SeededNoise(31))


@pytest.mark.verify
def test_the_event_of_the_divergence_can_be_chosen_beforehand():
    # outputs above epsilon stddev^2 + 1/2 are those whose likelihood ratio exceeds exp(epsilon)
    level = math.floor(EPSILON * gaussian_stddev(RHO, 1.0) ** 2 + 0.5) + 1
    mechanism, first, second = outputs(SeededNoise(32))
    shifted = audit(mechanism, first, second, samples=samples(40_000), delta=DELTA, threshold=level)
    assert 0.5 * EPSILON <= shifted.epsilon <= EPSILON


@pytest.mark.verify
def test_a_delta_that_is_too_small_is_convicted():
    found = audit(*outputs(SeededNoise(34)), samples=samples(40_000), delta=DELTA / 4)
    fault = "delta a quarter of what it is"
    assert convicts(found, "discrete Gaussian noise", relation="2-norm 1 apart", claimed=EPSILON, fault=fault)
