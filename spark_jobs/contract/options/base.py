"""What all diagnostics of a request have in common, and the classifier's statistic that most of them are made from."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar, Literal, Protocol

from pydantic import field_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import BlockExpression
from spark_jobs.contract.privacy import MAX_EPSILON, ExactDecimal, Neighbours, PrivacyUnit, exact_decimal, plain
from spark_jobs.contract.result_checks import ResultCheck
from spark_jobs.contract.tables import Model, TableSource
from spark_jobs.contract.values import Frozen

MIN_EPSILON = Decimal("1e-6")
"""Of what a diagnostic may spend for one row, unless it needs more: noise of at least a million rows on every count.
What is smaller is refused: it would be paid for and say nothing."""
MIN_DELTA = Decimal("1e-20")
"""The same of delta, where a diagnostic needs any: ten orders above what finite precision costs."""
MAX_KEYS = 2**26
"""How many counts and sums the statistics of one request may have together, whatever the rows. A driver needs some 100
bytes for each that is not 0: 6 GB at the very most, where every cell of every statistic has rows."""
HistogramMethod = Literal["adaptive_grid", "ahp", "dawa", "geometric", "greedy_h", "hb", "laplace", "mwem", "uniform"]
"""A mechanism of ``spark_jobs.mechanisms.histograms``."""
HistogramChoice = Literal[
    "auto", "adaptive_grid", "ahp", "dawa", "geometric", "greedy_h", "hb", "laplace", "mwem", "uniform"
]
SCORE_CELLS = 65536
"""Cells of the grid of scores."""


class Statistic(Frozen):
    """What Spark counts for a diagnostic. Equal statistics of one request are counted once, all of them in one pass.

    Attributes:
        of_label: whether it is counted from the request's label.
        of_model: what it is counted from of what the request's model gives, in words; None if of nothing.
    """

    of_label: ClassVar[bool] = False
    of_model: ClassVar[str | None] = None
    remedy_for_size: ClassVar[str] = "ask for fewer diagnostics in one release"

    @property
    def max_keys(self) -> int:
        """How many counts or sums it has at most, whatever the rows: what the driver has to hold."""
        raise NotImplementedError


class ScoreCells(Statistic):
    """The statistic of a classifier: rows per label and cell of the score grid (``statistics.ScoreCounts``)."""

    of_label: ClassVar[bool] = True
    of_model: ClassVar[str | None] = "scores"
    kind: Literal["scores"] = "scores"

    @property
    def max_keys(self) -> int:
        """A count for each label and cell."""
        return 2 * SCORE_CELLS


class RequestContext(Protocol):
    """What ``Options.check`` reads of the request that the options are part of; ``ReleaseRequest`` documents it."""

    @property
    def table(self) -> TableSource:
        """The pinned table."""
        ...

    @property
    def where(self) -> str | None:
        """The filter of its rows, if any."""
        ...

    @property
    def model(self) -> Model | None:
        """Where scores or fitted values come from, if the request says so."""
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
        """Whether any of its diagnostics needs the model."""
        ...

    @property
    def knows_public_columns(self) -> bool:
        """Whether it is known which of the table's columns are public."""
        ...


class Settings(Frozen):
    """What can be chosen of a diagnostic whatever the table: the options that Python's ``release`` takes as well."""


class Options(Frozen):
    """An entry of a request's ``diagnostics``: a kind, with its settings and what it reads of the table.

    Attributes:
        kind: which diagnostic.
        weight: its share of the budget, relative to the weights of the request's other diagnostics; 1 if left out.
        figures: the fields of a result that are null where its status is ``undefined``; none where groups have a status
            each.
        checks: what a defined result meets, in its JSON form.
    """

    figures: ClassVar[tuple[str, ...]]
    checks: ClassVar[tuple[ResultCheck, ...]]
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
                "weight", value=plain(weight), requirement="must be above 0 and at most 10^12",
                remedy="weights are relative: 2 gets twice the budget of 1",
            )  # fmt: skip
        return weight

    @property
    def effective_weight(self) -> Decimal:
        """The weight that counts: the request's, or 1."""
        return Decimal(1) if self.weight is None else self.weight

    @property
    def statistic(self) -> Statistic:
        """What Spark has to count for it."""
        return ScoreCells()

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """All that Spark has to count for it; of several, a measurement is given a tuple in this order."""
        return (self.statistic,)

    @property
    def approximate(self) -> bool:
        """Whether it spends delta, so that a budget without any is refused."""
        return False

    @property
    def accepts_delta(self) -> bool:
        """Whether it is given a share of the budget's delta: it needs delta, or uses it if there is any."""
        return self.approximate

    def sizes_are_public(self, neighbours: Neighbours) -> bool:
        """Whether it takes for public which rows it goes through."""
        return False

    @property
    def can_share(self) -> bool:
        """Whether it can be made from one noisy measurement together with other diagnostics of the request."""
        return False

    @property
    def min_epsilon(self) -> Decimal:
        """The least epsilon, for one row, that it can be released with."""
        return MIN_EPSILON

    def check_share(self, epsilon: Decimal, delta: Decimal) -> None:
        """Refuse a part of the budget that its mechanisms could not work with.

        Args:
            epsilon: what it may spend for one row.
            delta: the same; 0 where it has none.

        Raises:
            InvalidRequest: one of them is too small.
        """
        if epsilon < self.min_epsilon:
            raise InvalidRequest(
                "budget.epsilon", value=f"{epsilon:.3g} a row for {self.kind}",
                requirement=f"must leave it at least {self.min_epsilon:f} for each row of a unit",
                remedy="give more epsilon, a larger weight, fewer diagnostics, or lower unit.max_rows",
            )  # fmt: skip
        if self.approximate and delta < MIN_DELTA:
            raise InvalidRequest(
                "budget.delta", value=f"{delta:.3g} a row for {self.kind}",
                requirement=f"must leave it at least {MIN_DELTA} for each row of a unit",
                remedy="give more delta, lower unit.max_rows, or choose a method with pure privacy",
            )  # fmt: skip

    def check(self, request: RequestContext) -> None:
        """Refuse what the diagnostic cannot be released under, of the request that it is part of.

        Raises:
            InvalidRequest: naming the field and what would do.
        """
