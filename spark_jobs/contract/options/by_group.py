"""Diagnostics of scores for each group of a public list: the options, and the statistic that they are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, SerializeAsAny, field_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.options.base import CONFIDENCE, Confidence, Options, Settings, Statistic, entries_of
from spark_jobs.contract.options.linear import Keys, require_keys
from spark_jobs.contract.options.score_figures import (
    AucOptions,
    AveragePrecisionOptions,
    BinormalRocOptions,
    ConfusionMatrixOptions,
    ConfusionMatrixSettings,
    RankingFiguresOptions,
    RecalibrationOptions,
    rate_at,
)
from spark_jobs.contract.options.scores import (
    BinnedResidualsOptions,
    CalibrationOptions,
    GroupedSettings,
    RocCurveOptions,
)
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.groups import ByGroup

MIN_GROUPS, MAX_GROUPS = 2, 50
MAX_SUMMED = 4
"""The most listed groups whose counts are those of all rows, too. With ``other`` they are five, and the noise of their
sum is the root of 5 times that of one, where half of the budget has twice that of all of it. Of more it is larger."""
POSITIVE_RATE, MEAN_RESIDUAL = "positive_rate", "mean_residual"
RATES_BY_GROUP = ("recall", "false_positive_rate", "precision", "predicted_positive_rate")
"""Figures that groups are compared by: of all rows, and at the thresholds of confusion matrices."""
OTHER = "other"
"""The group of all rows whose group is not listed."""
KindByGroup = (
    RocCurveOptions
    | BinnedResidualsOptions
    | CalibrationOptions
    | AucOptions
    | AveragePrecisionOptions
    | BinormalRocOptions
    | ConfusionMatrixOptions
    | RankingFiguresOptions
    | RecalibrationOptions
)
"""Options of a kind that can be read from the noisy counts of one group."""
KINDS_BY_GROUP: Mapping[str, type[Options]] = {
    options.model_fields["kind"].default: options for options in get_args(KindByGroup)
}
"""The same kinds by their names."""


class GroupedScoreCells(Statistic):
    """The statistic of a classifier by group: rows per group, label and cell (``statistics.GroupedScoreCounts``).

    Attributes:
        group_by: the column that assigns rows to groups.
        groups: public keys of the groups; rows with other keys form a group of their own.
    """

    of_label: ClassVar[bool] = True
    of_model: ClassVar[str | None] = "scores"
    remedy_for_size: ClassVar[str] = "list fewer groups"
    kind: Literal["grouped_scores"] = "grouped_scores"
    group_by: str
    groups: Keys

    @property
    def max_keys(self) -> int:
        """The number of counts: one for each group, label and cell."""
        return (len(self.groups) + 1) * 2 * SCORE_CELLS


class ByGroupSettings(Settings):
    """Which diagnostics are released for each group.

    Attributes:
        kinds: the diagnostics of scores that each group gets: kinds, or kinds with their options. All of them are read
            from one noisy release of the group.
        confidence: nominal level of the intervals by which groups are compared.
    """

    kinds: tuple[SerializeAsAny[Options], ...]
    confidence: Confidence = CONFIDENCE

    @field_validator("kinds", mode="before")
    @classmethod
    def _known_kinds(cls, value: Any) -> Any:
        return entries_of(value, KINDS_BY_GROUP)

    @field_validator("kinds")
    @classmethod
    def _readable(cls, value: tuple[Options, ...]) -> tuple[Options, ...]:
        if not value:
            raise InvalidRequest("", [], "must name a kind", "ask for roc_curve")
        for options in value:
            if options.weight is not None or not options.can_share:
                raise InvalidRequest(
                    options.kind, None, "must be computed from the counts of its group, without a cost of its own",
                    "leave out weight, share and method of this kind, and give the weight to by_group",
                )  # fmt: skip
        return value

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The thresholds of all confusion matrices, in order."""
        return tuple(at for of in self.kinds if isinstance(of, ConfusionMatrixSettings) for at in of.thresholds)


class ByGroupOptions(ByGroupSettings, Options):
    """Diagnostics of scores for each group of a public list, at the cost of one release, and comparisons of the groups.

    Attributes:
        group_by: the column that assigns rows to groups.
        groups: public keys of the groups, in the order in which they are released: texts or whole numbers, which are
            compared with the column as text. All other rows form the group ``other``.
    """

    result: ClassVar[type[Result]] = ByGroup
    keys_of: ClassVar[Mapping[str, str]] = {"group_by": "groups"}
    kind: Literal["by_group"] = "by_group"
    group_by: Annotated[str, Field(min_length=1, max_length=255)]
    groups: Keys

    @field_validator("groups", mode="before")
    @classmethod
    def _keys(cls, value: Any) -> Any:
        keys = require_keys(value)
        if not MIN_GROUPS <= len(keys) <= MAX_GROUPS:
            raise InvalidRequest(
                "", len(keys), f"must be from {MIN_GROUPS} to {MAX_GROUPS} keys",
                "list the groups to compare; all other rows are one more group",
            )  # fmt: skip
        if OTHER in map(str, keys):
            raise InvalidRequest(
                "", OTHER, "must not be listed, because this name is taken by the group of all rows whose key is not "
                "listed",
                "leave the name out: that group is released in any case",
            )  # fmt: skip
        return keys

    @property
    def can_share(self) -> bool:
        """Whether its counts, summed over groups, serve other diagnostics too: with few groups and no weight."""
        return self.weight is None and len(self.groups) <= MAX_SUMMED

    @property
    def halves_shared(self) -> bool:
        """Whether its separate measurement takes half of the shared pool: with many groups and no weight."""
        return self.weight is None and len(self.groups) > MAX_SUMMED

    @property
    def statistic(self) -> Statistic:
        """Counts of scores by group."""
        return GroupedScoreCells(group_by=self.group_by, groups=self.groups)

    @property
    def unit_figures(self) -> tuple[str, ...]:
        """The figures by which groups are compared, apart from areas under curves."""
        residuals = [MEAN_RESIDUAL] if any(isinstance(of, GroupedSettings) for of in self.kinds) else []
        rates = [rate_at(rate, place) for place in range(len(self.thresholds)) for rate in RATES_BY_GROUP]
        return (POSITIVE_RATE, *residuals, *rates)


KINDS: tuple[type[Options], ...] = (ByGroupOptions,)
