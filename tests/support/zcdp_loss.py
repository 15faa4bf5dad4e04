"""The exact zCDP loss of mechanisms that draw discrete Gaussian noise, from what they ask of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spark_jobs.mechanisms.noise import SeededNoise, gaussian_stddev


@dataclass
class Watching:
    """Gaussian noise that keeps what was asked, with the scale drawn; its answers can be played to another table.

    Attributes:
        answers: what to say, instead of drawing.
        rho_factor: a fault: noise for this many times the cost.
    """

    source: object = field(default_factory=lambda: SeededNoise(1))
    answers: list | None = None
    rho_factor: int = 1
    asked: list = field(default_factory=list)
    given: list = field(default_factory=list)
    private = False
    guarantee = "NOT PRIVATE"

    def gaussian(self, values, *, rho, l2_sensitivity):
        drawn_at = self.rho_factor * float(rho)
        self.asked.append((np.array(values, dtype=object), gaussian_stddev(drawn_at, l2_sensitivity)))
        if self.answers is None:
            answer = self.source.gaussian(values, rho=drawn_at, l2_sensitivity=l2_sensitivity)
        else:
            answer = self.answers[len(self.asked) - 1]
        self.given.append(answer)
        return answer


def zcdp_loss(mechanism, table, neighbour, *, rho_factor=1, watching=Watching):
    """``rho`` between two tables: ``|difference|^2 / (2 stddev^2)``, added up over all that was asked.

    Plays the first table's answers to the second, so an adaptive mechanism takes the same path.
    """
    first = watching(rho_factor=rho_factor)
    mechanism(table, first)
    second = watching(rho_factor=rho_factor, answers=first.given)
    mechanism(neighbour, second)
    return _added_up(first.asked, second.asked)


def zcdp_losses(mechanism, tables, first, *, rho_factor=1):
    """``zcdp_loss`` of each table named in ``first`` beside each other one, for a mechanism that asks all at once.

    Each table is measured with two seeds instead of once for each other table: what is asked must be the same.
    """
    asked = {}
    for name, table in tables.items():
        runs = [Watching(source=SeededNoise(seed), rho_factor=rho_factor) for seed in (1, 2)]
        for run in runs:
            mechanism(table, run)
        assert _added_up(*(run.asked for run in runs)) == 0, "what is asked depends on answers"
        asked[name] = runs[0].asked
    return [_added_up(asked[one], asked[other]) for one in first for other in tables if one != other]


def _added_up(asked, of_other):
    assert len(asked) == len(of_other), "the path depends on the table beyond what was released"
    loss = 0.0
    for (one, stddev), (other, again) in zip(asked, of_other, strict=True):
        assert stddev == again, "the noise depends on the table"
        loss += float(((one - other) ** 2).sum()) / (2 * stddev**2)
    return loss
