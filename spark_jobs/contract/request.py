"""The request of a release: the document that the Airflow side and the Spark side exchange."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from spark_jobs.contract.documents import parse_json, parse_yaml, to_yaml
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import ALL, BlockExpression, expand_ranges
from spark_jobs.contract.expressions.parser import check_feature, check_filter
from spark_jobs.contract.options import DIAGNOSTICS, Options, Statistic
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit
from spark_jobs.contract.public_groups import with_public_groups
from spark_jobs.contract.tables import Label, LinearModel, LogisticModel, Model, Scoring, TableSource
from spark_jobs.contract.values import Frozen, did_you_mean

MAX_RECORD = 60
"""The most characters of ``record``, the noun for one row."""


class ReleaseRequest(Frozen):
    """Everything that shapes a release; the ledger's charge is tied to its hash.

    Attributes:
        account: the ledger account that pays; None only for a draft outside the ledger.
        table: the pinned table; a request that is to be charged gives only its path or name, and its state.
        where: an optional filter of the allow-list; rows for which it is not true are left out.
        label: the 0/1 outcome, for diagnostics of a classifier.
        model: the source of scores or fitted values, for diagnostics of a model. A label or a model that no diagnostic
            of the request needs is not read.
        scoring: the public rule for scores outside [0, 1].
        diagnostics: what to release; each kind at most once.
        budget: the full cost of the release.
        neighbours: the relation of the guarantee.
        unit: the privacy unit.
        blocks: the ledger's blocks that are read and charged; ``2026-01..2026-03`` stands for the blocks from the first
            to the last.
        block_expression: which rows lie in which block; filled in from the account if it is left out.
        output: URI of the folder for releases.
        title: a title line for the report.
        record: what one row stands for, as a short noun such as ``"person-year"``, which the report quotes.
    """

    account: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    table: TableSource
    where: str | None = None
    label: Label | None = None
    model: Model | None = None
    scoring: Scoring = Scoring()
    diagnostics: Annotated[tuple[SerializeAsAny[Options], ...], Field(min_length=1)]
    budget: Budget
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: PrivacyUnit = PrivacyUnit()
    blocks: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(min_length=1)] = (ALL,)
    block_expression: BlockExpression | None = None
    output: str | None = None
    title: Annotated[str, Field(max_length=200)] | None = None
    record: str | None = None

    @field_validator("record")
    @classmethod
    def _short_noun(cls, value: str | None) -> str | None:
        # the report quotes it in the paragraph on who is protected, whose meaning a whole sentence could reverse
        words = [] if value is None else re.split("[ -]", value)
        if value is not None and (len(value) > MAX_RECORD or not all(word.isalnum() for word in words)):
            raise InvalidRequest(
                "", value=value,
                requirement="must be words of letters and digits with single spaces or hyphens between them, at most "
                f"{MAX_RECORD} characters",
                remedy="give a short noun for what one row is, such as 'person-year'",
            )  # fmt: skip
        return value

    @field_validator("blocks")
    @classmethod
    def _expanded_blocks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return expand_ranges(value, what="")

    @field_validator("diagnostics", mode="before")
    @classmethod
    def _known_kinds(cls, value: Any) -> Any:
        entries = [{"kind": value}] if isinstance(value, str) else value
        if not isinstance(entries, (list, tuple)):
            return value
        entries = [{"kind": entry} if isinstance(entry, str) else entry for entry in entries]
        kinds = [entry.get("kind") if isinstance(entry, dict) else getattr(entry, "kind", None) for entry in entries]
        for kind, entry in zip(kinds, entries, strict=True):
            if kind not in DIAGNOSTICS and not isinstance(entry, Options):
                raise InvalidRequest(
                    "kind",
                    value=kind,
                    requirement="must be one of " + ", ".join(DIAGNOSTICS),
                    remedy=f"correct the diagnostic's kind{did_you_mean(kind, DIAGNOSTICS)}",
                )
            if kinds.count(kind) > 1:
                raise InvalidRequest(
                    "kind",
                    value=kind,
                    requirement="must be requested once",
                    remedy="request it again in another release",
                )
        return tuple(_options(entry) for entry in entries)

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            self.budget.require_positive()
        except InvalidRequest as refused:
            raise refused.within("budget") from None
        for options in self.diagnostics:
            if options.approximate and self.budget.delta == 0:
                raise InvalidRequest(
                    "budget.delta",
                    value="0",
                    requirement=f"must be above 0 for {options.kind} with these options",
                    remedy="give a delta such as '1e-6', or choose a method with pure privacy",
                )
            options.check(self)
        self._check_needed()
        if self.where is not None:
            check_filter(self.where)
        if isinstance(self.model, (LinearModel, LogisticModel)):
            for feature in self.model.coefficients:
                check_feature(feature)
        return self

    def _check_needed(self) -> None:
        for options in self.diagnostics:
            if any(statistic.of_label for statistic in options.statistics) and self.label is None:
                raise InvalidRequest(
                    "label", requirement=f"is required by {options.kind}",
                    remedy="name the column of the 0/1 outcome, with its two values if they are not 0 and 1",
                )  # fmt: skip
            if any(statistic.of_model is not None for statistic in options.statistics) and self.model is None:
                raise InvalidRequest(
                    "model", requirement=f"is required by {options.kind}",
                    remedy="name the source of scores or fitted values, e.g. a column of scores",
                )  # fmt: skip

    @property
    def uses_label(self) -> bool:
        """Whether any diagnostic reads the label."""
        return any(statistic.of_label for statistic in self.statistics)

    @property
    def uses_model(self) -> bool:
        """Whether any diagnostic reads the output of the model."""
        return any(statistic.of_model is not None for statistic in self.statistics)

    @property
    def output_of_model(self) -> str:
        """Which output of the model the diagnostics read, in words: scores, fitted values, or both."""
        return " and ".join(dict.fromkeys(s.of_model for s in self.statistics if s.of_model is not None))

    @property
    def needed_label(self) -> Label:
        """The label, for diagnostics that need one; without it the request would have been rejected."""
        if self.label is None:
            raise ValueError("the request has no label")
        return self.label

    @property
    def needed_model(self) -> Model:
        """The model, for diagnostics that need one; without it the request would have been rejected."""
        if self.model is None:
            raise ValueError("the request has no model")
        return self.model

    @property
    def knows_public_columns(self) -> bool:
        """Whether the public columns are known; a charged request gets them from its account."""
        return self.account is None or self.table.is_bound

    def sizes_are_public(self, statistic: Statistic) -> bool:
        """Whether a diagnostic that uses ``statistic`` takes the number of rows that it uses to be public."""
        return any(
            statistic in options.statistics and options.sizes_are_public(self.neighbours)
            for options in self.diagnostics
        )

    @property
    def block_filter(self) -> str | None:
        """The filter that is true only for the rows of the charged blocks; None if they contain all rows.

        Raises:
            InvalidRequest: blocks are named without an expression that assigns rows to them.
        """
        if self.blocks == (ALL,):
            return None
        if self.block_expression is None:
            raise InvalidRequest(
                "block_expression",
                requirement="is required if blocks are named",
                remedy="give the account's block expression, e.g. 'day(visited_at)'",
            )
        return self.block_expression.predicate(self.blocks)

    @property
    def written_blocks(self) -> str:
        """The blocks in words, with consecutive blocks by time as ranges."""
        expression = self.block_expression
        return ", ".join(self.blocks if expression is None else expression.compact(self.blocks))

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics that Spark counts for the diagnostics: each once, in the order of the diagnostics."""
        return tuple(dict.fromkeys(statistic for options in self.diagnostics for statistic in options.statistics))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; decimals as strings."""
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        """The request as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def to_yaml(self) -> str:
        """The request as YAML."""
        return to_yaml(self.to_dict())

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The request in a JSON document.

        Raises:
            InvalidRequest: the text is not JSON, or not a request.
        """
        return cls.parse(json_fields(text))

    @classmethod
    def from_yaml(cls, text: str | bytes) -> Self:
        """The request in a YAML document.

        Raises:
            InvalidRequest: the text is not YAML, or not a request.
        """
        return cls.parse(_an_object(parse_yaml(text)))

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """The request in a ``.json``, ``.yaml`` or ``.yml`` file, with the keys of the public files that it names.

        Raises:
            InvalidRequest: the file cannot be read, or does not contain a request.
        """
        return cls.build(load_fields(path))

    @classmethod
    def build(cls, fields: Mapping[str, Any]) -> Self:
        """The request with these fields, after replacing the names of public files by the keys in them.

        Raises:
            InvalidRequest: the fields do not make a request, or a file cannot be read.
        """
        return cls.parse(with_public_groups(fields))

    @property
    def sha256(self) -> str:
        """SHA-256 of the canonical JSON: equal for requests that mean the same, whatever their spelling."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _options(entry: Any) -> Options:
    return entry if isinstance(entry, Options) else DIAGNOSTICS[entry["kind"]].parse(entry)


def json_fields(text: str | bytes) -> dict[str, Any]:
    """The fields of a request in a JSON document.

    Raises:
        InvalidRequest: the text is not a JSON object.
    """
    return _an_object(parse_json(text))


def load_fields(path: str | Path) -> dict[str, Any]:
    """The fields of a request in a ``.json``, ``.yaml`` or ``.yml`` file.

    Raises:
        InvalidRequest: the file cannot be read, or does not contain an object.
    """
    path = Path(path)
    try:
        text = path.read_bytes()
    except OSError:
        raise InvalidRequest(
            "request", value=str(path), requirement="must be a file that can be read", remedy="check the path"
        ) from None
    return _an_object(parse_yaml(text)) if path.suffix in (".yaml", ".yml") else json_fields(text)


def load_model(path: str | Path) -> dict[str, Any]:
    """The model in a JSON file, as a request's ``model`` field takes it.

    Raises:
        InvalidRequest: the file cannot be read, or does not contain a JSON object.
    """
    try:
        text = Path(path).read_bytes()
    except OSError:
        raise InvalidRequest(
            "model", value=str(path), requirement="must be a file that can be read", remedy="check the path"
        ) from None
    return dict(_an_object(parse_json(text, what="model"), "model"))


def _an_object(data: Any, what: str = "request") -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InvalidRequest(
            what,
            value=type(data).__name__,
            requirement="must be an object with named fields",
            remedy="see the request reference",
        )
    return data
