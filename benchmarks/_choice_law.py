"""The law of tables on which the automatic choices are judged: drawn at random, so that nobody tunes to a few shapes.

Points: a group of 30 to 100,000 rows or twenty groups of 30 to 2,000, log-uniform, in a box of width 1. x is uniform,
clustered, skewed or discrete; y is a line of any slope and height plus what its kind says, clipped to the box. Lines of
cells: 16 to 32,768 cells, with rows so that rows times epsilon is from 100 to 10^7, log-uniform; the shape of the rows
is uniform, smooth, skewed, gaps, atoms, or atoms on a smooth ground. Square grids of 4 to 128 cells a side have such
shapes along both axes, or along the diagonal. Epsilon is log-uniform from 0.1 to 10 for points, and 0.1 or 1 for cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array

ALONG = ("uniform", "clustered", "skewed", "discrete")
OUTCOMES = ("normal", "close to a line", "discrete", "binary", "skewed", "heavy tails", "outliers")
LINES = ("uniform", "smooth", "skewed", "gaps", "atoms", "atoms on a ground")
MIN_POWER, MAX_POWER = 4, 15
"""Of two: the numbers of cells of a line."""
SIDES = (4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, kw_only=True)
class DrawnPoints:
    """Points in groups, within the unit box.

    Attributes:
        along, outcome: the shapes of x and of y.
        x, y: of each row.
        group: of each row, from 0.
        groups: how many there are, all of one size.
        epsilon: of the release.
    """

    along: str
    outcome: str
    x: FloatArray
    y: FloatArray
    group: Int64Array
    groups: int
    epsilon: float

    @property
    def signal(self) -> float:
        """Rows of a group times epsilon."""
        return self.x.size / self.groups * self.epsilon


@dataclass(frozen=True, kw_only=True)
class DrawnCounts:
    """Counts of a line or a square grid of cells.

    Attributes:
        shape: of the rows; on a grid, of the rows along each axis.
        counts: rows in each cell.
        epsilon: of the release.
    """

    shape: str
    counts: Int64Array
    epsilon: float


def drawn_points(
    random: np.random.Generator,
    *,
    groups: int | None = None,
    signal: float | None = None,
    sizes: tuple[int, int] | None = None,
) -> DrawnPoints:
    """A table of points from the law, or with this number of groups and signal, and sizes of groups between these."""
    groups = int(random.choice([1, 20])) if groups is None else groups
    low, high = (30, 10**5 if groups == 1 else 2000) if sizes is None else sizes
    rows = int(10 ** random.uniform(np.log10(low), np.log10(high)))
    epsilon = round(float(10 ** random.uniform(-1, 1) if signal is None else signal / rows), 4)
    along, outcome = str(random.choice(ALONG)), str(random.choice(OUTCOMES))
    group = np.repeat(np.arange(groups), rows)
    x = _along(along, group.size, random)
    height, slope = random.uniform(0.2, 0.8), random.normal(0, 0.6)
    # groups have lines of their own about a common one
    heights = height + random.normal(0, 0.1, groups)
    slopes = slope + random.normal(0, 0.2, groups)
    line = heights[group] + slopes[group] * (x - 0.5)
    return DrawnPoints(
        along=along,
        outcome=outcome,
        x=x,
        y=np.clip(_outcome(outcome, line, random), 0, 1),
        group=group,
        groups=groups,
        epsilon=epsilon,
    )


def drawn_line(random: np.random.Generator, *, signal: float | None = None) -> DrawnCounts:
    """A line of counts from the law, or from the part of it with this number of rows times epsilon."""
    cells = 2 ** int(random.integers(MIN_POWER, MAX_POWER + 1))
    epsilon = float(random.choice([0.1, 1.0]))
    rows = int((10 ** random.uniform(2, 7) if signal is None else signal) / epsilon)
    shape = str(random.choice(LINES))
    chances = _chances(shape, cells, random)
    return DrawnCounts(shape=shape, counts=random.multinomial(rows, chances / chances.sum()), epsilon=epsilon)


def drawn_grid(random: np.random.Generator) -> DrawnCounts:
    """A square grid of counts from the law: the rows along the axes are independent, or lie along the diagonal."""
    side = int(random.choice(SIDES))
    epsilon = float(random.choice([0.1, 1.0]))
    rows = int(10 ** random.uniform(2, 7) / epsilon)
    shape = str(random.choice(LINES))
    chances = np.outer(_chances(shape, side, random), _chances(shape, side, random))
    if random.random() < 0.5:
        away = np.subtract.outer(np.arange(side), np.arange(side)) / side
        chances = chances * np.exp(-0.5 * (away / 10 ** random.uniform(-2, 0)) ** 2) + 1e-300
    drawn = random.multinomial(rows, (chances / chances.sum()).reshape(-1))
    return DrawnCounts(shape=shape, counts=drawn.reshape(side, side), epsilon=epsilon)


def _along(kind: str, rows: int, random: np.random.Generator) -> FloatArray:
    if kind == "clustered":
        centres = random.uniform(0.1, 0.9, int(random.integers(1, 4)))
        x = random.choice(centres, rows) + random.normal(0, random.uniform(0.02, 0.1), rows)
    elif kind == "skewed":
        x = random.lognormal(-2, random.uniform(0.4, 1.0), rows)
    elif kind == "discrete":
        levels = int(random.integers(2, 13))
        x = random.choice(np.arange(levels), rows, p=random.dirichlet(np.ones(levels))) / (levels - 1)
    else:
        x = random.random(rows)
    return np.asarray(np.clip(x, 0, 1))


def _outcome(kind: str, line: FloatArray, random: np.random.Generator) -> FloatArray:
    rows, spread = line.size, random.uniform(0.05, 0.3)
    if kind == "close to a line":
        spread = 10 ** random.uniform(-3, -1.5)
    if kind == "binary":
        return (random.random(rows) < line).astype(np.float64)
    if kind == "skewed":
        return np.asarray(line - spread + random.exponential(spread, rows))
    if kind == "heavy tails":
        return np.asarray(line + spread / 2 * random.standard_t(2, rows))
    y = line + random.normal(0, spread, rows)
    if kind == "discrete":
        steps = int(random.integers(2, 11))
        return np.asarray(np.round(np.clip(y, 0, 1) * steps) / steps)
    if kind == "outliers":
        far = random.random(rows) < random.uniform(0.01, 0.1)
        return np.where(far, random.choice([0.0, 1.0]), y)
    return np.asarray(y)


def _hills(at: FloatArray, random: np.random.Generator) -> FloatArray:
    """Four hills of any height and width over places from 0 to 1."""
    hills = np.full(at.shape, 1e-9)
    for _ in range(4):
        width = 10 ** random.uniform(-2, -0.5)
        hills += random.random() * np.exp(-0.5 * ((at - random.random()) / width) ** 2)
    return hills


def _chances(shape: str, cells: int, random: np.random.Generator) -> FloatArray:
    at = (np.arange(cells) + 0.5) / cells
    if shape == "uniform":
        return np.ones(cells)
    if shape == "skewed":
        return np.asarray(np.exp(-at * 10 ** random.uniform(0.5, 2)))
    smooth = _hills(at, random)
    if shape == "gaps":
        # an even half of stretches is empty
        stretches = min(cells, 2 ** int(random.integers(3, 7)))
        return smooth * np.repeat(random.random(stretches) < 0.5, cells // stretches) + 1e-12
    if shape == "smooth":
        return smooth
    atoms = np.zeros(cells)
    places = random.integers(0, cells, int(random.integers(2, max(3, min(60, cells // 4)))))
    atoms[places] = random.pareto(1.0, places.size) + 0.1
    if shape == "atoms":
        return atoms
    return np.asarray(smooth / smooth.sum() + atoms / atoms.sum())
