"""Keys that are not public: the exact delta of what is released of them, for rows that are added, removed or replaced.

The law of a key's numbers is enumerated by the product itself: many keys with the same rows, each with other noise, of
which every point of a lattice occurs once. What is released of them, with the probabilities of the points at the
requested scale, is the law of one key, silence included. Keys are independent, so that of two keys it is a product.
Gaussian noise is enumerated on a lattice of one step for a row, where every threshold is a step of delta of its own.
"""

from __future__ import annotations

import itertools
from decimal import Decimal
from functools import cache

import numpy as np
import pytest

from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import aggregates
from spark_jobs.diagnostics.aggregates.measurement import measure_cells
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.mechanisms import cell_gaussian, cell_sums, discovered_keys
from spark_jobs.mechanisms.noise import gaussian_stddev, laplace_scale
from spark_jobs.mechanisms.zcdp import rho_within
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
        self.reach = np.arange(-int(BEYOND * scale) - 1, int(BEYOND * scale) + 2)
        self.points = np.array(list(itertools.product(self.reach, repeat=numbers)), dtype=np.int64)
        self.chances = None

    def laplace(self, values, *, epsilon, l1_sensitivity):
        if values.ndim == 1 or not values.size:  # incomplete rows, of which there are none, and the draw without keys
            return np.array(values)
        assert values.shape == self.points.shape
        ratio = np.exp(-1 / laplace_scale(float(epsilon) * self.factor, l1_sensitivity))
        law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(self.points)
        self.chances = (law if not self.left_out else (self.points == 0).astype(float)).prod(axis=1)
        return values + self.points

    def gaussian(self, values, *, rho, l2_sensitivity):
        if values.ndim == 1 or not values.size:
            return np.array(values)
        stddev = gaussian_stddev(float(rho) * self.factor**2, l2_sensitivity)
        law, whole = (np.exp(-((steps / stddev) ** 2) / 2) for steps in (self.points, self.reach))
        law /= whole.sum()
        self.chances = (law if not self.left_out else (self.points == 0).astype(float)).prod(axis=1)
        return values + self.points

    def words(self, count):
        raise NotImplementedError


def law_of_key(mechanism, relation, rows, total, *, factor=1, left_out=False):
    """The probability of silence, and of each released pair of numbers, by the pair."""
    measures = MEASURES[mechanism]
    scale = (2 if measures else 1) / EPSILON * (1 if relation is ADDED else 2)
    noise = EveryPoint(1 + len(measures), factor=factor, left_out=left_out, scale=scale)

    def measured(sums):
        return aggregates.measure(sums, epsilon=EPSILON, delta=Decimal(str(DELTA)), neighbours=relation, noise=noise)

    return law_of_points(measured, noise, measures, rows, total)


def law_of_points(measured, noise, measures, rows, total):
    """That of the draws that ``measured`` makes of the sums of many keys with the same rows, one for each point."""
    count = len(noise.points)
    batch = KeyBatch(
        keys=[str(place) for place in range(count)],
        rows=np.full(count, rows),
        incomplete=np.zeros(count, dtype=np.int64),
        sums=np.full((len(measures), count), total),
    )
    by = [{"column": "page", "keys": "discover", "min_units": MIN_UNITS}]
    design = SumsByKey.from_arrays({"page": [], "v": []}, by=by, measures=measures).design
    drawn = measured(SumsByKey(design=design, batches=lambda: iter([batch])))
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


KEYS, MANY = 2, 90
"""The keys of one unit, and so many rows of one that it is released for sure."""
BY_METHOD = {
    f"{name}, {method}": (measures, method) for name, measures in MEASURES.items() for method in ("k_norm", "gaussian")
}
OF_UNITS = [f"{name}: {which}" for name in BY_METHOD for which in ("keys that only one table shows", "all keys")]
ONLY, EVERY = OF_UNITS[::2], OF_UNITS[1::2]
GAUSSIAN = [name for name in OF_UNITS if "gaussian" in name]


def law_of_unit_key(mechanism, relation, rows, total, *, factor=1, left_out=False):
    """As ``law_of_key``, of a key of a unit that is in two of them, at half of epsilon each."""
    measures, method = BY_METHOD[mechanism]
    replaced = 1 if relation is ADDED else 2
    scale = (1 + len(measures)) * KEYS / EPSILON * replaced
    if method == "gaussian":
        rho = float(rho_within(EPSILON, DELTA / 2))
        scale = 0.5 * np.sqrt(KEYS * (1 + len(measures)) * replaced / (2 * rho))
    noise = EveryPoint(1 + len(measures), factor=factor, left_out=left_out, scale=scale)
    entry = {"by": [{"column": "page", "keys": "discover", "min_units": MIN_UNITS}], "measures": measures}
    options = AggregatesOptions(**entry, max_groups=KEYS, method=method)
    terms = Terms(epsilon=EPSILON / KEYS, delta=Decimal(str(DELTA)), neighbours=relation, noise=noise)
    with pytest.MonkeyPatch.context() as coarse:
        for module in (cell_sums, cell_gaussian, discovered_keys):
            coarse.setattr(module, "UNIT", 1)
        return law_of_points(lambda sums: measure_cells(sums, options, terms), noise, measures, rows, total)


def whole_for_each_key(monkeypatch):
    """As if each of a unit's keys might be released with a chance of delta."""
    inner = discovered_keys.key_threshold
    monkeypatch.setattr(
        discovered_keys, "key_threshold", lambda cells, **terms: inner(cells, **{**terms, "bound": None})
    )


def whole_for_both(monkeypatch):
    """As if Gaussian noise and the threshold might have delta each."""
    inner = discovered_keys.share
    monkeypatch.setattr(
        discovered_keys,
        "share",
        lambda amount, parts: amount if amount == Decimal(str(DELTA)) else inner(amount, parts),
    )


def one_key(monkeypatch):
    """As if a unit were in one key only."""
    monkeypatch.setattr(
        discovered_keys, "rho_of_row", lambda epsilon, delta, bound: rho_within(epsilon * bound.rows_of_unit, delta)
    )


def as_added(monkeypatch):
    """As if a replaced row cost what an added one does."""
    not_halved(monkeypatch)
    for module in (cell_gaussian, discovered_keys):
        monkeypatch.setattr(module, "cost_of_added", lambda rho, numbers, neighbours: rho)


class TestExactDeltaOfUnits(ExactAudit):
    """Of a unit in two keys; where noise is Gaussian, keys that only one table shows may take half of delta."""

    mechanisms = OF_UNITS
    faults = {
        "a threshold one too low": Fault(patch=one_too_low, mechanisms=ONLY),
        "each key at the whole delta": Fault(patch=whole_for_each_key, mechanisms=ONLY),
        "noise and threshold at the whole delta": Fault(
            patch=whole_for_both, mechanisms=[name for name in GAUSSIAN if name in ONLY]
        ),
        "a key that one unit alone has": Fault(patch=of_one_unit, mechanisms=ONLY),
        "half the noise": Fault(planted={"factor": 2}, mechanisms=EVERY),
        "noise left out": Fault(planted={"left_out": True}, mechanisms=EVERY),
        "as if in one key": Fault(patch=one_key, mechanisms=[name for name in GAUSSIAN if name in EVERY]),
        "as if it were added": Fault(patch=as_added, mechanisms=EVERY, relations=[Neighbours.REPLACE_ONE]),
    }

    def claim(self, mechanism, relation):
        return 0.5 if mechanism in GAUSSIAN and mechanism in ONLY else 1.0

    def floor(self, mechanism, relation):
        # a lattice of one step for a row is coarse, and the rho of half of delta leaves room
        return 0.25 if mechanism in GAUSSIAN and mechanism in EVERY else 0.5

    def loss(self, mechanism, relation, **planted):
        name, _, which = mechanism.rpartition(": ")
        places = (0, 1, 2) if BY_METHOD[name][0] else (0,)

        @cache
        def law(rows, total):
            return law_of_unit_key(name, relation, rows, total, **planted)

        rows_before = (0, 1) if which.startswith("keys") else (1, MANY)
        more = [(law(rows, rows), law(rows + 1, rows + place)) for rows in rows_before for place in places[::2]]
        few = [list(pairs) for pairs in itertools.combinations_with_replacement(more, KEYS)]
        fewer = [[pair[::-1] for pair in pairs] for pairs in few]
        if relation is ADDED:
            return max(map(delta_of, [*few, *fewer])) / DELTA
        changed = [(law(MANY, MANY - 1), law(MANY, MANY - 1 + place)) for place in places]
        moved = [[*one, *other] for one in few for other in fewer if BY_METHOD[name][0] == [] or one[0] is one[1]]
        return max(map(delta_of, [*moved, *([pair] * KEYS for pair in changed)])) / DELTA
