"""Noise left out: the fault that no audit by sampling sees, planted in every kind, and seen by the replay."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.options.base import ScoreCells
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import _score_cells
from spark_jobs.diagnostics._score_figures import measurement as figures
from spark_jobs.diagnostics._score_figures import weighted
from spark_jobs.diagnostics.ecdf import private_bounds
from spark_jobs.diagnostics.linear_regression import noisy_lines
from spark_jobs.diagnostics.roc_curve import measurement as roc
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.audit.test_replay import BOTH, EXAMPLES, FIRST, release, statistic_of, tables
from tests.support.audit import convicts, keeps
from tests.support.replay import Leaked, NoiseLeftOut, RecordingNoise, released_outputs, replay, replayed_loss

pytestmark = [pytest.mark.audit]

FAULT = "noise left out"
TRIED = 4
"""Vectors of a release that are passed as they are, one after the other, evenly among all of them."""
ADDED = Neighbours.ADD_REMOVE
OF_COINS = {"rows_per_unit"}
"""Kinds without a vector of noise: their choice is made by coins, which ``test_row_choice_audit`` leaves out."""


def vectors(run, pair):
    """Which vectors of a release are not the same of both tables: only those can be seen without their noise."""
    found = []
    for table in pair:
        recording = RecordingNoise(SeededNoise(3))
        with released_outputs(recording):
            seen = NoiseLeftOut(recording, -1)
            run(table, seen)
            found.append(seen.exact)
    both = zip(*found, strict=False)
    differing = [i for i, (one, other) in enumerate(both) if one.shape != other.shape or (one != other).any()]
    assert differing, "no vector differs"
    return [differing[i] for i in np.unique(np.linspace(0, len(differing) - 1, TRIED).astype(int))]


@pytest.mark.sampled
@pytest.mark.halved
@BOTH
@pytest.mark.parametrize("options", [case for case in FIRST if case.values[0].kind not in OF_COINS])
def test_a_vector_without_its_noise_is_seen_in_every_kind(options, relation):
    pair, run = tables(options, relation), release(options, relation, "1", summarised=False)
    name = options.kind.replace("_", " ")
    assert keeps(replayed_loss(run, *pair, source=SeededNoise(3)), name, relation=relation, claimed=1)
    for at in vectors(run, pair):

        def faulty(table, noise, at=at):
            return run(table, NoiseLeftOut(noise, at))

        found = replayed_loss(faulty, *pair, source=SeededNoise(3))
        assert convicts(found, name, relation=relation, claimed=1, fault=FAULT), at


def leaks(kind, **options):
    """Whether a replay of this kind is seen to leak."""
    chosen = DIAGNOSTICS[kind].model_validate({"kind": kind, **EXAMPLES[kind][0], **options})
    pair, run = tables(chosen, ADDED), release(chosen, ADDED, "1", summarised=False)
    try:
        replay(run, *pair, source=SeededNoise(3))
    except Leaked:
        return True
    return False


def exact_sizes(statistic, *, meter, terms):
    honest = figures_sizes(statistic, meter=meter, terms=terms)
    return int(statistic.negatives.sum()), honest[1]


figures_sizes = figures._sizes


def exact_signal(counts, *, meter, neighbours, noise, **options):
    looks, _ = roc_looks(counts, meter=meter, neighbours=neighbours, noise=noise, **options)
    return looks, float(counts.sum()) * float(meter.granted.epsilon)


roc_looks = roc.locate_scores


def exact_threshold(parts, rows, label, **terms):
    return ecdf_crossing(parts, int(parts.sum()), label, **terms)


ecdf_crossing = private_bounds._crossing


def exact_total(counts, weights, *, epsilon, neighbours, noise):
    honest = weighted_sum(counts, weights, epsilon=epsilon, neighbours=neighbours, noise=noise)
    return replace(honest, total=int((counts * 1).sum()))


weighted_sum = weighted.weighted_sum


def exact_rows(sums, **options):
    return replace(noisy_moments(sums, **options), rows=sums.rows.astype(np.float64))


noisy_moments = noisy_lines._BY_EPSILON["noisy_moments"]


@pytest.mark.parametrize(
    ("room", "name", "fault", "kind", "options"),
    [
        (figures, "_sizes", exact_sizes, "auc", {"method": "polynomial"}),
        (figures, "_sizes", exact_sizes, "auc", {"method": "auto"}),
        (figures, "_sizes", exact_sizes, "average_precision", {"method": "cauchy"}),
        (roc, "locate_scores", exact_signal, "roc_curve", {}),
        (private_bounds, "_crossing", exact_threshold, "ecdf", {"column": "amount", "bounds": None}),
        (weighted, "weighted_sum", exact_total, "average_precision", {"method": "weighted_counts"}),
    ],
    ids=[
        "class sizes of an AUC",
        "choice for an AUC",
        "class sizes of an AP",
        "signal for cells",
        "thresholds of an ECDF",
        "weighted sum",
    ],
)
def test_an_exact_value_in_the_place_of_a_noisy_one_is_seen(monkeypatch, room, name, fault, kind, options):
    assert not leaks(kind, **options)
    monkeypatch.setattr(room, name, fault)
    assert leaks(kind, **options)


def test_an_exact_number_of_rows_of_a_line_is_seen(monkeypatch):
    assert not leaks("linear_regression", method="noisy_moments")
    monkeypatch.setitem(noisy_lines._BY_EPSILON, "noisy_moments", exact_rows)
    assert leaks("linear_regression", method="noisy_moments")


def test_an_exact_share_of_the_rarer_class_is_seen(monkeypatch):
    options, pair = DIAGNOSTICS["roc_curve"].model_validate({"kind": "roc_curve", **EXAMPLES["roc_curve"][0]}), []
    for positives in (200, 800):
        labels = np.arange(4_000) < positives
        pair.append(ScoreCounts.from_arrays(labels, np.random.default_rng(positives).beta(2 + labels, 3)))
    run = release(options, ADDED, "100", summarised=False)  # 400,000 rows times epsilon
    replay(run, *pair, source=SeededNoise(3))

    def faulty(statistic, noise):
        share = statistic.positives.sum() / 4_000
        monkeypatch.setattr(_score_cells, "_rarer_share", lambda located: share)
        return run(statistic, noise)

    with pytest.raises(Leaked):
        replay(faulty, *pair, source=SeededNoise(3))


def test_an_exact_number_of_rows_that_asks_for_a_second_histogram_is_seen(monkeypatch):
    options, pair = DIAGNOSTICS["roc_curve"].model_validate({"kind": "roc_curve", **EXAMPLES["roc_curve"][0]}), []
    for rows in (900, 1_100):
        labels = np.arange(rows) % 4 == 0
        pair.append(ScoreCounts.from_arrays(labels, np.random.default_rng(rows).beta(2 + labels, 3)))
    run = release(options, ADDED, "1", summarised=False)
    replay(run, *pair, source=SeededNoise(3))

    def faulty(statistic, noise):
        exact = statistic.negatives.sum() + statistic.positives.sum()
        monkeypatch.setattr(_score_cells, "REFINING_SIGNAL", 0 if exact >= 1_000 else 1e9)
        return run(statistic, noise)

    with pytest.raises(Leaked):
        replay(faulty, *pair, source=SeededNoise(3))


def test_one_call_more_is_seen():
    pair = [statistic_of(ScoreCells(), seed, sizes=None) for seed in (0, 1)]

    def run(statistic, noise):
        rows = int(statistic.positives.sum())
        asked = 2 if rows > 20 else 1
        return [noise.laplace(np.array([rows]), epsilon=Decimal(1), l1_sensitivity=1) for _ in range(asked)]

    with pytest.raises(Leaked, match="fewer than"):
        replay(run, *pair, source=SeededNoise(1))
    with pytest.raises(Leaked, match="one more"):
        replay(run, *pair[::-1], source=SeededNoise(1))


@pytest.mark.parametrize("what", ["epsilon", "l1_sensitivity", "size"])
def test_a_scale_or_a_size_that_depends_on_the_table_is_seen(what):
    pair = [statistic_of(ScoreCells(), seed, sizes=None) for seed in (0, 1)]

    def run(statistic, noise):
        rows = int(statistic.positives.sum())
        cost = Decimal(1) / (1 + rows) if what == "epsilon" else Decimal(1)
        values = np.zeros(rows if what == "size" else 1, dtype=np.int64)
        noise.laplace(values, epsilon=cost, l1_sensitivity=1 + rows if what == "l1_sensitivity" else 1)

    with pytest.raises(Leaked, match="on the other table"):
        replay(run, *pair, source=SeededNoise(1))
