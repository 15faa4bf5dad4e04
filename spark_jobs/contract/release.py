"""The manifest of a release: ``release.json``, the last file written and the one that makes a release visible."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figures import status_of
from spark_jobs.contract.grids import EARLIEST_ROUNDING
from spark_jobs.contract.json_pieces import json_bytes
from spark_jobs.contract.left_out import LeftOut
from spark_jobs.contract.odds import LossLaw
from spark_jobs.contract.privacy import Budget, ExactDecimal, Neighbours, PrivacyUnit
from spark_jobs.contract.values import Frozen

if TYPE_CHECKING:
    from spark_jobs.contract.store.objects import ObjectStore

FORMAT = 1
NOT_PRIVATE = "NOT PRIVATE"
PRIVATE = "differentially private"
_PLAIN = ("request", "results")


def _below(name: str) -> str:
    """The name of a file below a folder: whoever writes a manifest may not have files read elsewhere."""
    if any(segment in ("", ".", "..") for segment in name.split("/")) or set(name) & set("\\\0"):
        raise InvalidRequest(
            "files.name", name, "must be a path below the release's folder", "name the file as the folder has it"
        )
    return name


class ReleaseFile(Frozen):
    """One file of a release, by its name below the release's folder."""

    name: Annotated[str, AfterValidator(_below)]
    media_type: str
    size: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    @classmethod
    def of(cls, name: str, content: bytes, media_type: str) -> Self:
        """The entry for a file with this content."""
        return cls(name=name, media_type=media_type, size=len(content), sha256=hashlib.sha256(content).hexdigest())

    def read(self, store: ObjectStore, folder: str) -> bytes | None:
        """The content of this file in a release's folder, up to this entry's size; None if there is no such file.

        Raises:
            OSError: the store failed.
        """
        return store.read(f"{folder}/{self.name}", limit=self.size)

    def matches(self, content: bytes) -> bool:
        """Whether ``content`` has this entry's size and hash."""
        return (len(content), hashlib.sha256(content).hexdigest()) == (self.size, self.sha256)


class PartSpending(Frozen):
    """What one mechanism spent of a part's budget, for a whole privacy unit.

    Attributes:
        label: what it was spent on, in words.
        epsilon, delta: the exact cost.
        law: what is known of the distribution of the privacy loss, if there is a delta.
        rho: the zCDP parameter, if the law needs it; otherwise None.
    """

    label: str
    epsilon: ExactDecimal
    delta: ExactDecimal = Decimal(0)
    law: LossLaw = LossLaw.ANY
    rho: ExactDecimal | None = None

    @model_serializer(mode="wrap")
    def _known(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The fields; an unknown law is left out, as by manifests of the time before they stated laws."""
        fields: dict[str, Any] = dump(self)
        if self.law is LossLaw.ANY:
            del fields["law"], fields["rho"]
        return fields


class ReleasePart(Frozen):
    """One part of a release's cost, and the diagnostics that it paid for.

    Attributes:
        kinds: the kinds of these diagnostics; several share one noisy release. A comparison that uses this release for
            one of its curves is named here, and again in the part that pays for the rest of its result.
        cost: the cost of the part; the parts add up to the release's cost.
        spendings: what each mechanism of the part spent, in order; empty if that is not known.
    """

    kinds: Annotated[tuple[str, ...], Field(min_length=1)]
    cost: Budget
    spendings: tuple[PartSpending, ...] = ()


class PublishedSizes(Frozen):
    """The numbers of rows of both classes, estimated from everything that a release measured of them.

    Attributes:
        negatives, positives: noisy numbers, at least 0.
        negatives_interval, positives_interval: confidence intervals for the exact numbers.
        confidence: nominal level of each interval.
    """

    negatives: Annotated[float, Field(ge=0)]
    negatives_interval: tuple[float, float]
    positives: Annotated[float, Field(ge=0)]
    positives_interval: tuple[float, float]
    confidence: float


class Release(Frozen):
    """What was released, what it cost and whom it protects.

    Attributes:
        format: version of this document.
        key: the release key; None for a draft outside the ledger.
        charge_id: the ledger's charge; None for a draft outside the ledger.
        status: ``CHARGED`` (a ledger's charge pays for it) or ``UNCHARGED``.
        guarantee: ``differentially private``, or ``NOT PRIVATE`` where the noise came from a seed.
        request_sha256: hash of the request.
        request: the request itself.
        cost: what the mechanisms spent of the request's budget; never more.
        neighbours, unit: the relation and the unit of the guarantee.
        statement: the guarantee in plain words.
        rules: the public per-record rules that were applied.
        assumptions: the assumptions of the guarantee, and of the interpretation of the results.
        drawn_at: when the noise was drawn (UTC, ISO 8601).
        rounding: the rule by which values and thresholds were compared on public grids (``contract.grids.ROUNDING``).
        parts: the parts of the cost, and the diagnostics that each of them paid for.
        class_sizes: the numbers of positives and negatives that the results state; None if no result states them.
        left_out: noisy numbers of the rows that no diagnostic uses, by cause; None in releases made before these
            numbers were published.
        results: each diagnostic's released values, by its kind; null marks a figure that the noise leaves undefined.
        files: every other file of the release.
        versions: the versions of the programs that made it.
    """

    format: int = FORMAT
    key: str | None
    charge_id: str | None
    status: Literal["CHARGED", "UNCHARGED"]
    guarantee: Literal["differentially private", "NOT PRIVATE"]
    request_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    request: dict[str, Any]
    cost: Budget
    neighbours: Neighbours
    unit: PrivacyUnit
    statement: str
    rules: tuple[str, ...]
    assumptions: tuple[str, ...]
    drawn_at: str
    rounding: str = EARLIEST_ROUNDING
    parts: tuple[ReleasePart, ...] = ()
    class_sizes: PublishedSizes | None = None
    left_out: Annotated[LeftOut | None, Field(exclude_if=lambda value: value is None)] = None
    results: dict[str, dict[str, Any]]
    files: tuple[ReleaseFile, ...] = ()
    versions: dict[str, str]

    @property
    def statuses(self) -> dict[str, str]:
        """The status of each kind's result (``contract.figures``)."""
        return {kind: status_of(result) for kind, result in self.results.items()}

    def to_bytes(self) -> bytes:
        """The manifest in UTF-8; the same release always gives the same bytes."""
        dumped = self.model_dump(mode="json", exclude=set(_PLAIN))
        # the fields of plain JSON types may be long, and dumping would copy them
        names = [name for name in type(self).model_fields if name in _PLAIN or name in dumped]
        fields = {name: getattr(self, name) if name in _PLAIN else dumped[name] for name in names}
        return json_bytes(fields, end="\n")

    def to_json(self) -> str:
        """The manifest's text."""
        return self.to_bytes().decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The release in a manifest.

        Raises:
            InvalidRequest: the text is not a manifest of this format.
        """
        try:
            data = json.loads(text)
        except ValueError:
            raise InvalidRequest("release", None, "must be a JSON document", "check the file") from None
        return cls.parse(data)

    def to_yaml(self) -> str:
        """The manifest as YAML."""
        import yaml

        return str(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True))

    @classmethod
    def from_yaml(cls, text: str | bytes) -> Self:
        """The release in a YAML manifest.

        Raises:
            InvalidRequest: the text is not YAML, or not a manifest of this format.
        """
        import yaml

        try:
            data = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InvalidRequest("release", None, "must be a YAML document", "check the file") from None
        return cls.parse(data)
