"""The variance of headline figures between units: drawn after all figures, used for their populations' intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.application.unit_passes import UnitSquares
from spark_jobs.contract.budget_split import BudgetPart
from spark_jobs.contract.options import Statistic
from spark_jobs.contract.privacy import UNIT_STEPS
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.diagnostic import Draw, diagnostic
from spark_jobs.diagnostics.sampling import Sampling
from spark_jobs.mechanisms.meter import Spending
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.unit_squares import design_effect, noisy_squares, stddev_of
from spark_jobs.statistics.unit_squares import whole_weights


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitDraw(Draw):
    """For some figures, the noisy sum over units of the square of a unit's influence on the figure.

    Attributes:
        figures: the kind and the name of each figure.
        max_rows: the most rows of a unit; the spendings are stated for one row.
        squares: the noisy sum of each figure, in whole numbers of 1 / ``UNIT_STEPS``.
        largest: for each figure, the largest influence of a row.
        rows_squares: for each figure, the sum over rows of squared influences, from released counts.
    """

    figures: tuple[tuple[str, str], ...]
    max_rows: int
    squares: tuple[int, ...]
    largest: tuple[float, ...]
    rows_squares: tuple[float, ...]


def measure_units(
    request: ReleaseRequest, part: BudgetPart, draws: Mapping[str, Any], squares: UnitSquares | None, noise: Noise
) -> UnitDraw:
    """Draw the noisy sums of units' squares; ``epsilon``-DP for a unit added, removed or replaced.

    Args:
        request: the request, which names the figures.
        part: the part of the budget that is spent.
        draws: the draw of each kind; influences are computed from these alone.
        squares: sums the squares over the rows that were counted for the draws.
        noise: sampler of the mechanism's noise.

    Raises:
        ValueError: ``squares`` is missing.
    """
    if squares is None:
        raise ValueError("squares: a request that pays for units' squares needs the rows again")
    per_row = part.epsilon_per_row
    functions = {kind: diagnostic(kind).influences for kind, _ in request.unit_figures}
    of_kinds = {kind: function(draws[kind]) for kind, function in functions.items() if function is not None}
    influences = {(kind, name): of_kinds[kind][name] for kind, name in request.unit_figures}
    exact = np.zeros(len(influences), dtype=np.int64)
    for statistic, places in _by_statistic(request).items():
        of_statistic = [influences[request.unit_figures[place]] for place in places]
        weights = whole_weights([one.of_cells for one in of_statistic], [one.largest for one in of_statistic])
        exact[places] = squares(statistic, weights)
    noisy = noisy_squares(exact, epsilon=part.cost(per_row, Decimal(0)).epsilon, noise=noise)
    return UnitDraw(
        neighbours=request.neighbours,
        guarantee=noise.guarantee,
        spendings=(Spending(label="variation between units", epsilon=per_row),),
        figures=request.unit_figures,
        max_rows=part.max_rows,
        squares=tuple(noisy.tolist()),
        largest=tuple(one.largest for one in influences.values()),
        rows_squares=tuple(one.rows_square for one in influences.values()),
    )


def _by_statistic(request: ReleaseRequest) -> dict[Statistic, list[int]]:
    """The places of the figures of each statistic."""
    of_kind = {options.kind: options.statistics[0] for options in request.diagnostics}
    places: dict[Statistic, list[int]] = {}
    for place, (kind, _) in enumerate(request.unit_figures):
        places.setdefault(of_kind[kind], []).append(place)
    return places


def sampling_of(kind: str, request: ReleaseRequest, drawn: UnitDraw | None) -> Sampling:
    """How a kind's figures are sampled: by units, with the released variance between units if there is one."""
    if drawn is None:
        return Sampling(max_rows=request.rows_of_unit)
    stddev = stddev_of(len(drawn.figures), drawn.epsilon * drawn.max_rows)
    effects = {
        name: design_effect(
            noisy / UNIT_STEPS, stddev=stddev, largest=largest, rows_square=square, max_rows=request.rows_of_unit
        )
        for (of, name), noisy, largest, square in zip(
            drawn.figures, drawn.squares, drawn.largest, drawn.rows_squares, strict=True
        )
        if of == kind or name == AREA
    }
    return Sampling(max_rows=request.rows_of_unit, effects=effects)


def of_enough_units(result: Any, sampling: Sampling) -> Any:
    """A result; its intervals for a population are left out if its smaller class may have under ``FEWEST_UNITS`` units.

    The number of units is estimated as rows over the largest design effect of the figures. With fewer units, intervals
    from a normal approximation do not hold.
    """
    sizes = [size for name in ("positives", "negatives") if isinstance(size := getattr(result, name, None), float)]
    rows_of_one = max((effect.value for effect in sampling.effects.values()), default=float(sampling.max_rows))
    if sampling.max_rows == 1 or not sizes or min(sizes) >= FEWEST_UNITS * rows_of_one:
        return result
    return result.without_population()


def _in_words(name: str, options: Any) -> str:
    """The name of a figure whose variance was bought, with its threshold if it has one."""
    rate, _, place = name.partition("[")
    words = rate.replace("_", " ")
    return f"{words} at {options.thresholds[int(place[:-1])]:g}" if place else words


FEWEST_UNITS = 30
AREA = "auc"
"""The figure that all kinds of one request state alike."""
ALIKE = 0.7
"""The part of the largest possible design effect from which further rows of a unit are said to bring nothing."""


def about_populations(request: ReleaseRequest, drawn: UnitDraw | None) -> tuple[str, ...]:
    """Sentences on the population that rows are a sample of, and on how much each figure varies between units."""
    unit, rows = request.unit.column, request.rows_of_unit
    if unit is None or rows == 1:
        return ()
    sentences = [
        f"Figures are of the rows kept, at most {rows} of each {unit}: where one has more, the others are left out, "
        "and a figure of all rows may differ.",
        f"Intervals for a population take it that values of {unit} were sampled, independently, each with its rows. "
        f"A figure may then vary up to {rows} times as much as if rows had been sampled one by one"
        + (
            ", which these intervals allow for."
            if drawn is None
            else "; they allow for that, but for figures of which it was measured how much they vary."
        ),
    ]
    effects = {} if drawn is None else {kind: sampling_of(kind, request, drawn).effects for kind, _ in drawn.figures}
    options = {one.kind: one for one in request.diagnostics}
    for kind, name in () if drawn is None else drawn.figures:
        effect = effects[kind][name]
        measured = f"{'at most ' if effect.at_most else ''}{effect.value:.2g} times"
        alike = effect.value > ALIKE * rows and not effect.at_most
        further = (
            f": with max_rows: 1 its interval would be about as wide, for {rows} times less noise" if alike else ""
        )
        figure = f"{_in_words(name, options[kind])} of {kind}"
        sentences.append(f"The {figure} varies {measured} as much as of rows sampled one by one{further}.")
    return tuple(sentences)
