"""The guarantee of a stream in plain words, its public rules for rows, and what it takes for granted.

Every sentence follows from the request; none depends on a count.
"""

from __future__ import annotations

from spark_jobs.contract.privacy import Neighbours, plain
from spark_jobs.contract.release import NOT_PRIVATE
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.wording.statement import WITHOUT_GUARANTEE, promise

_PAID = "The cost is paid once and covers every step of the stream, however long it is, and every state."


def stream_statement(request: StreamRequest, guarantee: str) -> str:
    """The guarantee and whom it protects; the same for every step.

    Args:
        request: the stream's request.
        guarantee: the guarantee that the stream's noise was stamped with, such as ``NOT_PRIVATE``.
    """
    if guarantee == NOT_PRIVATE:
        return WITHOUT_GUARANTEE
    promised = promise(request, request.budget).replace("this release", "this stream")
    return "\n\n".join(
        (
            f"{promised} {_PAID}",
            f"Who is protected: {_protected(request)}",
            "Other releases: the costs of all releases and streams about the same rows add up, and the ledger keeps "
            "them within the cap of the account.",
        )
    )


def stream_rules(request: StreamRequest) -> tuple[str, ...]:
    """The treatment of rows, in order of application."""
    lines = []
    if request.block_filter is not None:
        lines.append(
            f"Only rows in the charged blocks {request.written_blocks} of {request.block_expression}, in UTC, are read."
        )
    if request.where is not None:
        lines.append(f"Only rows for which this condition is true are used: {request.where}.")
    lines.append(
        f"A row counts in the step of {request.step} that contains its time, in UTC, in the column '{request.time}'; a "
        "row without a time there, or with one outside the stream, is left out."
    )
    if request.states is not None:
        lines.append(
            f"A row counts in the state that the column '{request.states.column}' names; a row with a null there, or "
            f"with none of the {len(request.leaf_names):,} states of the request, is left out."
        )
    if request.unit.column is not None and request.follow is not None:
        lines.append(
            f"Of the rows that arrive together and share a value of '{request.unit.column}', at most "
            f"{request.unit.max_rows} are used; a row without a value there is left out."
        )
    elif request.unit.column is not None:
        lines.append(
            f"Of the rows that share a value of '{request.unit.column}', at most {request.rows_per_step} in a step and "
            f"{request.unit.max_rows} {_within(request)} are used: the first by time, and within a step by a secret "
            "order; a row without a value there is left out."
        )
    if request.places is not None:
        lines.append(
            f"How many rows of each value of '{request.unit.column}' were used is kept, exact and encrypted, under a "
            "keyed hash of the value: rows that arrive late, vanish or return make no more of them count."
        )
    if request.capacity is not None:
        lines.append(
            f"The stream has room for {request.capacity:,} values of '{request.unit.column}', in the order of the "
            "steps of their first rows, and within a step of their hashes; rows of values beyond are left out."
        )
    if request.follow is not None:
        lines.append(
            f"A step is closed {request.follow.delay} after its end by the clock, or later if the stream stood still. "
            "A row is left out if its step begins later than the step after the current one when the row is read."
        )
    lines.append("A row that arrives after its step was released is never counted.")
    return tuple(lines)


def stream_assumptions(request: StreamRequest) -> tuple[str, ...]:
    """The assumptions behind the guarantee of a stream, one sentence each."""
    sentences = [*_of_table(request), "The request is public, including its states."]
    if request.declared_rows is not None:
        sentences.append(
            f"No value of {request.unit.column} has more than {request.declared_rows:,} rows in the table, in all its "
            "versions together: the administrator of the account declares it and nothing checks it, because earlier "
            "rows are not read again. A value with twice as many can lose twice the epsilon."
        )
    if request.record is not None:
        sentences.append(f"The request calls a row of the table a “{request.record}”; nothing checks this.")
    return tuple(sentences)


def _of_table(request: StreamRequest) -> tuple[str, ...]:
    if request.follow is not None:
        return (
            "The folder only gains files, as the administrator of the account declares and nothing checks: each row "
            "is in one of them, and no file changes. When a row arrives does not depend on the rows of others.",
        )
    if request.places is None:
        return (
            "The table only gains rows, as the administrator of the account declares and nothing checks: a row keeps "
            "its time, its state and its unit, and none is removed while the stream runs. A row that moves to another "
            "step can be counted in both.",
        )
    if request.capacity is not None:
        return ()
    return (
        f"The table never has more than {request.places:,} values of {request.unit.column}, in all its versions "
        "together: the administrator of the account declares it and nothing checks it. If there are more, the absence "
        "of one value lets the rows of another count, and it can lose twice the epsilon.",
    )


def _within(request: StreamRequest) -> str:
    return "in the whole stream" if request.declared_rows is None else "in the steps that one run releases"


def _protected(request: StreamRequest) -> str:
    unit, kept = request.unit, request.replaced_within
    within = f" It is replaced by another of {kept}." if kept else ""
    if unit.column is None:
        return (
            "one row, and a row is not a person: someone with several rows is protected for each row separately."
            f"{within}"
        )
    twice = " (twice the noise, because a row may be replaced)" if request.neighbours is Neighbours.REPLACE_ONE else ""
    declared = request.declared_rows is not None
    used = "are in the table, as its administrator declares" if declared else "are used in the stream"
    parts = request.rows_paid
    displaced = "" if parts == unit.max_rows else " (twice as many as its rows, because its place may be another's)"
    return (
        f"all rows with the same value of {unit.column}, of which at most {unit.max_rows} {used}: each is released at "
        f"epsilon {plain(request.epsilon_per_row)}, a part of {parts}{displaced}{twice}.{within}"
    )
