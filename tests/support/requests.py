"""Requests about tables, with as little in them as a request may have."""

from __future__ import annotations

from typing import Any

from spark_jobs.contract.request import ReleaseRequest

LOGISTIC = {"kind": "logistic", "basis": "public"}


def a_request(**changes: Any) -> ReleaseRequest:
    """A request for a ROC curve of the columns ``y`` and ``score``, with fields replaced."""
    fields = {
        "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        "label": "y",
        "model": {"kind": "columns", "basis": "public", "score": "score"},
        "diagnostics": ["roc_curve"],
        "budget": {"epsilon": 1},
    }
    return ReleaseRequest.parse({**fields, **changes})


def a_logistic_request(**model: Any) -> ReleaseRequest:
    """The same with a logistic model of these terms."""
    return a_request(model={**LOGISTIC, **model})
