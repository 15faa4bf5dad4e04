"""The public monotone map from a scale of scores, such as 300 to 850 or log-odds, to [0, 1].

The map follows from the domain of the column of scores, or from ``bounds``, ``step`` and ``scale`` in the request.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from spark_jobs.contract.domains import Domain, ListedValues, LogOdds, Period, ValueRange
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import (
    DEFAULT_LOG_UNIT,
    LINEAR_SCORE_CELLS,
    MAX_STEPS_FROM_ZERO,
    NEAR,
    are_bounds,
    check_grid,
    values_of_steps,
)
from spark_jobs.contract.values import Frozen

Finite = Annotated[float, Field(allow_inf_nan=False)]
MAX_VALUES = LINEAR_SCORE_CELLS
"""The most values of a scale with a step: each has a cell of its own."""


class ScoreScale(Frozen):
    """A map of scores to [0, 1] that keeps their order, so that figures of ranking, such as the AUC, do not change.

    Attributes:
        kind: ``linear``: ``(s - lower) / (upper - lower)``; if there is a step, ``j / steps``, where the j-th value of
            the scale is the nearest to s. ``log``: ``log1p((s - lower) / unit) / log1p((upper - lower) / unit)``, where
            the unit is ``lower``, or ``2^-20`` of the range if ``lower`` is not above 0. ``logit``: ``1 / (1 +
            exp(-s))``.
        lower, upper: the ends of the scale; None for ``logit``.
        step: the distance between consecutive scores of a linear scale, which are whole steps from ``lower``; None if
            any score may occur. A score is moved to the nearest of these values, each of which has a cell of its own.
    """

    kind: Literal["linear", "log", "logit"]
    lower: Finite | None = None
    upper: Finite | None = None
    step: Annotated[Finite | None, Field(exclude_if=lambda value: value is None)] = None

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        ends = (self.lower, self.upper)
        if self.kind == "logit":
            fits = ends == (None, None)
        else:
            fits = self.lower is not None and self.upper is not None and are_bounds((self.lower, self.upper))
        if not fits:
            raise InvalidRequest(
                "", f"{self.kind}, {self.lower}, {self.upper}",
                "must be linear or log with lower below upper, or logit without lower and upper, so that the map keeps "
                "the order of scores", "give lower and upper, the smaller first, or leave both out for logit",
            )  # fmt: skip
        if self.step is not None:
            self._check_step(self.step)
        return self

    def _check_step(self, step: float) -> None:
        if self.kind != "linear":
            raise InvalidRequest("step", step, f"cannot be combined with scale: {self.kind}", "leave it out")
        lower, upper = self.ends
        check_grid(lower=lower, upper=upper, cells=MAX_VALUES, scale="linear", unit=None, step=step)
        values = values_of_steps(lower, upper, step)
        if values > MAX_VALUES:
            raise InvalidRequest(
                "step", step, f"must leave at most {MAX_VALUES:,} values, not {values:,}",
                "leave it out, or give closer bounds",
            )  # fmt: skip

    @classmethod
    def of(cls, domain: Domain, step: Decimal | None = None) -> Self | None:
        """The map of a column's scores; None if they already lie in [0, 1], or if the domain has no bounds or log-odds.

        Args:
            domain: what the column may hold.
            step: the step between its values, if there is one; it is ignored if the scale would have too many values.
        """
        match domain:
            case LogOdds():
                return cls(kind="logit")
            case ValueRange(bounds=(lower, upper), scale=scale):
                own = cls(kind="log" if scale == "log" else "linear", lower=lower, upper=upper)
                own = own if step is None else own.in_steps(float(step))
                return None if own == cls(kind="linear", lower=0.0, upper=1.0) else own
            case ListedValues() | Period():
                return None

    def in_steps(self, step: float) -> Self:
        """This scale with a step, if it is linear and each of its values then has a cell of its own; else unchanged."""
        if self.kind != "linear":
            return self
        lower, upper = self.ends
        steps = (upper - lower) / step
        distinct = max(abs(lower), abs(upper)) <= MAX_STEPS_FROM_ZERO * step and 1 <= round(steps) < MAX_VALUES
        return self.changed(step=step) if distinct and abs(steps - round(steps)) <= NEAR else self

    @property
    def ends(self) -> tuple[float, float]:
        """The lower and upper end of a ``linear`` or ``log`` scale."""
        if self.lower is None or self.upper is None:
            raise ValueError("log-odds have no ends")
        return self.lower, self.upper

    @property
    def unit(self) -> float:
        """The unit of a ``log`` scale, as in the formula of ``kind``."""
        lower, upper = self.ends
        return lower if lower > 0 else (upper - lower) * DEFAULT_LOG_UNIT

    @property
    def steps(self) -> int:
        """The number of steps from ``lower`` to ``upper`` of a scale that has a step."""
        if self.step is None:
            raise ValueError("the scale has no step")
        return values_of_steps(*self.ends, self.step) - 1

    def place(self, score: float) -> float:
        """The value in [0, 1] of a threshold ``score >= t``, by the same formula as for the scores of rows.

        On a scale with a step, that of the smallest value of the scale that is at least the threshold.
        """
        if self.kind == "logit":
            return 1.0 / (1.0 + math.exp(-score)) if score > -700 else 0.0
        lower, upper = self.ends
        if self.step is not None:
            return math.ceil((score - lower) / self.step - NEAR) / self.steps
        if self.kind == "linear":
            return (score - lower) / (upper - lower)
        return math.log1p((score - lower) / self.unit) / math.log1p((upper - lower) / self.unit)

    def holds(self, score: float) -> bool:
        """Whether a score lies on the scale."""
        return self.kind == "logit" or self.ends[0] <= score <= self.ends[1]

    def describe(self) -> str:
        """The scale in words."""
        if self.kind == "logit":
            return "log-odds"
        apart = "" if self.step is None else f" in steps of {self.step:.12g}"
        logarithmic = ", logarithmic" if self.kind == "log" else ""
        return f"from {self.ends[0]:.12g} to {self.ends[1]:.12g}{apart}{logarithmic}"
