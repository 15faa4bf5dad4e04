"""What a release takes for granted, in sentences; public, and independent of the table's contents."""

from __future__ import annotations

from spark_jobs.contract.options import EcdfOptions, PairedScoreCells, RocComparisonOptions
from spark_jobs.contract.options.row_bound import ReleasedBound
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.tables import Model

ASSUMED_OF_MODEL = {
    "public": "The model is public, as the request declares: it was fitted without any row of this release.",
    "differentially_private": "The model was fitted privately, as the request declares, at a cost that is accounted "
    "for elsewhere.",
}


def assumptions(request: ReleaseRequest, *, charged: bool) -> tuple[str, ...]:
    """The assumptions behind the guarantee of a release for ``request``, one sentence each.

    If the request is charged, the fields that it copies from earlier releases were compared with them before the
    charge; in an uncharged draft, nothing has compared them.
    """
    sentences = [_assumed_of(request.needed_model, charged=charged)] if request.uses_model else []
    sentences += [
        _assumed_of(statistic.model, charged=charged).replace("The model", "The second model", 1)
        for statistic in request.statistics
        if isinstance(statistic, PairedScoreCells)
    ]
    sentences += [
        f"{'The values are' if isinstance(options, EcdfOptions) else 'The ROC curve is'} compared with what release "
        f"{options.compare_with.released_by} published, {_checked(charged)}."
        for options in request.diagnostics
        if isinstance(options, (EcdfOptions, RocComparisonOptions)) and options.compare_with is not None
    ]
    sentences += [
        f"At most {rows.rows} rows of each {request.unit.column} are used, as release {rows.released_by} chose for an "
        f"epsilon of {plain(rows.epsilon)}, {_checked(charged)}."
        for rows in (getattr(options, "max_rows", None) for options in request.diagnostics)
        if isinstance(rows, ReleasedBound)
    ]
    if request.record is not None:
        sentences.append(f"The request calls a row of the table a “{request.record}”; nothing checks this.")
    sentences.append(f"The table is read as of {request.table.snapshot.describe()}, which no later write changes.")
    return tuple(sentences)


def _assumed_of(model: Model, *, charged: bool) -> str:
    fitted_by, mapped = getattr(model, "fitted_by", None), ""
    if model.recalibrated is not None and model.recalibrated.fitted_by is not None:
        mapped = (
            f" Its scores are recalibrated by the map of release {model.recalibrated.fitted_by}, {_checked(charged)}."
        )
    if fitted_by is not None:
        return f"The model was fitted privately by release {fitted_by}, {_checked(charged)}.{mapped}"
    return ASSUMED_OF_MODEL[model.basis] + mapped


def _checked(charged: bool) -> str:
    if charged:
        return "which a ledger has committed and from which it was read before this one was charged"
    return "as the request says; nothing has checked it"
