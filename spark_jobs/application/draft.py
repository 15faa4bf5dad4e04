"""From a draw to a draft: deterministic, so that every attempt makes the same bytes."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

from spark_jobs.application.draw import Draw
from spark_jobs.contract.options import EcdfOptions, OtherScoreCells, ScoreCells
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.tables import Model
from spark_jobs.diagnostics._shared_groups import SharedGroups, read_as
from spark_jobs.publishing import ReleaseFacts, publish
from spark_jobs.publishing.rendering import Renderer
from spark_jobs.statistics.score_counts import DEFAULT_CELLS

ASSUMED_OF_MODEL = {
    "public": "The model is public, as the request declares: it was fitted without any row of this release.",
    "differentially_private": "The model was fitted privately, as the request declares, at a cost that is accounted "
    "for elsewhere.",
}

GRID_RULE = f"A score is rounded down to a fixed grid of {DEFAULT_CELLS:,} cells before anything is counted."


def diagnostic(kind: str) -> Any:
    """The module of ``spark_jobs.diagnostics`` that makes diagnostics of this kind."""
    return import_module(f"spark_jobs.diagnostics.{kind}")


def renderer(kind: str) -> Renderer:
    """What makes files and a report's section of a result of this kind."""
    render: Renderer = import_module(f"spark_jobs.diagnostics.{kind}.page").render
    return render


def assumptions(request: ReleaseRequest, *, charged: bool) -> tuple[str, ...]:
    """What the guarantee of a release for ``request`` rests on.

    What a charged request holds of earlier releases was compared with these before the charge; a draft's was not.
    """
    said = [_assumed_of(request.needed_model, charged=charged)] if request.uses_model else []
    said += [
        _assumed_of(statistic.model, charged=charged).replace("The model", "The second model", 1)
        for statistic in request.statistics
        if isinstance(statistic, OtherScoreCells)
    ]
    said += [
        f"What the values are held against is what release {options.compare_with.released_by} published, "
        f"{_checked(charged)}."
        for options in request.diagnostics
        if isinstance(options, EcdfOptions) and options.compare_with is not None
    ]
    if request.record is not None:
        said.append(f"The request calls a row of the table a “{request.record}”; nothing checks it.")
    said.append(f"The table is read as of {request.table.snapshot.describe()}, which is not written again.")
    return tuple(said)


def _assumed_of(model: Model, *, charged: bool) -> str:
    fitted_by = getattr(model, "fitted_by", None)
    if fitted_by is not None:
        return f"The model was fitted privately by release {fitted_by}, {_checked(charged)}."
    return ASSUMED_OF_MODEL[model.basis]


def _checked(charged: bool) -> str:
    if charged:
        return "which a ledger has committed and from which it was read before this one was charged"
    return "as the request says; nothing has checked it"


def draft(
    request: ReleaseRequest,
    draw: Draw,
    *,
    key: str | None,
    rules: tuple[str, ...],
) -> tuple[Release, dict[str, bytes]]:
    """The manifest and the files of the release that ``draw`` makes."""
    results = {
        kind: (diagnostic(kind).summarise(measurement, seed=draw.seed), renderer(kind))
        for kind, measurement in _measurements(request, draw).items()
    }
    facts = ReleaseFacts(
        request=request,
        key=key,
        charge_id=draw.charge_id,
        cost=draw.cost,
        rules=(*rules, *((GRID_RULE,) if ScoreCells() in request.statistics else ())),
        assumptions=assumptions(request, charged=draw.charge_id is not None),
        drawn_at=draw.drawn_at,
        versions=draw.versions,
        parts=draw.parts,
        account=draw.account,
    )
    return publish(results, facts=facts)


def _measurements(request: ReleaseRequest, draw: Draw) -> dict[str, Any]:
    """Each diagnostic's measurement: its own, or its reading of the one that it shares with others."""
    made = {kind: diagnostic(kind).Measurement.from_dict(fields) for kind, fields in draw.measurements.items()}
    if draw.shared is not None:
        shared = SharedGroups.from_dict(draw.shared["measurement"])
        sharing = set(draw.shared["kinds"])
        made |= {options.kind: read_as(options, shared) for options in request.diagnostics if options.kind in sharing}
    return made


def versions() -> dict[str, str]:
    """The programs whose versions decide what a draw and its draft look like."""
    names = ("airflow-provider-dp-diagnostics", "pyspark", "opendp", "numpy", "scipy", "matplotlib", "pyarrow")
    return {name: version(name) for name in names}
