"""Sources of noise that watch what mechanisms ask of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.mechanisms.k_norm import Body
from spark_jobs.mechanisms.noise import Noise, SeededNoise, gaussian_stddev, laplace_scale


@dataclass
class Asked:
    """One vector that was about to be noised."""

    values: np.ndarray
    epsilon: Fraction
    l1_sensitivity: int = 0
    body: Body | None = None

    def loss(self, other: Asked) -> Fraction:
        """The largest log ratio of one answer, if another table's vector was this one."""
        assert (self.epsilon, self.l1_sensitivity, self.body) == (other.epsilon, other.l1_sensitivity, other.body)
        if self.body is None:
            return self.epsilon * int(np.abs(self.values - other.values).sum()) / self.l1_sensitivity
        apart = (self.values - other.values).reshape(-1, len(self.body.widths))
        spent = min(self.epsilon, Fraction(self.body.largest_epsilon))
        return spent * sum(distance(self.body, one) for one in apart[apart.any(axis=1)])


@dataclass
class Recording:
    """Noise that remembers what it was asked, and whose answers can be played back to another table."""

    source: Noise = field(default_factory=lambda: SeededNoise(1))
    answers: list | None = None
    asked: list[Asked] = field(default_factory=list)
    given: list = field(default_factory=list)
    private = False
    guarantee = "NOT PRIVATE"

    @property
    def joint(self):
        return self.source.joint

    def laplace(self, values, *, epsilon, l1_sensitivity):
        self.asked.append(Asked(np.array(values), Fraction(epsilon), l1_sensitivity))
        return self._given(lambda: self.source.laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity))

    def k_norm(self, values, *, epsilon, body):
        self.asked.append(Asked(np.array(values), Fraction(epsilon), body=body))
        return self._given(lambda: self.source.k_norm(values, epsilon=epsilon, body=body))

    def _given(self, draw):
        self.given.append(draw() if self.answers is None else self.answers[len(self.asked) - 1])
        return self.given[-1]

    def gaussian(self, values, *, rho, l2_sensitivity):
        raise NotImplementedError("no mechanism under test uses it")

    def words(self, count):
        return self.source.words(count)


class InAdvance:
    """The noise of a source, drawn for many short vectors at once: the same law without the cost of a call for each.

    Args:
        source: what draws; its noise must not depend on the values that it is added to.
    """

    SHORT, BLOCK = 64, 1 << 12

    def __init__(self, source: Noise) -> None:
        self.source, self.private, self.guarantee = source, source.private, source.guarantee
        self._left, self._drawn, self.joint = {}, {}, source.joint

    def laplace(self, values, *, epsilon, l1_sensitivity):
        return self._add(values, self.source.laplace, epsilon=epsilon, l1_sensitivity=l1_sensitivity)

    def gaussian(self, values, *, rho, l2_sensitivity):
        return self._add(values, self.source.gaussian, rho=rho, l2_sensitivity=l2_sensitivity)

    def k_norm(self, values, *, epsilon, body):
        return self.source.k_norm(values, epsilon=epsilon, body=body)

    def words(self, count):
        return self.source.words(count)

    def _add(self, values, draw, **terms):
        exact, key = np.asarray(values), (draw.__name__, *map(str, terms.values()))
        if exact.size > self.SHORT:
            return draw(values, **terms)
        left, drawn = self._left.get(key, np.zeros(0, dtype=np.int64)), self._drawn.get(key, 0)
        if left.size < exact.size:  # each time as much as all times before
            more = max(exact.size, min(drawn, self.BLOCK))
            left = np.concatenate([left, draw(np.zeros(more, dtype=np.int64), **terms)])
            self._drawn[key] = drawn + more
        self._left[key] = left[exact.size :]
        return exact + left[: exact.size].reshape(exact.shape)


def worst_loss(mechanism, table, neighbour, *, source=None):
    """The privacy loss of ``mechanism`` between two tables, given the answers it got on the first, as a bound.

    Plays the first table's answers to the second: an adaptive mechanism then takes the same path, and each vector it
    asks about costs the largest log ratio of its noise: ``epsilon * |difference| / l1_sensitivity`` of two-sided
    geometric noise, and epsilon times the distance in the norm of the body of noise that is drawn together.
    """
    first = Recording(source=source or SeededNoise(1))
    mechanism(table, first)
    second = Recording(source=first.source, answers=first.given)
    mechanism(neighbour, second)
    assert len(first.asked) == len(second.asked), "the path depends on the table beyond what was released"
    loss = Fraction(0)
    for one, other in zip(first.asked, second.asked, strict=True):
        loss += one.loss(other)
    return loss


@dataclass
class Still:
    """No noise at all: what a mechanism measures comes out as it is, and is kept."""

    seen: list = field(default_factory=list)
    asked: list = field(default_factory=list)
    private = False
    guarantee = "NOT PRIVATE"

    def laplace(self, values, *, epsilon, l1_sensitivity):
        return self._keep(values, epsilon, l1_sensitivity)

    def gaussian(self, values, *, rho, l2_sensitivity):
        return self._keep(values, rho, l2_sensitivity)

    joint = True

    def k_norm(self, values, *, epsilon, body):
        return self._keep(values, epsilon, body)

    def _keep(self, values, cost, sensitivity):
        self.seen.append(np.array(values))
        self.asked.append((cost, sensitivity))
        return np.array(values)


def distance(body: Body, change: ArrayLike) -> Fraction:
    """The norm of a vector of whole numbers: at most 1 within the body."""
    z = [int(number) for number in np.asarray(change, dtype=object).reshape(-1)]
    reached = [Fraction(abs(one), width) for one, width in zip(z, body.widths, strict=True)]
    for form, bound in zip(body.forms, body.bounds, strict=True):
        reached.append(Fraction(abs(sum(weight * one for weight, one in zip(form, z, strict=True))), bound))
    return max(reached) / body.unit


def radii(body: Body, vectors: np.ndarray) -> np.ndarray:
    """The smallest whole R within which each vector of noise lies; whole numbers, shape (k,)."""
    numbers = np.asarray(vectors, dtype=object)
    reached = [(numbers[:, place], width) for place, width in enumerate(body.widths)]
    reached += [
        (numbers @ np.array(form, dtype=object), bound) for form, bound in zip(body.forms, body.bounds, strict=True)
    ]
    return np.stack([-(-abs(values) // bound) for values, bound in reached]).max(axis=0)


class ApartNoise(SeededNoise):
    """Noise whose numbers are all independent, as that of several parties is."""

    joint = False


class ShapedNoise(SeededNoise):
    """Noise of a prescribed shape in place of a random one.

    Args:
        of: the noise of a vector, from its shape, the scale of the noise that it replaces, and a random generator.
    """

    def __init__(self, of, *, seed=1):
        super().__init__(seed)
        self._of = of

    def laplace(self, values, *, epsilon, l1_sensitivity):
        return self._add(values, laplace_scale(epsilon, l1_sensitivity))

    def gaussian(self, values, *, rho, l2_sensitivity):
        return self._add(values, gaussian_stddev(rho, l2_sensitivity))

    def _add(self, values, scale):
        exact = np.asarray(values)
        return exact + np.round(self._of(exact.shape, scale, self._generator)).astype(np.int64)


class Scripted:
    """A source of prescribed words, and of nothing else."""

    private = False
    guarantee = "NOT PRIVATE"

    def __init__(self, words):
        self._words = [int(word) for word in words]

    def words(self, count):
        taken, self._words = self._words[:count], self._words[count:]
        assert len(taken) == count, "more words were taken than were prescribed"
        return np.array(taken, dtype=np.uint64)
