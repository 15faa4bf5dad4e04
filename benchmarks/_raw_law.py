"""The law of raw rows as people have them, from which the benchmark of honesty draws.

Numbers on a lattice: whole ages heaped at fives and tens, whole numbers, prices at .99, values of one to three
decimals. Atoms: a constant, two values, yes and no, one value with 30% of the rows. Tails: amounts with many zeros and
a long tail, times in seconds, identifiers. Smooth: values without ties. Scores: the same kinds between 0 and 1, and
tiny ones. Points: groups of 50 to 1,000 rows with x in a corner of its box, and an outcome that is yes or no, has few
values, is a whole number, or is smooth. Bounds are public and round; none follows from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Numbers = NDArray[np.float64]
Random = np.random.Generator

ROUND = (0.3, 0.5, 0.7)
"""Thresholds that people ask for."""
SCORE_FORMS = (
    "smooth",
    "one decimal",
    "two decimals",
    "three decimals",
    "tiny",
    "an atom",
    "two values",
    "yes or no",
    "constant",
)
OUTCOMES = ("yes or no", "few values", "whole numbers", "smooth")
GROUP_ROWS = (50, 1_000)


@dataclass(frozen=True, kw_only=True, eq=False)
class Values:
    """A column of numbers.

    Attributes:
        form: what kind of numbers they are.
        values: the rows.
        bounds: public.
        step: the distance of neighbouring values that the column may hold, if it is public; otherwise None.
    """

    form: str
    values: Numbers
    bounds: tuple[float, float]
    step: float | None


def _ages(rows: int, random: Random) -> Numbers:
    ages = np.round(np.clip(random.gamma(6.0, 8.0, rows), 0, 110))
    heaped = random.random(rows) < random.uniform(0.1, 0.5)
    return np.where(heaped, np.round(ages / 5) * 5, ages)


def _prices(rows: int, random: Random) -> Numbers:
    return np.clip(np.round(random.lognormal(3, 0.9, rows)) - 0.01, 0.99, 999.99)


def _decimals(places: int) -> Callable[[int, Random], Numbers]:
    return lambda rows, random: np.round(random.beta(2, 4, rows), places)


def _atom(rows: int, random: Random) -> Numbers:
    return np.where(random.random(rows) < 0.3, 65_000.0, random.uniform(0, 500_000, rows))


def _zeros(rows: int, random: Random) -> Numbers:
    return np.where(random.random(rows) < random.uniform(0.2, 0.7), 0.0, np.round(random.lognormal(6, 1.8, rows), 2))


def _times(rows: int, random: Random) -> Numbers:
    return np.round(1.7e9 + 86_400 * 180 * random.beta(2, 3, rows))


def _either(values: tuple[float, float]) -> Callable[[int, Random], Numbers]:
    return lambda rows, random: random.choice(values, rows, p=[share := random.uniform(0.05, 0.95), 1 - share])


FORMS: Mapping[str, tuple[Callable[[int, Random], Numbers], tuple[float, float], float | None]] = {
    "heaped ages": (_ages, (0, 120), 1.0),
    "whole numbers": (lambda rows, random: np.round(random.gamma(2.0, 90.0, rows)), (0, 1_000), 1.0),
    "prices": (_prices, (0, 1_000), 0.01),
    "one decimal": (_decimals(1), (0, 1), 0.1),
    "two decimals": (_decimals(2), (0, 1), 0.01),
    "three decimals": (_decimals(3), (0, 1), 0.001),
    "constant": (lambda rows, random: np.full(rows, float(random.integers(0, 100))), (0, 100), 1.0),
    "two values": (_either((3.0, 7.0)), (0, 10), 1.0),
    "yes or no": (_either((0.0, 1.0)), (0, 1), 1.0),
    "an atom": (_atom, (0, 500_000), None),
    "zeros and a tail": (_zeros, (0, 1_000_000), 0.01),
    "times": (_times, (1_577_836_800, 1_893_456_000), None),
    "identifiers": (lambda rows, random: random.integers(10**8, 10**9, rows).astype(float), (0, 10**9), 1.0),
    "smooth": (lambda rows, random: random.beta(*np.exp(random.normal(1, 0.7, 2)), rows), (0, 1), None),
    "smooth and skewed": (lambda rows, random: random.lognormal(3, 1, rows), (0, 1_000), None),
}
LATTICE = ("heaped ages", "whole numbers", "prices", "one decimal", "two decimals", "three decimals")
ATOMS = ("constant", "two values", "yes or no", "an atom")
TAILS = ("zeros and a tail", "times", "identifiers")
SMOOTH = ("smooth", "smooth and skewed")


def drawn_values(random: Random, *, rows: int, forms: tuple[str, ...]) -> Values:
    """A column of numbers of one of these forms, whose step is public half of the time."""
    form = str(random.choice(forms))
    draw, bounds, step = FORMS[form]
    public = random.random() < 0.5
    return Values(form=form, values=draw(rows, random), bounds=bounds, step=step if public else None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """Labels and scores of rows.

    Attributes:
        form: what kind of scores they are.
        labels, scores: the rows.
        threshold: one that people ask for.
        epsilon: of the release.
    """

    form: str
    labels: Numbers
    scores: Numbers
    threshold: float
    epsilon: str


def drawn_scores(random: Random, *, positives: int, forms: tuple[str, ...] = SCORE_FORMS) -> Scored:
    """A table with so many positives, whose scores are of one of these forms."""
    rate = float(np.exp(random.uniform(np.log(0.05), np.log(0.5))))
    rows, form = int(positives / rate), str(random.choice(forms))
    labels = (np.arange(rows) < positives).astype(np.float64)
    apart = float(random.uniform(0.5, 2.2))
    latent = random.normal(0, 1, rows) + apart * labels
    odds = logit(rate) + apart * (latent - apart / 2) + float(random.normal(0, 0.4))
    threshold = float(random.choice(ROUND))
    scores = expit(odds)
    if form.endswith(("decimal", "decimals")):
        scores = np.round(scores, ("one", "two", "three").index(form.split()[0]) + 1)
    elif form == "tiny":
        size = 10.0 ** -int(random.integers(4, 7))
        scores, threshold = scores * size, threshold * size
    elif form == "an atom":
        scores = np.where(random.random(rows) < 0.3, 0.3, scores)
    elif form == "two values":
        scores = np.where(scores >= threshold, 0.7, 0.2)
    elif form == "yes or no":
        scores = (scores >= rate).astype(np.float64)
    elif form == "constant":
        scores = np.full(rows, 0.5)
    epsilon = str(random.choice(["0.5", "1", "2", "4"]))
    return Scored(form=form, labels=labels, scores=scores, threshold=threshold, epsilon=epsilon)


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """Rows of groups in a box.

    Attributes:
        outcome: what kind of numbers y are.
        x, y: of each row.
        group: of each row, from 0.
        groups: how many.
        x_bounds, y_bounds: public.
    """

    outcome: str
    x: Numbers
    y: Numbers
    group: NDArray[np.int64]
    groups: int
    x_bounds: tuple[float, float]
    y_bounds: tuple[float, float]


def drawn_groups(random: Random, *, groups: int, rows: int) -> Points:
    """Groups of about so many rows, whose x lie in a corner of its box as often as not."""
    outcome = str(random.choice(OUTCOMES))
    sizes = np.maximum(random.poisson(rows, groups), 2)
    group = np.repeat(np.arange(groups), sizes)
    corner, x_bounds = random.random() < 0.5, (0.0, 100.0)
    x = random.gamma(4.0, 2.0, group.size) if corner else random.uniform(*x_bounds, group.size)
    x = np.clip(np.round(x, int(random.integers(0, 3))), *x_bounds)
    centred = (x - x.mean()) / max(float(x.std()), 1e-9)
    height, slope = random.uniform(0.25, 0.75), random.normal(0, 0.1)
    level = height + random.normal(0, 0.08, groups)[group]
    place = level + (slope + random.normal(0, 0.05, groups)[group]) * centred
    spread = random.uniform(0.05, 0.15)
    noisy = np.clip(place + random.normal(0, spread, group.size), 0, 1)
    y, y_bounds = {
        "yes or no": (lambda: (random.random(group.size) < place).astype(np.float64), (0.0, 1.0)),
        "few values": (lambda: np.round(noisy * 5), (0.0, 5.0)),
        "whole numbers": (lambda: np.round(noisy * 100), (0.0, 100.0)),
        "smooth": (lambda: noisy, (0.0, 1.0)),
    }[outcome]
    return Points(outcome=outcome, x=x, y=y(), group=group, groups=groups, x_bounds=x_bounds, y_bounds=y_bounds)


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Columns of numbers and an outcome, each with public bounds.

    Attributes:
        columns: the features, by name.
        outcome: of each row.
        bounds: of each feature, and of the outcome as the last.
    """

    columns: Mapping[str, Numbers]
    outcome: Numbers
    bounds: tuple[tuple[float, float], ...]


def drawn_fit(random: Random, *, rows: int) -> Table:
    """Ages, prices, numbers of a decimal and smooth ones; the outcome is whole, has few values or is smooth."""
    forms = random.choice(["heaped ages", "prices", "one decimal", "smooth"], int(random.integers(1, 4)), replace=False)
    columns = {f"x{place}": FORMS[str(form)][0](rows, random) for place, form in enumerate(forms)}
    bounds = [(float(low), float(high)) for low, high in (FORMS[str(form)][1] for form in forms)]
    standard = [(one - one.mean()) / one.std() for one in columns.values()]
    place = 0.5 + 0.08 * sum(random.normal(0, 1) * one for one in standard) + random.normal(0, 0.1, rows)
    steps = int(random.choice([5, 60, 10**6]))
    outcome = np.round(np.clip(place, 0, 1) * steps)
    return Table(columns=columns, outcome=outcome, bounds=(*bounds, (0.0, float(steps))))


def drawn_residuals(random: Random, *, rows: int) -> tuple[Numbers, Numbers]:
    """Fitted values and residuals of outcomes that are whole numbers, have few values, or are smooth."""
    kind = str(random.choice(["whole numbers", "few values", "cents", "smooth"]))
    size = float(10 ** random.uniform(0.5, 2.5))
    fitted = random.uniform(0.2, 1.0, rows) * size
    outcome = fitted + random.normal(0, size * random.uniform(0.05, 0.3), rows)
    if kind == "whole numbers":
        fitted, outcome = np.round(fitted), np.round(outcome)
    elif kind == "few values":
        step = size / 5
        fitted, outcome = np.round(fitted / step) * step, np.round(outcome / step) * step
    elif kind == "cents":
        fitted, outcome = np.round(fitted), np.round(outcome, 2)
    return fitted, outcome - fitted
