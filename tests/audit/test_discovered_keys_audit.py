"""Keys that are not public: the exact delta of what is released of them, for rows that are added, removed or replaced.

The law of a key's numbers is enumerated by the product itself: many keys with the same rows, each with other noise, of
which every point of a lattice occurs once. What is released of them, with the probabilities of the points at the
requested scale, is the law of one key, silence included. Keys are independent, so that of two keys it is a product.
"""

from __future__ import annotations

import itertools
from decimal import Decimal
from functools import cache

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms import discovered_keys
from spark_jobs.mechanisms.noise import laplace_scale
from spark_jobs.statistics import SumsByKey
from spark_jobs.statistics.key_batch import KeyBatch
from tests.suites.audit import ADDED, ExactAudit, Fault

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON, DELTA, MIN_UNITS = 1.0, 1e-3, 2
BEYOND = 13
"""Noise beyond so many scales has a probability of a few millionths, which is no part of the loss."""
MEASURES = {"counts": [], "counts and sums": [{"of": "v", "bounds": [0, 2], "step": 1}]}
ROWS = (0, 1, 2, 3, 30)
"""Of a key: some of the fewest, and so many that it is released for sure."""


class EveryPoint:
    """Noise of which each point of a lattice occurs once; ``chances`` has its probabilities.

    Args:
        numbers: of each key.
        factor: how many times the epsilon that was asked for is spent.
        left_out: whether the noise is left out.
        scale: of the noise as shipped, for the size of the lattice.
    """

    private, guarantee, joint = False, "NOT PRIVATE", True

    def __init__(self, numbers, *, factor, left_out, scale):
        self.numbers, self.factor, self.left_out = numbers, factor, left_out
        reach = np.arange(-int(BEYOND * scale) - 1, int(BEYOND * scale) + 2)
        self.points = np.array(list(itertools.product(reach, repeat=numbers)), dtype=np.int64)
        self.chances = None

    def laplace(self, values, *, epsilon, l1_sensitivity):
        if values.ndim == 1 or not values.size:  # incomplete rows, of which there are none, and the draw without keys
            return np.array(values)
        assert values.shape == self.points.shape
        ratio = np.exp(-1 / laplace_scale(float(epsilon) * self.factor, l1_sensitivity))
        law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(self.points)
        self.chances = (law if not self.left_out else (self.points == 0).astype(float)).prod(axis=1)
        return values + self.points

    def words(self, count):
        raise NotImplementedError


def law_of_key(mechanism, relation, rows, total, *, factor=1, left_out=False):
    """The probability of silence, and of each released pair of numbers, by the pair."""
    measures = MEASURES[mechanism]
    scale = (2 if measures else 1) / EPSILON * (1 if relation is ADDED else 2)
    noise = EveryPoint(1 + len(measures), factor=factor, left_out=left_out, scale=scale)
    count = len(noise.points)
    batch = KeyBatch(
        keys=[str(place) for place in range(count)],
        rows=np.full(count, rows),
        incomplete=np.zeros(count, dtype=np.int64),
        sums=np.full((len(measures), count), total),
    )
    by = [{"column": "page", "keys": "discover", "min_units": MIN_UNITS}]
    design = SumsByKey.from_arrays({"page": [], "v": []}, by=by, measures=measures).design
    drawn = aggregates.measure(
        SumsByKey(design=design, batches=lambda: iter([batch])),
        epsilon=EPSILON, delta=Decimal(str(DELTA)), neighbours=relation, noise=noise,
    )  # fmt: skip
    shown = np.array(drawn.discovered.keys, dtype=int)
    if noise.chances is None:  # too few rows for any noise
        return {None: 1.0}
    pairs = map(tuple, drawn.cells.numbers.tolist())
    law = dict(zip(pairs, noise.chances[shown].tolist(), strict=True))
    return {None: 1.0 - sum(law.values()), **law}


def ratios(one, other):
    """The outcomes of a key merged by the ratio of their probabilities; a hockey stick of a product needs no more."""
    outcomes = list({**one, **other})
    p, q = (np.array([law.get(outcome, 0.0) for outcome in outcomes]) for law in (one, other))
    return merged(p, q)


def merged(p, q):
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((p < 1e-13) & (q < 1e-13), 0.0, np.round(np.log(p) - np.log(q), 9))
    _, place = np.unique(ratio, return_inverse=True)
    return np.bincount(place, p), np.bincount(place, q)


def delta_of(keys):
    """The exact delta at ``EPSILON`` of the laws of independent keys."""
    p, q = np.ones(1), np.ones(1)
    for one, other in keys:
        of_key = ratios(one, other)
        p, q = merged(*(np.outer(whole, part).ravel() for whole, part in zip((p, q), of_key, strict=True)))
    return np.maximum(p - np.exp(EPSILON) * q, 0).sum()


def one_too_low(monkeypatch):
    inner = discovered_keys.key_threshold
    monkeypatch.setattr(discovered_keys, "key_threshold", lambda *args, **terms: inner(*args, **terms) - 1)


def of_one_unit(monkeypatch):
    """As if a key of one unit alone were to be released as often as one of enough units."""
    inner = discovered_keys.noisy_keys

    def alone(*args, min_units, **terms):
        limit = discovered_keys.key_threshold
        monkeypatch.setattr(
            discovered_keys, "key_threshold", lambda cells, **kept: limit(cells, **{**kept, "min_units": 0})
        )
        try:
            return inner(*args, min_units=1, **terms)
        finally:
            monkeypatch.setattr(discovered_keys, "key_threshold", limit)

    monkeypatch.setattr("spark_jobs.diagnostics.aggregates.measurement.noisy_keys", alone)


def not_halved(monkeypatch):
    """As if a replaced row cost what an added one does."""
    monkeypatch.setattr("spark_jobs.mechanisms.cell_sums.share", lambda number, parts: number)


class TestExactDelta(ExactAudit):
    """The claim is the part of delta that is spent: 1 of 1."""

    mechanisms = MEASURES
    claimed, at_least = 1.0, 0.6
    faults = {
        "a threshold one too low": Fault(patch=one_too_low),
        "half the noise": Fault(planted={"factor": 2}),
        "noise left out": Fault(planted={"left_out": True}),
        "a key that one unit alone has": Fault(patch=of_one_unit),
        "epsilon not halved": Fault(patch=not_halved, relations=[Neighbours.REPLACE_ONE]),
    }

    def loss(self, mechanism, relation, **planted):
        places = (0, 1, 2) if MEASURES[mechanism] else (0,)

        @cache
        def law(rows, total):
            return law_of_key(mechanism, relation, rows, total, **planted)

        # of a key with so many rows, all of value 1, one row more, of any value, and one row less
        more = [(law(rows, rows), law(rows + 1, rows + place)) for rows in ROWS for place in places]
        if relation is ADDED:
            return max(max(delta_of([pair]), delta_of([pair[::-1]])) for pair in more) / DELTA
        few = [pair for rows, pair in zip(np.repeat(ROWS, len(places)), more, strict=True) if rows != 3]
        moved = [[pair, other[::-1]] for pair in few for other in few]
        changed = [[(law(rows, rows - 1), law(rows, rows - 1 + place))] for rows in ROWS[1:] for place in places]
        return max(map(delta_of, [*moved, *changed])) / DELTA
