"""The guarantee in plain words: what is promised, to whom, and what is not.

Every sentence follows from the definition of differential privacy and from the request; none depends on a result, so
the statement is the same whatever was released. With cost ``epsilon`` and ``delta = 0``, for neighbouring tables ``D,
D'`` and every set ``S`` of releases, ``P[M(D) in S] <= e^epsilon P[M(D') in S]``; by Bayes' rule, whatever an observer
believed, the odds between ``D`` and ``D'`` move by at most ``e^epsilon`` (Dwork & Roth 2014, section 2.3). With a delta
the factor and the probability that are quoted are those of ``contract.odds``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from spark_jobs.contract.odds import Odds, Spent, odds
from spark_jobs.contract.options import LinearRegressionOptions
from spark_jobs.contract.options.row_bound import ReleasedBound
from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.contract.privacy import Budget, Neighbours, exact_sum
from spark_jobs.contract.release import NOT_PRIVATE, PartSpending, ReleasePart
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.score_map import ScoreMap
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.wording.amounts import SPACE, equals, exponent, listed, odds_factor, probability
from spark_jobs.wording.facts import ReleaseFacts

FORMAL_ABOVE = Decimal(13)
"""Above this epsilon the odds may change by more than 400,000: the statement then says that nothing is limited."""

_NAMES = {
    "aggregates": "table of counts, sums and means",
    "left_out": "numbers of rows that do not count",
    "auc": "AUC",
    "binormal_roc": "binormal ROC curve",
    "cdf_points": "points of a distribution function",
    "ecdf": "distribution function",
    "profile": "profile of the table",
    "roc_comparison": "comparison of ROC curves",
    "roc_curve": "ROC curve",
}
"""Names in prose of the diagnostics whose kinds are not words."""

WITHOUT_GUARANTEE = (
    "NOT PRIVATE. The noise in this release came from a seed, for tests and benchmarks. Whoever knows or guesses the "
    "seed can remove the noise and read exact figures about the rows. Nothing is promised to anybody: do not share "
    "it if the table is about real people."
)


_COMPUTATIONAL = (
    "The promise is computational: it holds against whoever cannot break X25519, AES-256 and SHA-256, and it rests on "
    "the secrecy of the participants' private keys, of which those for one agreement are destroyed after the last "
    "evaluation that is paid for."
)


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """One paragraph of the statement; the first has no heading.

    Attributes:
        heading: a few words, or empty.
        text: a few sentences.
        items: a list that follows the text.
        closer: for each item, a detail that only the report shows, because it may depend on the noise; may be empty.
    """

    heading: str
    text: str
    items: tuple[str, ...] = ()
    closer: tuple[str, ...] = ()


def privacy_statement(facts: ReleaseFacts, guarantee: str) -> tuple[Paragraph, ...]:
    """What is promised, who is protected and what is not covered; without noise, that nothing is promised."""
    if guarantee == NOT_PRIVATE:
        return (Paragraph(heading="", text=WITHOUT_GUARANTEE),)
    request = facts.request
    return (
        Paragraph(heading="", text=promise(request, facts.cost, quoted_odds(facts))),
        Paragraph(heading="Who is protected", text=_protected(facts.cost, request)),
        *_together(request),
        Paragraph(heading="What is taken for granted", text=_taken_for_granted(facts)),
        Paragraph(heading="What is not covered", text=_not_covered(request)),
        *_bought(facts),
        Paragraph(heading="Other releases", text=_other_releases(facts)),
    )


def plain_text(statement: Sequence[Paragraph]) -> str:
    """The statement as the manifest stores it: paragraphs with an empty line between them.

    The text depends on the request alone, not on the rows or the noise. It leaves out the details in ``closer``, which
    the manifest states as figures.
    """
    texts = (" ".join((part.text, *part.items)) for part in statement)
    return "\n\n".join(
        f"{part.heading}: {text}" if part.heading else text for part, text in zip(statement, texts, strict=True)
    )


def formal_guarantee(facts: ReleaseFacts, guarantee: str) -> str:
    """The guarantee as a formula, in one line."""
    if guarantee == NOT_PRIVATE:
        return "no guarantee"
    kept, unit = facts.request.replaced_within, facts.request.unit
    change = "added or removed"
    if facts.request.neighbours is Neighbours.REPLACE_ONE:
        others = "another" if unit.column is None else "those of another"
        change = f"replaced by {others} of {kept}" if kept else "replaced"
    federation = facts.request.federation
    computational = "" if federation is None else "; computational, by the secrecy of keys"
    if unit.column is None:
        return f"{formal_cost(facts.cost)}; neighbouring tables: one row {change}{computational}"
    used = facts.request.rows_of_unit
    rows = "one" if used == 1 else str(used)
    counted = "used as one number" if _of_numbers_of_rows(facts.request) else f"at most {rows} of them used"
    if _of_totals(facts.request):
        counted = f"their totals in at most {rows} of the table's cells used"
    return (
        f"{formal_cost(facts.cost)}; neighbouring tables: all rows of one value of {unit.column} {change}, "
        f"{counted}{computational}"
    )


def _of_totals(request: ReleaseRequest) -> bool:
    """Whether the totals of a unit's rows are used, in some cells of a table of aggregates."""
    return any(getattr(options, "of_unit_totals", False) for options in request.diagnostics)


def _of_numbers_of_rows(request: ReleaseRequest) -> bool:
    """Whether nothing is used of a unit but how many rows it has."""
    return any(isinstance(statistic, UnitRowCells) for statistic in request.statistics)


def formal_cost(cost: Budget) -> str:
    """A cost as a formula: ``ε = 1``, ``ε = 1, δ = 10^-6`` or ``ρ = 0.5 (zCDP)``."""
    if cost.rho is not None:
        return f"{equals('ρ', cost.rho)} (zCDP)"
    delta = "" if cost.delta == 0 else f", δ = {probability(cost.delta)}"
    return f"{equals('ε', cost.epsilon)}{delta}"


def quoted_odds(facts: ReleaseFacts) -> Odds:
    """The bound on odds that a release states: from its mechanisms if they are known, else from its cost alone."""
    if facts.cost.rho is not None:
        return odds(Spent.of(facts.cost))
    spendings = [spending for part in facts.parts for spending in part.spendings]
    if not all(part.spendings for part in facts.parts) or not spendings:
        return odds(Spent.of(facts.cost))
    quoted = odds(*spendings)
    if facts.left_out is None or quoted.exponent >= facts.cost.epsilon:
        return quoted
    # a row that counts in nothing may lose the whole epsilon in one count (``mechanisms.left_out``)
    return replace(quoted, exponent=facts.cost.epsilon)


def promise(request: TableRequest, cost: Budget, quoted: Odds | None = None) -> str:
    """What a reader can learn from a release at most, in words.

    Args:
        request: names the neighbours, the unit and the blocks.
        cost: the cost of the releases that the reader sees.
        quoted: the bound on odds to state; by default, what follows from the cost alone.
    """
    bound = odds(Spent.of(cost)) if quoted is None else quoted
    unit = request.unit
    if unit.column is None:
        present, content = "whether any one row of the table was in it", "what any one row of the table said"
    else:
        rows = f"the rows of any one value of {unit.column}"
        present, content = f"whether {rows} were in the table", f"what {rows} said"
    if request.replaced_within:
        content += f", but for the {request.block_expression}, which is public"
    secret = {Neighbours.ADD_REMOVE: present, Neighbours.REPLACE_ONE: content}[request.neighbours]
    often = "" if bound.probability == 0 else f"except with a probability of at most {probability(bound.probability)}, "
    if bound.exponent > FORMAL_ABOVE:
        paid = equals("ε", cost.epsilon) if cost.rho is None else equals("ρ", cost.rho)
        return (
            f"With {paid} the promise is a formality: {often}seeing this release changes the odds on {secret} by at "
            f"most a factor e^{exponent(bound.exponent)}, which in practice limits nothing."
        )
    return (
        f"Whoever reads this release, whatever else they know, {_strength(bound.exponent)} {secret}: {often}seeing it "
        f"changes the odds by at most a factor e^{exponent(bound.exponent)} = {odds_factor(bound.exponent)}. Somebody "
        f"who thought both equally likely before can {'then ' if often else ''}end up at most "
        f"{bound.surest:f}{SPACE}% sure{', with the same exception' if often else ''}."
    )


def _strength(epsilon: Decimal) -> str:
    if epsilon <= 1:
        return "can hardly tell"
    return "can tell only with limited certainty" if epsilon <= 4 else "is only weakly prevented from telling"


def _protected(cost: Budget, request: ReleaseRequest) -> str:
    unit, record = request.unit, request.record
    lines = (
        " A record of a csv file whose quoted field holds line breaks is several rows."
        if request.table.form == "csv"
        else ""
    )
    if unit.column is None:
        together = (
            f": for 5 rows the factor is e^{exponent(5 * cost.epsilon)}" if cost.rho is None and cost.delta == 0 else ""
        )
        called = "" if record is None else f" The request calls a row a “{record}”; nothing checks this."
        return (
            f"One row, and a row is not a person: someone with several rows in the table is protected for each row "
            f"separately, and less for all rows together{together}.{lines}{called}"
        )
    used = request.rows_of_unit
    rows = "one row is" if used == 1 else f"{used} rows are"
    if _of_numbers_of_rows(request):
        rows = "one number, of its rows, is"
    if _of_totals(request):
        rows = f"the totals of all its rows in {'one cell' if used == 1 else f'{used} cells'} of the table are"
    groups = ", whatever groups they are in" if unit.max_rows > 1 and _grouped(request) else ""
    return (
        f"All rows with the same value of {unit.column}: at most {rows} used for each value, and the promise covers "
        f"them all together{groups}. Rows without a value are left out. Someone who appears under several values is "
        f"protected for each value separately, and less for all values together.{lines}"
    )


def _together(request: ReleaseRequest) -> tuple[Paragraph, ...]:
    """Who released the rows together, and whom the promise holds against; empty for one table."""
    agreement = None if request.federation is None else request.federation.agreement
    if agreement is None:
        return ()
    silos, servers = ([member.name for member in members] for members in (agreement.silos, agreement.servers))
    several = agreement.silos_per_person
    appears = (
        "The promise covers someone whose rows lie in one silo; who has rows in several is protected less."
        if several == 1
        else f"The promise covers someone's rows in up to {several} silos together."
    )
    text = (
        f"The rows of {len(silos)} silos ({listed(silos)}) were counted where they are, and only noisy sums over all "
        f"silos were published, by {len(servers)} servers ({listed(servers)}). Nobody sees the counts of one silo, and "
        f"the promise holds, as long as one of the servers keeps to itself what it received and the noise that it "
        f"added: up to {agreement.colluding} may collude. {_COMPUTATIONAL} {appears} The figures are wrong if a silo "
        "or a server has sent wrong numbers, which nothing checks."
    )
    return (Paragraph(heading="Who released this together", text=text),)


def _grouped(request: ReleaseRequest) -> bool:
    return any(isinstance(options, LinearRegressionOptions) and options.group_by for options in request.diagnostics)


def _taken_for_granted(facts: ReleaseFacts) -> str:
    request = facts.request
    size = "; so is the number of rows" if request.neighbours is Neighbours.REPLACE_ONE else ""
    if request.replaced_within:
        one = "row" if request.unit.column is None else f"value of {request.unit.column}"
        size += f" of each {request.block_expression}: a {one} is replaced by another of {request.replaced_within}"
    public = f"The request is public, including its table's name, columns, filter and options{size}."
    charged = facts.status != "UNCHARGED"
    parts = (_model_taken(request, charged=charged), public, _groups_taken(request), _rows_taken(request))
    return " ".join(part for part in parts if part)


def _rows_taken(request: ReleaseRequest) -> str:
    """That the bound on the rows of a unit was chosen, and what both releases cost together; empty if it was not."""
    for options in request.diagnostics:
        rows = getattr(options, "max_rows", None)
        if isinstance(rows, ReleasedBound):
            both = equals("ε", exact_sum(request.budget.epsilon, rows.epsilon))
            return (
                f"The bound of {rows.rows} rows was itself chosen privately, by release {rows.released_by}, for "
                f"{equals('ε', rows.epsilon)}. That cost adds to the cost of this release: together they keep the "
                f"promise of {both}."
            )
    return ""


def _model_taken(request: ReleaseRequest, *, charged: bool) -> str:
    if not request.uses_model:
        return ""
    score_map = request.needed_model.recalibrated
    return " ".join([_fit_taken(request, charged=charged), *_map_taken(score_map, charged=charged)])


def _map_taken(score_map: ScoreMap | None, *, charged: bool) -> list[str]:
    if score_map is None:
        return []
    if score_map.fitted_by is None or not charged:
        return ["The same holds for the map that recalibrates its scores."]
    return [
        f"The map that recalibrates its scores was fitted privately, by release {score_map.fitted_by}, from which map "
        "and model were read when this release was charged. The cost of that release adds to the cost of this one."
    ]


def _fit_taken(request: ReleaseRequest, *, charged: bool) -> str:
    fitted_by = getattr(request.needed_model, "fitted_by", None)
    if fitted_by is not None and charged:
        return (
            f"The model behind the {request.output_of_model} was itself fitted privately, by release {fitted_by}, from "
            "which it was read when this release was charged. The cost of that fit adds to the cost of this release."
        )
    return {
        "public": f"The model behind the {request.output_of_model} was fitted without these rows: the request declares "
        "this, and it cannot be checked here. A model fitted to these rows would reveal them despite the noise.",
        "differentially_private": f"The model behind the {request.output_of_model} was itself fitted privately: the "
        "request declares this, and it cannot be checked here. The cost of that fit adds to the cost of this release.",
    }[request.needed_model.basis]


def _groups_taken(request: ReleaseRequest) -> str:
    """What is public about groups: always their list, and their sizes if the request declares them public."""
    for options in request.diagnostics:
        if not isinstance(options, LinearRegressionOptions):
            continue
        groups = "" if options.group_by is None else f"The groups of {options.group_by} are a public list. "
        if not options.sizes_are_public(request.neighbours):
            return groups.strip()
        if options.group_by is None:
            return "Which rows the line is fitted to is taken to be public; only their values are protected."
        return (
            f"{groups}Which row is in which group is taken to be public too, and so is the size of each group: a "
            f"replaced row stays in its group and within the filter, and only its values are protected."
        )
    return ""


def _not_covered(request: ReleaseRequest) -> str:
    size = "" if request.neighbours is Neighbours.REPLACE_ONE else " Sizes are covered: those shown are noisy."
    return f"How long the computation ran: this can depend on the rows, and others may have observed it.{size}"


def _bought(facts: ReleaseFacts) -> tuple[Paragraph, ...]:
    """What each part of the cost paid for; empty if the parts are not known."""
    if not facts.parts:
        return ()
    return (
        Paragraph(
            heading="What the cost bought",
            text="Each measurement of the rows has its own noise and its own cost. The total is "
            f"{formal_cost(facts.cost)}.",
            items=tuple(_part(part, facts.parts[:number]) for number, part in enumerate(facts.parts)),
            closer=tuple(_spendings(part) for part in facts.parts),
        ),
    )


def _part(part: ReleasePart, earlier: Sequence[ReleasePart]) -> str:
    """What a part paid for; of a diagnostic that an earlier part is named for, too, the rest."""
    names = listed([_NAMES.get(kind, kind.replace("_", " ")) for kind in part.kinds])
    if any(part.kinds[0] in one.kinds for one in earlier):
        names = f"the rest of the {names}"
    shared = "" if len(part.kinds) == 1 else ", computed from the same noisy counts"
    return f"{names[:1].upper()}{names[1:]}: {formal_cost(part.cost)}{shared}."


def _spendings(part: ReleasePart) -> str:
    """The spendings of a part, as text; their number may depend on earlier noisy values."""
    alone = len(part.spendings) == 1
    return "; ".join(spent.label if alone else f"{spent.label}, {_spent(spent)}" for spent in part.spendings)


def _spent(spent: PartSpending) -> str:
    if spent.epsilon == 0:
        return formal_cost(Budget(epsilon=0, rho=spent.rho))
    delta = "" if spent.delta == 0 else f", δ = {probability(spent.delta)}"
    return f"{equals('ε', spent.epsilon)}{delta}"


def _other_releases(facts: ReleaseFacts) -> str:
    if facts.status == "UNCHARGED":
        return (
            "The promise covers this draft alone. No ledger paid for it: the costs of all releases and drafts about "
            "the same rows add up."
        )
    account = "" if facts.request.account is None else f" of the account {facts.request.account}"
    allotment = facts.account.allotment if facts.account is not None else ""
    within = f"; those of the sub-budget {allotment}, which paid for this one, within its own" if allotment else ""
    return (
        "The promise covers this release alone. The costs of all releases about the same rows add up, and the "
        f"ledger{account} keeps them within its cap{within}."
    )
