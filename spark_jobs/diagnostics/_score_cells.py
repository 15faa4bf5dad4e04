"""Noisy histograms that locate the scores of both classes, and the cells that they place."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
from scipy.special import expit

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.cells import NoisyCells, equal_depth, equal_log_odds, equal_width, log_odds, noisy_cells
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed

LOCATING_SHARE, LOCATING_SHARE_AT_LOW_SIGNAL = Decimal("0.03"), Decimal("0.15")
"""Shares of the budget for the first histogram, and for a second one of the same cells where that shows few rows."""
FIRST_CELLS, REFINED_CELLS = 24, 24
USUAL_REFINEMENTS, MAX_REFINEMENTS = 2, 3
REFINING_COST, REFINING_SHARES = 100, (0.04, 0.1)
"""A refined histogram counts the classes separately, so that a small class gets cells too. Its share of the budget is
this cost over the signal, which makes a 24th of the rows three standard deviations of noise, within these bounds."""
CROWDED_BELOW, CROWDED_BELOW_AT_LOW_SIGNAL = 10.0, 2.5
"""Effective numbers of cells in use (inverse of the sum of squared shares) below which a histogram is refined."""
FEW_STEPS = 16
"""Steps of the scale of scores below which cells are its values, and nothing is spent on where scores lie."""
APART, CLEAR_OF_NOISE = 0.9, 2.0
"""The share of the rows in cells that are apart from each other, and the standard deviations of noise beyond one from
which a cell has rows, for scores to count as a few values."""
MIN_SIGNAL, REFINING_SIGNAL, LARGE_SIGNAL = 100, 1_000, 3_000
"""Rows times epsilon from which a refined histogram is worth its cost: if very few cells are in use, if few are, and
always. The first refined histogram separates the classes, the second has cells for both."""
FINER_SIGNAL = 8_000
"""Rows times epsilon from which cells may be finer."""
FULL_GRID_SIGNAL = 300_000
"""Rows of the rarer class times epsilon from which a tree over the whole grid is as accurate as cells; it is also exact
about ties."""
GUESS_CENTRE, GUESS_WIDTH = -0.5, 1.2
"""Prior of the scores: a logistic distribution of their log-odds, which covers about 0.02 to 0.95."""


def takes_few_values(steps: int | None) -> bool:
    """Whether scores have so few possible values, by the request, that each value gets a cell."""
    return steps is not None and steps < FEW_STEPS


def auto_cuts(located: tuple[NoisyCells, ...], signal: float, grid: int, *, finer: int = 1) -> Int64Array:
    """The cells that ``auto`` counts: the whole grid if the rarer class is large, else cells of equal depth.

    Args:
        located: histograms that locate the scores.
        signal: rows times epsilon, estimated by the histograms.
        grid: number of fine cells.
        finer: the number of cells is multiplied by this if ``signal`` is at least ``FINER_SIGNAL``.

    Returns:
        Cuts of the grid.
    """
    rarer = signal * _rarer_share(located[-1])
    if rarer >= FULL_GRID_SIGNAL:
        return equal_width(grid, grid)
    cells = (finer if signal >= FINER_SIGNAL else 1) * cells_for(signal)
    if signal >= LARGE_SIGNAL:
        cells = max(cells, cells_for_rarer(rarer))
    return place_cells(located[-1], grid=grid, cells=min(cells, grid))


def place_cells(histogram: NoisyCells, *, grid: int, cells: int) -> Int64Array:
    """Place cells of equal depth, by the last histogram.

    A histogram of all rows is coarse, so a prior is added to its counts. The prior weighs as much as the noise in the
    histogram's total: if the noise exceeds the rows, the prior decides where the cells are.

    Args:
        histogram: noisy counts, of all rows or of each class.
        grid: number of fine cells.
        cells: number of cells to place, at most ``grid``.

    Returns:
        Cuts of the grid.
    """
    if histogram.counts.ndim > 1:
        return equal_depth(histogram.cuts, histogram.weights(), grid=grid, cells=cells, keep_edges=True)
    guess = np.diff(expit((log_odds(histogram.cuts, grid) - GUESS_CENTRE) / GUESS_WIDTH))
    weights = histogram.weights() + histogram.stddev * math.sqrt(guess.size) * guess / guess.sum()
    return equal_depth(histogram.cuts, weights, grid=grid, cells=cells)


def locate_scores(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, enough_signal: float = math.inf
) -> tuple[tuple[NoisyCells, ...], float]:
    """Noisy histograms that locate the scores of both classes, and an estimate of rows times epsilon.

    Privacy: each histogram counts disjoint cells, which earlier histograms placed; histograms compose sequentially.

    Args:
        counts: exact counts of both classes, shape (2, grid); private.
        meter: pays for the histograms.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        enough_signal: rows times epsilon from which one histogram is enough.
    """
    rounds, signal = locate_rows(counts.sum(axis=0), meter=meter, neighbours=neighbours, noise=noise)
    while (
        signal < enough_signal
        and _refinements(rounds) < MAX_REFINEMENTS
        and (_crowded(rounds[-1], signal) or (_refinements(rounds) < USUAL_REFINEMENTS and signal >= LARGE_SIGNAL))
    ):
        rounds += _refinement(counts, rounds[-1], signal, meter=meter, neighbours=neighbours, noise=noise)
    return rounds, signal


def locate_rows(
    rows: Int64Array,
    *,
    again: Decimal = LOCATING_SHARE_AT_LOW_SIGNAL,
    meter: BudgetMeter,
    neighbours: Neighbours,
    noise: Noise,
) -> tuple[tuple[NoisyCells, ...], float]:
    """Noisy histograms of all rows, and the signal (rows times epsilon) by the last one.

    If the first histogram shows a low signal, a second one counts the same cells again, with more budget.

    Privacy: each histogram counts disjoint cells that are public; they compose sequentially. Whether there is a second
    one depends on the noisy first one alone.

    Args:
        rows: exact counts of the fine cells, both classes together; private.
        again: share of the budget for the second histogram.
        meter: pays for the histograms.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    cuts = equal_log_odds(rows.size, min(FIRST_CELLS, rows.size))
    rounds: tuple[NoisyCells, ...] = ()
    for portion, once_more in ((LOCATING_SHARE, ""), (again, ", once more")):
        cost = meter.spend_share(portion, label=f"where the scores lie{once_more}")
        cells = noisy_cells(rows, cuts, epsilon=cost, neighbours=neighbours, noise=noise)
        rounds += (cells,)
        signal = max(cells.total, 1.0) * float(meter.granted.epsilon) / rows_changed(neighbours)
        if signal >= REFINING_SIGNAL:
            break
    return rounds, signal


def are_tied(located: tuple[NoisyCells, ...]) -> bool:
    """Whether the noisy histograms look as if scores take few values.

    There are two cases. In the first, every histogram has most of its rows in few cells. In the second, the last
    histogram that counts both classes together has nearly all rows in two or more cells, no two of which are
    neighbours, as for a model that answers yes or no. The second case is separate because a table of few rows has no
    further histogram.
    """
    return (_refinements(located) == MAX_REFINEMENTS and _crowded(located[-1], math.inf)) or _are_apart(located)


def _are_apart(located: tuple[NoisyCells, ...]) -> bool:
    """Whether nearly all rows are in two cells or more, none beside another, that have more than the noise."""
    of_all = [one for one in located if one.counts.ndim == 1]
    if not of_all:
        return False
    last = of_all[-1]
    clear = last.counts > (1.0 + CLEAR_OF_NOISE) * last.stddev
    beside = np.append(clear[1:], False) | np.append(False, clear[:-1])
    apart = clear & ~beside
    return bool(apart.sum() > 1 and last.counts[apart].sum() >= APART * last.total)


def _refinements(located: tuple[NoisyCells, ...]) -> int:
    """How many histograms separate the classes."""
    return sum(one.counts.ndim > 1 for one in located)


def cells_for(signal: float) -> int:
    """The number of cells that balances resolution against noise, which grows with the root of that number.

    Args:
        signal: rows times epsilon, both released.
    """
    return max(4, math.ceil(0.45 * math.pow(signal, 0.4)))


def cells_for_rarer(signal: float) -> int:
    """The number of cells that the rarer class supports; above ``cells_for`` of all rows where classes are balanced.

    Args:
        signal: rows of the rarer class times epsilon, both released.
    """
    return math.ceil(0.9 * math.sqrt(signal))


def _refinement(
    counts: Int64Array, last: NoisyCells, signal: float, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> tuple[NoisyCells, ...]:
    grid = counts.shape[1]
    cuts = equal_depth(last.cuts, last.weights(), grid=grid, cells=min(REFINED_CELLS, grid))
    portion = min(max(REFINING_COST / signal, REFINING_SHARES[0]), REFINING_SHARES[1])
    cost = meter.spend_share(round(portion, 6), label="where the scores of each class lie, closer")
    return (noisy_cells(counts, cuts, epsilon=cost, neighbours=neighbours, noise=noise),)


def _rarer_share(located: NoisyCells) -> float:
    """The rarer class's share of the rows, by a noisy histogram of both classes; 0 by one of all rows."""
    sizes = np.maximum(located.counts.sum(axis=-1), 0)
    return float(sizes.min() / max(sizes.sum(), 1)) if sizes.ndim else 0.0


def _crowded(cells: NoisyCells, signal: float) -> bool:
    if signal < MIN_SIGNAL:
        return False
    weights = cells.weights()
    if (weights[np.diff(cells.cuts) > 1] == 0).all():
        return False
    threshold = CROWDED_BELOW if signal >= REFINING_SIGNAL else CROWDED_BELOW_AT_LOW_SIGNAL
    return bool(weights.sum() ** 2 < threshold * (weights**2).sum())
