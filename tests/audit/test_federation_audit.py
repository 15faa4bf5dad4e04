"""Noise from several contributors, with and without the faults of a federation: exact losses, and published sums."""

import math
from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

from spark_jobs.federation.noise_shares import NoiseShare
from spark_jobs.federation.ustat import Masked, Servers
from spark_jobs.mechanisms.noise import SeededNoise
from tests.suites.audit import ADDED, ExactAudit, Fault, SampledAudit
from tests.support.audit import log_ratio

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)


def exact_loss(share, *, shares, sensitivity):
    """The loss of a sum whose noise is ``shares`` shares, for neighbours ``sensitivity`` apart."""
    one_sided = stats.nbinom(shares / share.honest, -math.expm1(-1 / share.scale))
    probabilities = one_sided.pmf(np.arange(int(60 * share.scale)))
    law = np.convolve(probabilities, probabilities[::-1])
    far = int(20 * share.scale)
    law = law[probabilities.size - 1 - far : probabilities.size + far]  # beyond, the sums are cut off
    ratio = np.log(law[sensitivity:]) - np.log(law[:-sensitivity])
    return round(float(np.abs(ratio).max()), 9)


class TestSharesOfNoise(ExactAudit):
    """Four contributors, of whom one may collude: the other three's shares are the noise."""

    mechanisms = ("shares of noise",)
    relations = (ADDED,)
    claimed, at_least = EPSILON, 0.99
    faults = {
        "a share left out": Fault(planted={"shares": 2}),
        "colluding contributors counted": Fault(planted={"colluding": 0}),
        "silos of one person forgotten": Fault(planted={"silos": 1}),
    }

    def loss(self, mechanism, relation, *, shares=3, colluding=1, silos=2):
        share = NoiseShare(epsilon=EPSILON, l1_sensitivity=silos, contributors=4, colluding=colluding)
        return exact_loss(share, shares=shares, sensitivity=2)


class FirstWithoutNoise:
    """A contributor that adds nothing; ``NoiseShare.draw`` is replaced by this."""

    def __init__(self):
        self.calls = 0
        self.draw = NoiseShare.draw

    def __call__(self, share, shape, *, noise):
        self.calls += 1
        return self.draw(share, shape, noise=noise) * (self.calls % 3 != 1)


def leave_a_share_out(monkeypatch):
    without = FirstWithoutNoise()
    monkeypatch.setattr(NoiseShare, "draw", lambda share, shape, *, noise: without(share, shape, noise=noise))


class TestPublishedSums(SampledAudit):
    """The published sum of three silos, one of which holds the person who is added."""

    mechanisms = {
        "sum of three servers": lambda noise: Servers(servers=3, colluding=0, noise=noise),
        "sum behind masks": lambda noise: Masked(threshold=3, noise=noise),
    }
    relations = (ADDED,)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.3, 91, 12_000, 40_000
    faults = {
        "a share left out": Fault(patch=leave_a_share_out),
        "shares of more contributors": Fault(planted={"epsilon": 2 * EPSILON}),
    }

    def source(self, fault):
        return SeededNoise(self.seed)

    def mechanism(self, mechanism, relation, noise, *, epsilon=EPSILON):
        parties = [np.array([3, 5]), np.array([0, 2]), np.array([7, 1])]
        table = sum(parties)
        larger = table + np.array([1, 0])

        def run(exact, count):
            changed = parties[0] + (exact - table)
            vectors = [np.tile(vector, count) for vector in (changed, *parties[1:])]
            way = self.mechanisms[mechanism](noise)
            released = way.noisy_sum(vectors, epsilon=epsilon, l1_sensitivity=1).reshape(count, 2)
            return log_ratio(released, larger, table, 1.0)

        return run, larger, table
