"""Nothing of a table reaches a release but through noise: the noise of one table, played back on another.

Every kind of the registry runs with every method and option that is an enumeration or a flag, under both relations; a
kind without a table, or an option without a rule, fails here.
"""

from __future__ import annotations

from itertools import product
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
from pydantic import ValidationError

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import DIAGNOSTICS, GroupedScoreCells, PointCells, PointSums, ResidualCells
from spark_jobs.contract.options.base import ScoreCells
from spark_jobs.contract.options.comparisons import EarlierCurve, PairedScoreCells
from spark_jobs.contract.options.fits import CrossProductCells, LabelledRowCells
from spark_jobs.contract.options.values import ValueCells
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import roc_curve
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import (
    CrossProducts,
    GroupedScoreCounts,
    LabelledRows,
    Moments,
    PairedScoreCounts,
    PointCounts,
    ResidualCounts,
    ScoreCounts,
    ValueCounts,
)
from tests.support.audit import LONG
from tests.support.replay import RecordingNoise, released_outputs, replay
from tests.support.sharing import measure_shared, read_as

pytestmark = [pytest.mark.audit]

OTHER_MODEL = {"kind": "columns", "basis": "public", "score": "other"}
EARLIER = EarlierCurve.of(
    roc_curve.release(ScoreCounts.from_arrays([0, 1] * 99, [0.2, 0.7] * 99), epsilon=1, noise=SeededNoise(1)).to_dict(),
    released_by="earlier",
)
REFERENCE = {"distribution": "normal", "parameters": (5, 2)}
VALUES = {"column": "amount", "bounds": (0.0, 10.0), "cells": 1024}
ECDF = {**VALUES, "points": 16}
LINE = {"x": "x", "y": "y", "x_bounds": (0.0, 1.0), "y_bounds": (0.0, 1.0), "cells": 64, "matchings": 3}
BASE: dict[str, list[dict]] = {
    "roc_curve": [{}, {"thresholds": 8}],
    "roc_comparison": [{"other": OTHER_MODEL}, {"compare_with": EARLIER}],
    "auc": [{}],
    "average_precision": [{}],
    "binormal_roc": [{}],
    "confusion_matrix": [{}, {"thresholds": (0.25, 0.5, 0.75)}],
    "ranking_figures": [{"points": 5, "depths": (0.1, 0.5)}],
    "recalibration": [{"clip": 0.01}],
    "by_group": [{"group_by": "site", "groups": ["a", "b"], "kinds": ["roc_curve", "calibration"]}],
    "binned_residuals": [{"bins": 4}],
    "calibration": [{"bins": 4}],
    "ecdf": [{}, ECDF, {**ECDF, "bounds": None}, {**ECDF, "reference": REFERENCE}],
    "quantile": [{}, VALUES, {**VALUES, "bounds": None}],
    "cdf_points": [{}, {**VALUES, "thresholds": (2.0, 7.0), "more_evaluations": 3}],
    "residual_plot": [{"outcome": "paid"}, {"outcome": "paid", "bins": 8}],
    "linear_regression": [LINE, {**LINE, "group_by": "site", "groups": ["a", "b"]}],
    "linear_fit": [
        {"features": {"a": (0.0, 1.0)}, "categorical": {"c": ["u", "v"]}, "outcome": "y", "outcome_bounds": (0.0, 1.0)}
    ],
    "logistic_fit": [{"features": {"a": (0.0, 1.0)}, "categorical": {"c": ["u", "v"]}}],
}
"""What a kind needs beside its enumerations and flags; several where a choice is no enumeration."""
LEFT_OUT = {"kind", "share", "cells"}
"""The kind; a choice of the application; how fine a public grid is."""
DELTA = "1e-6"


def choices(kind):
    """All values of each enumeration and flag among the options of a kind."""
    found = {}
    for name, field in DIAGNOSTICS[kind].model_fields.items():
        if name in LEFT_OUT:
            continue
        parts = [field.annotation, *get_args(field.annotation)]
        values = [value for part in parts if get_origin(part) is Literal for value in get_args(part)]
        if values:
            found[name] = [*values, *([None] if type(None) in parts else [])]
        elif field.annotation is bool:
            found[name] = [True, False]
    return found


def cases():
    """Every kind with every allowed combination of its choices; after the first of each method, for ``make verify``."""
    seen = set()
    for kind in DIAGNOSTICS:
        names, values = list(choices(kind)), list(choices(kind).values())
        for number, base in enumerate(BASE.get(kind, ({},))):
            for chosen in product(*values):
                picked = dict(zip(names, chosen, strict=True))
                try:
                    options = DIAGNOSTICS[kind].model_validate({"kind": kind, **base, **picked})
                except (InvalidRequest, ValidationError):
                    continue
                text = "-".join([kind, str(number), *(f"{name}={value}" for name, value in picked.items())])
                method = (kind, number, picked.get("method"))
                yield pytest.param(options, id=text, marks=[pytest.mark.verify] if method in seen else [])
                seen.add(method)


def statistic_of(cells, seed, *, sizes):
    """Random rows, counted; with ``sizes`` given, so many in each group and every one of them usable."""
    random = np.random.default_rng(seed)
    rows = (300, 7)[seed] if sizes is None else sum(sizes)
    skew = (1.0, 4.0)[seed]
    if isinstance(cells, PairedScoreCells):
        labels = random.random(rows) < (0.3, 0.9)[seed]
        scores = (random.normal(0.4 + labels / skew / 3, width) for width in (0.2, 0.3))
        return PairedScoreCounts.from_arrays(labels, *scores)
    if isinstance(cells, GroupedScoreCells):
        labels, groups = random.random(rows) < (0.3, 0.9)[seed], random.choice(["a", "b", "c"], rows)
        scores = random.normal(0.4 + labels / skew / 3, 0.2)
        return GroupedScoreCounts.from_arrays(labels, scores, groups, keys=cells.groups, cells=4096)
    if isinstance(cells, ScoreCells):
        labels = random.random(rows) < (0.3, 0.9)[seed]
        return ScoreCounts.from_arrays(labels, random.normal(0.4 + labels / skew / 3, 0.2), cells=4096)
    if isinstance(cells, ValueCells):
        of = {name: getattr(cells, name) for name in ("lower", "upper", "cells", "scale", "unit")}
        return ValueCounts.from_arrays(random.lognormal(0, skew, rows), **of)
    if isinstance(cells, ResidualCells):
        return ResidualCounts.from_arrays(
            random.normal(0, 100 * skew, rows), random.normal(5, skew, rows), unit=cells.unit
        )
    if isinstance(cells, (PointCells, PointSums)):
        keys = cells.groups
        groups = None if keys is None else np.repeat(np.array(keys), sizes or (rows // len(keys)))
        x = random.random(rows if groups is None else groups.size) ** skew
        counted = PointCounts if isinstance(cells, PointCells) else Moments
        return counted.from_arrays(x, 0.5 * x + random.random(x.size) / 2, groups=groups, keys=keys, cells=cells.cells)
    if isinstance(cells, (CrossProductCells, LabelledRowCells)):
        outcome = random.random(rows) if isinstance(cells, CrossProductCells) else random.integers(0, 2, rows)
        columns = {feature.name: random.random(rows) ** skew for feature in cells.features}
        columns |= {each.column: random.choice(each.levels, rows) for each in cells.categorical}
        rows = CrossProducts if isinstance(cells, CrossProductCells) else LabelledRows
        return rows.from_arrays(columns, outcome, design=cells)
    raise TypeError(f"{type(cells).__name__}: say how its tables are made")


def tables(options, relation):
    """Two tables that have nothing in common but what is public."""
    public = options.sizes_are_public(relation)
    groups = len(getattr(options, "groups", None) or ("all",))
    found = []
    for seed in (0, 1):
        parts = [statistic_of(c, seed, sizes=(30,) * groups if public else None) for c in options.statistics]
        found.append(parts[0] if len(parts) == 1 else tuple(parts))
    return found


def release(options, relation, epsilon, *, summarised):
    """A function of a statistic and noise: the measurement, what is kept of it, and its summary."""
    kind = diagnostic(options.kind)
    delta = DELTA if options.accepts_delta else 0

    def run(statistic, noise):
        terms = Terms(epsilon=epsilon, delta=delta, neighbours=relation, noise=noise)
        measured = kind.measurement.measure(statistic, options, terms)
        return [measured, measured.to_dict(), kind.summarise(measured, seed=5) if summarised else None]

    return run


def replay_release(options, relation, epsilon, *, summarised):
    """Replay a release, or see that it is refused before any noise, whatever the table; the calls that were made."""
    one, other = tables(options, relation)
    run = release(options, relation, epsilon, summarised=summarised)
    try:
        calls = replay(run, one, other, source=SeededNoise(3))
    except InvalidRequest:
        recording = RecordingNoise(SeededNoise(3))
        for table in (one, other):
            with released_outputs(recording), pytest.raises(InvalidRequest):
                run(table, recording)
        assert recording.calls == []
        return None
    assert calls, "nothing was drawn"
    return calls


EVERY = list(cases())
FIRST = list({"-".join(case.id.split("-")[:2]): case for case in reversed(EVERY)}.values())
"""One case of each kind and each base."""
BOTH = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])


def test_every_kind_has_a_table():
    ran = {tuple(case.id.split("-")[:2]) for case in EVERY}
    assert ran == {(kind, str(number)) for kind in DIAGNOSTICS for number in range(len(BASE[kind]))}


@pytest.mark.sampled("options", "relation")
@BOTH
@pytest.mark.parametrize("options", EVERY)
def test_the_noise_of_one_table_makes_the_same_measurement_of_another(options, relation):
    calls = replay_release(options, relation, "1", summarised=False)
    # only a sum of lines' medians needs sizes that are public, which a relation or an option may not grant
    assert calls is not None or "theil_sen" in options.method


@pytest.mark.sampled
@BOTH
@pytest.mark.parametrize("options", FIRST)
def test_the_noise_of_one_table_makes_the_same_summary_of_another(options, relation):
    assert replay_release(options, relation, "1", summarised=True) is not None


@pytest.mark.verify
@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("options", EVERY if LONG else FIRST)
@pytest.mark.parametrize("epsilon", ["0.01", "100"])
def test_so_it_is_with_little_and_with_much_budget(options, relation, epsilon):
    replay_release(options, relation, epsilon, summarised=LONG)


@BOTH
def test_the_noise_of_a_shared_release_makes_the_same_of_another_table(relation):
    readers = [options.model_validate({"kind": kind, **BASE[kind][-1]}) for kind, options in DIAGNOSTICS.items()]
    sharing = [options for options in readers if options.can_share]
    assert len(sharing) == 10

    def run(statistic, noise):
        shared = measure_shared(statistic, diagnostics=sharing, epsilon="1", neighbours=relation, noise=noise)
        read = [diagnostic(options.kind).summarise(read_as(options, shared), seed=5) for options in sharing]
        return [shared, shared.to_dict(), read]

    assert replay(run, *(statistic_of(ScoreCells(), seed, sizes=None) for seed in (0, 1)), source=SeededNoise(4))
