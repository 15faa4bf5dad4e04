"""What the options of all diagnostics have in common, and the statistic of a classifier, which most diagnostics use."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import Field, field_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import BlockExpression
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.privacy import (
    MAX_EPSILON,
    ExactDecimal,
    GroupBound,
    Neighbours,
    PrivacyUnit,
    exact_decimal,
    plain,
)
from spark_jobs.contract.published import Result
from spark_jobs.contract.tables import Model, TableSource
from spark_jobs.contract.values import Frozen, did_you_mean

MIN_EPSILON = Decimal("1e-6")
"""The smallest epsilon per row of a diagnostic, unless its kind needs more. Every count then has noise of a million
rows; less epsilon is rejected, because such a release would be paid for and show nothing."""
MIN_DELTA = Decimal("1e-20")
"""The smallest delta per row of a diagnostic that needs delta: ten orders of magnitude above what finite precision
costs."""
MAX_KEYS = 2**26
"""The most counts and sums that the statistics of one request may have together, whatever the rows. The driver collects
8 bytes for each, 512 MiB at the very most; bands of a long ``ecdf`` need more afterwards, 0.8 GiB with 2^20 cells."""
Confidence = Annotated[float, Field(ge=0.5, le=0.999)]
CONFIDENCE = 0.9
"""The nominal level of every kind's intervals, bands and zones, unless a request says otherwise."""
HistogramMethod = Literal[
    "adaptive_grid", "ahp", "dawa", "geometric", "greedy_h", "hb", "laplace", "mwem", "shrunken_tree", "uniform"
]
"""A mechanism of ``spark_jobs.mechanisms.histograms``."""
HistogramChoice = Literal[
    "auto", "adaptive_grid", "ahp", "dawa", "geometric", "greedy_h", "hb", "laplace", "mwem", "shrunken_tree", "uniform"
]


class Statistic(Frozen):
    """What Spark counts for a diagnostic. Equal statistics of a request are counted once, and all of them in one pass.

    Attributes:
        of_label: whether the statistic reads the request's label.
        of_model: which output of the request's model it reads, such as ``scores``; None if it does not read the model.
        remedy_for_size: what the user can do if the statistic has too many counts.
    """

    of_label: ClassVar[bool] = False
    of_model: ClassVar[str | None] = None
    remedy_for_size: ClassVar[str] = "ask for fewer diagnostics in one release"

    @property
    def max_keys(self) -> int:
        """The most counts or sums of the statistic, whatever the rows; the driver must hold them in memory."""
        raise NotImplementedError


class ScoreCells(Statistic):
    """The statistic of a classifier: rows per label and cell of the score grid (``statistics.ScoreCounts``)."""

    of_label: ClassVar[bool] = True
    of_model: ClassVar[str | None] = "scores"
    kind: Literal["scores"] = "scores"

    @property
    def max_keys(self) -> int:
        """The number of counts: one for each label and cell."""
        return 2 * SCORE_CELLS


class RequestContext(Protocol):
    """The part of a request that ``Options.check`` reads; ``ReleaseRequest`` documents it."""

    @property
    def table(self) -> TableSource:
        """The pinned table."""
        ...

    @property
    def where(self) -> str | None:
        """The filter of the table's rows, if any."""
        ...

    @property
    def model(self) -> Model | None:
        """The source of scores or fitted values, if the request has one."""
        ...

    @property
    def neighbours(self) -> Neighbours:
        """The relation of the guarantee."""
        ...

    @property
    def unit(self) -> PrivacyUnit:
        """The privacy unit."""
        ...

    @property
    def blocks(self) -> tuple[str, ...]:
        """The blocks that are read and charged."""
        ...

    @property
    def block_expression(self) -> BlockExpression | None:
        """Which rows lie in which block, if known."""
        ...

    @property
    def uses_model(self) -> bool:
        """Whether any diagnostic of the request needs the model."""
        ...

    @property
    def knows_public_columns(self) -> bool:
        """Whether it is known which of the table's columns are public."""
        ...


def require_filled_in(value: Any) -> Any:
    """A field validator that accepts the content of an earlier release, which must have replaced the release's name.

    Raises:
        InvalidRequest: the field still has the name of the release.
    """
    if isinstance(value, str) or (
        isinstance(value, Mapping) and "released_by" not in value and ("release" in value or "uri" in value)
    ):
        raise InvalidRequest(
            "", value, "names a release, which only the ledger can verify",
            "run the request by the operator or by dp-budget run",
        )  # fmt: skip
    return value


def entries_of(value: Any, kinds: Mapping[str, type[Options]]) -> Any:
    """A field validator that turns entries of a request, as kinds or kinds with their options, into ``Options``.

    Raises:
        InvalidRequest: a kind is not among ``kinds``, is named twice, or has options that are not valid.
    """
    entries = [{"kind": value}] if isinstance(value, str) else value
    if not isinstance(entries, (list, tuple)):
        return value
    entries = [{"kind": entry} if isinstance(entry, str) else entry for entry in entries]
    named = [entry.get("kind") if isinstance(entry, dict) else getattr(entry, "kind", None) for entry in entries]
    for kind, entry in zip(named, entries, strict=True):
        if kind not in kinds and not isinstance(entry, Options):
            raise InvalidRequest(
                "kind", kind, "must be one of " + ", ".join(kinds),
                f"correct the diagnostic's kind{did_you_mean(kind, kinds)}",
            )  # fmt: skip
        if named.count(kind) > 1:
            raise InvalidRequest(
                "kind",
                kind,
                "must be requested only once in a release",
                "request the second diagnostic of this kind in another release",
            )
    return tuple(entry if isinstance(entry, Options) else kinds[entry["kind"]].parse(entry) for entry in entries)


class Settings(Frozen):
    """The options of a diagnostic that do not depend on the table; ``release`` functions take them too."""


class Options(Frozen):
    """An entry of a request's ``diagnostics``: a kind, with its settings and the columns that it reads.

    Attributes:
        kind: the kind of diagnostic.
        weight: its share of the budget, relative to the weights of the request's other diagnostics; 1 if left out.
        result: the type of its result, which declares the figures and the rules that they meet.
        bounds_of: the options that hold public bounds, by the options that name their columns. Bounds that are left out
            come from the column's domain, and bounds that contradict it are refused (``contract.completion``).
        keys_of: the options that hold public keys, by the options that name their columns; completed in the same way.
        thresholds_of: the options that hold thresholds of scores, which are given on the scale of the column of scores.
    """

    result: ClassVar[type[Result]]
    bounds_of: ClassVar[Mapping[str, str]] = {}
    keys_of: ClassVar[Mapping[str, str]] = {}
    thresholds_of: ClassVar[tuple[str, ...]] = ()
    kind: str
    weight: ExactDecimal | None = None

    @field_validator("weight", mode="before")
    @classmethod
    def _positive(cls, value: Any) -> Decimal | None:
        if value is None:
            return None
        weight = exact_decimal(value, what="weight")
        if not 0 < weight <= MAX_EPSILON:
            raise InvalidRequest(
                "weight", plain(weight), "must be above 0 and at most 10^12",
                "give a relative weight: a diagnostic of weight 2 gets twice the budget of one of weight 1",
            )  # fmt: skip
        return weight

    @property
    def effective_weight(self) -> Decimal:
        """The request's weight, or 1 if it was left out."""
        return Decimal(1) if self.weight is None else self.weight

    @property
    def statistic(self) -> Statistic:
        """The statistic that Spark counts for the diagnostic."""
        return ScoreCells()

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """All statistics that Spark counts for the diagnostic; its measurement gets several as a tuple."""
        return (self.statistic,)

    @property
    def approximate(self) -> bool:
        """Whether the diagnostic needs a delta, so that a budget without one is rejected."""
        return False

    @property
    def accepts_delta(self) -> bool:
        """Whether the diagnostic gets a share of the budget's delta, because it needs a delta or can use one."""
        return self.approximate

    @property
    def accepts_rho(self) -> bool:
        """Whether a budget of rho can pay for it: its noise is Gaussian then (``contract.rho_budget``)."""
        return False

    @property
    def unit_figures(self) -> tuple[str, ...]:
        """The figures, most important first, whose variance between units a request pays to measure.

        It does so only where units have several rows.
        """
        return ()

    @property
    def group_bound(self) -> GroupBound | None:
        """The bounds on a unit's groups, and on its rows in each group; None if only its rows are bounded."""
        return None

    @property
    def used_rows(self) -> int | None:
        """The diagnostic's own bound on the rows of a unit, if it bounds no groups; None for the account's."""
        return None

    @property
    def chooses_rows(self) -> bool:
        """Whether a separate release has yet to choose how many rows of a unit are used (``contract.row_choice``)."""
        return False

    @property
    def of_unit_totals(self) -> bool:
        """Whether a unit counts once in each of its groups, with the totals of its rows there."""
        return False

    def sizes_are_public(self, neighbours: Neighbours) -> bool:
        """Whether the diagnostic treats the number of rows that it uses as public."""
        return False

    @property
    def can_share(self) -> bool:
        """Whether the diagnostic can share one noisy measurement with others of the request."""
        return False

    @property
    def uses_shared(self) -> bool:
        """Whether a part of the result comes from the shared measurement, and the rest from one of its own."""
        return False

    @property
    def halves_shared(self) -> bool:
        """Whether its own measurement takes half of the shared one's pool (``contract.budget_split``)."""
        return False

    @property
    def min_epsilon(self) -> Decimal:
        """The smallest epsilon per row with which the diagnostic can be released."""
        return MIN_EPSILON

    def check_share(self, epsilon: Decimal, delta: Decimal) -> None:
        """Reject a share of the budget that is too small for the diagnostic's mechanisms.

        Args:
            epsilon: the epsilon that they may spend for one row.
            delta: the delta that they may spend for one row; 0 if there is none.

        Raises:
            InvalidRequest: one of the two is too small.
        """
        if epsilon < self.min_epsilon:
            raise InvalidRequest(
                "budget.epsilon", f"{epsilon:.3g} per row for {self.kind}",
                f"must be at least {self.min_epsilon:f} for each row of a unit",
                "give more epsilon, a larger weight, fewer diagnostics, or lower unit.max_rows",
            )  # fmt: skip
        if self.approximate and delta < MIN_DELTA:
            raise InvalidRequest(
                "budget.delta", f"{delta:.3g} per row for {self.kind}",
                f"must be at least {MIN_DELTA} for each row of a unit",
                "give more delta, lower unit.max_rows, or choose a method with pure privacy",
            )  # fmt: skip

    def check(self, request: RequestContext) -> None:
        """Reject a request in which the diagnostic cannot be released.

        Args:
            request: the request that these options are part of.

        Raises:
            InvalidRequest: a field of the request rules the diagnostic out.
        """

    def check_for_silos(self) -> None:
        """Reject options whose exact numbers cannot be sums over silos.

        Raises:
            InvalidRequest: an option asks for noise that cannot be a sum of shares from several silos.
        """


class SharingOptions(Options):
    """An entry of a request for a diagnostic that can be computed from counts of a classifier's scores alone.

    Attributes:
        share: whether the diagnostic may share one noisy measurement with others of the request.
    """

    share: bool = True

    @property
    def can_share(self) -> bool:
        """Whether it is computed from a shared measurement: if ``share``, and its method needs none of its own."""
        return self.share and getattr(self, "method", "auto") in ("auto", "counts")
