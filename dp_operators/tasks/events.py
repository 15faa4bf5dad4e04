"""What a published release tells Airflow: public facts of the request, the ledger and the manifest alone."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.contract.privacy import Budget, plain
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader
    from dp_operators.releasing import Published
    from dp_operators.releasing.stream_attempts import AdvancedStream
    from spark_jobs.contract.store.stream_alarms import StreamAlarms
    from spark_jobs.contract.stream_request import StreamRequest


@dataclass(frozen=True, kw_only=True)
class PaidEvent:
    """What an account paid for, and what it has left.

    Attributes:
        account: the account that paid.
        connection: the ledger's connection.
        left: the largest charge that still fits in each of the release's blocks, so in the block with the least left.
        share_left: the share of the cap that this block has left.
    """

    account: str
    connection: str
    left: Budget
    share_left: Decimal

    def to_dict(self) -> dict[str, Any]:
        """The asset event's ``extra``: plain JSON types."""
        return {
            "account": self.account,
            "left": self.left.model_dump(mode="json"),
            "share_left": plain(self.share_left.quantize(Decimal("1e-6"))),
        }


@dataclass(frozen=True, kw_only=True)
class ReleaseEvent(PaidEvent):
    """A published release, as assets, lineage, metrics and links need it.

    Attributes:
        request: the request, with its references resolved.
        published: the visible release.
        columns: the names and types of the columns that the request reads, as they are bound to the account.
    """

    has_page: ClassVar[bool] = True
    """Whether the ledger's pages serve its report."""

    request: ReleaseRequest
    published: Published
    columns: dict[str, str]

    @classmethod
    def of(
        cls, request: ReleaseRequest, published: Published, ledger: LedgerReader, *, connection: str
    ) -> ReleaseEvent:
        """The event of a release that ``request`` has made.

        Raises:
            LedgerUnavailable: the ledger cannot be reached.
        """
        from dp_operators.budget.left import left_in
        from spark_jobs.contract.binding import TableBinding
        from spark_jobs.contract.columns import needs

        account = ledger.account(str(request.account))
        left, share_left = left_in(account, request.blocks, ledger)
        types = TableBinding.parse(account.bindings[request.table.identity]).types
        names = (need.spelling_in(types) or need.name for need in needs(request, types))
        return cls(
            account=account.name,
            connection=connection,
            request=request,
            published=published,
            columns={name: types.get(name, "") for name in dict.fromkeys(names)},
            left=left,
            share_left=share_left,
        )

    @property
    def line(self) -> str:
        """One line with the headline figures, the cost and what is left."""
        return self.published.line(f"{self.left.counted_as(self.published.cost)} left")

    def to_dict(self) -> dict[str, Any]:
        """The asset event's ``extra``: plain JSON types."""
        return {
            **super().to_dict(),
            "uri": self.published.uri,
            "key": self.published.key,
            "cost": self.published.cost.model_dump(mode="json"),
            "status": dict(self.published.status),
            "figures": [one.to_dict() for one in self.published.figures],
            "manifest_sha256": self.published.manifest_sha256,
        }


@dataclass(frozen=True, kw_only=True)
class StreamEvent(PaidEvent):
    """A stream after a run, as assets, metrics and links need it; the attributes are those of ``ReleaseEvent``.

    Attributes:
        alarms: the alarms of the stream's monitors, over every count; None without monitors, or if they could not be
            evaluated.
    """

    has_page: ClassVar[bool] = False

    request: StreamRequest
    published: AdvancedStream
    alarms: StreamAlarms | None = None

    @classmethod
    def of(
        cls,
        request: StreamRequest,
        advanced: AdvancedStream,
        ledger: LedgerReader,
        *,
        connection: str,
        alarms: StreamAlarms | None = None,
    ) -> StreamEvent:
        """The event of a stream of ``request`` after a run.

        Raises:
            LedgerUnavailable: the ledger cannot be reached.
        """
        from dp_operators.budget.left import left_in

        account, charge = ledger.account(str(request.account)), ledger.charge(advanced.charge_id)
        left, share_left = left_in(account, charge.blocks, ledger)
        return cls(
            account=account.name,
            connection=connection,
            request=request,
            published=advanced,
            left=left,
            share_left=share_left,
            alarms=alarms,
        )

    def to_xcom(self) -> dict[str, Any]:
        """What the task returns: how far the stream is, and its alarms if it has monitors; plain JSON types."""
        alarms = {} if self.alarms is None else {"alarms": self.alarms.to_dict()}
        return {**self.published.to_dict(), **alarms}

    def to_dict(self) -> dict[str, Any]:
        """The asset event's ``extra``: plain JSON types."""
        return {**super().to_dict(), **self.to_xcom()}
