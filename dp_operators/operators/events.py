"""What a published release tells Airflow: public facts of the request, the ledger and the manifest alone."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.privacy import Budget, plain
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader
    from dp_operators.releasing import Published


@dataclass(frozen=True, kw_only=True)
class ReleaseEvent:
    """A published release, as assets, lineage, metrics and links need it.

    Attributes:
        account: the account that paid.
        connection: the ledger's connection.
        request: what was asked for, with references resolved.
        published: the visible release.
        columns: the names and types of the columns that the request reads, as they are bound to the account.
        left: the largest charge that still fits in the release's blocks: in the one with the least left.
        share_left: the share of the cap that this block has left.
    """

    account: str
    connection: str
    request: ReleaseRequest
    published: Published
    columns: dict[str, str]
    left: Budget
    share_left: Decimal

    @classmethod
    def of(
        cls, request: ReleaseRequest, published: Published, ledger: LedgerReader, *, connection: str
    ) -> ReleaseEvent:
        """The event of a release that ``request`` has made.

        Raises:
            LedgerUnavailable: the ledger cannot be reached.
        """
        from dp_operators.budget.composition import APPROXIMATE, fraction_spent, limits_of, room, zero_cost
        from spark_jobs.contract.binding import TableBinding
        from spark_jobs.contract.columns import needs

        account = ledger.account(str(request.account))
        limits = limits_of(account.composition, account.cap, account.slack)
        spent, nothing = ledger.blocks(account.name), zero_cost(account.composition)
        tightest = max(
            (spent.get(block, nothing) for block in account.paying(request.blocks)),
            key=lambda total: fraction_spent(limits, total),
        )
        types = TableBinding.parse(account.bindings[request.table.identity]).types
        names = (need.spelling_in(types) or need.name for need in needs(request, types))
        return cls(
            account=account.name,
            connection=connection,
            request=request,
            published=published,
            columns={name: types.get(name, "") for name in dict.fromkeys(names)},
            left=room(limits, tightest, "approximate" if account.composition == APPROXIMATE else "pure"),
            share_left=1 - fraction_spent(limits, tightest),
        )

    def to_dict(self) -> dict[str, Any]:
        """The asset event's ``extra``: plain JSON types."""
        return {
            "uri": self.published.uri,
            "key": self.published.key,
            "account": self.account,
            "cost": self.published.cost.model_dump(mode="json"),
            "left": self.left.model_dump(mode="json"),
            "share_left": plain(self.share_left.quantize(Decimal("1e-6"))),
            "status": dict(self.published.status),
            "manifest_sha256": self.published.manifest_sha256,
        }
