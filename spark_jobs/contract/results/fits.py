"""Released private fits: a linear and a logistic model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure import Number, Numbers, figure
from spark_jobs.contract.figures import OK, SHRUNK
from spark_jobs.contract.published import Result, withheld
from spark_jobs.contract.result_checks import Fields, ResultCheck, among, finite, numbers, positive, same_length
from spark_jobs.contract.results.curves import SHARE
from spark_jobs.contract.tables import LinearModel, LogisticModel

if TYPE_CHECKING:
    from decimal import Decimal

    from spark_jobs.arrays import FloatArray


def _model(kind: type[LinearModel | LogisticModel]) -> ResultCheck:
    """The released model is one that a request accepts, with the released coefficients."""

    def broken(result: Fields) -> Iterator[str]:
        coefficients = numbers(result, "coefficients")
        try:
            model = kind.parse(result["model"])
        except InvalidRequest:
            yield "model is one that a request accepts"
            return
        effects = [value for levels in model.categorical.values() for value in list(levels.values())[1:]]
        if model.basis != "differentially_private":
            yield "model is differentially private"
        if [model.intercept, *model.coefficients.values(), *effects] != coefficients:
            yield "model has the released coefficients"

    return ResultCheck(names=("model", "coefficients"), broken=broken)


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateFit(Result):
    """A privately fitted model; arrays have one value for each term, the intercept first.

    Attributes:
        terms: ``intercept``, features, and ``column = level`` for each level except the reference.
        ridge: ridge penalty that shrinks the slopes towards 0, in units of the sums; 0 if the noise is small.
        rows: noisy number of rows, at least 0.
        model: the model as the ``model`` of a request; it clips values to the bounds of the fit.
        method: ``k_norm``, ``laplace`` or ``gaussian`` noise.
        delta: cost of the release, beside ``epsilon``.
        coefficients: change of the linear predictor per unit of each column; for a linear model in units of the
            outcome, for a logistic one in log-odds. Intervals are for the same rows and ridge without noise; those for
            the population assume that the model is correctly specified.
        spans: width of each term's public bounds; 1 for the intercept and for a level.
        status: ``ok``; ``shrunk`` if there is a ridge, or if the noise let a logistic fit end before the maximum of the
            likelihood; ``undefined`` if the noisy number of rows is too small for its noise; then coefficients,
            intervals and figures are NaN, and there is no model.
    """

    KIND: ClassVar[str]
    ORDER: ClassVar[str] = (
        "terms ridge rows model status method confidence epsilon delta neighbours guarantee "
        "coefficients lower upper lower_population upper_population spans *"
    )
    ARRAYS_LAST: ClassVar[bool] = False
    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        among("status", values=(OK, SHRUNK)),
        same_length("terms", "spans"),
        finite("spans"),
        positive("spans"),
        finite("rows", "ridge", low=0),
    )

    terms: tuple[str, ...]
    ridge: float
    rows: float
    model: dict[str, Any] | None = withheld()
    method: str
    delta: Decimal
    coefficients: Numbers = figure("coefficient", "interval", "population", axis="terms", stem="", population_last=True)
    spans: FloatArray

    @property
    def kind(self) -> str:
        """The kind of the model: ``linear`` or ``logistic``."""
        return self.KIND

    @property
    def intercept(self) -> float:
        """The linear predictor if every feature is 0 and every level is the reference."""
        return float(self.coefficients.value[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateLinearFit(PrivateFit):
    """A privately fitted linear model.

    Attributes:
        residual_stddev: standard deviation of the residuals, in units of the outcome; None if the noise hides it.
        r_squared: the share of the outcome's variance that the model explains; None if the noise hides it.
    """

    KIND: ClassVar[str] = "linear"
    RULES: ClassVar[tuple[ResultCheck, ...]] = (*PrivateFit.RULES, _model(LinearModel))

    residual_stddev: float | None = figure("standard deviation of the residuals", limits=(0, None), nullable=True)
    r_squared: Number = figure(
        "share of the outcome's variance explained", "interval", "population", limits=SHARE, split=True,
        population_last=True, nullable=True, headline="R squared",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateLogisticFit(PrivateFit):
    """A privately fitted logistic model.

    Attributes:
        positives: the share of the rows with a positive label.
    """

    KIND: ClassVar[str] = "logistic"
    RULES: ClassVar[tuple[ResultCheck, ...]] = (*PrivateFit.RULES, _model(LogisticModel))

    positives: float | None = figure("share of positives", limits=SHARE, nullable=True)
