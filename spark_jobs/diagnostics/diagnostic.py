"""What a diagnostic is: its options, the measurement that is paid for, and what becomes of it.

A ``Measurement`` is what is paid for and drawn. From exact statistics it makes a draw: noisy numbers, with what they
cost. A ``Diagnostic`` summarises a draw as a result, which costs nothing. Several diagnostics may summarise one
measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Generic, ParamSpec, Protocol, TypeVar

from pydantic import ConfigDict, SkipValidation

from spark_jobs.contract.options import Options
from spark_jobs.contract.privacy import Neighbours, exact_sum
from spark_jobs.contract.values import Frozen
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise

if TYPE_CHECKING:
    from spark_jobs.contract.request import ReleaseRequest
    from spark_jobs.publishing.rendering import Rendering

P = ParamSpec("P")
S = TypeVar("S")
D = TypeVar("D", bound="Draw")
R = TypeVar("R")
_S = TypeVar("_S", contravariant=True)
_D = TypeVar("_D", covariant=True)


class Terms(Frozen):
    """Under what terms a measurement is made.

    Attributes:
        epsilon: what it may cost; floats are read as Python prints them.
        delta: the same, for methods that spend delta; the others spend none.
        neighbours: the relation of the guarantee. ``REPLACE_ONE`` doubles the noise of counts.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production); ``SeededNoise`` stamps what is made
            with it NOT PRIVATE.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    epsilon: Cost
    delta: Cost = 0
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    noise: Annotated[Noise, SkipValidation] = SecureNoise()

    def meter(self) -> BudgetMeter:
        """A meter that holds the budget.

        Raises:
            InvalidRequest: it is not a budget above 0.
        """
        return BudgetMeter(self.epsilon, self.delta)


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """Noisy numbers, and the public facts needed to read them: all that is kept of a table once noise was drawn.

    Attributes:
        neighbours: the relation of the guarantee.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        spendings: what each step cost; together, what the measurement cost.
    """

    neighbours: Neighbours
    guarantee: str
    spendings: tuple[Spending, ...]

    @property
    def epsilon(self) -> Decimal:
        """What the measurement cost."""
        return exact_sum(*(spending.epsilon for spending in self.spendings))

    @property
    def delta(self) -> Decimal:
        """What it cost in delta."""
        return exact_sum(*(spending.delta for spending in self.spendings))

    def to_dict(self) -> dict[str, Any]:
        """The draw as plain JSON types; ``Measurement.decode`` is the way back."""
        encoded: dict[str, Any] = codec.encode(self)
        return encoded


class MeasureFunction(Protocol[_S, _D]):
    """How noise is drawn: from exact statistics, under terms, with the diagnostic's options."""

    def __call__(self, statistic: _S, options: Any, terms: Terms, /) -> _D:
        """A draw of the statistic."""


@dataclass(frozen=True, kw_only=True)
class Measurement(Generic[S, D]):
    """What is paid for and drawn.

    Attributes:
        draw: the type of what is drawn.
        measure: draws it: ``measure(statistic, options, terms)``. ``options`` are the diagnostic's settings, or the
            entry of a request that has them.
    """

    draw: type[D]
    measure: MeasureFunction[S, D]

    def decode(self, data: Any) -> D:
        """The draw that ``Draw.to_dict`` described."""
        return codec.decode(self.draw, data)


@dataclass(frozen=True, kw_only=True)
class Diagnostic(Generic[P, S, D, R]):
    """A kind of release.

    Attributes:
        options: the entry of a request that asks for it; its ``kind``, ``checks`` and ``figures`` are the diagnostic's.
        call: the settings together with ``Terms``: the arguments of ``release``.
        measurement: what is paid for.
        summarise: makes the result of a draw: ``summarise(draw, seed=...)``, the same for the same draw and seed.
        read_shared: reads the draw of a measurement that several diagnostics share as one of the diagnostic's own;
            None for a diagnostic that cannot share.
    """

    options: type[Options]
    call: Callable[P, Terms]
    measurement: Measurement[S, D]
    summarise: Callable[..., R]
    read_shared: Callable[[Any, Any], D] | None = None

    @property
    def kind(self) -> str:
        """What a request calls it."""
        return str(self.options.model_fields["kind"].default)

    def measure(self, statistic: S, /, *args: P.args, **options: P.kwargs) -> D:
        """Draw the noise; arguments and refusals as ``release``."""
        return self._measure(statistic, self.call(*args, **options))

    def release(self, statistic: S, /, *args: P.args, **options: P.kwargs) -> R:
        """Measure and summarise in one call; private whatever the rows are.

        Args:
            statistic: exact statistics of the rows; private.
            args: none.
            options: ``epsilon``, ``delta``, ``neighbours`` and ``noise`` (``Terms``), and the diagnostic's settings.

        Raises:
            InvalidRequest: an option is out of its bounds, or the budget is not one that the method can work with.
        """
        terms = self.call(*args, **options)
        draw = self._measure(statistic, terms)
        return self.summarise(draw, seed=int(terms.noise.words(1)[0] >> 1))

    def _measure(self, statistic: S, terms: Terms) -> D:
        terms.meter()  # what is no budget is refused before an option that does not fit it
        return self.measurement.measure(statistic, terms, terms)

    def render(self, result: R, request: ReleaseRequest) -> Rendering:
        """The result's pictures, data columns and section of the report."""
        rendering: Rendering = import_module(f"spark_jobs.diagnostics.{self.kind}.page").render(result, request)
        return rendering


def diagnostic(kind: str) -> Diagnostic[Any, Any, Any, Any]:
    """The diagnostic that a request calls ``kind``."""
    registered: Diagnostic[Any, Any, Any, Any] = import_module(f"spark_jobs.diagnostics.{kind}").DIAGNOSTIC
    return registered
