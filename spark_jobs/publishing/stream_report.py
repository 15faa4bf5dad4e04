"""``report.html`` of a stream of any length, from its published files alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.publishing import figures, stamp
from spark_jobs.publishing.formats import moment
from spark_jobs.publishing.publication import report_part
from spark_jobs.publishing.rendering import Rendering
from spark_jobs.publishing.report import environment, shortened
from spark_jobs.publishing.theme import css_variables
from spark_jobs.wording.amounts import equals
from spark_jobs.wording.statement import Paragraph, formal_cost


@dataclass(frozen=True, kw_only=True)
class StreamFacts:
    """The public facts of a stream, as its description (``stream.json``) has them.

    Attributes:
        request: the stream's request.
        key, charge_id: the stream's key, and the charge that pays for it; None for a draft.
        guarantee: the stamp of its noise.
        cost: what the stream costs.
        spendings: what each part of the mechanism costs.
        statement: the guarantee in plain words.
        rules, assumptions: the public rules for rows, and what the guarantee takes for granted; a sentence for each.
        versions: the versions of the programs that began the stream.
    """

    request: StreamRequest
    key: str | None
    charge_id: str | None
    guarantee: str
    cost: Budget
    spendings: tuple[tuple[str, Decimal], ...]
    statement: str
    rules: tuple[str, ...]
    assumptions: tuple[str, ...]
    versions: Mapping[str, str]

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> StreamFacts:
        """The facts in a description."""
        return cls(
            request=StreamRequest.parse(description["request"]),
            key=description["key"],
            charge_id=description["charge_id"],
            guarantee=description["guarantee"],
            cost=Budget.model_validate(description["cost"]),
            spendings=tuple((one["label"], Decimal(one["epsilon"])) for one in description["spendings"]),
            statement=description["statement"],
            rules=tuple(description["rules"]),
            assumptions=tuple(description["assumptions"]),
            versions=description["versions"],
        )

    @property
    def status(self) -> str:
        """Whether a ledger's charge pays for the stream."""
        return "UNCHARGED" if self.charge_id is None else "CHARGED"


def stream_html(facts: StreamFacts, sections: Mapping[str, Rendering], *, released: int, segments: int) -> bytes:
    """The page ``report.html`` of a stream, in UTF-8.

    Args:
        facts: the facts of the stream.
        sections: the sections of the page, by name.
        released: the number of steps that the page shows.
        segments: the number of files that hold these steps.
    """
    request = facts.request
    marks = stamp.marks(facts.guarantee, facts.status)
    with figures.fixed_settings():
        parts = tuple(report_part(name, section, marks) for name, section in sections.items())
    lists = (("What was assumed", facts.assumptions), ("Rules for rows", facts.rules))
    page = (
        environment()
        .get_template("stream.html.j2")
        .render(
            facts=facts,
            request=request,
            title=request.title or _default_title(request),
            subject=_subject(request, released),
            guarantee=facts.guarantee,
            formal="",
            statement=_paragraphs(facts.statement),
            marks=marks,
            parts=parts,
            segments=segments,
            spent=formal_cost(facts.cost),
            spendings=tuple((label, equals("ε", epsilon)) for label, epsilon in facts.spendings),
            lists=tuple((title, lines) for title, lines in lists if lines),
            request_json=json.dumps(shortened(request.to_dict()), indent=2, ensure_ascii=False),
            tokens=css_variables(),
        )
    )
    return page.encode("utf-8")


def _default_title(request: StreamRequest) -> str:
    by = "" if request.states is None else f" by {request.states.column}"
    every = request.step.removeprefix("1 ")
    return f"Counts{by}, every {every}"


def _subject(request: StreamRequest, released: int) -> Mapping[str, str]:
    ends = request.step_begins(released).isoformat()
    facts = {
        "Table": request.table.name or request.table.path or "",
        "From": moment(request.start),
        "To": f"{moment(ends)} so far" if released < request.steps else moment(ends),
    }
    if request.where is not None:
        facts["Rows where"] = request.where
    if request.blocks != ("all",):
        facts["Blocks"] = request.written_blocks
    return facts


def _paragraphs(statement: str) -> tuple[Paragraph, ...]:
    """The paragraphs of a statement, whose headings end with a colon."""
    first, *others = statement.split("\n\n")
    headed = (other.partition(": ") for other in others)
    return (
        Paragraph(heading="", text=first),
        *(Paragraph(heading=heading, text=text[:1].upper() + text[1:]) for heading, _, text in headed),
    )
