"""``dp-budget init``: asks the user for what a first release needs, and sets everything up in one folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from dp_operators.budget.cli import URL_VARIABLE, Actor, FileFormOptions, actor_or_user
from dp_operators.budget.table_looks import assumed
from dp_operators.set_up import (
    SetUp,
    account_name,
    column_of,
    columns_of,
    header_of,
    require_in_cap,
    require_name,
    types_of,
)
from spark_jobs.contract.domains import ListedValues
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_form import FileForm
from spark_jobs.contract.grids import are_bounds
from spark_jobs.contract.privacy import PrivacyUnit, exact_decimal, plain

Header = tuple[str, ...]
Answer = TypeVar("Answer")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double")


def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A Parquet file, or a csv file whose first line names the columns.")
    ],
    account: Annotated[str | None, typer.Option(help="The account's name.")] = None,
    numbers: Annotated[str | None, typer.Option(help="The columns of numbers of a csv file, e.g. 2,4.")] = None,
    unit_column: Annotated[str | None, typer.Option(help="The column that says whose row it is; '' for none.")] = None,
    max_rows: Annotated[str | None, typer.Option(help="The largest number of rows of one unit that are used.")] = None,
    outcome: Annotated[str | None, typer.Option(help="The column of the outcome; '' for none.")] = None,
    positive: Annotated[str | None, typer.Option(help="The outcome's text where it happened.")] = None,
    negative: Annotated[str | None, typer.Option(help="The outcome's text where it did not happen.")] = None,
    score: Annotated[str | None, typer.Option(help="The column of the model's score.")] = None,
    public_model: Annotated[
        bool | None,
        typer.Option("--public-model/--no-public-model", help="Whether the model was fitted on other rows."),
    ] = None,
    value: Annotated[str | None, typer.Option(help="Without an outcome: the column whose distribution it is.")] = None,
    bounds: Annotated[str | None, typer.Option(help="Its smallest and largest value, e.g. 0,200.")] = None,
    cap: Annotated[str | None, typer.Option(help="What all releases of the table may cost together.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="What this release costs.")] = None,
    file_form: FileFormOptions = None,
    dag: Annotated[bool | None, typer.Option("--dag/--no-dag", help="Whether to write a DAG for Airflow.")] = None,
    folder: Annotated[Path, typer.Option(help="Where everything is written.")] = Path(),
    ledger: Annotated[
        str | None, typer.Option(envvar=URL_VARIABLE, help="URL of a ledger; by default a new one in the folder.")
    ] = None,
    actor: Actor = None,
) -> None:
    """Set up a first release of a csv or Parquet file: table, ledger, account, request and DAG, in one folder.

    Questions that no option answers are asked. Only the first line of a csv file is read, or only the names and types
    in a Parquet file's footer, and no file is replaced.
    """
    form = FileForm.of_options(file_form or ())
    types = types_of(file)
    header = tuple(types) or header_of(file, form)
    lines = (f"{place:>4}  {' '.join([column, types.get(column, '')])}" for place, column in enumerate(header, start=1))
    typer.echo("\n".join(line.rstrip() for line in lines))
    typer.echo("read with the types that the file has" if types else f"read with {assumed(form)}")
    name = _answered(account, "Name of the account", require_name, default=account_name(file))
    numeric = _numeric(numbers, header, types, form)
    unit = _unit(header, unit_column, max_rows)
    diagnosis = _diagnosis(
        header, numeric, outcome=(outcome, positive, negative), score=score, public_model=public_model,
        value=value, bounds=bounds,
    )  # fmt: skip
    if types and "label" in diagnosis:
        diagnosis = {**diagnosis, "label": _typed(diagnosis["label"], types)}
    whole, cost = _budget(cap, epsilon)
    set_up = SetUp(
        folder=folder.absolute(),
        file=file,
        account=name,
        types=_types(header, numeric, diagnosis, types),
        cap=whole,
        unit=unit,
        diagnosis=diagnosis,
        epsilon=cost,
        ledger=ledger,
        form=form,
        dag=typer.confirm("Write a DAG for Airflow?", default=False) if dag is None else dag,
    )
    for path in set_up.write(actor=actor_or_user(actor)):
        typer.echo(f"wrote {path}")
    typer.echo(_next(set_up))


def _numeric(given: str | None, header: Header, types: Mapping[str, str], form: FileForm) -> Header:
    """The columns of numbers: those of the file's types, or of the answer."""
    if not types:
        question = "Which columns hold numbers, e.g. 2,4"
        return _answered(given, question, lambda text: columns_of(text, header, what="numbers"), default="")
    if given or form.model_dump():
        field = "numbers" if given else "file_form"
        raise InvalidRequest(
            field, given, "must be left out for a Parquet file, whose columns have types already", "leave it out"
        )
    return tuple(column for column, of in types.items() if of in _NUMBERS or of.startswith("decimal("))


def _typed(label: Mapping[str, str], types: Mapping[str, str]) -> dict[str, Any]:
    """A label whose values have the type of the outcome's column.

    Raises:
        InvalidRequest: it holds neither texts nor whole numbers.
    """
    of = types[label["column"]]
    values = {side: label[side] for side in ("positive", "negative")}
    if of == "string":
        return dict(label)
    if of in _WHOLE and all(value.lstrip("-").isdecimal() for value in values.values()):
        return {**label, **{side: int(value) for side, value in values.items()}}
    raise InvalidRequest(
        "outcome", label["column"], "must be a column of texts, or a column of whole numbers with whole numbers as its "
        f"two answers, not of type {of}",
        "name another column, or use `dp-budget open`",
    )  # fmt: skip


def _types(header: Header, numeric: Header, diagnosis: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, str]:
    """The type of each column, with what the answers say that it may hold; an outcome is compared as it is spelled."""
    domains, outcome = {}, None
    if "label" in diagnosis:
        label, outcome = diagnosis["label"], diagnosis["label"]["column"]
        answers = ListedValues.parse({"values": [label["positive"], label["negative"]]})
        domains = {outcome: f" {answers}", diagnosis["model"]["score"]: " score"}
    else:
        [described] = diagnosis["diagnostics"]
        domains = {described["column"]: " between {} and {}".format(*described["bounds"])}
    numbers = {*numeric, *domains} - {outcome}
    whole = types or {column: "double" if column in numbers else "string" for column in header}
    return {column: f"{of}{domains.get(column, '')}" for column, of in whole.items()}


def _next(set_up: SetUp) -> str:
    lines = [
        f"account {set_up.account} may spend epsilon {plain(set_up.cap)}; next:",
        f"  source {set_up.settings_file.name}",
        f"  dp-budget run {set_up.request_file.name} --dry-run",
        f"  dp-budget run {set_up.request_file.name}",
    ]
    if set_up.dag:
        lines.append(f"  or move {set_up.dag_file} into Airflow's DAGs folder, and give Airflow the same settings")
    return "\n".join(lines)


def _answered(given: str | None, question: str, read: Callable[[str], Answer], *, default: str | None = None) -> Answer:
    """The option, or the answer to a question that is asked again until it can be read.

    Raises:
        InvalidRequest: the option is wrong, or there is nobody to answer.
    """
    while True:
        answer = _answer(given, question, default=default)
        try:
            return read(answer)
        except InvalidRequest as refused:
            if given is not None:
                raise
            typer.echo(str(refused))


def _answer(given: str | None, question: str, *, default: str | None = None) -> str:
    """The option, or the answer to a question.

    Raises:
        InvalidRequest: there is nobody to answer.
    """
    if given is not None:
        return given
    try:
        answer: str = typer.prompt(question, default=default, show_default=bool(default))
    except typer.Abort:
        raise InvalidRequest("init", None, f"has no answer to: {question}", "answer, or give it as an option") from None
    return answer.strip()


def _budget(cap: str | None, epsilon: str | None) -> tuple[Decimal, Decimal]:
    """What all releases of the table may cost together, and what this one costs."""
    question = "Epsilon of all releases of this table together"
    whole = _answered(cap, question, lambda text: _epsilon(text, "cap"), default="1")

    def read(text: str) -> Decimal:
        return require_in_cap(_epsilon(text, "epsilon"), whole)

    return whole, _answered(epsilon, "Epsilon of this release", read, default=plain(whole / 2))


def _epsilon(text: str, what: str) -> Decimal:
    amount = exact_decimal(text, what=what)
    if amount <= 0:
        raise InvalidRequest(what, text, "must be above 0", "write it like 0.5")
    return amount


def _class(given: str | None, question: str, what: str, *, other: str | None = None) -> str:
    def read(answer: str) -> str:
        if not answer or answer == other:
            requirement = "must be a text" if other is None else f"must be a text, and another one than {other!r}"
            raise InvalidRequest(what, answer, requirement, "answer with the value as it is written in the file")
        return answer

    return _answered(given, question, read, default="" if given is None else None)


def _column(given: str | None, question: str, header: Header, what: str) -> str:
    def read(answer: str) -> str:
        return column_of(answer, header, what=what) if answer else ""

    return _answered(given, question, read, default="")


def _number(given: str | None, question: str, header: Header, numeric: Header, what: str) -> str:
    def read(answer: str) -> str:
        column = column_of(answer, header, what=what) if answer else ""
        # where no column was said to hold numbers, the answer says so of this one
        if column not in (numeric or header):
            raise InvalidRequest(
                what, column, "must be a column of numbers", f"name one of: {', '.join(numeric or header)}"
            )
        return column

    return _answered(given, question, read, default="")


def _unit(header: Header, given: str | None, max_rows: str | None) -> PrivacyUnit:
    column = _column(given, "Column that says whose row it is, empty if each row is another person's", header, "unit")
    if not column:
        return PrivacyUnit(column=None, max_rows=1)

    def read(rows: str) -> PrivacyUnit:
        if not rows.isdecimal():
            raise InvalidRequest("max_rows", rows, "must be a whole number", "give 1 or more")
        return PrivacyUnit(column=column, max_rows=int(rows))

    return _answered(max_rows, "Largest number of rows of one person that are used", read, default="1")


def _curve(labels: Mapping[str, str], score: str, public_model: bool | None) -> dict[str, Any]:
    """The request's fields for a ROC curve of a score that is a column."""
    if public_model is None:
        public_model = typer.confirm("Was the score's model fitted on other rows than these?")
    if not public_model:
        raise InvalidRequest(
            "model", None, "must have been fitted on other rows, or privately",
            "fit one privately with `logistic_fit` (docs/how-to/fit-then-diagnose.md)",
        )  # fmt: skip
    model = {"kind": "columns", "basis": "public", "score": score}
    return {"label": dict(labels), "model": model, "diagnostics": "roc_curve"}


def _diagnosis(
    header: Header,
    numeric: Header,
    *,
    outcome: tuple[str | None, str | None, str | None],
    score: str | None,
    public_model: bool | None,
    value: str | None,
    bounds: str | None,
) -> dict[str, Any]:
    """The request's fields that say what is released."""
    given, positive, negative = outcome
    column = _column(given, "Column of the outcome that a model predicts, empty for none", header, "outcome")
    if column:
        happened = _class(positive, "Its text where it happened", "positive")
        not_happened = _class(negative, "Its text where it did not happen", "negative", other=happened)
        labels = {"column": column, "positive": happened, "negative": not_happened}
        scored = _number(score, "Column of the model's score", header, numeric, "score")
        return _curve(labels, scored, public_model)
    number = _number(value, "Column whose distribution is released", header, numeric, "value")
    question = "Its smallest and largest value, known without the file, e.g. 0,200"
    return _answered(bounds, question, lambda text: _distribution(number, text))


def _distribution(column: str, bounds: str) -> dict[str, Any]:
    """The request's fields for the distribution of a column."""
    try:
        lower, upper = (float(word) for word in bounds.split(","))
    except ValueError:
        lower, upper = 0.0, 0.0
    if not are_bounds((lower, upper)):
        raise InvalidRequest("bounds", bounds, "must be two numbers in ascending order", "write them like 0,200")
    return {"diagnostics": [{"kind": "ecdf", "column": column, "bounds": [lower, upper]}]}
