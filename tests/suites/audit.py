"""What every audit of a mechanism asserts: as shipped it keeps and uses its claim, and each planted fault exceeds it.

``ExactAudit`` computes the loss, ``SampledAudit`` estimates it from outputs; ``tests.support.audit`` says how.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from tests.support.audit import LONG, Finding, Tampered, audit, convicts, exactly, keeps, samples
from tests.support.noises import InAdvance

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault to plant.

    Attributes:
        planted: arguments of the suite's ``loss`` or ``mechanism``.
        noise: arguments of ``Tampered``, for sampled outputs.
        patch: what to replace in the product while the fault is there.
        relations: those that it is planted under; None for all of the suite's.
        mechanisms: those that it is planted in; None for all of the suite's.
        samples: outputs to draw; None for as many as the suite says.
        long: whether it takes minutes, so that it is planted in ``make soak`` alone.
    """

    planted: Mapping[str, Any] = field(default_factory=dict)
    noise: Mapping[str, Any] = field(default_factory=dict)
    patch: Callable[[pytest.MonkeyPatch], None] | None = None
    relations: Collection[Any] | None = None
    mechanisms: Collection[str] | None = None
    samples: int | None = None
    long: bool = False

    def is_of(self, mechanism: str) -> bool:
        """Whether it is planted in this mechanism."""
        return self.mechanisms is None or mechanism in self.mechanisms


def forget_spending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each part of a release cost as much as all of it."""

    class Forgetful(BudgetMeter):
        def spend_share(self, part: Any, *, label: str) -> Any:
            return self.granted.epsilon

        def spend_rest(self, *, label: str) -> Any:
            return self.granted.epsilon

    monkeypatch.setattr("spark_jobs.diagnostics.diagnostic.BudgetMeter", Forgetful)


class MechanismAuditSuite:
    """A subclass of one of the two below, named ``Test...``, gives the attributes, and ``loss`` or ``mechanism``.

    Attributes:
        mechanisms: what is audited, by the names in the table of results.
        relations: of neighbours, each a ``Neighbours`` or any text.
        claimed: the claimed epsilon; ``claim`` where it differs.
        at_least: the part of the claim that must be reached; ``floor`` where it differs.
        faults: to plant, by the names in the table of results; those below are every mechanism's.
        kept: what is in ``make test`` as shipped: "all" cases, the "first", or the first of each of these mechanisms.
        verified: whether the planted faults are not in ``make test``. Then the first fault of each mechanism, and each
            fault in its first mechanism, is in ``make verify`` under one of its relations, which take turns; all others
            are in ``make soak``.
    """

    mechanisms: ClassVar[Sequence[str] | Mapping[str, Any]]
    relations: ClassVar[Sequence[Any]] = tuple(Neighbours)
    claimed: ClassVar[Any]
    at_least: ClassVar[float] = 0.0
    faults: ClassVar[Mapping[str, Fault]]
    kept: ClassVar[str | Collection[str]]
    verified: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        """Leave out the test of faults where there are none to plant."""
        if not getattr(cls, "faults", True):
            cls.test_a_fault_is_convicted = None  # type: ignore[method-assign, assignment]

    def claim(self, mechanism: str, relation: Any) -> Any:
        """The claimed epsilon of this mechanism."""
        return self.claimed

    def floor(self, mechanism: str, relation: Any) -> float:
        """The part of the claim that this mechanism must reach."""
        return self.at_least

    def find(self, mechanism: str, relation: Any, fault: Fault | None = None) -> Finding:
        """Audit a mechanism, as shipped or with a fault."""
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test its mechanisms, relations and faults, and its tier."""
        if "relation" not in metafunc.fixturenames:
            return
        cases = [(mechanism, relation) for mechanism in self.mechanisms for relation in self.relations]
        if "fault" in metafunc.fixturenames:
            found = [
                pytest.param(mechanism, relation, name, id=_id(mechanism, relation, name), marks=tier)
                for place, (name, fault) in enumerate(self.faults.items())
                for mechanism, relation, tier in self._planted(fault, place)
            ]
            metafunc.parametrize(("mechanism", "relation", "fault"), found)
            return
        if isinstance(self.kept, str):
            first = {"all": cases, "first": cases[:1]}[self.kept]
        else:
            first = [(name, self.relations[0]) for name in self.kept]
        later = set(cases) - set(first)
        found = [pytest.param(*c, id=_id(*c), marks=[pytest.mark.verify] if c in later else []) for c in cases]
        metafunc.parametrize(("mechanism", "relation"), found)

    def _planted(self, fault: Fault, place: int) -> Iterator[tuple[str, Any, list[pytest.MarkDecorator]]]:
        """Where the fault at this place is planted: mechanisms and relations, with the tier of each."""
        relations = [one for one in self.relations if fault.relations is None or one in fault.relations]
        first_mechanism = next(filter(fault.is_of, self.mechanisms))
        for turn, mechanism in enumerate(self.mechanisms, start=place):
            if not fault.is_of(mechanism):
                continue
            first_fault = next(one for one in self.faults.values() if one.long == fault.long and one.is_of(mechanism))
            repeated = mechanism != first_mechanism and fault is not first_fault
            for number, relation in enumerate(relations):
                if fault.long or (self.verified and (repeated or number != turn % len(relations))):
                    yield mechanism, relation, [pytest.mark.soak]
                else:
                    yield mechanism, relation, [pytest.mark.verify] if self.verified else []

    def test_the_claim_is_kept_and_used(self, mechanism: str, relation: Any) -> None:
        at_least, claimed = self.floor(mechanism, relation), self.claim(mechanism, relation)
        assert keeps(self.find(mechanism, relation), mechanism, relation=relation, claimed=claimed, at_least=at_least)

    def test_a_fault_is_convicted(
        self, mechanism: str, relation: Any, fault: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        planted, claimed = self.faults[fault], self.claim(mechanism, relation)
        if planted.patch:
            planted.patch(monkeypatch)
        found = self.find(mechanism, relation, planted)
        assert convicts(found, mechanism, relation=relation, claimed=claimed, fault=fault)


class ExactAudit(MechanismAuditSuite):
    """The largest loss is computed: ``loss`` takes ``less`` (noise), ``times``, and ``told``, the relation it is told.

    It returns the largest, or an iterator of all losses, of which a planted fault needs one above the claim.

    Attributes:
        measure: what the loss is measured in, "ε" or "ρ".
    """

    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "budget spent twice": Fault(planted={"times": 2}),
        "noise for an added row": Fault(planted={"told": ADDED}, relations=[REPLACED]),
    }
    kept = "all"
    verified = False
    measure: ClassVar[str] = "ε"

    def loss(self, mechanism: str, relation: Any, **planted: Any) -> Any:
        """The largest loss between neighbours."""
        raise NotImplementedError

    def find(self, mechanism: str, relation: Any, fault: Fault | None = None) -> Finding:
        loss = self.loss(mechanism, relation, **(fault.planted if fault else {}))
        if isinstance(loss, Iterator):
            # a fault is convicted by the first loss above the claim; the table of results has the largest
            enough = math.inf if fault is None or LONG else float(self.claim(mechanism, relation))
            loss = _largest(loss, enough)
        return exactly(loss, measure=self.measure)


def _largest(losses: Iterator[float], enough: float) -> float:
    """The largest of these losses, or the first above ``enough``."""
    largest = -math.inf
    for loss in losses:
        largest = max(largest, loss)
        if largest > enough:
            break
    return largest


class SampledAudit(MechanismAuditSuite):
    """The loss is estimated from outputs of neighbours; ``mechanism`` takes ``told``, the relation that it is told.

    Attributes:
        seed: of the noise of planted faults; shipped mechanisms draw secure noise.
        quick: outputs of the mechanism as shipped, in an ordinary run.
        thorough: outputs with a fault, in an ordinary run.
        audit: what takes the mechanism, two tables, ``samples`` and the options below.
        options: of every audit, or of those as shipped alone.
    """

    faults = {
        "half the noise": Fault(noise={"epsilon_factor": 2}),
        "noise for an added row": Fault(planted={"told": ADDED}, relations=[REPLACED]),
    }
    kept = "first"
    verified = True
    seed: ClassVar[int]
    quick: ClassVar[int]
    thorough: ClassVar[int]
    audit: ClassVar[Callable[..., Finding]] = staticmethod(audit)
    options: ClassVar[Mapping[str, Any]] = {}
    shipped_options: ClassVar[Mapping[str, Any]] = {}

    def mechanism(self, mechanism: str, relation: Any, noise: Any, **planted: Any) -> tuple[Any, Any, Any]:
        """(table, count) -> values of a statistic of that many outputs, and two neighbouring tables."""
        raise NotImplementedError

    def delta(self, mechanism: str) -> float:
        """The claimed delta of this mechanism."""
        return 0.0

    def source(self, fault: Fault) -> Any:
        """The noise of a mechanism with a fault."""
        seeded = SeededNoise(self.seed)
        return Tampered(source=seeded, **fault.noise) if fault.noise else seeded

    def find(self, mechanism: str, relation: Any, fault: Fault | None = None) -> Finding:
        options = {**self.options, "delta": self.delta(mechanism)}
        if fault is None:
            run = self.mechanism(mechanism, relation, InAdvance(SecureNoise()))
            return self.audit(*run, samples=samples(self.quick), **options, **self.shipped_options)
        run = self.mechanism(mechanism, relation, self.source(fault), **fault.planted)
        return self.audit(*run, samples=samples(fault.samples or self.thorough), **options)


def _id(*parts: Any) -> str:
    return "-".join(str(getattr(part, "name", part)).lower() for part in parts)
