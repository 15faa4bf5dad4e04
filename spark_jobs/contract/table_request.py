"""What every request has: who pays, which rows of which table are read, whom the guarantee protects, and the output."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import to_json

from spark_jobs.contract.documents import to_yaml
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import ALL, BlockExpression, expand_ranges
from spark_jobs.contract.expressions.filters import check_filter
from spark_jobs.contract.input_suites import InputSuite
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit, replaced_within
from spark_jobs.contract.public_groups import with_public_groups
from spark_jobs.contract.request_documents import json_fields, load_fields, yaml_fields
from spark_jobs.contract.rho_budget import with_epsilon
from spark_jobs.contract.tables import TableSource
from spark_jobs.contract.values import Frozen

MAX_RECORD = 60
"""The most characters of ``record``, the noun for one row."""


class TableRequest(Frozen):
    """The fields that a release and a stream have in common.

    Attributes:
        account: the ledger account that pays; None only for a draft outside the ledger.
        table: the pinned table; a request that is to be charged gives only its path or name, and its state.
        where: an optional filter of the allow-list; rows for which it is not true are left out.
        budget: the full cost: either an epsilon with a delta, or a rho alone (``contract.rho_budget``).
        neighbours: the relation of the guarantee.
        unit: the privacy unit.
        blocks: the ledger's blocks that are read and charged; ``2026-01..2026-03`` stands for the blocks from the first
            to the last.
        block_expression: which rows lie in which block; filled in from the account if it is left out.
        input_suite: expectations on the table's schema, as a suite of Great Expectations; None for only those of the
            request itself.
        output: URI of the folder for releases.
        title: a title line for the report.
        record: what one row stands for, as a short noun such as ``"person-year"``, which the report quotes.
    """

    account: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    table: TableSource
    where: str | None = None
    budget: Budget
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: PrivacyUnit = PrivacyUnit()
    blocks: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(min_length=1)] = (ALL,)
    block_expression: BlockExpression | None = None
    input_suite: InputSuite | None = None
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
                "", value, "must be words of letters and digits with single spaces or hyphens between them, at most "
                f"{MAX_RECORD} characters", "give a short noun for what one row is, such as 'person-year'",
            )  # fmt: skip
        return value

    @field_validator("blocks")
    @classmethod
    def _expanded_blocks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return expand_ranges(value, what="")

    @field_validator("budget", mode="before")
    @classmethod
    def _budget_of_rho(cls, value: Any) -> Any:
        return with_epsilon(value)

    @model_validator(mode="after")
    def _check_budget(self) -> Self:
        try:
            self.budget.require_positive()
        except InvalidRequest as refused:
            raise refused.within("budget") from None
        return self

    @model_validator(mode="after")
    def _check_filter(self) -> Self:
        if self.where is not None:
            check_filter(self.where)
        return self

    @property
    def knows_public_columns(self) -> bool:
        """Whether the public columns are known; a charged request gets them from its account."""
        return self.account is None or self.table.is_bound

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
                "block_expression", None, "is required if blocks are named",
                "give the account's block expression, e.g. 'day(visited_at)'",
            )  # fmt: skip
        return self.block_expression.predicate(self.blocks)

    @property
    def written_blocks(self) -> str:
        """The blocks in words, with consecutive blocks by time as ranges."""
        expression = self.block_expression
        return ", ".join(self.blocks if expression is None else expression.compact(self.blocks))

    @property
    def replaced_within(self) -> str:
        """What ``REPLACE_ONE`` keeps fixed, in words; empty for nothing (``privacy.replaced_within``)."""
        return replaced_within(self.neighbours, self.block_expression)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the canonical JSON: equal for requests that mean the same, whatever their spelling."""
        return canonical_sha256(self.canonical_fields)

    @cached_property
    def canonical_fields(self) -> dict[str, str]:
        """The canonical JSON of each field, by its name."""
        return {name: canonical(value) for name, value in self.to_dict().items()}

    @cached_property
    def charged_sha256(self) -> str:
        """The hash that the ledger's charge is tied to."""
        return self.sha256

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; decimals as strings. Without an input suite the field is absent, as in earlier versions."""
        fields = self.model_dump(mode="json")
        if self.input_suite is None:
            del fields["input_suite"]
        return fields

    def to_json(self) -> str:
        """The request as indented JSON."""
        return to_json(self.to_dict(), indent=2).decode()

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
        return cls.parse(yaml_fields(text))

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


def canonical(value: Any) -> str:
    """The canonical JSON of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def canonical_sha256(fields: Mapping[str, str]) -> str:
    """SHA-256 of the canonical JSON of an object, computed from the canonical JSON of each of its fields."""
    text = ",".join(f"{canonical(name)}:{fields[name]}" for name in sorted(fields))
    return hashlib.sha256(f"{{{text}}}".encode()).hexdigest()
