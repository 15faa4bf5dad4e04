"""The draw: all noisy statistics of a release in one object, created once and adopted by every later attempt."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from spark_jobs.contract.account import AccountState
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.release import ReleasePart

FORMAT = 2


class NotThisDraw(Exception):
    """The object at the draw's path is not the draw that the ledger knows, or belongs to another request."""


@dataclass(frozen=True, kw_only=True)
class ReleaseDraw:
    """What the noise came out as, and all that the results are made from.

    Attributes:
        charge_id: the charge that pays for it; None for a draft outside the ledger.
        request_sha256: the request it answers.
        drawn_at: when (UTC, ISO 8601).
        seed: of the post-processing's simulations; public, made after the noise.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        cost: what the mechanisms spent.
        parts: what each part of the budget bought.
        events: what each of them spent, in order.
        measurements: each diagnostic's noisy statistics, by its kind.
        versions: of the programs that drew.
        noise: for each part, the largest loss that a single call of the noise source was given, by kind of noise
            (``laplace``: epsilon, ``gaussian``: rho), for one row: the committer compares it with the charge's cost.
        account: the account's figures for the report; None for a draft outside the ledger.
        shared: the noisy statistics that several diagnostics are made from, with their kinds; None if there are none.
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

    def to_json(self) -> bytes:
        """The object's bytes."""
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
        }
        if self.shared is not None:
            fields["shared"] = self.shared
        return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_json(cls, content: bytes, *, charge_id: str | None, request_sha256: str) -> ReleaseDraw:
        """The draw in ``content``, if it is the one of this charge and request.

        Raises:
            NotThisDraw: it is not.
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
        )
