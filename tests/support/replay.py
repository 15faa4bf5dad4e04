"""Record what the noise gave on one table, and play it back on another.

All that a mechanism releases is a function of its noisy values. So the same outputs of the noise, given for any other
table, must make the same release, byte for byte, after the same calls in the same order with the same scales. Where a
mechanism passes on an exact value, the two releases differ. No test by sampling sees that: an exact number has no
distribution that could be compared.

A mechanism whose distribution depends on the data (smooth sensitivity, the exponential mechanism) is recorded at its
released output; what happens inside it is for the audits.

    recording = RecordingNoise(SeededNoise(1))
    with released_outputs(recording):
        first = measure(table, noise=recording)
    replayed = ReplayedNoise(recording.calls)
    with released_outputs(replayed):
        second = measure(unrelated, noise=replayed)
    replayed.require_finished()
    assert as_bytes(first) == as_bytes(second)
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum
from fractions import Fraction
from functools import wraps
from typing import Any
from unittest.mock import patch

import numpy as np

from spark_jobs.mechanisms import selection
from spark_jobs.mechanisms.continuous_noise import SmoothNoise
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Noise
from tests.support.audit import Finding, exactly


class Leaked(AssertionError):
    """What a mechanism did or released depends on the table beyond its noisy values."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """One use of noise: what was asked, without any value, and what came out.

    Attributes:
        name: the kind of noise, or the mechanism that was recorded at its released output.
        terms: sizes, costs and sensitivities; public.
        output: what was released.
        spendings: what was drawn on a meter inside a recorded mechanism.
    """

    name: str
    terms: Mapping[str, Any]
    output: Any
    spendings: tuple[Spending, ...] = ()


class RecordingNoise:
    """A source of noise that keeps every output.

    Args:
        source: what draws.
    """

    def __init__(self, source: Noise) -> None:
        self.source, self.calls, self._inside = source, [], False
        self.private, self.guarantee, self.joint = source.private, source.guarantee, source.joint

    def k_norm(self, values, *, epsilon, body):
        """``values`` with noise that was drawn together."""
        return self.use(
            "k_norm",
            {"shape": np.shape(values), "epsilon": Fraction(epsilon), "body": body},
            lambda: self.source.k_norm(values, epsilon=epsilon, body=body),
        )

    def laplace(self, values, *, epsilon, l1_sensitivity):
        """``values`` with two-sided geometric noise."""
        return self.use(
            "laplace",
            {"shape": np.shape(values), "epsilon": Fraction(epsilon), "l1_sensitivity": l1_sensitivity},
            lambda: self.source.laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity),
        )

    def gaussian(self, values, *, rho, l2_sensitivity):
        """``values`` with discrete Gaussian noise."""
        return self.use(
            "gaussian",
            {"shape": np.shape(values), "rho": Fraction(rho), "l2_sensitivity": l2_sensitivity},
            lambda: self.source.gaussian(values, rho=rho, l2_sensitivity=l2_sensitivity),
        )

    def words(self, count):
        """Uniform words; those drawn inside a recorded mechanism belong to it."""
        return self.use("words", {"count": count}, lambda: self.source.words(count))

    def use(
        self, name: str, terms: Mapping[str, Any], draw: Callable[[], Any], meter: BudgetMeter | None = None
    ) -> Any:
        """Draw, and keep what came out."""
        if self._inside:
            return draw()
        before = 0 if meter is None else len(meter.spendings)
        self._inside = True
        try:
            output = draw()
        finally:
            self._inside = False
        spendings = () if meter is None else meter.spendings[before:]
        self.calls.append(Call(name=name, terms=dict(terms), output=_copied(output), spendings=spendings))
        return output


class ReplayedNoise(RecordingNoise):
    """The outputs of an earlier recording, whatever they are asked for.

    Args:
        calls: the recording.
        source: whose stamp the recording has.
    """

    def __init__(self, calls: list[Call], source: Noise) -> None:
        super().__init__(source)
        self._left = list(calls)

    def use(
        self, name: str, terms: Mapping[str, Any], draw: Callable[[], Any], meter: BudgetMeter | None = None
    ) -> Any:
        """The output of the next recorded call, which must have been the same one."""
        if not self._left:
            raise Leaked(f"one more call than on the other table: {name} {dict(terms)}")
        call = self._left.pop(0)
        if (call.name, call.terms) != (name, dict(terms)):
            raise Leaked(f"{name} {dict(terms)}; on the other table {call.name} {call.terms}")
        for spending in call.spendings:
            meter.spend(spending.epsilon, delta=spending.delta, label=spending.label)
        self.calls.append(call)
        return _copied(call.output)

    def require_finished(self) -> None:
        """Raise ``Leaked`` if the recording has calls that were not made again."""
        if self._left:
            raise Leaked(f"{len(self._left)} calls fewer than on the other table, from {self._left[0].name}")


class NoiseLeftOut:
    """Noise with a fault: one vector passes as it is, after noise for it was drawn.

    Args:
        noise: a recording, or its replay.
        at: which vector, counted from 0.
    """

    def __init__(self, noise: RecordingNoise, at: int) -> None:
        self._noise, self._at, self.exact = noise, at, []
        self.private, self.guarantee, self.joint = noise.private, noise.guarantee, noise.joint

    def k_norm(self, values, *, epsilon, body):
        """``values`` with noise; exact if it is their turn."""
        return self._passed(values, self._noise.k_norm(values, epsilon=epsilon, body=body))

    def laplace(self, values, *, epsilon, l1_sensitivity):
        """``values`` with noise; exact if it is their turn."""
        return self._passed(values, self._noise.laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity))

    def gaussian(self, values, *, rho, l2_sensitivity):
        """``values`` with noise; exact if it is their turn."""
        return self._passed(values, self._noise.gaussian(values, rho=rho, l2_sensitivity=l2_sensitivity))

    def words(self, count):
        """Uniform words."""
        return self._noise.words(count)

    def use(self, name, terms, draw, meter=None):
        """As the recording has it."""
        return self._noise.use(name, terms, draw, meter)

    def _passed(self, values, noisy):
        self.exact.append(np.array(values, dtype=np.int64))
        return self.exact[-1].copy() if len(self.exact) - 1 == self._at else noisy


@contextmanager
def released_outputs(noise: RecordingNoise) -> Iterator[None]:
    """Within it, mechanisms whose distribution depends on the data are recorded at what they release."""
    release = SmoothNoise.release

    def smooth(self, values, bounds, *, grid, noise, meter=None, label="smooth sensitivity"):
        def draw():
            return release(self, values, bounds, grid=grid, noise=noise, meter=meter, label=label)

        if not hasattr(noise, "use"):
            return draw()
        return noise.use("smooth sensitivity", {"shape": self, "values": np.size(bounds), "grid": grid}, draw, meter)

    with ExitStack() as stack:
        stack.enter_context(patch.object(SmoothNoise, "release", smooth))
        for name, size in _CHOICES.items():
            _patch_everywhere(stack, getattr(selection, name), _recorded(getattr(selection, name), size))
        yield


def replay(run: Callable[[Any, Noise], Any], table: Any, unrelated: Any, *, source: Noise) -> list[Call]:
    """Run on ``table``, replay on ``unrelated``, and require the same bytes; the calls that were made.

    Args:
        run: (table, noise) -> all that is released.
        table: what the noise is recorded on.
        unrelated: of the same public shape.
        source: what draws.

    Raises:
        Leaked: the two runs differ.
    """
    recording = RecordingNoise(source)
    with released_outputs(recording):
        first = as_bytes(run(table, recording))
    replayed = ReplayedNoise(recording.calls, source)
    with released_outputs(replayed):
        second = as_bytes(run(unrelated, replayed))
    replayed.require_finished()
    if first != second:
        at = next((i for i, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), -1)
        raise Leaked(f"released: ...{first[max(at - 80, 0) : at + 40]!r}; of the other table {second[at : at + 40]!r}")
    return recording.calls


def replayed_loss(run: Callable[[Any, Noise], Any], table: Any, unrelated: Any, *, source: Noise) -> Finding:
    """What a replay says of privacy, as a finding: infinite where something exact is released, else nothing."""
    try:
        replay(run, table, unrelated, source=source)
    except Leaked:
        return exactly(math.inf)
    return exactly(0)


def as_bytes(released: Any) -> bytes:
    """A released value, with all that it holds, as bytes."""
    return json.dumps(_plain(released), sort_keys=True).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": value.shape, "bytes": np.ascontiguousarray(value).tobytes().hex()}
    if isinstance(value, Enum):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump())
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    if isinstance(value, (float, np.generic)):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, bytes):
        return value.hex()
    if type(value).__module__ in ("decimal", "fractions"):
        return str(value)
    raise TypeError(f"{type(value)}: say how it is compared")


_CHOICES: dict[str, Callable[..., int]] = {
    "exponential_mechanism": lambda scores, **_: np.size(scores),
    "permute_and_flip": lambda scores, **_: np.size(scores),
    # how many runs or intervals there are depends on the data; how many points does not
    "permute_and_flip_runs": lambda scores, lengths, **_: int(np.sum(lengths)),
    "interval_exponential": lambda scores, lengths, **_: int(np.sum(lengths)),
}


def _recorded(mechanism: Callable[..., int], size: Callable[..., int]) -> Callable[..., int]:
    @wraps(mechanism)
    def choose(*scores, noise, **options):
        if not hasattr(noise, "use"):
            return mechanism(*scores, noise=noise, **options)
        terms = {name: value for name, value in options.items() if name != "meter"}
        return noise.use(
            mechanism.__name__,
            {"candidates": size(*scores), **terms},
            lambda: mechanism(*scores, noise=noise, **options),
            options.get("meter"),
        )

    return choose


def _patch_everywhere(stack: ExitStack, old: Callable[..., Any], new: Callable[..., Any]) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("spark_jobs.") and module is not None:
            for attribute, value in list(vars(module).items()):
                if value is old:
                    stack.enter_context(patch.object(module, attribute, new))


def _copied(output: Any) -> Any:
    return output.copy() if isinstance(output, np.ndarray) else output
