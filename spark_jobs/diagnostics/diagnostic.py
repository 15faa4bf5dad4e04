"""The types of a diagnostic: terms, measurement, draw, and the diagnostic itself.

A ``Measurement`` spends budget: it turns exact statistics into a draw, which holds noisy numbers and their cost. A
``Diagnostic`` summarises a draw as a result, which is post-processing and costs nothing. Several diagnostics may
summarise one measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Generic, ParamSpec, Protocol, Self, TypeVar

from pydantic import ConfigDict, SkipValidation, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import EARLIEST_ROUNDING, ROUNDING
from spark_jobs.contract.options import Options
from spark_jobs.contract.privacy import Neighbours, exact_sum
from spark_jobs.contract.values import Frozen
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.sampling import Influence, Sampling
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.meter import BudgetMeter, RhoMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.numeric_threads import one_thread

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
    """Budget, neighbouring relation and noise of a measurement.

    Attributes:
        epsilon: largest epsilon that the measurement may spend; floats are read as Python prints them.
        delta: largest delta that it may spend; methods of pure differential privacy spend none.
        neighbours: the relation of the guarantee. ``REPLACE_ONE`` doubles the noise of counts.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production); ``SeededNoise`` marks
            every result NOT PRIVATE.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    epsilon: Cost
    delta: Cost = 0
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    noise: Annotated[Noise, SkipValidation] = SecureNoise()

    def meter(self) -> BudgetMeter:
        """A meter with this budget.

        Raises:
            InvalidRequest: the budget is not above 0.
        """
        return BudgetMeter(self.epsilon, self.delta)

    def require_budget(self) -> None:
        """Refuse a budget that can pay for nothing.

        Raises:
            InvalidRequest: it is not above 0.
        """
        self.meter()


class RhoTerms(Terms):
    """Terms of a measurement whose budget may be a rho.

    Attributes:
        epsilon: 0 if the budget is a rho.
        rho: largest rho that it may spend, of a row; nothing else is spent then.
    """

    epsilon: Cost = Decimal(0)
    rho: Cost | None = None

    def require_budget(self) -> None:
        """Refuse a budget that can pay for nothing; see ``Terms``."""
        if self.rho is None:
            self.meter()
        else:
            RhoMeter(self.rho)

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if self.rho is not None and (self.epsilon or self.delta):
            raise InvalidRequest(
                "rho", str(self.rho), "cannot be combined with epsilon or delta",
                "give rho alone, or leave it out",
            )  # fmt: skip
        return self


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """Noisy numbers, with the public facts that their summary needs; the only output of a measurement.

    Attributes:
        neighbours: the relation of the guarantee.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        spendings: cost of each step; they add up to the cost of the measurement.
        rounding: the rule by which thresholds and values were compared on public grids (``contract.grids.ROUNDING``).
    """

    neighbours: Neighbours
    guarantee: str
    spendings: tuple[Spending, ...]
    rounding: str = field(default=ROUNDING, metadata={codec.ABSENT: EARLIEST_ROUNDING})

    @classmethod
    def of(cls, terms: Terms, meter: BudgetMeter, **content: Any) -> Self:
        """A draw with this content: relation and guarantee come from the terms, the cost from the meter."""
        spendings = meter.spendings
        return cls(neighbours=terms.neighbours, guarantee=terms.noise.guarantee, spendings=spendings, **content)

    @property
    def stated(self) -> dict[str, Any]:
        """The fields that every result copies from its draw: epsilon, relation and guarantee."""
        return {"epsilon": self.epsilon, "neighbours": self.neighbours, "guarantee": self.guarantee}

    @property
    def origin(self) -> dict[str, Any]:
        """The fields that a draw derived from this one copies: relation, guarantee, cost and rounding."""
        return {name: getattr(self, name) for name in ("neighbours", "guarantee", "spendings", "rounding")}

    @property
    def epsilon(self) -> Decimal:
        """Epsilon that the measurement spent."""
        return exact_sum(*(spending.epsilon for spending in self.spendings))

    @property
    def delta(self) -> Decimal:
        """Delta that the measurement spent."""
        return exact_sum(*(spending.delta for spending in self.spendings))

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes of the request's scores, if the draw contains them."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The draw as plain JSON types; ``Measurement.decode`` is the inverse."""
        encoded: dict[str, Any] = codec.encode(self)
        return encoded


class MeasureFunction(Protocol[_S, _D]):
    """The function of a measurement: makes a draw from exact statistics, options and terms."""

    def __call__(self, statistic: _S, options: Any, terms: Terms, /) -> _D:
        """Draw the noise."""


@dataclass(frozen=True, kw_only=True)
class Measurement(Generic[S, D]):
    """The random part of one or several diagnostics; it alone spends budget.

    Attributes:
        draw: type of the draw.
        measure: draws the noise: ``measure(statistic, options, terms)``. ``options`` are the diagnostic's settings, or
            an entry of a request with these settings.
    """

    draw: type[D]
    measure: MeasureFunction[S, D]

    def __post_init__(self) -> None:
        object.__setattr__(self, "measure", one_thread(self.measure))

    def decode(self, data: Any) -> D:
        """The draw that ``Draw.to_dict`` encoded."""
        return codec.decode(self.draw, data)


@dataclass(frozen=True, kw_only=True)
class Diagnostic(Generic[P, S, D, R]):
    """A kind of diagnostic.

    Attributes:
        options: type of its entry in a request; holds its ``kind``, ``checks`` and ``figures``.
        call: type of the arguments of ``release``: the settings and ``Terms``.
        measurement: its random part.
        summarise: turns a draw into a result: ``summarise(draw, seed=...)``; a function of the draw and the seed.
        of_population: whether the result says something of a population; ``summarise`` then takes ``sampling``, too.
        read_shared: converts the draw of a measurement that several diagnostics share to a draw of this diagnostic;
            None if the diagnostic cannot share a measurement.
        measure_rest: draws what the shared measurement lacks: ``measure_rest(statistic, options, terms, shared)``. None
            if the diagnostic takes everything from the shared measurement, or nothing.
        influences: the influence of rows on its headline figures, by their names in ``options.unit_figures``; a
            function of the draw. None if there are none.
    """

    options: type[Options]
    call: Callable[P, Terms]
    measurement: Measurement[S, D]
    summarise: Callable[..., R]
    read_shared: Callable[[Any, Any], D] | None = None
    measure_rest: Callable[[Any, Any, Terms, Any], D] | None = None
    influences: Callable[[Any], Mapping[str, Influence]] | None = None
    of_population: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "summarise", one_thread(self.summarise))

    @property
    def kind(self) -> str:
        """The name of the diagnostic in a request."""
        return str(self.options.model_fields["kind"].default)

    def measure(self, statistic: S, /, *args: P.args, **options: P.kwargs) -> D:
        """Draw the noise; arguments and errors are those of ``release``."""
        return self._measure(statistic, self.call(*args, **options))

    def release(self, statistic: S, /, *args: P.args, **options: P.kwargs) -> R:
        """Measure and summarise in one call. The result is differentially private for every table.

        Args:
            statistic: exact statistics of the rows; private.
            args: none; all options are keywords.
            options: ``epsilon``, ``delta``, ``neighbours`` and ``noise`` (``Terms``), and the diagnostic's settings.

        Raises:
            InvalidRequest: an option is out of bounds, or the method cannot work with the budget.
        """
        terms = self.call(*args, **options)
        draw = self._measure(statistic, terms)
        return self.summarise(draw, seed=int(terms.noise.words(1)[0] >> 1))

    def summarised(self, draw: D, *, seed: int, sampling: Sampling) -> R:
        """The result of a draw; ``sampling`` is used if the result says something of a population."""
        return self.summarise(draw, seed=seed, **({"sampling": sampling} if self.of_population else {}))

    def _measure(self, statistic: S, terms: Terms) -> D:
        terms.require_budget()  # an invalid budget is reported before an option that does not fit it
        return self.measurement.measure(statistic, terms, terms)

    def render(self, result: R, request: ReleaseRequest) -> Rendering:
        """The pictures, data columns and report section of a result."""
        rendering: Rendering = import_module(f"spark_jobs.diagnostics.{self.kind}.page").render(result, request)
        return rendering


def diagnostic(kind: str) -> Diagnostic[Any, Any, Any, Any]:
    """The diagnostic of this name in a request."""
    registered: Diagnostic[Any, Any, Any, Any] = import_module(f"spark_jobs.diagnostics.{kind}").DIAGNOSTIC
    return registered
