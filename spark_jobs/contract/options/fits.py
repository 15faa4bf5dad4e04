"""Models that are fitted privately: their options, and the exact sums that they are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.grids import are_bounds
from spark_jobs.contract.options.base import CONFIDENCE, Confidence, Options, Settings, Statistic
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.fits import PrivateLinearFit, PrivateLogisticFit
from spark_jobs.contract.values import Frozen

MAX_TERMS = 128
"""The most terms of a fit, including the intercept and the outcome; a fit has a sum for each pair of terms."""
COEFFICIENT_STEPS = 2**20
"""Coefficients at which sums are made are multiples of ``1 / COEFFICIENT_STEPS``: linear predictors are then exact."""
ROUNDING = 16
"""A row's gradient and weighted entries are rounded to ``1 / ROUNDING`` of a lattice step."""
Level = bool | int | str
FitMethod = Literal["auto", "k_norm", "laplace", "gaussian"]
InterceptMethod = Literal["matched", "polynomial"]
Name = Annotated[str, Field(min_length=1, max_length=1000)]


class Bounded(Frozen):
    """A number with public bounds; values beyond a bound are clipped to it.

    Attributes:
        name: a column, or an expression of the allow-list.
        lower, upper: the bounds.
    """

    name: Name
    lower: float
    upper: float

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if not are_bounds((self.lower, self.upper)) or self.middle + self.half <= self.middle:
            raise InvalidRequest(
                "", [self.lower, self.upper], "must be two numbers in ascending order, both between -1e100 and 1e100",
                "give public bounds of the values, such as [0, 100]",
            )  # fmt: skip
        return self

    @property
    def middle(self) -> float:
        """Halfway between the bounds."""
        return self.lower / 2 + self.upper / 2

    @property
    def half(self) -> float:
        """Half the distance between the bounds."""
        return self.upper / 2 - self.lower / 2


class Levels(Frozen):
    """A categorical column with public levels: the first is the reference, and each of the others gets a coefficient.

    Attributes:
        column: the column's name.
        levels: the levels, as text; a value that is not listed, or null, counts as the reference.
    """

    column: Annotated[str, Field(min_length=1, max_length=255)]
    levels: Annotated[tuple[str, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.levels)) < len(self.levels):
            raise InvalidRequest(
                "", list(self.levels), "must list each level only once", "leave out the repeated levels"
            )
        return self

    @property
    def coded_levels(self) -> tuple[str, ...]:
        """The levels that have a coefficient."""
        return self.levels[1:]

    @property
    def absent(self) -> int:
        """The number that codes the absence of a level: -1 with two levels, otherwise 0; its presence is coded as 1."""
        return -1 if len(self.levels) == 2 else 0

    @property
    def half(self) -> float:
        """The scale of the coding ``(x - (1 - half)) / half``, where x is 1 in rows of the level and 0 in others."""
        return 0.5 if len(self.levels) == 2 else 1.0


class _Products(Statistic):
    """Sums of products of a fit's terms (``statistics.CrossProducts``).

    Attributes:
        features: the numerical features.
        categorical: the categorical columns.
    """

    features: tuple[Bounded, ...]
    categorical: tuple[Levels, ...] = ()

    @property
    def terms(self) -> int:
        """The number of terms: the intercept, the features, all levels but the references, and the outcome."""
        return 2 + len(self.features) + sum(len(factor.coded_levels) for factor in self.categorical)

    @property
    def max_keys(self) -> int:
        """One sum for each pair of terms."""
        return self.terms**2


class CrossProductCells(_Products):
    """The statistic of a linear fit: sums of products of its features and outcome (``statistics.CrossProducts``).

    Attributes:
        outcome: the number that the model predicts.
    """

    kind: Literal["cross_products"] = "cross_products"
    outcome: Bounded


class LabelledRowCells(_Products):
    """The statistic of a logistic fit: sums over labelled rows, at coefficients computed from earlier noisy sums."""

    of_label: ClassVar[bool] = True
    kind: Literal["labelled_rows"] = "labelled_rows"


class FitSettings(Settings):
    """How a fit is released from its sums.

    Attributes:
        method: the noise of the sums: ``k_norm`` (drawn jointly), ``laplace``, ``gaussian`` (spends delta), or
            ``auto`` for the least noise that the budget allows, chosen by public facts alone.
        confidence: nominal level of the intervals.
    """

    method: FitMethod = "auto"
    confidence: Confidence = CONFIDENCE


class LogisticFitSettings(FitSettings):
    """How a logistic fit is released from its sums.

    Attributes:
        radius: the Newton passes start at the maximum of a polynomial that approximates the logistic log likelihood for
            linear predictors up to this size. The result depends on it only where the budget leaves nothing for passes.
        intercept: the intercept at the start. ``matched`` moves it so that the mean probability is the noisy share of
            positive rows; ``polynomial`` takes the intercept at the polynomial's maximum.
    """

    radius: Annotated[float, Field(ge=1, le=16)] = 4.0
    intercept: InterceptMethod = "matched"


class _FitOptions(FitSettings, Options):
    """The options that both kinds of fits have.

    Attributes:
        features: columns or expressions of the allow-list, with public bounds: ``{"age": [18, 80]}``.
        categorical: columns with their public levels, the reference first: ``{"region": ["north", "south"]}``.
    """

    features: dict[Name, tuple[float, float]] = Field(default_factory=dict)
    categorical: dict[Annotated[str, Field(min_length=1, max_length=255)], tuple[Level, ...]] = Field(
        default_factory=dict
    )

    @field_validator("features")
    @classmethod
    def _within_bounds(cls, value: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        for name, bounds in value.items():
            parse(name, what="")
            _bounded(name, bounds)
        return value

    @field_validator("categorical")
    @classmethod
    def _with_levels(cls, value: Mapping[str, tuple[Level, ...]]) -> Mapping[str, tuple[Level, ...]]:
        for name, levels in value.items():
            texts = [level_text(level) for level in levels]
            if len(texts) < 2 or len(set(texts)) < len(texts):
                raise InvalidRequest(
                    name, list(levels), "must be two or more different levels",
                    "list the levels, the reference first",
                )  # fmt: skip
        return value

    @model_validator(mode="after")
    def _has_terms(self) -> Self:
        if not self.features and not self.categorical:
            raise InvalidRequest(
                "features", None, "must name at least one feature",
                "give columns with their public bounds, such as {'age': [18, 80]}",
            )  # fmt: skip
        twice = sorted(set(self.features) & set(self.categorical))
        if twice:
            raise InvalidRequest(
                "categorical",
                twice[0],
                "must not be in both features and categorical",
                "list the column in only one of them",
            )
        terms = 2 + len(self.features) + sum(len(levels) - 1 for levels in self.categorical.values())
        if terms > MAX_TERMS:
            raise InvalidRequest(
                "features", f"{terms} terms", f"must be at most {MAX_TERMS}, counting every level",
                "leave out the least useful features, or combine rare levels by an expression",
            )  # fmt: skip
        return self

    @property
    def approximate(self) -> bool:
        """Whether it spends delta, so that a budget without delta is rejected."""
        return self.method == "gaussian"

    @property
    def accepts_delta(self) -> bool:
        """Whether it gets a share of the budget's delta, if there is any."""
        return self.method in ("auto", "gaussian")

    @property
    def terms_of_rows(self) -> dict[str, Any]:
        """The fields that both statistics have in common."""
        return {
            "features": tuple(_bounded(name, bounds) for name, bounds in self.features.items()),
            "categorical": tuple(
                Levels(column=name, levels=tuple(level_text(level) for level in levels))
                for name, levels in self.categorical.items()
            ),
        }


class LinearFitOptions(_FitOptions):
    """Linear model of several features, fitted by noisy sums.

    Attributes:
        outcome: the number that the model predicts, a column or an expression of the allow-list.
        outcome_bounds: its public bounds; values beyond a bound are clipped to it.
    """

    result: ClassVar[type[Result]] = PrivateLinearFit
    bounds_of: ClassVar[Mapping[str, str]] = {"outcome": "outcome_bounds"}
    kind: Literal["linear_fit"] = "linear_fit"
    outcome: Name
    outcome_bounds: tuple[float, float]

    @model_validator(mode="after")
    def _outcome_is_no_feature(self) -> Self:
        parse(self.outcome, what="outcome")
        _bounded("outcome_bounds", self.outcome_bounds)
        if self.outcome in self.features or self.outcome in self.categorical:
            raise InvalidRequest(
                "outcome", self.outcome, "must not be among the features", "remove the outcome from the features"
            )
        return self

    @property
    def statistic(self) -> CrossProductCells:
        """Sums of products of the features and the outcome."""
        return CrossProductCells(**self.terms_of_rows, outcome=_bounded(self.outcome, self.outcome_bounds))


class LogisticFitOptions(LogisticFitSettings, _FitOptions):
    """Logistic model of the request's label, fitted by noisy sums."""

    result: ClassVar[type[Result]] = PrivateLogisticFit
    kind: Literal["logistic_fit"] = "logistic_fit"

    @property
    def statistic(self) -> LabelledRowCells:
        """Gradients and Hessians of the features and the label."""
        return LabelledRowCells(**self.terms_of_rows)


def level_text(level: Level) -> str:
    """``level`` as text, as a model's ``categorical`` spells it."""
    text = str(level)
    return text if isinstance(level, str) or text not in ("True", "False") else text.lower()


def _bounded(name: str, bounds: tuple[float, float]) -> Bounded:
    try:
        return Bounded(name=name, lower=bounds[0], upper=bounds[1])
    except InvalidRequest as refused:
        raise refused.within(name) from None


KINDS: tuple[type[Options], ...] = (
    LinearFitOptions,
    LogisticFitOptions,
)
