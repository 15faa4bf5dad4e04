"""All that a mechanism drew, noise and choices, and how likely two tables were to have drawn it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spark_jobs.mechanisms.selection import exponential_mechanism
from tests.support.noises import Recording
from tests.support.selection_loss import exponential_probabilities


@dataclass
class Choice:
    """One use of the exponential mechanism."""

    scores: np.ndarray
    options: dict[str, Any]
    index: int

    def log_probabilities(self) -> np.ndarray:
        """The logarithm of each candidate's exact probability."""
        chances = exponential_probabilities(self.scores, monotone=False, **self.options)
        return np.array([math.log(p.numerator) - math.log(p.denominator) for p in chances])


@dataclass
class Chooser:
    """Stands in for ``exponential_mechanism``: remembers its uses, or repeats those of an earlier run."""

    repeat: list[Choice] | None = None
    made: list[Choice] = field(default_factory=list)

    def __call__(self, scores, *, epsilon, l_inf_sensitivity, noise):
        options = {"epsilon": epsilon, "sensitivity": l_inf_sensitivity}
        if self.repeat is None:
            index = exponential_mechanism(scores, epsilon=epsilon, l_inf_sensitivity=l_inf_sensitivity, noise=noise)
        else:
            index = self.repeat[len(self.made)].index
        self.made.append(Choice(np.array(scores), options, index))
        return index


class Transcripts:
    """Runs of a mechanism ``run(table, noise)`` whose draws are remembered.

    Args:
        run: the mechanism.
        use: called with a ``Chooser`` before each run, where the mechanism selects; None where it does not.
    """

    def __init__(self, run, use=None):
        self._run, self._use = run, use

    def draw(self, table, noise):
        """A run on ``table``: noise and choices."""
        return self._once(table, Recording(source=noise), Chooser())

    def replay(self, table, drawn):
        """The run on ``table`` that draws the same."""
        noise, chooser = drawn
        return self._once(table, Recording(source=noise.source, answers=noise.given), Chooser(repeat=chooser.made))

    def evidence(self, table, other, noise):
        """``log P(drawn | table) - log P(drawn | other)`` of one run on ``table``, at the scales that are claimed."""
        (one, chose), (two, chose_two) = self._twice(table, other, noise)
        value = 0.0
        for a, b, answer in zip(one.asked, two.asked, one.given, strict=True):
            apart = np.abs(answer - b.values).sum() - np.abs(answer - a.values).sum()
            value += float(a.epsilon) * float(apart) / a.l1_sensitivity
        for a, b in zip(chose.made, chose_two.made, strict=True):
            value += float(a.log_probabilities()[a.index] - b.log_probabilities()[b.index])
        return value

    def worst(self, table, other, noise):
        """An upper bound on the loss of all draws on the path of one run: what is asked, not what is answered."""
        (one, chose), (two, chose_two) = self._twice(table, other, noise)
        value = 0.0
        for a, b in zip(one.asked, two.asked, strict=True):
            value += float(a.epsilon) * int(np.abs(a.values - b.values).sum()) / a.l1_sensitivity
        for a, b in zip(chose.made, chose_two.made, strict=True):
            value += float(np.abs(a.log_probabilities() - b.log_probabilities()).max())
        return value

    def _twice(self, table, other, noise):
        drawn = self.draw(table, noise)
        again = self.replay(other, drawn)
        assert len(drawn[0].asked) == len(again[0].asked), "the path depends on the table beyond what was drawn"
        return drawn, again

    def _once(self, table, noise, chooser):
        if self._use is not None:
            self._use(chooser)
        self._run(table, noise)
        return noise, chooser
