"""A map that recalibrates a model's scores."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import Frozen


def require_both(fitted_by: str | None, release: str | None) -> None:
    """Refuse a model or map with only one of the key and the URI of the release that fitted it.

    Raises:
        InvalidRequest: one of the two is missing.
    """
    if (fitted_by is None) != (release is None):
        raise InvalidRequest(
            "fitted_by", fitted_by, "must be left out, because it is filled in from the release that fitted the model",
            "give only the release, {'release': URI}, as the model",
        )  # fmt: skip


class ScoreMap(Frozen):
    """A map that recalibrates scores: ``1 / (1 + exp(-(intercept + slope ln(c / (1 - c)))))`` of the clipped score c.

    Attributes:
        intercept, slope: the coefficients of the logistic regression of labels on log-odds of scores.
        clip: scores are clipped to [clip, 1 - clip].
        fitted_by: the key of the release that fitted the map, if one did; filled in together with the map itself.
        release: the URI of that release; when a request is charged, map and model are verified against it.
    """

    intercept: Annotated[float, Field(ge=-100, le=100)]
    slope: Annotated[float, Field(ge=-100, le=100)]
    clip: Annotated[float, Field(ge=1e-6, le=0.1)]
    fitted_by: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    release: Annotated[str, Field(min_length=1, max_length=2000)] | None = None

    @model_validator(mode="after")
    def _named_with_its_place(self) -> Self:
        require_both(self.fitted_by, self.release)
        return self
