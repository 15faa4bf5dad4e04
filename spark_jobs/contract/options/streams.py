"""The options of the mechanisms that turn a stream's counts into released estimates, and of its monitors."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.base import CONFIDENCE, Confidence
from spark_jobs.contract.privacy import ExactDecimal, exact_decimal, plain
from spark_jobs.contract.values import Frozen

MAX_SEASON = 1 << 16
MAX_GROUP = 1 << 16
MAX_THRESHOLD = 1_000_000
MIN_EPSILON = Decimal("1e-6")
"""The smallest epsilon of a part of a stream's mechanism: below it the noise exceeds any count."""

Smoothing = Literal["median", "mean", "james_stein"]


MAX_MONITORS = 8


class StreamMonitor(Frozen):
    """A condition that the report of a stream watches at each step; it reads released counts, and so costs nothing.

    Attributes:
        kind: the condition. ``low``: the sum over the newest window is below ``threshold``. ``high``: it is above
            ``threshold``. ``jump``: it exceeds the sum over the window before by more than ``threshold``. ``drop``: it
            falls short of the sum over the window before by more than ``threshold``.
        window: the number of steps of a window.
        threshold: a number of rows.
    """

    kind: Literal["low", "high", "jump", "drop"]
    window: Annotated[int, Field(ge=1)] = 1
    threshold: Annotated[int, Field(ge=0, le=1 << 40)]

    def check(self, steps: int) -> None:
        """Reject a window that is longer than the stream.

        Raises:
            InvalidRequest: the condition needs more than ``steps`` steps.
        """
        needed = self.steps_needed
        if needed > steps:
            what = "compares two windows" if self.compares else "needs a window"
            longest = steps * self.window // needed
            raise InvalidRequest(
                "window", self.window,
                f"must be at most {longest}, because {self.kind} {what} ({needed} steps), and the stream has {steps}",
                "shorten the window",
            )  # fmt: skip

    @property
    def compares(self) -> bool:
        """Whether a window is compared with the one before."""
        return self.kind in ("jump", "drop")

    @property
    def steps_needed(self) -> int:
        """The number of steps that the condition reads."""
        return self.window * (2 if self.compares else 1)

    def describe(self) -> str:
        """The condition in words."""
        steps = "1 step" if self.window == 1 else f"{self.window:,} steps"
        match self.kind:
            case "low":
                return f"below {self.threshold:,} in {steps}"
            case "high":
                return f"above {self.threshold:,} in {steps}"
            case "jump":
                return f"up by more than {self.threshold:,} from {steps} to the next"
            case _:
                return f"down by more than {self.threshold:,} from {steps} to the next"

    @property
    def sign(self) -> int:
        """1 if large figures raise an alarm, -1 if small ones do."""
        return 1 if self.kind in ("high", "jump") else -1

    @property
    def level(self) -> int:
        """The sum, or the signed change of a sum, beyond which an alarm is raised."""
        return -self.threshold if self.kind == "drop" else self.threshold


class LocalLevelMethod(Frozen):
    """Spends all of epsilon on noisy counts of states, and filters them by a local level model; estimates have bands.

    Where states have parents, the noisy count of a group is the sum of the noisy counts of its states, at no further
    cost, so that estimates add up.

    Attributes:
        season: the number of steps in a season, such as 24 for hours; 0 for none.
        confidence: nominal level of the bands.
    """

    kind: Literal["local_level"] = "local_level"
    season: Annotated[int, Field(ge=0, le=MAX_SEASON)] = 0
    confidence: Confidence = CONFIDENCE

    @property
    def state_size(self) -> int:
        """The most numbers that the mechanism's state keeps for one count."""
        return 3 * self.season + 16

    def min_share(self, levels: int) -> Decimal:
        """The smallest share of epsilon at which any of its noise is drawn."""
        return Decimal(1)

    def check(self, steps: int, levels: int) -> None:
        """Reject options that do not fit a stream.

        Args:
            steps: the number of the stream's steps.
            levels: the number of levels of its states; 1 without a hierarchy.

        Raises:
            InvalidRequest: the season is longer than the stream.
        """
        if self.season > steps:
            raise InvalidRequest(
                "season", self.season, f"must not be longer than the stream, which has {steps} steps",
                "leave it out, or name more steps",
            )  # fmt: skip


class PegasusMethod(Frozen):
    """Spends a part of epsilon on finding groups of consecutive steps with similar counts, and smooths over each group.

    Attributes:
        group_share: the share of epsilon for groups of steps; by default 0.2, or 0.16 with a hierarchy.
        threshold: the largest deviation within a group, in units of 1 / the epsilon that is spent on groups.
        max_group: the most steps of a group; it bounds memory.
        smoothing: how a group's noisy counts become an estimate.
        prune_share: with a hierarchy: the share of epsilon for finding groups of states worth refining; default 0.2.
        refine_from: with a hierarchy: the approximate count from which a group is refined, in units of a level's noise;
            default 0.5.
        consistent: with a hierarchy: whether the estimates of a group's members add up to its own; default true.
    """

    kind: Literal["pegasus"] = "pegasus"
    group_share: ExactDecimal | None = None
    threshold: Annotated[float, Field(ge=0, le=MAX_THRESHOLD)] = 5.0
    max_group: Annotated[int, Field(ge=1, le=MAX_GROUP)] = 1024
    smoothing: Smoothing = "median"
    prune_share: ExactDecimal | None = None
    refine_from: Annotated[float, Field(ge=0, le=MAX_THRESHOLD)] | None = None
    consistent: bool | None = None

    @field_validator("group_share", "prune_share", mode="before")
    @classmethod
    def _exact(cls, value: Any) -> Decimal | None:
        return None if value is None else exact_decimal(value, what="")

    @model_validator(mode="after")
    def _shares(self) -> Self:
        prunes = Decimal(0) if self.prune_share is None else self.prune_share
        if not 0 <= prunes < 1:
            raise _no_share("prune_share", prunes, "at least 0 and below 1")
        if self.group_share is not None and not 0 < self.group_share < 1 - prunes:
            raise _no_share("group_share", self.group_share, "above 0 and, with prune_share, below 1")
        return self

    @property
    def state_size(self) -> int:
        """The most numbers that the mechanism's state keeps for one count."""
        return 3 * self.max_group + 10

    def shares(self, levels: int) -> tuple[Decimal, Decimal]:
        """The shares of epsilon for pruning a hierarchy and for finding groups of steps."""
        if levels == 1:
            return Decimal(0), Decimal("0.2") if self.group_share is None else self.group_share
        prunes = Decimal("0.2") if self.prune_share is None else self.prune_share
        return prunes, Decimal("0.16") if self.group_share is None else self.group_share

    def min_share(self, levels: int) -> Decimal:
        """The smallest share of epsilon at which any of its noise is drawn."""
        prunes, groups = self.shares(levels)
        return min(prunes or Decimal(1), groups / levels, (1 - prunes - groups) / levels)

    def check(self, steps: int, levels: int) -> None:
        """Reject options that do not fit a stream.

        Args:
            steps: the number of the stream's steps.
            levels: the number of levels of its states; 1 without a hierarchy.

        Raises:
            InvalidRequest: an option needs a hierarchy, or the shares leave nothing for the counts.
        """
        of_hierarchy = ("prune_share", "refine_from", "consistent")
        for name in of_hierarchy:
            if levels == 1 and getattr(self, name) is not None:
                raise InvalidRequest(
                    name, getattr(self, name), "needs states with parents", "leave it out, or give states.parents"
                )
        prunes, groups = self.shares(levels)
        if prunes + groups >= 1:
            raise _no_share("group_share", groups, "below 1 together with prune_share")


StreamMethodOptions = Annotated[LocalLevelMethod | PegasusMethod, Field(discriminator="kind")]


def _no_share(name: str, value: Decimal, bound: str) -> InvalidRequest:
    return InvalidRequest(name, plain(value), f"must be {bound}", "leave it out for the default")
