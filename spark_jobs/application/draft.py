"""From a draw to a draft: deterministic, so that every attempt produces the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from spark_jobs.application.draw import ReleaseDraw
from spark_jobs.application.memory import trim
from spark_jobs.application.unit_variance import UnitDraw, about_populations, of_enough_units, sampling_of
from spark_jobs.contract.left_out import LeftOut, noise_scale
from spark_jobs.contract.options import (
    ScoreCells,
)
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.class_sizes import ClassSizes, restated
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.diagnostics.roc_area import with_one_area
from spark_jobs.embedded.installed import PACKAGE, installed_pyspark
from spark_jobs.mechanisms import codec
from spark_jobs.publishing import publish
from spark_jobs.wording.assumptions import assumptions
from spark_jobs.wording.facts import ReleaseFacts
from spark_jobs.wording.rules import GRID_RULES


def draft(
    request: ReleaseRequest,
    draw: ReleaseDraw,
    *,
    key: str | None,
    rules: tuple[str, ...],
) -> tuple[Release, dict[str, bytes]]:
    """The manifest and the files of the release of ``draw``."""
    results, sizes = results_of(request, draw)
    units = units_of(draw)
    trim()
    of_grid = (rule for kind, rule in GRID_RULES[draw.rounding].items() if kind in map(type, request.statistics))
    facts = ReleaseFacts(
        request=request,
        key=key,
        charge_id=draw.charge_id,
        cost=draw.cost,
        rules=tuple(dict.fromkeys((*rules, *of_grid))),
        assumptions=(*assumptions(request, charged=draw.charge_id is not None), *about_populations(request, units)),
        drawn_at=draw.drawn_at,
        versions=draw.versions,
        rounding=draw.rounding,
        parts=draw.parts,
        class_sizes=None if sizes is None else sizes.published(),
        account=draw.account,
        left_out=left_out_of(request, draw),
    )
    return publish({kind: (result, diagnostic(kind).render) for kind, result in results.items()}, facts=facts)


def left_out_of(request: ReleaseRequest, draw: ReleaseDraw) -> LeftOut | None:
    """The noisy numbers of rows that did not count; None for a draw of a version that did not measure them."""
    if draw.left_out is None:
        return None
    by_unit = request.unit.column is not None
    noisy = {cause: count for cause, count in draw.left_out["counts"].items() if by_unit or cause != "no_unit"}
    scale = noise_scale(float(draw.left_out["epsilon"]), request.neighbours)
    return LeftOut.of_counts(noisy, scale=scale, max_rows=request.rows_of_unit, by_unit=by_unit)


def results_of(request: ReleaseRequest, draw: ReleaseDraw) -> tuple[dict[str, Any], ClassSizes | None]:
    """The result of each diagnostic, and the class sizes that the diagnostics of scores state.

    All diagnostics of the same scores state the same class sizes and the same AUC. A comparison of two models is an
    exception: it states the sizes of the classes among the rows that have both scores. But if its first curve is read
    from the shared measurement, it counts the same rows as the other diagnostics, and states the same sizes and AUC.
    """
    by_kind = draws(request, draw.measurements, draw.shared)
    read = () if draw.shared is None else tuple(draw.shared["kinds"])
    # a shared measurement counts once, through any of the kinds that are read from it
    sizes = ClassSizes.combined(one.class_sizes for kind, one in by_kind.items() if kind not in read[1:])
    units = units_of(draw)
    results = {
        kind: of_enough_units(diagnostic(kind).summarised(drawn, seed=draw.seed, sampling=sampling), sampling)
        for kind, drawn in by_kind.items()
        for sampling in [sampling_of(kind, request, units)]
    }
    of_scores = {options.kind for options in request.diagnostics if options.statistics == (ScoreCells(),)}
    alike = of_scores.union(read, {"by_group"} & results.keys())
    stated = {kind: restated(result, sizes) if kind in alike else result for kind, result in results.items()}
    return {**stated, **with_one_area({kind: stated[kind] for kind in stated if kind in alike}, sharing=read)}, sizes


def units_of(draw: ReleaseDraw) -> UnitDraw | None:
    """The noisy sums for the variance of figures between units; None if they were not drawn."""
    return None if draw.units is None else codec.decode(UnitDraw, draw.units)


def draws(request: ReleaseRequest, measurements: Mapping[str, Any], shared: Mapping[str, Any] | None) -> dict[str, Any]:
    """The draw of each diagnostic: its own, or one derived from the draw that it shares with others.

    Args:
        request: the request.
        measurements: noisy statistics of each diagnostic that has its own, by its kind (``ReleaseDraw``).
        shared: the noisy statistics that several diagnostics share, with the kinds of these.
    """
    by_kind = {kind: diagnostic(kind).measurement.decode(fields) for kind, fields in measurements.items()}
    if shared is not None:
        groups = codec.decode(SharedGroups, shared["measurement"])
        for options in request.diagnostics:
            read_shared = diagnostic(options.kind).read_shared
            if options.can_share and options.kind in shared["kinds"] and read_shared is not None:
                by_kind[options.kind] = read_shared(options, groups)
    return by_kind


def versions(*, embedded: bool = False) -> dict[str, str]:
    """The versions of the programs that a draw and its draft depend on; with ``embedded``, also of that engine."""
    names = ("dp-diagnostics", installed_pyspark()[0], "opendp", "numpy", "scipy", "matplotlib", "pyarrow")
    return {name: version(name) for name in (*names, *((PACKAGE,) if embedded else ()))}
