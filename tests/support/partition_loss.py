"""The exact law of a partition found by noisy costs on a lattice, and the loss between two of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.noises import Recording

TAIL = 45
"""Scales of noise that are kept: what lies beyond has probability e^-45, put on the last point."""


@dataclass(frozen=True)
class Law:
    """Masses on ``first, first + 1, ...``; they need not add up to 1."""

    first: int
    mass: np.ndarray

    def __add__(self, other: Law) -> Law:
        return Law(self.first + other.first, np.convolve(self.mass, other.mass))

    def where(self, chance: Callable[[np.ndarray], np.ndarray]) -> Law:
        return Law(self.first, self.mass * chance(self.first + np.arange(self.mass.size)))

    def at_least(self, values: np.ndarray) -> np.ndarray:
        """The mass at or above each value."""
        above = np.append(np.cumsum(self.mass[::-1])[::-1], 0.0)
        return above[np.clip(values - self.first, 0, self.mass.size)]

    @property
    def total(self) -> float:
        return float(self.mass.sum())


def noisy(value: int, scale: float, *, floor: int | None = None) -> Law:
    """A cost with two-sided geometric noise, or none; clipped from below where a floor is given."""
    if scale == 0:
        return Law(max(value, floor if floor is not None else value), np.ones(1))
    reach = math.ceil(TAIL * scale)
    mass = math.tanh(0.5 / scale) * np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    law = Law(value - reach, mass)
    if floor is None or floor <= law.first:
        return law
    if floor >= law.first + mass.size:
        return Law(floor, np.array([mass.sum()]))
    cut = floor - law.first
    return Law(floor, np.concatenate([[mass[: cut + 1].sum()], mass[cut + 1 :]]))


def recorded(find: Callable[[np.ndarray, Any], Any], counts: np.ndarray) -> list[list[tuple[int, float]]]:
    """Each candidate's cost and scale, level by level, as ``find(counts, noise)`` asks for them; scale 0 if bare."""
    watched = Recording()
    find(counts, watched)
    asked = [(int(v), call.l1_sensitivity / float(call.epsilon)) for call in watched.asked for v in call.values]
    sizes = [counts.size]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    bare = sum(sizes) - len(asked)
    assert bare in (0, counts.size), "either every candidate has noise, or all but the single cells"
    asked = [(0, 0.0)] * bare + asked
    ends = np.cumsum(sizes)
    return [asked[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def recorded_laws(
    find: Callable[[np.ndarray, Any], Any], counts: np.ndarray, *, floor: int | None = None
) -> list[list[Law]]:
    """The laws of all candidates' costs, level by level."""
    return [[noisy(cost, scale, floor=floor) for cost, scale in level] for level in recorded(find, counts)]


def all_alone(candidates: list[list[tuple[int, float]]], penalty: int) -> float:
    """Log probability that every cell is a bucket of its own, where single cells are bare: independent tails.

    A bucket of m cells loses to m single ones iff its noisy cost is above ``(m - 1) penalty``.
    """
    total = 0.0
    for level, buckets in enumerate(candidates[1:], start=1):
        for cost, scale in buckets:
            needed = penalty * ((1 << level) - 1) + 1 - cost
            ratio = math.exp(-1 / scale)
            below = -max(needed, 1 - needed) / scale - math.log1p(ratio)
            total += below if needed >= 1 else math.log1p(-math.exp(below))
    return total


def partition_law(laws: Sequence[Sequence[Law]], penalty: int) -> dict[tuple[int, ...], float]:
    """Partition, as its buckets' first cells, to its probability; by recursion over the tree of candidates.

    A node's outcomes are measures on the cost of its best partition. Independent costs add by convolution; the node
    itself is kept where its cost is at most that of the best of its halves.
    """

    def outcomes(level: int, place: int) -> dict[tuple[int, ...], Law]:
        own = laws[level][place]
        own = Law(own.first + penalty, own.mass)
        first = place << level
        if level == 0:
            return {(first,): own}
        left = outcomes(level - 1, 2 * place)
        if 2 * place + 1 == len(laws[level - 1]):
            return left
        right = outcomes(level - 1, 2 * place + 1)
        split = {one + two: a + b for one, a in left.items() for two, b in right.items()}
        kept = own.where(lambda values: sum(law.at_least(values) for law in split.values()))
        found = {key: law.where(lambda values: own.at_least(values + 1)) for key, law in split.items()}
        return {(first,): kept, **found}

    return {key: law.total for key, law in outcomes(len(laws) - 1, 0).items()}


def partition_loss(first: dict[tuple[int, ...], float], second: dict[tuple[int, ...], float]) -> float:
    """The largest absolute log ratio of the probabilities of one partition."""
    return max(abs(math.log(first[key] / second[key])) for key in first if min(first[key], second[key]) > 1e-13)
