from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.mechanisms.k_norm import Body
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise, k_norm_scale
from tests.support.audit import Tampered, audit, convicts, keeps, log_ratio, samples
from tests.support.noises import distance, radii

pytestmark = pytest.mark.audit

EPSILON = Decimal("0.8")
NAME, JOINT = "discrete Laplace noise", "noise drawn together (K-norm)"
SOURCES = pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(71)], ids=lambda noise: type(noise).__name__)


def noisy_vector(noise, sensitivity):
    """A vector whose neighbour differs by 1 in ``sensitivity`` coordinates."""
    zero, one = np.zeros(sensitivity, dtype=np.int64), np.ones(sensitivity, dtype=np.int64)

    def mechanism(table, count):
        noisy = noise.laplace(np.tile(table, (count, 1)), epsilon=EPSILON, l1_sensitivity=sensitivity)
        return log_ratio(noisy, one, zero, sensitivity / float(EPSILON))

    return mechanism, one, zero


@pytest.mark.sampled
@SOURCES
@pytest.mark.parametrize("sensitivity", [1, 2, 3])
def test_laplace_noise_keeps_epsilon_and_uses_it(source, sensitivity):
    found = audit(*noisy_vector(source, sensitivity), samples=samples(30_000 // sensitivity))
    assert keeps(found, NAME, relation=f"1-norm {sensitivity} apart", claimed=EPSILON, at_least=0.4)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("fault", "sensitivity"),
    [({"epsilon_factor": 2}, 1), ({"epsilon_factor": 2}, 3), ({"missing_rows": 1}, 2), ({"missing_rows": 1}, 3)],
    ids=str,
)
def test_too_little_noise_is_convicted(fault, sensitivity):
    noise = Tampered(source=SeededNoise(72), **fault)
    found = audit(*noisy_vector(noise, sensitivity), samples=samples(60_000))
    planted = "half the noise" if "epsilon_factor" in fault else "sensitivity off by one record"
    assert convicts(found, NAME, relation=f"1-norm {sensitivity} apart", claimed=EPSILON, fault=planted)


@pytest.mark.verify
def test_a_budget_spent_twice_is_convicted():
    noise = SeededNoise(73)
    zero, one = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64)

    def twice(table, count):
        # two answers to one question, each at the whole budget
        noisy = noise.laplace(np.tile(table, (count, 1)), epsilon=EPSILON, l1_sensitivity=1)
        return log_ratio(noisy, one, zero, 1 / float(EPSILON))

    found = audit(twice, one, zero, samples=samples(40_000))
    assert convicts(found, NAME, relation="1-norm 1 apart", claimed=EPSILON, fault="budget spent twice")


BODY = Body(unit=16, widths=(1, 1, 1), forms=((-1, 1, 1),), bounds=(1,))
CORNERS = {"one number": (16, 0, 0), "two numbers": (16, 16, 0), "all numbers": (16, 8, 8)}


def joint_vector(draw, change, body=BODY):
    """Three numbers whose neighbour differs by a change on the surface of the body."""
    zero, one = np.zeros(3, dtype=np.int64), np.array(change)

    def mechanism(table, count):
        noisy = draw(np.tile(table, (count, 1)))
        apart = (radii(body, noisy - end).astype(float) for end in (zero, one))
        return (next(apart) - next(apart)) / k_norm_scale(EPSILON, body)

    return mechanism, one, zero


@pytest.mark.sampled
@SOURCES
@pytest.mark.parametrize("change", CORNERS.values(), ids=CORNERS)
def test_joint_noise_keeps_epsilon_and_uses_it(source, change):
    assert distance(BODY, change) == 1

    def draw(values):
        return source.k_norm(values, epsilon=EPSILON, body=BODY)

    found = audit(*joint_vector(draw, change), samples=samples(20_000))
    assert keeps(found, JOINT, relation=f"{change} apart", claimed=EPSILON, at_least=0.3)


FAULTS = {
    "half the noise": lambda values: SeededNoise(74).k_norm(values, epsilon=2 * EPSILON, body=BODY),
    "a bound too small": lambda values: SeededNoise(74).k_norm(
        values, epsilon=EPSILON, body=replace(BODY, unit=8, widths=(1, 2, 2), bounds=(2,))
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS)
def test_too_little_joint_noise_is_convicted(fault):
    found = audit(*joint_vector(FAULTS[fault], CORNERS["one number"]), samples=samples(60_000))
    assert convicts(found, JOINT, relation="one number apart", claimed=EPSILON, fault=fault)


@SOURCES
def test_gaussian_noise_is_as_far_apart_as_rho_allows_and_no_farther(source):
    # rho-zCDP bounds E[exp((a - 1) L)] for every a; at a = 2: the mean of the likelihood ratio is at most exp(2 rho)
    rho, count = 0.5, samples(60_000)
    noisy = source.gaussian(np.ones(count, dtype=np.int64), rho=rho, l2_sensitivity=1.0).astype(float)
    ratio = np.exp(rho * (2 * noisy - 1))
    error = 5 * ratio.std() / np.sqrt(count)
    assert abs(np.log(ratio.mean()) - 2 * rho) < error / ratio.mean()
    less = source.gaussian(np.ones(count, dtype=np.int64), rho=2 * rho, l2_sensitivity=1.0).astype(float)
    halved = np.exp(2 * rho * (2 * less - 1))
    assert np.log(halved.mean()) > 2 * rho + 5 * halved.std() / np.sqrt(count) / halved.mean()
