"""Figures released without a delta: by the log ratio of the densities that are claimed, on the grid that comes out."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import auc, average_precision
from spark_jobs.mechanisms.continuous_noise import Density
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.pure_release import pure_noise, release_pure
from spark_jobs.statistics import ScoreCounts
from tests.audit.test_smooth_sensitivity_audit import FEW, TABLES, TWO_RECORDS, place
from tests.support.audit import audit, convicts, exactly, keeps, samples
from tests.support.smooth_loss import log_density, loss_between

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = 2
SHAPES = {density: pure_noise(EPSILON, Density(density)) for density in ("polynomial", "cauchy")}
ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
FIGURES = {"AUC": auc, "average precision": average_precision}
NAMES = pytest.mark.parametrize("name", FIGURES)
DENSITIES = pytest.mark.parametrize("density", SHAPES)
BOTH = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])


def log_of(shape):
    return log_density(shape.density, shape.degrees, float(shape.epsilon) / shape.rate)


def evidence(release, name, relation, shape, pair, *, times=1):
    """Log ratios of the claimed densities, at what ``release(table)`` gives."""
    log_h = log_of(shape)
    places = [place(name, each, relation, shape.smoothness) for each in pair]

    def mechanism(table, count):
        released = np.array([[release(table) for _ in range(times)] for _ in range(count)])
        one, other = (log_h((released - value) / (shape.scale * bound)) - np.log(bound) for value, bound in places)
        return (one - other).sum(axis=1)

    return mechanism, *pair


def by_mechanism(name, relation, density, noise, *, fewer=1, pair=None, times=1):
    shape = SHAPES[density]
    drawn = replace(shape, scale=shape.scale / fewer)

    def release(table):
        value, bound = place(name, table, relation, shape.smoothness)
        return release_pure(Decimal(value), bound, shape=drawn, noise=noise)

    return evidence(release, name, relation, shape, pair or TABLES[name, relation], times=times)


def what(name, density):
    return f"{name} without a delta, {density} noise"


@pytest.mark.sampled("name")
@NAMES
@DENSITIES
@BOTH
def test_a_pure_release_keeps_epsilon_and_uses_it(name, density, relation):
    found = audit(*by_mechanism(name, relation, density, SecureNoise()), samples=samples(600), threshold=0.0)
    assert keeps(found, what(name, density), relation=relation, claimed=EPSILON, at_least=0.15)


@pytest.mark.sampled
@NAMES
@BOTH
def test_a_diagnostic_releases_by_it(name, relation):
    def release(table):
        # an empty cell more makes a grid of it
        negatives, positives = (np.array([*counts, 0]) for counts in table)
        counts = ScoreCounts(negatives=negatives, positives=positives)
        options = {"epsilon": EPSILON, "neighbours": relation, "noise": SecureNoise(), "method": "polynomial"}
        return FIGURES[name].measure(counts, **options, interval=False).value

    mechanism = evidence(release, name, relation, SHAPES["polynomial"], TABLES[name, relation])
    found = audit(*mechanism, samples=samples(400), threshold=0.0)
    assert keeps(found, f"{name}, the diagnostic", relation=relation, claimed=EPSILON, at_least=0.1)


@pytest.mark.verify
@NAMES
@BOTH
@pytest.mark.parametrize(
    ("fault", "planted"),
    [("half the noise", {"fewer": 2}), ("budget spent twice", {"times": 2})],
    ids=["halved", "twice"],
)
def test_a_faulty_pure_release_is_convicted(name, relation, fault, planted):
    mechanism = by_mechanism(name, relation, "polynomial", SeededNoise(111), **planted)
    found = audit(*mechanism, samples=samples(3000))
    assert convicts(found, what(name, "polynomial"), relation=relation, claimed=EPSILON, fault=fault)


@pytest.mark.verify
@NAMES
def test_a_bound_for_one_record_is_convicted_where_two_are_replaced(name):
    mechanism = by_mechanism(name, REPLACED, "polynomial", SeededNoise(112), pair=TWO_RECORDS[name])
    found = audit(*mechanism, samples=samples(3500))
    fault = "sensitivity off by one record"
    assert convicts(found, what(name, "polynomial"), relation=REPLACED, claimed=EPSILON, fault=fault)


def exact_loss(name, density, relation, *, fewer=1):
    shape = SHAPES[density]
    pairs = [TABLES[name, relation], *FEW[name][relation]]
    places = ([place(name, table, relation, shape.smoothness) for table in pair] for pair in pairs)
    return exactly(max(loss_between(log_of(shape), shape.scale / fewer, pair) for pair in places))


@NAMES
@DENSITIES
@BOTH
def test_the_exact_loss_of_a_pure_release(name, density, relation):
    said = {"relation": relation, "claimed": EPSILON}
    assert keeps(exact_loss(name, density, relation), what(name, density), **said, at_least=0.9)
    halved = exact_loss(name, density, relation, fewer=2)
    assert convicts(halved, what(name, density), **said, fault="half the noise")
