"""The public monotone map from a scale of scores, such as 300 to 850 or log-odds, to [0, 1]."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from spark_jobs.contract.domains import Domain, ListedValues, LogOdds, Period, ValueRange
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import DEFAULT_LOG_UNIT, are_bounds
from spark_jobs.contract.values import Frozen

Finite = Annotated[float, Field(allow_inf_nan=False)]


class ScoreScale(Frozen):
    """A map of scores to [0, 1] that keeps their order: all figures of ranking are those of the scores as they are.

    Attributes:
        kind: ``linear``: ``(s - lower) / (upper - lower)``. ``log``: ``log1p((s - lower) / unit) / log1p((upper -
            lower) / unit)``, where the unit is ``lower``, or ``2^-20`` of the range if ``lower`` is not above 0.
            ``logit``: ``1 / (1 + exp(-s))``.
        lower, upper: the ends of the scale; None for ``logit``.
    """

    kind: Literal["linear", "log", "logit"]
    lower: Finite | None = None
    upper: Finite | None = None

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
                "must be linear or log with two ascending ends, or logit without: the map must keep the "
                "order of scores", "give lower and upper, the smaller first",
            )  # fmt: skip
        return self

    @classmethod
    def of(cls, domain: Domain) -> Self | None:
        """The map of a column's scores; None if they lie in [0, 1] as they are, or the domain is none of numbers."""
        match domain:
            case LogOdds():
                return cls(kind="logit")
            case ValueRange(bounds=(lower, upper), scale=scale):
                if (lower, upper) == (0.0, 1.0) and scale != "log":
                    return None
                return cls(kind="log" if scale == "log" else "linear", lower=lower, upper=upper)
            case ListedValues() | Period():
                return None

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of a scale that has them."""
        if self.lower is None or self.upper is None:
            raise ValueError("log-odds have no ends")
        return self.lower, self.upper

    @property
    def unit(self) -> float:
        """The unit of ``log``."""
        lower, upper = self.ends
        return lower if lower > 0 else (upper - lower) * DEFAULT_LOG_UNIT

    def place(self, score: float) -> float:
        """Where a public score, such as a threshold, lies in [0, 1]: by the formula that scores of rows go through."""
        if self.kind == "logit":
            return 1.0 / (1.0 + math.exp(-score)) if score > -700 else 0.0
        lower, upper = self.ends
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
        return f"from {self.ends[0]:.12g} to {self.ends[1]:.12g}" + (", logarithmic" if self.kind == "log" else "")
