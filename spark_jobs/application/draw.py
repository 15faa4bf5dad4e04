"""The draw: all noisy statistics of a release in one object, created once and reused by every later attempt."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from spark_jobs.contract.account import AccountState
from spark_jobs.contract.grids import EARLIEST_ROUNDING, ROUNDING
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.release import ReleasePart

FORMAT = 3


class NotThisDraw(Exception):
    """The stored object is not the draw that the ledger recorded, or it belongs to another request."""


@dataclass(frozen=True, kw_only=True)
class ReleaseDraw:
    """All noisy statistics of a release, from which its results are computed.

    Attributes:
        charge_id: the charge that pays for the draw; None for a draft outside the ledger.
        request_sha256: hash of the request.
        drawn_at: time of the draw (UTC, ISO 8601).
        seed: public seed of the simulations in post-processing, drawn after the noise.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        cost: total cost of the mechanisms.
        parts: what each part of the budget bought.
        events: every spending of every part, in order.
        measurements: noisy statistics of each diagnostic, by its kind.
        versions: versions of the programs that made the draw.
        noise: for each part, the largest privacy loss of a single call of the noise sampler, for one row, by kind of
            noise (``laplace`` and ``k_norm``: epsilon, ``gaussian``: rho). The committer compares these losses with the
            charge's cost.
        account: figures of the account, for the report; None for a draft outside the ledger.
        shared: noisy statistics that several diagnostics share, with their kinds; None without such diagnostics.
        rounding: the rule by which values and thresholds were compared on public grids (``contract.grids.ROUNDING``).
        left_out: noisy numbers of rows that did not count, by cause, and the epsilon of one row; None in a draw of a
            version that did not measure them.
        units: noisy sums of units' squares (``unit_variance``); None if they were not paid for.
    """

    charge_id: str | None
    request_sha256: str
    drawn_at: str
    seed: int
    guarantee: str
    cost: Budget
    parts: tuple[ReleasePart, ...]
    events: tuple[dict[str, Any], ...]
    measurements: dict[str, dict[str, Any]]
    versions: dict[str, str]
    noise: tuple[dict[str, str], ...] = ()
    account: AccountState | None = None
    shared: dict[str, Any] | None = None
    rounding: str = ROUNDING
    left_out: dict[str, Any] | None = None
    units: dict[str, Any] | None = None

    def to_json(self) -> bytes:
        """The draw as JSON, in UTF-8."""
        fields = {
            "format": FORMAT,
            "kind": "draw",
            "charge_id": self.charge_id,
            "request_sha256": self.request_sha256,
            "drawn_at": self.drawn_at,
            "seed": self.seed,
            "guarantee": self.guarantee,
            "cost": self.cost.model_dump(mode="json"),
            "parts": [part.model_dump(mode="json") for part in self.parts],
            "events": list(self.events),
            "measurements": self.measurements,
            "versions": self.versions,
            "noise": list(self.noise),
            "account": None if self.account is None else self.account.model_dump(mode="json"),
            "rounding": self.rounding,
        }
        if self.shared is not None:
            fields["shared"] = self.shared
        if self.left_out is not None:
            fields["left_out"] = self.left_out
        if self.units is not None:
            fields["units"] = self.units
        return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_json(cls, content: bytes, *, charge_id: str | None, request_sha256: str) -> ReleaseDraw:
        """The draw in ``content``, which must belong to this charge and request.

        Raises:
            NotThisDraw: the content belongs to another charge or request.
        """
        fields = json.loads(content)
        wanted = {"format": FORMAT, "kind": "draw", "charge_id": charge_id, "request_sha256": request_sha256}
        if any(fields.get(name) != value for name, value in wanted.items()):
            raise NotThisDraw
        return cls(
            charge_id=fields["charge_id"],
            request_sha256=fields["request_sha256"],
            drawn_at=fields["drawn_at"],
            seed=fields["seed"],
            guarantee=fields["guarantee"],
            cost=Budget.parse(fields["cost"]),
            parts=tuple(ReleasePart.parse(part) for part in fields["parts"]),
            events=tuple(fields["events"]),
            measurements=fields["measurements"],
            versions=fields["versions"],
            noise=tuple(fields["noise"]),
            account=None if fields["account"] is None else AccountState.parse(fields["account"]),
            shared=fields.get("shared"),
            left_out=fields.get("left_out"),
            rounding=fields.get("rounding", EARLIEST_ROUNDING),
            units=fields.get("units"),
        )
