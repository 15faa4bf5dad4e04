"""Statistical privacy audits: a lower bound on epsilon from samples, at a stated confidence.

How to write one, for a mechanism and two neighbouring tables (``docs/contributing/audits.md`` says more)::

    found = audit(mechanism, table, neighbour, samples=samples(3000))
    assert keeps(found, "noisy tree", relation=neighbours, claimed=EPSILON)

    found = audit(mechanism_with_a_fault, table, neighbour, samples=samples(8000))
    assert convicts(found, "noisy tree", relation=neighbours, claimed=EPSILON, fault="half the noise")

``keeps`` and ``convicts`` say whether the bound is on the right side of the claim and put it into the table that
``make audit`` writes.

For outputs ``M(first)`` and ``M(second)`` of neighbouring tables and any event ``E``, (epsilon, delta)-DP demands
``P[M(first) in E] <= exp(epsilon) P[M(second) in E] + delta``. Clopper-Pearson bounds on both probabilities therefore
give a lower bound on epsilon that is wrong with a chance of at most ``FALSE_ALARM``: a bound above the claim convicts
the mechanism. With delta at 0 that is pure privacy; with delta above 0 the events are those of the hockey-stick
divergence, the set where the likelihood ratio exceeds ``exp(epsilon)``.

Events are chosen or learned. ``audit`` takes outputs reduced to one number (a statistic under which the tables differ
most, usually the log ratio of the claimed densities): half of the samples choose the threshold that promises most, the
other half, never seen before, is counted; a threshold that is given is counted on all of them. ``audit_outputs`` takes
outputs that can be told apart but not ranked, and learns their ranking on the first half.

Where the law of the output can be computed, there is nothing to estimate: ``exactly`` makes a finding of the largest
loss, to be judged in the same way and put into the same table.

An audit that finds nothing proves nothing, so each comes with planted faults that it must convict.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.stats import beta

FALSE_ALARM = 1e-6
"""Chance that an audit convicts a mechanism that keeps its promise."""
LONG = os.environ.get("DP_AUDIT") == "long"
LONG_FACTOR = int(os.environ.get("DP_AUDIT_FACTOR", "10"))


MORE = 4
"""How many times as many outputs the second look takes where a bound of the first misses its floor."""


def samples(quick: int) -> int:
    """Samples of each table: few in the ordinary run, ``LONG_FACTOR`` times as many with ``DP_AUDIT=long``."""
    return quick * LONG_FACTOR if LONG else quick


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What an audit found.

    Attributes:
        epsilon: the lower bound, at confidence ``1 - FALSE_ALARM``; the loss itself where it was computed.
        hits: how often the event happened under the table that makes it likelier, and under the other.
        samples: counted samples of each table; 0 where the loss was computed.
        delta: what the claim allows beside epsilon.
        measure: what the loss is measured in, "ε" or "ρ".
        again: the same audit from more outputs, of each table; None where the loss was computed.
    """

    epsilon: float
    hits: tuple[int, int]
    samples: int
    delta: float = 0.0
    measure: str = "ε"
    again: Callable[[], Finding] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One line of the table of audits.

    Attributes:
        fault: None where the mechanism is as shipped.
        samples: 0 where the loss was computed.
        audit: the file that found it, as ``audit_of`` calls it.
    """

    mechanism: str
    relation: str
    claimed: str
    fault: str | None
    bound: float
    samples: int
    audit: str


RECORDS: list[Record] = []
"""What the audits of this run found; ``tests/audit/conftest.py`` writes it down."""


def exactly(loss: Any, *, measure: str = "ε") -> Finding:
    """A finding that was computed from the law of the output: the largest loss found, over tables and outputs."""
    return Finding(epsilon=float(loss), hits=(0, 0), samples=0, measure=measure)


def keeps(found: Finding, mechanism: str, *, relation: Any, claimed: Any, at_least: float = 0.0) -> bool:
    """Whether the bound stays within the claim, and is at least ``at_least`` (an audit that sees nothing is blind).

    A bound rests on chance, so one that misses the floor is looked at once more, with ``MORE`` times the outputs. One
    that exceeds the claim is not: it convicts.

    Args:
        found: what the audit returned.
        mechanism: its name in the table of results.
        relation: a ``Neighbours``, or any text.
        claimed: the claimed epsilon.
        at_least: what the bound must reach, as a part of the claim.
    """
    least = at_least * float(claimed)
    if found.epsilon < least and found.again is not None:
        found = found.again()
    _record(found, mechanism, relation, claimed, None)
    # a computed loss may lie above a claim that it reaches by the rounding of a few logarithms
    most = float(claimed) * (1 if found.samples else 1 + 1e-9)
    return least <= found.epsilon <= most


def convicts(found: Finding, mechanism: str, *, relation: Any, claimed: Any, fault: str) -> bool:
    """Whether the bound exceeds the claim of a mechanism with this planted ``fault``; arguments as ``keeps``."""
    _record(found, mechanism, relation, claimed, fault)
    return found.epsilon > float(claimed)


def audit(
    mechanism: Callable[[Any, int], np.ndarray],
    first: Any,
    second: Any,
    *,
    samples: int,
    delta: float = 0.0,
    threshold: float | None = None,
) -> Finding:
    """The best lower bound on epsilon between two tables, over both directions.

    Args:
        mechanism: (table, samples) -> that many values of the statistic; larger must speak for ``first``.
        first, second: neighbouring tables.
        samples: outputs to draw of each.
        delta: the delta of the claim; 0 for pure privacy.
        threshold: a chosen event, "at least this" for ``first`` and "at most minus this" for ``second``; None: learned.
    """
    drawn = np.asarray(mechanism(first, samples), dtype=float), np.asarray(mechanism(second, samples), dtype=float)
    half = samples // 2 if threshold is None else 0
    findings = []
    for sign in (1, -1):
        likelier, rarer = (sign * values for values in (drawn if sign == 1 else drawn[::-1]))
        level = _best_threshold(likelier[:half], rarer[:half], delta) if threshold is None else threshold
        hits = int((likelier[half:] >= level).sum()), int((rarer[half:] >= level).sum())
        findings.append(_finding(hits, samples - half, delta))

    def again() -> Finding:
        return audit(mechanism, first, second, samples=MORE * samples, delta=delta, threshold=threshold)

    return replace(max(findings, key=lambda finding: finding.epsilon), again=again)


def audit_outputs(
    mechanism: Callable[[Any, int], np.ndarray], first: Any, second: Any, *, samples: int, delta: float = 0.0
) -> Finding:
    """As ``audit``, for outputs that are integers without order: codes of answer sequences, indices chosen.

    Half of the samples rank the outputs by how much likelier each was (one added to every count, so that an output seen
    once speaks softly); that rank is the statistic whose threshold is then learned on the same half, and counted on the
    other.
    """
    drawn = [np.asarray(mechanism(table, samples)) for table in (first, second)]
    half = samples // 2
    outputs, places = np.unique(np.concatenate(drawn), return_inverse=True)
    codes = places[:samples], places[samples:]
    seen = [np.bincount(code[:half], minlength=outputs.size) + 1.0 for code in codes]
    # what the second half alone has seen ranks as unknown: a ratio of 1
    ratio = np.log(seen[0] / seen[1])
    ranked = {0: ratio[codes[0]], 1: ratio[codes[1]]}
    found = audit(lambda which, _: ranked[which], 0, 1, samples=samples, delta=delta)

    def again() -> Finding:
        return audit_outputs(mechanism, first, second, samples=MORE * samples, delta=delta)

    return replace(found, again=again)


def log_ratio(noisy: np.ndarray, first: np.ndarray, second: np.ndarray, scale: float) -> np.ndarray:
    """Log ratio of two-sided geometric densities around two exact vectors, summed over the last axis."""
    return ((np.abs(noisy - second) - np.abs(noisy - first)) / scale).sum(axis=-1)


def _record(found: Finding, mechanism: str, relation: Any, claimed: Any, fault: str | None) -> None:
    claim = ("" if found.measure == "ε" else f"{found.measure} = ") + f"{float(claimed):g}"
    claim += f", δ = {found.delta:g}" if found.delta else ""
    name = getattr(relation, "name", str(relation)).lower().replace("_", " ")
    RECORDS.append(
        Record(
            mechanism=mechanism,
            relation=name,
            claimed=claim,
            fault=fault,
            bound=found.epsilon,
            samples=found.samples,
            audit=audit_of(os.environ.get("PYTEST_CURRENT_TEST", "")),
        )
    )


def audit_of(test: str) -> str:
    """What a test's file is called in the table: ``counts`` for ``tests/audit/test_counts_audit.py::test_this``."""
    return test.split("::")[0].rsplit("/", 1)[-1].removesuffix(".py").removeprefix("test_").removesuffix("_audit")


def _best_threshold(likelier: np.ndarray, rarer: np.ndarray, delta: float) -> float:
    # values that differ by rounding alone are one value; otherwise an atom of the statistic would be torn in two
    candidates = np.unique(np.round(np.concatenate([likelier, rarer]), 9))
    if candidates.size > 200:
        candidates = np.unique(np.quantile(candidates, np.linspace(0, 1, 200), method="nearest"))
    candidates = candidates - 1e-9
    hits = [(int((likelier >= level).sum()), int((rarer >= level).sum())) for level in candidates]
    return float(candidates[int(np.argmax([_finding(pair, likelier.size, delta).epsilon for pair in hits]))])


def _finding(hits: tuple[int, int], count: int, delta: float) -> Finding:
    """Clopper-Pearson at ``FALSE_ALARM`` in all: two directions, two sides."""
    alpha = FALSE_ALARM / 4
    likelier, rarer = hits
    low = beta.ppf(alpha, likelier, count - likelier + 1) if likelier else 0.0
    high = beta.isf(alpha, rarer + 1, count - rarer) if rarer < count else 1.0
    epsilon = math.log((low - delta) / high) if low - delta > high else 0.0
    return Finding(epsilon=epsilon, hits=hits, samples=count, delta=delta)


@dataclass
class Tampered:
    """Noise with a fault: what a mechanism draws when its scale is wrong."""

    source: Any
    epsilon_factor: int = 1
    missing_rows: int = 0
    private = False
    guarantee = "NOT PRIVATE"
    joint = True

    def laplace(self, values: np.ndarray, *, epsilon: Any, l1_sensitivity: int) -> np.ndarray:
        """Less noise than was asked for."""
        return self.source.laplace(
            values, epsilon=epsilon * self.epsilon_factor, l1_sensitivity=l1_sensitivity - self.missing_rows
        )

    def k_norm(self, values: np.ndarray, *, epsilon: Any, body: Any) -> np.ndarray:
        """Less noise than was asked for."""
        return self.source.k_norm(values, epsilon=epsilon * self.epsilon_factor, body=body)

    def words(self, count: int) -> np.ndarray:
        """Random bits as they are."""
        return self.source.words(count)
