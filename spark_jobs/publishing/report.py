"""``report.html``: one page that loads nothing from the network, for readers who never saw the request.

Every string of a user is escaped by the template engine. In addition, a content security policy in the page forbids
scripts and requests, so that an error in escaping could not run anything.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from spark_jobs.contract.account import AccountState
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.release import ReleaseFile
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.publishing import formats
from spark_jobs.publishing.formats import visible
from spark_jobs.publishing.rendering import Plot, Section
from spark_jobs.publishing.stamp import Mark
from spark_jobs.publishing.theme import css_variables
from spark_jobs.wording.amounts import amount, listed, probability
from spark_jobs.wording.facts import ReleaseFacts
from spark_jobs.wording.statement import Paragraph, formal_cost

NAME = "report.html"
MEDIA_TYPE = "text/html"
LISTED = 100
"""Largest number of entries that the page shows of a list in the request."""
MAX_ENCLOSED = 400_000
"""About the largest number of bytes of a data file that the page has as CSV; of a larger one it has some rows."""


@dataclass(frozen=True, kw_only=True)
class SmallPlots:
    """Small plots in the report: captions, scales, plots and their inline SVG."""

    heading: str
    note: str
    plots: tuple[tuple[str, str, Plot, str], ...]
    wide: bool


@dataclass(frozen=True, kw_only=True)
class Enclosed:
    """A data file's rows, enclosed in the page itself, which may be read without the other files.

    Attributes:
        name: the file's name without suffix.
        content: the rows as CSV, at most about ``MAX_ENCLOSED`` bytes.
        every: one row in this many is enclosed, from the first on; 1 if all rows are.
        stamped: whether the rows are of a draft without a guarantee, which the CSV's name then says.
    """

    name: str
    content: bytes
    every: int
    stamped: bool

    @property
    def file(self) -> str:
        """The name under which a browser saves the rows."""
        return f"{'NOT_PRIVATE_' if self.stamped else ''}{self.name}.csv"

    @property
    def href(self) -> str:
        """A ``data:`` link that contains the rows."""
        return f"data:text/csv;charset=utf-8;base64,{b64encode(self.content).decode()}"


@dataclass(frozen=True, kw_only=True)
class ReportPart:
    """One diagnostic in the report: its section, its plots with their inline SVG, and its data."""

    kind: str
    section: Section
    plots: tuple[tuple[Plot, str], ...]
    multiples: tuple[SmallPlots, ...] = ()
    data: tuple[Enclosed, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BarSegment:
    """One segment of the budget bar."""

    token: str
    label: str
    value: str
    share: Decimal


@dataclass(frozen=True, kw_only=True)
class BudgetBar:
    """The budget of the account, spent before, spent by this release and left, in the account's own measure."""

    account: AccountState
    symbol: str
    cap: str
    pieces: tuple[BarSegment, ...]
    delta: tuple[tuple[str, str], ...]


def report_html(
    facts: ReleaseFacts,
    *,
    guarantee: str,
    formal: str,
    statement: Sequence[Paragraph],
    marks: Sequence[Mark],
    parts: Sequence[ReportPart],
    files: Sequence[ReleaseFile],
) -> bytes:
    """The page ``report.html``, in UTF-8."""
    request = facts.request
    lists = (
        ("What was assumed", facts.assumptions),
        ("Rules for rows", facts.rules),
    )
    page = (
        environment()
        .get_template("report.html.j2")
        .render(
            facts=facts,
            request=request,
            title=request.title or default_title(request, parts),
            subject=_subject(facts),
            guarantee=guarantee,
            formal=formal,
            statement=statement,
            marks=marks,
            parts=parts,
            files=files,
            budget=None if facts.account is None else budget_bar(facts.account),
            spent=formal_cost(facts.cost),
            lists=tuple((title, lines) for title, lines in lists if lines),
            request_json=json.dumps(shortened(request.to_dict()), indent=2, ensure_ascii=False),
            tokens=css_variables(),
        )
    )
    return page.encode("utf-8")


def default_title(request: ReleaseRequest, parts: Sequence[ReportPart]) -> str:
    """The title for a request without one."""
    outcome = f" for {request.needed_label.column}" if request.uses_label else ""
    first, *others = (part.section.title for part in parts)
    within = [title[:1].lower() + title[1:] if title[1:2].islower() else title for title in others]
    return f"{listed([first, *within])}{outcome}"


def budget_bar(account: AccountState) -> BudgetBar:
    """The segments of the bar, with their labels."""
    measured = "rho" if account.cap.rho is not None else "epsilon"

    def of(budget: Budget) -> Decimal:
        return Decimal(getattr(budget, measured) or 0)

    cap = of(account.cap)
    pieces = (
        ("before", "Spent before", account.spent_before),
        ("spent", "This release", account.charged),
        ("left", "Left", account.remaining),
    )
    delta = (("cap", account.cap), *((label.lower(), budget) for _, label, budget in pieces))
    return BudgetBar(
        account=account,
        symbol="ρ" if measured == "rho" else "ε",
        cap=amount(cap),
        pieces=tuple(
            BarSegment(token=token, label=label, value=amount(of(budget)), share=formats.share_of(of(budget), cap))
            for token, label, budget in pieces
        ),
        # in an account of rho, delta is where epsilon is reported, and nothing is spent of it
        delta=tuple((label, probability(budget.delta)) for label, budget in delta)
        if account.cap.delta and measured == "epsilon"
        else (),
    )


def _subject(facts: ReleaseFacts) -> Mapping[str, str]:
    """What the release is about: labels and texts."""
    request, sizes = facts.request, facts.class_sizes
    model = {"columns": "read from a column", "spark_ml": "a saved Spark ML pipeline"}
    shown = {
        "Table": request.table.name or request.table.path or "",
        "Snapshot": request.table.snapshot.describe(),
    }
    if request.uses_label:
        outcome = request.needed_label
        shown["Outcome"] = f"{outcome.column} = {outcome.positive} against {outcome.negative_text}"
    if sizes is not None:
        classes = ("Positive rows", sizes.positives, sizes.positives_interval), (
            "Negative rows", sizes.negatives, sizes.negatives_interval,
        )  # fmt: skip
        for label, size, ends in classes:
            within = " to ".join(map(formats.count, ends))
            shown[label] = f"about {formats.count(size)} ({within} at {formats.level(sizes.confidence)})"
    if facts.left_out is not None and (left_out := facts.left_out.line()):
        shown["Left out"] = left_out
    if request.uses_model:
        kind = request.needed_model.kind
        shown[request.output_of_model.capitalize()] = model.get(kind, f"a {kind} model")
    if request.where is not None:
        shown["Rows where"] = request.where
    if request.blocks != ("all",):
        shown["Blocks"] = request.written_blocks
    return shown


def shortened(fields: Any) -> Any:
    """JSON fields whose long lists are cut to ``LISTED`` entries; the manifest has all of them."""
    if isinstance(fields, dict):
        return {name: shortened(value) for name, value in fields.items()}
    if isinstance(fields, list):
        more = len(fields) - LISTED
        shown = [shortened(value) for value in fields[:LISTED]]
        return [*shown, f"... and {more:,} more"] if more > 0 else shown
    return fields


def runs(text: str) -> list[tuple[str, bool]]:
    """``text`` split into parts, each with whether it is an exponent: ``e^0.5`` is typeset as a power."""
    pieces = re.split(r"(?<=[e0-9])\^(-?[0-9]+(?:\.[0-9]+)?)", text)
    return [(piece, number % 2 == 1) for number, piece in enumerate(pieces) if piece]


@cache
def environment() -> Environment:
    """The environment of the page's templates, which escape every text."""
    templates = Environment(
        loader=PackageLoader("spark_jobs.publishing", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters.update(moment=formats.moment, runs=runs, size=formats.size)
    return templates
