"""Released results and facts to publish: made up here, without tables, noise or a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs import publishing
from spark_jobs.contract.account import AccountState
from spark_jobs.contract.figure import PARTS, Ends, Figure
from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE, Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.diagnostics.roc_curve import RocCurve
from spark_jobs.publishing.rendering import Rendering
from spark_jobs.wording.facts import ReleaseFacts

HOSTILE = (
    """</title></style><script>alert("x")</script><img src=x onerror=alert(1)>{{ 7*7 }}{% raw %}$\\frac{'"&\u202e\x00"""
)


def render(kind: str, result: Any, request: ReleaseRequest) -> Rendering:
    """What the page of ``kind`` makes of a result."""
    return diagnostic(kind).render(result, request)


def publish(results: Mapping[str, Any], *, facts: ReleaseFacts) -> tuple[Release, dict[str, bytes]]:
    """The manifest and the files of results by kind, each made by the page of its kind."""
    return publishing.publish(
        {kind: (result, diagnostic(kind).render) for kind, result in results.items()}, facts=facts
    )


def curve(*, points: int = 129, strength: float = 2.2, width: float = 0.02) -> RocCurve:
    """A smooth curve, tpr = 1 - (1 - fpr)^strength, with a band of about ``width``."""
    share = np.linspace(0.0, 1.0, points)
    fpr = share**2
    tpr = 1 - (1 - fpr) ** strength
    half = width * (1 + 2 * np.sqrt(fpr * (1 - fpr)))
    inner = np.where((share > 0) & (share < 1), half, 0.0)
    thresholds = np.concatenate([[np.inf], np.linspace(0.97, 0.0, points - 1)])
    auc = strength / (strength + 1)
    return RocCurve(
        fpr=fpr,
        thresholds=thresholds,
        tpr=Figure(
            value=tpr,
            **{
                of: Ends(np.clip(tpr - times * inner, 0, 1), np.clip(tpr + times * inner, 0, 1))
                for of, times in zip(PARTS, (1, 1.8, 2.5, 3), strict=True)
            },
        ),
        auc=Figure(
            value=auc,
            interval=Ends(auc - width / 2, auc + width / 2),
            population=Ends(auc - width, auc + width),
            privacy_share=0.2,
        ),
        positives=6899.4,
        negatives=3190.8,
        status="ok",
        confidence=0.9,
        epsilon=Decimal(1),
        neighbours=Neighbours.ADD_REMOVE,
        guarantee=PRIVATE,
    )


def undefined_curve(*, points: int = 129) -> RocCurve:
    """What is released where a class is too small to tell: the same shape, and nothing in it."""
    return replace(
        curve(points=points),
        positives=0.0,
        negatives=0.3,
        status="undefined",
    )


def broken_curve(*, points: int = 129) -> RocCurve:
    """Values that no diagnostic should release; publishing them must not fail all the same."""
    whole, nothing = curve(points=points), float("nan")
    return replace(
        whole,
        fpr=whole.fpr * nothing,
        tpr=whole.tpr.withheld(),
        auc=Figure(
            value=nothing, interval=Ends(nothing, nothing), population=Ends(nothing, nothing), privacy_share=nothing
        ),
        positives=-1.2,
        negatives=float("inf"),
    )


def seeded(result: RocCurve) -> RocCurve:
    """The same result as a seeded noise would make it."""
    return replace(result, guarantee=NOT_PRIVATE)


def request(**changes: Any) -> ReleaseRequest:
    """A request for a ROC curve."""
    fields: dict[str, Any] = {
        "account": "randhie",
        "table": {"path": "/lake/person_years", "snapshot": {"path_version": "v=1"}},
        "label": {"column": "any_visit"},
        "model": {
            "kind": "logistic",
            "basis": "public",
            "intercept": -0.2,
            "coefficients": {"lncoins": -0.1, "linc": 0.09, "lfam": -0.07, "disea": 0.04},
        },
        "diagnostics": [{"kind": "roc_curve"}],
        "budget": {"epsilon": "1"},
        "title": "Who sees a doctor in a year? How well insurance and health predict a visit",
    }
    return ReleaseRequest.parse({**fields, **changes})


def account(**changes: Any) -> AccountState:
    """An account of which a release took 1 of 1.5."""
    fields = {
        "name": "randhie",
        "cap": Budget(epsilon="1.5"),
        "spent_before": Budget(epsilon="0.25"),
        "charged": Budget(epsilon="1"),
        "remaining": Budget(epsilon="0.25"),
    }
    return AccountState(**{**fields, **changes})


def facts(*, draft: bool = False, **changes: Any) -> ReleaseFacts:
    """The facts of a charged release, or of a draft."""
    asked = changes.pop("request", None) or request()
    fields: dict[str, Any] = {
        "request": asked,
        "key": None if draft else "demo/release_diagnostics/release/2026-11-21T00:00:00+00:00",
        "charge_id": None if draft else "c-7f3a9d",
        "cost": asked.budget.charged,
        "rules": (
            "A row whose any_visit is neither 1 nor 0 is dropped.",
            "A row without a score is dropped.",
            "A score below 0 or above 1 is moved to the nearer end.",
            "Scores are rounded to a fixed grid of 65,536 cells on [0, 1] before anything is counted.",
        ),
        "assumptions": (
            "The model was fitted on other rows and is public.",
            "A row is a person-year: a person may own several.",
            "The band and the interval describe the noise, not the chance of which rows are in the table.",
        ),
        "drawn_at": "2026-11-21T01:20:34+00:00",
        "versions": {"dp-diagnostics": "0.1.0", "opendp": "0.16.0", "pyspark": "4.3.0"},
        "account": None if draft else account(),
    }
    return ReleaseFacts(**{**fields, **changes})
