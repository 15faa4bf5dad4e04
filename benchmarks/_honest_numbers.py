"""One release of a table of numbers, and the intervals that it shows: distributions, lines, residuals, fits.

Each function draws a table with a stated number of rows times epsilon, and releases it. Where a release has several
intervals of a kind, one is chosen at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks._choice_law import DrawnPoints, drawn_line, drawn_points
from benchmarks._exact import line
from benchmarks._residual_models import UNIT, drawn_model
from benchmarks._shown import LEVEL, Intervals, Shown, in_cells, noise_of, shown_at, shown_of, worst_of
from benchmarks.logistic_law import drawn_linear, drawn_table
from benchmarks.residual_plot import exact_figures
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.options import ReferenceDistribution
from spark_jobs.contract.options.linear import CELLS_OF_SUMS
from spark_jobs.diagnostics import (
    cdf_points,
    ecdf,
    linear_fit,
    linear_regression,
    logistic_fit,
    quantile,
    residual_plot,
)
from spark_jobs.diagnostics.ecdf.distance import reference_cdf
from spark_jobs.diagnostics.residual_plot.effects import EFFECTS, effect_sizes
from spark_jobs.diagnostics.residual_plot.measurement import ResidualDraw
from spark_jobs.diagnostics.residual_plot.offsets import in_units, sums_of_offsets
from spark_jobs.diagnostics.residual_plot.summary import pools_of
from spark_jobs.statistics import Moments, ResidualCounts, ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid

MANY_GROUPS = 20
SMALL = (8, 31)
"""Rows of a small group: 8 to 30."""
ROWS = (200, 1_000, 5_000, 20_000)
"""Rows times epsilon of a table, or of a group."""
FITTED_ROWS = (2_000, 10_000, 50_000, 250_000)
MOVED = 8
"""Values move by up to this part of their range."""
QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
WIDE: Mapping[str, Any] = {"lower": -(2.0**44), "upper": 2.0**44, "scale": "log", "unit": 2.0**-20, "cells": 2**18}
POPULATION = 400_000
"""Rows that stand for a population."""


def of_values(random: np.random.Generator, signal: float) -> Intervals:
    """A distribution function on public bounds, and one quantile."""
    table = drawn_line(random, signal=signal)
    statistic = ValueCounts(counts=table.counts, grid=ValueGrid(lower=0, upper=1, cells=table.counts.size))
    terms: dict[str, Any] = {"epsilon": table.epsilon, "confidence": LEVEL}
    whole = ecdf.release(statistic, quantiles=QUANTILES, noise=noise_of(random), **terms)
    exact = np.cumsum(table.counts) / table.counts.sum()
    level = float(random.choice(QUANTILES))
    place = float(statistic.grid.edges[np.searchsorted(exact, level - 1e-12)])
    cell = int(random.integers(exact.size - 1))
    shown: Intervals = dict.fromkeys(("ecdf: a fraction", "ecdf: all fractions", "ecdf: a quantile", "quantile"))
    if whole.status == "ok":
        shown["ecdf: a fraction"] = shown_at(cell, (whole.cdf, *whole.function.ends()), exact)
        band = tuple(line[:-1] for line in (whole.cdf, *whole.function.ends("everywhere")))
        shown["ecdf: all fractions"] = worst_of(band, exact[:-1])
        shown["ecdf: a quantile"] = _quantile(whole, level, place)
    one = quantile.release(statistic, level=level, noise=noise_of(random), **terms)
    if one.value is not None and one.interval is not None:
        shown["quantile"] = in_cells(statistic.grid.edges[:-1], one.value, one.interval, place)
    return shown


def of_distances_of_functions(random: np.random.Generator, signal: float) -> Intervals:
    """The Kolmogorov-Smirnov distance from a reference, and from a release of other rows whose values have moved."""
    table = drawn_line(random, signal=signal)
    size, rows = table.counts.size, int(table.counts.sum())
    grid = ValueGrid(lower=0, upper=1, cells=size)
    moved = np.roll(table.counts, int(random.integers(-(size // MOVED), size // MOVED + 1)))
    share = random.random()
    chances = ((1 - share) * table.counts + share * moved) / rows
    others = random.multinomial(int(rows * np.exp(random.uniform(-1, 1))), chances)
    reference = _reference_near(np.average(grid.edges[1:], weights=table.counts), random)
    terms: dict[str, Any] = {"epsilon": table.epsilon, "confidence": LEVEL}
    one, other = (
        ecdf.release(ValueCounts(counts=counts, grid=grid), noise=noise_of(random), reference=of, **terms)
        for counts, of in ((table.counts, reference), (others, None))
    )
    shown: Intervals = dict.fromkeys(("ecdf: distance from a reference", "ecdf: distance of two releases"))
    exact, exact_other = (np.cumsum(counts) / counts.sum() for counts in (table.counts, others))
    if one.distance is not None:
        expected = np.append(reference_cdf(ReferenceDistribution(**reference))(grid.edges[1:-1]), 1.0)
        shown["ecdf: distance from a reference"] = shown_of(
            one.distance.value, one.distance.interval, float(np.abs(exact - expected).max())
        )
    apart = ecdf.distance_between(one, other, seed=int(random.integers(2**62)))
    shown["ecdf: distance of two releases"] = shown_of(
        apart.value, apart.interval, float(np.abs(exact - exact_other).max())
    )
    return shown


def _reference_near(mean: float, random: np.random.Generator) -> dict[str, Any]:
    """A reference distribution that is more or less like values in [0, 1] with this mean."""
    kind = str(random.choice(["uniform", "normal", "exponential", "lognormal"]))
    near = float(np.clip(mean * np.exp(random.normal(0, 0.2)), 0.01, 1))
    spread = float(10 ** random.uniform(-1.3, 0))
    parameters = {
        "uniform": (0.0, 1.0),
        "normal": (near, spread),
        "exponential": (near,),
        "lognormal": (float(np.log(near)), spread),
    }
    return {"distribution": kind, "parameters": parameters[kind]}


def of_points_of_a_function(random: np.random.Generator, signal: float) -> Intervals:
    """The fraction below a threshold, and a quantile, from a number of paid evaluations."""
    table = drawn_line(random, signal=signal)
    statistic = ValueCounts(counts=table.counts, grid=ValueGrid(lower=0, upper=1, cells=table.counts.size))
    edges, exact = statistic.grid.edges, np.cumsum(table.counts) / table.counts.sum()
    level, cell = float(random.choice(QUANTILES)), int(random.integers(1, exact.size))
    released = cdf_points.release(
        statistic,
        thresholds=[float(edges[cell])],
        quantiles=[level],
        epsilon=table.epsilon,
        confidence=LEVEL,
        noise=noise_of(random),
    )
    shown: Intervals = dict.fromkeys(("cdf_points: a fraction", "cdf_points: a quantile"))
    if released.status == "ok":
        shown["cdf_points: a fraction"] = shown_at(
            0, (released.cdf.value, *released.cdf.ends()), exact[cell - 1 : cell]
        )
        [one] = released.quantiles
        place = float(edges[np.searchsorted(exact, level - 1e-12)])
        if one.value is not None:
            shown["cdf_points: a quantile"] = in_cells(edges[:-1], one.value, one.figure.ends(), place)
    return shown


def of_values_without_bounds(random: np.random.Generator, signal: float) -> Intervals:
    """A quantile of a distribution function whose bounds are found privately."""
    epsilon = float(random.choice([0.1, 1.0]))
    points = drawn_points(random, groups=1, signal=signal)
    values = random.choice(points.y, int(signal / epsilon)) * 10 ** random.uniform(-2, 6) + random.normal(0, 100)
    statistic = ValueCounts.from_arrays(values, **WIDE)
    spacing = str(random.choice(["linear", "log"]))
    noise = noise_of(random)
    whole = ecdf.release(
        statistic, epsilon=epsilon, find_bounds=spacing, quantiles=QUANTILES, confidence=LEVEL, noise=noise
    )
    if whole.status != "ok":
        return {"ecdf: a quantile, bounds found": None}
    level = float(random.choice(QUANTILES))
    exact = np.cumsum(statistic.counts) / statistic.total
    place = float(statistic.grid.edges[np.searchsorted(exact, level - 1e-12)])
    if whole.bounds[0] <= place < whole.bounds[1]:  # values are rounded down to the cells between the bounds
        place = float(whole.values[np.searchsorted(whole.values, place, side="right") - 1])
    return {"ecdf: a quantile, bounds found": _quantile(whole, level, place)}


def of_points(random: np.random.Generator, signal: float) -> Intervals:
    """The line through one group, and through one of many."""
    shown: Intervals = {}
    for groups in (1, MANY_GROUPS):
        name = f", {groups} groups" if groups > 1 else ""
        shown |= _line(name, drawn_points(random, groups=groups, signal=signal), random)
    return shown


def of_small_groups(random: np.random.Generator, groups: float) -> Intervals:
    """The line through one of many small groups, whose intervals hold at their level on average."""
    return _line(", small groups", drawn_points(random, groups=int(groups), sizes=SMALL), random)


def _line(name: str, table: DrawnPoints, random: np.random.Generator) -> Intervals:
    """A height of a line, its slope and its intercept, rows added or removed; exact of the rows themselves."""
    keys = None if table.groups == 1 else [str(group) for group in range(table.groups)]
    labels = None if keys is None else table.group.astype(str)
    sums = Moments.from_arrays(
        table.x, table.y, groups=labels, keys=keys, lower=(0, 0), upper=(1, 1), cells=CELLS_OF_SUMS
    )
    fit = linear_regression.release(
        sums, epsilon=table.epsilon, method="noisy_moments", confidence=LEVEL, noise=noise_of(random)
    )
    group, end = int(random.integers(table.groups)), int(random.integers(2))
    own = table.group == group
    steep, level = line(table.x[own], table.y[own])
    shown: Intervals = {}
    for figure, field, at, true in (
        ("a height", "predictions", (group, end), float(np.clip(level + steep * float(fit.x[end]), 0, 1))),
        ("a slope", "slope", group, steep),
        ("an intercept", "intercept", group, level),
    ):
        value, low, high = (float(values[at]) for values in (getattr(fit, field).value, *getattr(fit, field).ends()))
        whole = float(figure == "a height" and low <= 0 and high >= 1)
        one = Shown(value=value, low=low, high=high, exact=true, whole=whole)
        shown[f"linear_regression: {figure}{name}"] = one if np.isfinite([value, low, high, true]).all() else None
    return shown


def of_residuals(random: np.random.Generator, signal: float) -> Intervals:
    """Trend, spread, quantiles and effects of a residual plot."""
    epsilon = float(random.choice([0.5, 1.0, 2.0]))
    model = drawn_model(random)
    statistic = ResidualCounts.from_arrays(*model(int(signal / epsilon), random), unit=UNIT)
    noise = noise_of(random)
    draw = residual_plot.measure(statistic, epsilon=epsilon, confidence=LEVEL, noise=noise)
    seed = int(random.integers(2**62))
    plot = residual_plot.summarise(draw, seed=seed)
    along = {
        "residual_plot: a mean": "trend",
        "residual_plot: a spread": "spread",
        "residual_plot: a quantile": "qq_residual",
    }
    shown: Intervals = dict.fromkeys((*along, *(f"residual_plot: {name}, population" for name in EFFECTS)))
    if plot.status != "ok":
        return shown
    for (name, field), exact in zip(along.items(), exact_figures(draw, statistic, seed=seed), strict=True):
        figure = getattr(plot, field)
        ends = (figure.value, *figure.ends())
        shown[name] = shown_at(int(random.integers(figure.value.size)), ends, exact * draw.unit)
    population = ResidualCounts.from_arrays(*model(POPULATION, random), unit=UNIT)
    for name, true in zip(EFFECTS, population_effects(draw, population), strict=True):
        shown[f"residual_plot: {name}, population"] = shown_of(
            getattr(plot, name).value, getattr(plot, name).interval, float(true)
        )
    return shown


def population_effects(draw: ResidualDraw, population: ResidualCounts) -> FloatArray:
    """The effect sizes of a population in the box and the pools of a draw, in the order of ``EFFECTS``."""
    starts = pools_of(draw)[0]
    own = np.maximum(draw.cells[1:-1].sum(axis=1), 1e-9)
    middles = (draw.box.fitted[1:] + draw.box.fitted[:-1]) / 2
    at = np.add.reduceat(own * middles, starts) / np.add.reduceat(own, starts)
    pooled, cells = (
        np.add.reduceat(table[1:-1], starts, axis=0)
        for table in (draw.cells, draw.box.counts(population).astype(np.float64))
    )
    offsets = np.add.reduceat(in_units(sums_of_offsets(population, draw.box), draw.box), starts)
    sizes = effect_sizes(cells, at, pooled.sum(axis=-1), draw.box.residual, offsets)
    return np.append(sizes[:3] * [draw.unit, 1, draw.unit], np.exp(sizes[3]))


def of_linear_fits(random: np.random.Generator, signal: float) -> Intervals:
    """A coefficient of a linear fit of several variables, and R^2."""
    table = drawn_linear(random, others=POPULATION // 2)
    epsilon = signal / table.labels.size
    released = linear_fit.release(table.rows, epsilon=epsilon, confidence=LEVEL, noise=noise_of(random))
    names = ("linear_fit: a slope", "linear_fit: a slope, population", "linear_fit: R2", "linear_fit: R2, population")
    shown: Intervals = dict.fromkeys(names)
    if released.status == "ok":
        shown |= _slopes(names, released, table, random)
        low, high = released.r_squared.ends()
        fitted = table.matrix @ table.likeliest
        exact = 1 - float(((table.labels - fitted) ** 2).mean() / table.labels.var())
        if np.isfinite(low):
            value = released.r_squared.value
            ends = released.r_squared.ends("population")
            shown[names[2]] = shown_of(value, (low, high), exact)
            shown[names[3]] = shown_of(value, ends, table.explained)
    return shown


def of_logistic_fits(random: np.random.Generator, signal: float) -> Intervals:
    """A coefficient of a logistic fit."""
    table = drawn_table(int(random.integers(2**31)))
    epsilon = signal / table.labels.size
    released = logistic_fit.release(table.rows, epsilon=epsilon, confidence=LEVEL, noise=noise_of(random))
    names = ("logistic_fit: a slope", "logistic_fit: a slope, population")
    shown: Intervals = dict.fromkeys(names)
    return shown | _slopes(names, released, table, random) if released.status == "ok" else shown


def _slopes(names: tuple[str, ...], released: Any, table: Any, random: np.random.Generator) -> Intervals:
    place = int(random.integers(1, released.coefficients.value.size))
    noise = (released.coefficients.value, *released.coefficients.ends())
    population = (released.coefficients.value, *released.coefficients.ends("population"))
    return {
        names[0]: shown_at(place, noise, table.likeliest),
        names[1]: shown_at(place, population, table.truth),
    }


def _quantile(whole: ecdf.Ecdf, level: float, exact: float) -> Shown:
    low, high = (float(end) for end in whole.quantile_interval(level))
    return in_cells(whole.values, float(whole.quantile(level)), (low, high), exact)
