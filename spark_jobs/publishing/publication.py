"""From released results to the files of a release: a pure function.

The same results and facts give the same bytes in every process: nothing depends on the clock, on randomness or on
settings of the machine or its user. Any attempt at a release can therefore recreate its files from the draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_jobs.contract.published import Result
from spark_jobs.contract.release import Release, ReleaseFile
from spark_jobs.publishing import data_files, figures, legends, report, stamp
from spark_jobs.publishing.inline import inline_svg
from spark_jobs.publishing.rendering import Column, InColumns, Legend, Multiples, Plot, Released, Rendering
from spark_jobs.wording import statement as guarantees
from spark_jobs.wording.facts import ReleaseFacts

SVG, PNG = "image/svg+xml", "image/png"

_SAMPLED = 1000
"""About so many rows say how long the text of all of them is."""


def publish(results: Mapping[str, Released], *, facts: ReleaseFacts) -> tuple[Release, dict[str, bytes]]:
    """The manifest of a release and the bytes of its other files, by name.

    Args:
        results: for the kind of each requested diagnostic, the released result and the renderer.
        facts: the public facts that the release states beside its values.

    Returns:
        The manifest, whose ``files`` list name, media type, size and hash of every file; and those files, by name:
        for each diagnostic its data files and plots (SVG and PNG), and ``report.html``.

    Raises:
        ValueError: results and request differ in their diagnostics or neighbours.
    """
    ordered = _as_requested(results, facts)
    guarantee = stamp.guarantee(result for result, _ in results.values())
    marks = stamp.marks(guarantee, facts.status)
    paragraphs = guarantees.privacy_statement(facts, guarantee)
    formal = guarantees.formal_guarantee(facts, guarantee)
    renderings = {kind: render(result, facts.request) for kind, (result, render) in ordered.items()}
    files: dict[str, bytes] = {}
    entries: list[ReleaseFile] = []

    def add(name: str, content: bytes, media_type: str) -> None:
        files[name] = content
        entries.append(ReleaseFile.of(name, content, media_type))

    with figures.fixed_settings():
        parts = []
        for kind, rendering in renderings.items():
            metadata = {"guarantee": guarantee, "status": facts.status, "cost": formal, "release": facts.key or ""}
            for name, table in _tables(kind, rendering).items():
                add(f"{name}.parquet", data_files.parquet_bytes(table, metadata=metadata), data_files.MEDIA_TYPE)
            for plot in rendering.plots:
                add(f"{plot.name}.svg", _picture(plot, marks, SVG), SVG)
                add(f"{plot.name}.png", _picture(plot, marks, PNG), PNG)
            parts.append(report_part(kind, rendering, marks))

    page = report.report_html(
        facts,
        guarantee=guarantee,
        formal=formal,
        statement=paragraphs,
        marks=marks,
        parts=parts,
        files=tuple(entries),
    )
    add(report.NAME, page, report.MEDIA_TYPE)
    release = Release(
        key=facts.key,
        charge_id=facts.charge_id,
        status=facts.status,
        guarantee=guarantee,
        request_sha256=facts.request.sha256,
        request=facts.request.to_dict(),
        cost=facts.cost,
        neighbours=facts.request.neighbours,
        unit=facts.request.unit,
        statement=guarantees.plain_text(paragraphs),
        rules=facts.rules,
        assumptions=facts.assumptions,
        **{name: getattr(facts, name) for name in ("drawn_at", "rounding", "parts", "class_sizes", "left_out")},
        results={kind: _values(result) for kind, (result, _) in ordered.items()},
        files=tuple(entries),
        versions=dict(facts.versions),
    )
    return release, files


def _as_requested(results: Mapping[str, Released], facts: ReleaseFacts) -> dict[str, Released]:
    """The results in the order of the request."""
    kinds = tuple(options.kind for options in facts.request.diagnostics)
    if set(results) != set(kinds):
        raise ValueError(f"results: must be those of the request: {', '.join(kinds)}")
    for kind in kinds:
        if results[kind][0].neighbours != facts.request.neighbours:
            raise ValueError(f"results: {kind} was released under other neighbours than the request's")
    return {kind: results[kind] for kind in kinds}


def _values(result: Result) -> dict[str, Any]:
    return result.to_columns() if isinstance(result, InColumns) else result.to_dict()


def _picture(plot: Plot, marks: tuple[stamp.Mark, ...], media_type: str) -> bytes:
    figure = plot.draw(True)
    stamp.stamp_figure(figure, marks)
    if media_type == PNG:
        return figures.png_bytes(figure, description=plot.description)
    return figures.svg_bytes(figure, title=plot.title, description=plot.description)


def report_part(kind: str, rendering: Rendering, marks: tuple[stamp.Mark, ...]) -> report.ReportPart:
    """A section of the report with its drawn plots; within ``figures.fixed_settings``."""
    return report.ReportPart(
        kind=kind,
        section=rendering.section,
        plots=tuple(_pictured(plot, rendering.section.legend, marks) for plot in rendering.plots),
        multiples=tuple(map(_small, rendering.multiples)),
        data=tuple(_enclosed(name, table, marks) for name, table in _tables(kind, rendering).items()),
    )


def _small(group: Multiples) -> report.SmallPlots:
    plots = tuple(
        (caption, scale, *_pictured(replace(plot, legend=None), group.legend, ()))
        for caption, scale, plot in group.plots
    )
    named = [
        label for key, label in group.legend if any((key, label) in (plot.legend or ()) for _, _, plot, _ in plots)
    ]
    drawn = f"Drawn: {', '.join(named)}." if named else ""
    note = " ".join(part for part in (drawn, group.note) if part)
    return report.SmallPlots(heading=group.heading, note=note, plots=plots, wide=group.wide)


def _enclosed(name: str, table: Mapping[str, Column], marks: tuple[stamp.Mark, ...]) -> report.Enclosed:
    rows = max((column.values.shape[0] for column in table.values()), default=0)
    sampled = max(1, rows // _SAMPLED)  # the text of a large table would be several times as large as the table
    content = _every(table, sampled)
    every = -(-sampled * len(content) // report.MAX_ENCLOSED)
    if every > 1 or sampled > 1:
        content = _every(table, every)
    return report.Enclosed(name=name, content=content, every=every, stamped=any(mark.across for mark in marks))


def _tables(kind: str, rendering: Rendering) -> dict[str, Mapping[str, Column]]:
    """The data files of a result, by name; a section of a stream's report has none."""
    return {name: table for name, table in {kind: rendering.columns, **rendering.tables}.items() if table}


def _pictured(plot: Plot, legend: Legend, marks: tuple[stamp.Mark, ...]) -> tuple[Plot, str]:
    """A plot whose legend names what is drawn, ``legend`` if it has none of its own; and its inline SVG."""
    figure = plot.draw(False)
    stamp.stamp_figure(figure, tuple(mark for mark in marks if mark.across))
    svg = figures.svg_bytes(figure, title=plot.title, description=plot.description)
    named = legends.drawn(legend if plot.legend is None else plot.legend, svg)
    return replace(plot, legend=named), inline_svg(svg, plot)


def _every(table: Mapping[str, Column], step: int) -> bytes:
    """Every so many rows as CSV, from the first on."""
    return data_files.csv_bytes({of: replace(column, values=column.values[::step]) for of, column in table.items()})
