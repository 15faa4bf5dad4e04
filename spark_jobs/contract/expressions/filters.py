"""The check of a request's filter before it is charged."""

from __future__ import annotations

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.never_true import why_never_true
from spark_jobs.contract.expressions.parser import parse

_TEMPLATE_MARKS = ("{{", "{%", "{#")


def check_filter(text: str) -> None:
    """Reject a filter that is not an expression of the allow-list, or that is true for no row of any table.

    Raises:
        InvalidRequest: the filter is rejected; the message names what is not allowed, and lists what is.
    """
    if any(mark in text for mark in _TEMPLATE_MARKS):
        raise InvalidRequest(
            "where", text, "must not contain a template, because templates are not rendered here",
            "write the value out, or check the name of the parameter",
        )  # fmt: skip
    reason = why_never_true(parse(text, what="where"))
    if reason is not None:
        raise InvalidRequest("where", text, f"must be true for some rows: {reason}", "correct the condition")
