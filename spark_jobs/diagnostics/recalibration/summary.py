"""The summary of a draw as a released recalibration; deterministic post-processing.

Intervals come from simulated copies of possible exact counts, from a public seed: the noisy counts, as drawn, less
fresh noise. The estimator of the released figures is applied to each copy. The noisy sums leave open where scores lie
inside their groups and which of them are positive, so each copy draws this, too (``inside_groups``). Copies for the
population also draw the Poisson sampling of the rows. The noisy counts are unbiased and the estimator's equations are
linear in them, so that ``solved_interval`` applies. There are copies for each form that scores may have inside groups;
an interval contains the intervals of all forms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import DECIMALS, Ends, Figure
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.contract.results.score_figures import Recalibration
from spark_jobs.diagnostics._populations import privacy_share
from spark_jobs.diagnostics._simulation import normal, rounded, solved_interval
from spark_jobs.diagnostics.recalibration.estimate import Estimates, estimate
from spark_jobs.diagnostics.recalibration.inside_groups import FORMS, Means
from spark_jobs.diagnostics.recalibration.measurement import RecalibrationDraw
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.mechanisms.noise import SeededNoise

BATCHES, COPIES_OF_BATCH = 20, 20
"""Copies for each form: of where scores lie inside their groups, and of the counts for each of these."""
POINTS = 41


def summarise(draw: RecalibrationDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> Recalibration:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind intervals.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    sizes = draw.class_sizes
    if sizes is None:
        raise ValueError("the draw of a recalibration has no class sizes")
    defined = sizes.are_known
    scores = rounded(expit(np.linspace(logit(draw.clip), -logit(draw.clip), POINTS)))
    return Recalibration(
        **(_figures(draw, scores, seed, sampling.effect().value) if defined else _placeholders(scores)),
        score=scores,
        clip=draw.clip,
        confidence=draw.confidence,
        status=OK if defined else UNDEFINED,
        positives=sizes.shown["positives"],
        negatives=sizes.shown["negatives"],
        **draw.stated,
    )


def _figures(draw: RecalibrationDraw, scores: FloatArray, seed: int, effect: float) -> dict[str, Any]:
    means, counts = Means.of(draw.groups), np.stack([draw.groups.positives, draw.groups.negatives]).astype(np.float64)
    released = estimate(counts[0][None], counts[1][None], means.estimated(), draw.clip)
    noise, population = _copies(draw, means, counts, SeededNoise(seed), effect)
    fields: dict[str, Any] = {}
    for name in ("brier", "log_loss", "slope", "intercept"):
        value = getattr(released, name)
        ends = [_ends(value[0], [getattr(one, name) for one in of], draw.confidence) for of in (noise, population)]
        fields[name] = Figure(
            value=round(float(value[0]), DECIMALS),
            interval=Ends(*(float(rounded(end)) for end in ends[0])),
            population=Ends(*(float(rounded(end)) for end in ends[1])),
            privacy_share=float(rounded(privacy_share(*ends))),
        )
    mapped = released.mapped(scores)[0]
    of_noise, of_both = (
        Ends(*map(rounded, _ends(mapped, [one.mapped(scores) for one in of], draw.confidence)))
        for of in (noise, population)
    )
    fields["recalibrated"] = Figure(value=rounded(mapped), interval=of_noise, population=of_both)
    return {
        **fields,
        "map": {"intercept": fields["intercept"].value, "slope": fields["slope"].value, "clip": draw.clip},
    }


def _ends(value: FloatArray, copies: list[FloatArray], confidence: float) -> tuple[FloatArray, FloatArray]:
    """Ends of the interval that holds those of each form."""
    lows, highs = zip(*(solved_interval(value, of_form, confidence) for of_form in copies), strict=True)
    return np.minimum.reduce(lows), np.maximum.reduce(highs)


def _copies(
    draw: RecalibrationDraw, means: Means, counts: FloatArray, source: SeededNoise, effect: float
) -> tuple[list[Estimates], list[Estimates]]:
    """The figures of copies of the exact counts, and of copies of the population, of each form."""
    errors = draw.groups.errors(BATCHES * COPIES_OF_BATCH, source)[:, :2]
    exact = counts - errors
    sampled = exact + np.sqrt(effect * np.maximum(counts, 0.0)) * normal(source, exact.shape)
    by_form: tuple[list[Estimates], list[Estimates]] = ([], [])
    for form in FORMS:
        parts: tuple[list[Estimates], list[Estimates]] = ([], [])
        for batch in np.split(np.arange(len(exact)), BATCHES):
            inside = means.drawn(source, form)
            for part, copies in zip(parts, (exact, sampled), strict=True):
                positives, negatives = copies[batch, 0], copies[batch, 1]
                beyond = inside.beyond(positives, negatives, source)
                part.append(estimate(positives, negatives, inside, draw.clip, beyond))
        for one, part in zip(by_form, parts, strict=True):
            one.append(Estimates.joined(part))
    return by_form


def _placeholders(scores: FloatArray) -> dict[str, Any]:
    """What the result withholds."""
    nothing: dict[str, Any] = dict.fromkeys(("brier", "log_loss", "slope", "intercept"), Figure(value=None))
    ends = Ends(scores, scores)
    return {**nothing, "map": None, "recalibrated": Figure(value=scores, interval=ends, population=ends)}
