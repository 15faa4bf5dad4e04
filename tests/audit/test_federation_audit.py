"""Noise from several contributors, with and without the faults of a federation: exact losses, and published sums."""

import math
import tempfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from spark_jobs.federation import answering, derived, exchange, serving
from spark_jobs.federation.additive import residues
from spark_jobs.federation.agreement import Keys
from spark_jobs.federation.comparison import PaidComparisons, comparison_keys
from spark_jobs.federation.derived import DerivedWords
from spark_jobs.federation.messages import Header
from spark_jobs.federation.noise_shares import NoiseShare
from spark_jobs.federation.ustat import Masked, Servers
from spark_jobs.mechanisms.noise import SeededNoise
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
from tests.support.audit import LONG, log_ratio
from tests.support.federated import SERVERS, SILOS, exchanged, seen_by
from tests.support.federated_points import answered

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


def without_noise(monkeypatch):
    monkeypatch.setattr(NoiseShare, "draw", lambda share, shape, *, noise: np.zeros(shape, np.int64))


class KnownToTheFirst:
    """Shares of noise, of which the first server's are known, and so left out."""

    def __init__(self, law):
        self.law, self.calls = law, 0

    def draw(self, shape, *, noise):
        self.calls += 1
        return self.law.draw(shape, noise=noise) * (self.calls % 2 == 0)


class TestPaidComparisons(SampledAudit):
    """What one of two servers knows of a value that moves below both points that are paid for."""

    mechanisms = ("comparisons paid for beforehand",)
    relations = (REPLACED,)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.2, 5, 3000, 6000
    kept = ()
    faults = {
        "noise left out": Fault(patch=without_noise, samples=600),
        "each evaluation at the whole budget": Fault(planted={"evaluations": 1}, long=True),
        "half the noise": Fault(planted={"epsilon": 2 * EPSILON}, long=True),
    }

    def source(self, fault):
        return SeededNoise(self.seed)

    def mechanism(self, mechanism, relation, noise, *, epsilon=EPSILON, evaluations=2):
        keys = [comparison_keys(np.array(values), bits=3, noise=SeededNoise(9)) for values in ([7, 1], [0, 1])]

        def run(table, count):
            released = np.empty((count, 2), dtype=int)
            for row in released:
                paid = PaidComparisons(keys[table], epsilon=epsilon, evaluations=evaluations, noise=noise)
                paid._law, paid._left = KnownToTheFirst(paid._law), 2
                row[:] = paid.below(2), paid.below(5)
            return log_ratio(released, np.array([2, 2]), np.array([1, 1]), 2.0)

        return run, 1, 0


TABLES = dict(zip(SILOS, (np.array([3, 5]), np.array([0, 2]), np.array([7, 1])), strict=True))
STRANGER = Keys.generate()
"""Keys of nobody who takes part."""


def noise_with(change, module=serving):
    """A patch of the law of the noise that servers between machines add; ``change`` takes and returns its fields."""
    return lambda monkeypatch: monkeypatch.setattr(module, "NoiseShare", lambda **law: NoiseShare(**change(law)))


class TestSumsBetweenMachines(SampledAudit):
    """What one of two servers knows of a person in two silos: the published sum without its own share of the noise."""

    mechanisms = ("sum seen by a colluding server",)
    relations = (ADDED,)
    claimed, at_least, quick, thorough = EPSILON, 0.3, 12_000, 40_000
    faults = {
        "noise left out": Fault(patch=without_noise),
        "half the noise": Fault(patch=noise_with(lambda law: {**law, "epsilon": 2 * Decimal(law["epsilon"])})),
        "silos of one person forgotten": Fault(patch=noise_with(lambda law: {**law, "l1_sensitivity": 1})),
        "colluding servers counted": Fault(patch=noise_with(lambda law: {**law, "colluding": 0})),
    }

    def source(self, fault):
        return None

    def mechanism(self, mechanism, relation, noise):
        table = sum(TABLES.values())
        larger = table + np.array([2, 0])

        def run(exact, count):
            [[more, _]] = [(exact - table) // 2]
            vectors = {name: np.tile(vector, (count, 1)) for name, vector in TABLES.items()}
            for name in SILOS[:2]:
                vectors[name][:, 0] += more
            with tempfile.TemporaryDirectory() as folder:
                total, agreement, keys = exchanged(vectors, Path(folder), silos_per_person=2)
                _, own_noise = seen_by(SERVERS[0], agreement, keys)
            return log_ratio(total - own_noise.view(np.int64), larger, table, 2.0)

        return run, larger, table


AT_ONCE = 100
"""Samples that are asked for together; their time grows with their number and with that of the keys."""


class TestAnswersBetweenMachines(SampledAudit):
    """What one of two servers knows of a person in two silos: numbers of rows below points without its own noise.

    A sample is two points that are paid for with ``EPSILON``; all of them are asked for in one round.
    """

    mechanisms = ("points answered by two servers, seen by one",)
    relations = (ADDED,)
    claimed, quick, thorough = EPSILON, 500 if LONG else 150, 2000
    at_least = 0.1 if LONG else 0.0  # fewer than 2,000 samples see nothing of it, and these take minutes
    kept = ()
    faults = {
        "noise left out": Fault(patch=without_noise, samples=150),
        "half the noise": Fault(
            patch=noise_with(lambda law: {**law, "epsilon": 2 * Decimal(law["epsilon"])}, answering), long=True
        ),
        "silos of one person forgotten": Fault(
            patch=noise_with(lambda law: {**law, "l1_sensitivity": law["l1_sensitivity"] // 2}, answering), long=True
        ),
        "colluding servers counted": Fault(patch=noise_with(lambda law: {**law, "colluding": 0}, answering), long=True),
    }

    def source(self, fault):
        return None

    def mechanism(self, mechanism, relation, noise):
        def run(rows, count):
            parts = [min(AT_ONCE, count - done) for done in range(0, count, AT_ONCE)]
            seen = np.concatenate([own_answers(rows, part) for part in parts])
            return log_ratio(seen, np.array([2, 2]), np.array([0, 0]), 4.0)

        return run, 1, 0


def own_answers(rows, count):
    """What a server without noise of its own knows of pairs of points, shape (count, 2)."""
    points = np.arange(1, 2 * count + 1)
    tables = dict.fromkeys(SILOS, np.zeros(2 * count + 1, dtype=int))
    for name in SILOS[:2]:
        tables[name] = tables[name] + rows * (np.arange(2 * count + 1) == 0)
    with tempfile.TemporaryDirectory() as folder:
        numbers, own_noise = answered(tables, points, Path(folder), epsilon=str(count * EPSILON), silos_per_person=2)
    return (numbers - own_noise).reshape(count, 2)


def shares_in_the_clear(monkeypatch):
    def split(vector, *, servers, noise):
        return (residues(vector), *[np.zeros(vector.shape, np.uint64)] * (servers - 1))

    monkeypatch.setattr(exchange, "split", split)


def masks_of_nobody(monkeypatch):
    original = exchange.derived_key
    monkeypatch.setattr(exchange, "derived_key", lambda keys, purpose, **more: original(STRANGER, purpose, **more))


class TestSharesBetweenMachines(SampledAudit):
    """A server that guesses a silo's counts, and makes shares of them with keys that it has: no share tells it more."""

    mechanisms = {f"shares seen by server {name}": name for name in SERVERS}
    relations = (ADDED,)
    claimed, quick, thorough = 0, 2000, 4000
    kept = "all"
    faults = {
        "shares in the clear": Fault(patch=shares_in_the_clear, mechanisms=["shares seen by server one"]),
        "masks without a secret": Fault(patch=masks_of_nobody),
    }

    def source(self, fault):
        return None

    def mechanism(self, mechanism, relation, noise):
        server = self.mechanisms[mechanism]
        table = TABLES["north"]
        larger = table + np.array([1, 0])

        def run(exact, count):
            vectors = {name: np.tile(vector, (count, 1)) for name, vector in TABLES.items()}
            vectors["north"] = np.tile(exact, (count, 1))
            with tempfile.TemporaryDirectory() as folder:
                _, agreement, keys = exchanged(vectors, Path(folder))
                seen, _ = seen_by(server, agreement, keys)
            guess = np.tile(larger, (count, 1))
            header = Header(
                agreement=agreement.sha256, kind="share", turn=0, sender="north", recipient=server,
                shape=guess.shape, epsilon="1", l1_sensitivity=1,
            )  # fmt: skip
            key = derived.derived_key(STRANGER, "masks", header=header, vectors=[residues(guess)])
            guessed = exchange.split(guess, servers=len(SERVERS), noise=DerivedWords(key))[SERVERS.index(server)]
            return -np.abs((seen["north"] - guessed).view(np.int64).astype(float)).sum(axis=1)

        return run, larger, table
