"""The diagnostics a request may ask for, with their options."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from spark_jobs.contract.values import Frozen


class RocCurveOptions(Frozen):
    """ROC curve with AUC and bands.

    Attributes:
        method: how counts are noised; see the reference of ``spark_jobs.diagnostics.roc_curve``.
        thresholds: cells of [0, 1] that the curve is released on; None lets the method choose from public facts.
        confidence: nominal level of the band and of the AUC's interval.
    """

    kind: Literal["roc_curve"]
    method: Literal["auto", "tree", "fixed_cells", "equi_depth"] = "auto"
    thresholds: Annotated[int, Field(ge=2, le=65536)] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9


DIAGNOSTICS = {"roc_curve": RocCurveOptions}
"""Every kind a request may name. A later diagnostic adds its options here and joins the union below."""

DiagnosticOptions = RocCurveOptions
